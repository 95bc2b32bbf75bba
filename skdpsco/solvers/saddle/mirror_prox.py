"""Private mirror prox for saddle points and variational inequalities.

Proof: docs/proofs/mirror_prox.md.
"""

import math
from dataclasses import dataclass
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from skdpsco._random import below
from skdpsco._validation import check_choice, check_int, is_auto
from skdpsco.data.record_functions import Data
from skdpsco.mechanisms.samplers import gaussian_grid, gaussian_mechanism
from skdpsco.privacy import GaussianEvent
from skdpsco.solvers.base import Plan
from skdpsco.solvers.saddle.problem import (
    VariationalProblem,
    calibration,
    even_sizes,
    random_parts,
    runs_of,
)

__all__ = ["MirrorProx", "MirrorProxPlan", "Pull", "prox_of_models"]


@dataclass(frozen=True)
class MirrorProxTuning:
    """Limits, chosen by hand, on the calls of the oracle that the automatic rule plans."""

    max_calls: int = 1_000  # the default of `MirrorProx`
    # For estimators. More calls take proportionally more time and gain less than a percentage
    # point of accuracy.
    max_calls_of_models: int = 200


MIRROR_PROX = MirrorProxTuning()
MIRROR_METHODS = ("auto", "mirror-prox", "mirror-descent")


class Pull(NamedTuple):
    """A public regulariser ``weight / 2 * norm(z - centre)**2``."""

    weight: float
    centre: np.ndarray


