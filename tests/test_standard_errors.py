"""Standard errors of fits to records: what they release, what they say, and whether it is so."""

import itertools
import math
import warnings

import numpy as np
import pytest
from cases import costs_nothing, each
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import ElasticNet, GammaRegressor, LogisticRegression, PoissonRegressor

from skdpsco import (
    PrivateElasticNet,
    PrivateGammaRegressor,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
    UtilityWarning,
)
from skdpsco.data.design import as_design
from skdpsco.losses import Huber, Logistic, Multinomial, SmoothHinge, SmoothQuantile, Squared
from skdpsco.losses.hazards import ProportionalHazards
from skdpsco.losses.library import Weighted, derivative, separated, with_weights
from skdpsco.losses.log_link import GammaDeviance, PoissonDeviance
from skdpsco.mechanisms.samplers import SCALE_BITS, deviation_on, to_grid
from skdpsco.penalties import L2
from skdpsco.privacy import Budget
from skdpsco.privacy.events import leaves
from skdpsco.solvers import CompositeProblem, GradientDescent
from skdpsco.solvers import newton_step as module
from skdpsco.solvers.newton_step import NewtonStep, NoisyModel, newton_step, release_model

pytestmark = pytest.mark.filterwarnings(
    "ignore::skdpsco.UtilityWarning", "ignore::skdpsco.PrivacyWarning"
)

ONE, BOUNDS = 2.0**SCALE_BITS, np.array([1.0, 0.5])
MODELS = [
    (PrivateLogisticRegression, {"C": math.inf}),
    (PrivateRidge, {"alpha": 0.0, "target_bound": 20.0}),
    (PrivateHuberRegressor, {"alpha": 0.0, "target_bound": 20.0}),
    (PrivatePoissonRegressor, {"alpha": 0.0, "target_bound": 40.0}),
    (PrivateGammaRegressor, {"alpha": 0.0, "target_bound": 40.0}),
    (PrivateLinearSVC, {"C": math.inf}),
    (PrivateQuantileRegressor, {"target_bound": 20.0}),
    (PrivateElasticNet, {"alpha": 0.1, "l1_ratio": 1.0, "target_bound": 20.0}),
]
CLASSIFIERS = PrivateLogisticRegression, PrivateLinearSVC
LINKS = PrivatePoissonRegressor, PrivateGammaRegressor


def composite(loss, n, d, weight=0.01, intercept=True):
    D = d + intercept
    unit = (1.0,) * d + (0.0,) * intercept
    return CompositeProblem(loss, None, n, D, intercept, penalty=L2(weight), unit=unit)


def drawn(Estimator, n, d, rng):
    """Records of a model with the coefficients 1, -1, ... and the intercept 1/2."""
    coef = np.where(np.arange(d) % 2, -1.0, 1.0)
    X = rng.standard_normal((n, d))
    scores = X @ coef + 0.5
    if Estimator is PrivateLogisticRegression:
        return X, rng.random(n) < expit(scores), coef
    if Estimator is PrivateLinearSVC:  # the score is the mean of the labels, and the best one
        return 2.0 * X, rng.uniform(-1.0, 1.0, n) < 0.4 * scores, 0.2 * coef
    if Estimator in LINKS:
        X, coef = np.clip(0.5 * X, -1.0, 1.0), coef
        mean = np.exp(X @ coef + 0.5)
        counts = Estimator is PrivatePoissonRegressor
        return X, rng.poisson(mean) if counts else mean * rng.gamma(2.0, 0.5, n), coef
    return X, scores + rng.standard_normal(n), coef


def fitted(Estimator, X, y, sample_weight=None, **params):
    """A fit with standard errors."""
    defaults = dict(MODELS)[Estimator]
    params = {"standard_errors": True, "feature_bound": 6.0, **defaults, **params}
    return Estimator(**params).fit(X, y, sample_weight=sample_weight)


# ------------------------------------------------------------------------------ what is released


LOSSES = [
    Logistic(),
    Squared(),
    Huber(0.7),
    Weighted(Logistic()),
    Weighted(Squared()),
    Multinomial(3),
    Multinomial(3, weighted=True),
    PoissonDeviance(0.2, 0.3),
    Weighted(GammaDeviance(0.2, 0.3)),
    SmoothHinge(2.0),
    SmoothQuantile(0.3, 0.4),
    Weighted(SmoothQuantile(0.7, 0.4)),
    ProportionalHazards(2.0, 0.5, 0.7),
]


