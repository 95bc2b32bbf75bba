"""What a ledger records of a release, and how it shows it."""

import datetime
import json
import os
import sqlite3
import sys
import time

import numpy as np
import pandas as pd
import pytest
from cases import each

from skdpsco.model_selection._allotment import ledger_of
from skdpsco.preprocessing import PrivateStandardScaler
from skdpsco.privacy import (
    Budget,
    Charge,
    GaussianEvent,
    Ledger,
    NoOpEvent,
    RepeatedEvent,
    ZCDPEvent,
)  # fmt: skip
from skdpsco.privacy.accounting import zcdp_delta, zcdp_epsilon
from skdpsco.privacy.relations import WITHIN_GROUPS

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


@each("name", PARAMETERS)
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


COLUMNS = ["time", "estimator", "parameters", "rho", "epsilon", "part", "relation"]


def test_history(ledger):
    frame = ledger.history()
    assert list(frame.columns) == COLUMNS
    assert str(frame["time"].dt.tz) == "UTC"
    assert frame["rho"].tolist() == [charge.rho for charge in ledger.charges()]
    assert frame["parameters"][0] == "radius=1.0"
    assert frame["part"].isna().tolist() == [True, False, True, False, False]


def test_epsilon_is_that_of_all_charges_until_then(ledger):
    """In tenths of the budget's rho; the second part is charged for what exceeds the first."""
    expected = [zcdp_epsilon(k * ledger.rho / 10, 1e-6) for k in (1, 2, 3, 4, 4)]
    assert ledger.history()["epsilon"].tolist() == pytest.approx(expected, rel=1e-9)
    assert ledger.history()["epsilon"].iloc[-1] == ledger.spent().epsilon
    assert ledger.spent().rho + ledger.remaining().rho == pytest.approx(ledger.rho, rel=1e-12)


def test_spent_is_what_holds_for_all_charges():
    ledger = Ledger(1.0, 1e-6)
    assert ledger.spent() == (0.0, 1e-6, 0.0)
    for _ in range(3):
        ledger.charge(ZCDPEvent(ledger.rho / 3))
    assert 1.0 - 1e-8 < ledger.spent().epsilon <= 1.0
    assert zcdp_delta(ledger.spent().rho, 1.0) <= 1e-6 * (1 + 1e-6)
    assert ledger.remaining().epsilon == 0.0


def test_export(ledger, tmp_path):
    ledger.export(tmp_path / "a.csv")
    rows = pd.read_csv(tmp_path / "a.csv")
    frame = ledger.to_frame()
    assert list(rows.columns) == list(frame.columns) == [*COLUMNS[:3], "event", *COLUMNS[3:]]
    assert rows["epsilon"].tolist() == pytest.approx(frame["epsilon"].tolist(), rel=1e-12)
    assert [json.loads(words) for words in rows["parameters"]] == frame["parameters"].tolist()
    ledger.export(str(tmp_path / "a.JSON"))
    assert (tmp_path / "a.JSON").read_text("utf-8") == ledger.to_json()


def test_export_elsewhere_is_refused(tmp_path):
    ledger = Ledger(1.0, 1e-6, path=tmp_path / "own.csv")
    other = Ledger(1.0, 1e-6, path=tmp_path / "other.json")
    os.link(tmp_path / "own.csv", tmp_path / "hard.csv")
    os.symlink(tmp_path / "own.csv", tmp_path / "soft.csv")
    names = dict.fromkeys(("own.csv", "other.json", "hard.csv", "soft.csv"), "of a ledger")
    for name, match in {**names, "a.xlsx": ".csv or .json"}.items():
        for one in (ledger, Ledger(1.0, 1e-6)):
            with pytest.raises(ValueError, match=match):
                one.export(tmp_path / name)
    assert ledger.charges() == other.charges() == []


# --- representations


