"""Weights of classes and of records: kernels, fits, and what does not take them."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import (
    ElasticNet,
    LinearRegression,
    LogisticRegression,
    QuantileRegressor,
    Ridge,
)

from skdpsco import (
    PrivateElasticNet,
    PrivateGammaRegressor,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateLinearSVC,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivateMonotoneGLM,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
)
from skdpsco.base.labels import as_targets
from skdpsco.data import RowBlocks
from skdpsco.losses import (
    Absolute,
    Hinge,
    Logistic,
    Multinomial,
    SmoothHinge,
    Squared,
    curvatures,
    derivatives,
    is_proven,
    lipschitz_norm,
    values,
)
from skdpsco.losses.library import (
    OneVsRest,
    SmoothQuantile,
    Weighted,
    with_weights,
    without_weights,
)
from skdpsco.scaling.column_scales import target_squares
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
    *((Weighted(loss), loss) for loss in (Squared(0.5), Absolute(), SmoothQuantile(0.8, 0.1))),
]
EACH_PAIR = pytest.mark.parametrize(("weighted", "loss"), PAIRS, ids=str)
MODELS = (PrivateLogisticRegression, PrivateLogisticL1, PrivateLinearClassifier, PrivateLinearSVC)
EACH_MODEL = pytest.mark.parametrize("Model", MODELS)
REGRESSORS = (
    PrivateRidge,
    PrivateElasticNet,
    PrivateLasso,
    PrivateHuberRegressor,
    PrivateQuantileRegressor,
    PrivateLinearRegressor,
    PrivatePoissonRegressor,
    PrivateGammaRegressor,
)
N = 1500
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (N, 3))
V = rng.uniform(0.0, 2.0, N)
LABELS = np.digitize(X[:, 0], [-0.4, 0.4])
# Heavy records have another slope and another mean, so that weights matter.
Y = np.clip(0.4 * X[:, 0] - 0.2 * X[:, 2] + (V > 1) * (0.2 * X[:, 1] + 0.1), -1, 1)
KNOWN = np.minimum(V, 1.5)


def both_targets(loss, rng, weights):
    """Targets of some records without weights and with them."""
    n, K = len(weights), loss.n_outputs
    if isinstance(loss, Squared | Absolute | SmoothQuantile):
        targets = rng.integers(-(2**20), 2**20 + 1, n) / 2.0**20
        return targets, with_weights(targets, weights)
    index = rng.integers(0, max(K, 2), n)
    return [as_targets(np.arange(max(K, 2)), index, w) for w in (None, weights)]


# --- kernels and constants


@EACH_PAIR
def test_kernels_are_those_of_the_loss_times_the_weight(weighted, loss):
    rng = np.random.default_rng(1)
    n, K = 300, loss.n_outputs
    weights = rng.uniform(0.0, 1.0, n)
    weights[:4] = 0.0, 1.0, 2.0**-24, 1.0
    weights = np.round(weights * 2.0**24) / 2.0**24
    Z = rng.normal(0.0, 5.0, (n, K))
    plain, with_both = both_targets(loss, rng, weights)
    for kernel in (values, derivatives, curvatures)[: 2 if loss.smoothness() == np.inf else 3]:
        expected, found = np.zeros((2, n, K) if kernel is derivatives else (2, n))
        kernel(loss, Z, plain, expected)
        kernel(weighted, Z, with_both, found)
        expected *= weights[:, None] if kernel is derivatives else weights
        assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_a_target_and_its_weight_are_in_one_number():
    targets = np.array([-1.0, 1.0, 0.0, 2.0**-26, 0.1, -1.0, 1.0])
    weights = np.array([0.0, 1.0, 0.5, 1.0, 1.0 / 3.0, 1.0, 2.0**-24])
    both = with_weights(targets, weights)
    assert_allclose(without_weights(both), targets, atol=2.0**-27, rtol=0.0)
    assert np.abs(without_weights(both)).max() == 1.0
    found = np.zeros(len(both))
    values(Weighted(Squared()), targets[:, None] + 1.0, both, found)
    assert_allclose(found, weights / 2.0, atol=2.0**-25, rtol=0.0)


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
    plain = Model(random_state=0).fit(X, LABELS)
    by_class = Model(class_weight={2: 4.0}, random_state=0).fit(X, LABELS)
    assert not np.array_equal(by_class.coef_, plain.coef_)
    assert by_class.privacy_.epsilon == plain.privacy_.epsilon
    weights = np.where(LABELS == 2, 4.0, 1.0)
    by_record = Model(max_weight=4.0, random_state=0).fit(X, LABELS, sample_weight=weights)
    assert_array_equal(by_record.coef_, by_class.coef_)
    beyond = np.where(LABELS == 2, 1e9, 1.0)
    clipped = Model(max_weight=4.0, random_state=0).fit(X, LABELS, sample_weight=beyond)
    assert_array_equal(clipped.coef_, by_class.coef_)


@pytest.mark.usefixtures("as_they_are")
@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
@EACH_MODEL
def test_class_weights_of_blocks(Model):
    params = {"class_weight": {2: 4.0}, "classes": [0, 1, 2], "random_state": 0}
    if Model is PrivateLinearClassifier:
        params |= {"solver": PhasedSGD(shuffle=False)}
        params["feature_bound"] = 1.0
    blocks = RowBlocks.from_arrays(X, LABELS, block_size=N)  # as an array is summed up
    of_array = Model(**params).fit(X, LABELS)
    assert_array_equal(Model(**params).fit(blocks).coef_, of_array.coef_)
    with pytest.raises(ValueError, match="sample_weight must be None where X is in blocks"):
        Model(max_weight=1.0, **params).fit(blocks, sample_weight=np.ones(N))


def test_weights_do_not_change_what_is_measured_of_targets():
    both = with_weights(Y, KNOWN / 1.5)
    found, plain = target_squares(None, both, 1.0, True), target_squares(None, Y, 1.0, False)
    assert_allclose(found, plain, rtol=1e-6)


def solved(Model, weights=V, largest=1.5, X=X, Y=Y, **params):
    model = Model(epsilon=1e6, target_bound=1.0, max_weight=largest, **params)
    return model.fit(X, Y, sample_weight=weights)


MEAN = KNOWN.mean()
OPTIMA = [
    (PrivateRidge, {"alpha": 50.0}, Ridge(alpha=50.0)),
    # scikit-learn divides the next two by the sum of the weights, which is private.
    (PrivateElasticNet, {"alpha": 0.02}, ElasticNet(alpha=0.02 / MEAN)),
    (PrivateQuantileRegressor, {"alpha": 0.01}, QuantileRegressor(alpha=0.01 / MEAN)),
    (PrivateHuberRegressor, {"alpha": 50.0, "threshold": 2.0}, Ridge(alpha=50.0)),
    (PrivateLasso, {}, LinearRegression()),
    (PrivateLinearRegressor, {"radius": 1.0}, LinearRegression()),
]


@pytest.mark.parametrize(("Model", "params", "reference"), OPTIMA, ids=str)
def test_without_noise_regressions_are_those_of_scikit_learn(Model, params, reference):
    reference.fit(X, Y, sample_weight=KNOWN)
    model = solved(Model, **params)
    assert_allclose(model.coef_, reference.coef_, atol=0.02)
    assert_allclose(model.intercept_, reference.intercept_, atol=0.02)
    unweighted = type(reference)(**reference.get_params()).fit(X, Y)
    assert abs(unweighted.coef_[1] - reference.coef_[1]) > 0.03  # so that weights matter
    assert "weights of records are clipped to 1.5" in model.privacy_.assumptions


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
@pytest.mark.parametrize("Model", REGRESSORS)
def test_weights_beyond_the_bound_are_clipped(Model):
    def fitted(weights):
        model = Model(epsilon=3.0, max_weight=1.0, random_state=0)
        return model.fit(X, np.exp(Y), sample_weight=weights)

    beyond = fitted(np.where(V > 1, 1e9, 0.5))
    assert_array_equal(beyond.coef_, fitted(np.where(V > 1, 1.0, 0.5)).coef_)
    assert not np.array_equal(beyond.coef_, fitted(np.ones(N)).coef_)
    plain = Model(epsilon=3.0).fit(X, np.exp(Y))
    assert beyond.privacy_.epsilon == plain.privacy_.epsilon


# --- bad input, before anything is charged


@EACH_MODEL
def test_nothing_is_said_of_a_tiny_weight(Model):
    """There is no warning even if NumPy is told to raise floating-point errors."""
    weights = np.ones(N)
    weights[0] = 5e-324
    classes = [0, 1, 2]
    model = Model(classes=classes, class_weight={0: 3.0, 1: 1e-6}, max_weight=2.0)
    with np.errstate(all="raise"):
        model.fit(X, LABELS, sample_weight=weights)


def test_what_does_not_take_weights():
    weights = {"sample_weight": np.ones(N)}
    model = PrivateRidge(max_weight=1.0)
    with pytest.raises(ValueError, match="must be None where X holds moments"):
        model.fit(PrivateMoments().fit(X, Y), **weights)
    with pytest.raises(ValueError, match="sample_weight is not supported"):
        PrivateMonotoneGLM().fit(X, Y > 0, **weights)

    class Own(Logistic):
        pass

    class OwnSquare(Squared):
        pass

    with pytest.raises(ValueError, match="for losses of this package"):
        PrivateLinearRegressor(loss=OwnSquare(1.0), max_weight=1.0).fit(X, Y, **weights)
    with pytest.raises(ValueError, match="for losses of this package"):
        PrivateLinearClassifier(loss=Own(), class_weight={0: 2.0}).fit(X, LABELS > 0)
