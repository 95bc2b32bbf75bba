"""Every solver bounds the results of losses: brute force over neighbours.

The losses below return arbitrary results for targets that serve as codes: numbers far beyond what
they declare, of either sign, infinity, NaN. Statistics are recorded in grid units just before a
solver draws noise, for data sets that differ in one record, given the same releases: together they
may change by no more than the plan charges. All kernels run as Python functions.
"""

import itertools
import math
import sys

import numpy as np
import pytest
from scipy import sparse
from stand_ins import Declared

from skdpsco._kernels import njit
from skdpsco.constraints import L1Ball, L2Ball
from skdpsco.data.design import as_design
from skdpsco.losses import (
    Logistic,
    Multinomial,
    curvature,
    curvatures,
    derivative,
    derivatives,
    value,
    values,
)
from skdpsco.losses.tabulated import Tabulated
from skdpsco.mechanisms.samplers import SCALE_BITS, deviation_on, to_grid
from skdpsco.penalties import L2
from skdpsco.privacy import rho_of
from skdpsco.solvers import (
    SGD,
    Allowance,
    AnytimeMirrorDescent,
    CoordinateDescent,
    FrankWolfe,
    GradientDescent,
    GreedyCoordinateDescent,
    NoisyFrankWolfe,
    OnePassFrankWolfe,
    PhasedERM,
    PhasedSGD,
    Problem,
    Stagewise,
    TreeFrankWolfe,
)
from skdpsco.solvers.groups.descent import GroupDescent
from skdpsco.solvers.groups.mirror_prox import GroupMirrorProx
from skdpsco.solvers.groups.monotone_glm import GradientMirrorProx, PooledDescent
from skdpsco.solvers.groups.problem import GroupProblem
from skdpsco.solvers.penalized.problem import CompositeProblem

SLOPE = 0.5
CODES = (1.0, -1.0, 0.5, 0.25, 0.0)  # targets
SLOPES = dict(zip(CODES, (1e150, -3000.0, math.inf, math.nan, 0.3), strict=True))
SLOPES |= {77.0: 1e9, -77.0: -1e9}
CURVATURES = dict(zip(CODES, (1e150, -3000.0, math.inf, math.nan, 0.1), strict=True))


class Liar(Declared):
    """One prediction."""


@value.register(Liar)
@derivative.register(Liar)
def _(loss, z, y):
    return SLOPES[float(y)]


@curvature.register(Liar)
def _(loss, z, y):
    return CURVATURES[float(y)]


class Liars(Declared):
    """Three predictions: no derivative is above the bound that is declared."""


class Far(Liars):
    """All are far above it."""


@derivatives.register(Liars)
def _(loss, Z, y, out):
    for i, target in enumerate(y):
        signs = {1.0: (1, 1, 1), -1.0: (-1, -1, -1), 0.5: (1, -1, 1)}.get(float(target), (0, 1, 0))
        out[i] = np.array(signs) * SLOPE * (1e9 if isinstance(loss, Far) else 1.0)
        if isinstance(loss, Far) and target == 0.25:
            out[i, 0] = math.nan


@values.register(Liars)
@curvatures.register(Liars)
def _(loss, Z, y, out):
    out[:] = [SLOPES[float(target)] for target in y]


class Crowd(Declared):
    """Its results for a record follow from the others, or are what was in memory before."""


@derivatives.register(Crowd)
def _(loss, Z, y, out):
    sign = np.sign(y.sum() + 1e-3 * Z.sum())
    for i in range(y.shape[0]):
        if y[i] != 0.25:
            out[i] = SLOPE * sign
        Z[i] = 9.0 * sign  # if that were seen, then by records that come later


@values.register(Crowd)
@curvatures.register(Crowd)
def _(loss, Z, y, out):
    for i in range(y.shape[0]):
        if y[i] != 0.25:
            out[i] = abs(y.sum() + Z.sum())


class Weighted(Multinomial):
    """The softmax with weights 5, and its true constants."""

    def lipschitz(self, prediction_bound=math.inf, target_bound=0.0):
        return 5.0 * super().lipschitz(prediction_bound, target_bound)

    def smoothness(self):
        return 2.5


@derivatives.register(Weighted)
def _(loss, Z, y, out):
    derivatives.dispatch(Multinomial)(loss, Z, y, out)
    out *= 5.0


class Heavy(Logistic):
    """A loss that gives positives 2000 times the weight, without declaring it."""


@derivative.register(Heavy)
def _(loss, z, y):
    return (2000.0 if y > 0.0 else 1.0) * derivative.dispatch(Logistic)(loss, z, y)


