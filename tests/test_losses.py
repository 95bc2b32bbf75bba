"""Laws of the losses: kernels against each other, public constants against brute force."""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from cases import each

from skdpsco._kernels import implements, njit
from skdpsco.losses import (
    Huber,
    Logistic,
    Multinomial,
    SmoothHinge,
    SmoothQuantile,
    Squared,
    Traits,
    curvature,
    curvatures,
    derivative,
    derivatives,
    is_proven,
    lipschitz_l2,
    lipschitz_norm,
    value,
    values,
)
from skdpsco.losses.check import check_loss
from skdpsco.losses.hazards import EXPOSED, LARGEST_MEAN, ProportionalHazards
from skdpsco.losses.library import Absolute, Hinge, Mixture, Quantile, Weighted, for_kernels
from skdpsco.losses.log_link import GammaDeviance, PoissonDeviance, highest
from skdpsco.losses.tabulated import Tabulated
from skdpsco.losses.traits import traits_of, usual_curvature
from skdpsco.privacy import Budget
from skdpsco.solvers import GradientDescent, Problem
from skdpsco.solvers.base import curvature_of
from skdpsco.solvers.penalized.problem import unpenalised

# Losses are told apart by identity and class: as tuples, Squared(3.0) == Multinomial(3).
SQUARED, LOGISTIC = Squared(), Logistic()
REGRESSION = [SQUARED, Squared(clip=0.7), Squared(clip=3.0), Huber(), Huber(delta=0.2)]
REGRESSION += [SmoothQuantile(), SmoothQuantile(0.9, 0.5), SmoothQuantile(0.2, 0.02)]
BINARY = [LOGISTIC, SmoothHinge(), SmoothHinge(width=0.05), SmoothHinge(width=4.0)]
KNOTS = 0.05 * np.arange(-160.0, 161.0) + 0.0037  # no kink is within 1e-4 of a point of GRID
TABLES = [
    Tabulated(KNOTS, np.interp(KNOTS, [-3.0, -0.5, 0.5, 7.0], [-1.0, -0.6, 0.7, 1.0])),
    Tabulated(np.array([-0.5037, 0.5037]), np.array([-1.0, 1.0])),
]
MULTINOMIAL = [Multinomial(2), Multinomial(3), Multinomial(5)]
HAZARDS = [ProportionalHazards(), ProportionalHazards(3.0, 0.2)]
LINKS = [
    law(*fields)
    for law in (PoissonDeviance, GammaDeviance)
    for fields in ((0.4, 0.48), (-0.2, 0.15), (0.0, 3.0), (20.0, 20.1), (0.3, 1e-3))
]
KINKED = [Hinge(), Absolute(), *map(Quantile, (0.5, 0.1, 0.95))]
BENT = REGRESSION + BINARY + TABLES + HAZARDS
SCALAR = BENT + KINKED + LINKS
LOSSES = SCALAR + MULTINOMIAL


def name_of(loss):
    return f"Tabulated, {len(loss.knots)} knots" if isinstance(loss, Tabulated) else str(loss)


bent = pytest.mark.parametrize("loss", BENT, ids=name_of)
scalar = pytest.mark.parametrize("loss", SCALAR, ids=name_of)
smooth = pytest.mark.parametrize("loss", BENT + LINKS + MULTINOMIAL, ids=name_of)
multinomial = pytest.mark.parametrize("loss", MULTINOMIAL, ids=name_of)
every = pytest.mark.parametrize("loss", LOSSES, ids=name_of)

GRID = np.linspace(-6.0, 6.0, 1201)


def most(loss):
    """The bound on targets, which may be less than a loss is defined for."""
    return 1.0 if isinstance(loss, Tabulated | PoissonDeviance | GammaDeviance) else 1.5


def targets(loss):
    """Targets that a record may have."""
    if isinstance(loss, Logistic | SmoothHinge | Hinge):
        return np.array([-1.0, 1.0])
    if isinstance(loss, Multinomial):
        return np.arange(float(loss.n_classes))
    if isinstance(loss, ProportionalHazards):
        return np.array([-EXPOSED, -0.3 * EXPOSED, 0.0, 1.0 - EXPOSED, 1.0])
    return np.array([-most(loss), -0.4, 0.0, 1.0, most(loss)])


