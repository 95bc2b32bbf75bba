"""Group DRO: what every release may change by, over neighbours; its grid, its noise, its charge.

Statistics are recorded in grid units just before noise is drawn, for all pairs of data sets that
differ in one record: in its features and target where membership is public, in its groups too where
it is private. Releases are replayed, so that the releases that follow are made at the same points.
"""

import itertools
import math

import numpy as np
import pytest
from recorded_releases import ONE, RecordedReleases
from scipy import sparse

from skdpsco.constraints import L2Ball
from skdpsco.data.design import as_design
from skdpsco.losses import Hinge, Logistic, Squared
from skdpsco.mechanisms.samplers import deviation_on, gaussian_mechanism, to_grid
from skdpsco.privacy import Budget, epsilon_of, mu_of
from skdpsco.privacy.events import leaves
from skdpsco.scaling import column_scales
from skdpsco.solvers import Allowance
from skdpsco.solvers.groups import descent
from skdpsco.solvers.groups.descent import GroupDescent
from skdpsco.solvers.groups.problem import GroupProblem
from skdpsco.solvers.penalized import gradient_descent, metric

MODULES = (descent, column_scales, gradient_descent, metric)
BOUNDS = np.array([1.0, 0.5, 2.0])
LABELS = np.eye(3, dtype=bool)[[0, 1, 0, 1, 1, 2]]  # one group per record
OVERLAPS = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 0], [0, 0, 0], [0, 1, 0], [1, 0, 1]], dtype=bool)
EVERY_GROUP = np.array(list(itertools.product((False, True), repeat=3)))  # any membership
LOSSES = [(Logistic(), None), (Squared(1.0), None), (Hinge(), None), (Logistic(), (0.15, 1.0))]


class Given:
    """A budget of Gaussian noise."""

    def __init__(self, mu):
        self.mu, self.rho = mu, mu * mu / 2


def problem_for(loss, member, d, intercept, cvar_level=0.0, mode="public"):
    """``mode``: "public", "prior" or "counts"; the last two are private."""
    n, k = member.shape
    labels = bool((member.sum(axis=1) == 1).all())
    if mode == "public":
        sizes = tuple(member.sum(axis=0).tolist())
        facts = {"group_sizes": sizes, "max_memberships": int(member.sum(axis=1).max())}
    else:
        prior = (1.0 / k,) * k if mode == "prior" else None
        facts = {"prior": prior, "max_memberships": 1 if labels else k}
    facts |= {"cvar_level": cvar_level, "class_weights": loss[1]}
    return GroupProblem(loss[0], L2Ball(50.0), n, d + intercept, intercept, n_groups=k, **facts)


def kinds(plan):
    """Names of the releases that every one of a plan's events is for, with mu of one release."""
    names = ["counts"] * (plan.count_grid is not None)
    names += ["losses"] * (plan.losses is not None and plan.losses.rate > 0.0)
    charged = [(1 / leaf.noise_multiplier, k) for leaf, k in leaves(plan.event)]
    mu = {name: charged[i][0] for i, name in enumerate(names)}
    rest = math.hypot(*(m * math.sqrt(k) for m, k in charged[len(names) :]))
    return mu | {"descent": rest}


class Releases(RecordedReleases):
    """Releases of group DRO, told apart by their grids."""

    def __init__(self, monkeypatch):
        super().__init__(monkeypatch, *MODULES)

    def add(self, rng, values, grid):
        self.grids.append(grid)
        deviation = super().add(rng, values, grid)
        if self.outputs is None and self.stretch:
            # Far points, where losses of records are 0 or beyond their bound.
            values *= self.stretch
            self.seen[-1] = values.copy()
        return deviation

    def run(self, plan, problem, rows, member, layout, outputs=None, stretch=0.0):
        """Fit; return what changes in every kind of release: a list of pairs."""
        self.begin(outputs)
        self.grids, self.stretch = [], stretch
        X = np.array([x for x, _ in rows])
        y = np.array([t for _, t in rows])
        X = as_design(layout(X), BOUNDS[: X.shape[1]], problem.intercept)
        membership = sparse.csr_array(member.astype(float))
        result = GroupDescent().run(
            plan, problem, X, y, membership, np.random.default_rng(0), np.zeros(1, int)
        )
        losses = None if plan.losses is None else plan.losses.grid
        names = {plan.count_grid: "counts", losses: "losses"}
        return result, [
            (names.get(grid, "descent"), units)
            for grid, units in zip(self.grids, self.units, strict=True)
        ]


