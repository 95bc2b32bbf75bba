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


def test_rare_targets_count_in_the_mean_square():
    """Where counts of the others alone were believed, squares were clipped to their size."""
    n = 4000
    y = np.where(np.arange(n) < n // 20, 1.0, 2.0**-20)
    plan = plan_scales(make_problem(n, 1, False), 0.06, target=True, known=True)
    design = as_design(np.zeros((n, 1)), np.ones(1), False)
    rngs = (np.random.Generator(np.random.PCG64(seed)) for seed in range(20))
    found = [release_scales(plan, design, y, rng).target for rng in rngs]
    assert np.median(found) == pytest.approx(0.05**0.5, rel=0.2)


def test_bounds_that_may_be_found_are_rehearsed():
    plan = plan_bounds(1000, 2, 1.0)
    smallest, largest = plan.extremes
    for size in (1e-300, 1e300):
        design = as_design(np.full((1000, 2), size), np.ones(2), False)
        found = plan.release(design, np.zeros(1000), np.random.Generator(np.random.PCG64(0)))
        assert (smallest <= found).all()
        assert (found <= largest).all()
        assert np.allclose(np.log2(found), np.log2(smallest if size < 1.0 else largest), atol=1.0)


def test_mean_squares_stay_apart_where_histograms_are_pooled():
    """Steps for the mean of all columns would be ten times too long for the frequent ones."""
    rng = np.random.default_rng(0)
    n, d = 25_000, 100
    X = (rng.random((n, d)) < 0.5 / np.arange(1, d + 1)) * 1.0
    problem = make_problem(n, d, False)
    plan = plan_scales(problem, 0.07)
    assert (plan.pooled, plan.merged) == (True, False)
    assert mu_of(plan.event) == pytest.approx(0.07)
    design = as_design(X, np.ones(d), False)
    scales = release_scales(plan, design, np.zeros(n), np.random.Generator(np.random.PCG64(0)))
    assert scales.mean_square[:2] == pytest.approx([0.5, 0.25], rel=0.3)
    assert (0.0 < scales.mean_square[2:]).all()
    assert scales.mean_square[20:].max() < 0.1


def test_targets_of_few_records_have_a_usual_scale():
    """Noise that exceeds the mean square of the targets says next to nothing about it."""
    X, y = np.zeros((200, 1)), np.random.default_rng(0).normal(0.0, 0.4, 200)
    problem = make_problem(200, 1, True)
    found = {}
    for mu in (0.01, 100.0):
        plan = plan_scales(problem, mu, target=True, known=True)
        design = as_design(X, np.ones(1), True)
        rngs = (np.random.Generator(np.random.PCG64(seed)) for seed in range(20))
        found[mu] = [release_scales(plan, design, np.clip(y, -1, 1), rng).target for rng in rngs]
    assert np.quantile(found[0.01], [0.1, 0.9]) == pytest.approx([0.4, 0.6], abs=0.2)
    assert found[100.0] == pytest.approx([np.sqrt(np.mean(y**2))] * 20, rel=0.2)
