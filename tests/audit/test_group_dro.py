"""Group DRO: what every release may change by, over neighbours; its grid, its noise, its charge.

Statistics are recorded in grid units just before noise is drawn, for all pairs of data
sets that differ in one record: in its features and target where membership is public, in its groups
too where it is private. Releases are replayed, so that the releases that follow are made at
the same points.
"""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from recorded_releases import RecordedReleases
from scipy import sparse

from skdpsco.constraints import L2Ball
from skdpsco.data.design import as_design
from skdpsco.mechanisms.samplers import SCALE_BITS, deviation_on, gaussian_mechanism
from skdpsco.privacy import Budget, epsilon_of, mu_of
from skdpsco.privacy.events import leaves
from skdpsco.solvers import Allowance
from skdpsco.solvers.groups import moments as module
from skdpsco.solvers.groups.moments import GroupMoments
from skdpsco.solvers.groups.problem import GroupProblem, LogisticMoments, SquaredMoments

BOUNDS = np.array([1.0, 0.5, 2.0])
LABELS = np.eye(3, dtype=bool)[[0, 1, 0, 1, 1, 2]]  # one group per record
OVERLAPS = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 0], [0, 1, 0], [1, 0, 1]], dtype=bool)
EVERY_GROUP = np.array(list(itertools.product((False, True), repeat=3)))  # any membership
LOSSES = [LogisticMoments(), SquaredMoments(), LogisticMoments((0.15, 1.0))]


class Given:
    """A budget of Gaussian noise."""

    def __init__(self, mu):
        self.mu, self.rho = mu, mu * mu / 2


def problem_for(loss, member, d, intercept, objective="worst", mode="public"):
    """``mode``: "public", "prior" or "counts"; the last two are private."""
    n, k = member.shape
    labels = bool((member.sum(axis=1) == 1).all())
    if mode == "public":
        sizes = tuple(member.sum(axis=0).tolist())
        facts = {"group_sizes": sizes, "max_memberships": int(member.sum(axis=1).max())}
    else:
        prior = (1.0 / k,) * k if mode == "prior" else None
        facts = {"prior": prior, "max_memberships": 1 if labels else k}
    facts |= {"objective": objective, "cvar_level": 0.5}
    return GroupProblem(loss, L2Ball(50.0), n, d + intercept, intercept, n_groups=k, **facts)


def kinds(plan, problem):
    """Names of the releases, in their order, and the share of mu that each was charged."""
    given = {
        "counts": plan.count_grid,
        "weights": plan.weight_grids or None,
        "norm": plan.norm_grid,
        "matrix": plan.matrix_grid,
        "mean": plan.mean_grid,
        "moments": plan.moment_grids,
    }
    order = [name for name, grid in given.items() if grid is not None]
    losses = ["losses"] * bool(plan.loss_grids)
    order += losses * (problem.loss.level_at_zero is None) + ["responses", *losses] * plan.n_iter
    parts = module.release_shares(problem, plan.n_iter, "matrix" in order, "mean" in order)
    assert {name: count for name, (_, count) in parts.items() if count} == Counter(order)
    charged = [1 / leaf.noise_multiplier for leaf, k in leaves(plan.event) for _ in range(k)]
    mu = {name: math.hypot(*charged) * math.sqrt(parts[name][0]) for name in order}
    assert sorted(mu[name] for name in order) == pytest.approx(sorted(charged), rel=1e-9)
    return order, mu


class Releases(RecordedReleases):
    """Releases of group moments."""

    def __init__(self, monkeypatch):
        super().__init__(monkeypatch, module)

    def run(self, plan, problem, rows, member, layout, outputs=None):
        """Fit; return the units of every release, groups apart: a list of lists."""
        self.begin(outputs)
        X = np.array([x for x, _ in rows])
        y = np.array([t for _, t in rows])
        X = as_design(layout(X), BOUNDS[: X.shape[1]], problem.intercept)
        membership = sparse.csr_array(member.astype(float))
        result = GroupMoments().run(
            plan, problem, X, y, membership, np.random.default_rng(0), np.zeros(1, int)
        )
        order, _ = kinds(plan, problem)
        stack, releases = iter(self.units), []
        for name in order:
            together = 1 if name in ("counts", "norm", "matrix", "mean") else problem.n_groups
            releases.append((name, [next(stack) for _ in range(together)]))
        assert next(stack, None) is None
        return result, releases


def records(d, loss):
    a = loss.bound
    targets = (-a, a) if isinstance(loss, LogisticMoments) else (-a, 0.3, a)
    features = [*itertools.product((-9.0, 9.0), repeat=d), (0.0,) * d, (0.3, -0.2, 1.1)[:d]]
    return list(itertools.product(features, targets))


