"""Laws of l_p balls: minimisers, projections against 40 digits, regularity of the dual norms."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from cases import each
from exact_projections import exact_projection

from skdpsco._kernels import njit
from skdpsco.constraints import L1Ball, L2Ball, LpBall, lp_norm, minimiser, project, regularity
from skdpsco.constraints.norms import conjugate

UNIT = 2.0**-53
BETWEEN = [1.02, 1.1, 1.5, 1.9, 2.5, 3.0, 4.0, 20.0, 300.0]
ORDERS = [1.0, *BETWEEN[:4], 2.0, *BETWEEN[4:], math.inf]
each_order = pytest.mark.parametrize("p", ORDERS)


@njit
def compiled_project(constraint, w):
    project(constraint, w)


@njit
def compiled_minimiser(constraint, g, out):
    minimiser(constraint, g, out)


@njit
def compiled_norm(w, p):
    return lp_norm(w, p)


def projected(p, radius, v):
    w = v.copy()
    compiled_project(LpBall(float(p), float(radius)), w)
    return w


def norm(w, p):
    """Without overflow."""
    top = np.abs(w).max()
    return top * np.linalg.norm(w / top, ord=p) if top > 0.0 else 0.0


def spread(rng, D, decades):
    """Numbers of different sizes, and some zeros."""
    w = rng.normal(size=D) * 10.0 ** rng.uniform(-decades, 0.0, D)
    return w * (rng.random(D) > 0.1)


def outside(p, D, seed=0):
    """Points barely, moderately and far outside of balls, and the radii."""
    rng = np.random.default_rng(seed)
    for excess in (1e-12, 1e-5, 0.01, 0.7, 30.0, 1e6, 1e13):
        for decades in (0.1, 2.0, 12.0):
            v = spread(rng, D, decades)
            v[rng.integers(D)] = -1.0
            radius = 10.0 ** rng.uniform(-2.0, 2.0)
            yield (1.0 + excess) * radius * v / norm(v, p), radius


# --- minimisers


@each_order
def test_minimiser_attains_the_dual_norm(p):
    rng = np.random.default_rng(0)
    q = conjugate(p)
    for k in range(60):
        g = spread(rng, 6, decades=k % 4)
        g[k % 6] = 0.7
        for scale in (1e-300, 1e-160, 1.0, 1e160, 1e300):
            w, plain = np.full((2, 6), np.nan)
            compiled_minimiser(LpBall(p, 2.5), scale * g, w)
            with np.errstate(over="ignore", under="ignore"):  # what is not compiled warns
                minimiser(LpBall(p, 2.5), scale * g, plain)
            np.testing.assert_allclose(plain, w, rtol=1e-13, atol=1e-300)
            assert norm(w, p) == pytest.approx(2.5, rel=1e-14)
            assert w @ g == pytest.approx(-2.5 * norm(g, q), rel=1e-13)
            assert (w[g == 0.0] == 0.0).all()


# --- projections


@each_order
@pytest.mark.parametrize("D", [1, 2, 7, 100])
def test_projection_has_a_certificate(p, D):
    # <v - w, x - w> <= 0 for all x in the ball: the largest <v - w, x> is radius ||v - w||_q.
    for v, radius in outside(p, D):
        w = projected(p, radius, v)
        gap = radius * norm(v - w, conjugate(p)) - (v - w) @ w
        assert gap <= 1e-13 * D * radius * np.linalg.norm(v)
        assert abs(norm(w, p) - radius) <= 1e-15 * (D + 16) * radius
        assert (np.abs(w) <= np.abs(v) * (1.0 + 1e-14)).all()
        assert (w * v >= 0.0).all()


def projection_in_decimals(p, radius, v):
    """By Newton's method with 50 digits, and the proof: the conditions of optimality."""
    u = [abs(Decimal(x)) / Decimal(radius) for x in v]
    p = Decimal(p)
    multiplier = max(u) / 2
    roots = [min(x, Decimal(1)) for x in u]
    for _ in range(300):
        slope = Decimal(0)
        for j, size in enumerate(u):
            # An upper bound on the root; from there 1 / root grows to its limit.
            x = min(size, (size / multiplier) ** (1 / (p - 1))) if size else Decimal(0)
            while x:
                pull = x ** (p - 1)
                steepness = x + (p - 1) * multiplier * pull
                step = (x + multiplier * pull - size) / steepness
                x /= 1 + step
                if abs(step) < Decimal("1e-22"):
                    slope += pull * pull * x / steepness
                    break
            roots[j] = x
        amount = sum(x**p for x in roots if x)
        if abs(amount - 1) < Decimal("1e-36"):
            break
        step = (amount ** ((p - 1) / p) - 1) * amount / ((p - 1) * slope)
        multiplier = max(multiplier + step, multiplier / 4)
    assert abs(amount - 1) < Decimal("1e-36")
    for x, size in zip(roots, u, strict=True):
        if x:
            assert abs(x + multiplier * x ** (p - 1) - size) <= size * Decimal("1e-36")
    return [(x * Decimal(radius)).copy_sign(Decimal(y)) for x, y in zip(roots, v, strict=True)]


