"""Run every solver in plain Python, with its noise logged: what was planned, and what was drawn.

Whole fits are run as well: their releases outside of a solver have a plan of their own. Some are
those of `replayed_fits`, so that no public estimator spends twice.

``NUMBA_DISABLE_JIT=1 python noise_children.py`` prints one line of JSON for every case. Samplers
return no noise, and nothing here is private.
"""

import dataclasses
import json
import sys
from collections import Counter
from functools import partial

import numpy as np
import pandas as pd
import replayed_fits
from scipy import sparse

from skdpsco.additive import PrivateAdditiveRegressor
from skdpsco.constraints import L1Ball, L2Ball, LpBall
from skdpsco.data.design import as_design
from skdpsco.data.schema import Schema
from skdpsco.group_dro import PrivateGroupDRO
from skdpsco.linear_model import (
    PrivateElasticNet,
    PrivateGammaRegressor,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearRegressor,
    PrivateLinearSVC,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
)
from skdpsco.losses import Absolute, Hinge, Logistic, Squared
from skdpsco.losses.tabulated import Tabulated
from skdpsco.mechanisms import generalised_gaussian as generalised
from skdpsco.mechanisms import samplers as mechanisms
from skdpsco.minimax import PrivateMinimaxRegressor
from skdpsco.minimax._descent import TaskGradients
from skdpsco.minimax._solver import GameSolver
from skdpsco.minimax._tasks import MinimaxProblem, Tasks
from skdpsco.model_selection import PrivateGridSearchCV
from skdpsco.moments import PrivateMoments
from skdpsco.penalties import L1, L2
from skdpsco.preprocessing import (
    PrivateFeatureSelector,
    PrivateSplineTransformer,
)
from skdpsco.privacy import (
    Budget,
    ExponentialMechanismEvent,
    GaussianEvent,
    LaplaceNoisyMaxEvent,
    ZCDPEvent,
    rho_of,
)
from skdpsco.privacy.events import leaves
from skdpsco.solvers import (
    SGD,
    AcceleratedRecursive,
    Allowance,
    AnytimeMirrorDescent,
    BiasReducedMirrorDescent,
    BoostedMirrorDescent,
    CompositeProblem,
    CoordinateDescent,
    FrankWolfe,
    GradientDescent,
    GreedyCoordinateDescent,
    MirrorDescent,
    MirrorProx,
    MultiplicativeWeights,
    NoisyFrankWolfe,
    OnePassFrankWolfe,
    PhasedERM,
    PhasedSGD,
    Problem,
    ProjectedDescent,
    RecursiveRegularisation,
    SelectMeasure,
    Stagewise,
    TreeFrankWolfe,
)
from skdpsco.solvers.groups.descent import GroupDescent
from skdpsco.solvers.groups.mirror_prox import GroupMirrorProx
from skdpsco.solvers.groups.monotone_glm import GradientMirrorProx, PooledDescent
from skdpsco.solvers.groups.problem import GroupProblem
from skdpsco.solvers.l1.stagewise import problem_in
from skdpsco.solvers.newton_step import NewtonStep
from skdpsco.solvers.penalized.problem import unpenalised
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.solvers.synthesis.measure_project import MeasureProject
from skdpsco.solvers.synthesis.workload import Marginals, QueryProblem
from skdpsco.survival import PrivateKaplanMeier
from skdpsco.synthesis import PrivateSynthesizer
from skdpsco.variational.solve import MatrixGame

# ------------------------------------------------------------------- the log


class Grid(float):
    """A grid that knows the noise it was calibrated for, even after scaling."""

    __array_priority__ = 1000.0  # an array times a grid asks the grid

    def __new__(cls, value, noise):
        grid = super().__new__(cls, value)
        grid.noise = noise
        return grid

    def __mul__(self, factor):
        if np.ndim(factor) == 0:
            return Grid(float(self) * float(factor), self.noise)
        scaled = float(self) * factor
        LOG.known.update(dict.fromkeys(scaled.ravel().tolist(), self.noise))
        return scaled

    __rmul__ = __mul__


