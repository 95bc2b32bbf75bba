"""Fits that read each record once: blocks, and files that are mapped into memory."""

import tracemalloc

import numpy as np
import pytest
from test_estimators import data, same
from test_linear_model_lp import BOTH, OneGradient, fitted, target_of

from skdpsco import PrivateLinearClassifier, PrivateLinearRegressor, RowBlocks
from skdpsco._validation import check_X_y
from skdpsco.solvers import OnePassFrankWolfe, PhasedSGD, TreeFrankWolfe

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

CUTS = [[100, 200], [1, 2, 3, 499], [0, 0, 250, 250], []]  # some blocks are empty


def cut(X, y, at):
    pairs = zip(np.split(X, at), np.split(y, at), strict=True)
    return RowBlocks.from_blocks(list(pairs))


@BOTH
@pytest.mark.parametrize("at", CUTS)
@pytest.mark.parametrize(
    "params",
    [
        {"solver": OneGradient()},
        {"p": 1.0, "solver": OnePassFrankWolfe(shuffle=False)},
        {"solver": PhasedSGD(shuffle=False)},
        {"p": 1.5, "solver": TreeFrankWolfe(shuffle=False)},
    ],
    ids=lambda params: type(params["solver"]).__name__,
)
def test_blocks_are_the_same_fit(Estimator, at, params):
    X, y = data()
    y = target_of(Estimator, y)
    if Estimator is PrivateLinearClassifier:
        params = {"classes": [0, 1], **params}
    whole = fitted(Estimator, X, y, **params)
    model = fitted(Estimator, cut(X, y, at), None, **params)
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    np.testing.assert_array_equal(model.intercept_, whole.intercept_)
    assert model.privacy_.event == whole.privacy_.event


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
