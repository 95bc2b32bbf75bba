"""Too little noise, or too small a sensitivity: what neighbours change in all releases of a fit."""

import inspect

import numpy as np
import pytest
from replayed_fits import FITS, N, Recorder, neighbours, replays
from scipy.special import log_softmax

import skdpsco
from skdpsco import preprocessing, survival
from skdpsco.data import units as draws_of_units
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.privacy import pure_epsilon_of

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of few records, and of a seed


def test_every_private_estimator_is_in_the_table():
    """Those that other files replay are in it as well."""
    public = {
        kind
        for module in (skdpsco, preprocessing, survival)
        for kind in (getattr(module, name) for name in module.__all__)
        if inspect.isclass(kind) and kind.__name__.startswith("Private") and hasattr(kind, "fit")
    }
    assert {type(make()) for make in FITS.values()} == public


@pytest.mark.parametrize("name", [name for name in FITS if "added" not in name])
def test_no_release_tells_more_than_is_charged(name, monkeypatch):
    recorder, rng = Recorder(monkeypatch), np.random.default_rng(0)
    budgets = (1000.0, 1e3, 3e3, 1e4) if "far" in name else (1.0, 30.0, 30.0, 1000.0)
    shares = [share for epsilon in budgets for share in replays(recorder, name, epsilon, rng)]
    least = 0.02 if name == "selected classes" else 0.1  # which no neighbour here moves by much
    assert least < max(shares) <= 1.0 + 1e-9


PURE = "clipped components", "selected classes", "vertices of classes"


@pytest.mark.parametrize("name", PURE)
def test_what_reports_say_of_pure_privacy_holds(name, monkeypatch):
    """Log-ratios of the probabilities of all draws, of any outcome."""
    recorder, rng, most = Recorder(monkeypatch), np.random.default_rng(0), 0.0
    model = FITS[name]().set_params(epsilon=30.0, delta=1e-3)
    for _ in range(5):
        one, *others = neighbours(name, rng)
        first, _ = recorder.fit(model, one)
        pure = pure_epsilon_of(model.privacy_.event)
        for other in others:
            found, _ = recorder.fit(model, other, first)
            laws = [
                [log_softmax(units / 2.0**SCALE_BITS) for _, units, *_ in draws]
                for draws in (first, found)
            ]
            loss = sum(np.abs(p - q).max() for p, q in zip(*laws, strict=True))
            most = max(most, loss / pure)
    assert {kind for kind, *_ in first} == {"choice"}
    assert 0.1 < most <= 1.0


PUBLIC_GROUPS = "alone", "group of moments", "group of weighted classes"
OF_UNITS = [
    name
    for name in FITS
    if "added" not in name and (not name.startswith(PUBLIC_GROUPS) or "any" in name)
]


@pytest.mark.parametrize("name", OF_UNITS)
def test_no_unit_loses_more_than_is_charged(name, monkeypatch):
    """All records of a unit are replaced at once; what is drawn of the others is the same."""
    monkeypatch.setattr(draws_of_units, "_rows", lambda number, k, rng: np.arange(N))
    recorder, rng = Recorder(monkeypatch), np.random.default_rng(0)
    shares = [
        share
        for epsilon in (1.0, 30.0, 30.0)
        for share in replays(recorder, name, epsilon, rng, sparse_too=False, k=2)
    ]
    assert 0.03 < max(shares) <= 1.0 + 1e-9