def distance(w, exact, v):
    """l2 distance, relative to the l2 norm of v."""
    square = sum((Decimal(x) - y) ** 2 for x, y in zip(w.tolist(), exact, strict=True))
    return float((square / sum(Decimal(x) ** 2 for x in v)).sqrt())


@pytest.mark.parametrize("p", [1.001, *BETWEEN[::2], 1e5])
def test_projection_error_bounds_the_rounding(p):
    D, worst, sizes = 5, 0.0, []
    with localcontext() as context:
        context.prec = 50
        for v, radius in outside(p, D):
            w = projected(p, radius, v)
            error = distance(w, projection_in_decimals(p, radius, v.tolist()), v.tolist())
            worst = max(worst, error / LpBall(p, radius).projection_error(D))
            sizes.append(sum(abs(Decimal(x)) ** Decimal(p) for x in w.tolist()))
            # Feasible up to the rounding of a norm.
            size = float(sizes[-1].ln() / Decimal(p) - Decimal(radius).ln())
            assert abs(size) <= (D + 16) * UNIT
    # The bound is for the worst of all roundings: it holds with a factor of 10 to spare.
    assert 0.0 < worst <= 0.1


@pytest.mark.parametrize("p", [1.0 + 2.0**-40, 1.0 + 2.0**-20, 2.0 - 2.0**-30, 2.0**20, 2.0**40])
def test_projection_error_bounds_the_rounding_for_extreme_orders(p):
    # Any w is the projection of w + multiplier w**(p - 1) on the ball on whose boundary it is.
    rng = np.random.default_rng(10)
    D, worst = 6, 0.0
    with localcontext() as context:
        context.prec, context.Emin = 50, -(10**17)
        order = Decimal(p)
        for k in range(150):
            near = [0.0, 1.0, 1.0 / p][k % 3]  # all alike, powers of all sizes, or coordinates
            w = [Decimal(x) for x in 1.0 - near * np.minimum(rng.exponential(1.0, D), 1.0 - 1e-9)]
            multiplier = Decimal(10.0 ** rng.uniform(-14.0, [0.0, 13.0][k % 2]))
            v = np.array([float(x + multiplier * x ** (order - 1)) for x in w])
            radius = sum(x**order for x in w) ** (1 / order)
            error = distance(projected(p, float(radius), v), w, v.tolist())
            worst = max(worst, error / LpBall(p, float(radius)).projection_error(D))
    assert 0.0 < worst <= 0.1  # 3 units of the rounding of v and of the radius included


@each("p", [1.0 + 2.0**-41, 2.0**41, 0.5, math.nan])
def test_orders_without_a_bound_are_refused(p):
    with pytest.raises(ValueError, match=r"p must be 1, in \[1 \+ 2\*\*-40, 2\*\*40\] or inf, got"):
        LpBall(p, 1.0).projection_error(3)


@each("p", [*ORDERS, 1.0 + 2.0**-40, 2.0**40])
def test_orders_with_a_bound(p):
    assert LpBall(p, 1.0).projection_error(3) == L1Ball(1.0).projection_error(3) == 660 * UNIT