def targets_of(loss):
    """Extreme targets, as kernels see them."""
    plain = separated(loss, np.zeros(0))[0]
    if loss.n_outputs > 1:
        weights = (0.0, 0.6, 1.0) if loss.weighted else (0.0,)
        return [k + weight / 2 for k in range(3) for weight in weights]
    labels = isinstance(plain, Logistic | SmoothHinge)
    targets = np.array([-1.0, 1.0] if labels else [-1.0, 0.2, 1.0])
    if not isinstance(loss, Weighted):
        return list(targets)
    return [*with_weights(targets, 1.0), with_weights(targets[:1], 0.3)[0]]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize(("c", "slope"), [(0.6, 0.3), (40.0, 1.0)])
@pytest.mark.filterwarnings("ignore:(overflow|invalid|underflow)")
def test_releases_move_by_what_is_charged_and_hardly_less(monkeypatch, loss, layout, c, slope):
    n, log = 3, []

    def record(rng, values, grid):
        log.append(np.array([to_grid(value, grid) for value in values]))
        return 1.0

    monkeypatch.setattr(module, "gaussian_mechanism", record)
    problem = composite(loss, n, 2)
    residuals = module.has_spread(problem.loss)
    plan = NewtonStep(GradientDescent()).plan(problem, Budget(1.0, 1e-6))
    tuning, mu = module.NEWTON_STEP, Budget(1.0, 1e-6).mu
    shares = [tuning.gradient_share, tuning.matrix_share, tuning.other_share]
    shares += [tuning.other_share] * residuals
    multipliers = [1.0 / (mu * math.sqrt(share)) for share in shares]
    planned = [leaf.noise_multiplier for leaf, _ in leaves(plan.event)]
    assert all(np.isclose(planned, multiplier, rtol=1e-6).any() for multiplier in multipliers)
    slope = slope if residuals else module.lipschitz_l2(loss)
    scale = np.array([0.8, 0.1, 1.0 / 0.6])
    some = (0.0, -9.0, 9.0)[: 2 if loss.n_outputs > 1 else 3]
    records = list(itertools.product(itertools.product(some, repeat=2), targets_of(loss)))
    largest = np.zeros(len(multipliers))
    for w in (np.zeros(3), np.array([1.0, -2.0, 0.3]), np.full(3, 1e300), np.full(3, math.nan)):
        w, released = np.outer([1.0, -1.0, 0.5][: loss.n_outputs], w).ravel(), []
        for record_ in records:
            rows = [record_, records[0], records[-1]]
            X, y = np.array([x for x, _ in rows]), np.array([y for _, y in rows])
            design = as_design(X if layout == "dense" else sparse.csr_matrix(X), BOUNDS, True)
            release_model(plan, problem, (scale, c, slope), design, y, w, None)
            released.append(log.copy())
            log.clear()
        for k, multiplier in enumerate(multipliers):
            sums = [one[k] for one in released]
            change = max(np.linalg.norm(a - b) for a, b in itertools.combinations(sums, 2))
            assert change * multiplier <= ONE * (1.0 + 1e-9)
            largest[k] = max(largest[k], change * multiplier / ONE)
    if c < 1.0:  # which rows reach
        assert largest[0] > 0.45
        assert largest[1:].min() > 0.2


@pytest.mark.filterwarnings("ignore:(overflow|invalid|underflow)")
def test_the_variance_of_risks_moves_by_what_is_charged(monkeypatch):
    log = []
    monkeypatch.setattr(module, "gaussian_mechanism", lambda rng, sums, grid: log.append(sums) or 0)
    plan = NewtonStep(GradientDescent()).plan(
        composite(ProportionalHazards(), 2, 1), Budget(1.0, 1e-6)
    )
    multiplier = 1.0 / (Budget(1.0, 1e-6).mu * math.sqrt(module.NEWTON_STEP.other_share))
    planned = [
        count
        for leaf, count in leaves(plan.event)
        if math.isclose(leaf.noise_multiplier, multiplier, rel_tol=1e-6)
    ]
    assert planned == [2]  # products of gradients as well
    changes = []
    for w in (np.array([6.0, 0.0]), np.array([math.nan, 0.0]), np.array([1e308, 1e308])):
        for x in np.linspace(-1.0, 1.0, 41):
            X = as_design(np.array([[x], [0.5]]), np.ones(1), True)
            module.release_variance(plan, X, np.zeros(2), w, 2, None)
        changes += [np.linalg.norm(a - b) for a, b in itertools.combinations(log, 2)]
        log.clear()
    assert max(changes) == 2.0
    assert 2.0 <= deviation_on(plan.risk_grid) / multiplier < 2.001


