"""Gradient descent and DP-SGD: sensitivities by brute force, and what their noise lets through.

Statistics are recorded in grid units just before they get noise, for data sets that differ in one
record, at the same points. Their change must be at most what the plan charged, and more than half
of it for some pair. The audits run the kernels of whole plans on one record that is always clipped,
whatever the point: then the sum of all releases is the best evidence there is. (p - exp(epsilon) q)
of the best event is the delta that was really spent; half the noise must be convicted.
"""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from delta_audits import DELTA, EPSILON, check_noise
from runs import make_problem
from scipy import sparse
from test_standard_errors import targets_of

from skdpsco._kernels import njit
from skdpsco.data.design import Dense, as_design
from skdpsco.data.products import RunRoom
from skdpsco.losses import Huber, Logistic, Multinomial, SmoothHinge, SmoothQuantile, Squared
from skdpsco.losses.library import OneVsRest, Weighted, for_kernels
from skdpsco.losses.log_link import GammaDeviance, PoissonDeviance
from skdpsco.mechanisms.samplers import SCALE_BITS, gaussian_mechanism, to_grid
from skdpsco.privacy import Budget, GaussianEvent
from skdpsco.privacy.events import leaves
from skdpsco.scaling.conditioning import Conditioning
from skdpsco.solvers import SGD, GradientDescent
from skdpsco.solvers import gradient_sums as sums_module
from skdpsco.solvers.gradient_sums import GradientLimits, add_gradients
from skdpsco.solvers.penalized import gradient_descent as module
from skdpsco.solvers.penalized import metric as metric_module
from skdpsco.solvers.penalized.gradient_descent import Coordinates, noisy_gradient
from skdpsco.solvers.penalized.sgd import Rows, poisson_sample

ONE = 2.0**SCALE_BITS
BOUNDS = np.array([1.0, 0.5])


# ------------------------------------------------------------------------------ sensitivities


LESS_A_CENTRE = [(Logistic(), True), (Squared(), True), (Multinomial(3), True)]
IN_TILES = [(Logistic(), False), (Squared(), False)]


@pytest.mark.parametrize(("loss", "is_sparse"), LESS_A_CENTRE + IN_TILES)
@pytest.mark.parametrize("clip", [0.05, 0.6])
def test_gradients_of_rows_less_a_centre_move_by_what_is_charged(recorded, loss, is_sparse, clip):
    n, d = 3, 2
    problem = make_problem(loss, n, d, True)
    problem = dataclasses.replace(problem, sparse=is_sparse, centred=True, mean_square=(0.5, 0.5))
    plan = GradientDescent(clip).plan(problem, Budget(1.0, 1e-6), 5)
    multiplier = next(leaf.noise_multiplier for leaf, count in leaves(plan.event) if count == 5)
    targets = range(3) if loss.n_outputs > 1 else (-1.0, 1.0)
    features = itertools.product((-9.0, 0.0, 0.4), repeat=d)  # one of which is near the centre
    records = [(x, float(y)) for x, y in itertools.product(features, targets)]
    centre, scale = np.array([0.4, 0.8]), np.float64(np.float32([1.4, 0.7]))
    conditioning, largest = Conditioning(centre, scale, None, not is_sparse), 0.0
    for point in (np.zeros(problem.n_coefficients), np.full(problem.n_coefficients, 3.0)):

        def units(record, point=point):
            rows, y = zip(record, records[0], records[-1], strict=True)
            matrix = sparse.csr_matrix(np.array(rows)) if is_sparse else np.array(rows)
            X = conditioning.apply(as_design(matrix, BOUNDS, True), tiled=not is_sparse)
            bound = clip * math.sqrt(d + 1)
            coordinates = Coordinates(np.array([0.7, 0.7, 0.3]), bound, d + 1)
            noisy_gradient(problem, coordinates, X, np.array(y), point, plan.grid * bound, None)
            return np.array(recorded.pop())

        sums = list(map(units, records))
        change = max(np.linalg.norm(a - b) for a, b in itertools.combinations(sums, 2))
        assert change * multiplier <= ONE
        largest = max(largest, change * multiplier / ONE)
    assert largest > 0.5


