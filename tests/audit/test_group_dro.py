"""Group DRO: what every release may change by, over neighbours; its grid, its noise, its charge.

What a fit computes just before it draws noise is recorded, in grid units, for all pairs of data
sets that differ in one record of one group. What was released is replayed, so that the releases
that follow are made at the same points.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import sparse

from skdpsco._design import as_design
from skdpsco.constraints import L2Ball
from skdpsco.mechanisms import SCALE_BITS, gaussian_mechanism, to_grid
from skdpsco.minimax._objective import mixtures
from skdpsco.privacy import Budget, epsilon_of, mu_of
from skdpsco.privacy.events import leaves
from skdpsco.solvers import Allowance
from skdpsco.solvers import group_moments as module
from skdpsco.solvers.group_moments import (
    GroupMoments,
    GroupProblem,
    LogisticMoments,
    SquaredMoments,
)

BOUNDS = np.array([1.0, 0.5, 2.0])
GROUPS = np.array([0, 1, 0, 1, 1, 2])
N_GROUPS = 3
LOSSES = [LogisticMoments(), SquaredMoments()]


class Given:
    """A budget of Gaussian noise."""

    def __init__(self, mu):
        self.mu, self.rho = mu, mu * mu / 2


def problem_for(loss, groups, d, intercept, objective="worst", radius=50.0):
    sizes = np.bincount(groups)
    return GroupProblem(
        loss,
        L2Ball(radius),
        len(groups),
        d + intercept,
        intercept,
        group_sizes=tuple(sizes.tolist()),
        **mixtures(objective, 0.5, sizes),
    )


def kinds(plan, problem):
    """Names of the releases, in their order, and the share of mu that each was charged."""
    counts = [(1 / leaf.noise_multiplier, count) for leaf, count in leaves(plan.event)]
    charge = [mu for mu, _ in counts]
    names = ["norm", *["matrix"] * (plan.matrix_grid is not None), "moments"]
    names += ["responses", *["losses"] * bool(plan.loss_grids)]
    assert len(names) == len(counts)
    mu = dict(zip(names, charge, strict=True))
    early = ["losses"] if plan.loss_grids and problem.loss.level_at_zero is None else []
    later = ["responses", *["losses"] * bool(plan.loss_grids)] * plan.n_iter
    order = [*names[: names.index("moments") + 1], *early, *later]
    assert [order.count(name) for name in names] == [count for _, count in counts]
    return order, mu


class Releases:
    """Stand-in for the noise: keeps grid units, makes up outputs or replays them."""

    def __init__(self, monkeypatch):
        add = self.add
        monkeypatch.setattr(module, "gaussian_mechanism", lambda *args: add(*args))

    def add(self, rng, values, grid):
        units = [int(to_grid(v, grid)) for v in values]
        assert max(map(abs, units)) < 2**49  # nothing is clamped
        self.units.append(np.array(units, dtype=float))
        if self.outputs is None:
            values += rng.uniform(-0.1, 0.1, len(values)) * (np.abs(values).max() + 0.1)
        else:
            values[:] = self.outputs[len(self.units) - 1]
        self.seen.append(values.copy())

    def run(self, plan, problem, rows, groups, layout, outputs=None):
        """Fit; return the units of every release, groups apart: a list of lists."""
        self.units, self.seen, self.outputs = [], [], outputs
        X = np.array([x for x, _ in rows])
        y = np.array([t for _, t in rows])
        X = as_design(layout(X), BOUNDS[: X.shape[1]], problem.intercept)
        result = GroupMoments().run(
            plan, problem, X, y, groups, np.random.default_rng(0), np.zeros(1, int)
        )
        order, _ = kinds(plan, problem)
        stack, releases = iter(self.units), []
        for name in order:
            together = 1 if name in ("norm", "matrix") else len(problem.group_sizes)
            releases.append((name, [next(stack) for _ in range(together)]))
        assert next(stack, None) is None
        return result, releases


def records(d, loss):
    a = loss.bound
    targets = (-a, a) if isinstance(loss, LogisticMoments) else (-a, 0.3, a)
    features = [*itertools.product((-9.0, 9.0), repeat=d), (0.0,) * d, (0.3, -0.2, 1.1)[:d]]
    return list(itertools.product(features, targets))


def worst_ratios(releases, plan, problem, groups, place, rest, layout, base):
    """Largest change over charge of every kind, when the record at ``place`` is replaced."""
    extreme = records(problem.n_features - problem.intercept, problem.loss)

    def data(record):
        return [*rest[:place], record, *rest[place:]]

    first, _ = releases.run(plan, problem, data(extreme[base]), groups, layout)
    outputs = releases.seen
    runs = []
    for record in extreme:
        result, found = releases.run(plan, problem, data(record), groups, layout, outputs)
        assert np.array_equal(result.coef, first.coef)  # what was released decides everything
        assert np.array_equal(result.theta, first.theta)
        runs.append(found)
    _, mu = kinds(plan, problem)
    ratios: dict[str, float] = {}
    for k, (name, parts) in enumerate(runs[0]):
        for g in range(len(parts)):
            units = np.array([run[k][1][g] for run in runs])
            change = np.linalg.norm(units[:, None] - units[None], axis=2).max()
            if len(parts) > 1 and g != groups[place]:
                assert change == 0.0  # the other groups', bit for bit
            # The variance of discrete Gaussian noise counts 16 units less (docs/proofs/noise.md).
            allowed = mu[name] * math.sqrt(4.0**SCALE_BITS - 16)
            ratios[name] = max(ratios.get(name, 0.0), float(change / allowed))
    return ratios


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("d", "intercept", "mu", "objective", "layout"),
    [
        (1, False, 50.0, "worst", np.asarray),
        (2, True, 200.0, "cvar", sparse.csr_matrix),
        (3, True, 3.0, "average", np.asarray),  # too little for second moments
    ],
)
def test_releases_change_by_what_is_charged(monkeypatch, loss, d, intercept, mu, objective, layout):
    releases = Releases(monkeypatch)
    problem = problem_for(loss, GROUPS, d, intercept, objective)
    plan = GroupMoments().plan(problem, Given(mu), 2)
    assert (plan.matrix_grid is None) == (mu == 3.0)
    assert (len(plan.loss_grids) == 0) == (objective == "average")
    extreme = records(d, loss)
    for place, shift, base in [(0, 1, 0), (1, 5, 3), (5, 2, 6)]:
        rest = [extreme[(shift * i + 3) % len(extreme)] for i in range(len(GROUPS) - 1)]
        ratios = worst_ratios(releases, plan, problem, GROUPS, place, rest, layout, base)
        assert set(ratios) == set(kinds(plan, problem)[1])
        assert max(ratios.values()) <= 1.0


@pytest.mark.parametrize("loss", LOSSES)
def test_charges_are_tight(monkeypatch, loss):
    """Less noise than two thirds of the charge would fail the test above, whatever the release."""
    releases, largest = Releases(monkeypatch), {}
    groups, point = np.array([0, 1]), np.array([9.0, -7.0, 0.0])  # where predictions are large
    monkeypatch.setattr(
        module.Saddle, "solve", lambda *_: (point[: problem.n_features], np.ones(2))
    )
    for d, intercept, base in itertools.product((1, 2), (False, True), range(4)):
        problem = problem_for(loss, groups, d, intercept)
        plan = GroupMoments().plan(problem, Given(100.0), 1)
        rest = [records(d, loss)[0]]
        found = worst_ratios(releases, plan, problem, groups, 0, rest, np.asarray, base)
        largest = {name: max(ratio, largest.get(name, 0.0)) for name, ratio in found.items()}
    assert set(largest) == {"norm", "matrix", "moments", "responses", "losses"}
    assert min(largest.values()) > 2 / 3
    assert max(largest.values()) <= 1.0


def test_noise_is_on_its_grid_and_as_large_as_planned(monkeypatch):
    """Six standard deviations of the mean square: a false alarm has probability below 1e-8."""
    problem = problem_for(LogisticMoments(), GROUPS, 2, True)
    plan = GroupMoments().plan(problem, Given(50.0), 2)
    noise, n_grids = [], set()

    def spy(rng, values, grid):
        before = values.copy()
        gaussian_mechanism(rng, values, grid)
        assert np.array_equal(np.rint(values / grid) * grid, values)
        noise.extend((values - before) / (grid * 2.0**SCALE_BITS))
        n_grids.add(grid)

    monkeypatch.setattr(module, "gaussian_mechanism", spy)
    X = as_design(np.random.default_rng(0).uniform(-1, 1, (6, 2)), BOUNDS[:2], True)
    y = np.array([-0.5, 0.5, 0.5, -0.5, 0.5, -0.5])
    for seed in range(60):
        rng = np.random.Generator(np.random.PCG64(seed))
        GroupMoments().run(plan, problem, X, y, GROUPS, rng, np.zeros(1, int))
    grids = {plan.norm_grid, plan.matrix_grid, *plan.moment_grids, *plan.response_grids}
    assert n_grids == grids | set(plan.loss_grids)
    assert len(noise) > 2000
    assert abs(np.square(noise).mean() - 1) < 6 * math.sqrt(2 / len(noise))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("objective", ["worst", "cvar", "average"])
@pytest.mark.parametrize("sizes", [(5000,), (20, 30_000), (100, 100, 100, 7)])
def test_plans_spend_the_budget_and_no_more(loss, objective, sizes):
    groups = np.repeat(np.arange(len(sizes)), sizes)
    problem = problem_for(loss, groups, 6, True, objective)
    for epsilon in (0.1, 1.0, 30.0, 1e4):
        budget = Budget(epsilon, 1e-6)
        for available in (budget, Allowance(budget.rho)):
            plan = GroupMoments().plan(problem, available)
            assert mu_of(plan.event) <= available.mu
            assert mu_of(plan.event) == pytest.approx(available.mu, rel=1e-10)
        assert epsilon_of(GroupMoments().plan(problem, budget).event, 1e-6) <= epsilon * (1 + 1e-12)


def test_noise_shrinks_with_the_group_and_not_with_the_number_of_groups():
    few = GroupMoments().plan(problem_for(LOSSES[0], np.repeat([0, 1], 1000), 4, True), Given(1.0))
    many = problem_for(LOSSES[0], np.repeat(np.arange(50), 1000), 4, True)
    many = GroupMoments().plan(many, Given(1.0), few.n_iter)
    # Grids are those of sums: one group's is the same, however many others there are.
    assert many.moment_grids[0] == pytest.approx(few.moment_grids[0], rel=0.06)
    assert len(set(many.moment_grids)) == 1