def test_curvatures_of_classes_are_bounded_for_every_number():
    rng = np.random.default_rng(12)
    for k in (2, 3, 5):
        basis = module.contrasts(k)
        assert_allclose(basis.T @ basis, np.eye(k - 1), atol=1e-12)
        assert_allclose(basis.sum(axis=0), 0.0, atol=1e-12)
        labels = rng.integers(0, k, 400)
        p = rng.dirichlet(np.full(k, 0.2), 400)
        p[:2] = np.eye(k)[0] / 2 + np.eye(k)[1] / 2  # attains one half
        found = module.class_curvatures(p - np.eye(k)[labels], labels, basis)
        exact = [basis.T @ (np.diag(row) - np.outer(row, row)) @ basis for row in p]
        assert_allclose(found, exact, atol=1e-12)
        wild = module.class_curvatures(rng.uniform(-2.0, 2.0, (400, k)), labels, basis)
        sizes = np.linalg.norm(np.vstack([found, wild]), axis=(1, 2))
        assert 0.5 - 1e-12 < sizes.max() <= 0.5 + 1e-12
        assert np.linalg.eigvalsh(np.vstack([found, wild])).min() > -1e-12


# ------------------------------------------------------------------------------ what follows


def test_errors_of_a_step_are_those_of_its_noise():
    """The law of steps from one point, of a quadratic objective, with noise in both releases."""
    rng, n, D = np.random.default_rng(0), 1000, 3
    A = np.array([[1.0, 0.3, 0.0], [0.3, 0.6, 0.1], [0.0, 0.1, 0.4]])
    weight, truth, start = np.array([0.1, 0.1, 0.0]), np.array([1.0, -1.0, 0.5]), np.zeros(D)
    tau, sigma, V = 0.004, 0.03, A / n
    mean = -(A @ truth + weight * truth)  # of the loss's gradient at 0, if `truth` is the optimum
    root, found, said = np.linalg.cholesky(V), [], []
    for _ in range(4000):
        E = rng.normal(0.0, tau / math.sqrt(2.0), (D, D))
        E = np.triu(E, 1) + np.triu(E, 1).T + np.diag(rng.normal(0.0, tau, D))
        gradient = mean + root @ rng.standard_normal(D) + rng.normal(0.0, sigma, D)
        model = NoisyModel(gradient, A + E, A, sigma, tau, 0.0)
        step, known = newton_step(model, weight, start, n)
        found.append(start + step)
        said.append(known.covariance)
        assert not known.doubtful
    assert_allclose(np.mean(found, axis=0), truth, atol=0.01)
    errors = np.abs(np.array(found) - truth) / np.sqrt(np.diagonal(said, axis1=1, axis2=2))
    # A binomial of 4000 repetitions has a deviation of .0034: five of them.
    assert_allclose((errors < 1.96).mean(axis=0), 0.95, atol=0.017)
    covariance = np.cov(np.array(found).T)
    assert_allclose(np.mean(said, axis=0), covariance, atol=0.06 * np.diagonal(covariance).max())


def test_steps_that_raised_eigenvalues_shorten_are_not_trusted():
    """A curvature that drowns: the step is too short, and the errors say so."""
    rng, n, D = np.random.default_rng(16), 1000, 3
    A, tau, sigma = np.diag([1.0, 0.5, 0.05]), 0.1, 0.01  # eigenvalues are raised to 0.245
    root, inside = np.sqrt(A / n), []
    truth = np.array([1.0, -1.0, 1.0])
    for _ in range(400):
        E = rng.normal(0.0, tau / math.sqrt(2.0), (D, D))
        E = np.triu(E, 1) + np.triu(E, 1).T + np.diag(rng.normal(0.0, tau, D))
        gradient = -A @ truth + root @ rng.standard_normal(D) + rng.normal(0.0, sigma, D)
        step, known = newton_step(
            NoisyModel(gradient, A + E, A, sigma, tau, 0.0), np.zeros(D), 0.0 * truth, n
        )
        inside.append(abs(step - truth) < 1.96 * np.sqrt(known.covariance.diagonal()))
    assert np.mean(inside, axis=0).min() > 0.93  # .67 if the shorter step were not counted