@pytest.mark.parametrize(
    ("kind", "added"),
    [("rows", False), ("rows", True), ("tiles", False), ("tiles", True), ("sparse rows", False)],
)
def test_a_metric_moves_by_what_is_charged(recorded, kind, added):
    """Without it, nothing would be known of directions in which columns differ little."""
    n, d = 40_000, 2
    of = {"centred": True, "sparse": kind == "sparse rows", "mean_square": (0.5, 0.5)}
    problem = dataclasses.replace(make_problem(Logistic(), n, d, True), **of, added=added)
    plan = GradientDescent().plan(problem, Budget(1.0, 1e-6))
    (multiplier,) = (leaf.noise_multiplier for leaf, count in leaves(plan.event) if count == 1)
    scale = np.array([0.7, 0.1, 0.5])
    conditioning = Conditioning(np.array([0.4, 0.8]), np.float64(np.float32([1.4, 0.7])))

    def units(rows, square):
        table = np.array(rows).reshape(-1, d)
        table = sparse.csr_matrix(table) if kind == "sparse rows" else table
        X = conditioning.apply(as_design(table, BOUNDS, True), kind == "tiles")
        y = np.zeros(len(rows))
        model = metric_module.release_metric(plan.metric_grid, problem, (scale, square), X, y, None)
        assert (np.linalg.eigvalsh(model.M) > -1e-9).all()
        return np.array(recorded.pop())

    records = list(itertools.product((-9.0, 0.0, 0.4, 9.0), repeat=d))
    for square in (0.1, 6.0, 1e4):  # all rows are shortened, or some, or none
        sums = [units([records[3], r, records[0]], square) for r in records]
        base = units([records[3], records[0]], square)
        pairs = [(s, base) for s in sums] if added else itertools.combinations(sums, 2)
        change = max(np.linalg.norm(a - b) for a, b in pairs)
        assert change * multiplier <= ONE
        assert change * multiplier > 0.5 * ONE or square > 10.0


@pytest.fixture
def recorded(monkeypatch):
    """Statistics before their noise, in grid units; no noise is drawn."""
    log = []

    def record(rng, values, grid):
        log.append([to_grid(v, grid) for v in values])
        return 0.0

    monkeypatch.setattr(module, "gaussian_mechanism", record)
    monkeypatch.setattr(metric_module, "gaussian_mechanism", record)
    monkeypatch.setattr(sums_module, "add_gradients", add_gradients.py_func)
    return log


CASES = [
    (Logistic(), False, "dense"),
    (Logistic(), True, "csr"),
    (Squared(), True, "dense"),
    (Huber(0.5), False, "csr"),
    (SmoothHinge(0.5), True, "dense"),
    (Multinomial(3), True, "csr"),
    (Multinomial(3), False, "dense"),
    (SmoothQuantile(0.8, 0.2), True, "csr"),
    (PoissonDeviance(0.4, 0.48), True, "dense"),
    (GammaDeviance(0.4, 0.48), False, "csr"),
    *((Weighted(loss), True, "dense") for loss in (Logistic(), Squared(0.5))),
    (Weighted(SmoothQuantile(0.8, 0.1)), False, "csr"),
    (Weighted(PoissonDeviance(-0.2, 0.15)), True, "csr"),
    (Weighted(GammaDeviance(-0.2, 0.15)), True, "dense"),
    (Multinomial(3, weighted=True), True, "dense"),
    (OneVsRest(SmoothHinge(2.0), 3, True), True, "csr"),
]


@pytest.mark.parametrize(("loss", "intercept", "layout"), CASES)
@pytest.mark.parametrize("clip", [0.05, 0.6, 1e4])
@pytest.mark.filterwarnings("ignore:(overflow|invalid)")  # of Python, not of machine code
def test_gradients_move_by_what_is_charged_and_hardly_less(recorded, loss, intercept, layout, clip):
    n, d = 3, 2
    problem = make_problem(loss, n, d, intercept)
    budget = Budget(1.0, 1e-6)
    full = GradientDescent(clip).plan(problem, budget, 4)
    half = SGD(clip, batch_size=1.5).plan(problem, budget, 4)
    multiplier = max(leaf.noise_multiplier for leaf, count in leaves(full.event) if count == 4)
    features = list(itertools.product((-9.0, 0.0, 9.0), repeat=d))  # beyond their bounds
    records = [(x, float(y)) for x, y in itertools.product(features, targets_of(loss))]
    scale = np.array([0.8, 0.1, 1.0])[: d + intercept]
    largest = 0.0
    rng = np.random.default_rng(0)
    for point in (
        np.zeros(problem.n_coefficients),
        3 * rng.standard_normal(problem.n_coefficients),
        np.full(problem.n_coefficients, 1e300),  # where a penalty of the user's may lead
        np.full(problem.n_coefficients, math.nan),
    ):

        def units(rows, plan, batch, point=point):
            X = np.array([x for x, _ in rows])
            y = np.array([y for _, y in rows])
            design = as_design(X if layout == "dense" else sparse.csr_matrix(X), BOUNDS, intercept)
            # The norm of `release_coordinates`, where scales are these.
            bound = clip * math.sqrt(d + intercept)
            coordinates = Coordinates(scale, bound, d + intercept)
            rows = Rows(design)[batch]
            noisy_gradient(problem, coordinates, rows, y[batch], point, plan.grid * bound, None)
            return np.array(recorded.pop())

        everyone, rest = np.arange(n), np.arange(1, n)
        for others in ([records[0]] * 2, [records[-1], records[3]]):
            sums = [units([r, *others], full, everyone) for r in records]
            change = max(np.linalg.norm(a - b) for a, b in itertools.combinations(sums, 2))
            assert change * multiplier <= ONE
            without = units([records[0], *others], half, rest)
            sampled = [units([r, *others], half, everyone) for r in records]
            added = max(np.linalg.norm(a - without) for a in sampled)
            z = half.sampling.noise_multiplier
            assert added * z <= ONE
            replaced = max(np.linalg.norm(a - b) for a, b in itertools.combinations(sampled, 2))
            assert replaced * z <= 2 * ONE
            found = min(change * multiplier, added * z, replaced * z / 2) / ONE
            largest = max(largest, found)
    # Half the noise would not have passed. (Where next to nothing is clipped, much less would.)
    assert largest > 0.5 or clip > 1.0


