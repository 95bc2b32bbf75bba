"""Noisy moments: what every release may change by, over neighbours; its grid, noise and charge.

Statistics are recorded in grid units just before noise is drawn, for data sets that differ
in one record. Releases are replayed, so that later releases are made at the same points.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from recorded_releases import RecordedReleases
from scipy import sparse

from skdpsco.data.design import as_design
from skdpsco.losses import Logistic, Multinomial, Squared
from skdpsco.mechanisms.samplers import SCALE_BITS, deviation_on, gaussian_mechanism
from skdpsco.penalties import L1, L2, prox
from skdpsco.privacy.events import leaves
from skdpsco.solvers import Allowance
from skdpsco.solvers.moments import moments as module
from skdpsco.solvers.moments.moments import LINE, Moments
from skdpsco.solvers.moments.plan import MOMENTS, shares
from skdpsco.solvers.moments.sums import centred, row_norms
from skdpsco.solvers.penalized.problem import CompositeProblem

BOUNDS = np.array([1.0, 0.5, 2.0])
LOSSES = [Logistic(), Multinomial(3), Squared()]
each_loss = pytest.mark.parametrize("loss", LOSSES)


def given(mu):
    return Allowance(mu * mu / 2)


def problem_for(loss, n, d, intercept, penalty=None):
    unit = (*map(float, 1 / BOUNDS[:d]), *(0.0,) * intercept)
    return CompositeProblem(loss, None, n, d + intercept, intercept, penalty=penalty, unit=unit)


def kinds(plan, centred=True):
    """Names of all releases, in their order; ``centred`` if the centre was not 0."""
    names = ["norm"] * MOMENTS.n_counts if plan.norm_grid else []
    if plan.centre_grid:
        names += ["centre", *["norm"] * MOMENTS.n_centred_counts * centred]
    names += ["moment", "matrix" if plan.matrix_grid else "curvature"]
    return names + ["responses"] * plan.n_iter


def charges(solver, plan, problem, mu):
    """The mu of one release of every kind: together they are the plan's event."""
    matrix = plan.matrix_grid is not None
    centred = plan.centre_grid is not None
    parts = shares(problem, solver.row_norm, matrix, plan.n_iter, centred)
    assert {name: count for name, (_, count) in parts.items()} == {
        name: kinds(plan).count(name) for name in kinds(plan)
    }
    each = sorted(mu * math.sqrt(share) for share, count in parts.values() for _ in range(count))
    charged = sorted(1 / leaf.noise_multiplier for leaf, k in leaves(plan.event) for _ in range(k))
    assert each == pytest.approx(charged, rel=1e-9)
    return {name: mu * math.sqrt(share) for name, (share, _) in parts.items()}


class Releases(RecordedReleases):
    """Releases of moments and rounds."""

    def __init__(self, monkeypatch):
        super().__init__(monkeypatch, module)

    def run(self, solver, plan, problem, rows, layout, outputs=None):
        self.begin(outputs)
        X = np.array([x for x, _ in rows])
        X = as_design(layout(X), BOUNDS[: X.shape[1]], problem.intercept)
        y = np.array([t for _, t in rows], dtype=float)
        rng, progress = np.random.default_rng(0), np.zeros(1, dtype=np.int64)
        result = solver.run(plan, problem, X, y, rng, progress)
        self.centred = len(self.units) == len(kinds(plan))
        assert self.centred or len(self.units) == len(kinds(plan, centred=False))
        return result, self.units


class Wild(NamedTuple):
    """A penalty whose prox jumps, and may be NaN."""

    curvature: float = 1e6


@prox.register(Wild)
def _(penalty, v, step):
    return math.nan if v > 0.3 else 40.0 if v > 0.0 else -40.0


def records(d, loss):
    targets = {Logistic: (-1, 1), Multinomial: (0, 1, 2), Squared: (-1, 0.3, 1)}[type(loss)]
    features = [*itertools.product((-9.0, 9.0), repeat=d), (0.0,) * d, (0.3, -0.2, 1.1)[:d]]
    features += [tuple(9.0 * row) for row in np.eye(d)]  # orthogonal ones
    return list(itertools.product(features, targets))