@pytest.mark.parametrize("size", [0.1, 0.8])
def test_the_second_order_of_exponentials_is_within_their_errors(size):
    """Without any noise, and for steps in all directions: what one step misses is covered."""
    Z = np.column_stack([np.random.default_rng(18).standard_normal((4000, 2)), np.ones(4000)])
    truth = np.array([0.5, -0.5, 0.2])
    for high, around in itertools.product(np.linspace(0.0, np.pi, 5), np.linspace(0.0, 6.0, 7)):
        flat = math.sin(high) * np.array([math.cos(around), math.sin(around)])
        point = truth + size * np.array([*flat, math.cos(high)])
        means = np.exp(Z @ point)
        gradient = (means - np.exp(Z @ truth)) @ Z / len(Z)
        H = Z.T @ (Z * means[:, None]) / len(Z)
        model = NoisyModel(gradient, H, 1e-9 * H, 1e-6, 1e-6, 0.0, exponential=True)
        step, known = newton_step(model, np.zeros(3), point, len(Z))
        missed = abs(point + step - truth) / np.sqrt(known.covariance.diagonal())
        assert 1e-3 < missed.max() < 1.96


def test_without_noise_it_is_the_classical_inference():
    rng = np.random.default_rng(1)
    X, y, _ = drawn(PrivateLogisticRegression, 4000, 3, rng)
    model = fitted(PrivateLogisticRegression, X, y, epsilon=200.0, random_state=0)
    plain = LogisticRegression(C=math.inf, tol=1e-10).fit(X, y)
    assert_allclose(model.coef_, plain.coef_, atol=0.01)
    p = plain.predict_proba(X)[:, 1]
    Z = np.column_stack([X, np.ones(len(X))])
    classical = np.linalg.inv(Z.T @ (Z * (p * (1.0 - p))[:, None]))
    assert_allclose(model.uncertainty_.covariance, classical, rtol=0.1, atol=1e-5)
    X, y, _ = drawn(PrivateRidge, 4000, 3, rng)
    model = fitted(PrivateRidge, X, y, epsilon=200.0, random_state=0)
    Z = np.column_stack([X, np.ones(len(X))])
    coef, square, *_ = np.linalg.lstsq(Z, y, rcond=None)
    assert_allclose([*model.coef_, model.intercept_], coef, atol=0.02)
    classical = square[0] / (len(y) - 4) * np.linalg.inv(Z.T @ Z)
    assert_allclose(model.uncertainty_.covariance, classical, rtol=0.1, atol=1e-5)
    found = []
    for seed in range(8):  # clipped squares have noise of 2 %
        model = fitted(PrivateRidge, X, y, epsilon=200.0, random_state=seed)
        found.append(model.uncertainty_.residual_variance)
    assert np.mean(found) == pytest.approx(square[0] / len(y), rel=0.02)


def test_without_noise_weights_have_the_classical_sandwich():
    rng, n = np.random.default_rng(13), 6000
    X, y, _ = drawn(PrivateLogisticRegression, n, 2, rng)
    weights = rng.uniform(0.1, 2.0, n)
    params = {"epsilon": 1e4, "random_state": 0, "max_weight": 2.0, "class_weight": {True: 3.0}}
    model = fitted(PrivateLogisticRegression, X, y, sample_weight=weights, **params)
    plain = LogisticRegression(C=math.inf, tol=1e-10, class_weight={True: 3.0})
    p = plain.fit(X, y, weights).predict_proba(X)[:, 1]
    assert_allclose(model.coef_, plain.coef_, atol=0.02)
    Z, w = np.column_stack([X, np.ones(n)]), weights * np.where(y, 3.0, 1.0)
    inverse = np.linalg.inv(Z.T @ (Z * (w * p * (1.0 - p))[:, None]))
    each = Z * (w * (p - y))[:, None]
    exact = inverse @ each.T @ each @ inverse
    assert_allclose(model.uncertainty_.covariance, exact, rtol=0.1, atol=6e-5)
    X = np.clip(X, -2.0, 2.0)  # long rows would count less
    y = X.sum(axis=1) + rng.standard_normal(n) * (1.0 + abs(X[:, 0]))
    Z[:, :2] = X
    params.pop("class_weight")
    model = fitted(PrivateRidge, X, y, sample_weight=weights, **params)
    inverse = np.linalg.inv(Z.T @ (Z * weights[:, None]))
    coef = inverse @ (Z.T @ (weights * y))
    assert_allclose([*model.coef_, model.intercept_], coef, atol=0.03)
    each = Z * (weights * (y - Z @ coef))[:, None]
    exact = inverse @ each.T @ each @ inverse
    assert_allclose(model.uncertainty_.covariance, exact, rtol=0.1, atol=7e-5)
    square = weights @ np.square(y - Z @ coef) / weights.sum()
    assert model.uncertainty_.residual_variance == pytest.approx(square, rel=0.05)


