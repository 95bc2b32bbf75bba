"""Disjoint batches of mirror prox: who sees a record, what it pays, and what is left of it."""

import math

import numpy as np
import pytest

from skdpsco.constraints import L2Ball
from skdpsco.mechanisms.samplers import SCALE_BITS, to_grid
from skdpsco.privacy import Budget, mu_of
from skdpsco.solvers import Allowance
from skdpsco.solvers.saddle import mirror_prox
from skdpsco.solvers.saddle.geometry import Block
from skdpsco.solvers.saddle.mirror_prox import MIRROR_METHODS, MirrorProx
from skdpsco.solvers.saddle.problem import VariationalProblem, calibration
from skdpsco.solvers.saddle.recursive_regularisation import RecursiveRegularisation

NOISELESS = Allowance(1e10)


class Towards:
    """G(z; x) = z - x in two balls, the records' numbers a second array; keeps its calls."""

    saddle = True
    smoothness = np.eye(2)

    def __init__(self, smooth=True):
        self.blocks = (Block(L2Ball(1.0), 2, 2.0), Block(L2Ball(1.0), 1, 2.0))
        self.calls = []
        self.smoothness = np.eye(2) if smooth else None

    def total(self, z, data):
        x, numbers = data
        self.calls.append(tuple(numbers.tolist()))
        return len(x) * z - x.sum(axis=0)


def data_of(n, seed=0):
    x = np.random.default_rng(seed).uniform(-0.5, 0.5, (n, 3))
    return x, np.arange(n)


@pytest.mark.parametrize("method", MIRROR_METHODS[1:])
@pytest.mark.parametrize(("n_batches", "n_iter"), [(3, 2), (4, 9), (10, 3), (50, 8), (1, 3)])
def test_a_record_is_in_one_batch_of_every_epoch(method, n_batches, n_iter):
    n = 10
    solver, operator = MirrorProx(method, n_batches=n_batches), Towards()
    problem = VariationalProblem(operator, n)
    plan = solver.plan(problem, Allowance(1.0), n_iter)
    K = plan.schedule.n_batches
    assert K == min(n_batches, n)
    partitions = set()
    for seed in range(3):
        operator.calls.clear()
        solver.run(plan, problem, data_of(n, seed), np.random.default_rng(seed))
        assert len(operator.calls) == plan.schedule.n_calls
        assert len(operator.calls) == (2 * n_iter - 1 if method == "mirror-prox" else n_iter - 1)
        sizes = sorted(len(batch) for batch in operator.calls[:K])
        assert sizes[-1] - sizes[0] <= 1
        seen = np.zeros(n, dtype=int)
        for start in range(0, len(operator.calls), K):
            epoch = operator.calls[start : start + K]
            assert tuple(epoch) == tuple(operator.calls[: len(epoch)])  # the same batches
            members = sum(epoch, ())
            assert len(set(members)) == len(members)  # no record twice
            seen[list(members)] += 1
        assert seen.max() <= plan.schedule.n_epochs
        if len(operator.calls) >= K:
            assert set(sum(operator.calls[:K], ())) == set(range(n))
            assert seen.max() == plan.schedule.n_epochs
        partitions.add(tuple(operator.calls))
    assert len(partitions) == (1 if K == 1 else 3)


def test_the_partition_does_not_depend_on_the_data_or_on_how_they_come():
    operator = Towards()
    problem, solver = VariationalProblem(operator, 12), MirrorProx(n_batches=4)
    plan = solver.plan(problem, Allowance(1.0))
    calls = []
    for data in (data_of(12, 0), data_of(12, 1), (np.full((12, 3), 1e-3), np.arange(12))):
        operator.calls.clear()
        solver.run(plan, problem, data, np.random.default_rng(5))
        calls.append(tuple(operator.calls))
    assert calls[0] == calls[1] == calls[2]
    assert calls[0][: plan.schedule.n_batches] == tuple(
        tuple(rows.tolist())
        for rows in np.array_split(np.random.default_rng(5).permutation(12), 4)[: len(calls[0])]
    )  # drawn before anything else