def test_projection_error_bounds_the_rounding_of_thresholds():
    rng = np.random.default_rng(3)
    for D in (2, 30, 150):
        for _ in range(20):
            v, radius = spread(rng, D, rng.choice([0.1, 3.0])), 10.0 ** rng.uniform(-4.0, 1.0)
            w, exact = projected(1.0, radius, v), exact_projection(v, radius)
            square = sum((Fraction(x) - y) ** 2 for x, y in zip(w.tolist(), exact, strict=True))
            allowed = 0.05 * L1Ball(radius).projection_error(D)
            assert math.sqrt(square) / np.linalg.norm(v) <= allowed
            assert np.abs(w).sum() <= radius * (1.0 + 1e-15 * D)


def test_rounding_of_thresholds_of_many_entries():
    # All but the first are just above the threshold, and as good as equal. The rounding of a plain
    # sum would be multiplied by the number of its terms.
    v = np.append(2.0, 1.0000001 + np.random.default_rng(11).uniform(0.0, 1e-12, 20_000))
    for ball in (1.0, 0.7, 1.3):
        assert abs(math.fsum(projected(1.0, ball, ball * v)) / ball - 1.0) <= 10.0 * len(v) * UNIT


def test_projection_error_bounds_the_rounding_of_lengths():
    rng = np.random.default_rng(4)
    with localcontext() as context:
        context.prec = 50
        for D in (1, 3, 200):
            for _ in range(20):
                v, radius = rng.normal(size=D), 10.0 ** rng.uniform(-4.0, 1.0)
                length = sum(Decimal(x) ** 2 for x in v.tolist()).sqrt()
                factor = min(Decimal(radius) / length, 1)
                error = distance(
                    projected(2.0, radius, v), [factor * Decimal(x) for x in v.tolist()], v.tolist()
                )
                assert error <= 0.05 * L2Ball(radius).projection_error(D)


@each_order
def test_points_inside_stay(p):
    rng = np.random.default_rng(2)
    for D in (1, 4, 50):
        for share in (1e-200, 0.1, 0.9, 1.0 - 1e-12):
            v = spread(rng, D, 1.0)
            v[0] = 0.5
            v *= share * 3.0 / norm(v, p)
            np.testing.assert_array_equal(projected(p, 3.0, v), v)
            np.testing.assert_array_equal(projected(p, 3.0, np.zeros(D)), 0.0)


@each_order
def test_projection_of_extreme_numbers(p):
    rng = np.random.default_rng(5)
    for radius in (1e-200, 1e-12, 1.0, 1e12, 1e200):
        for scale in (1e-300, 1e-200, 1e-20, 1.0, 1e20, 1e200, 1e300):
            v = scale * np.array([-1.0, 0.3, 1e-5, 0.0, *rng.normal(size=3)])
            w = projected(p, radius, v)
            assert np.isfinite(w).all()
            if norm(v, p) <= radius:
                np.testing.assert_array_equal(w, v)
            else:
                assert norm(w, p) == pytest.approx(radius, rel=1e-13)
                if scale / 1e300 < min(radius, 1.0):  # v / radius does not overflow
                    unit = projected(p, 1.0, v / radius)
                    np.testing.assert_allclose(w, radius * unit, rtol=1e-6, atol=1e-300)


@each("p", [1.0 + 2.0**-40, 1.0 + 1e-6, 1e6, 1e15])
def test_projection_for_extreme_orders(p):
    # Close to the limit; the search ends.
    limit = 1.0 if p < 2.0 else math.inf
    for v, radius in outside(p, 6):
        w = projected(p, radius, v)
        assert norm(w, p) == pytest.approx(radius, rel=1e-13)
        near = abs(p - 1.0) if p < 2.0 else 1.0 / p
        # The balls differ by the factor 6**near at most, and far out two l2 norms of the argument.
        close = 2.0 * math.expm1(2.0 * near) * np.linalg.norm(v) + 1e-12 * np.linalg.norm(v)
        assert np.linalg.norm(w - projected(limit, radius, v)) <= close


# --- constants


