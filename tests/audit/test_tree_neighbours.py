"""Frank-Wolfe on trees: sensitivities by brute force, what records pay, the law of the noise.

Statistics are recorded in grid units just before they get noise, for data sets that differ in one
record, while what was released before is the same. They may change by what the plan charges, and
for some pair they must change by more than half of that: half the noise would not pass.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from stand_ins import Declared

from skdpsco.constraints import L1Ball, L2Ball, LpBall
from skdpsco.data.design import as_design
from skdpsco.losses import Huber, Logistic, Multinomial, SmoothHinge, Squared, derivative
from skdpsco.mechanisms.samplers import SCALE_BITS, to_grid
from skdpsco.privacy import Budget
from skdpsco.solvers import Allowance, Problem
from skdpsco.solvers.lp_ball import tree_frank_wolfe as module
from skdpsco.solvers.lp_ball.clipped_gradients import GradientClip, add_clipped_gradients
from skdpsco.solvers.lp_ball.tree import along_paths, nodes, uses
from skdpsco.solvers.lp_ball.tree_bounds import BallBounds
from skdpsco.solvers.lp_ball.tree_frank_wolfe import NOISES, TreeFrankWolfe

ONE = 2.0**SCALE_BITS
LOSSES = [Logistic(), Squared(), Huber(0.5), SmoothHinge(0.5), Multinomial(3)]
BALLS = [L1Ball(3.0), LpBall(1.5, 2.0), L2Ball(2.0), LpBall(math.inf, 1.0)]
SHAPES, ROW_NORMS = (True, False, True, False), (math.inf, 0.7, 0.7, math.inf)
BUDGET = Budget(1.0, 1e-6)


class Liar(Declared):
    """A loss whose derivative exceeds everything that it declares."""


@derivative.register(Liar)
def _(loss, z, y):
    return math.nan if y > 0 and z == 0 else 1e300 * y * (1.0 + z)


@pytest.fixture
def in_python(monkeypatch):
    monkeypatch.setattr(module, "add_clipped_gradients", add_clipped_gradients.py_func)


def records_of(loss, d):
    """Records with the largest gradients, and beyond the bounds."""
    corners = [np.array(s) for s in itertools.product((-2.0, 2.0), repeat=d)]
    corners += list(np.eye(d))
    targets = range(loss.n_outputs) if loss.n_outputs > 1 else (-1.0, 1.0)
    return [(x, float(y)) for x, y in itertools.product(corners, targets)]


def run(solver, plan, problem, rows, seed=0):
    X, y = np.array([x for x, _ in rows]), np.array([y for _, y in rows])
    design = as_design(X, np.ones(X.shape[1]), problem.intercept)
    rng = np.random.Generator(np.random.PCG64(seed))
    return solver.run(plan, problem, design, y, rng, np.zeros(1, dtype=np.int64))


def batch_of(plan):
    """The step that every record belongs to, if they stand as they are."""
    return np.repeat(np.arange(plan.n_iter), plan.batches)


@pytest.mark.parametrize("loss", [*LOSSES, Liar(0.5, 0.1)])
@pytest.mark.parametrize(
    ("ball", "intercept", "row_norm"), list(zip(BALLS, SHAPES, ROW_NORMS, strict=True))
)
def test_released_gradients_move_by_what_is_charged(
    loss, ball, intercept, row_norm, in_python, monkeypatch
):
    n, d = 9, 2
    problem = Problem(loss, ball, n, d + intercept, intercept, row_norm=row_norm)
    D = problem.n_coefficients
    log = []

    def release(rng, values, grid):
        log.append(np.array([to_grid(v, grid) for v in values]))
        # What is released: the same for all data sets, so that they have one past.
        values[:] = 20.0 * np.cos(np.arange(D) + 3.0 * len(log))

    def release_generalised(rng, values, order, sigma, grid):
        unit = sigma / math.sqrt((order - 1.0) / (2.0 * BUDGET.rho))
        log.append(values / unit)
        values[:] = 20.0 * np.cos(np.arange(D) + 3.0 * len(log))

    monkeypatch.setattr(module, "gaussian_mechanism", release)
    monkeypatch.setattr(module, "generalised_gaussian_mechanism", release_generalised)
    everyone = records_of(loss, d)
    for noise in ("gaussian", "generalised-gaussian"):
        solver = TreeFrankWolfe(noise, shuffle=False)
        plan = solver.plan(problem, BUDGET, 6)
        gaussian = plan.noise == "gaussian"
        assert gaussian or plan.order > 2
        limit = ONE * BUDGET.mu if gaussian else 1.0
        largest = np.zeros(plan.n_iter)

        def released(rows, solver=solver, plan=plan):
            log.clear()
            run(solver, plan, problem, rows)
            assert len(log) == plan.n_iter
            return log.copy()

        for i, t in enumerate(batch_of(plan)):
            others = [everyone[0]] * n
            found = [released([*others[:i], r, *others[i + 1 :]]) for r in everyone]
            for a, b in itertools.combinations(found, 2):
                moved = [np.linalg.norm(u - v, plan.order) for u, v in zip(a, b, strict=True)]
                # One record, one release.
                assert not any(moved[:t]) and not any(moved[t + 1 :])  # noqa: PT018
                assert moved[t] <= limit * (1 + 1e-12)
                largest[t] = max(largest[t], moved[t] / limit)
        if isinstance(loss, (Logistic, Liar)) and loss.n_outputs == 1:
            assert largest[[t for t, node in enumerate(nodes(6)) if node.depth == 0]].min() > 0.5
        if isinstance(loss, Liar):
            assert largest.max() > 0.9
            assert largest.min() > 0.5


@pytest.mark.parametrize("loss", [*LOSSES, Liar(0.5, 0.1)])
@pytest.mark.parametrize(("n", "n_iter"), [(8, 6), (127, 14), (40, 21)])
def test_no_record_pays_more_than_the_budget_for_all_draws(loss, n, n_iter, in_python, monkeypatch):
    d, ball = 2, L1Ball(3.0)
    problem = Problem(loss, ball, n, d)
    D = problem.n_coefficients
    log = []

    def choose(vertices, gradient, grid, mechanism, rng):
        scores = ball.radius * np.concatenate([gradient, -gradient])
        log.append(np.array([to_grid(-s, grid) for s in scores]))
        return 3 * len(log) % (2 * D)

    monkeypatch.setattr(module, "choose_vertex", choose)
    solver = TreeFrankWolfe("exponential", shuffle=False)
    plan = solver.plan(problem, BUDGET, n_iter)
    everyone = records_of(loss, d)
    rng = np.random.default_rng(0)
    batch = batch_of(plan)
    paid = np.zeros(n_iter)
    tree = nodes(n_iter)
    fresh = BallBounds(problem).limits(math.inf, tree)[1]
    for i in np.unique(batch, return_index=True)[1]:  # one record of every batch
        others = [everyone[k] for k in rng.integers(len(everyone), size=n)]
        found = []
        for r in everyone:
            log.clear()
            run(solver, plan, problem, [*others[:i], r, *others[i + 1 :]])
            found.append(np.array(log))
        for a, b in itertools.combinations(found, 2):
            spread = np.ptp(a - b, axis=1)
            mine = along_paths([float(s == batch[i]) for s in range(n_iter)], tree, fresh)
            assert not spread[np.array(mine) == 0].any()
            rho = np.sum((spread / ONE) ** 2) / 8
            assert rho <= BUDGET.rho * (1 + 1e-12)
            paid[batch[i]] = max(paid[batch[i]], rho / BUDGET.rho)
    if isinstance(loss, (Logistic, Liar)):
        assert paid[[t for t, node in enumerate(nodes(n_iter)) if node.depth == 0]].max() > 0.25
    if isinstance(loss, Liar):
        assert paid.max() > 0.8


def test_worst_cases_of_all_batches_cost_the_same():
    # Batches are as large as their records' worst case asks for, up to rounding.
    problem = Problem(Logistic(), L1Ball(3.0), 10**6, 5)
    plan = TreeFrankWolfe("exponential").plan(problem, BUDGET, 30)
    bounds = BallBounds(problem)
    count = uses(nodes(30), bounds.limits(math.inf, nodes(30))[1])
    for t in range(30):
        change = 2 * bounds.magnitude(plan.limit[t]) / plan.batches[t]
        spread = (2 * 3.0 * change / plan.grid[t] + 2.5) / ONE
        assert count[t] * spread**2 / 8 == pytest.approx(BUDGET.rho, rel=0.02)


@pytest.mark.parametrize("slope", [0.3, 1e-249])
def test_a_record_pays_its_budget_in_any_unit(slope, monkeypatch):
    """Many records in one batch, by machine code: the rounding of their mean is paid for."""
    log = []

    def choose(vertices, gradient, grid, mechanism, rng):
        log.append(to_grid(-2.0 * gradient[0], grid))
        return 0

    monkeypatch.setattr(module, "choose_vertex", choose)
    for n in (1000, 3001):
        problem = Problem(Huber(slope), L1Ball(2.0), n, 1)
        solver = TreeFrankWolfe("exponential", shuffle=False)
        plan = solver.plan(problem, BUDGET, 1)
        for ones in range(0, n, 311):
            log.clear()
            for last in (-1.0, 1.0):
                targets = np.where(np.arange(n) < ones, 1.0, -1.0)
                targets[-1] = last
                run(solver, plan, problem, [(np.ones(1), y) for y in targets])
            # Scores of both vertices: their changes have twice the range.
            rho = (2 * (log[1] - log[0]) / ONE) ** 2 / 8
            assert 0.99 * BUDGET.rho < rho <= BUDGET.rho * (1 + 1e-12)


@pytest.mark.parametrize("difference", [False, True])
def test_machine_code_clips_what_is_no_number(difference):
    for y, z in itertools.product((-1.0, 1.0), (0.0, 0.5)):
        design = as_design(np.ones((1, 1)), np.ones(1), False)
        total = np.zeros(1)
        chunk = design, np.array([y]), np.arange(1)
        clip = GradientClip(difference, 0.25, 2.0)
        point, parent = np.array([z]), np.array([-z - 3.0])
        add_clipped_gradients(chunk, math.inf, Liar(0.5, 0.1), point, parent, clip, total)
        assert abs(total[0]) == 0.25


@pytest.mark.parametrize("n", [6, 20, 127])
def test_sensitivities_are_those_of_the_batches_as_they_are(n):
    # With floor(2**-k b) in place of 2**-k b, the published scale would be too small.
    problem = Problem(Logistic(), L1Ball(3.0), n, 2)
    bounds = BallBounds(problem)
    plan = TreeFrankWolfe("gaussian").plan(problem, BUDGET, min(n, 62))
    assert min(plan.batches) == 1
    for t, limit in enumerate(bounds.limits(2.0, nodes(plan.n_iter))[0]):
        sigma, grid = module.noise_of(bounds, plan, plan.batches[t], limit)
        # The deviation of the sum; that of the mean is this over the batch.
        assert sigma == grid * ONE == pytest.approx(2 * limit * math.sqrt(2) / BUDGET.mu, rel=1e-5)


@pytest.mark.parametrize("noise", NOISES[:2])
def test_law_of_the_noise_of_gradients(noise, monkeypatch):
    """Radii of the noise follow the law that is charged; half or twice as much is convicted."""
    n, d, n_draws = 10, 12, 2000
    problem = Problem(Logistic(), LpBall(1.25, 2.0), n, d)
    solver = TreeFrankWolfe(noise, shuffle=False)
    plan = solver.plan(problem, BUDGET, 1)
    assert plan.noise == noise
    seen = []
    monkeypatch.setattr(
        module, "write_minimiser", lambda ball, gradient, out: seen.append(gradient)
    )
    rows = [(np.full(d, 2.0), 1.0)] * n  # clipped to 1
    for seed in range(n_draws):
        run(solver, plan, problem, rows, seed)
    noises = np.array(seen) + 0.5
    slope, r = BallBounds(problem).slope(2.0), plan.order
    change = 2 * slope * d ** (1 / r) / n
    scale = change / BUDGET.mu if noise == "gaussian" else change * math.sqrt(
        (r - 1) / (2 * BUDGET.rho)
    )  # fmt: skip
    squares = np.sum(np.abs(noises) ** r, axis=1) ** (2 / r) / scale**2
    assert stats.kstest(squares, stats.chi2(d).cdf).pvalue > 1e-7
    for factor in (0.25, 4.0):
        assert stats.kstest(factor * squares, stats.chi2(d).cdf).pvalue < 1e-50
    assert abs(noises.mean()) < 5.5 * noises.std() / math.sqrt(noises.size)


def test_law_of_the_draws():
    n, n_draws = 20, 4000
    problem = Problem(Logistic(), L1Ball(1.0), n, 2)
    solver = TreeFrankWolfe("exponential", shuffle=False)
    plan = solver.plan(problem, Allowance(0.5), 1)
    rows = [(np.array([1.0, 0.3]), 1.0)] * n
    ends = [run(solver, plan, problem, rows, seed).coef for seed in range(n_draws)]
    vertices = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]]) * 2 / 3
    counts = [int(np.all(np.isclose(ends, v), axis=1).sum()) for v in vertices]
    assert sum(counts) == n_draws
    # Scores <v, g> with g = -(1, 0.3) / 2 and epsilon0 = sqrt(8 rho) = 2 for their range.
    spread = 2 * 2 * BallBounds(problem).slope(math.inf) / n
    for factor, fits in ((1.0, True), (2.0, False), (0.5, False)):
        log = factor * 2.0 / spread * np.array([1, 0.3, -1, -0.3]) / 2
        expected = n_draws * np.exp(log) / np.exp(log).sum()
        assert (stats.chisquare(counts, expected).pvalue > 1e-7) == fits
