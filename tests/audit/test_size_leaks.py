"""What a private number of records may change: nothing but the noisy releases of a fit.

Where it is public, `tests/audit/test_miscalibration.py` replaces records of as many.
"""

import numpy as np
import pytest
from replayed_fits import COMMON, FITS, Recorder, neighbours, replays

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of few records, and of a seed
WITH_ADDED = [name for name in FITS if "added" in name]


def test_every_estimator_that_hides_the_number_is_in_the_table():
    can = {type(make()) for make in FITS.values() if "relation" in make().get_params(deep=False)}
    assert {type(FITS[name]()) for name in WITH_ADDED} == can


@pytest.mark.parametrize("name", WITH_ADDED)
def test_an_added_record_tells_no_more_than_is_charged(name, monkeypatch):
    recorder, rng = Recorder(monkeypatch), np.random.default_rng(0)
    shares = [
        share
        for epsilon in (1.0, 30.0, 30.0, 1000.0)
        for share in replays(recorder, name, epsilon, rng)
    ]
    assert 0.1 < max(shares) <= 1.0 + 1e-9


@pytest.mark.parametrize("name", WITH_ADDED)
def test_charges_do_not_depend_on_the_number(name, monkeypatch):
    recorder = Recorder(monkeypatch)
    X, y, more = next(neighbours(name, np.random.default_rng(0)))
    few = {key: value if key in COMMON else value[:9] for key, value in more.items()}
    model = FITS[name]().set_params(epsilon=30.0, delta=1e-3)
    _, rho = recorder.fit(model, (X, y, more))
    assert recorder.fit(model, (X[:9], tuple(part[:9] for part in y), few))[1] == rho
