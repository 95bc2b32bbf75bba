"""Private scales of columns, and bounds of features that are not declared."""

import numpy as np
import pytest
from scipy import sparse

from skdpsco._problem import Problem
from skdpsco.data.design import as_design
from skdpsco.losses import Squared
from skdpsco.privacy import mu_of
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
    plan = plan_scales(problem, 0.3, target=True)
    assert not plan.pooled
    assert mu_of(plan.event) == pytest.approx(0.3)
    for layout in (np.asarray, sparse.csr_matrix):
        design = as_design(layout(X), np.ones(4), True)
        scales = release_scales(plan, design, y, np.random.Generator(np.random.PCG64(0)))
        true = np.sqrt((X**2).mean(axis=0))
        assert scales.clip[:3] == pytest.approx([true[0], 0.01, true[2]], rel=0.4)
        assert np.sqrt(scales.mean_square)[[0, 2]] == pytest.approx(true[[0, 2]], rel=0.6)
        assert 0.0 < scales.mean_square[3] < 1e-3
        assert scales.mean_square[4] == scales.clip[4] == 1.0  # the intercept's are known
        assert scales.target == pytest.approx(0.05, rel=0.5)
        few = plan_scales(make_problem(200, 4, True), 0.1, target=True)
        assert few.pooled
        assert few.merged
        part = as_design(layout(X[:200]), np.ones(4), True)
        pooled = release_scales(few, part, y[:200], np.random.Generator(np.random.PCG64(0)))
        assert len(set(pooled.clip[:4])) == len(set(pooled.mean_square[:4])) == 1


def test_noise_alone_is_hardly_ever_a_histogram():
    """Targets were clipped to 1e-14, and coefficients ended at 0, in one fit of 5,000.

    With five deviations noise makes a bin credible in one of 60,000 histograms, with four in 500.
    """
    plan = plan_scales(make_problem(300, 1, False), 0.3, target=True, known=True)
    design, y = as_design(np.zeros((300, 1)), np.ones(1), False), np.zeros(300)
    rng = np.random.Generator(np.random.PCG64(0))
    found = [release_scales(plan, design, y, rng).target for _ in range(4000)]
    assert sum(target < 0.01 for target in found) <= 1


def test_bounds_that_may_be_found_are_rehearsed():
    plan = plan_bounds(1000, 2, 1.0)
    smallest, largest = plan.extremes
    for size in (1e-300, 1e300):
        design = as_design(np.full((1000, 2), size), np.ones(2), False)
        found = plan.release(design, np.zeros(1000), np.random.Generator(np.random.PCG64(0)))
        assert (smallest <= found).all()
        assert (found <= largest).all()
        assert np.allclose(np.log2(found), np.log2(smallest if size < 1.0 else largest), atol=1.0)
