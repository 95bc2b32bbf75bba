"""Sensitivities by brute force: every release, on neighbours made of extreme records.

Statistics are recorded in grid units just before a solver draws noise, for data sets that
differ in one record, given the same earlier outputs. Their change must be at most what the plan
charged, and more than half of that for some pair: a charge that is wrong by two is caught either
way. The kernels run as Python functions, which `tests/test_solver_laws.py` compares with the
compiled ones.
"""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy import integrate, sparse
from stand_ins import Forced

import skdpsco.scaling.quantiles as quantiles_module
import skdpsco.scaling.target as target_module
from skdpsco.constraints import L1Ball, L2Ball, Polytope, Simplex, n_vertices
from skdpsco.data.design import as_design
from skdpsco.losses import Huber, Logistic, Multinomial, SmoothHinge, Squared
from skdpsco.mechanisms.samplers import SCALE_BITS, deviation_on, to_grid
from skdpsco.privacy import Budget, rho_of
from skdpsco.privacy.events import leaves
from skdpsco.solvers import FrankWolfe, NoisyFrankWolfe, Problem, Stagewise
from skdpsco.solvers import gradient_sums as sums_module
from skdpsco.solvers.l1 import frank_wolfe as frank_wolfe_module
from skdpsco.solvers.l1 import vertex_path as path_module

ONE = 2.0**SCALE_BITS
# The largest range of the changes, or the largest norm, over the charge.
MUST_HOLD = 1.0
MUST_REACH = 0.5  # otherwise half the noise would pass as well: the test would have no power
BOUNDS = np.array([1.0, 0.5, 2.0])  # raw features are +-9: beyond them


def records(d, loss, values=(-9.0, 0.0, 9.0)):
    """Extreme records: raw features and a target."""
    targets = range(loss.n_outputs) if loss.n_outputs > 1 else (-1.0, 1.0)
    features = itertools.product(values, repeat=d)
    return [(x, float(y)) for x, y in itertools.product(features, targets)]


def design(rows, intercept, layout):
    X = np.array([x for x, _ in rows])
    y = np.array([y for _, y in rows])
    X = X if layout == "dense" else sparse.csr_matrix(X)
    return as_design(X, BOUNDS[: X.shape[1]], intercept), y


def neighbours(d, loss, n, n_rests=3):
    """Lists of data sets that differ in their first record."""
    extreme = records(d, loss)
    mild = [((0.3, -0.2, 1.1)[:d], extreme[0][1])]
    rests = [[extreme[(7 * i + 5 * k) % len(extreme)] for i in range(n - 1)] for k in range(2)]
    rests.append(mild * (n - 1))
    return [[[r, *rest] for r in extreme + mild] for rest in rests[:n_rests]]


def scores_along(plan, problem, constraint, rows, layout, choices):
    """Integer scores of every step, then the integer losses if there is a stopping point."""
    X, y = design(rows, problem.intercept, layout)
    mechanism = Forced(choices, [])
    forced = dataclasses.replace(plan, mechanism=mechanism)
    progress = np.zeros(1, dtype=np.int64)
    path_module.run_vertices(forced, problem, constraint, X, y, None, progress)
    assert len(mechanism.log) == len(plan.weight) + (plan.cap > 0.0)
    return mechanism.log


def largest_range(group):
    """Largest range of ``scores - scores'`` over all pairs of a group of neighbours."""
    group = np.array(group)
    change = group[:, None, :] - group[None, :, :]
    return int(np.ptp(change, axis=2).max())


def charged(path_event, n_iter):
    """Range in grid units that one vertex, and the stopping point, may have."""
    steps = [e.epsilon0 for e, count in leaves(path_event) if count == n_iter]
    stops = [e.epsilon0 for e, count in leaves(path_event) if count == 1]
    return steps[0] * ONE, (stops[0] * ONE if stops else 0.0)


@pytest.fixture
def python_path(monkeypatch):
    for name in ("choose_vertex", "draw"):
        monkeypatch.setattr(path_module, name, getattr(path_module, name).py_func)
    monkeypatch.setattr(sums_module, "add_gradients", sums_module.add_gradients.py_func)