def worst_ratios(releases, solver, mu, problem, n_iter, place, rest, layout, base):
    """Largest change over charge of every kind, when the record at ``place`` is replaced."""
    plan = solver.plan(problem, given(mu), n_iter)
    extreme = records(problem.n_features - problem.intercept, problem.loss)

    def run(record, outputs=None):
        rows = [*rest[:place], record, *rest[place:]]
        return releases.run(solver, plan, problem, rows, layout, outputs)

    first, _ = run(extreme[base])
    outputs, runs = releases.seen, []
    for record in extreme:
        result, units = run(record, outputs)
        assert np.array_equal(result.coef, first.coef)  # releases decide everything
        runs.append(units)
    mu_of, ratios = charges(solver, plan, problem, mu), {}
    for k, name in enumerate(kinds(plan, releases.centred)):
        units = np.array([run[k] for run in runs])
        change = max(np.linalg.norm(units - one, axis=1).max() for one in units)
        # The variance of discrete Gaussian noise counts 16 units less (docs/proofs/noise.md).
        allowed = mu_of[name] * math.sqrt(4.0**SCALE_BITS - 16)
        ratios[name] = max(ratios.get(name, 0.0), float(change / allowed))
    return ratios


@pytest.mark.parametrize(
    ("d", "intercept", "mu", "row_norm", "layout"),
    [
        (1, False, 50.0, None, np.asarray),
        (2, True, 200.0, 0.7, sparse.csr_matrix),
        (3, True, 100.0, None, sparse.csr_matrix),
        (3, True, 0.5, None, np.asarray),  # too little for a matrix
        (2, False, 0.1, 1.0, sparse.csr_matrix),
    ],
)
@pytest.mark.parametrize("penalty", [L1(0.05), L2(0.01), Wild()])
@each_loss
def test_releases_change_by_what_is_charged(
    monkeypatch, loss, d, intercept, mu, row_norm, layout, penalty
):
    releases, solver = Releases(monkeypatch), Moments(row_norm)
    problem = problem_for(loss, 6, d, intercept, penalty)
    assert (solver.plan(problem, given(mu), 2).matrix_grid is None) == (mu < 1)
    extreme = records(d, loss)
    for place, shift, base in [(0, 1, 0), (2, 5, 3)]:
        rest = [extreme[(shift * i + 3) % len(extreme)] for i in range(5)]
        ratios = worst_ratios(releases, solver, mu, problem, 2, place, rest, layout, base)
        assert max(ratios.values()) <= 1.0


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("max_features", [0, 2000])
@pytest.mark.parametrize("loss", LOSSES[:2])
def test_centred_rows(monkeypatch, loss, max_features, layout):
    """Records around a corner: their centre is found, and later releases keep their bounds."""
    monkeypatch.setattr(module, "james_stein", lambda noisy, variance: noisy)
    tuning = module.MOMENTS._replace(max_features=max_features)
    monkeypatch.setattr(module, "MOMENTS", tuning)
    releases, solver, mu, largest = Releases(monkeypatch), Moments(), 100.0, {}
    for d, corner in itertools.product((1, 2, 3), (-9.0, 9.0)):
        problem = problem_for(loss, 6, d, True)
        rest = [((corner,) * d, t) for t in (1, 1, 1, 0 if loss.n_outputs > 1 else -1, 1)]
        for base in (0, 3):
            ratios = worst_ratios(releases, solver, mu, problem, 2, 0, rest, layout, base)
            assert releases.centred == (layout is np.asarray)
            assert max(ratios.values()) <= 1.0
            largest = {name: max(r, largest.get(name, 0.0)) for name, r in ratios.items()}
    assert largest["centre"] > 0.9
    assert min(largest.values()) > 0.4


