"""Models with a penalty: their losses, their optima, and what noise leaves of them."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from cases import costs_nothing
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import (
    GammaRegressor,
    HuberRegressor,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
)
from sklearn.svm import LinearSVC

from skdpsco import (
    PrivateGammaRegressor,
    PrivateHuberRegressor,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    RowBlocks,
)
from skdpsco.inspection import plan
from skdpsco.losses import (
    Huber,
    Logistic,
    Quantile,
    SmoothHinge,
    SmoothQuantile,
    derivatives,
    lipschitz_l2,
    value,
    values,
)
from skdpsco.losses.library import OneVsRest
from skdpsco.losses.log_link import LEAST_MEAN
from skdpsco.penalties import L2
from skdpsco.solvers import CompositeProblem, GradientDescent

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

ALMOST_NONE = 1e6  # epsilon without noise


def labelled(n, flipped=0.1):
    """Records of a planted model, of which some have another label."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, 3)) * [1.0, 0.5, 2.0]
    z = X @ [1.0, -1.0, 0.5] + 0.3
    return X, np.where(rng.random(n) < flipped, rng.integers(0, 2, n), z >= 0.0)


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


EXACT = 1e11  # epsilon without noise to speak of
L1_RATIOS = [0.0, 1.0, 0.4]


def data(n_classes=2):
    """Correlated columns of different scales and bounds, and noisy labels."""
    rng = np.random.default_rng(0)
    Z = rng.uniform(-1, 1, (1500, 4))
    bounds = np.array([1.0, 20.0, 0.5, 3.0])
    X = (Z + 0.4 * Z[:, [1, 2, 3, 0]]) / 1.4 * bounds
    score = X @ [2.0, -0.15, 2.0, 0.0] + 0.3 + rng.logistic(size=1500) / 2
    return X, np.digitize(score, [0.0] if n_classes == 2 else [-0.8, 0.9]), bounds


def fitted(X, y, **params):
    return PrivateLogisticRegression(random_state=0, **params).fit(X, y)


def reference(X, y, C, l1_ratio, fit_intercept):
    """scikit-learn's solution; its own way to state the penalty depends on its version."""
    penalty = None if C == np.inf else "elasticnet" if l1_ratio else "l2"
    mixed = {"l1_ratio": l1_ratio} if l1_ratio else {}
    model = LogisticRegression(
        C=1.0 if penalty is None else C, penalty=penalty, solver="saga" if l1_ratio else "lbfgs",
        fit_intercept=fit_intercept, tol=1e-12, max_iter=10**5, random_state=0, **mixed,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of depends on the version too
        return model.fit(X, y)


def centred(model, by_feature):
    """Coefficients and intercepts less what changes no probability of several classes."""
    coef, intercept = model.coef_, model.intercept_
    if len(intercept) > 1:
        intercept = intercept - intercept.mean()
        coef = coef - coef.mean(axis=0) if by_feature else coef
    return coef, intercept


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("C", "l1_ratio"), [*((0.1, ratio) for ratio in L1_RATIOS), (np.inf, 0.0)])
def test_without_noise_probabilities_are_those_of_scikit_learn(
    n_classes, fit_intercept, C, l1_ratio
):
    X, y, bounds = data(n_classes)
    X = X / bounds  # otherwise scikit-learn takes minutes
    params = {"C": C, "l1_ratio": l1_ratio, "fit_intercept": fit_intercept}
    expected = reference(X, y, **params)
    for given in (X, sparse.csr_matrix(X)) if fit_intercept else (X,):
        model = fitted(given, y, epsilon=EXACT, feature_bound=1.0, **params)
        for mine, theirs in zip(
            centred(model, C == np.inf), centred(expected, C == np.inf), strict=True
        ):
            assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)
        assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-5)
    if l1_ratio:
        assert (expected.coef_ == 0.0).any() or n_classes == 2
        assert_array_equal(model.coef_ == 0.0, expected.coef_ == 0.0)


@pytest.mark.parametrize("bound", [20.0, "columns", None])
def test_the_penalty_is_in_units_of_the_user(bound):
    X, y, bounds = data()
    params = {"C": 0.05, "l1_ratio": 0.0, "fit_intercept": True}
    expected = reference(X, y, **params)
    bound = bounds if bound == "columns" else bound
    model = fitted(X, y, epsilon=EXACT, feature_bound=bound, **params)
    assert_allclose(model.coef_, expected.coef_, rtol=1e-4)
    assert_allclose(model.intercept_, expected.intercept_, rtol=1e-4)