def records(loss, n=300, spread=4.0, seed=0):
    """Random predictions and targets."""
    rng = np.random.default_rng(seed)
    return rng.normal(0.0, spread, (n, loss.n_outputs)), rng.choice(targets(loss), n)


def evaluate(kernel, loss, Z, y):
    """Output of an array kernel, which must write every entry and leave ``Z`` alone."""
    out = np.full(Z.shape if kernel is derivatives else len(y), np.nan)
    before = Z.copy()
    kernel(loss, Z, y, out)
    np.testing.assert_array_equal(Z, before)
    return out


def kernels(loss):
    """The kernels of arrays that a loss has."""
    return (values, derivatives, curvatures)[: 2 if loss.smoothness() == math.inf else 3]


@njit
def compiled(loss, Z, y, value_out, derivative_out, aliased):
    values(loss, Z, y, value_out)
    derivatives(loss, Z, y, derivative_out)
    derivatives(loss, aliased, y, aliased)


@njit
def compiled_curvatures(loss, Z, y, out):
    curvatures(loss, Z, y, out)


def run_compiled(loss, Z, y):
    """What machine code makes of the loss as solvers pass it on."""
    V, R, C, aliased = np.empty(len(y)), np.empty_like(Z), np.empty(len(y)), Z.copy()
    compiled(for_kernels(loss), Z, y, V, R, aliased)
    if len(kernels(loss)) == 2:
        return V, R, aliased
    compiled_curvatures(for_kernels(loss), Z, y, C)
    return V, R, C, aliased


@pytest.mark.parametrize("loss", BENT + KINKED, ids=name_of)
def test_derivative_is_the_slope_of_value(loss):
    # The derivative of a convex function brackets its difference quotients.
    h, points = 1e-4, GRID[::2] if isinstance(loss, Tabulated) else GRID  # twice between two knots
    for y in targets(loss):
        for z in points:
            above, below = value(loss, z + h, y), value(loss, z - h, y)
            tolerance = 1e-15 * (1.0 + above + below) / h
            quotient = (above - below) / (2 * h)
            assert derivative(loss, z - h, y) - tolerance <= quotient
            assert quotient <= derivative(loss, z + h, y) + tolerance


@bent
def test_curvature_bounds_the_slope_of_derivative(loss):
    h, tolerance, points = 1e-4, 1e-5, GRID
    if isinstance(loss, ProportionalHazards):  # it is steepest at one point, and linear beyond
        points = np.append(GRID, math.log(LARGEST_MEAN / loss.most) - h)
        tolerance = 2.0 * h
    steepest = 0.0
    for y in targets(loss):
        for z in points:
            slope = (derivative(loss, z + h, y) - derivative(loss, z - h, y)) / (2 * h)
            steepest = max(steepest, slope)
            assert slope >= -1e-9  # convex
            # The quotient is the mean of the curvature over [z - h, z + h], which differs from the
            # curvature at z by about a sixth of its second difference.
            left, here, right = (curvature(loss, t, y) for t in (z - h, z, z + h))
            assert slope <= here + abs(left - 2 * here + right) / 5 + 1e-9
            assert here <= loss.smoothness()
            if loss is SQUARED or loss is LOGISTIC:
                assert curvature(loss, z, y) == pytest.approx(slope, abs=1e-8)
    assert steepest == pytest.approx(loss.smoothness(), rel=tolerance)