def worst_ratios(releases, plan, problem, member, place, rest, layout, base, choices=None):
    """Largest change over charge of every kind, when the record at ``place`` is replaced.

    Its groups are any of ``choices``, None for those that it has.
    """
    extreme = records(problem.n_features - problem.intercept, problem.loss)
    choices = member[place][None] if choices is None else choices

    def run(record, groups, outputs=None):
        among = np.vstack([member[:place], groups, member[place + 1 :]])
        data = [*rest[:place], record, *rest[place:]]
        return releases.run(plan, problem, data, among, layout, outputs)

    first, _ = run(extreme[base], choices[0])
    outputs = releases.seen
    runs = []
    for record, groups in itertools.product(extreme, choices):
        result, found = run(record, groups, outputs)
        assert np.array_equal(result.coef, first.coef)  # releases decide everything
        assert np.array_equal(result.theta, first.theta)
        runs.append(found)
    touched = choices.any(axis=0)
    _, mu = kinds(plan, problem)
    ratios: dict[str, float] = {}
    for k, (name, parts) in enumerate(runs[0]):
        if len(parts) == problem.n_groups > 1:  # the other groups', bit for bit
            for g in np.flatnonzero(~touched):
                assert all(np.array_equal(run[k][1][g], parts[g]) for run in runs)
        # Noise is as many units in every group, so changes of all groups add up in units.
        units = np.array([np.concatenate(run[k][1]) for run in runs])
        change = max(np.linalg.norm(units - one, axis=1).max() for one in units)
        # The variance of discrete Gaussian noise counts 16 units less (docs/proofs/noise.md).
        allowed = mu[name] * math.sqrt(4.0**SCALE_BITS - 16)
        ratios[name] = max(ratios.get(name, 0.0), float(change / allowed))
    return ratios


# Membership, whether it is public, and the groups that a replacement may have. The second matrix
# has records in several groups, and one in none.
MODES = [
    (LABELS, "public", None),
    (OVERLAPS, "public", None),
    (LABELS, "prior", np.eye(3, dtype=bool)),
    (LABELS, "counts", np.eye(3, dtype=bool)),
    (OVERLAPS, "counts", EVERY_GROUP),
]


SETTINGS = [  # features, intercept, mu, objective, layout
    (1, False, 50.0, "worst", np.asarray),
    (2, True, 200.0, "cvar", sparse.csr_matrix),
    (3, True, 3.0, "average", np.asarray),  # too little for second moments
]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("mode", "setting"), [(0, 0), (0, 1), (0, 2), (1, 1), (2, 1), (3, 0), (3, 2), (4, 0)]
)
def test_releases_change_by_what_is_charged(monkeypatch, loss, mode, setting):
    member, mode, choices = MODES[mode]
    d, intercept, mu, objective, layout = SETTINGS[setting]
    releases = Releases(monkeypatch)
    problem = problem_for(loss, member, d, intercept, objective, mode)
    plan = GroupMoments().plan(problem, Given(mu), 2)
    assert (plan.matrix_grid is None) == (plan.mean_grid is not None) == (mu == 3.0)
    assert (len(plan.loss_grids) == 0) == (objective == "average")
    assert (plan.count_grid is None) == (mode != "counts")
    extreme = records(d, loss)
    for place, shift, base in [(0, 1, 0), (1, 5, 3), (5, 2, 6)]:
        rest = [extreme[(shift * i + 3) % len(extreme)] for i in range(len(member) - 1)]
        ratios = worst_ratios(releases, plan, problem, member, place, rest, layout, base, choices)
        assert set(ratios) == set(kinds(plan, problem)[1])
        assert max(ratios.values()) <= 1.0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("member", "mode", "choices"), MODES)
def test_charges_are_tight(monkeypatch, loss, member, mode, choices):
    """Less noise than two thirds of the charge would fail this test, whatever the release."""
    releases, largest = Releases(monkeypatch), {}
    member = member[:2]  # with overlaps, the first is in as many groups as any
    if mode == "public":
        member = member[:, member.any(axis=0)]
    point = np.array([9.0, -7.0, 0.0])  # where predictions are large
    k = member.shape[1]
    monkeypatch.setattr(
        module.Saddle, "solve", lambda *_: (point[: problem.n_features], np.ones(k))
    )
    many = ((1, 2), (False, True), range(4)) if choices is None else ((1,), (False, True), (0, 1))
    for d, intercept, base in itertools.product(*many):
        problem = problem_for(loss, member, d, intercept, mode=mode)
        plan = GroupMoments().plan(problem, Given(100.0), 1)
        rest = [records(d, loss)[0]]
        found = worst_ratios(releases, plan, problem, member, 0, rest, np.asarray, base, choices)
        largest = {name: max(ratio, largest.get(name, 0.0)) for name, ratio in found.items()}
    assert set(largest) == set(kinds(plan, problem)[1])
    assert {"norm", "matrix", "moments", "responses", "losses"} <= set(largest)
    assert ("weights" in largest) == (loss is LOSSES[2])
    assert min(largest.values()) > 2 / 3
    assert max(largest.values()) <= 1.0