def test_no_penalty():
    X, y, bounds = data()
    params = {"epsilon": 3.0, "feature_bound": bounds, "C": np.inf}
    models = [fitted(X, y, l1_ratio=ratio, **params) for ratio in L1_RATIOS]
    assert all(np.array_equal(model.coef_, models[0].coef_) for model in models)


def heavy_tailed(n):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, 3)) * [1.0, 0.5, 2.0]
    return X, X @ [1.0, -1.0, 0.5] + 0.3 * rng.standard_t(2.0, n) + 3.0


@pytest.mark.parametrize("level", [0.1, 0.5, 0.8])
def test_a_smooth_quantile_is_a_mean_of_quantiles(level):
    loss, width = Quantile(level), 0.3
    smooth = SmoothQuantile(level, width)
    moves = np.linspace(-width, width, 4001)
    for z in (-1.0, -0.29, 0.0, 0.1, 0.3, 2.0):
        mean = np.mean([value(loss, z + move, 0.0) for move in moves])
        assert value(smooth, z, 0.0) == pytest.approx(mean, abs=1e-4)
        assert -1e-12 <= value(smooth, z, 0.0) - value(loss, z, 0.0) <= width / 4 + 1e-12
    assert smooth.lipschitz() == loss.lipschitz()


def test_shrinkage_is_a_switch():
    with pytest.raises(TypeError, match="shrunk must be a bool"):
        GradientDescent(shrunk=1)
    numbers, labels = (
        CompositeProblem(loss, None, 1000, 3, 0, penalty=L2(1.0), unit=(1.0,) * 3)
        for loss in (Huber(), Logistic())
    )
    begun = replace(labels, start=(0.0,) * 3)
    for shrunk, expected in (
        ("auto", (True, False, True)),
        (False, (False,) * 3),
        ("each", (1,) * 3),
    ):
        solver = GradientDescent(shrunk=shrunk)
        assert tuple(map(solver.shrinks, (numbers, labels, begun))) == expected
    assert GradientDescent().shrunk == "auto"
    own = GradientDescent()
    assert PrivateHuberRegressor(solver=own)._resolved_solver(Huber(), 1000, 3, 0.1) is own


@pytest.mark.parametrize(("quantile", "alpha"), [(0.5, 0.0), (0.5, 0.05), (0.85, 0.0), (0.2, 0.02)])
def test_without_noise_quantiles_are_those_of_scikit_learn(quantile, alpha):
    X, y = heavy_tailed(1500)
    expected = QuantileRegressor(quantile=quantile, alpha=alpha).fit(X, y)
    model = PrivateQuantileRegressor(
        epsilon=ALMOST_NONE, quantile=quantile, alpha=alpha, feature_bound=2.0, target_bound=20.0
    ).fit(X, y)
    assert_allclose(model.coef_, expected.coef_, atol=0.05)
    assert_allclose(model.intercept_, expected.intercept_, atol=0.05)


@pytest.mark.parametrize("alpha", [0.0, 100.0])
def test_without_noise_the_huber_loss_is_that_of_scikit_learn(alpha):
    X, y = heavy_tailed(1500)
    expected = HuberRegressor(alpha=alpha, max_iter=1000, tol=1e-8).fit(X, y)
    model = PrivateHuberRegressor(
        epsilon=ALMOST_NONE,
        threshold=expected.epsilon * expected.scale_,
        alpha=alpha * expected.scale_,
        feature_bound=2.0,
        target_bound=100.0,
    ).fit(X, y)
    assert_allclose(model.coef_, expected.coef_, atol=0.01)
    assert_allclose(model.intercept_, expected.intercept_, atol=0.01)


MODELS = {PrivatePoissonRegressor: PoissonRegressor, PrivateGammaRegressor: GammaRegressor}
each_model = pytest.mark.parametrize("Model", MODELS)


def of_a_law(Model, n, size=3.0):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, 3))
    mean = size * np.exp(X @ [0.8, -0.6, 0.4])
    y = rng.poisson(mean) if Model is PrivatePoissonRegressor else mean * rng.gamma(3.0, 1 / 3, n)
    return X, y.astype(float)