@pytest.mark.parametrize("loss", LINKS, ids=str)
def test_links_have_the_slopes_they_say(loss):
    assert is_proven(loss)
    grid, h = np.linspace(-12.0, 12.0, 481), 1e-6
    for t in (-1.0, -0.3, 0.0, 0.2, 1.0):
        slopes = [derivative(loss, z, t) for z in grid]
        assert (np.diff(slopes) >= 0.0).all()
        for z, slope in zip(grid, slopes, strict=True):
            quotient = (value(loss, z + h, t) - value(loss, z - h, t)) / (2.0 * h)
            assert quotient == pytest.approx(slope, abs=1e-5 * highest(loss))
            bend = (derivative(loss, z + h, t) - derivative(loss, z - h, t)) / (2.0 * h)
            assert bend <= curvature(loss, z, t) * (1.0 + 1e-5) + 1e-5
            assert 0.0 <= curvature(loss, z, t) <= loss.smoothness()
    steepest = max(curvature(loss, z, 1.0) for z in np.linspace(-30.0, 30.0, 60001))
    assert steepest == pytest.approx(loss.smoothness(), rel=1e-3)


@every
def test_values_are_non_negative_and_convex(loss):
    (A, y), (B, _) = records(loss), records(loss, seed=1)
    at_a, at_b = evaluate(values, loss, A, y), evaluate(values, loss, B, y)
    assert (at_a >= 0.0).all()
    for weight in (0.1, 0.5, 0.8):
        between = evaluate(values, loss, weight * A + (1 - weight) * B, y)
        assert (between <= weight * at_a + (1 - weight) * at_b + 1e-13).all()


@multinomial
def test_multinomial_derivatives_are_the_gradient(loss):
    Z, y = records(loss)
    R = evaluate(derivatives, loss, Z, y)
    h = 1e-5
    for k in range(loss.n_outputs):
        step = h * np.eye(loss.n_outputs)[k]
        slope = evaluate(values, loss, Z + step, y) - evaluate(values, loss, Z - step, y)
        np.testing.assert_allclose(R[:, k], slope / (2 * h), rtol=0, atol=1e-9)
    np.testing.assert_allclose(R.sum(axis=1), 0.0, atol=1e-15)


@multinomial
def test_multinomial_curvature_bounds_the_hessian(loss):
    K = loss.n_outputs
    Z, y = records(loss, n=100)
    Z[:3] = [np.where(np.arange(K) < 2, 0.0, -60.0), np.zeros(K), 50.0 * np.eye(K)[0]]
    h = 1e-5
    hessian = np.empty((len(y), K, K))
    for k in range(K):
        step = h * np.eye(K)[k]
        R, L = evaluate(derivatives, loss, Z + step, y), evaluate(derivatives, loss, Z - step, y)
        hessian[:, :, k] = (R - L) / (2 * h)
    largest = np.linalg.eigvalsh((hessian + hessian.transpose(0, 2, 1)) / 2).max(axis=1)
    bound = evaluate(curvatures, loss, Z, y)
    assert (largest <= bound + 1e-9).all()
    assert (bound <= loss.smoothness()).all()
    # Attained where two classes share all the probability.
    assert largest[0] == pytest.approx(loss.smoothness(), abs=1e-9)


@each("bound", [0.0, 0.3, 1.0, 5.0])
@scalar
def test_lipschitz_is_the_largest_derivative(loss, bound):
    largest = max(
        abs(derivative(loss, z, y)) for z in np.linspace(-bound, bound, 101) for y in targets(loss)
    )
    assert largest <= loss.lipschitz(bound, most(loss)) <= largest + 1e-12


@each("bound", [0.0, 0.3, 1.0, 5.0])
@multinomial
def test_multinomial_lipschitz_is_the_largest_component(loss, bound):
    # Predictions differ by at most the bound; the target's is the smallest in the worst case.
    K = loss.n_outputs
    rng = np.random.default_rng(0)
    Z = rng.uniform(-bound / 2, bound / 2, (500, K)) + rng.normal(size=(500, 1))
    y = rng.integers(K, size=500).astype(float)
    Z[0] = np.where(np.arange(K) == y[0], -bound, 0.0)
    largest = np.abs(evaluate(derivatives, loss, Z, y)).max()
    assert largest <= loss.lipschitz(bound) + 1e-15
    assert loss.lipschitz(bound) <= largest + 1e-12


