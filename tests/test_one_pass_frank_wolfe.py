"""One-pass Frank-Wolfe: schedules, plans, convergence without noise, layouts and chunks."""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest

from skdpsco.constraints import L1Ball
from skdpsco.data import record_stream as _records
from skdpsco.data.design import as_design
from skdpsco.data.record_sums import BlockDesign
from skdpsco.losses import Huber, Logistic, Multinomial, SmoothHinge, Squared
from skdpsco.mechanisms.samplers import SCALE_BITS, summation_error
from skdpsco.privacy import Budget
from skdpsco.solvers import Allowance, Problem
from skdpsco.solvers.lp_ball import one_pass_frank_wolfe as module
from skdpsco.solvers.lp_ball.one_pass_frank_wolfe import (
    OnePassFrankWolfe,
    polytope_bounds,
    schedule,
)

LOSSES = [Squared(1.0), Huber(0.5), Logistic(), SmoothHinge(0.5), Multinomial(3)]
NOISELESS = Allowance(1e12)


class Declared(NamedTuple):
    """A loss that declares what it is told to, and nothing else."""

    slope: float = 1.0
    bend: float = math.inf
    n_outputs = 1

    def lipschitz(self, prediction_bound=math.inf, target_bound=1.0):
        return self.slope

    def smoothness(self):
        return self.bend


def problems():
    for (n, d), loss, radius in itertools.product(
        ((1, 1), (2, 3), (51, 3), (3000, 40), (200_000, 20)), LOSSES, (0.01, 1.0, 30.0)
    ):
        yield Problem(loss, L1Ball(radius), n, d)


def data(n, d, loss, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) * (rng.random((n, d)) < 0.7)
    z = X[:, 0] - 0.5 * X[:, -1]
    if loss.n_outputs > 1:
        return X, np.digitize(z + 0.3 * rng.standard_normal(n), [-0.3, 0.3]).astype(float)
    if isinstance(loss, (Logistic, SmoothHinge)):
        return X, np.where(4 * z + rng.logistic(size=n) > 0, 1.0, -1.0)
    return X, np.clip(z + 0.2 * rng.standard_normal(n), -1, 1)


def run(solver, plan, problem, X, y, seed=0):
    if not isinstance(X, BlockDesign):
        X = as_design(X, np.ones(X.shape[1]), problem.intercept)
    rng = np.random.Generator(np.random.PCG64(seed))
    progress = np.zeros(1, dtype=np.int64)
    result = solver.run(plan, problem, X, y, rng, progress)
    assert progress[0] == plan.n_iter == result.n_iter
    return result


# ------------------------------------------------------------------------------ schedules