def as_float(name):
    def operate(self, other):
        return getattr(np.float64(self), name)(other if np.ndim(other) else float(other))

    return operate


for name in ("add", "radd", "sub", "rsub", "truediv", "rtruediv", "lt", "le", "gt", "ge"):
    setattr(Grid, f"__{name}__", as_float(f"__{name}__"))


class Log:
    """Calibrations and draws: kinds "gaussian", "exponential" and "zcdp", with their parameters."""

    def __init__(self):
        self.calibrated, self.drawn, self.known, self.last = [], [], {}, None
        self.modules = set()  # those that calibrate
        self.searches = set()  # noise of rounds that look for columns far from 0

    def calibrate(self, kind, amount, value, span=sys.maxsize):
        """Log a grid on which every ``span`` numbers are a release."""
        caller = sys._getframe(2)
        if caller.f_code is mechanisms.release.__code__:
            caller = caller.f_back
        self.modules.add(caller.f_globals["__name__"])
        if caller.f_globals["__name__"] == "skdpsco.scaling.narrowing":
            self.searches.add(float(amount))
        noise = (kind, float(amount), span)
        self.calibrated.append(noise)
        self.known[float(value)] = noise
        return Grid(value, noise)

    def draw(self, kind, grid, size=0, charged=None):
        """Log draws on a grid that is calibrated for ``kind``, and charged as that or another."""
        known, amount, span = getattr(grid, "noise", None) or self.known[float(grid)]
        assert known == kind
        self.drawn += [(charged or kind, amount)] * max(size // span, 1)


LOG = Log()
EVENTS = {
    "gaussian": GaussianEvent,
    "exponential": ExponentialMechanismEvent,
    "laplace": LaplaceNoisyMaxEvent,
    "zcdp": ZCDPEvent,
}


def replace_everywhere(module, name, function):
    original = getattr(module, name)
    for key, other in list(sys.modules.items()):
        if key.split(".")[0] == "skdpsco":
            for attribute, value in list(vars(other).items()):
                if value is original:
                    setattr(other, attribute, function)


def log_noise():
    """Replace calibrations and samplers by ones that write to `LOG`."""
    gaussian_grid, exponential_grid = mechanisms.gaussian_grid, mechanisms.exponential_grid
    to_grid, scale_of = mechanisms.to_grid, generalised.generalised_gaussian_scale

    def of_gaussian(sensitivity, noise_multiplier, dimension, magnitude):
        value = gaussian_grid(sensitivity, noise_multiplier, dimension, magnitude)
        # Many numbers on a grid that is calibrated for one are as many releases.
        span = 1 if dimension == 1 else sys.maxsize
        return LOG.calibrate("gaussian", noise_multiplier, value, span)

    def of_exponential(sensitivity_range, epsilon0, magnitude):
        value = exponential_grid(sensitivity_range, epsilon0, magnitude)
        return LOG.calibrate("exponential", epsilon0, value)

    def of_generalised(sensitivity, rho, order):
        return LOG.calibrate("zcdp", rho, scale_of(sensitivity, rho, order))

    def rounded(value, grid):
        LOG.last = grid
        return to_grid(value, float(grid))

    def draw_gaussian(rng, values, grid):
        LOG.draw("gaussian", grid, len(values))
        return mechanisms.deviation_on(grid)

    def draw_generalised(rng, values, order, sigma, grid):
        LOG.draw("zcdp", sigma)

    def draw_exponential(rng, scores, bits):
        LOG.draw("exponential", LOG.last)  # scores are rounded just before
        return int(np.argmax(scores))

    def draw_laplace(rng, scores, bits):
        LOG.draw("exponential", LOG.last, charged="laplace")
        return int(np.argmax(scores))

    replace_everywhere(mechanisms, "gaussian_grid", of_gaussian)
    replace_everywhere(mechanisms, "exponential_grid", of_exponential)
    replace_everywhere(mechanisms, "to_grid", rounded)
    replace_everywhere(mechanisms, "gaussian_mechanism", draw_gaussian)
    replace_everywhere(mechanisms, "exponential_mechanism", draw_exponential)
    replace_everywhere(mechanisms, "noisy_argmax_laplace", draw_laplace)
    replace_everywhere(generalised, "generalised_gaussian_scale", of_generalised)
    replace_everywhere(generalised, "generalised_gaussian_mechanism", draw_generalised)


# ------------------------------------------------------------------- the cases

N, D = 240, 3
RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (N, D))
Y = np.where(X[:, 0] + 0.3 * RNG.standard_normal(N) > 0.0, 1.0, -1.0)
CODES = RNG.integers(0, 2, (N, 3))
MEMBERSHIP = sparse.csr_array(np.eye(2)[np.arange(N) % 2])
BUDGET = Budget(30.0, 1e-6)
LINE = Tabulated(np.array([-1.0, 1.0]), np.array([-1.0, 1.0]))
WIDE, WIDER = RNG.uniform(-1.0, 1.0, (N, 150)), RNG.uniform(-1.0, 1.0, (N, 1000))
FEW, ALIKE = np.hstack([X, WIDE[:, :100]]), 0.9 * X[:, :1] + 0.1 * WIDE[:, :100]