class MirrorSchedule(NamedTuple):
    """Steps of the mirror map, and the bound on the error that they minimise."""

    method: str
    n_iter: int
    step: float
    bound: float
    n_batches: int = 1

    @property
    def n_calls(self) -> int:
        """Number of calls of the oracle; the last iterate needs no further call."""
        return _calls(self.method, self.n_iter)

    @property
    def n_epochs(self) -> int:
        """Largest number of calls that read the same record."""
        return -(-self.n_calls // self.n_batches)


@dataclass(frozen=True, kw_only=True)
class MirrorProxPlan(Plan):
    """The schedule, and the grid of the noise of each block."""

    schedule: MirrorSchedule
    grid: tuple[float, ...]


class MirrorProx:
    """Mirror prox with Gaussian noise on the operator of all records, or of batches of them.

    Parameters
    ----------
    method : {"auto", "mirror-prox", "mirror-descent"}, default="auto"
        Mirror prox calls the oracle twice per step and profits from a smooth operator. Mirror
        descent calls it once. "auto" takes the method with the smaller bound on its error. For a
        single step it takes mirror prox, since the first point of mirror descent is its start.
    max_calls : int, default=1000
        Largest number of calls of the oracle, >= 1, that the automatic rule may plan.
    n_batches : int, "auto" or None, default=None
        Number of disjoint random batches, at most one per record, that the calls use in turn; a
        record pays only for the calls on its own batch. None uses all records in every call. "auto"
        takes the number with the smallest bound on the error or, for a given ``n_iter``, the
        smallest number that respects ``n_epochs``. Batches save time, whereas all records in every
        call mean less noise.
    n_epochs : int, default=1
        Number of passes over the records, >= 1, that the automatic rules plan for batches.

    Raises
    ------
    TypeError
        If a parameter has the wrong type.
    ValueError
        If ``method`` is not one of those listed, or another parameter is outside its range.

    References
    ----------
    R. Bassily, C. Guzman, M. Menart. Private Algorithms for Stochastic Saddle Points and
    Variational Inequalities: Beyond Euclidean Geometry. NeurIPS 2024, Algorithm 2. There the
    oracle's noise has an unspecified constant; ours is exact, see docs/errata.md.
    """

    def __init__(
        self,
        method: str = "auto",
        max_calls: int = MIRROR_PROX.max_calls,
        n_batches: int | str | None = None,
        n_epochs: int = 1,
    ) -> None:
        self.method: str = check_choice("method", method, MIRROR_METHODS)
        self.max_calls: int = check_int("max_calls", max_calls)
        self.n_batches = n_batches
        if n_batches is not None and not is_auto(n_batches):
            self.n_batches = check_int("n_batches", n_batches, "None, 'auto' or ")
        self.n_epochs: int = check_int("n_epochs", n_epochs)

    def plan(
        self,
        problem: VariationalProblem,
        budget: Any,
        n_iter: int | None = None,
        distance: float | None = None,
        drift: float = 0.0,
    ) -> MirrorProxPlan:
        """Calibrate ``n_iter`` steps, or as many as are useful at this noise.

        Parameters
        ----------
        problem : VariationalProblem
        budget : Budget or Allowance
        n_iter : int or None, default=None
        distance : float or None, default=None
            Public guess of the distance between start and solution in the problem's norm, which
            decides the step size; None for the largest possible distance.
        drift : float, default=0.0
            Bound on the dual norm that public regularisers outside the prox add to the operator.

        Returns
        -------
        plan : MirrorProxPlan
        """
        geometry, n, mu = problem.geometry, problem.n_samples, budget.mu
        sensitivity, share, _ = calibration(problem, mu)
        schedule = self.schedule(problem, budget, n_iter, distance, drift)
        grid = tuple(
            gaussian_grid(s, math.sqrt(schedule.n_epochs / part) / mu, b.size, n * b.lipschitz)
            for s, b, part in zip(sensitivity, geometry.blocks, share, strict=True)
        )
        batches = f", {schedule.n_batches} batches" if schedule.n_batches > 1 else ""
        summary = (
            f"{schedule.method}: {schedule.n_iter} steps of size {schedule.step:.3g}, "
            f"{schedule.n_calls} noisy calls of the operator{batches}",
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
    ) -> MirrorSchedule:
        """The schedule of the best method that is allowed; the parameters are those of `plan`."""
        if distance is None:
            distance = problem.geometry.radius
        noise = calibration(problem, budget.mu)[2]
        methods = MIRROR_METHODS[1:] if self.method == "auto" else (self.method,)
        if self.method == "auto" and n_iter == 1:
            methods = ("mirror-prox",)  # mirror descent would spend the budget and return its start
        schedules = [
            _schedule(method, problem, noise, distance, drift, steps, self.max_calls, batches)
            for method in methods
            for batches, steps in self._batches(method, problem.n_samples, n_iter)
        ]
        return min(schedules, key=lambda schedule: schedule.bound)

    def _batches(
        self, method: str, n_samples: int, n_iter: int | None
    ) -> list[tuple[int, int | None]]:
        """Numbers of batches to choose from, each with its steps (None: `_schedule` decides)."""
        if self.n_batches is None:
            return [(1, n_iter)]
        if n_iter is not None:
            least = -(-_calls(method, n_iter) // self.n_epochs)
            wanted = least if self.n_batches == "auto" else int(self.n_batches)
            return [(min(wanted, n_samples), n_iter)]
        most = min(n_samples, max(self.max_calls // self.n_epochs, 1))
        if self.n_batches == "auto":
            counts = [1 << k for k in range(most.bit_length())]
        else:
            counts = [min(int(self.n_batches), n_samples)]
        calls = [min(count * self.n_epochs, self.max_calls) for count in counts]
        steps = [(c + 1) // 2 if method == "mirror-prox" else c + 1 for c in calls]
        return list(zip(counts, steps, strict=True))

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
            Arrays with one entry per record, which are passed to the operator's ``total``.
        rng : numpy.random.Generator
        progress : ndarray of shape (1,), int64, or None
        pull : Pull or None
            Regulariser in the prox. The run starts at its centre.
        drift : tuple of Pull
            Regularisers that are added to the operator.

        Returns
        -------
        z : ndarray of shape (size,)
        """
        geometry, schedule = problem.geometry, plan.schedule
        sizes = even_sizes(problem.n_samples, schedule.n_batches)
        parts = random_parts(rng, data, sizes) if len(sizes) > 1 else [data]
        batches = cycle(list(zip(sizes, map(runs_of, parts), strict=True)))
        pull_weight, centre = pull or Pull(0.0, geometry.start())
        n_iter, step = schedule.n_iter, schedule.step
        weight = geometry.kappa + step * pull_weight
        chosen = -1 if problem.operator.saddle else below(rng, n_iter)

        def oracle(z: np.ndarray) -> np.ndarray:
            """Noisy mean operator of the next batch at ``z``, and the public regularisers."""
            size, batch = next(batches)
            total = problem.total(z, batch)
            for part, grid in zip(geometry.parts, plan.grid, strict=True):
                gaussian_mechanism(rng, total[part], grid)
            g = problem.mean(z, total, size)
            for other in drift:
                g += other.weight * geometry.gradient(z - other.centre)
            return g

        def move(g: np.ndarray, u: np.ndarray) -> np.ndarray:
            dual = step * g - geometry.kappa * geometry.gradient(u)
            return geometry.prox(dual, centre, weight)

        # Points are displacements from the centre: see `prox.coordinate_step`.
        u = np.zeros(geometry.size)
        average = np.zeros(geometry.size)
        for t in range(n_iter):
            z = geometry.point(centre, u)
            if schedule.method == "mirror-prox":
                z = geometry.point(centre, move(oracle(z), u))
            if t == chosen:
                average = z  # the other iterates are computed all the same
            elif chosen < 0:
                average += (z - average) / (t + 1)
            if t < n_iter - 1:
                u = move(oracle(z), u)
            if progress is not None:
                progress[0] += 1
        return geometry.point(average, np.zeros(geometry.size))


def prox_of_models() -> MirrorProx:
    """Mirror prox with as many calls as estimators may plan."""
    return MirrorProx(max_calls=MIRROR_PROX.max_calls_of_models)


def _calls(method: str, n_iter: int) -> int:
    return 2 * n_iter - 1 if method == "mirror-prox" else max(n_iter - 1, 1)


def _schedule(
    method: str,
    problem: VariationalProblem,
    noise: float,
    distance: float,
    drift: float,
    n_iter: int | None,
    max_calls: int,
    n_batches: int,
) -> MirrorSchedule:
    """Steps that minimise ``kappa D**2 / (2 step T) + step b``: section 4 of the proof."""
    geometry, beta = problem.geometry, problem.smoothness
    bound, kappa = geometry.bound, geometry.kappa
    variance = noise**2
    if method == "mirror-prox" and beta < math.inf:
        useful = max(0.5 * beta * distance * math.sqrt(kappa / variance), drift**2 / variance)
    else:
        useful = (bound + drift) ** 2 / variance
    # The first point of mirror descent is its start, which does not depend on the data.
    least, longest = (2, max_calls) if method == "mirror-descent" else (1, max_calls // 2)
    T = n_iter if n_iter is not None else math.ceil(max(least, min(useful, longest)))
    size = problem.n_samples // n_batches
    epochs = -(-_calls(method, T) // n_batches)
    error = epochs * variance * (problem.n_samples / size) ** 2  # squared dual norm, in one call
    limit = math.inf
    if method == "mirror-descent":
        euclidean = kappa == 1.0  # on average, the noise is then orthogonal to the operator
        b = ((bound + drift) ** 2 + error) * (0.5 if euclidean else 1.0)
    elif math.isinf(beta):
        b = 1.5 * (4.0 * (bound + drift) ** 2 + 2.0 * error)
    else:
        if n_batches > 1:  # the difference between two batches
            error = 2.0 * (error + 4.0 * kappa * bound**2 / size)
        terms = 3.0 if drift == 0.0 else 4.0
        b = 0.5 * terms * (4.0 * drift**2 + 2.0 * error)
        limit = 1.0 / (math.sqrt(terms) * beta) if beta > 0.0 else math.inf
    step = min(limit, distance * math.sqrt(kappa / (2.0 * T * b)))
    value = kappa * distance**2 / (2.0 * step * T) + step * b
    return MirrorSchedule(method, T, step, value, n_batches)