@pytest.mark.parametrize("Estimator", LINKS)
def test_without_noise_links_have_the_classical_sandwich(Estimator):
    """Counts are overdispersed: their variance is not what the law says."""
    rng, n = np.random.default_rng(17), 6000
    X = rng.uniform(-1.0, 1.0, (n, 2))
    mean = np.exp(X @ [1.0, -1.0] + 0.5)
    y = mean * rng.gamma(2.0, 0.5, n)
    y = rng.poisson(y) if Estimator is PrivatePoissonRegressor else y
    params = {"epsilon": 1e4, "random_state": 0, "feature_bound": 1.0}
    model = fitted(Estimator, X, y, **params)
    plain = (GammaRegressor if Estimator is PrivateGammaRegressor else PoissonRegressor)(alpha=0.0)
    m, Z = plain.fit(X, y).predict(X), np.column_stack([X, np.ones(n)])
    assert_allclose(model.coef_, plain.coef_, atol=0.01)
    slopes, bends = (1.0 - y / m, y / m) if Estimator is PrivateGammaRegressor else (m - y, m)
    inverse, each = np.linalg.inv(Z.T @ (Z * bends[:, None])), Z * slopes[:, None]
    exact = inverse @ each.T @ each @ inverse
    assert_allclose(model.uncertainty_.covariance, exact, rtol=0.1, atol=2e-5)
    assert model.uncertainty_.residual_variance is None


def test_without_noise_margins_and_medians_have_the_classical_sandwich():
    rng, n = np.random.default_rng(19), 8000
    X, y, _ = drawn(PrivateLinearSVC, n, 2, rng)
    model = fitted(PrivateLinearSVC, X, y, epsilon=1e3, random_state=0)
    Z, labels = np.column_stack([X, np.ones(n)]), np.where(y, 1.0, -1.0)
    coef = np.zeros(3)
    for _ in range(20):  # Newton steps
        margins = labels * (Z @ coef)
        each = -Z * (labels * np.clip((1.0 - margins) / 2.0, 0.0, 1.0))[:, None]
        inverse = np.linalg.inv(Z.T @ (Z * (0.5 * (abs(margins) < 1.0))[:, None]))
        coef -= inverse @ each.sum(axis=0)
    assert_allclose([*model.coef_[0], model.intercept_[0]], coef, atol=0.01)
    exact = inverse @ each.T @ each @ inverse
    assert_allclose(model.uncertainty_.covariance, exact, rtol=0.1, atol=3e-6)
    X, y, _ = drawn(PrivateQuantileRegressor, 4 * n, 2, rng)
    model = fitted(PrivateQuantileRegressor, X, y, epsilon=1e3, random_state=0)
    Z = np.column_stack([X, np.ones(4 * n)])
    exact = 0.25 * 2.0 * math.pi * np.linalg.inv(Z.T @ Z)  # 1/4 over a squared normal density
    assert_allclose(model.uncertainty_.covariance, exact, rtol=0.15, atol=1.5e-5 / 4.0)
    assert model.uncertainty_.residual_variance is None