def test_a_record_is_in_every_batch_with_the_same_probability():
    problem, solver = VariationalProblem(Towards(), 6), MirrorProx("mirror-descent", n_batches=3)
    plan = solver.plan(problem, Allowance(1.0), 4)
    counts, runs = np.zeros((3, 6)), 1200
    for seed in range(runs):
        problem.operator.calls.clear()
        solver.run(plan, problem, data_of(6), np.random.default_rng(seed))
        for batch, members in enumerate(problem.operator.calls):
            counts[batch, list(members)] += 1
    # Binomial with mean 400 and deviation 16.3, 18 of them: a false alarm below 1e-7.
    assert np.abs(counts - runs / 3).max() < 6 * math.sqrt(runs * 2 / 9)


@pytest.mark.parametrize("method", MIRROR_METHODS)
@pytest.mark.parametrize("budget", [Budget(1.0, 1e-6), Allowance(0.05)], ids=str)
@pytest.mark.parametrize(
    ("options", "n_iter"),
    [
        ({"n_batches": 7}, None),
        ({"n_batches": 7, "n_epochs": 3}, None),
        ({"n_batches": 7}, 20),
        ({"n_batches": "auto"}, None),
        ({"n_batches": "auto", "n_epochs": 5}, None),
        ({"n_batches": "auto", "n_epochs": 2}, 20),
    ],
)
def test_a_record_pays_for_its_epochs_and_no_more(method, budget, options, n_iter):
    problem = VariationalProblem(Towards(), 10_000)
    plan = MirrorProx(method, **options).plan(problem, budget, n_iter)
    assert mu_of(plan.event) == pytest.approx(budget.mu, rel=1e-12)
    sensitivity = np.array(calibration(problem, budget.mu)[0])
    scale = np.array(plan.grid) * 2.0**SCALE_BITS
    schedule = plan.schedule
    spent = schedule.n_epochs * np.sum((sensitivity / scale) ** 2)
    assert budget.mu**2 * (1 - 1e-4) <= spent <= budget.mu**2
    assert schedule.n_epochs == math.ceil(schedule.n_calls / schedule.n_batches)
    if n_iter is None or options["n_batches"] == "auto":
        assert schedule.n_epochs <= options.get("n_epochs", 1)
    if n_iter is None and options["n_batches"] == 7:
        assert schedule.n_calls in (7 * schedule.n_epochs, 7 * schedule.n_epochs - 1)


@pytest.mark.parametrize("method", MIRROR_METHODS[1:])
@pytest.mark.parametrize(("n_batches", "n_iter"), [(2, 4), (3, 3), (5, 2)])
def test_calls_change_by_what_is_charged(monkeypatch, method, n_batches, n_iter):
    """Grid units before the noise, of runs that replay what the first of them released."""
    mu, n = 50.0, 5
    solver, problem = MirrorProx(method, n_batches=n_batches), VariationalProblem(Towards(), n)
    plan = solver.plan(problem, Allowance(mu**2 / 2), n_iter)
    outputs: list[np.ndarray] = []
    units: list[np.ndarray] = []

    def replay(rng, values, grid):
        units.append(np.array([to_grid(v, grid) for v in values], dtype=float))
        if len(units) > len(outputs):
            outputs.append(values + rng.uniform(-1, 1, len(values)))
        values[:] = outputs[len(units) - 1]

    monkeypatch.setattr(mirror_prox, "gaussian_mechanism", replay)
    largest = 0.0
    extreme = [np.array(v) for v in ((1.0, 0.0, 1.0), (-1.0, 0.0, -1.0), (0.0, 1.0, -1.0))]
    for place in range(n):
        outputs.clear()
        runs = []
        for record in extreme:
            x, numbers = data_of(n)
            x[place] = record
            units.clear()
            solver.run(plan, problem, (x, numbers), np.random.default_rng(place))
            runs.append(list(units))
        for one in runs:
            moves = [np.linalg.norm(a - b) for a, b in zip(runs[0], one, strict=True)]
            touched = [max(pair) > 0 for pair in zip(moves[::2], moves[1::2], strict=True)]
            assert sum(touched) <= plan.schedule.n_epochs
            # The variance of discrete Gaussian noise counts 16 units less (docs/proofs/noise.md).
            spent = math.sqrt(sum(move**2 for move in moves) / (4.0**SCALE_BITS - 16))
            assert spent <= mu
            largest = max(largest, spent)
    # Records differ by 2 in z - x, and 4 is what the bounds of 2 allow.
    assert largest > 0.45 * mu