def records(d, loss):
    targets = (-1.0, 0.3, 1.0) if isinstance(loss, Squared) else (-1.0, 1.0)
    features = [*itertools.product((-9.0, 9.0), repeat=d), (0.0,) * d, (0.3, -0.2, 1.1)[:d]]
    return list(itertools.product(features, targets))


def worst_ratios(releases, plan, problem, member, rest, choices=None, **options):
    """Largest change over charge of every kind, when the first record is replaced.

    Its groups are any of ``choices``, None for those that it has. Descent is one kind: the squares
    of the changes of its releases add up.
    """
    extreme = records(problem.n_features - problem.intercept, problem.loss)
    choices = member[0][None] if choices is None else choices
    layout = options.pop("layout", np.asarray)

    def run(record, groups, outputs=None):
        among = np.vstack([groups, member[1:]])
        return releases.run(plan, problem, [record, *rest], among, layout, outputs, **options)

    first, _ = run(extreme[0], choices[0])
    outputs, runs = releases.seen, []
    for record, groups in itertools.product(extreme, choices):
        result, found = run(record, groups, outputs)
        assert np.array_equal(result.coef, first.coef)  # releases decide everything
        assert np.array_equal(result.theta, first.theta)
        runs.append(found)
    ratios = {}
    for name, mu in kinds(plan).items():
        which = [i for i, (kind, _) in enumerate(runs[0]) if kind == name]
        changes = []
        for a, b in itertools.combinations(runs, 2):
            sizes = [np.linalg.norm(a[i][1] - b[i][1]) for i in which]
            changes.append(math.hypot(*sizes) if name == "descent" else max(sizes))
        ratios[name] = max(changes) / (mu * ONE)
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
SETTINGS = [  # features, intercept, cvar_level, layout
    (1, False, 0.0, np.asarray),
    (2, True, 0.5, sparse.csr_matrix),
    (2, True, 1.0, np.asarray),
]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize(
    ("mode", "setting"), [(0, 0), (0, 1), (0, 2), (1, 1), (2, 1), (3, 0), (3, 2), (4, 0)]
)
def test_releases_change_by_what_is_charged(monkeypatch, loss, mode, setting):
    member, mode, choices = MODES[mode]
    d, intercept, cvar_level, layout = SETTINGS[setting]
    releases = Releases(monkeypatch)
    problem = problem_for(loss, member, d, intercept, cvar_level, mode)
    plan = GroupDescent().plan(problem, Given(50.0), 4)
    assert (plan.losses is None) == (cvar_level == 1.0)
    assert (plan.count_grid is None) == (mode != "counts")
    extreme = records(d, loss[0])
    for shift, stretch in [(1, 0.0), (5, 30.0)]:
        rest = [extreme[(shift * i + 3) % len(extreme)] for i in range(len(member) - 1)]
        options = {"layout": layout, "stretch": stretch}
        ratios = worst_ratios(releases, plan, problem, member, rest, choices, **options)
        assert max(ratios.values()) <= 1.0


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize(("member", "mode", "choices"), MODES)
def test_charges_are_tight(monkeypatch, loss, member, mode, choices):
    """Less noise than two thirds of the charge would fail this test, for counts and for losses."""
    releases, largest = Releases(monkeypatch), {}
    problem = problem_for(loss, member, 1, False, mode=mode)
    plan = GroupDescent().plan(problem, Given(50.0), 4)
    rest = [records(1, loss[0])[0]] * (len(member) - 1)
    for stretch in (0.0, 30.0, -30.0):
        found = worst_ratios(releases, plan, problem, member, rest, choices, stretch=stretch)
        largest = {name: max(ratio, largest.get(name, 0.0)) for name, ratio in found.items()}
    assert ("counts" in largest) == (mode == "counts")
    assert largest.pop("descent") <= 1.0
    assert min(largest.values()) > 2 / 3
    assert max(largest.values()) <= 1.0