def test_piecewise_curvatures_are_derivatives_of_derivatives():
    z, step = np.linspace(-3.0, 3.0, 301) + 1e-4, 1e-6
    for loss, y in ((SmoothHinge(2.0), 1.0), (SmoothQuantile(0.3, 0.4), 0.2)):
        targets = np.full(len(z), y)
        slopes = [
            [derivative(loss, one, target) for one, target in zip(moved, targets, strict=True)]
            for moved in (z, z + step)
        ]
        exact = (np.array(slopes[1]) - slopes[0]) / step
        found = loss.smoothness() * module.bent(loss, np.array(slopes[0]))
        assert_allclose(found, exact, atol=1e-3)
        assert 0.0 < found.mean() < loss.smoothness()


# ------------------------------------------------------------------------- penalties of l1 norms


@each(
    ("Estimator", "penalised", "free"),
    [
        (PrivateElasticNet, {"alpha": 0.2}, PrivateRidge(alpha=0.0, target_bound=20.0)),
        (
            PrivateElasticNet,
            {"alpha": 0.2, "l1_ratio": 0.5},
            PrivateRidge(alpha=0.0, target_bound=20.0),
        ),
        (
            PrivateLogisticRegression,
            {"C": 0.005, "l1_ratio": 1.0},
            PrivateLogisticRegression(C=math.inf),
        ),
        (PrivateLinearSVC, {"C": 0.002, "penalty": "l1"}, PrivateLinearSVC(C=math.inf)),
        (
            PrivateQuantileRegressor,
            {"alpha": 0.05, "quantile": 0.7},
            PrivateQuantileRegressor(target_bound=20.0, quantile=0.7),
        ),
    ],
)
def test_an_l1_penalty_changes_coefficients_and_no_interval(Estimator, penalised, free):
    """What is released is the same; only what follows from it differs."""
    X, y, _ = drawn(Estimator, 3000, 2, np.random.default_rng(22))
    params = {"epsilon": 3.0, "random_state": 0, "feature_bound": 6.0, "standard_errors": True}
    model = fitted(Estimator, X, y, **params, **penalised)
    other = free.set_params(**params).fit(X, y)
    assert_allclose(model.confint(), other.confint(), rtol=1e-9)
    assert_allclose(model.summary().coef[:2], other.coef_.ravel(), rtol=1e-9)
    assert abs(model.coef_).sum() < 0.9 * abs(other.coef_).sum()
    if hasattr(model, "predict_interval"):
        assert_allclose(model.predict_interval(X[:9]), other.predict_interval(X[:9]), rtol=1e-9)


def test_without_noise_the_penalised_coefficients_are_those_of_scikit_learn():
    X, y, _ = drawn(PrivateElasticNet, 5000, 3, np.random.default_rng(23))
    X = np.clip(X, -2.0, 2.0)  # long rows would count less
    model = fitted(PrivateElasticNet, X, y, epsilon=1e4, random_state=0, l1_ratio=0.7)
    exact = ElasticNet(alpha=0.1, l1_ratio=0.7).fit(X, y)
    assert_allclose(model.coef_, exact.coef_, atol=0.02)
    three = (X + np.random.default_rng(24).gumbel(size=X.shape)).argmax(axis=1)
    params = {"l1_ratio": 1.0, "C": 0.002, "standard_errors": True, "feature_bound": 6.0}
    sparse_ = PrivateLogisticRegression(epsilon=100.0, **params).fit(X, three)
    free = PrivateLogisticRegression(epsilon=100.0, **{**params, "C": math.inf}).fit(X, three)
    assert (sparse_.coef_ == 0.0).sum() >= 4
    assert (abs(sparse_.confint() - free.confint()) < 0.1).all()


def test_models_of_moments_with_an_l1_penalty_have_the_intervals_of_all():
    rng = np.random.default_rng(25)
    X, y, _ = drawn(PrivateRidge, 2000, 3, rng)
    Y = np.column_stack([y, X[:, 0] + rng.standard_normal(2000)])
    for targets in (y, Y):
        moments = PrivateMoments(feature_bound=6.0, target_bound=20.0).fit(X, targets)
        free = PrivateRidge(alpha=0.0).fit(moments)
        for model in (PrivateLasso(), PrivateLasso(radius=0.5), PrivateElasticNet(alpha=0.3)):
            model.fit(moments)
            assert_allclose(model.confint(), free.confint(), rtol=1e-9)
            assert_allclose(model.predict_interval(X[:5]), free.predict_interval(X[:5]), rtol=1e-9)
            assert abs(model.coef_).sum() < abs(free.coef_).sum()
        assert_allclose(free.summary().coef, PrivateLasso().fit(moments).summary().coef)