@pytest.mark.parametrize("method", MIRROR_METHODS[1:])
def test_means_are_over_the_records_of_a_batch(method):
    """All records alike: batches of 3, 3, 2 and 2 say what all of them say."""
    problem = VariationalProblem(Towards(smooth=False), 10)
    data = np.tile([0.3, -0.2, 0.4], (10, 1)), np.arange(10)
    found = []
    for solver in (MirrorProx(method), MirrorProx(method, n_batches=4)):
        plan = solver.plan(problem, NOISELESS, 20)
        found.append(solver.run(plan, problem, data, np.random.default_rng(0)))
    assert np.linalg.norm(found[0]) > 0.05
    assert found[0] == pytest.approx(found[1], abs=1e-4)  # and a little noise


@pytest.mark.parametrize("method", MIRROR_METHODS)
def test_one_pass_finds_the_solution(method):
    x, numbers = data_of(20_000)
    x += [0.2, -0.3, 0.4]
    errors = []
    for n_epochs in (1, 8):
        solver = MirrorProx(method, n_batches="auto", n_epochs=n_epochs)
        problem = VariationalProblem(Towards(), len(x))
        plan = solver.plan(problem, Allowance(0.05))
        assert plan.schedule.n_batches > 1
        z = solver.run(plan, problem, (x, numbers), np.random.default_rng(0))
        errors.append(np.linalg.norm(z - x.mean(axis=0)))
    assert max(errors) < 0.25 * np.linalg.norm(x.mean(axis=0))


def test_auto_takes_the_smallest_bound():
    problem, budget = VariationalProblem(Towards(), 5_000), Allowance(0.05)
    for method in MIRROR_METHODS[1:]:
        best = MirrorProx(method, n_batches="auto").schedule(problem, budget)
        for k in range(10):
            other = MirrorProx(method, n_batches=2**k).schedule(problem, budget)
            assert other.n_batches == 2**k
            assert best.bound <= other.bound
        assert 1 < best.n_batches < 1000


def test_the_recursion_has_batches_within_its_rounds():
    operator, n = Towards(), 24
    problem = VariationalProblem(operator, n)
    solver = RecursiveRegularisation(MirrorProx("mirror-prox", n_batches=2), n_rounds=3)
    plan = solver.plan(problem, Allowance(1.0), 2)
    assert mu_of(plan.event) == pytest.approx(Allowance(1.0).mu)
    solver.run(plan, problem, data_of(n), np.random.default_rng(0))
    rounds = [operator.calls[start : start + 3] for start in (0, 3, 6)]
    assert len(operator.calls) == 9
    members = [set(sum(calls, ())) for calls in rounds]
    assert [len(one) for one in members] == [8, 8, 8]
    assert set.union(*members) == set(range(n))
    for first, second, third in rounds:
        assert first == third
        assert not set(first) & set(second)


@pytest.mark.parametrize("n", [3, 50])
def test_the_most_rounds_that_are_allowed(n):
    problem, solver = VariationalProblem(Towards(), n), RecursiveRegularisation(n_rounds=40)
    plan = solver.plan(problem, Allowance(1.0), 2)
    assert len(plan.sizes) == min(n, 40)
    assert 0.0 < plan.lam < math.inf
    assert np.isfinite(solver.run(plan, problem, data_of(n), np.random.default_rng(0))).all()


def test_one_step_sees_the_data():
    """Mirror descent would return its start."""
    for solver in (MirrorProx(), MirrorProx(n_batches="auto"), RecursiveRegularisation()):
        operator = Towards(smooth=False)
        problem = VariationalProblem(operator, 10)
        plan = solver.plan(problem, Allowance(1.0), 1)
        z = solver.run(plan, problem, data_of(10), np.random.default_rng(0))
        assert len(operator.calls) == 1
        assert np.linalg.norm(z) > 0.0
