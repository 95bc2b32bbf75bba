"""Private mirror prox for saddle points and variational inequalities.

Proof: docs/proofs/mirror_prox.md.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from skdpsco._random import below
from skdpsco.mechanisms import gaussian_grid, gaussian_mechanism, summation_error
from skdpsco.privacy import GaussianEvent
from skdpsco.solvers._geometry import Block, Geometry
from skdpsco.solvers.base import Plan

MAX_CALLS = 1_000  # of the oracle, by the automatic rule
METHODS = ("auto", "mirror-prox", "mirror-descent")

Data = tuple[np.ndarray, ...]  # arrays with one entry per record along their first axes


class MonotoneOperator(Protocol):
    """The operator G(z; x) of a saddle-point problem or of a variational inequality.

    Monotone means ``<G(z; x) - G(z'; x), z - z'> >= 0``, at least for the mean over the records.
    That of a saddle-point problem ``min_w max_v f(w, v)`` is ``(df/dw, -df/dv)``.

    Attributes
    ----------
    blocks : tuple of Block
        The players, in the order in which a vector z holds them. Their constants must hold for
        every record and every z: all privacy rests on them.
    saddle : bool
        Whether G belongs to a saddle-point problem: then the average of the iterates is a
        solution, else one that is chosen at random.
    smoothness : array-like of shape (n_blocks, n_blocks), or None
        Entry (i, j) bounds how much block i of G moves, in its dual norm l_{p/(p-1)}, per unit that
        block j of z moves, in its norm l_p. None if there is no bound.
    """

    blocks: tuple[Block, ...]
    saddle: bool
    smoothness: Any

    def total(self, z: np.ndarray, data: Data) -> np.ndarray:
        """Sum of ``G(z; x)`` over the records x in ``data``, each a function of its record only."""
        ...


@dataclass(frozen=True)
class VariationalProblem:
    """What a planner may know: the operator's public constants, and the number of records.

    Parameters
    ----------
    operator : MonotoneOperator
    n_samples : int
    """

    operator: MonotoneOperator
    n_samples: int

    @cached_property
    def geometry(self) -> Geometry:
        """Norms and sets."""
        return Geometry(tuple(self.operator.blocks))

    @cached_property
    def smoothness(self) -> float:
        """Lipschitz constant of the operator in the norm of `geometry`; may be infinite."""
        if self.operator.smoothness is None:
            return math.inf
        return self.geometry.smoothness(np.asarray(self.operator.smoothness, dtype=np.float64))


class Pull(NamedTuple):
    """A public regulariser ``weight / 2 * norm(z - centre)**2``."""

    weight: float
    centre: np.ndarray


class Schedule(NamedTuple):
    """Steps of the mirror map, and the bound on the error that they are chosen for."""

    method: str
    n_iter: int
    step: float
    bound: float

    @property
    def n_calls(self) -> int:
        """Calls of the oracle; after the last iterate none is needed."""
        return 2 * self.n_iter - 1 if self.method == "mirror-prox" else max(self.n_iter - 1, 1)


@dataclass(frozen=True)
class MirrorProxPlan(Plan):
    """The schedule, and the grid of the noise of each block."""

    schedule: Schedule | None = None
    grid: tuple[float, ...] = ()


class MirrorProx:
    """Mirror prox with Gaussian noise on the operator of all records.

    Parameters
    ----------
    method : {"auto", "mirror-prox", "mirror-descent"}, default="auto"
        Mirror prox calls the oracle twice per step and profits from a smooth operator. Mirror
        descent calls it once. "auto" takes the one with the smaller bound on its error.
    max_calls : int, default=1000
        Limit on the calls of the oracle that the automatic rule plans.

    References
    ----------
    R. Bassily, C. Guzman, M. Menart. Private Algorithms for Stochastic Saddle Points and
    Variational Inequalities: Beyond Euclidean Geometry. NeurIPS 2024, Algorithm 2. Its oracle's
    noise has an unspecified constant; ours is exact, see docs/errata.md.
    """

    def __init__(self, method: str = "auto", max_calls: int = MAX_CALLS):
        if method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {method!r}.")
        self.method = method
        self.max_calls = max_calls

    def plan(
        self,
        problem: VariationalProblem,
        budget: Any,
        n_iter: int | None = None,
        distance: float | None = None,
        drift: float = 0.0,
    ) -> MirrorProxPlan:
        """Calibrate ``n_iter`` steps, or as many as the noise leaves useful.

        Parameters
        ----------
        problem : VariationalProblem
        budget : Budget or Allowance
        n_iter : int or None, default=None
        distance : float or None, default=None
            Public guess of the distance between start and solution, in the problem's norm, for
            the step size; None for the largest possible.
        drift : float, default=0.0
            Bound on what public regularisers outside the prox add to the operator's dual norm.

        Returns
        -------
        plan : MirrorProxPlan
        """
        geometry, n, mu = problem.geometry, problem.n_samples, budget.mu
        sensitivity, share, _ = calibration(problem, mu)
        schedule = self.schedule(problem, budget, n_iter, distance, drift)
        grid = tuple(
            gaussian_grid(s, math.sqrt(schedule.n_calls / part) / mu, b.size, n * b.lipschitz)
            for s, b, part in zip(sensitivity, geometry.blocks, share, strict=True)
        )
        summary = (
            f"{schedule.method}: {schedule.n_iter} steps of size {schedule.step:.3g}, "
            f"{schedule.n_calls} noisy operators",
        )
        return MirrorProxPlan(
            event=GaussianEvent(1.0 / mu),
            n_iter=schedule.n_iter,
            summary=summary,
            schedule=schedule,
            grid=grid,
        )

    def schedule(
        self,
        problem: VariationalProblem,
        budget: Any,
        n_iter: int | None = None,
        distance: float | None = None,
        drift: float = 0.0,
    ) -> Schedule:
        """The better of the methods that are allowed; parameters as in `plan`."""
        if distance is None:
            distance = problem.geometry.radius
        noise = calibration(problem, budget.mu)[2]
        methods = METHODS[1:] if self.method == "auto" else (self.method,)
        schedules = [
            _schedule(method, problem, noise, distance, drift, n_iter, self.max_calls)
            for method in methods
        ]
        return min(schedules, key=lambda schedule: schedule.bound)

    def run(
        self,
        plan: MirrorProxPlan,
        problem: VariationalProblem,
        data: Data,
        rng: np.random.Generator,
        progress: np.ndarray | None = None,
        pull: Pull | None = None,
        drift: tuple[Pull, ...] = (),
    ) -> np.ndarray:
        """Follow ``plan`` on the data.

        Parameters
        ----------
        plan : MirrorProxPlan
        problem : VariationalProblem
        data : tuple of ndarray
            One entry per record each; the operator's ``total`` gets them.
        rng : numpy.random.Generator
        progress : ndarray of shape (1,), int64, or None
        pull : Pull or None
            Regulariser of the prox. Its centre is where the run starts.
        drift : tuple of Pull
            Regularisers that are added to the operator.

        Returns
        -------
        z : ndarray of shape (size,)
        """
        geometry, schedule = problem.geometry, plan.schedule
        assert schedule is not None
        centre = geometry.start() if pull is None else pull.centre
        n_iter, step = schedule.n_iter, schedule.step
        weight = geometry.kappa + step * (pull.weight if pull is not None else 0.0)
        chosen = -1 if problem.operator.saddle else below(rng, n_iter)

        def oracle(z: np.ndarray) -> np.ndarray:
            """Noisy mean operator at ``z``, and the public regularisers."""
            total = np.array(problem.operator.total(z, data), dtype=np.float64)
            for part, grid in zip(geometry.parts, plan.grid, strict=True):
                gaussian_mechanism(rng, total[part], grid)
            g = total / problem.n_samples
            for other in drift:
                g += other.weight * geometry.gradient(z - other.centre)
            return g

        def move(g: np.ndarray, u: np.ndarray) -> np.ndarray:
            dual = step * g - geometry.kappa * geometry.gradient(u)
            return geometry.prox(dual, centre, weight)

        # Points are displacements from the centre: see `_prox.nearest`.
        u = np.zeros(geometry.size)
        average = np.zeros(geometry.size)
        for t in range(n_iter):
            z = geometry.point(centre, u)
            if schedule.method == "mirror-prox":
                z = geometry.point(centre, move(oracle(z), u))
            if t == chosen:
                average = z  # the others are computed all the same
            elif chosen < 0:
                average += (z - average) / (t + 1)
            if t < n_iter - 1:
                u = move(oracle(z), u)
            if progress is not None:
                progress[0] += 1
        return geometry.point(average, np.zeros(geometry.size))


def _sensitivity(block: Block, n_samples: int) -> float:
    """L2 sensitivity of the float64 sum of a block of the operator."""
    slack = 1.0 + block.size * 2.0**-50  # of norms and of points on the boundary
    exact = block.sensitivity
    if exact is None:
        exact = 2.0 * block.lipschitz_l2
    rounding = 2.0 * math.sqrt(block.size) * summation_error(n_samples, block.lipschitz)
    return exact * slack + rounding


def calibration(problem: VariationalProblem, mu: float) -> tuple[list[float], np.ndarray, float]:
    """Sensitivity of each block's sum, its share of mu**2, and the noise that is left.

    The shares minimise the mean squared dual norm of the noise of one call; that is the square of
    the third value times the number of calls.
    """
    blocks = problem.geometry.blocks
    sensitivity = [_sensitivity(block, problem.n_samples) for block in blocks]
    weight = np.array(
        [
            s * b.scale * math.sqrt(b.kappa) * b.size ** (1.0 - 1.0 / b.pbar)
            for s, b in zip(sensitivity, blocks, strict=True)
        ]
    )
    total = float(weight.sum())
    return sensitivity, weight / total, total / (problem.n_samples * mu)


def _schedule(
    method: str,
    problem: VariationalProblem,
    noise: float,
    distance: float,
    drift: float,
    n_iter: int | None,
    max_calls: int,
) -> Schedule:
    """Steps that minimise ``kappa D**2 / (2 step T) + step b``: section 4 of the proof."""
    geometry, beta = problem.geometry, problem.smoothness
    bound, kappa = geometry.bound, geometry.kappa
    variance = noise**2
    if method == "mirror-prox" and beta < math.inf:
        useful = max(0.5 * beta * distance * math.sqrt(kappa / variance), drift**2 / variance)
    else:
        useful = (bound + drift) ** 2 / variance
    # The first point of mirror descent is its start, which knows nothing of the data.
    least, longest = (2, max_calls) if method == "mirror-descent" else (1, max_calls // 2)
    T = n_iter if n_iter is not None else math.ceil(max(least, min(useful, longest)))
    limit = math.inf
    if method == "mirror-descent":
        euclidean = kappa == 1.0  # then the noise is orthogonal to the operator in the mean
        b = ((bound + drift) ** 2 + T * variance) * (0.5 if euclidean else 1.0)
    elif math.isinf(beta):
        b = 1.5 * (4.0 * (bound + drift) ** 2 + 4.0 * T * variance)
    else:
        terms = 3.0 if drift == 0.0 else 4.0
        b = 0.5 * terms * (4.0 * drift**2 + 4.0 * T * variance)
        limit = 1.0 / (math.sqrt(terms) * beta) if beta > 0.0 else math.inf
    step = min(limit, distance * math.sqrt(kappa / (2.0 * T * b)))
    return Schedule(method, T, step, kappa * distance**2 / (2.0 * step * T) + step * b)
