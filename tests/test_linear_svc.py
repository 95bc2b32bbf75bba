"""Support vector classification: its loss, its optimum, and what noise leaves of it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.svm import LinearSVC

from skdpsco import PrivateLinearSVC
from skdpsco.losses import SmoothHinge, derivatives, lipschitz_l2, values
from skdpsco.losses.library import OneVsRest

ALMOST_NONE = 1e6  # epsilon without noise


def labelled(n, n_classes=2, seed=0, flipped=0.1):
    """Records of a planted model, of which some have another label."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 3)) * [1.0, 0.5, 2.0]
    z = X @ [1.0, -1.0, 0.5] + 0.3
    y = np.digitize(z, [0.0] if n_classes == 2 else [-0.4, 0.6])
    return X, np.where(rng.random(n) < flipped, rng.integers(0, n_classes, n), y)


def objective(parameters, X, y, C):
    """The objective of the docstring, for labels -1 and 1."""
    w, b = parameters[:-1], parameters[-1]
    margins = y * (X @ w + b)
    loss = np.where(margins >= -1.0, np.maximum(1.0 - margins, 0.0) ** 2, -4.0 * margins)
    return C * loss.sum() + 0.5 * w @ w


def optimum(X, y, C):
    found = minimize(objective, np.zeros(X.shape[1] + 1), (X, y, C), tol=1e-12)
    return found.x[:-1], found.x[-1]


def test_one_against_the_rest_is_a_sum_of_two_classes():
    loss, rng = OneVsRest(SmoothHinge(2.0), 4), np.random.default_rng(0)
    Z, y = rng.normal(0.0, 2.0, (200, 4)), rng.integers(0, 4, 200).astype(float)
    found, slopes = np.empty(200), np.empty((200, 4))
    values(loss, Z, y, found)
    derivatives(loss, Z, y, slopes)
    total = np.zeros(200)
    for k in range(4):
        one, slope = np.empty(200), np.empty((200, 1))
        signs = np.where(y == k, 1.0, -1.0)
        values(loss.loss, Z[:, [k]], signs, one)
        derivatives(loss.loss, Z[:, [k]], signs, slope)
        total += one
        assert_allclose(slopes[:, [k]], slope)
    assert_allclose(found, total)
    assert found.max() <= loss.baseline() + loss.lipschitz() * np.abs(Z).sum(axis=1).max()
    norms = np.linalg.norm(slopes, axis=1)
    assert 0.5 * lipschitz_l2(loss) < norms.max() <= lipschitz_l2(loss)


@pytest.mark.parametrize("C", [0.01, 1.0])
def test_without_noise_the_optimum_is_that_of_the_objective(C):
    X, index = labelled(2000)
    w, b = optimum(X, 2.0 * index - 1.0, C)
    model = PrivateLinearSVC(epsilon=ALMOST_NONE, C=C, feature_bound=2.0).fit(X, index)
    assert_allclose(model.coef_[0], w, atol=0.01)
    assert_allclose(model.intercept_[0], b, atol=0.01)


def test_without_noise_the_optimum_is_that_of_scikit_learn():
    """Where no record is beyond the margin on the other side, and the intercept hardly counts."""
    X, y = labelled(2000, flipped=0.0)
    options = {"dual": False, "intercept_scaling": 1e3, "tol": 1e-8, "C": 0.01}
    for penalty in ("l1", "l2"):
        expected = LinearSVC(penalty=penalty, **options).fit(X, y)
        assert ((2.0 * y - 1.0) * expected.decision_function(X)).min() > -1.0
        model = PrivateLinearSVC(
            epsilon=ALMOST_NONE, penalty=penalty, C=0.01, feature_bound=2.0
        ).fit(X, y)
        assert_allclose(model.coef_, expected.coef_, atol=0.01)
        assert_allclose(model.intercept_, expected.intercept_, atol=0.01)


def test_parameters_of_scikit_learn_that_have_another_place():
    with pytest.raises(TypeError, match="PrivateLinearClassifier has others"):
        PrivateLinearSVC(loss="hinge")
