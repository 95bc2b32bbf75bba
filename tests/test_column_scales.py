"""Private scales of columns, and bounds of features that are not declared."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from skdpsco._problem import Problem
from skdpsco.data.design import as_design
from skdpsco.losses import Squared
from skdpsco.privacy import NoOpEvent, mu_of
from skdpsco.scaling.column_scales import plan_scales, release_scales
from skdpsco.scaling.feature_bounds import plan_bounds


def make_problem(n, d, intercept):
    return Problem(Squared(), None, n, d + intercept, intercept)


def test_scales_are_those_of_the_columns():
    rng = np.random.default_rng(0)
    n = 20_000
    X = np.column_stack([
        rng.uniform(-1, 1, n), 0.01 * rng.normal(size=n), (rng.random(n) < 0.2), np.zeros(n)
    ])  # fmt: skip
    X[0, 1] = 1.0  # one record beyond the others
    y = 0.05 * rng.normal(size=n)
    problem = make_problem(n, 4, True)
    plan, left = plan_scales(problem, 1.0, target=True)
    assert mu_of(plan.event) ** 2 == pytest.approx(0.1)
    assert left**2 == pytest.approx(0.9)
    for layout in (np.asarray, sparse.csr_matrix):
        design = as_design(layout(X), np.ones(4), True)
        scales = release_scales(plan, problem, design, y, np.random.Generator(np.random.PCG64(0)))
        true = np.sqrt((X**2).mean(axis=0))
        assert np.sqrt(scales.mean_square)[[0, 2]] == pytest.approx(true[[0, 2]], rel=0.1)
        assert (scales.mean_square[[1, 3]] > 0.0).all()
        assert (scales.mean_square[[1, 3]] < 1e-3).all()
        assert scales.mean_square[4] == 1.0  # the intercept's is known
        assert scales.target == pytest.approx(0.05, rel=0.5)


def test_what_is_known_is_not_measured_again():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1.0, 1.0, (2000, 2)), rng.uniform(-0.1, 0.1, 2000)
    problem = replace(make_problem(2000, 2, True), mean_square=(0.5, 0.25))
    nothing, left = plan_scales(problem, 1.0, target=False)
    assert left == 1.0
    assert type(nothing.event) is NoOpEvent
    plan, left = plan_scales(problem, 1.0, target=True)
    assert left**2 == pytest.approx(0.98)
    assert plan_scales(make_problem(2000, 2, True), 1.0, target=True, columns=False)[1] == left
    design = as_design(X, np.ones(2), True)
    for given, size in ((nothing, 1.0), (plan, 0.1 / 3**0.5)):
        rng = np.random.Generator(np.random.PCG64(0))
        scales = release_scales(given, problem, design, y, rng)
        assert scales.mean_square.tolist() == [0.5, 0.25, 1.0]
        assert scales.target == pytest.approx(size, rel=0.5)


def test_bounds_that_may_be_found_are_rehearsed():
    plan = plan_bounds(1000, 2, 1.0)
    smallest, largest = plan.extremes
    for size in (1e-300, 1e300):
        design = as_design(np.full((1000, 2), size), np.ones(2), False)
        found = plan.release(design, np.zeros(1000), np.random.Generator(np.random.PCG64(0)))
        assert (smallest <= found).all()
        assert (found <= largest).all()
        extreme = smallest * 2.0**plan.room if size < 1.0 else largest
        assert np.allclose(np.log2(found), np.log2(extreme), atol=1.0)