def of_three_classes(n, rng):
    """Records, labels and coefficients that add up to 0."""
    W = np.array([[1.0, 0.0], [-0.5, 0.5], [-0.5, -0.5]])
    X = rng.standard_normal((n, 2))
    scores = X @ W.T + [0.3, 0.0, -0.3]
    return X, (scores + rng.gumbel(size=(n, 3))).argmax(axis=1), W


def test_without_noise_classes_have_the_classical_covariance():
    X, y, _ = of_three_classes(6000, np.random.default_rng(14))
    model = fitted(PrivateLogisticRegression, X, y, epsilon=1000.0, random_state=0)
    plain = LogisticRegression(C=math.inf, tol=1e-10).fit(X, y)
    assert_allclose(model.coef_, plain.coef_ - plain.coef_.mean(axis=0), atol=0.02)
    P, Z = plain.predict_proba(X), np.column_stack([X, np.ones(len(X))])
    H = np.zeros((9, 9))
    for p, z in zip(P, Z, strict=True):
        H += np.kron(np.diag(p) - np.outer(p, p), np.outer(z, z))
    exact, known = np.linalg.pinv(H, rcond=1e-10), model.uncertainty_
    assert_allclose(known.joint.reshape(9, 9), exact, rtol=0.1, atol=1e-4)
    assert_allclose(known.joint.sum(axis=0), 0.0, atol=1e-12)
    assert_allclose(known.covariance[1], known.joint[1, :, 1])
    assert model.coef_covariance_.shape == (3, 2, 2)
    assert model.confint().shape == (3, 2, 2)
    table = model.summary()
    assert list(table["class"]) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("params", [{}, {"class_weight": {0: 2.0}}])
def test_intervals_of_classes_cover(params):
    rng, inside = np.random.default_rng(15), []
    for _ in range(80):
        X, y, W = of_three_classes(4000, rng)
        low, high = np.moveaxis(
            fitted(PrivateLogisticRegression, X, y, epsilon=4.0, **params).confint(), -1, 0
        )
        inside += [*((low < W) & (W < high)).ravel()]
    assert np.mean(inside) > 0.86  # 480 of 95 %, of which six hang together


@pytest.mark.parametrize("Estimator", [Estimator for Estimator, _ in MODELS])
@pytest.mark.parametrize(("n", "epsilon"), [(600, 4.0), (3000, 1.0)])
def test_intervals_cover(Estimator, n, epsilon):
    rng, inside = np.random.default_rng(2), []
    for _ in range(140):
        X, y, coef = drawn(Estimator, n, 2, rng)
        model = fitted(Estimator, X, y, epsilon=epsilon)
        low, high = model.confint().reshape(-1, 2).T
        inside += [*((low < coef) & (coef < high))]
        last, middle = model.summary().iloc[-1], 0.2 if Estimator is PrivateLinearSVC else 0.5
        inside.append(last.low < middle < last.high)
    assert np.mean(inside) > 0.86  # 420 of 95 %, of which three hang together


@pytest.mark.parametrize(("Estimator", "params"), MODELS)
def test_shapes_and_summary(Estimator, params):
    X, y, _ = drawn(Estimator, 3000, 2, np.random.default_rng(3))
    model = fitted(Estimator, X, y, epsilon=4.0)
    shape = (1, 2) if Estimator in CLASSIFIERS else (2,)
    assert model.coef_standard_error_.shape == model.coef_.shape == shape
    assert model.coef_covariance_.shape == (*shape, 2)
    assert model.confint(0.9).shape == (*shape, 2)
    table = model.summary()
    assert list(table.name) == ["x0", "x1", "intercept"]
    assert "target" not in table
    if Estimator is not PrivateElasticNet:
        assert_allclose(table.coef[:2], model.coef_.ravel())
    assert_allclose(table.standard_error[:2], model.coef_standard_error_.ravel())
    assert (table.low < table.coef).all()
    assert (table.coef < table.high).all()
    without = fitted(Estimator, X, y, epsilon=4.0, fit_intercept=False)
    assert list(without.summary().name) == ["x0", "x1"]
    plain = fitted(Estimator, X, y, epsilon=4.0, standard_errors=False)
    assert not hasattr(plain, "coef_standard_error_")
    with pytest.raises(AttributeError, match="has no standard errors"):
        plain.confint()


