"""What holds for every solver of records: one test of each law, over a table of solvers.

As a script, without Numba, it prints what solvers find: machine code must find the same.
"""

import copy
import dataclasses
import itertools
import json
import math
import os
import subprocess
import sys
from typing import NamedTuple

import cvxpy as cp
import numpy as np
import pytest
from cases import each
from runs import run
from scipy import sparse
from stand_ins import Declared

from skdpsco.constraints import L1Ball, L2Ball, LpBall, Polytope, Simplex
from skdpsco.data import record_stream
from skdpsco.data.design import as_design
from skdpsco.data.record_sums import BlockDesign
from skdpsco.losses import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    Quantile,
    SmoothHinge,
    Squared,
    curvature,
    derivative,
    value,
)
from skdpsco.penalties import ElasticNet
from skdpsco.privacy import Budget, GaussianEvent, epsilon_of, is_gaussian, mu_of, rho_of
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
    NoisyFrankWolfe,
    OnePassFrankWolfe,
    PhasedERM,
    PhasedSGD,
    Problem,
    ProjectedDescent,
    Stagewise,
    TreeFrankWolfe,
    check_cost,
    check_supported,
)
from skdpsco.solvers.groups.mirror_prox import GroupMirrorProx
from skdpsco.solvers.saddle.recursive_regularisation import RecursiveRegularisation

# ------------------------------------------------------------------------------ solvers

ELASTIC, CORNERS = ElasticNet(0.02, 0.02), Polytope(np.vstack([np.eye(4), -np.eye(4)]))


class Case(NamedTuple):
    """A solver, what it minimises over what, and a number of steps or None."""

    solver: object
    loss: object
    over: object
    n_iter: int | None = None

    def __str__(self):
        parts = (self.solver, self.loss, self.over)
        return " ".join([*(type(part).__name__ for part in parts), str(self.n_iter)])

    def problem(self, n, d, intercept=True, **options):
        if isinstance(self.over, ElasticNet):
            unit = (1.0,) * d + (0.0,) * intercept
            options = {"penalty": self.over, "unit": unit, **options}
            return CompositeProblem(self.loss, None, n, d + intercept, intercept, **options)
        return Problem(self.loss, self.over, n, d + intercept, intercept, **options)


L1, L2 = L1Ball(1.5), L2Ball(1.5)
CASES = [
    Case(FrankWolfe(), Logistic(), L1, 8),
    Case(FrankWolfe("laplace"), Squared(1.0), Simplex(1.0), 8),
    Case(FrankWolfe(), Multinomial(3), L1, 8),
    Case(FrankWolfe(), SmoothHinge(0.5), CORNERS, 8),
    Case(FrankWolfe(), Logistic(), CORNERS, 8),
    Case(NoisyFrankWolfe(), Squared(1.0), CORNERS, 8),
    Case(NoisyFrankWolfe(), Logistic(), L2, 8),
    Case(NoisyFrankWolfe(), Multinomial(3), L1, 8),
    Case(NoisyFrankWolfe(), Huber(0.5), Simplex(1.0), 8),
    Case(Stagewise(), Logistic(), None),
    Case(Stagewise(), Logistic(), None, 8),
    Case(Stagewise(), Multinomial(3), L1, 8),
    Case(OnePassFrankWolfe(), Multinomial(3), L1, 8),
    Case(OnePassFrankWolfe(1), Logistic(), L1),
    Case(AnytimeMirrorDescent(), Multinomial(3), L1, 8),
    Case(AnytimeMirrorDescent(3), Logistic(), L1, 8),
    Case(TreeFrankWolfe("gaussian"), Logistic(), L2),
    Case(TreeFrankWolfe("generalised-gaussian"), Squared(1.0), LpBall(1.5, 1.0)),
    Case(TreeFrankWolfe("exponential"), Logistic(), L1),
    Case(PhasedSGD(), Logistic(), L2),
    Case(PhasedSGD(), Multinomial(3), LpBall(1.5, 1.0)),
    Case(PhasedSGD("theorem"), Squared(), L1),
    Case(PhasedERM(), Logistic(), L1),
    Case(PhasedERM("localised"), Squared(1.0), L2, 6),
    Case(ProjectedDescent(), Logistic(), L2, 4),
    Case(CoordinateDescent(), Logistic(), ELASTIC, 3),
    Case(CoordinateDescent("random"), Squared(1.0), ELASTIC, 3),
    Case(GreedyCoordinateDescent("gs-r"), Logistic(), ELASTIC, 5),
    Case(GreedyCoordinateDescent("gs-s"), Squared(1.0), ELASTIC, 5),
    Case(GradientDescent(), Logistic(), ELASTIC, 4),
    Case(GradientDescent(), Multinomial(3), ELASTIC, 4),
    Case(SGD(batch_size=10.0, accountant="rdp"), Logistic(), ELASTIC, 5),
]
each_case = pytest.mark.parametrize("case", CASES, ids=str)