@pytest.mark.parametrize("batch_size", ["auto", 1, 7])
def test_no_record_pays_more_than_the_budget_and_some_pay_all_of_it(batch_size):
    checked = 0
    for problem in itertools.islice(problems(), 0, None, 4):
        solver = OnePassFrankWolfe(batch_size)
        bounds, n = polytope_bounds(problem), problem.n_samples
        n_iter = min(200, n - n // 2, bounds.n_plain + n // 20)
        plan = solver.plan(problem, Budget(1.0, 1e-6), n_iter)
        steps = schedule(n, n_iter, plan.batch_size, bounds)
        assert steps.batch.sum() == n
        assert steps.batch.min() >= 1
        assert steps.step[0] == 1.0
        assert (steps.keep[: bounds.n_plain] == 0.0).all()
        assert ((steps.keep[bounds.n_plain :] > 0.0) & (steps.keep[bounds.n_plain :] < 1.0)).all()
        paid = []
        for i in range(n_iter):
            change = 2.0 * bounds.diameter * bounds.features * steps.limit[i] / steps.batch[i]
            squares = 0.0
            for t in range(i, n_iter):
                change *= steps.keep[t] if t > i else 1.0
                squares += (change / steps.spread[t]) ** 2
            paid.append(squares)
        assert max(paid) == pytest.approx(1.0, abs=1e-9)
        assert np.mean(paid) > 0.9
        checked += 1
    assert checked > 10


@pytest.mark.parametrize("n_iter", [1, 12])
def test_rounding_is_paid_for(n_iter):
    """With so many records and coefficients, it takes a good part of the budget."""
    n, d, rho = 10**8, 2 * 10**6, 0.1
    plan = OnePassFrankWolfe().plan(Problem(Logistic(), L1Ball(1.0), n, d), Allowance(rho), n_iter)
    bounds, steps = plan.bounds, schedule(n, n_iter, plan.batch_size, plan.bounds)
    scale = steps.spread * plan.grid * 2.0**SCALE_BITS
    largest, error, rounding = 0.0, 0.0, []
    for m, keep, limit in zip(steps.batch.tolist(), steps.keep, steps.limit, strict=True):
        largest = keep * largest + bounds.features * limit
        added = summation_error(m, bounds.features * limit, 2**16 + m // 2**16)
        error = keep * error + added / m + 2.0**-52 * largest
        score = (d + 1) * 2.0**-53 * bounds.size * (largest + error)
        rounding.append(2.0 * bounds.diameter * error + 4.0 * score)
    ranges = 2.0 * bounds.diameter * bounds.features * steps.limit / steps.batch
    paid = []
    for i in range(n_iter):
        kept = np.cumprod(np.append(1.0, steps.keep[i + 1 :]))
        exact = ranges[i] * kept / scale[i:]
        rounded = exact + np.array(rounding)[i:] / scale[i:] + 2.5 / 2.0**SCALE_BITS
        paid.append([np.sum(exact**2) / 8.0, np.sum(rounded**2) / 8.0])
    exact, rounded = np.max(paid, axis=0)
    assert exact < 0.95 * rho
    assert 0.85 * rho < rounded <= rho


def test_a_record_enters_by_its_clipped_factor():
    """What `limit` bounds: derivative here, less ``keep`` times the derivative one step before."""
    for loss in (Squared(1.0), Huber(0.5), Logistic(), SmoothHinge(0.5)):
        problem = Problem(loss, L1Ball(2.0), 1000, 5)
        bounds = polytope_bounds(problem)
        steps = schedule(1000, 30, 10, bounds)
        z = np.linspace(-bounds.size, bounds.size, 201)
        for y in (-1.0, 1.0):
            slopes = np.array([module.derivative(loss, v, y) for v in z])
            assert np.abs(slopes).max() <= bounds.slope * (1 + 1e-12)
            for t in range(bounds.n_plain, 30):
                near = np.abs(z[:, None] - z) <= steps.step[t - 1] * bounds.diameter
                factor = np.abs(slopes[:, None] - steps.keep[t] * slopes)[near].max()
                assert factor <= steps.limit[t]  # so nothing is clipped


# ------------------------------------------------------------------------------ plans


def test_batches_may_be_larger_than_the_data():
    problem = Problem(Logistic(), L1Ball(1.0), 30, 2)
    sizes = (30, 2**62, 2**63 - 1)
    plans = [OnePassFrankWolfe(size).plan(problem, Allowance(1.0)) for size in sizes]
    for plan in plans:
        batch = schedule(30, plan.n_iter, plan.batch_size, plan.bounds).batch
        assert batch.dtype == np.int64
        assert batch.sum() == 30
        assert plan.grid == plans[0].grid


def test_bounds_of_any_size():
    """Noise is in proportion to the set; where it would underflow, a plan is refused."""
    for batch_size in ("auto", 2):
        solver = OnePassFrankWolfe(batch_size)
        plans = {}
        for scale in (1.0, 1e-100, 1e100, 1e-240, 1e240):
            problem = Problem(Declared(scale, scale), L1Ball(1.0), 50, 3)
            plan = plans[scale] = solver.plan(problem, Allowance(0.1), 7)
            noise = schedule(50, 7, plan.batch_size, plan.bounds).spread * plan.grid / scale
            first = schedule(50, 7, plans[1.0].batch_size, plans[1.0].bounds).spread
            np.testing.assert_allclose(noise, first * plans[1.0].grid, rtol=1e-9)
        for slope, radius in ((5e-324, 1.0), (1e-300, 1.0), (1e300, 1.0), (1e-200, 1e-100)):
            with pytest.raises(ValueError, match="too large or too small for float64"):
                solver.plan(Problem(Declared(slope, slope), L1Ball(radius), 50, 3), NOISELESS, 7)
    for loss, radius, row_norm in itertools.product(LOSSES, (1e-100, 1e100), (1e-100, math.inf)):
        problem = Problem(loss, L1Ball(radius), 50, 3, row_norm=row_norm)
        assert OnePassFrankWolfe().plan(problem, Allowance(0.1)).grid > 0.0


# ------------------------------------------------------------------------------ layouts and chunks


@pytest.mark.parametrize("loss", [Logistic(), Multinomial(3)])
def test_chunks_may_be_cut_anywhere(loss, monkeypatch, tmp_path):
    n, d = 200, 4
    X, y = data(n, d, loss)
    problem = Problem(loss, L1Ball(2.0), n, d)
    solver = OnePassFrankWolfe(3, shuffle=False)
    plan = solver.plan(problem, Allowance(10.0))
    whole = run(solver, plan, problem, X, y)
    saved = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float64, (n, d))
    saved[:] = X
    np.testing.assert_array_equal(run(solver, plan, problem, saved, y).coef, whole.coef)
    for cuts in ([1, 2, 50, 51], list(range(0, n, 7)), []):
        blocks = zip(np.split(X, cuts), np.split(y, cuts), strict=True)
        stream = BlockDesign(blocks, np.ones(d), 0, None, False)
        np.testing.assert_array_equal(run(solver, plan, problem, stream, None).coef, whole.coef)
    shuffled = OnePassFrankWolfe(3)
    one = run(shuffled, plan, problem, X, y)
    monkeypatch.setattr(_records, "CHUNK_RECORDS", 11)
    np.testing.assert_array_equal(run(solver, plan, problem, X, y).coef, whole.coef)
    np.testing.assert_array_equal(run(shuffled, plan, problem, X, y).coef, one.coef)
    assert not np.array_equal(one.coef, whole.coef)


@pytest.mark.parametrize("shuffle", [True, False])
def test_every_record_is_read_once(shuffle, monkeypatch):
    n = 1000
    X, y = data(n, 3, Logistic())
    problem, solver = Problem(Logistic(), L1Ball(4.0), n, 3), OnePassFrankWolfe(shuffle=shuffle)
    walk, seen = module.frank_wolfe_pass, []

    def watched(chunk, *arguments):
        seen.extend(chunk[2].tolist())
        walk(chunk, *arguments)

    monkeypatch.setattr(module, "frank_wolfe_pass", watched)
    for n_iter in (1, 5, 30):
        plan = solver.plan(problem, Allowance(1.0), n_iter)
        seen.clear()
        result = run(solver, plan, problem, X, y)
        assert sorted(seen) == list(range(n))
        assert (seen == list(range(n))) != shuffle
        later = max(0, n_iter - plan.bounds.n_plain) * plan.batch_size
        assert result.n_gradients == n + later <= 1.5 * n