@each_order
def test_lp_norm(p):
    rng = np.random.default_rng(7)
    for D in (1, 3, 40):
        for scale in (0.0, 1e-300, 1e-170, 1.0, 1e170, 1e300):
            w = scale * spread(rng, D, 2.0)
            expected = norm(w, p)
            assert compiled_norm(w, p) == pytest.approx(expected, rel=1e-14)
            with np.errstate(over="ignore"):
                assert lp_norm(w, p) == pytest.approx(expected, rel=1e-14)
    assert compiled_norm(np.array([1.0, -np.inf]), p) == np.inf


def test_conjugate():
    for p in ORDERS:
        q = conjugate(p)
        assert 1.0 / p + 1.0 / q == pytest.approx(1.0, rel=1e-15)
        assert conjugate(q) == pytest.approx(p, rel=1e-12)


@each_order
@each("D", [1, 2, 3, 10, 300])
def test_gaussian_width(p, D):
    q = conjugate(p)
    B = np.random.default_rng(8).normal(size=(4000, D))
    largest = 2.5 * np.linalg.norm(B, ord=q, axis=1)
    width = LpBall(p, 2.5).gaussian_width(D)
    error = 6.0 * largest.std() / math.sqrt(len(B))  # fails by chance once in a billion
    assert largest.mean() <= width + error
    assert width <= 2.2 * largest.mean()


def test_diameter_and_norm_bound():
    ball = LpBall(3.0, 2.5)
    assert ball.diameter(3.0) == ball.diameter(math.inf) == 5.0
    with pytest.raises(ValueError, match=r"l2 diameter of an l3\.0 ball depends on the size"):
        ball.diameter(2)
    assert ball.norm_bound() == math.inf
    assert LpBall(1.0, 2.5).norm_bound() == 2.5


@each("D", [1, 2, 3, 7, 8, 10, 50, 1000, 10**6])
@each("p", [1.0, 1.01, 1.05, 1.2, 1.5, 1.9, 2.0])
def test_regularity_is_the_best_constant(p, D):
    q = conjugate(p)
    r, kappa = regularity(p, D)
    assert 2.0 <= r <= q
    assert kappa == pytest.approx((r - 1.0) * D ** (2.0 / r - 2.0 / q), rel=1e-12)
    # By brute force: no order is better.
    orders = np.concatenate([np.linspace(2.0, 40.0, 20_000), np.geomspace(40.0, 1e4, 1000)])
    orders = np.append(orders[orders <= q], min(q, 1e9))
    constants = (orders - 1.0) * D ** (2.0 / orders - 2.0 / q)
    assert kappa <= constants.min() * (1.0 + 1e-12)
    assert kappa >= constants.min() * (1.0 - 1e-6)  # a grid misses the best by little


@pytest.mark.parametrize(("p", "D"), [(1.0, 3), (1.0, 50), (1.2, 50), (1.6, 5), (2.0, 4)])
def test_regularity_of_the_dual_norm(p, D):
    rng = np.random.default_rng(9)
    q = conjugate(p)
    r, kappa = regularity(p, D)
    tightest = 0.0
    for k in range(400):
        x, y = spread(rng, D, k % 3), spread(rng, D, k % 2) * 10.0 ** rng.uniform(-3.0, 1.0)
        x = np.sign(x) if k % 7 == 0 else x
        size = norm(x, r)
        slope = 2.0 * np.sign(x) * np.abs(x / max(size, 1e-300)) ** (r - 1.0) * size
        bend = norm(x + y, r) ** 2 - size**2 - slope @ y
        assert bend <= (r - 1.0) * norm(y, r) ** 2 * (1.0 + 1e-9) + 1e-12 * size**2
        assert norm(x, q) ** 2 <= size**2 * (1.0 + 1e-12)
        assert size**2 <= kappa / (r - 1.0) * norm(x, q) ** 2 * (1.0 + 1e-12)
        tightest = max(tightest, size**2 * (r - 1.0) / kappa / max(norm(x, q), 1e-100) ** 2)
    assert tightest > 0.999 or D > 5  # attained by signs


@each("p", [0.9, 2.1, math.nan, math.inf])
def test_regularity_needs_an_order_up_to_2(p):
    with pytest.raises(ValueError, match=r"p must be in \[1, 2\]"):
        regularity(p, 10)