@each_model
@pytest.mark.parametrize(("alpha", "intercept"), [(0.0, True), (0.3, True), (0.1, False)])
def test_without_noise_models_with_links_are_those_of_scikit_learn(Model, alpha, intercept):
    X, y = of_a_law(Model, 2000, size=3.0 if intercept else 1.0)
    params = {"alpha": alpha, "fit_intercept": intercept}
    expected = MODELS[Model](max_iter=1000, tol=1e-8, **params).fit(X, y)
    model = Model(epsilon=ALMOST_NONE, target_bound=100.0, **params).fit(X, y)
    assert_allclose(model.coef_, expected.coef_, atol=0.05)
    assert model.intercept_ == pytest.approx(expected.intercept_, abs=0.05)
    assert_allclose(model.predict(X), expected.predict(X), rtol=0.1)
    assert model.score(X, y) == pytest.approx(expected.score(X, y), abs=0.01)


@each_model
@pytest.mark.parametrize("alpha", [0.0, 0.2])
def test_weights_of_records_are_those_of_scikit_learn(Model, alpha):
    X, y = of_a_law(Model, 2000)
    weights = np.random.default_rng(1).uniform(0.0, 2.0, 2000)
    y[weights > 1.0] *= 2.0
    expected = MODELS[Model](alpha=alpha, max_iter=1000, tol=1e-8).fit(X, y, weights)
    model = Model(epsilon=ALMOST_NONE, alpha=alpha, target_bound=100.0, max_weight=3.0)
    model.fit(X, y, sample_weight=weights / weights.mean())
    assert_allclose(model.coef_, expected.coef_, atol=0.05)
    assert model.intercept_ == pytest.approx(expected.intercept_, abs=0.05)
    assert any("clipped to 3" in line for line in str(model.privacy_).splitlines())
    assert plan(model, 3000, 5).coefficient_noise is None


@each_model
def test_predictions_stay_in_a_released_range(Model):
    X, y = of_a_law(Model, 900)
    model = Model(epsilon=30.0, target_bound=50.0)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.fit(X, y)
    low, high = model.target_range_
    assert 0.0 < low < high <= 100.0
    model.feature_range_ = np.array([[-1e9] * X.shape[1], [1e9] * X.shape[1]])
    found = model.predict(1e6 * X)
    assert set(found.round(9)) == set(model.target_range_.round(9))
    assert low * 0.9 < LEAST_MEAN * high
    assert not hasattr(model, "to_sklearn")


@each_model
def test_targets_outside_of_the_range_of_the_law_cost_nothing(Model):
    """As in scikit-learn: no negative counts, and only positive sizes."""
    X, y = of_a_law(Model, 300)
    y[7] = 0.0 if Model is PrivateGammaRegressor else -1e-9
    for records in ((X, y), (RowBlocks.from_arrays(X, y),)):
        said = costs_nothing(Model(), f"y must be >=? 0 for {Model.__name__}", *records)
        assert "1e-09" not in said
    assert plan(Model(), 300, 4).rho > 0.0  # its own targets are legal


@each_model
@pytest.mark.filterwarnings("ignore:target_bound=")
@pytest.mark.parametrize("bound", [1e-100, 1e-3, 1e100])
@pytest.mark.parametrize("intercept", [True, False])
def test_extreme_bounds_and_targets(Model, bound, intercept):
    X, _ = of_a_law(Model, 400)
    model = Model(epsilon=3.0, target_bound=bound, fit_intercept=intercept)
    for y in (np.full(400, 1e-300), np.full(400, bound), 1e300 * np.abs(X[:, 0])):
        model.fit(X, y)
        assert np.isfinite(model.predict(X)).all()
        assert (model.predict(X) > 0.0).all()


@each_model
def test_no_coefficient_s_noise_is_claimed_and_scores_hide_targets(Model):
    assert plan(Model(), 3000, 5).coefficient_noise is None
    X, y = of_a_law(Model, 400)
    with pytest.raises(ValueError, match="y must hold one target per record") as error:
        Model(epsilon=5.0).fit(X, y).score(X, y - 1e6)
    assert "1000" not in str(error.value)