@pytest.mark.parametrize("mode", ["public", "counts"])
def test_noise_is_on_its_grid_and_as_large_as_planned(monkeypatch, mode):
    """Six standard deviations of the mean square: a false alarm has probability below 1e-8."""
    problem = problem_for(LogisticMoments(), LABELS, 2, True, mode=mode)
    plan = GroupMoments().plan(problem, Given(50.0), 2)
    noise, n_grids = [], set()

    def spy(rng, values, grid):
        before = values.copy()
        gaussian_mechanism(rng, values, grid)
        assert np.array_equal(np.rint(values / grid) * grid, values)
        noise.extend((values - before) / (grid * 2.0**SCALE_BITS))
        n_grids.add(grid)
        return deviation_on(grid)

    monkeypatch.setattr(module, "gaussian_mechanism", spy)
    X = as_design(np.random.default_rng(0).uniform(-1, 1, (6, 2)), BOUNDS[:2], True)
    y = np.array([-0.5, 0.5, 0.5, -0.5, 0.5, -0.5])
    membership = sparse.csr_array(LABELS.astype(float))
    for seed in range(60):
        rng = np.random.Generator(np.random.PCG64(seed))
        GroupMoments().run(plan, problem, X, y, membership, rng, np.zeros(1, int))
    grids = {plan.norm_grid, plan.matrix_grid, plan.mean_grid}
    grids |= {*plan.moment_grids, *plan.response_grids}
    assert n_grids == (grids | {plan.count_grid, *plan.loss_grids}) - {None}
    assert len(noise) > 2000
    assert abs(np.square(noise).mean() - 1) < 6 * math.sqrt(2 / len(noise))


def in_groups(sizes):
    return np.repeat(np.eye(len(sizes), dtype=bool), sizes, axis=0)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("objective", ["worst", "cvar", "average"])
@pytest.mark.parametrize("sizes", [(5000,), (20, 30_000), (100, 100, 100, 7)])
@pytest.mark.parametrize("mode", ["public", "prior", "counts"])
def test_plans_spend_the_budget_and_no_more(loss, objective, sizes, mode):
    problem = problem_for(loss, in_groups(sizes), 6, True, objective, mode)
    for epsilon in (0.1, 1.0, 30.0, 1e4):
        budget = Budget(epsilon, 1e-6)
        for available in (budget, Allowance(budget.rho)):
            plan = GroupMoments().plan(problem, available)
            assert mu_of(plan.event) <= available.mu
            assert mu_of(plan.event) == pytest.approx(available.mu, rel=1e-10)
        assert epsilon_of(GroupMoments().plan(problem, budget).event, 1e-6) <= epsilon * (1 + 1e-12)


def test_noise_shrinks_with_the_group_and_not_with_the_number_of_groups():
    few = GroupMoments().plan(problem_for(LOSSES[0], in_groups([1000] * 2), 4, True), Given(1.0))
    many = problem_for(LOSSES[0], in_groups([1000] * 50), 4, True)
    many = GroupMoments().plan(many, Given(1.0), few.n_iter)
    # Grids are those of sums: one group's is the same, however many others there are.
    assert many.moment_grids[0] == pytest.approx(few.moment_grids[0], rel=0.06)
    assert len(set(many.moment_grids)) == 1


def test_noise_is_the_same_where_membership_is_private():
    """With a prior; without one it is larger by the share of the counts, 0.02 beside 1.11."""
    plans = {
        mode: GroupMoments().plan(
            problem_for(LOSSES[0], in_groups([1000, 2000]), 4, True, mode=mode), Given(1.0)
        )
        for mode in ("public", "prior", "counts")
    }
    for name in ("moment_grids", "response_grids", "loss_grids"):
        public, prior, counts = (getattr(plan, name) for plan in plans.values())
        assert prior == pytest.approx(public, rel=1e-6)
        assert counts == pytest.approx(np.multiply(public, math.sqrt(1.13 / 1.11)), rel=1e-6)