def test_representations_say_what_is_left(tmp_path):
    ledger = Ledger(3.0, 1e-6, path=tmp_path / "l.db", dataset="<b>")
    ledger.charge(ZCDPEvent(Budget(0.5, 1e-6).rho))
    ledger.charge(ZCDPEvent(Budget(0.5, 1e-6).rho))
    assert "; spent epsilon=0.7233 (rho=0.01328), left epsilon=2.88 (rho=0.1718))" in repr(ledger)
    html = ledger._repr_html_()
    assert "&lt;b&gt;" in html
    for cell in ("0.7233", "0.01328", "2.88", "0.1718", "replace-one", "2", str(ledger.path)):
        assert f">{cell}<" in html
    ledger.charge(NoOpEvent(), relation=WITHIN_GROUPS)
    assert f"relation={WITHIN_GROUPS!r}" in repr(ledger)
    assert f"{WITHIN_GROUPS}: weakened by a charge" in ledger._repr_html_()


def test_representations_neither_fail_nor_wait(tmp_path):
    ledger = Ledger(3.0, 1e-6, path=tmp_path / "l.db")
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    start = time.monotonic()
    assert repr(ledger).endswith("; its file cannot be read now)")
    assert time.monotonic() - start < 10.0
    other.execute("ROLLBACK")
    other.close()
    assert "left epsilon=3 " in repr(ledger)
    (tmp_path / "l.db").write_bytes(b"damage" * 999)
    assert "cannot be read" in repr(ledger)
    assert "cannot be read" in ledger._repr_html_()


# --- equality


def test_ledgers_are_equal_on_one_file_and_data_set(tmp_path):
    first = Ledger(1.0, 1e-6, path=tmp_path / "l.db")
    (tmp_path / "link.db").symlink_to(tmp_path / "l.db")
    same = Ledger.open(tmp_path / "link.db")
    other = Ledger(1.0, 1e-6, path=tmp_path / "l.db", dataset="other")
    assert first == same
    assert hash(first) == hash(same)
    assert first != other
    assert len({first, same, other}) == 2
    assert Ledger(1.0, 1e-6) != Ledger(1.0, 1e-6)
    with first.parallel(2) as parts, same.parallel(2) as more:
        assert len({first, *parts, *more}) == 5
    assert ledger_of([], first) is first
    assert ledger_of([PrivateStandardScaler(ledger=same)], first) is first


def test_json(ledger):
    content = json.loads(ledger.to_json())
    assert content["dataset"] == "census"
    assert content["relation"] == "replace-one"
    assert (content["epsilon"], content["delta"], content["rho"]) == (1.0, 1e-6, ledger.rho)
    assert content["remaining"] == ledger.remaining()._asdict()
    assert content["spent"] == ledger.spent()._asdict()
    assert content["charges"] == [charge._asdict() for charge in ledger.charges()]
    assert content["schema"] == 1


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
    ax = ledger.plot(unit="rho")
    bars = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in ax.patches]
    # In tenths of the budget. The second part starts where the first has, plus "Third".
    expected = [(0, 1), (1, 2), (2, 3), (3, 4), (2, 4)]
    np.testing.assert_allclose(bars, np.array(expected) * ledger.rho / 10)
    assert max(top for _, top in bars) == pytest.approx(ledger.rho - ledger.remaining().rho)
    assert ax.lines[0].get_ydata()[0] == ledger.rho
    names = [label.get_text() for label in ax.get_xticklabels()]
    assert names == ["First", "Second", "Third", "Fourth", "release"]
    ax.figure.canvas.draw()
    with pytest.raises(ValueError, match=r"unit must be one of .*, got 'mu'"):
        ledger.plot(unit="mu")


def test_plot_in_epsilon(ledger, pyplot):
    """Names are not cut, also in axes that were given."""
    _, ax = pyplot.subplots()
    ledger.plot(ax)
    tops = [bar.get_y() + bar.get_height() for bar in ax.patches]
    assert tops == pytest.approx(ledger.history()["epsilon"].tolist())
    assert ax.lines[0].get_ydata()[0] == 1.0
    ledger.charge(NoOpEvent(), "PrivateLogisticRegression", relation=WITHIN_GROUPS)
    _, ax = pyplot.subplots()
    ledger.plot(ax)
    assert f"neighbours: {WITHIN_GROUPS}" in ax.get_title()
    ax.figure.canvas.draw()
    whole = ax.figure.bbox
    for text in (*ax.get_xticklabels(), ax.yaxis.label, ax.title):
        box = text.get_window_extent()
        assert box.x0 >= whole.x0
        assert box.y0 >= whole.y0
        assert box.y1 <= whole.y1
