"""What a ledger records of a release, and how it shows it."""

import datetime
import json
import sys

import numpy as np
import pandas as pd
import pytest

from skdpsco.privacy import Charge, GaussianEvent, Ledger, NoOpEvent, RepeatedEvent, ZCDPEvent

NAN, INF = float("nan"), float("inf")


# --- parameters


class Lines:
    def __repr__(self):
        return "line\n" * 10**5


PARAMETERS = {
    "none": (None, None),
    "bool": (True, True),
    "int": (3, 3),
    "large int": (2**63, str(2**63)),
    "float": (0.5, 0.5),
    "NaN": (NAN, "nan"),
    "inf": (INF, "inf"),
    "str": ("auto", "auto"),
    "long str": ("x" * 10**6, "x" * 197 + "..."),
    "surrogate": ("\ud800", "\\ud800"),
    "numpy": (np.float64(0.5), 0.5),
    "array": (np.arange(3.0), "array([0., 1., 2.])"),
    "list": ([1.0] * 10**6, "[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, ...]"),
    "lines": (Lines(), ("line " * 50)[:197] + "..."),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters(name):
    value, expected = PARAMETERS[name]
    ledger = Ledger(1.0, 1e-6)
    ledger.charge(NoOpEvent(), parameters={name: value})
    assert ledger.charges()[0].parameters == {name: expected}


class Bad:
    def __repr__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    "value",
    [Bad(), 10**5000, np.zeros((999, 999)), pd.DataFrame(np.ones((99, 99))), "\ud800" * 999],
    ids=["bad repr", "int", "array", "frame", "surrogates"],
)
def test_everything_is_recorded_in_short(value):
    ledger = Ledger(1.0, 1e-6)
    ledger.charge(NoOpEvent(), "\ud800" * 99, {"a": value, "b": [value] * 99, "k" * 999: "", 3: ""})
    (charge,) = ledger.charges()
    assert len(charge.parameters) == 4
    assert all(len(text) <= 200 for item in charge.parameters.items() for text in item)
    assert len(charge.estimator) <= 200


def test_deep_events_are_recorded_in_short():
    ledger = Ledger(1.0, 1e-6)
    event = GaussianEvent(100.0)
    for _ in range(2 * sys.getrecursionlimit()):
        event = RepeatedEvent(event, 1)
    ledger.charge(event)
    (charge,) = ledger.charges()
    assert charge.rho == 0.5e-4
    assert len(charge.event) <= 1000


# --- views


@pytest.fixture
def ledger():
    """Two charges to all records, two to one part and one to another."""
    ledger = Ledger(1.0, 1e-6, dataset="census")
    ledger.charge(ZCDPEvent(ledger.rho / 10), "First", {"radius": 1.0})
    with ledger.parallel(2) as parts:
        parts[0].charge(ZCDPEvent(ledger.rho / 10), "Second")
        ledger.charge(ZCDPEvent(ledger.rho / 10), "Third")
        parts[0].charge(ZCDPEvent(ledger.rho / 10), "Fourth")
        parts[1].charge(ZCDPEvent(ledger.rho / 5))
    return ledger


def test_charges(ledger):
    charges = ledger.charges()
    assert all(type(charge) is Charge for charge in charges)
    assert [charge.estimator for charge in charges] == ["First", "Second", "Third", "Fourth", ""]
    assert [charge.part for charge in charges] == [None, "1:0", None, "1:0", "1:1"]
    times = [datetime.datetime.fromisoformat(charge.time) for charge in charges]
    now = datetime.datetime.now(datetime.timezone.utc)
    assert times == sorted(times)
    assert now - datetime.timedelta(minutes=1) < times[0] <= times[-1] <= now
    assert {len(charge.time) for charge in charges} == {32}  # pandas wants one format


def test_history(ledger):
    frame = ledger.history()
    assert list(frame.columns) == list(Charge._fields)
    assert str(frame["time"].dt.tz) == "UTC"
    assert frame["rho"].tolist() == [charge.rho for charge in ledger.charges()]
    assert frame["parameters"][0] == {"radius": 1.0}
    assert frame["part"].isna().tolist() == [True, False, True, False, False]


def test_history_at_a_full_second(ledger, monkeypatch):
    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2025, 1, 1, tzinfo=tz)

    monkeypatch.setattr("skdpsco.privacy.ledger.datetime", Clock)
    ledger.charge(NoOpEvent())
    assert ledger.history()["time"].iloc[-1] == pd.Timestamp("2025-01-01", tz="UTC")


def test_empty_history():
    frame = Ledger(1.0, 1e-6).history()
    assert frame.empty
    assert list(frame.columns) == list(Charge._fields)
    assert str(frame["time"].dt.tz) == "UTC"


def test_json(ledger):
    content = json.loads(ledger.to_json())
    assert content["dataset"] == "census"
    assert content["relation"] == "replace-one"
    assert (content["epsilon"], content["delta"], content["rho"]) == (1.0, 1e-6, ledger.rho)
    assert content["remaining"] == ledger.remaining()._asdict()
    assert content["charges"] == [charge._asdict() for charge in ledger.charges()]
    assert content["schema"] == 3


@pytest.mark.parametrize("module", ["pandas", "matplotlib.pyplot"])
def test_views_without_their_packages(ledger, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=f"pip install {module.split('.')[0]}"):
        ledger.history() if module == "pandas" else ledger.plot()
    assert len(ledger.charges()) == 5


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def test_plot(ledger, pyplot):
    ax = ledger.plot()
    bars = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in ax.patches]
    # In tenths of the budget. The second part starts where the first has, plus "Third".
    expected = [(0, 1), (1, 2), (2, 3), (3, 4), (2, 4)]
    np.testing.assert_allclose(bars, np.array(expected) * ledger.rho / 10)
    assert max(top for _, top in bars) == pytest.approx(ledger.rho - ledger.remaining().rho)
    assert ax.lines[0].get_ydata()[0] == ledger.rho
    names = [label.get_text() for label in ax.get_xticklabels()]
    assert names == ["First", "Second", "Third", "Fourth", "release"]
    ax.figure.canvas.draw()


@pytest.mark.parametrize("n", [0, 1, 100])
def test_plot_of_few_and_many_charges(n, pyplot):
    ledger = Ledger(1.0, 1e-6)
    for _ in range(n):
        ledger.charge(ZCDPEvent(1e-4))
    _, ax = pyplot.subplots()
    assert ledger.plot(ax) is ax
    assert len(ax.patches) == n
    assert len(ax.get_xticklabels()) < 50
    ax.figure.canvas.draw()