@pytest.mark.parametrize("radius", [0.1, 1.0, 4.0])
@multinomial
def test_multinomial_lipschitz_under_a_joint_l1_norm(loss, radius):
    rng = np.random.default_rng(0)
    K, d, n = loss.n_outputs, 3, 40
    largest = 0.0
    for trial in range(200):
        W = rng.laplace(size=(K, d)) ** 3
        if trial == 0:  # all of the norm speaks against one class
            W = np.zeros((K, d))
            W[0, 0] = 1.0
        W *= radius / np.abs(W).sum()
        X = rng.choice([-1.0, 1.0], (n, d))
        R = evaluate(derivatives, loss, X @ W.T, rng.integers(K, size=n).astype(float))
        assert np.abs(R).max() <= loss.lipschitz(radius) + 1e-15
        largest = max(largest, np.abs(R).max())
    assert loss.lipschitz(radius) <= largest + 1e-12


@every
def test_lipschitz_l2_bounds_the_norm_of_the_gradient(loss):
    Z, y = records(loss, n=1000, spread=30.0)
    norms = np.linalg.norm(evaluate(derivatives, loss, Z, y), axis=1)
    assert norms.max() <= lipschitz_l2(loss) + 1e-15
    if loss is SQUARED:  # whose derivative has no bound
        assert lipschitz_l2(loss) == math.inf
    else:
        assert norms.max() == pytest.approx(lipschitz_l2(loss), abs=1e-6)
    if loss.n_outputs == 1:
        assert loss.lipschitz(math.inf, most(loss)) == loss.lipschitz() == lipschitz_l2(loss)
        far = max(abs(derivative(loss, z, y)) for z in (-1e4, 1e4) for y in targets(loss))
        assert loss is SQUARED or far == pytest.approx(loss.lipschitz(), abs=1e-12)


@pytest.mark.parametrize("K", [1, 2, 3, 5])
def test_the_softmax_gradient_is_shorter_where_predictions_are_close(K):
    """The bound is reached at a corner, and nothing inside exceeds it."""
    loss, rng = Multinomial(K), np.random.default_rng(K)
    for spread in (0.0, 0.3, 1.0, 3.0, math.inf):
        size = min(spread, 800.0)
        corners = list(itertools.product([0.0, size], repeat=K))
        Z = np.vstack([corners, size * rng.random((100, K))])
        y = np.repeat(np.arange(K), len(Z)).astype(float)
        R = evaluate(derivatives, loss, np.vstack([Z] * K), y)
        for order in (1.0, 1.5, 2.0, 3.0, math.inf):
            bound = lipschitz_norm(loss, order, spread)
            largest = np.linalg.norm(R, ord=order, axis=1).max()
            assert largest <= bound * (1 + 1e-14) <= 2.0 ** (1.0 / order) * (1 + 2e-14)
            assert K == 1 or largest == pytest.approx(bound, rel=1e-12)
    assert lipschitz_norm(Multinomial(3), 2.0, 1.0) == pytest.approx(1.03447, abs=1e-5)


def fw_curvature(loss, radius, seed=0):
    """Largest ``2 / g**2`` times the gap of the linearisation, over an l1 ball of coefficients."""
    rng = np.random.default_rng(seed)
    K, d = loss.n_outputs, 3
    unit = np.zeros((K, d))
    unit[0, 0] = radius
    largest = 0.0
    for trial in range(240):
        ends = rng.laplace(size=(2, K, d)) ** 3
        ends *= radius / np.abs(ends).sum(axis=(1, 2), keepdims=True)
        x = rng.choice([-1.0, 1.0], d)
        if trial % 3 == 0:  # across the ball, through 0
            ends = np.array([unit, -unit])
        elif trial % 3 == 1 and K > 1:  # from one class to another
            ends = np.array([unit, np.roll(unit, 1, axis=0)])
        Z = ends @ x
        y = rng.choice(targets(loss), 1)
        g = rng.choice([0.05, 0.3, 1.0])
        middle = Z[0] + g * (Z[1] - Z[0])
        start = evaluate(values, loss, Z[:1], y)[0]
        slope = evaluate(derivatives, loss, Z[:1], y)[0]
        gap = evaluate(values, loss, middle[None], y)[0] - start - (middle - Z[0]) @ slope
        largest = max(largest, 2.0 / g**2 * gap)
    return largest