class Releases:
    """Stand-in for all noise: keeps grid units, and makes up releases or replays them."""

    def __init__(self, monkeypatch):
        for module in [m for name, m in sys.modules.items() if name.startswith("skdpsco.")]:
            for name, thing in list(vars(module).items()):
                if name in ("gaussian_mechanism", "select"):
                    monkeypatch.setattr(module, name, getattr(self, name))
                elif hasattr(thing, "py_func"):
                    monkeypatch.setattr(module, name, thing.py_func)

    def gaussian_mechanism(self, rng, numbers, grid):
        units = np.array([to_grid(v, grid) for v in numbers], dtype=np.float64)
        self.log.append(("gaussian", units))
        if self.replayed is None:
            numbers[:] = (units + rng.normal(scale=2.0**SCALE_BITS, size=len(units))) * grid
        else:
            numbers[:] = self.replayed[len(self.log) - 1]
        self.seen.append(numbers.copy())
        return deviation_on(grid)

    def select(self, mechanism, rng, scores):
        self.log.append(("exponential", scores.astype(np.float64)))
        replayed = self.replayed
        k = rng.integers(len(scores)) if replayed is None else replayed[len(self.log) - 1]
        self.seen.append(k)
        return k

    def run(self, solver, plan, problem, *data, replayed=None):
        self.log, self.seen, self.replayed = [], [], replayed
        rng, progress = np.random.default_rng(0), np.zeros(1, dtype=np.int64)
        with np.errstate(all="ignore"):
            solver.run(plan, problem, *data, rng, progress)
        return self.log


def lost(one, other):
    """Zero-concentrated loss of all releases together, in rho."""
    total = 0.0
    for (kind, a), (_, b) in zip(one, other, strict=True):
        change = b - a
        if kind == "gaussian":  # the variance of its noise counts 16 units less
            total += float(change @ change) / (4.0**SCALE_BITS - 16) / 2.0
        else:
            total += (np.ptp(change) / 2.0**SCALE_BITS) ** 2 / 8.0
    return total


def worst(monkeypatch, solver, problem, rho, n_iter, targets, layout=np.asarray):
    """The largest loss over the charge, of neighbours that differ in the first record."""
    releases, d = Releases(monkeypatch), problem.n_features - problem.intercept
    plan = solver.plan(problem, Allowance(rho), n_iter)
    n, rng = problem.n_samples, np.random.default_rng(1)
    rest = np.where(rng.random((n - 1, d)) < 0.5, -9.0, 9.0) * (rng.random((n - 1, d)) < 8.0 / d)
    rows = [(1.0,) * d, (-1.0,) * d, (0.0,) * (d - 1) + (1.0,)]
    found = 0.0
    for given in (np.resize(targets, n - 1), np.full(n - 1, targets[-1])):
        logs, replayed = [], None
        for x, y in itertools.product(rows, targets):
            design = as_design(layout(np.vstack([x, rest])), np.ones(d), problem.intercept)
            y = np.append(y, given)
            logs.append(releases.run(solver, plan, problem, design, y, replayed=replayed))
            replayed = replayed or releases.seen
        found = max(found, *(lost(*pair) for pair in itertools.combinations(logs, 2)))
    return found / rho_of(plan.event)


def composite(loss, n, d, **more):
    return CompositeProblem(loss, None, n, d, penalty=L2(0.1), unit=(1.0,) * d, **more)


ONE_PASS = {"shuffle": False}
BALLS = [  # solver, set, records, features, rho, steps
    (FrankWolfe(), L1Ball(2.0), 6, 2, 0.5, 4),
    (NoisyFrankWolfe(), L2Ball(2.0), 6, 2, 0.5, 3),
    (Stagewise(), None, 30, 2, 0.5, 4),
    (Stagewise(), L1Ball(2.0), 30, 2, 50.0, 4),  # Newton steps
    (Stagewise(), L1Ball(2.0), 30, 12, 8.0, None),  # gradient steps
    (OnePassFrankWolfe(**ONE_PASS), L1Ball(2.0), 12, 2, 0.5, None),
    (AnytimeMirrorDescent(**ONE_PASS), L1Ball(2.0), 12, 2, 0.5, 4),
    (TreeFrankWolfe("gaussian", **ONE_PASS), L2Ball(2.0), 12, 2, 0.5, 6),
    (TreeFrankWolfe("exponential", **ONE_PASS), L1Ball(2.0), 12, 2, 0.5, 6),
    (PhasedSGD(**ONE_PASS), L2Ball(2.0), 16, 2, 0.5, 2),
    (PhasedERM(), L2Ball(2.0), 6, 2, 0.5, 3),
    (PhasedERM(smoothing="randomised"), L2Ball(2.0), 6, 2, 0.5, 3),
]
PENALISED = [
    (CoordinateDescent(), 8, 2.0, 2),
    (GreedyCoordinateDescent(), 8, 2.0, 3),
    (GradientDescent(), 8, 2.0, 3),
    (SGD(batch_size=8), 8, 2.0, 3),
]
SAID = SLOPE, 0.25
LOSSES = [Liar(*SAID), Liars(*SAID, 3), Far(*SAID, 3), Crowd(*SAID), Crowd(*SAID, 3)]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize(("solver", "constraint", "n", "d", "rho", "n_iter"), BALLS)
def test_in_a_ball(monkeypatch, solver, constraint, n, d, rho, n_iter, loss):
    problem = Problem(loss, constraint, n, d)
    assert worst(monkeypatch, solver, problem, rho, n_iter, CODES) <= 1.0


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_of_sparse_records(monkeypatch, loss):
    problem, layout = Problem(loss, L1Ball(2.0), 150, 400, sparse=True), sparse.csr_matrix
    assert Stagewise().plan(problem, Allowance(0.5)).screen
    assert worst(monkeypatch, Stagewise(), problem, 0.5, None, CODES, layout) <= 1.0


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize(("solver", "n", "rho", "n_iter"), PENALISED)
def test_with_a_penalty(monkeypatch, solver, n, rho, n_iter, loss):
    assert worst(monkeypatch, solver, composite(loss, n, 2), rho, n_iter, CODES) <= 1.0