def linear(loss, constraint, X=X, is_sparse=False, intercept=False):
    d = X.shape[1]
    problem = Problem(loss, constraint, N, d + intercept, intercept, sparse=is_sparse)
    return problem, (as_design(_sparse(X) if is_sparse else X, np.ones(d), intercept), Y)


def _sparse(X):
    return sparse.csr_matrix(np.where(np.abs(X) > 0.9, X, 0.0))


def composite(loss, penalty):
    problem = CompositeProblem(loss, None, N, D, penalty=penalty, unit=(1.0,) * D)
    return problem, (as_design(X, np.ones(D), False), Y)


def game():
    return VariationalProblem(MatrixGameOfSums(2, 2), N), ((RNG.uniform(-1, 1, (N, 2, 2)),),)


class MatrixGameOfSums(MatrixGame):
    def total(self, z, data):
        A = data[0].sum(axis=0)
        return np.concatenate([A @ z[2:], -A.T @ z[:2]])

    def value(self, z, A):
        return np.einsum("i,nij,j->n", z[:2], A, z[2:])


def groups(**public):
    problem = GroupProblem(Logistic(), L2Ball(1.0), N, D, n_groups=2, **public)
    return problem, (as_design(X, np.ones(D), False), Y, MEMBERSHIP)


def minimax(prior=None):
    problem = MinimaxProblem(Tasks((Logistic(),), 1, 2, prior), 1.0, N, D)
    return problem, (as_design(X, np.ones(D), False), Y[:, None])


def one_task():
    problem = MinimaxProblem(Tasks((Logistic(),)), 1.0, N, D)
    return problem, minimax()[1]


def several_tasks():
    problem = MinimaxProblem(Tasks((Squared(1.0), Absolute()), 2), 1.0, N, D)
    return problem, (minimax()[1][0], np.column_stack([Y, -0.5 * Y]))


def monotone():
    return Problem(LINE, L2Ball(1.0), N, D), (as_design(X, np.ones(D), False), Y)


def queries():
    return QueryProblem((2, 2, 2), Marginals(2), N), (CODES,)


class TooLittle(NoisyFrankWolfe):
    """Noise for four times the budget."""

    def plan(self, problem, budget, n_iter=None):
        plan = super().plan(problem, Allowance(4.0 * budget.mu**2 / 2.0), n_iter)
        return dataclasses.replace(plan, event=GaussianEvent(1.0 / budget.mu))