@pytest.mark.parametrize("radius", [0.05, 1.0, 3.0])
@smooth
def test_curvature_constant(loss, radius):
    # (<x, w> - y)**2 has 8 radius**2: the paper's 4 radius**2 is that of half of it.
    constant = curvature_of(loss, 2 * radius)
    halving = 2 if isinstance(loss, Multinomial) else 1
    assert constant == pytest.approx(loss.smoothness() * 4 * radius**2 / halving)
    largest = fw_curvature(loss, radius)
    assert largest <= constant * (1 + 1e-9)
    if loss is SQUARED:
        assert largest == pytest.approx(4 * radius**2)
    if (loss is LOGISTIC or loss is MULTINOMIAL[0]) and radius == 0.05:
        assert largest == pytest.approx(constant, rel=1e-2)


@every
def test_baseline_is_the_largest_loss_of_predicting_zero(loss):
    y = targets(loss)
    at_zero = evaluate(values, loss, np.zeros((len(y), loss.n_outputs)), y)
    assert loss.baseline(most(loss)) == pytest.approx(at_zero.max(), rel=1e-14)


@every
def test_extreme_predictions_stay_finite(loss):
    K = loss.n_outputs
    grid = np.array([-1e4, -700.0, 0.0, 700.0, 1e4])
    Z = np.array(np.meshgrid(*[grid] * K)).reshape(K, -1).T.copy()
    for target in targets(loss):
        y = np.full(len(Z), target)
        for results in (
            [evaluate(kernel, loss, Z, y) for kernel in kernels(loss)],
            run_compiled(loss, Z, y)[:-1],
        ):
            V, R, *C = results
            assert all(np.isfinite(result).all() for result in results)
            assert (V >= 0.0).all()
            assert all(((c >= 0.0) & (c <= loss.smoothness())).all() for c in C)
            if K == 1:
                assert (np.diff(R[np.argsort(Z[:, 0]), 0]) >= 0.0).all()
            else:  # one prediction dwarfs the others, or some are equal: softmax minus one-hot
                P = Z == Z.max(axis=1, keepdims=True)
                P = P / P.sum(axis=1, keepdims=True) - (np.arange(K) == target)
                np.testing.assert_allclose(R, P, atol=1e-15)


@every
def test_kernels_of_arrays_agree_with_those_of_records_and_machine_code_with_python(loss):
    Z, y = records(loss)
    found = [evaluate(kernel, loss, Z, y) for kernel in kernels(loss)]
    if loss.n_outputs == 1:
        for many, single in zip(found, (value, derivative, curvature), strict=False):
            one_by_one = [single(loss, z, t) for z, t in zip(Z[:, 0], y, strict=True)]
            np.testing.assert_array_equal(many.ravel(), one_by_one)
    *compiled, aliased = run_compiled(loss, Z, y)
    for result, expected in zip(compiled, found, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-13, atol=1e-15)
    np.testing.assert_array_equal(aliased, compiled[1])  # predictions may be overwritten
    aliased = Z.copy()
    derivatives(loss, aliased, y, aliased)
    np.testing.assert_array_equal(aliased, found[1])


@pytest.mark.parametrize("loss", KINKED, ids=name_of)
def test_losses_with_kinks_have_no_curvature(loss):
    assert loss.smoothness() == curvature_of(loss, 2.0) == math.inf
    assert not implements(curvature, type(loss))
    # The derivative is within the bound wherever it is asked: privacy depends on it.
    Z, y = np.array([[np.nan], [1e300], [-1e300], [1.0]]), np.full(4, targets(loss)[-1])
    assert np.abs(run_compiled(loss, Z, y)[1]).max() <= loss.lipschitz()