@pytest.mark.parametrize("d", [1, 3, 40])
def test_rounded_centred_rows_keep_their_norm(d):
    """In extended precision: at most one part in 2**50 per feature longer."""
    rng = np.random.default_rng(d)
    for size in (1.0, 1e-3, 1e-12):
        centre = np.clip(rng.uniform(-1.2, 1.2, d), -1, 1)
        X = np.clip(centre + size * rng.uniform(-1, 1, (2000, d)), -1, 1)
        X[:2] = np.sign(centre), -np.sign(centre)
        assert (np.abs(X - centre) <= 2.0).all()
        norms = row_norms(centred(as_design(X, np.ones(d), True), centre), len(X))
        for c in (2.0**-8, 0.1, math.sqrt(d)):
            rows = ((X - centre) / 2).astype(np.longdouble)
            rows *= ((c / np.maximum(norms, c)) / c)[:, None]
            assert np.sqrt(np.square(rows).sum(axis=1)).max() <= 1 + d * 2.0**-50


def test_points_of_a_line():
    """The sensitivity of a square and half of a number that is no longer, by a grid of pairs."""
    q = np.linspace(0, 1, 2001)
    for sign in (1, -1):
        change = np.hypot(q[:, None] ** 2 - q**2, (q[:, None] + sign * q) / 2)
        assert change.max() <= LINE
        assert sign == -1 or change.max() > LINE - 1e-4


@pytest.mark.parametrize("entry", [1e-100, 1e-120, 1e-165, 1e-310])
@each_loss
def test_rows_that_are_tiny(monkeypatch, loss, entry):
    """Rows whose squares vanish, beside the smallest row norm that may be declared."""
    releases, solver, mu = Releases(monkeypatch), Moments(1e-100), 50.0
    problem = problem_for(loss, 2, 2, True)
    plan = solver.plan(problem, given(mu), 1)
    mu_of = charges(solver, plan, problem, mu)
    runs, outputs = [], None
    other = 0.0 if loss.n_outputs > 1 else -1.0
    for sign, target in ((1.0, 1.0), (-1.0, 1.0), (0.0, 1.0), (1.0, other)):
        rows = [((sign * entry, sign * entry), target), ((0.0, 0.0), 1.0)]
        runs.append(releases.run(solver, plan, problem, rows, np.asarray, outputs)[1])
        outputs = releases.seen
    for k, name in enumerate(kinds(plan)):
        units = np.array([run[k] for run in runs])
        change = max(np.linalg.norm(units - one, axis=1).max() for one in units)
        assert change <= mu_of[name] * math.sqrt(4.0**SCALE_BITS - 16)


@pytest.mark.parametrize("huge", [np.nan, np.inf, 1e308])
@each_loss
def test_no_coefficient_lets_one_record_hide_the_others(monkeypatch, loss, huge):
    """A sum that is NaN would be released as 0: it has to keep what the empty rows add to it."""
    releases, n, mu = Releases(monkeypatch), 40, 0.2

    def far(model, curvature, linear, start):
        W = np.full(linear.shape, huge)
        W[0, -1], W[1:] = 5.0, 0.0
        return W

    monkeypatch.setattr(module.Model, "minimise", far)
    problem = problem_for(loss, n, 2, True)
    plan = Moments(1.0).plan(problem, given(mu), 1)
    sums = []
    for first in ((0.0, 0.0), (1.0, -1.0)):
        rows = [(first, 1.0)] + [((0.0, 0.0), 1.0)] * (n - 1)
        _, units = releases.run(Moments(1.0), plan, problem, rows, sparse.csr_matrix)
        sums.append(units[-1])
    moved = np.linalg.norm(sums[0] - sums[1])
    assert moved <= charges(Moments(1.0), plan, problem, mu)["responses"] * 2.0**SCALE_BITS
    assert np.abs(sums[0]).max() > moved  # hiding all of it would be seen