SQUARE = Polytope(np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]]))
KITE = Polytope(np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 2.0], [0.0, -2.0], [0.5, 0.5]]))
# (solver, loss, constraint, features, intercept, n, layout): all losses, sets and layouts.
PATHS = [
    (FrankWolfe(), Logistic(), L1Ball(1.5), 2, False, 2, "dense"),
    (FrankWolfe(), Logistic(), L1Ball(1.5), 2, True, 3, "csr"),
    (FrankWolfe("laplace"), Squared(1.0), L1Ball(0.7), 2, False, 3, "csr"),
    (FrankWolfe(), Squared(), L1Ball(2.0), 1, True, 2, "dense"),
    (FrankWolfe(), Huber(0.6), Simplex(1.0), 2, True, 2, "dense"),
    (FrankWolfe(), Logistic(), Simplex(1.0), 2, False, 4, "csr"),
    (FrankWolfe(), SmoothHinge(0.5), SQUARE, 2, False, 2, "dense"),
    (FrankWolfe("laplace"), Squared(1.0), SQUARE, 1, True, 2, "csr"),
    (FrankWolfe("laplace"), Squared(3.1), KITE, 2, False, 2, "csr"),
    (FrankWolfe(), Squared(9.0), Simplex(1.5), 2, False, 2, "dense"),
    (FrankWolfe(), Multinomial(3), L1Ball(1.0), 1, False, 2, "csr"),
    (FrankWolfe(), Multinomial(3), Simplex(2.0), 1, True, 2, "dense"),
    (Stagewise(), Logistic(), L1Ball(1.5), 2, False, 2, "dense"),
    (Stagewise(), Logistic(), None, 2, False, 2, "csr"),
    (Stagewise(), Squared(1.0), None, 1, True, 3, "dense"),
    (Stagewise(), Squared(9.0), L1Ball(1.5), 1, True, 2, "dense"),
    (Stagewise(), SmoothHinge(1.0), None, 1, True, 2, "csr"),
    (Stagewise(), Multinomial(3), None, 1, False, 2, "dense"),
]


@pytest.mark.usefixtures("python_path")
@pytest.mark.parametrize(("solver", "loss", "constraint", "d", "intercept", "n", "layout"), PATHS)
def test_scores_and_losses_change_by_what_is_charged(
    solver, loss, constraint, d, intercept, n, layout
):
    n_iter = 3
    problem = Problem(loss, constraint, n, d + intercept, intercept)
    plan = solver.plan(problem, Budget(2.0, 1e-3), n_iter)
    ball = L1Ball(plan.radius) if isinstance(solver, Stagewise) else constraint
    step_charge, stop_charge = charged(plan.path.event, n_iter)
    V = n_vertices(ball, problem.n_coefficients)
    worst = np.zeros(n_iter + 1)
    for prefix in itertools.product(range(V), repeat=n_iter if constraint is None else n_iter - 1):
        for group in neighbours(d, loss, n, 2):
            logs = [scores_along(plan.path, problem, ball, s, layout, prefix) for s in group]
            for t, group_scores in enumerate(zip(*logs, strict=True)):
                charge = step_charge if t < n_iter else stop_charge
                worst[t] = max(worst[t], largest_range(group_scores) / charge)
    assert worst.max() <= MUST_HOLD
    steps = worst if constraint is None else worst[:n_iter]
    assert steps.min() > MUST_REACH


def transcript_law(plan, problem, constraint, rows, layout, sharpen=1.0):
    """Exact log-probability of every sequence of choices.

    A choice has probability proportional to exp(integer score / 2**SCALE_BITS): the law of
    `skdpsco.mechanisms.samplers.exponential_mechanism`, tested in tests/test_mechanisms.py.
    """
    T, V = len(plan.weight), n_vertices(constraint, problem.n_coefficients)
    law = []
    for sequence in itertools.product(range(V), repeat=T):
        log = scores_along(plan, problem, constraint, rows, layout, sequence)
        total = 0.0
        for k, scores in zip(sequence, log, strict=False):
            total += log_softmax(scores * (sharpen / ONE))[k]
        if plan.cap > 0.0:
            law.extend(total + log_softmax(log[-1] * (sharpen / ONE)))
        else:
            law.append(total)
    law = np.array(law)
    assert np.exp(law).sum() == pytest.approx(1.0, abs=1e-12)
    return law


