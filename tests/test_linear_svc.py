"""Support vector classification: its loss, its optimum, and what noise leaves of it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC

from skdpsco import PrivateLinearSVC, RowBlocks
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


def test_several_classes_are_one_problem_each():
    X, y = labelled(2000, 3)
    model = PrivateLinearSVC(epsilon=ALMOST_NONE, C=0.1, feature_bound=2.0).fit(X, y)
    assert model.coef_.shape == (3, 3)
    for k in range(3):
        w, b = optimum(X, np.where(y == k, 1.0, -1.0), 0.1)
        assert_allclose(model.coef_[k], w, atol=0.02)
        assert_allclose(model.intercept_[k], b, atol=0.02)


@pytest.mark.parametrize("solver", ["coordinate-descent", "sgd"])
def test_other_solvers_find_about_the_same(solver):
    X, y = labelled(4000)
    model = PrivateLinearSVC(epsilon=100.0, solver=solver, feature_bound=2.0).fit(X, y)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize("rare", [False, True])
def test_fits_are_no_worse_than_the_frequent_label(one_sided, rare):
    """At epsilon 1/2 with 500 records; and a larger budget makes up for the noise."""
    rng = np.random.default_rng(1)
    medians = []
    for epsilon in (0.5, 2.0, 50.0):
        gains = []
        for _ in range(25):
            X = rng.uniform(0.0 if one_sided else -1.0, 1.0, (2500, 5))
            z = (X - X.mean(axis=0)).sum(axis=1) + 0.5 * rng.normal(size=2500)
            y = (z > np.quantile(z, 0.9 if rare else 0.5)).astype(int)
            model = PrivateLinearSVC(epsilon=epsilon).fit(X[:500], y[:500])
            constant = max(y[500:].mean(), 1.0 - y[500:].mean())
            gains.append(model.score(X[500:], y[500:]) - constant)
        medians.append(np.median(gains))
    assert min(medians) > -0.02
    assert medians[0] <= medians[1] + 0.03 <= medians[2] + 0.06
    assert medians[2] > (0.0 if rare else 0.25)


def test_labels_blocks_and_plain_pipelines():
    X, y = labelled(900)
    names = np.array(["no", "yes"])[y]
    params = {"classes": ["no", "yes"], "epsilon": 5.0, "feature_bound": 2.0}
    whole = PrivateLinearSVC(**params).fit(X, names)
    parts = PrivateLinearSVC(**params).fit(RowBlocks.from_arrays(X, names, block_size=300))
    assert parts.privacy_.epsilon == whole.privacy_.epsilon == 5.0
    assert whole.score(X, names) > 0.8
    assert set(whole.predict(X)) == {"no", "yes"}
    assert not hasattr(whole, "predict_proba")
    plain = whole.to_sklearn()
    assert isinstance(plain[-1], SGDClassifier)
    assert (plain.predict(X) == whole.predict(X)).all()


def test_parameters_of_scikit_learn_that_have_another_place():
    with pytest.raises(TypeError, match="PrivateLinearClassifier has others"):
        PrivateLinearSVC(loss="hinge")