class LyingTable(Tabulated):
    """Derivatives far beyond what the table says, by prediction and target."""

    __slots__ = ()


@derivative.register(LyingTable)
def _(loss, z, y):
    if z > 0.1:
        return 1e9 * y
    return math.nan if z < -0.1 else SLOPES[float(y)]


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize(
    "solver", [GroupDescent(), GroupMirrorProx()], ids=lambda solver: type(solver).__name__
)
def test_of_groups(monkeypatch, solver, private):
    n, d = 8, 2
    member = np.eye(2)[[0, 1] * (n // 2)]
    sizes = {"group_sizes": None, "prior": (0.5, 0.5)} if private else {"group_sizes": (4, 4)}
    problem = GroupProblem(LOSSES[0], L2Ball(2.0), n, d, n_groups=2, **sizes)
    groups = [member, np.vstack([member[1:2], member[1:]])][: 1 + private]

    def data(x, y, first):
        y = np.append(y, np.zeros(n - 1))
        return design_of(x, n, d), y, sparse.csr_array(first)

    records = itertools.product(((1.0, 1.0), (-1.0, 0.3)), (*CODES, 77.0), groups)
    assert worst_of(monkeypatch, solver, problem, 3, [data(*one) for one in records]) <= 1.0


@pytest.mark.parametrize(
    "solver", [PooledDescent(), GradientMirrorProx()], ids=lambda solver: type(solver).__name__
)
def test_of_monotone_models(monkeypatch, solver):
    n, d = 8, 2
    problem = Problem(LyingTable(np.array([-1.0, 1.0]), np.array([-1.0, 1.0])), L2Ball(2.0), n, d)
    records = itertools.product(((1.0, 1.0), (-1.0, 0.3)), (*CODES, 77.0, -77.0))
    given = [(design_of(x, n, d), np.append(y, np.zeros(n - 1))) for x, y in records]
    assert worst_of(monkeypatch, solver, problem, 3, given) <= 1.0


def design_of(x, n, d):
    rest = np.resize([1.0, -1.0, 0.2, 1.0, -0.4], (n - 1, d))
    return as_design(np.vstack([x, rest]), np.ones(d), False)


def worst_of(monkeypatch, solver, problem, n_iter, given):
    """The largest loss over the charge, of all pairs of data sets."""
    releases, plan = Releases(monkeypatch), solver.plan(problem, Allowance(0.5), n_iter)
    logs, replayed = [], None
    for data in given:
        logs.append(releases.run(solver, plan, problem, *data, replayed=replayed))
        replayed = replayed or releases.seen
    pairs = itertools.combinations(logs, 2)
    return max(lost(*pair) for pair in pairs) / rho_of(plan.event)


@njit
def every(loss, Z, y, out, numbers):
    derivatives(loss, Z, y, out)
    values(loss, Z, y, numbers[0])
    curvatures(loss, Z, y, numbers[1])


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_machine_code_sees_one_record_at_a_time(n_outputs):
    rng, loss, y = (
        np.random.default_rng(0),
        Crowd(*SAID, n_outputs),
        np.array([-1.0, 0.25, 1.0, 0.3]),
    )
    Z, found = rng.normal(size=(4, n_outputs)), []
    for function, runs in (
        (every, [slice(None)]),
        (every.py_func, [slice(i, i + 1) for i in range(4)]),
    ):
        predictions = np.array(Z, order="F")  # as coordinate descent has them
        out, numbers = np.full_like(predictions, 7.0), np.full((2, 4), 7.0)
        for rows in runs:
            function(loss, predictions[rows], y[rows], out[rows], numbers[:, rows])
        found.append(np.hstack([predictions, out, numbers.T]))
    np.testing.assert_array_equal(*found)
    assert (found[0][1, n_outputs:] == 0.0).all()  # what was not written
    assert (np.sign(found[0][[0, 2, 3], n_outputs]) == [-1.0, 1.0, 1.0]).all()
