"""Run solvers with classes that have only the required kernels, without Numba.

A script: with ``NUMBA_DISABLE_JIT`` a kernel that is missing raises ``NotImplementedError`` where
it is called, and nothing has to be compiled. Prints the names of the solvers that were run.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
from scipy import sparse

from skdpsco import constraints, losses, penalties
from skdpsco._random import generator
from skdpsco.data.design import as_design
from skdpsco.privacy import Budget
from skdpsco.solvers import (
    SGD,
    AnytimeMirrorDescent,
    CompositeProblem,
    CoordinateDescent,
    FrankWolfe,
    GradientDescent,
    GreedyCoordinateDescent,
    NoisyFrankWolfe,
    OnePassFrankWolfe,
    PhasedERM,
    PhasedSGD,
    Problem,
    ProjectedDescent,
    Stagewise,
    TreeFrankWolfe,
    check_supported,
)

D = 4  # features, the ones of an intercept included
LOGISTIC, L1BALL, ELASTIC = (
    losses.Logistic(),
    constraints.L1Ball(2.0),
    penalties.ElasticNet(0.1, 0.1),
)


def all_derivatives(loss, Z, y, out):
    for i in range(len(y)):
        out[i, 0] = losses.derivative(LOGISTIC, Z[i, 0], y[i])


def all_values(loss, Z, y, out):
    for i in range(len(y)):
        out[i] = losses.value(LOGISTIC, Z[i, 0], y[i])


def all_curvatures(loss, Z, y, out):
    for i in range(len(y)):
        out[i] = losses.curvature(LOGISTIC, Z[i, 0], y[i])


# What each kernel does, in a class of its own.
KERNELS = {
    losses.value: lambda loss, z, y: losses.value(LOGISTIC, z, y),
    losses.values: all_values,
    losses.derivative: lambda loss, z, y: losses.derivative(LOGISTIC, z, y),
    losses.derivatives: all_derivatives,
    losses.curvature: lambda loss, z, y: losses.curvature(LOGISTIC, z, y),
    losses.curvatures: all_curvatures,
    constraints.n_vertices: lambda constraint, D: 2 * D,
    constraints.vertex: lambda constraint, k, out: constraints.vertex(L1BALL, k, out),
    constraints.coordinate: lambda constraint, k, D: constraints.coordinate(L1BALL, k, D),
    constraints.minimiser: lambda constraint, g, out: constraints.minimiser(L1BALL, g, out),
    penalties.prox: lambda penalty, v, step: penalties.prox(ELASTIC, v, step),
    penalties.subdifferential: lambda penalty, w: penalties.subdifferential(ELASTIC, w),
}


def loss_class():
    class OwnLoss(NamedTuple):
        n_outputs = 1
        lipschitz = losses.Logistic.lipschitz
        smoothness = losses.Logistic.smoothness
        baseline = losses.Logistic.baseline

    return OwnLoss


def set_class():
    class OwnSet(NamedTuple):
        def diameter(self, order=2):
            return 4.0

        def norm_bound(self):
            return 2.0

        def gaussian_width(self, D):
            return 2.0 * math.sqrt(D)

    return OwnSet


def penalty_class():
    class OwnPenalty(NamedTuple):
        curvature = 0.1

    return OwnPenalty


CLASSES = {"loss": loss_class, "constraint": set_class, "penalty": penalty_class}


def minimal(solver, role):
    """Instances of classes with the required kernels: one for each of the alternatives."""
    for kernels in itertools.product(*solver.requires[role]):
        cls = CLASSES[role]()
        for kernel in kernels:
            kernel.register(cls)(KERNELS[kernel])
        yield cls()


def follow(solver, problem, layout, budget, n_iter):
    """Run ``solver`` as far as it goes."""
    check_supported(solver, problem)
    plan = solver.plan(problem, budget, n_iter)
    rng, _ = generator()
    d = problem.n_features - 1
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (problem.n_samples, d))
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    design = as_design(X if layout == "dense" else sparse.csr_matrix(X), np.ones(d), True)
    solver.run(plan, problem, design, y, rng, np.zeros(1, dtype=np.int64))


# No sets but those of the library.
OF_BALLS = (TreeFrankWolfe, PhasedSGD, PhasedERM, ProjectedDescent, Stagewise)
BUDGET, LITTLE = Budget(20.0, 1e-6), Budget(1.0, 1e-6)
BALL, SMALL = constraints.L2Ball(1.0), constraints.L1Ball(1.0)
# (solver, constraint or penalty where the role is not the user's, n, layout, budget, n_iter)
SETS = [
    (FrankWolfe(), L1BALL, 20, "dense", BUDGET, 2),
    (FrankWolfe("laplace"), L1BALL, 20, "csr", BUDGET, 2),
    (NoisyFrankWolfe(), BALL, 20, "dense", BUDGET, 2),
    (OnePassFrankWolfe(), L1BALL, 60, "csr", BUDGET, None),
    (AnytimeMirrorDescent(1), L1BALL, 20, "dense", BUDGET, 3),
    (TreeFrankWolfe("gaussian"), BALL, 20, "dense", BUDGET, 6),
    (TreeFrankWolfe("generalised-gaussian"), constraints.LpBall(1.2, 1.0), 20, "csr", BUDGET, 6),
    (TreeFrankWolfe("exponential"), SMALL, 20, "dense", BUDGET, 6),
    (PhasedSGD(), constraints.LpBall(1.5, 1.0), 20, "csr", BUDGET, 2),
    (PhasedERM(), SMALL, 20, "dense", BUDGET, 2),
    (PhasedERM("localised"), BALL, 20, "csr", BUDGET, 6),
    (PhasedERM(smoothing="randomised"), BALL, 20, "dense", BUDGET, 2),
    (ProjectedDescent(), BALL, 20, "csr", BUDGET, 2),
    (Stagewise(), None, 30, "dense", BUDGET, 3),  # a path and a point of it
    (Stagewise(), None, 30, "csr", BUDGET, 40),  # the same of few sparse records
    (Stagewise(), SMALL, 30, "dense", BUDGET, 3),
    (Stagewise(), SMALL, 300, "dense", BUDGET, None),  # Newton steps
    (Stagewise(), SMALL, 300, "dense", LITTLE, None),  # gradient steps
]
PENALTIES = [
    (CoordinateDescent(), ELASTIC, 20, "dense", BUDGET, 2),
    (CoordinateDescent("random"), ELASTIC, 20, "csr", BUDGET, 2),
    (GreedyCoordinateDescent("gs-r"), ELASTIC, 20, "dense", BUDGET, 2),
    (GreedyCoordinateDescent("gs-s"), ELASTIC, 20, "csr", BUDGET, 2),
    (GradientDescent(), ELASTIC, 20, "dense", BUDGET, 2),
    (SGD(batch_size=5.0, accountant="rdp"), ELASTIC, 20, "csr", BUDGET, 2),
]

with np.errstate(all="ignore"):
    for solver, constraint, n, *rest in SETS:
        for loss in minimal(solver, "loss"):
            follow(solver, Problem(loss, constraint, n, D, True), *rest)
        for own in () if isinstance(solver, OF_BALLS) else minimal(solver, "constraint"):
            follow(solver, Problem(LOGISTIC, own, n, D, True), *rest)
    for loss in minimal(Stagewise(), "loss"):  # a noisy gradient selects
        problem = Problem(loss, SMALL, 60, 200, True, sparse=True)
        assert Stagewise().plan(problem, BUDGET).screen
        follow(Stagewise(), problem, "csr", BUDGET, None)
    for solver, penalty, n, *rest in PENALTIES:
        arguments = (None, n, D, True)
        unit = (1.0,) * (D - 1) + (0.0,)
        for loss in minimal(solver, "loss"):
            problem = CompositeProblem(loss, *arguments, penalty=penalty, unit=unit)
            follow(solver, problem, *rest)
        if penalty is not None and getattr(solver, "rule", "") != "gs-r":
            for own in minimal(solver, "penalty"):
                problem = CompositeProblem(LOGISTIC, *arguments, penalty=own, unit=unit)
                follow(solver, problem, *rest)
print(*sorted({type(solver).__name__ for solver, *_ in SETS + PENALTIES}))