class TooLate(NoisyFrankWolfe):
    """A release in the run that the plan knows nothing of."""

    def run(self, plan, problem, X, y, rng, progress):
        total = np.zeros(1)
        mechanisms.gaussian_mechanism(rng, total, mechanisms.gaussian_grid(1.0, 100.0, 1, 1.0))
        return super().run(plan, problem, X, y, rng, progress)


SIZES = {"group_sizes": (N // 2, N // 2)}
LASSO = linear(Logistic(), L1Ball(2.0))
BALL = linear(Logistic(), L2Ball(2.0))

# Name: solver, problem and data, number of steps.
CASES = {
    "FrankWolfe": (FrankWolfe(), LASSO, 5),
    "FrankWolfe, laplace": (FrankWolfe("laplace"), LASSO, 5),
    "NoisyFrankWolfe": (NoisyFrankWolfe(), BALL, 5),
    "Stagewise, all": (Stagewise(), LASSO, None),
    "Stagewise, path": (Stagewise(), LASSO, 6),
    "Stagewise, radius": (Stagewise(), linear(Logistic(), None), 6),
    "Stagewise, squared": (Stagewise(), linear(Squared(1.0), L1Ball(2.0)), 6),
    "Stagewise, wide": (Stagewise(), linear(Logistic(), L1Ball(2.0), WIDE), 12),
    "Stagewise, sparse": (Stagewise(), linear(Logistic(), L1Ball(2.0), WIDE, True), 12),
    "Stagewise, screen": (Stagewise(), linear(Logistic(), L1Ball(2.0), WIDER, True, True), None),
    "Stagewise, planned path": (Stagewise(), linear(Logistic(), None, WIDE), None),
    "Stagewise, intercept": (Stagewise(), linear(Logistic(), L1Ball(2.0), WIDE, False, True), None),
    "GradientDescent": (GradientDescent(), composite(Logistic(), L2(1.0)), 5),
    "GradientDescent, residuals": (GradientDescent(), composite(Squared(1.0), L2(1.0)), 5),
    "NewtonStep": (NewtonStep(GradientDescent()), composite(Logistic(), L2(1.0)), 5),
    "NewtonStep, residuals": (NewtonStep(GradientDescent()), composite(Squared(1.0), L2(1.0)), 5),
    "SGD": (SGD(batch_size=20.0), composite(Logistic(), L2(1.0)), 5),
    "CoordinateDescent": (CoordinateDescent(), composite(Logistic(), L1(0.1)), 3),
    "CoordinateDescent, residuals": (CoordinateDescent(), composite(Squared(1.0), L1(0.1)), 3),
    "GreedyCoordinateDescent": (GreedyCoordinateDescent(), composite(Logistic(), L1(0.1)), 4),
    "GreedyCoordinateDescent, residuals": (
        GreedyCoordinateDescent(), composite(Squared(1.0), L1(0.1)), 4,
    ),
    "GroupDescent": (GroupDescent(), groups(**SIZES), 5),
    "GroupDescent, prior": (GroupDescent(), groups(prior=(0.5, 0.5)), 5),
    "GroupDescent, counts": (GroupDescent(), groups(), 5),
    "GroupDescent, average": (GroupDescent(), groups(cvar_level=1.0, **SIZES), 3),
    "TaskGradients": (TaskGradients(), one_task(), 3),
    "TaskGradients, classes": (TaskGradients(), minimax(), 3),
    "TaskGradients, several": (TaskGradients(), several_tasks(), 5),
    "PooledDescent": (PooledDescent(), monotone(), 3),
    "GradientMirrorProx": (GradientMirrorProx(), monotone(), 5),
    "MirrorProx": (MirrorProx(), game(), 5),
    "MirrorProx, batches": (MirrorProx(n_batches=3), game(), 3),
    "GroupMirrorProx": (GroupMirrorProx(), groups(**SIZES), 5),
    "GameSolver, counts": (GameSolver(MirrorProx()), minimax(), 5),
    "GameSolver, prior": (GameSolver(MirrorProx()), minimax((0.5, 0.5)), 5),
    "GameSolver, draws": (GameSolver(MirrorDescent()), minimax(), 5),
    "RecursiveRegularisation": (RecursiveRegularisation(n_rounds=3), game(), 4),
    "AcceleratedRecursive": (AcceleratedRecursive(2), game(), None),
    "MirrorDescent": (MirrorDescent(), game(), 5),
    "BiasReducedMirrorDescent": (BiasReducedMirrorDescent(), game(), 5),
    "BoostedMirrorDescent": (BoostedMirrorDescent(1.0), game(), 3),
    "AnytimeMirrorDescent": (AnytimeMirrorDescent(), LASSO, 4),
    "OnePassFrankWolfe": (OnePassFrankWolfe(), LASSO, None),
    "TreeFrankWolfe, gaussian": (TreeFrankWolfe("gaussian"), BALL, 6),
    "TreeFrankWolfe, generalised": (
        TreeFrankWolfe("generalised-gaussian"), linear(Logistic(), LpBall(1.5, 2.0)), 6,
    ),
    "TreeFrankWolfe, exponential": (TreeFrankWolfe("exponential"), LASSO, 6),
    "PhasedSGD": (PhasedSGD(), BALL, 3),
    "PhasedERM": (PhasedERM(), BALL, 4),
    "ProjectedDescent": (ProjectedDescent(), BALL, 4),
    "PhasedERM, hinge": (PhasedERM(), linear(Hinge(), L2Ball(2.0)), 4),
    "MeasureProject": (MeasureProject(), queries(), None),
    "MultiplicativeWeights": (MultiplicativeWeights(), queries(), 3),
    "SelectMeasure": (SelectMeasure(), queries(), 3),
    "control, too little": (TooLittle(), BALL, 5),
    "control, too late": (TooLate(), BALL, 5),
}  # fmt: skip

SMALLER = {
    "Stagewise, intercept": Budget(0.1, 1e-6),
    "Stagewise, planned path": Budget(8.0, 1e-6),
}

HEIGHTS = X[:, 0] + 0.1 * RNG.standard_normal(N)
OUTCOMES = np.column_stack([Y > 0.0, 2.0 - X[:, 0]])  # events, and times
POSITIVE = np.exp(HEIGHTS)
AWAY = 1000.0 + X  # far from 0, so that intervals are searched for
LITTLE, MUCH = {"epsilon": 3.0, "delta": 1e-6}, {"epsilon": 30.0, "delta": 1e-6}
ADDED = {"relation": "add-or-remove-one"}
UNKNOWN = {"feature_bound": None, "target_bound": None}
KNOWN = PrivateRidge(feature_bound=1.0, target_bound=1.0, solver="gradient-descent", **MUCH)
ALPHAS = {"alpha": [0.1, 1.0]}

# Name: a function that fits.
FITS = {
    "PrivateAdditiveRegressor": lambda: PrivateAdditiveRegressor(**MUCH).fit(AWAY, HEIGHTS),
    "PrivateRidge": lambda: PrivateRidge(**UNKNOWN, **MUCH).fit(AWAY, HEIGHTS),
    "PrivateRidge, ranges": lambda: PrivateRidge(epsilon=300.0, delta=1e-6).fit(X, HEIGHTS),
    "PrivateRidge, little": lambda: PrivateRidge(**UNKNOWN, **LITTLE).fit(X, HEIGHTS),
    "PrivateRidge, sparse": lambda: PrivateRidge(**UNKNOWN, **LITTLE).fit(_sparse(WIDE), HEIGHTS),
    "PrivateRidge, several": lambda: PrivateRidge(**LITTLE).fit(X, np.outer(HEIGHTS, [1.0, -2.0])),
    "PrivateRidge, raw": lambda: PrivateRidge(**MUCH).fit(50.0 * X, HEIGHTS),
    "PrivateRidge, far": lambda: PrivateRidge(**MUCH).fit(AWAY, HEIGHTS),
    "PrivateRidge, scaled": lambda: PrivateRidge(**MUCH).fit(X, HEIGHTS),
    "PrivateRidge, raw and added": lambda: PrivateRidge(**ADDED, **MUCH).fit(AWAY, HEIGHTS),
    "PrivateRidge, added": lambda: PrivateRidge(**UNKNOWN, **ADDED, **LITTLE).fit(X, HEIGHTS),
    "PrivateLasso, added": lambda: PrivateLasso(**UNKNOWN, **ADDED, **LITTLE).fit(X, HEIGHTS),
    "PrivateLasso, added to a path": lambda: PrivateLasso(n_iter=6, **ADDED, **MUCH).fit(
        WIDE[:, :20], HEIGHTS
    ),
    "PrivateLinearSVC, added": lambda: PrivateLinearSVC(**ADDED, **MUCH).fit(X, Y),
    "PrivateElasticNet": lambda: PrivateElasticNet(**UNKNOWN, **MUCH).fit(AWAY, HEIGHTS),
    "PrivateHuberRegressor": lambda: PrivateHuberRegressor(**LITTLE).fit(X, HEIGHTS),
    "PrivateQuantileRegressor": lambda: PrivateQuantileRegressor(**LITTLE).fit(X, HEIGHTS),
    "PrivatePoissonRegressor": lambda: PrivatePoissonRegressor(**LITTLE).fit(X, POSITIVE),
    "PrivateGammaRegressor": lambda: PrivateGammaRegressor(**LITTLE).fit(X, POSITIVE),
    "PrivateLinearSVC": lambda: PrivateLinearSVC(**LITTLE).fit(X, np.arange(N) % 3),
    "PrivateLasso": lambda: PrivateLasso(**UNKNOWN, **LITTLE).fit(X, HEIGHTS),
    "PrivateLinearRegressor": lambda: PrivateLinearRegressor(
        solver="phased-erm", target_bound=9.0, **MUCH
    ).fit(X, HEIGHTS),
    "PrivateGroupDRO": lambda: PrivateGroupDRO(loss="squared", **MUCH).fit(
        X, HEIGHTS, sensitive_features=np.zeros(N)
    ),
    "PrivateMinimaxRegressor": lambda: PrivateMinimaxRegressor(
        tasks="columns", solver="mirror-prox", n_iter=3, **MUCH
    ).fit(X, np.column_stack([HEIGHTS, -HEIGHTS])),
    "PrivateMoments, raw": lambda: PrivateMoments(**MUCH).fit(_sparse(50.0 * X), HEIGHTS),
    "PrivateMoments, bounds": lambda: PrivateMoments(feature_bound=None, **MUCH).fit(X, HEIGHTS),
    "PrivateMoments": lambda: PrivateMoments(target_bound=1.0, **MUCH).fit(X, Y),
    "PrivateMoments, sparse": lambda: PrivateMoments(target_bound=1.0, **MUCH).fit(
        _sparse(X), HEIGHTS
    ),
    "PrivateMoments, little": lambda: PrivateMoments(**LITTLE).fit(X),
    "PrivateMoments, norm": lambda: PrivateMoments(row_norm=1.0, target_bound=1.0, **LITTLE).fit(
        X, HEIGHTS
    ),
    "PrivateMoments, targets": lambda: PrivateMoments(**MUCH).fit(X, X[:, :2]),
    "PrivateSplineTransformer": lambda: PrivateSplineTransformer(**MUCH).fit(AWAY),
    "PrivateFeatureSelector": lambda: PrivateFeatureSelector(
        n_features_to_select=2, task="regression", **MUCH
    ).fit(X, HEIGHTS),
    "PrivateFeatureSelector, raw": lambda: PrivateFeatureSelector(
        n_features_to_select=2, task="regression", feature_bound=None, **MUCH
    ).fit(X, HEIGHTS),
    "PrivateMoments, units": lambda: PrivateMoments(max_records_per_unit=3, **MUCH).fit(
        X, HEIGHTS, units=np.arange(N) // 4
    ),
    "PrivateKaplanMeier, entries": lambda: PrivateKaplanMeier(times=[1.0, 2.0], **MUCH).fit(
        np.column_stack([OUTCOMES, np.zeros(len(OUTCOMES))])
    ),
    "PrivateSynthesizer": lambda: PrivateSynthesizer(
        domain=Schema({"a": {"bounds": [0, 9]}, "b": "boolean"}), **MUCH
    ).fit(pd.DataFrame({"a": X[:, 0], "b": X[:, 1] > 0.0})),
    "PrivateGridSearchCV, winner": lambda: PrivateGridSearchCV(
        KNOWN, ALPHAS, strategy="composition", **MUCH
    ).fit(X, HEIGHTS),
}


def whole(name):
    """A fit of the table that is replayed on neighbours."""
    X, y, more = next(replayed_fits.neighbours(name, np.random.default_rng(0)))
    return replayed_fits.FITS[name]().set_params(**MUCH).fit(X, *y, **more)


# A fit to public records has noise as well, which is not charged.
FITS.update({name: partial(whole, name) for name in replayed_fits.FITS if "public" not in name})


def numbers(value):
    """All numbers that a plan holds."""
    if isinstance(value, float):
        yield float(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from numbers([getattr(value, field.name) for field in dataclasses.fields(value)])
    elif isinstance(value, dict):
        yield from numbers(list(value.values()))
    elif isinstance(value, tuple | list):
        for entry in value:
            yield from numbers(entry)


def cost_of(kind, amount):
    """ZCDP of a draw."""
    return rho_of(EVENTS[kind](amount))


def observe(name):
    """Plan and run a case, and return the quantities to compare."""
    LOG.__init__()
    if name in FITS:
        model = FITS[name]()
        return observed(name, type(model).__name__, model.privacy_.event)
    solver, (problem, data), n_iter = CASES[name]
    plan = solver.plan(problem, SMALLER.get(name, BUDGET), n_iter)
    assert name != "Stagewise, screen" or plan.screen
    n_planned = len(LOG.calibrated)
    progress = np.zeros(1, dtype=np.int64)
    with np.errstate(all="ignore"):
        solver.run(plan, problem, *data, np.random.default_rng(0), progress)
    in_run = {amount for _, amount, _ in LOG.calibrated[n_planned:]}
    held, n_calibrated = set(numbers(plan)), len(LOG.calibrated)
    if hasattr(plan, "descent_in"):  # for a number of columns that is released first
        d = problem.n_features
        for k in range(1, d + 1):
            if plan.mu > 0.0:
                plan.descent_in(problem_in(unpenalised(problem), np.arange(d - k, d)))
    held.update(amount for _, amount, _ in LOG.calibrated[n_calibrated:])
    return observed(name, type(solver).__name__, plan.event, sorted(in_run - held))


def observed(name, kind, event, not_planned=()):
    """What the log says about a case, in JSON."""
    planned = [(next(numbers(leaf), None), count) for leaf, count in leaves(event)]
    counts = [[amount, count] for (_, amount), count in Counter(LOG.drawn).items()]
    return {
        "name": name,
        "solver": kind,
        "modules": sorted(LOG.modules),
        "n_drawn": len(LOG.drawn),
        "charged": rho_of(event),
        "drawn": sum(cost_of(*noise) for noise in LOG.drawn),
        "planned": [[amount, count] for amount, count in planned if amount is not None],
        "counts": counts,
        "rounds": [[amount, count] for amount, count in counts if amount in LOG.searches],
        "not_planned": list(not_planned),
    }


if __name__ == "__main__":
    log_noise()
    for case in sys.argv[1:] or [*CASES, *FITS]:
        print(json.dumps(observe(case)), flush=True)