@pytest.mark.parametrize("mu", [100.0, 0.3])
@each_loss
def test_charges_are_tight(monkeypatch, loss, mu):
    """Less noise than two thirds of the charge would fail this test, whatever the release."""
    releases, largest = Releases(monkeypatch), {}
    # Points where predictions are large, and of all signs.
    point = np.array([[90.0, -70.0, 0.0], [-90.0, 70.0, 0.0], [0.0, 0.0, 0.0]])

    def far(model, curvature, linear, start):
        return point[: linear.shape[0], : linear.shape[1]].copy()

    monkeypatch.setattr(module.Model, "minimise", far)
    for d, intercept, row_norm in itertools.product((1, 2), (False, True), (None, 1.0)):
        problem = problem_for(loss, 2, d, intercept)
        if intercept and mu < 1 and d == 1:
            continue  # would only repeat
        rest = [records(d, loss)[0]]
        found = worst_ratios(releases, Moments(row_norm), mu, problem, 1, 0, rest, np.asarray, 0)
        largest = {
            name: max(ratio, largest.get(name, 0.0))
            for name, ratio in (largest | found).items()
            for ratio in (found.get(name, 0.0),)
        }
    expected = {"norm", "moment", "matrix" if mu > 1 else "curvature"}
    if mu < 1 or not isinstance(loss, Squared):
        expected.add("responses")
    if mu > 1 and not isinstance(loss, Squared):
        expected.add("centre")
    assert set(largest) == expected
    assert min(largest.values()) > 2 / 3
    assert max(largest.values()) <= 1.0


@pytest.mark.parametrize("mu", [50.0, 0.5])
@each_loss
def test_noise_is_on_its_grid_and_as_large_as_planned(monkeypatch, loss, mu):
    """Six standard deviations of the mean square: a false alarm has probability below 1e-8.

    Half the noise would make the mean square 1/4, more than 20 deviations away.
    """
    problem = problem_for(loss, 6, 3, True)
    plan = Moments().plan(problem, given(mu), 2)
    noise, grids = {}, set()

    def spy(rng, values, grid):
        before = values.copy()
        gaussian_mechanism(rng, values, grid)
        assert np.array_equal(np.rint(values / grid) * grid, values)
        noise.setdefault(grid, []).extend((values - before) / (grid * 2.0**SCALE_BITS))
        grids.add(grid)
        return deviation_on(grid)

    monkeypatch.setattr(module, "gaussian_mechanism", spy)
    X = as_design(np.random.default_rng(0).uniform(-1, 1, (6, 3)), BOUNDS, True)
    y = np.array([0.0, 1, 1, 0, 1, 0]) if loss.n_outputs > 1 else np.array([-1.0, 1, 1, -1, 1, -1])
    for seed in range(500):
        rng = np.random.Generator(np.random.PCG64(seed))
        Moments().run(plan, problem, X, y, rng, np.zeros(1, dtype=np.int64))
    planned = {plan.moment_grid, plan.norm_grid, plan.matrix_grid, plan.curvature_grid}
    assert grids == (planned | {plan.response_grid, plan.centre_grid}) - {None}
    for values in noise.values():
        assert len(values) >= 500
        assert abs(np.square(values).mean() - 1) < 6 * math.sqrt(2 / len(values))


def test_noise_by_its_scale():
    """The scale in units of the statistics, from the sensitivities of docs/proofs/moments.md."""
    for loss, a in [(Logistic(), 0.5), (Multinomial(3), math.sqrt(2 / 3)), (Squared(), 1.0)]:
        for intercept, r in [(False, 1.0), (True, math.sqrt(1 + MOMENTS.intercept))]:
            for mu in (0.1, 0.01):
                moved = 2 * a * r
                if loss.n_outputs > 1:  # of one class, or of two
                    moved = math.sqrt(max(a * a * (3.0 + r * r), 2.0 * r * r))
                problem = problem_for(loss, 1000, 3, intercept)
                plan = Moments().plan(problem, given(mu), 2)
                sensitivity = {
                    "norm": (plan.norm_grid, 1.0),
                    "moment": (plan.moment_grid, moved),
                    "matrix": (plan.matrix_grid, math.sqrt(2) * r * r),
                    "centre": (plan.centre_grid, 2.0),
                    "curvature": (plan.curvature_grid, LINE if plan.line else 1.0),
                    "responses": (plan.response_grid, moved),
                }
                for name, charge in charges(Moments(), plan, problem, mu).items():
                    grid, size = sensitivity[name]
                    assert grid * 2.0**SCALE_BITS * charge >= size
                    assert grid * 2.0**SCALE_BITS * charge == pytest.approx(size, rel=3e-4)