def records(case, n, d):
    """Records and targets as the loss wants them."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, (n, d)) * (rng.uniform(size=(n, d)) < 0.7)
    return X, np.arange(n) % 3 * 1.0 if case.loss.n_outputs > 1 else np.sign(X[:, 0] - 1e-9)


def run_of(case, layout=np.asarray, seed=0):
    """The coefficients of a run with a seed and little noise."""
    X, y = records(case, 60, 3)
    problem = case.problem(60, 3)
    plan = case.solver.plan(problem, Budget(8.0, 1e-6), case.n_iter)
    return run(case.solver, plan, problem, layout(X), y, seed).coef


def script():
    with np.errstate(all="ignore"):
        print(json.dumps([run_of(case).tolist() for case in CASES]))


# ------------------------------------------------------------------------------ laws

NO_NUMBERS = (0.0, -1.0, math.nan, math.inf, True, "none", [1.0])
NO_SIZES = (0, -1, -1.0, math.nan, True, None, "all", [10])
NO_COUNTS = (0, -3, 2.0, math.nan, True, "many", [2])
NO_WORDS = ("", "laplace", None, 1, True, ["gaussian"])
OPTIONS = [
    (AnytimeMirrorDescent, "fresh", (-1, 1001, 1.0, *NO_SIZES[2:]), r"fresh .* int in \[0, 1000\]"),
    (OnePassFrankWolfe, "batch_size", (1.0, *NO_SIZES), "batch_size must be 'auto' or an int >= 1"),
    (MirrorDescent, "n_draws", (2**62, 10**400, 1.5, *NO_SIZES), "n_draws"),
    (BiasReducedMirrorDescent, "max_level", (13, 1.0, *NO_SIZES[1:]), "max_level"),
    (SGD, "batch_size", (math.inf, *NO_SIZES), "batch_size must be"),
    (SGD, "accountant", NO_WORDS, "accountant must be one of"),
    (TreeFrankWolfe, "noise", NO_WORDS, "noise must be one of"),
    (PhasedSGD, "schedule", ("auto", *NO_WORDS), "schedule must be one of"),
    (PhasedERM, "schedule", NO_WORDS, "schedule must be one of"),
    (PhasedERM, "smoothing", NO_WORDS, "smoothing must be one of"),
    (FrankWolfe, "mechanism", ("gumbel", *NO_WORDS[2:]), "mechanism must be one of"),
    (CoordinateDescent, "order", ("greedy", *NO_WORDS), "order must be 'cyclic' or 'random'"),
    (GreedyCoordinateDescent, "rule", ("gs-q", *NO_WORDS), "rule must be 'gs-r' or 'gs-s'"),
    (MirrorProx, "method", ("extragradient", *NO_WORDS), "method must be"),
    (MirrorProx, "max_calls", (None, *NO_COUNTS), "max_calls must be"),
    (MirrorProx, "n_batches", NO_COUNTS, "n_batches must be"),
    (MirrorProx, "n_epochs", (None, *NO_COUNTS), "n_epochs must be"),
    (RecursiveRegularisation, "n_rounds", (41, 10**400, *NO_COUNTS), "n_rounds must be"),
    (RecursiveRegularisation, "solver", (3, MirrorProx), "solver must be"),
    (AcceleratedRecursive, "n_rounds", (41, 1.5, *NO_COUNTS), "n_rounds must be"),
    (
        BoostedMirrorDescent,
        "solver",
        ("mirror-descent", MirrorDescent, 3),
        "solver must be None or",
    ),
    (GroupMirrorProx, "solver", (3, MirrorProx), "solver"),
    (GroupMirrorProx, "row_norm", (0.0, math.nan, True, "1"), "row_norm"),
    *(
        (solver, "clip", (None, *NO_NUMBERS), "clip must be")
        for solver in (CoordinateDescent, GreedyCoordinateDescent, GradientDescent, SGD)
    ),
    *(
        (solver, name, (1, None, "yes", np.bool_(True)), f"{name} must be a bool")
        for solver, name in (
            (AnytimeMirrorDescent, "shuffle"),
            (OnePassFrankWolfe, "shuffle"),
            (TreeFrankWolfe, "shuffle"),
            (PhasedSGD, "shuffle"),
            (CoordinateDescent, "average"),
            (GradientDescent, "preconditioned"),
            (SGD, "preconditioned"),
        )
    ),
]


# Types of options whose errors tell a value that is out of range from one of another type
TYPES_OF_OPTIONS = {
    **dict.fromkeys(("fresh", "n_draws", "max_level", "max_calls"), int),
    **dict.fromkeys(("n_batches", "n_epochs", "n_rounds"), int),
    **dict.fromkeys(("solver", "shuffle", "average", "preconditioned"), ()),
    **dict.fromkeys(("accountant", "noise", "schedule", "smoothing"), object),
    **dict.fromkeys(("mechanism", "order", "rule", "method"), object),
    "row_norm": float,
}


@each(("solver", "name", "values", "match"), OPTIONS)
def test_options_that_are_not_legal_are_refused_by_name(solver, name, values, match):
    for bad in values:
        error = TypeError, ValueError
        if name in TYPES_OF_OPTIONS:
            legal = TYPES_OF_OPTIONS[name]
            number = legal is object or not isinstance(bad, bool)
            error = ValueError if isinstance(bad, legal) and number else TypeError
        with pytest.raises(error, match=match):
            solver(**{name: bad})


class Curved(Declared):
    """A loss that declares no more than Frank-Wolfe asks for, and that is infinite."""

    def curvature_constant(self, diameter):
        return math.inf


class Undefined(Declared):
    """A loss whose smoothness is NaN."""


for cls in (Curved, Undefined):
    value.register(cls)(lambda loss, z, y: max(0.0, 1.0 - y * z))
    derivative.register(cls)(lambda loss, z, y: -y if y * z < 1.0 else 0.0)
    curvature.register(cls)(lambda loss, z, y: 0.0)


@each("loss", [Hinge(), Absolute(), Quantile(0.1), Undefined(1.0, math.nan), Curved(1.0, 1.0)])
@each(
    "solver",
    [FrankWolfe, NoisyFrankWolfe, Stagewise, OnePassFrankWolfe, AnytimeMirrorDescent,
     TreeFrankWolfe, PhasedSGD],
)  # fmt: skip
def test_losses_that_are_not_smooth_are_refused(solver, loss):
    if solver is PhasedSGD and isinstance(loss, Curved):
        return  # it asks for the smoothness alone
    problem, name = Problem(loss, L1Ball(1.0), 100, 3), type(loss).__name__
    match = f"{solver.__name__} needs a smooth loss, which {name} is not: use .*'phased-erm'"
    for ask in (
        lambda: check_supported(solver(), problem),
        *(lambda n=n: solver().plan(problem, Budget(1.0, 1e-6), n) for n in (None, 5)),
    ):
        with pytest.raises(ValueError, match=match):
            ask()


@each_case
def test_plans_keep_to_the_budget_and_spend_it(case):
    most = 0.0
    for (n, d), budget in itertools.product(
        ((60, 3), (1001, 40), (200_000, 20)),
        (Budget(1e-2, 1e-12), Budget(1.0, 1e-6), Budget(100.0, 1e-2), Allowance(0.02)),
    ):
        if n > 60 and (isinstance(case.solver, SGD) or case.over is CORNERS):
            continue  # the former takes seconds, the latter has four columns
        problem = case.problem(n, d)
        try:
            plan = case.solver.plan(problem, budget, case.n_iter)
        except ValueError as error:
            assert "noise" in str(error) or "budget" in str(error), error  # noqa: PT017
            continue
        check_cost(plan.event, budget)
        if isinstance(budget, Budget):
            assert epsilon_of(plan.event, budget.delta) <= budget.epsilon * (1.0 + 1e-12)
        else:
            assert rho_of(plan.event) <= budget.rho * (1.0 + 1e-12)
        spent = rho_of(plan.event) / budget.rho
        if isinstance(budget, Budget) and is_gaussian(plan.event):
            spent = mu_of(plan.event) / budget.mu
        most = max(most, spent)
        twin = case.solver.plan(dataclasses.replace(problem), budget, case.n_iter)
        assert plan == twin
        assert hash(plan) == hash(twin)
        with pytest.raises(dataclasses.FrozenInstanceError):
            plan.event = GaussianEvent(1.0)
    assert most > 0.999


@each_case
def test_layouts_are_the_same_records(case):
    dense = run_of(case)
    assert np.abs(dense).max() > 0.0
    np.testing.assert_allclose(run_of(case, sparse.csr_matrix), dense, rtol=1e-9, atol=1e-9)
    others = (run_of(case, seed=seed) for seed in range(1, 30))
    assert any(np.abs(other - dense).max() > 1e-6 for other in others)  # there is noise


# Kernels that are called for one chunk of records after another, by solvers that read each once
KERNELS = {
    OnePassFrankWolfe: "add_clipped_gradients",
    AnytimeMirrorDescent: "add_clipped_gradients",
    TreeFrankWolfe: "add_clipped_gradients",
    PhasedSGD: "sgd_pass",
}
OF_ONE_PASS = [case for case in CASES if type(case.solver) in KERNELS]
each_of_one_pass = pytest.mark.parametrize("case", OF_ONE_PASS, ids=str)


def in_order(solver):
    """The solver without a random order of the records."""
    solver = copy.copy(solver)
    solver.shuffle = False
    return solver


@each_of_one_pass
def test_nothing_depends_on_where_records_are_cut(case, monkeypatch, tmp_path):
    n, d = 300, 4
    case = case._replace(over=case.over._replace(radius=0.5))  # which steps lead out of
    X, y = records(case, n, d)
    problem, solver = case.problem(n, d), in_order(case.solver)
    n_iter = 14 if isinstance(solver, TreeFrankWolfe) else case.n_iter  # by itself it takes one
    plan = solver.plan(problem, Budget(4.0, 1e-6), n_iter)
    np.save(tmp_path / "X.npy", X)
    for given in (X, sparse.csr_matrix(X), np.load(tmp_path / "X.npy", mmap_mode="r")):
        whole = run(solver, plan, problem, given, y).coef
        for sizes in ([300], [1] * 300, [0, 149, 2, 0, 149], [7] * 42 + [6]):
            ends = np.cumsum([0, *sizes])
            pairs = [(given[a:b], y[a:b]) for a, b in itertools.pairwise(ends)]
            blocks = BlockDesign(pairs, np.ones(d), 1, None, sparse.issparse(given))
            found = run(solver, plan, problem, blocks, None).coef
            np.testing.assert_array_equal(found, whole)
    shuffled = run(case.solver, plan, problem, X, y).coef
    monkeypatch.setattr(record_stream, "CHUNK_RECORDS", 11)
    again = (run(one, plan, problem, X, y).coef for one in (solver, case.solver))
    np.testing.assert_array_equal([*again], [whole, shuffled])
    assert not np.array_equal(shuffled, whole)


@each_of_one_pass
def test_every_record_is_read_once(case, monkeypatch):
    n, chunks, module = 1000, [], sys.modules[type(case.solver).__module__]
    kernel = getattr(module, KERNELS[type(case.solver)])

    def watched(chunk, *arguments):
        chunks.append(chunk[2].tolist())
        return kernel(chunk, *arguments)

    monkeypatch.setattr(module, kernel.__name__, watched)
    X, y = records(case, n, 3)
    for solver, n_iter in itertools.product((case.solver, in_order(case.solver)), (1, 5, 10)):
        problem, shuffle = case.problem(n, 3), solver.shuffle
        plan = solver.plan(problem, Budget(8.0, 1e-6), n_iter)
        chunks.clear()
        result = run(solver, plan, problem, X, y)
        rows, later = [*itertools.chain(*chunks)], 0
        assert sorted(rows) == list(range(n))
        assert (rows == list(range(n))) != shuffle
        if isinstance(solver, TreeFrankWolfe):
            assert [len(chunk) for chunk in chunks] == list(plan.batches)
            continue
        if isinstance(solver, OnePassFrankWolfe):  # it reads some at two points
            later = max(0, n_iter - plan.bounds.n_plain) * plan.batch_size
        assert result.n_gradients == n + later <= 1.5 * n


def mean_loss(loss, X, y, w):
    """The mean loss of flat coefficients, as cvxpy sees it."""
    if isinstance(loss, Multinomial):
        W = [w[k * X.shape[1] : (k + 1) * X.shape[1]] for k in range(3)]
        Z = cp.vstack([X @ part for part in W])
        own = cp.sum(cp.multiply(np.eye(3)[y.astype(int)].T, Z))
        return (cp.sum(cp.log_sum_exp(Z, axis=0)) - own) / len(y)
    if isinstance(loss, Logistic):
        return cp.sum(cp.logistic(-cp.multiply(y, X @ w))) / len(y)
    if isinstance(loss, Huber):
        return cp.sum(cp.huber(X @ w - y, loss.delta)) / (2 * len(y))
    return cp.sum_squares(X @ w - y) / (2 * len(y))  # no residual reaches a clip


def limits(over, w):
    """A penalty, and what a set demands."""
    if isinstance(over, ElasticNet):
        return over.l1 * cp.norm1(w) + over.l2 / 2 * cp.sum_squares(w), []
    if over is None:
        return 0.0, []
    if isinstance(over, Simplex):
        return 0.0, [w >= 0, cp.sum(w) == over.radius]
    if isinstance(over, Polytope):
        shares = cp.Variable(len(over.vertices), nonneg=True)
        return 0.0, [cp.sum(shares) == 1, w == over.vertices.T @ shares]
    order = {L1Ball: 1, L2Ball: 2}.get(type(over)) or over.p
    return 0.0, [cp.pnorm(w, order) <= over.radius]


# How many steps lead to an optimum, where that is not the solver's own number
STEPS = {
    FrankWolfe: 400,
    NoisyFrankWolfe: 400,
    OnePassFrankWolfe: None,
    AnytimeMirrorDescent: None,
    PhasedERM: 2000,
    ProjectedDescent: 200,
    CoordinateDescent: 60,
    GreedyCoordinateDescent: 400,
    GradientDescent: 200,
    SGD: 600,
}
# A step sees some of the records, and what is left is their sampling.
READ_IN_PARTS = (OnePassFrankWolfe, AnytimeMirrorDescent, TreeFrankWolfe, PhasedSGD, PhasedERM, SGD)
KNOWN = [case for case in CASES if not isinstance(case.loss, SmoothHinge)]


@pytest.mark.parametrize("case", KNOWN, ids=str)
def test_without_noise_the_optimum_is_found(case):
    n, copies = 1000, 10  # an objective of 1,000 records takes less time
    d = 4 if case.over is CORNERS else 3
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, d))
    z = X[:, :3] @ [1.0, -0.6, 0.1]
    y = np.clip(z + 0.1 * rng.normal(size=n), -1.0, 1.0)
    if isinstance(case.loss, Logistic):
        y = np.where(2.0 * z + rng.logistic(size=n) > 0.0, 1.0, -1.0)
    if isinstance(case.loss, Multinomial):
        y = np.digitize(z + 0.3 * rng.normal(size=n), [-0.4, 0.4]) * 1.0
    problem = case.problem(copies * n, d, intercept=False)
    plan = case.solver.plan(problem, Budget(1e8, 1e-6), STEPS.get(type(case.solver)))
    design, targets = as_design(np.tile(X, (copies, 1)), np.ones(d), False), np.tile(y, copies)
    rng, progress = np.random.Generator(np.random.PCG64(0)), np.zeros(1, dtype=np.int64)
    found = case.solver.run(plan, problem, design, targets, rng, progress).coef
    w = cp.Variable(problem.n_coefficients)
    penalty, inside = limits(case.over, w)
    objective = mean_loss(case.loss, X, y, w) + penalty
    best = cp.Problem(cp.Minimize(objective), inside).solve(cp.CLARABEL)
    values = []
    for point in (found, np.zeros_like(found)):
        w.value = point
        values.append(float(objective.value))
    of_parts = isinstance(case.solver, READ_IN_PARTS)
    assert abs(values[0] - best) < (0.03 if of_parts else 1e-3) * (values[1] - best)
    if case.over is not CORNERS:  # whose shares are not known
        w.value = found
        assert all(np.max(part.violation()) < 1e-6 for part in inside)


@pytest.fixture(scope="module")
def in_python():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        stdout=subprocess.PIPE,
        check=True,
        timeout=300,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("k", range(len(CASES)), ids=[str(case) for case in CASES])
def test_machine_code_finds_what_python_finds(k, in_python):
    """The same choices; sums to rounding, as exp may differ in its last bit."""
    np.testing.assert_allclose(run_of(CASES[k]), in_python[k], rtol=1e-9, atol=1e-9)
    assert math.isfinite(sum(in_python[k]))


if __name__ == "__main__":
    script()