def test_targets_are_covered():
    X, y, _ = drawn(PrivateRidge, 6000, 2, np.random.default_rng(4))
    model = fitted(PrivateRidge, X[:4000], y[:4000], epsilon=2.0)
    low, high = model.predict_interval(X[4000:]).T
    assert 0.92 < ((low < y[4000:]) & (y[4000:] < high)).mean() < 0.98


def test_much_noise_is_said_before_and_after():
    X, y, _ = drawn(PrivateLogisticRegression, 300, 4, np.random.default_rng(5))
    for epsilon in (2.0, 0.5):
        with pytest.warns(UtilityWarning, match="probably wider than"):
            model = fitted(PrivateLogisticRegression, X, y, epsilon=epsilon)
    assert model.uncertainty_.doubtful
    with pytest.warns(UtilityWarning, match="coverage of these intervals is doubtful"):
        model.confint()
    many = fitted(PrivateLogisticRegression, X, y, epsilon=100.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        many.confint()


def test_a_penalty_and_units_are_those_of_the_user():
    rng = np.random.default_rng(6)
    X, y, _ = drawn(PrivateRidge, 5000, 2, rng)
    params = {"epsilon": 1e6, "alpha": 5000.0, "random_state": 0}
    model = fitted(PrivateRidge, X * [10.0, 0.1], y, feature_bound=[60.0, 0.6], **params)
    centred = (X - X.mean(axis=0)) * [10.0, 0.1]
    exact = np.linalg.solve(centred.T @ centred + 5000.0 * np.eye(2), centred.T @ y)
    assert_allclose(model.coef_, exact, rtol=0.02, atol=1e-3)


@pytest.mark.parametrize("Estimator", [PrivateLogisticRegression, PrivateRidge])
def test_fits_that_begin_at_a_model(Estimator):
    rng = np.random.default_rng(8)
    public = Estimator(epsilon=50.0, feature_bound=6.0).fit(*drawn(Estimator, 500, 2, rng)[:2])
    X, y, coef = drawn(Estimator, 4000, 2, rng)
    defaults = dict(MODELS)[Estimator]
    model = Estimator(epsilon=4.0, standard_errors=True, feature_bound=6.0, **defaults)
    model.fit(X, y, init=public)
    assert (abs(model.coef_ - coef) < 4.0 * model.coef_standard_error_).all()
    assert_allclose(model.confint().mean(axis=-1), model.coef_)


# ------------------------------------------------------------------------------ what is refused


OTHER_SOLVER = {"feature_bound": None, "solver": "sgd"}
REFUSED = [
    (PrivateLogisticRegression(solver="coordinate-descent"), 2, "'auto' or 'gradient-descent'"),
    (PrivateLogisticRegression(**OTHER_SOLVER), 2, "solver must be 'auto'"),
    (PrivateLinearSVC(), 3, "standard_errors must be False for the loss OneVsRest"),
]


@each(("model", "n_classes", "match"), REFUSED)
def test_refusals_cost_nothing(model, n_classes, match):
    X, y = np.random.default_rng(9).standard_normal((90, 2)), np.arange(90) % n_classes
    costs_nothing(model.set_params(standard_errors=True), match, X, y)


def test_too_many_features_are_refused():
    model = PrivateRidge(standard_errors=True, target_bound=1.0)
    costs_nothing(model, "more than 1000 features", np.zeros((2, 1000)), np.zeros(2))


def test_moments_still_serve_ridge():
    X, y, _ = drawn(PrivateRidge, 2000, 2, np.random.default_rng(10))
    moments = PrivateMoments(feature_bound=6.0, target_bound=20.0).fit(X, y)
    model = PrivateRidge(standard_errors=True).fit(moments)
    assert model.coef_standard_error_.shape == (2,)
    several = PrivateRidge(standard_errors=True, feature_bound=6.0, target_bound=20.0)
    assert several.fit(X, np.column_stack([y, -y])).coef_standard_error_.shape == (2, 2)
    with pytest.raises(AttributeError, match="fit it to moments"):
        PrivateElasticNet(target_bound=20.0).fit(X, y).confint()
