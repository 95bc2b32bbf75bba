"""Fits that read each record once from files that are mapped into memory."""

import tracemalloc

import numpy as np
import pytest
from test_estimators import data, same
from test_linear_model_lp import BOTH, OneGradient, fitted, target_of

from skdpsco import PrivateLinearRegressor
from skdpsco._validation import check_X_y

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")


def peak(function):
    """Most memory that was allocated while ``function`` ran, in bytes."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture
def mapped(tmp_path):
    X, y = data(n=20_000, d=50)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    return [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "Xy"]


class Shares(OneGradient):
    """Notes whether it reads the memory that the user gave."""

    def __init__(self, given):
        self.given = given

    def __deepcopy__(self, memo):
        return self

    def run(self, plan, problem, X, y, rng, progress):
        self.shares = np.shares_memory(X.values, self.given)
        return super().run(plan, problem, X, y, rng, progress)


@BOTH
def test_memory_maps_are_not_copied(Estimator, mapped):
    X, y = mapped
    y = target_of(Estimator, y)
    assert not X.flags.writeable
    solver = Shares(X)
    model = fitted(Estimator, X, y, solver=solver)
    assert solver.shares
    same(model, fitted(Estimator, np.array(X), np.array(y), solver=Shares(X)))


def test_checks_take_no_copy(mapped):
    X, y = mapped
    check_X_y(PrivateLinearRegressor(), X[:10], y[:10], y_numeric=True)  # imports
    used = peak(lambda: check_X_y(PrivateLinearRegressor(), X, y, y_numeric=True))
    assert used < 0.1 * X.nbytes
