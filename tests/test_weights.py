"""Weights of classes and of records: kernels, sensitivity by brute force, fits, bad input."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression

from skdpsco import (
    PrivateLinearClassifier,
    PrivateLinearSVC,
    PrivateLogisticL1,
    PrivateLogisticRegression,
)
from skdpsco.base.labels import as_targets
from skdpsco.data import RowBlocks
from skdpsco.losses import (
    Hinge,
    Logistic,
    Multinomial,
    SmoothHinge,
    curvatures,
    derivatives,
    is_proven,
    lipschitz_norm,
    values,
)
from skdpsco.losses.library import OneVsRest, Weighted
from skdpsco.solvers import PhasedSGD
from skdpsco.solvers.base import curvature_of

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")
PAIRS = [
    (Weighted(Logistic()), Logistic()),
    (Weighted(SmoothHinge(0.5)), SmoothHinge(0.5)),
    (Weighted(Hinge()), Hinge()),
    (Multinomial(3, weighted=True), Multinomial(3)),
    (Multinomial(4, weighted=True), Multinomial(4)),
    (OneVsRest(SmoothHinge(2.0), 3, True), OneVsRest(SmoothHinge(2.0), 3)),
]
EACH_PAIR = pytest.mark.parametrize(("weighted", "loss"), PAIRS, ids=str)
MODELS = (
    PrivateLogisticRegression,
    PrivateLogisticL1,
    PrivateLinearClassifier,
    PrivateLinearSVC,
)
EACH_MODEL = pytest.mark.parametrize("Model", MODELS)
N = 400
X = np.random.default_rng(0).uniform(-1, 1, (N, 3))
Y = np.digitize(X[:, 0], [-0.4, 0.4])


def targets_of(loss, index, weights=None):
    return as_targets(np.arange(max(loss.n_outputs, 2)), index, weights)


# --- kernels and constants


@EACH_PAIR
def test_kernels_are_those_of_the_loss_times_the_weight(weighted, loss):
    rng = np.random.default_rng(1)
    n, K = 300, loss.n_outputs
    index, weights = rng.integers(0, max(K, 2), n), rng.uniform(0.0, 1.0, n)
    weights[:4] = 0.0, 1.0, 2.0**-24, 1.0
    weights = np.round(weights * 2.0**24) / 2.0**24
    Z = rng.normal(0.0, 5.0, (n, K))
    plain, with_weights = targets_of(loss, index), targets_of(loss, index, weights)
    for kernel in (values, derivatives, curvatures)[: 2 if isinstance(loss, Hinge) else 3]:
        expected, found = np.zeros((2, n, K) if kernel is derivatives else (2, n))
        kernel(loss, Z, plain, expected)
        kernel(weighted, Z, with_weights, found)
        expected *= weights[:, None] if kernel is derivatives else weights
        assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_a_weight_proves_nothing_of_a_loss():
    class Own(Hinge):
        """A loss of a user, whose constants are not proven."""

    for holds in (Weighted, lambda loss: OneVsRest(loss, 3)):
        assert is_proven(holds(Hinge()))
        assert not is_proven(holds(Own()))


@EACH_PAIR
def test_constants_are_those_of_weight_one(weighted, loss):
    assert weighted.n_outputs == loss.n_outputs
    assert weighted.smoothness() == loss.smoothness()
    assert weighted.baseline() == loss.baseline()
    assert curvature_of(weighted, 2.0) == curvature_of(loss, 2.0)
    for order, spread in itertools.product((1.0, 2.0, np.inf), (0.5, np.inf)):
        assert lipschitz_norm(weighted, order, spread) == lipschitz_norm(loss, order, spread)


# --- fits


def weighted_data(n_classes):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 3))
    z = X @ [2.0, -1.0, 0.0] - 1.0 + rng.logistic(size=2000)
    y = np.digitize(z, [0.0] if n_classes == 2 else [-1.0, 1.0])
    return X, np.array(["a", "b", "c"])[y], rng.uniform(0.0, 2.0, 2000)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_without_noise_the_optimum_is_that_of_scikit_learn(n_classes):
    X, y, weights = weighted_data(n_classes)
    class_weight = {"a": 0.5, "b": 6.0}
    expected = LogisticRegression(C=0.05, class_weight=class_weight, tol=1e-8)
    expected.fit(X, y, sample_weight=np.minimum(weights, 1.5))
    model = PrivateLogisticRegression(
        epsilon=1e6, C=0.05, class_weight=class_weight, max_weight=1.5
    ).fit(X, y, sample_weight=weights.tolist())
    assert_allclose(model.coef_, expected.coef_, atol=0.01)
    assert_allclose(model.intercept_, expected.intercept_, atol=0.01)
    assert "weights of records are clipped to 1.5" in model.privacy_.assumptions


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
@EACH_MODEL
def test_weights_of_records_say_the_same_as_those_of_classes(Model):
    plain = Model(random_state=0).fit(X, Y)
    by_class = Model(class_weight={2: 4.0}, random_state=0).fit(X, Y)
    assert not np.array_equal(by_class.coef_, plain.coef_)
    assert by_class.privacy_.epsilon == plain.privacy_.epsilon
    weights = np.where(Y == 2, 4.0, 1.0)
    by_record = Model(max_weight=4.0, random_state=0).fit(X, Y, sample_weight=weights)
    assert_array_equal(by_record.coef_, by_class.coef_)
    beyond = np.where(Y == 2, 1e9, 1.0)
    clipped = Model(max_weight=4.0, random_state=0).fit(X, Y, sample_weight=beyond)
    assert_array_equal(clipped.coef_, by_class.coef_)


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
@EACH_MODEL
def test_class_weights_of_blocks(Model):
    params = {"class_weight": {2: 4.0}, "classes": [0, 1, 2], "random_state": 0}
    if Model is PrivateLinearClassifier:
        params |= {"conditioning": None, "solver": PhasedSGD(shuffle=False)}
        params["feature_bound"] = 1.0
    blocks = RowBlocks.from_arrays(X, Y, block_size=N)  # as an array is summed up
    of_array = Model(**params).fit(X, Y)
    assert_array_equal(Model(**params).fit(blocks).coef_, of_array.coef_)
    with pytest.raises(ValueError, match="sample_weight must be None where X is in blocks"):
        Model(max_weight=1.0, **params).fit(blocks, sample_weight=np.ones(N))


# --- bad input, before anything is charged


@EACH_MODEL
def test_nothing_is_said_of_a_tiny_weight(Model):
    """There is no warning even if NumPy is told to raise floating-point errors."""
    weights = np.ones(N)
    weights[0] = 5e-324
    classes = [0, 1, 2]
    model = Model(classes=classes, class_weight={0: 3.0, 1: 1e-6}, max_weight=2.0)
    with np.errstate(all="raise"):
        model.fit(X, Y, sample_weight=weights)


def test_what_does_not_take_weights():
    class Own(Logistic):
        pass

    model = PrivateLinearClassifier(loss=Own(), class_weight={0: 2.0})
    with pytest.raises(ValueError, match="for losses of this package"):
        model.fit(X, Y > 0)
