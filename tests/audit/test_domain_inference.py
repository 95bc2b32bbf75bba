"""What is learnt from which values occur: one record has a class, group or number of its own.

All other records are alike. A fit that reads its domain off the data would make another plan, draw
on other grids, or have other attributes.
"""

import numpy as np
import pytest
from replayed_fits import FITS, Recorder, neighbours, replays

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of few records, and of a seed


@pytest.mark.parametrize("name", FITS)
def test_values_of_one_record_are_not_looked_for(name, monkeypatch):
    recorder, rng = Recorder(monkeypatch), np.random.default_rng(1)
    epsilon = 1000.0 if "far" in name else 30.0
    assert max(replays(recorder, name, epsilon, rng, alike=True)) <= 1.0 + 1e-9


@pytest.mark.parametrize("name", FITS)
def test_plans_are_those_of_any_values(name, monkeypatch):
    recorder, rng = Recorder(monkeypatch), np.random.default_rng(2)
    model = FITS[name]().set_params(epsilon=30.0, delta=1e-3)
    (_, rho), classes = recorder.fit(model, next(neighbours(name, rng))), model_classes(model)
    alike = next(neighbours(name, rng, alike=True))
    assert recorder.fit(model, alike)[1] == rho
    assert model_classes(model) == classes


def model_classes(model):
    """Classes as a list, which a table of one class does not change."""
    return np.asarray(getattr(model, "classes_", ())).tolist()