def log_softmax(x):
    x = x - x.max()
    return x - math.log(np.exp(x).sum())


def renyi(p, q, alpha):
    """Renyi divergence of two laws given by their logarithms."""
    x = alpha * p + (1.0 - alpha) * q
    return (x.max() + math.log(np.exp(x - x.max()).sum())) / (alpha - 1.0)


TRANSCRIPTS = [
    (FrankWolfe(), Logistic(), L1Ball(1.5), 1, False, 3, 3),
    (FrankWolfe(), Squared(1.0), L1Ball(1.0), 1, True, 1, 2),
    (FrankWolfe(), SmoothHinge(1.0), Simplex(1.0), 2, False, 3, 3),
    (Stagewise(), Squared(1.0), L1Ball(1.0), 1, False, 3, 3),
    (Stagewise(), Logistic(), None, 1, False, 1, 3),
]


@pytest.mark.usefixtures("python_path")
@pytest.mark.parametrize(("solver", "loss", "constraint", "d", "intercept", "n", "T"), TRANSCRIPTS)
def test_renyi_divergence_of_whole_transcripts(solver, loss, constraint, d, intercept, n, T):
    problem = Problem(loss, constraint, n, d + intercept, intercept)
    plan = solver.plan(problem, Budget(3.0, 1e-3), T)
    ball = L1Ball(plan.radius) if isinstance(solver, Stagewise) else constraint
    rho = rho_of(plan.path.event)

    def largest_ratio(sharpen):
        worst = 0.0
        for group in neighbours(d, loss, n, 2):
            laws = [transcript_law(plan.path, problem, ball, s, "dense", sharpen) for s in group]
            for p, q in itertools.permutations(laws, 2):
                for alpha in (1.001, 1.5, 2.0, 8.0, 64.0):
                    worst = max(worst, renyi(p, q, alpha) / (alpha * rho))
        return worst

    assert largest_ratio(1.0) <= 1.0
    assert largest_ratio(2.0) > 1.0  # half the noise is seen


def test_the_choice_is_the_exponential_mechanism_of_a_minimum(python_path):
    """argmax(-u + Gumbel), not the argmin(u + Gumbel) that the paper's wording suggests.

    Gumbel noise is not symmetric: with its sign wrong the loss exceeds the charge many times.
    """
    K, epsilon0 = 100, 1.0
    # One candidate moves by -1/2, all others by +1/2: range epsilon0.
    u = np.full(K, 0.0)
    v = u + np.where(np.arange(K) == 0, -0.5, 0.5) * epsilon0

    def wrong(u):
        """P(argmin of u_k + Gumbel_k = 0)."""

        def integrand(x):
            others = -np.expm1(-np.exp(-(x - u[1])))  # P(a noisy score exceeds x)
            density = np.exp(-(x - u[0]) - np.exp(-(x - u[0])))
            return density * others ** (K - 1)

        return integrate.quad(integrand, -6.0, 12.0, limit=500, epsabs=1e-16)[0]

    loss_of_wrong = abs(math.log(wrong(v) / wrong(u)))
    loss_of_right = abs(log_softmax(-v)[0] - log_softmax(-u)[0])
    assert loss_of_right <= epsilon0
    assert loss_of_wrong > 1.5 * epsilon0
    # And the code prefers the smallest score.
    problem = Problem(Squared(1.0), Simplex(1.0), 2, 2)
    plan = FrankWolfe().plan(problem, Budget(3.0, 1e-3), 1)
    rows = [((9.0, -9.0), 1.0), ((9.0, 0.0), 1.0)]  # both want the first coefficient
    log = scores_along(plan.path, problem, problem.constraint, rows, "dense", (0,))
    gradient = np.array([-2.0, 1.0])
    assert log[0] == pytest.approx(-gradient / plan.path.grid[0], abs=1.0)


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("bound", [3.0, None])
def test_counts_of_targets_change_by_what_is_charged(monkeypatch, bound, centred, q):
    """Replaced and added records, whatever earlier counts with noise have said."""
    n, extreme = 3, (-40.0, -3.0, -0.7, 0.0, 1.1, 3.0, 40.0)
    plan = target_module.plan_target(bound, centred, n, 0.5 * 30.0**2, q)
    (multipliers, counts) = zip(
        *((leaf.noise_multiplier, count) for leaf, count in leaves(plan.event)), strict=True
    )
    charged = np.sort(np.repeat(multipliers, counts))
    released: list[tuple[float, float]] = []
    said: list[float] = []

    def noise(_, values, grid):
        released.append((values[0], grid))
        values[0] = said[len(released) - 1]
        return deviation_on(grid)

    monkeypatch.setattr(quantiles_module, "gaussian_mechanism", noise)

    def counted(y):
        released.clear()
        target_module.release_target(plan, np.array(y), np.random.default_rng())
        return np.array(released)

    rng = np.random.default_rng(0)
    rows = list(itertools.product(extreme, repeat=q))
    replaced = added = 0.0
    for _ in range(30):
        said[:] = rng.choice([0.0, n * q], size=len(charged))
        rest = [rows[k] for k in rng.integers(len(rows), size=n - 1)]
        found = [counted([row, *rest]) for row in rows]
        less = counted(rest)
        order = np.argsort(found[0][:, 1], kind="stable")
        sensitivity = np.empty(len(order))
        sensitivity[order] = ONE * found[0][order, 1] / charged
        for one in found:
            assert np.array_equal(one[:, 1], found[0][:, 1])  # grids are public
        changes = np.array([one[:, 0] for one in found])
        replaced = max(replaced, (np.ptp(changes, axis=0) / sensitivity).max())
        added = max(added, (np.abs(changes - less[:, 0]) / sensitivity).max())
    assert 0.9 < replaced <= MUST_HOLD
    assert added <= MUST_HOLD