def test_losses_have_one_type_in_kernels():
    types = {type(for_kernels(loss)) for loss in (*REGRESSION, *BINARY, Hinge())}
    assert len(types) == 1
    assert type(for_kernels(Weighted(Huber(2)))) is Weighted
    assert for_kernels(Weighted(Huber(2))) == (for_kernels(Huber(2.0)),)

    class Own(Huber):
        pass

    own = Own(0.3)
    assert for_kernels(own) is own  # it may have kernels of its own


@each("size", [0.0, 1.0, 1e8, 1e16, 1e17, 1e100, -1e17])
@each("n_classes", [2, 3, 10])
def test_probabilities_sum_to_one_at_any_size(n_classes, size):
    loss = Multinomial(n_classes)
    for gap in (0.0, 1.0):
        Z = np.full((1, n_classes), size)
        Z[0, 0] += gap * max(1.0, abs(size))
        R, v = np.empty((1, n_classes)), np.empty(1)
        derivatives(loss, Z, np.ones(1), R)
        curvatures(loss, Z, np.ones(1), v)
        assert abs(R.sum()) < 1e-14
        assert np.linalg.norm(R) <= lipschitz_l2(loss) * (1 + 1e-15)
        assert 0.0 <= v[0] <= loss.smoothness()


# ---- what losses say of themselves


@every
def test_traits_are_those_of_the_kernels(loss):
    traits, n = traits_of(loss), loss.n_outputs
    kind = "classes" if n > 1 else "signs" if len(targets(loss)) == 2 else "numbers"
    assert traits.targets == (None if isinstance(loss, Tabulated) else kind)  # for any of them
    assert 0.0 < usual_curvature(loss) <= loss.smoothness()
    Z, y = records(loss, spread=1e-3)
    D = np.empty((len(y), n))
    derivatives(loss, Z, y, D)
    assert traits.sums_to_zero == (n > 1 and np.allclose(D.sum(axis=1), 0.0))
    residuals = n == 1 and all(derivative(loss, z, 0.1) == z - 0.1 for z in (-0.05, 0.2))
    assert traits.quadratic == residuals
    assert traits_of(Weighted(loss)).weighted


def test_mixtures_say_what_all_their_parts_say():
    weights = ((0.5,), (0.5,))
    alike = Mixture((Squared(), Squared(2.0)), (1.0, 1.0), weights)
    assert traits_of(alike) == traits_of(Squared())
    assert traits_of(Mixture((Squared(), Absolute()), (1.0, 1.0), weights)) == Traits()


class Own(NamedTuple):
    """Squared residuals, of which solvers know only what it says."""

    n_outputs = 1

    def lipschitz(self, prediction_bound=math.inf, target_bound=math.inf):
        return prediction_bound + target_bound

    def smoothness(self):
        return 1.0


value.register(Own)(lambda loss, z, y: 0.5 * (z - y) * (z - y))
derivative.register(Own)(lambda loss, z, y: z - y)
curvature.register(Own)(lambda loss, z, y: 1.0)


def test_a_loss_that_states_its_traits_is_planned_for_as_one_of_the_library(monkeypatch):
    def planned(loss):
        problem = unpenalised(Problem(loss, None, n_samples=2000, n_features=5))
        return GradientDescent().plan(problem, Budget(1.0, 1e-6))

    for like in (Squared(), PoissonDeviance(0.2, 0.3), Huber(0.2)):
        monkeypatch.setattr(Own, "traits", traits_of(like), raising=False)
        assert planned(Own()) == planned(like)
    check_loss(Own())


@each(
    "wrong",
    [
        {"targets": "labels"},
        {"scores": "margins", "targets": "signs"},
        {"scores": "means", "targets": "numbers"},
        {"usual_curvature": 0.0},
        {"off_centre": 1.5},
        {"jump": -1.0},
    ],
)
def test_bad_traits(wrong):
    with pytest.raises(ValueError, match="must be"):
        Traits(**wrong)


def test_traits_of_another_kind_are_refused(monkeypatch):
    monkeypatch.setattr(Own, "traits", {"residuals": True}, raising=False)
    with pytest.raises(TypeError, match=r"traits of .* must be"):
        check_loss(Own())
