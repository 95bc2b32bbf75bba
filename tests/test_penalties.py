"""Penalties against brute force: values, proximal maps, slopes, and coefficients in other units."""

import math

import numpy as np
import pytest
from cases import each

from skdpsco._kernels import njit
from skdpsco.penalties import (
    L1,
    L2,
    Box,
    ElasticNet,
    penalty_value,
    prox,
    scaled_prox,
    soft_threshold,
    stationarity_gap,
    subdifferential,
)

PENALTIES = [
    L1(0.7), L1(0.0), L2(0.7), L2(0.0), ElasticNet(0.7, 0.4), ElasticNet(0.0, 0.4), Box(0.8)
]  # fmt: skip
each_penalty = pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
POINTS = [-3.0, -0.8, -0.31, 0.0, 1e-9, 0.42, 0.8, 2.5]
STEPS = [0.01, 0.6, 5.0]


def definition(penalty, w):
    """The penalty as its docstring has it."""
    if isinstance(penalty, L1):
        return penalty.alpha * abs(w)
    if isinstance(penalty, L2):
        return penalty.alpha * w**2 / 2
    if isinstance(penalty, ElasticNet):
        return penalty.l1 * abs(w) + penalty.l2 * w**2 / 2
    return 0.0 if abs(w) <= penalty.radius else math.inf


@each_penalty
def test_values(penalty):
    for w in POINTS:
        assert penalty_value(penalty, w) == pytest.approx(definition(penalty, w))


def smallest(function, low, high):
    """Minimiser of a convex function, on finer and finer grids."""
    for _ in range(12):
        points = np.linspace(low, high, 41)
        best = int(np.argmin([function(u) for u in points]))
        low, high = points[max(best - 1, 0)], points[min(best + 1, 40)]
    return (low + high) / 2


@each_penalty
def test_prox_is_the_minimiser(penalty):
    for v in POINTS:
        for step in STEPS:
            found = smallest(
                lambda u, v=v, s=step: s * definition(penalty, u) + (u - v) ** 2 / 2, -4, 4
            )
            assert prox(penalty, v, step) == pytest.approx(found, abs=1e-6)


@each_penalty
@pytest.mark.parametrize("scale", [0.3, 1.0, 20.0])
def test_scaled_prox_is_that_of_the_scaled_penalty(penalty, scale):
    for v in POINTS:
        for step in STEPS:
            found = smallest(
                lambda u, v=v, s=step: s * definition(penalty, scale * u) + (u - v) ** 2 / 2, -4, 4
            )
            assert scaled_prox(penalty, v, step, scale) == pytest.approx(found, abs=1e-6)
        assert scaled_prox(penalty, v, 1.0, 0.0) == v  # not penalised


@each_penalty
def test_prox_contracts_as_the_curvature_says(penalty):
    """A prox is (1 + step c)**-1 Lipschitz if the penalty has curvature c; greedy steps need it."""
    rng = np.random.default_rng(0)
    for a, b in rng.normal(scale=2.0, size=(300, 2)):
        for step in STEPS:
            moved = abs(prox(penalty, a, step) - prox(penalty, b, step))
            assert moved <= abs(a - b) / (1.0 + step * penalty.curvature) + 1e-12
    if not isinstance(penalty, Box):
        curved = [definition(penalty, w) - penalty.curvature * w**2 / 2 for w in (1.0, 2.0, 3.0)]
        assert curved[0] + curved[2] >= 2 * curved[1] - 1e-12


@each_penalty
def test_subdifferential_holds_all_slopes(penalty):
    grid = np.linspace(-4, 4, 801)
    for w in POINTS:
        if definition(penalty, w) == math.inf:
            continue
        low, high = subdifferential(penalty, w)
        assert low <= high
        for slope in (low, high):
            if abs(slope) < math.inf:
                lines = definition(penalty, w) + slope * (grid - w)
                assert (lines <= [definition(penalty, u) + 1e-9 for u in grid]).all()
        # And no others: the ends are the slopes on either side.
        h = 1e-10
        for slope, side in ((high, h), (low, -h)):
            quotient = (definition(penalty, w + side) - definition(penalty, w)) / side
            assert quotient == pytest.approx(slope, abs=1e-5) or quotient == slope


@each_penalty
@each("scale", [0.3, 1.0, 20.0])
def test_the_gap_vanishes_where_a_proximal_step_stays(penalty, scale):
    for v in POINTS:
        for weight in (0.5, 2.0):
            w = scaled_prox(penalty, v, weight, scale)
            # w minimises weight * psi(scale * w) + (w - v)**2 / 2: the slope w - v is balanced.
            assert stationarity_gap(penalty, w, w - v, weight, scale) == pytest.approx(0, abs=1e-9)
            assert stationarity_gap(penalty, w, w - v + 1e6, weight, scale) >= 0.0
    low, high = subdifferential(penalty, 0.0)
    for slope in (-3.0, 0.1, 3.0):
        nearest = min(max(-slope, 0.5 * scale * low), 0.5 * scale * high)
        expected = abs(-slope - nearest)
        assert stationarity_gap(penalty, 0.0, slope, 0.5, scale) == pytest.approx(expected)
        assert stationarity_gap(penalty, 0.0, slope, 0.5, 0.0) == abs(slope)


def test_zeros_are_exact():
    assert soft_threshold(0.3, 0.3) == soft_threshold(-0.1, 0.3) == 0.0
    assert prox(L1(1.0), 0.5, 0.6) == prox(ElasticNet(1.0, 2.0), -0.5, 0.6) == 0.0
    assert scaled_prox(L1(1.0), 1e-3, 1.0, 0.1) == 0.0


@njit
def compiled(penalty, v, step, scale):
    return (
        penalty_value(penalty, v),
        prox(penalty, v, step),
        subdifferential(penalty, v),
        scaled_prox(penalty, v, step, scale),
        stationarity_gap(penalty, v, step, step, scale),
    )


@each_penalty
def test_compiled_kernels_agree_with_python(penalty):
    for v in POINTS:
        for step in STEPS:
            assert compiled(penalty, v, step, 0.3) == compiled.py_func(penalty, v, step, 0.3)