@pytest.mark.parametrize(
    ("loss", "constraint", "d", "intercept", "n", "layout"),
    [
        (Squared(1.0), L2Ball(1.0), 2, False, 2, "dense"),
        (Squared(), L1Ball(1.0), 2, True, 3, "csr"),
        (Logistic(), L2Ball(6.0), 2, False, 2, "csr"),
        (Huber(0.5), Simplex(1.0), 3, False, 2, "dense"),
        (Multinomial(3), L2Ball(4.0), 1, True, 2, "dense"),
        (SmoothHinge(0.5), SQUARE, 2, False, 4, "csr"),
    ],
)
def test_noisy_gradients_change_by_what_is_charged(
    monkeypatch, loss, constraint, d, intercept, n, layout
):
    if loss == Squared():
        loss = Squared(1.0)._replace(clip=1.5)
    n_iter = 3
    problem = Problem(loss, constraint, n, d + intercept, intercept)
    solver = NoisyFrankWolfe()
    plan = solver.plan(problem, Budget(2.0, 1e-3), n_iter)
    D = problem.n_coefficients
    (leaf, _) = next(iter(leaves(plan.event)))
    # Sensitivity over standard deviation of one step: mu / sqrt(n_iter).
    charge = math.sqrt(4.0**SCALE_BITS - 16) / leaf.noise_multiplier / math.sqrt(n_iter)
    log: list = []
    noisy: np.ndarray = np.zeros((n_iter, D))

    def record(rng, values, grid):
        step = len(log) // D
        log.extend(int(to_grid(value, grid)) for value in values)
        values[:] = noisy[step]

    monkeypatch.setattr(frank_wolfe_module, "gaussian_mechanism", record)

    def gradients(rows):
        log.clear()
        X, y = design(rows, intercept, layout)
        solver.run(plan, problem, X, y, None, np.zeros(1, dtype=int))
        return np.array(log, dtype=float).reshape(n_iter, D)

    worst, rng = np.zeros(n_iter), np.random.default_rng(0)
    for k, group in itertools.product(range(8), neighbours(d, loss, n, 2)):
        noisy[:] = rng.standard_normal((n_iter, D))
        if k == 0:
            noisy[:] = -1.0  # straight to a corner
        units = np.array([gradients(s) for s in group])
        change = np.linalg.norm(units[:, None] - units[None], axis=3).max(axis=(0, 1))
        worst = np.maximum(worst, change / charge)
    assert worst.max() <= MUST_HOLD
    assert worst.max() > MUST_REACH