def test_one_record_without_a_finite_norm_counts_for_nothing():
    R = np.array([[3.0], [1e200], [np.nan], [np.inf], [0.5]])
    norms = np.array([2.0, 1e200, 1.0, 1.0, 1.0])
    with np.errstate(all="ignore"):
        sums_module.clip_records(R, norms, 1.0)
    np.testing.assert_array_equal(R[:, 0], [0.5, 0.0, 0.0, 0.0, 0.5])


@pytest.mark.parametrize("bound", [1e-200, 1e-100, 1.0, 1e100])
def test_records_are_clipped_to_bounds_whose_squares_vanish_or_overflow(bound):
    R = bound * np.array([[0.9, 0.9], [30.0, -40.0], [0.3, 0.4], [1e120, 0.0]])
    norms = np.array([1.0, 0.5, 2.0, 0.0])  # the last one of a square that has vanished
    sums_module.clip_records(R, norms, bound)
    sizes = np.linalg.norm(R / bound, axis=1) * [1.0, 0.5, 2.0, 1.0]
    np.testing.assert_allclose(sizes, [1.0, 1.0, 1.0, 0.0], rtol=1e-14)


# ------------------------------------------------------------------------------ audits

TRIALS = 200_000
ALWAYS = 2**53  # the threshold of full batches


@njit
def trials(rng, X, loss, y, scale, bound, grid, threshold, n_steps, out):
    """Sum of the releases of ``n_steps`` steps at moving points, many times."""
    members, w = np.empty(y.shape[0], np.int64), np.zeros(1)
    g, room = np.empty(1), RunRoom(np.empty((1, 1)), np.empty(1))
    limits = GradientLimits(np.inf, bound, 0.0)
    for trial in range(out.shape[0]):
        w[0] = 0.0
        out[trial] = 0.0
        for _ in range(n_steps):
            size = y.shape[0]
            if threshold < 2**53:
                size = poisson_sample(rng, threshold, members)
            batch = Dense(X.values[:size], X.bounds, X.intercept)  # one record: it or none
            g[0] = 0.0
            add_gradients(batch, y[:size], loss, w, scale, limits, room, g)
            gaussian_mechanism(rng, g, grid)
            w[0] -= 1e-3 * g[0]
            out[trial] += g[0]


def evidence(plan, problem, grid, seed):
    """Sums of releases for one record and for its opposite."""
    one, sums = np.ones(1), []
    threshold = plan.sampling.threshold if hasattr(plan, "sampling") else ALWAYS
    for target in (1.0, -1.0):
        design = as_design(np.ones((1, 1)), one, False)
        out, rng = np.empty(TRIALS), np.random.Generator(np.random.PCG64(seed + int(target)))
        trials(
            rng, design, for_kernels(problem.loss), np.array([-target]), one, 0.01, 0.01 * grid,
            threshold, plan.n_iter, out,
        )  # fmt: skip
        sums.append(out / 0.01)
    return sums


@pytest.mark.parametrize("n_steps", [1, 10])
@pytest.mark.parametrize("kind", ["full", "sampled"])
def test_noise_of_whole_plans(kind, n_steps):
    problem = make_problem(Logistic(), 1, 1)
    budget = Budget(EPSILON, DELTA)
    # Without scales: all of the budget is in the steps.
    if kind == "full":
        plan = GradientDescent(clip=0.01, preconditioned=False).plan(problem, budget, n_steps)
        ((leaf, count),) = leaves(plan.event)
        assert leaf == GaussianEvent(leaf.noise_multiplier)
        multiplier, probability = 2 * leaf.noise_multiplier, 1.0  # per norm of one record
    else:
        solver = SGD(clip=0.01, batch_size=0.5, preconditioned=False)
        plan = solver.plan(problem, budget, n_steps)
        ((leaf, count),) = leaves(plan.event)
        multiplier, probability = leaf.noise_multiplier, 0.5
    assert count == n_steps
    assert plan.grid * ONE == pytest.approx(multiplier, rel=1e-4)

    def sums(share):
        return evidence(plan, problem, share * plan.grid, 1)

    check_noise(sums, n_steps, multiplier, probability, 4e-3)