def in_groups(sizes):
    return np.repeat(np.eye(len(sizes), dtype=bool), sizes, axis=0)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("cvar_level", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("sizes", [(5000,), (20, 30_000), (100, 100, 100, 7)])
@pytest.mark.parametrize("mode", ["public", "prior", "counts"])
def test_plans_spend_the_budget_and_no_more(loss, cvar_level, sizes, mode):
    problem = problem_for(loss, in_groups(sizes), 6, True, cvar_level, mode)
    for epsilon in (0.1, 1.0, 30.0, 1e4):
        budget = Budget(epsilon, 1e-6)
        for available in (budget, Allowance(budget.rho)):
            plan = GroupDescent().plan(problem, available)
            assert mu_of(plan.event) <= available.mu
            assert mu_of(plan.event) == pytest.approx(available.mu, rel=1e-10)
        assert epsilon_of(GroupDescent().plan(problem, budget).event, 1e-6) <= epsilon * (1 + 1e-12)


def test_the_noise_of_losses_does_not_grow_with_the_number_of_groups():
    few, many = (
        GroupDescent().plan(problem_for(LOSSES[0], in_groups([1000] * k), 4, True), Given(1.0), 9)
        for k in (2, 50)
    )
    # The grid is that of sums, one for all groups.
    assert many.losses.grid == pytest.approx(few.losses.grid, rel=0.06)


class Noisy(Releases):
    """Releases with ``factor`` times the planned noise, unless they are replayed."""

    rng, factor = np.random.Generator(np.random.PCG64(0)), 1.0

    def add(self, rng, values, grid):
        if self.outputs is not None:
            return super().add(rng, values, grid)
        self.grids.append(grid)
        self.units.append(np.array([float(to_grid(v, grid)) for v in values]))
        gaussian_mechanism(self.rng, values, self.factor * grid)
        self.seen.append(values.copy())
        return deviation_on(grid)


def advantage(releases, plan, problem, fits, n_runs):
    """What the likelihood ratio of all releases tells of which data they are, and its error."""
    found = []
    for k in (0, 1):
        above = 0
        for _ in range(n_runs):
            _, own = releases.run(plan, problem, *fits[k], np.asarray)
            seen, grids = releases.seen, releases.grids
            _, other = releases.run(plan, problem, *fits[1 - k], np.asarray, seen)
            log_ratio = 0.0  # of the first data to the second
            for values, grid, (_, mine), (_, its) in zip(seen, grids, own, other, strict=True):
                first, second = (mine, its) if k == 0 else (its, mine)
                log_ratio += np.sum((values / grid - second) ** 2 - (values / grid - first) ** 2)
            above += log_ratio > 0.0
        found.append(above / n_runs)
    return found[0] - found[1], math.sqrt(sum(p * (1.0 - p) for p in found) / n_runs)


@pytest.mark.parametrize("mode", ["public", "counts"])
def test_whole_fits_tell_neighbours_apart_no_better_than_allowed(monkeypatch, mode):
    """To 4.5 standard errors. Half the noise tells them apart by more than 4.5 errors too well."""
    member, mu = LABELS[::-1], 1.0  # the first record is alone in its group
    problem = problem_for(LOSSES[1], member, 1, False, mode=mode)
    plan, releases = GroupDescent().plan(problem, Given(mu), 4), Noisy(monkeypatch)
    rest = [((0.0,), 0.0)] * (len(member) - 1)
    moved = member if mode == "public" else np.vstack([member[1], member[1:]])
    fits = [([((9.0,), 1.0), *rest], member), ([((9.0,), -1.0), *rest], moved)]
    limit = math.erf(mu / 2.0**1.5)  # the total variation of Gaussian noise
    found, error = advantage(releases, plan, problem, fits, 1000)
    assert found < limit + 4.5 * error
    releases.factor = 0.5
    found, error = advantage(releases, plan, problem, fits, 1000)
    assert found > limit + 4.5 * error
