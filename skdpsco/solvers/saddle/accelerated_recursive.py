"""Recursive regularisation in near-linear time: noise on certified solutions, in the l2 norm.

Proof: docs/proofs/mirror_prox.md, section 6.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpsco._kernels import implements
from skdpsco.constraints.sets import L1Ball, LpBall, Simplex, project
from skdpsco.data.record_functions import Data
from skdpsco.mechanisms.samplers import (
    deviation_on,
    gaussian_grid,
    gaussian_mechanism,
    summation_error,
)
from skdpsco.privacy import GaussianEvent
from skdpsco.solvers.base import Plan
from skdpsco.solvers.saddle.geometry import Geometry
from skdpsco.solvers.saddle.problem import (
    OPERATOR_ROWS,
    VariationalProblem,
    even_sizes,
    in_chunks,
    random_parts,
)
from skdpsco.solvers.saddle.recursive_regularisation import (
    check_rounds,
    choose_rounds,
    pull_weights,
)
from skdpsco.solvers.steps import move_into

__all__ = ["AcceleratedRecursive"]

ASSUMPTIONS = (
    "the operator is monotone for every data set, and keeps its bounds and its smoothness "
    "without being clipped",
    "the rounding error in a record's operator is at most 2**-40 times its bounds",
)


@dataclass(frozen=True)
class AcceleratedTuning:
    """Constants of `AcceleratedRecursive` that were chosen by hand."""

    accuracy: float = 0.02  # error of a round's solution, relative to its stability
    batch: int = 128  # number of records in a variance-reduced step


ACCELERATED = AcceleratedTuning()


class Round(NamedTuple):
    """The public numbers that describe one round.

    Parameters
    ----------
    n_samples : int
    weights : tuple of float
        Weights of the regularisers around the earlier centres.
    smoothness : float
        Lipschitz constant of the records' operator alone, in the l2 norm.
    error : float
        Largest distance between the computed and the exact solution, before noise.
    tolerance : float
        A point whose computed residual is at most this is within ``error`` of the solution.
    n_warm, n_iter : int
        Limits on the number of variance-reduced steps and on the number of extragradient steps.
        The latter suffices for the certificate.
    grid : float
        Grid of the noise.
    """

    n_samples: int
    weights: tuple[float, ...]
    smoothness: float
    error: float
    tolerance: float
    n_warm: int
    n_iter: int
    grid: float

    @property
    def mu(self) -> float:
        """Modulus of strong monotonicity."""
        return sum(self.weights)

    @property
    def step(self) -> float:
        """Step size of extragradient."""
        return 1.0 / (3.0 * (self.smoothness + self.mu))


def project_blocks(geometry: Geometry, v: np.ndarray) -> np.ndarray:
    """Euclidean projection of ``v`` onto the sets of all blocks."""
    z = v.copy()
    for block, part in zip(geometry.blocks, geometry.parts, strict=True):
        constraint = block.constraint
        if isinstance(constraint, Simplex):
            # Adding a constant makes no difference, and non-negative vectors are projected on the
            # face of the ball.
            z[part] += constraint.radius - z[part].min()
            constraint = L1Ball(constraint.radius)
        move_into(constraint, z[part])
    return z


class Solve:
    """One round on its records; nothing is private yet, and only `solution` may be used outside."""

    def __init__(
        self, problem: VariationalProblem, round_: Round, data: Data, centres: list[np.ndarray]
    ) -> None:
        self.problem: VariationalProblem = problem
        self.round: Round = round_
        self.data: Data = data
        self.centre: np.ndarray = np.average(centres, axis=0, weights=round_.weights)

    def mean(self, z: np.ndarray, rows: Any = slice(None)) -> np.ndarray:
        """Mean operator over some of the records."""
        data = tuple(array[rows] for array in self.data)
        total = np.zeros(len(z))
        for chunk in in_chunks(data):
            total += self.problem.operator.total(z, chunk)
        return self.problem.mean(z, total, len(data[0]))

    def pull(self, z: np.ndarray) -> np.ndarray:
        """Gradient of the sum of the regularisers."""
        return self.round.mu * (z - self.centre)

    def nearest(self, v: np.ndarray) -> np.ndarray:
        """The point of the sets that is closest to v."""
        return project_blocks(self.problem.geometry, v)

    def solution(self, coins: np.random.Generator) -> np.ndarray:
        """A point that extragradient certifies to be within the round's error."""
        step, tolerance = self.round.step, self.round.tolerance
        x = self.warm(coins) if self.round.n_warm > 0 else self.nearest(self.centre)
        for _ in range(self.round.n_iter):
            w = x - step * (self.mean(x) + self.pull(x))
            y = self.nearest(w)
            g = self.mean(y) + self.pull(y)
            if np.linalg.norm(g + (w - y) / step) <= tolerance:
                return y
            x = self.nearest(x - step * g)
        # Operators that satisfy what they declare never get here. A public point reveals less than
        # an exception.
        return self.nearest(self.centre)

    def warm(self, coins: np.random.Generator) -> np.ndarray:
        """A starting point: loopless variance-reduced extragradient of Alacaoglu and Malitsky."""
        r, n = self.round, self.round.n_samples
        p = 2.0 * ACCELERATED.batch / n
        tau = 0.5 * math.sqrt(p) / r.smoothness
        near = r.tolerance * r.step * 0.75  # 4 / (3 step) times this is the tolerance

        def prox(v: np.ndarray) -> np.ndarray:
            return self.nearest((v + tau * r.mu * self.centre) / (1.0 + tau * r.mu))

        z = snapshot = self.nearest(self.centre)
        full = self.mean(snapshot)
        for _ in range(r.n_warm):
            back = (1.0 - p) * z + p * snapshot
            half = prox(back - tau * full)
            rows = coins.integers(n, size=ACCELERATED.batch)
            z = prox(back - tau * (full + self.mean(half, rows) - self.mean(snapshot, rows)))
            if coins.random() < p:
                snapshot, full = z, self.mean(z)
                y = self.nearest(z - r.step * (full + self.pull(z)))
                if np.linalg.norm(z - y) <= near:
                    break
        return snapshot


@dataclass(frozen=True, kw_only=True)
class AcceleratedPlan(Plan):
    """The rounds, and the theoretical bound on the gap after the last one.

    Parameters
    ----------
    rounds : tuple of Round
    lam : float
        Strength of the first regulariser.
    gap : float
        Bound on the expected gap; infinite if theory gives no bound.
    """

    rounds: tuple[Round, ...]
    lam: float
    gap: float


class AcceleratedRecursive:
    """Recursive regularisation with noise on the solution of each round, for l2 geometry.

    Each round solves a strongly monotone inequality up to a certified distance, in near-linear time
    by variance reduction, and adds Gaussian noise to the solution. Privacy rests on the stability
    of the solution. It therefore holds only for operators that declare ``monotone = True``: they
    must be monotone for *every* data set, and respect their bounds and smoothness without clipping.

    Parameters
    ----------
    n_rounds : int or None, default=None
        Number of rounds, in [1, 40] and at most one per record. None for the number that theory
        asks for.

    Raises
    ------
    TypeError
        If ``n_rounds`` is neither None nor an integer.
    ValueError
        If ``n_rounds`` is outside [1, 40].

    References
    ----------
    R. Bassily, C. Guzman, M. Menart. Private Algorithms for Stochastic Saddle Points and
    Variational Inequalities: Beyond Euclidean Geometry. NeurIPS 2024, Section D.3. Their accuracy
    holds in expectation; ours is certified, see docs/errata.md.

    A. Alacaoglu, Y. Malitsky. Stochastic Variance Reduction for Variational Inequality Methods.
    COLT 2022, Algorithm 1.
    """

    def __init__(self, n_rounds: int | None = None) -> None:
        self.n_rounds: int | None = check_rounds(n_rounds)

    def plan(
        self, problem: VariationalProblem, budget: Any, n_iter: int | None = None
    ) -> AcceleratedPlan:
        """Divide the records among rounds, and calibrate the noise of each.

        Parameters
        ----------
        problem : VariationalProblem
        budget : Budget or Allowance
            Every record belongs to one round only, so each round may spend all of the budget.
        n_iter : None
            Must be None, since a round takes as many steps as its certificate requires.

        Returns
        -------
        plan : AcceleratedPlan

        Raises
        ------
        ValueError
            If the operator does not declare ``monotone = True`` and ``smoothness``, if a set has no
            Euclidean projection, or if ``n_iter`` is given.
        """
        _check(problem.operator, n_iter)
        space = _Space.of(problem)
        T, lam = self._rounds(problem, space, budget.mu)
        n, saddle = problem.n_samples, problem.operator.saddle
        rounds = tuple(
            _round(space, size, tuple(pull_weights(problem, lam, t)), budget.mu)
            for t, size in enumerate(even_sizes(n, T), start=1)
        )
        proved = self.n_rounds is None and 2**T * lam * space.diameter <= space.bound
        for t, r in enumerate(rounds, start=1):
            distance = math.hypot(math.sqrt(space.size) * deviation_on(r.grid), r.error)
            proved &= distance <= 0.75 * space.diameter / 2**t
        factor = 12 * T + 2 * math.sqrt(2) if saddle else 6 * T + 2
        return AcceleratedPlan(
            event=GaussianEvent(1.0 / budget.mu),
            n_iter=T,
            summary=(f"{T} rounds on {n // T} records or more, noise on their solutions",),
            assumptions=ASSUMPTIONS,
            n_rounds=T,
            rounds=rounds,
            lam=lam,
            gap=factor * lam * space.diameter**2 if proved else math.inf,
        )

    def _rounds(self, problem: VariationalProblem, space: "_Space", mu: float) -> tuple[int, float]:
        """Number of rounds, and the strength of the first regulariser."""
        n, L, B = problem.n_samples, space.bound, space.diameter

        def strength(size: int) -> float:
            noise = L * math.sqrt(space.size) / (mu * size)
            if problem.operator.saddle:
                return max(4.0 * L / math.sqrt(size), 1.5 * noise) / B
            drift = 2.0 * L * (L + space.smoothness * B)
            return max(4.0 * math.sqrt(drift / size), 3.0 * noise) / B

        T, lam = choose_rounds(self.n_rounds, n, L, B, strength)
        return T, lam or strength(n)

    def run(
        self,
        plan: AcceleratedPlan,
        problem: VariationalProblem,
        data: Data,
        rng: np.random.Generator,
        progress: np.ndarray | None = None,
    ) -> np.ndarray:
        """Follow ``plan`` on the data; see `MirrorProx.run`."""
        geometry = problem.geometry
        parts = random_parts(rng, data, [round_.n_samples for round_ in plan.rounds])
        coins = np.random.default_rng(rng.integers(2**63))  # not noise: privacy does not need them
        centres = [geometry.start()]
        for round_, part in zip(plan.rounds, parts, strict=True):
            z = Solve(problem, round_, part, centres).solution(coins)
            gaussian_mechanism(rng, z, round_.grid)
            # Post-processing: move the point into the set, despite rounding.
            centres.append(geometry.point(project_blocks(geometry, z), np.zeros(geometry.size)))
            if progress is not None:
                progress[0] += 1
        return centres[-1]


def _check(operator: Any, n_iter: int | None) -> None:
    if getattr(operator, "monotone", False) is not True:
        raise ValueError(
            "accelerated-recursive is private only for an operator that is monotone for every "
            "data set and respects the bounds of its blocks and its smoothness without clipping. "
            "Declare that this is so by Operator(..., monotone=True)."
        )
    if operator.smoothness is None:
        raise ValueError("accelerated-recursive needs smoothness, a bound for each pair of blocks.")
    for k, block in enumerate(operator.blocks):
        kind = type(block.constraint)
        # The certificate does not cover the rounding of projections on other balls.
        if kind is LpBall or not (kind is Simplex or implements(project, kind)):
            raise ValueError(
                "accelerated-recursive needs blocks with a Euclidean projection: Simplex, L1Ball "
                f"or L2Ball; block {k} is a {kind.__name__}."
            )
    if n_iter is not None:
        raise ValueError(
            "n_iter must be 'auto' for accelerated-recursive: a round takes as many steps as its "
            f"certificate requires. Got {n_iter!r}."
        )


class _Space(NamedTuple):
    """Public constants in the l2 norm of all coordinates."""

    size: int
    diameter: float
    bound: float  # on a record's operator
    change: float  # on how much replacing a record changes the sum of operators
    smoothness: float
    entries: float  # l2 norm of the bounds on the entries of a record's operator

    @classmethod
    def of(cls, problem: VariationalProblem) -> "_Space":
        blocks = problem.geometry.blocks
        weighted = list(zip(problem.largest_weights, blocks, strict=True))
        # Convert l_p to l2 norms of points, and l2 to dual norms of operators.
        factor = np.array([b.size ** (1.0 / b.p - 0.5) for b in blocks])
        matrix = factor[:, None] * np.asarray(problem.operator.smoothness) * factor
        bounds = [w * b.lipschitz_l2 for w, b in weighted]
        changes = [w * b.change_l2 for w, b in weighted]
        entries = [w * math.sqrt(b.size) * b.lipschitz for w, b in weighted]
        return cls(
            size=problem.geometry.size,
            diameter=math.hypot(*(b.constraint.diameter(2) for b in blocks)),
            bound=math.hypot(*bounds),
            change=math.hypot(*changes) * (1.0 + 2.0**-40),
            smoothness=float(np.linalg.norm(matrix, ord=2)) * (1.0 + 2.0**-40),
            entries=math.hypot(*entries),
        )


def _round(space: _Space, n: int, weights: tuple[float, ...], mu_gdp: float) -> Round:
    """Accuracy, limits and noise of one round: the formulas of section 6 of the proof."""
    mu, beta = sum(weights), space.smoothness
    d, B, L, rate = space.size, space.diameter, space.bound, space.smoothness + mu
    step = 1.0 / (3.0 * rate)
    eta = 2.0**-50 * d**1.5 * (2.0 * B + L / rate)  # rounding error of a projection
    terms = min(n, OPERATOR_ROWS) + -(-n // OPERATOR_ROWS)
    delta = (
        (2.0**-40 + 2.0**-52 * d) * L
        + summation_error(terms, 1.0) / terms * space.entries
        + 2.0**-50 * (d + 8) * (L + 4.0 * rate * B)
        + 2.0 * rate * eta
    )
    stability = space.change / (mu * n)
    rounding = 105.0 * (rate / mu) * (rate / mu) * (eta + step * delta)
    error = ACCELERATED.accuracy * stability + rounding
    if not error < B:
        raise ValueError(
            f"A round of {n} records cannot be solved accurately in float64: smoothness or "
            "n_rounds is too large."
        )
    digits = math.log(10.0 * rate * B / (mu * ACCELERATED.accuracy * stability))
    n_iter = math.ceil(6.0 * rate / mu * digits) + 1
    return Round(
        n_samples=n,
        weights=weights,
        smoothness=beta,
        error=error,
        tolerance=mu * (error - eta) - delta - 3.0 * rate * eta,
        n_warm=_warm_steps(n, mu, beta, digits, n_iter),
        n_iter=n_iter,
        grid=gaussian_grid(stability + 2.0 * error, 1.0 / mu_gdp, d, 2.0 * B),
    )


def _warm_steps(n: int, mu: float, beta: float, digits: float, n_iter: int) -> int:
    """Variance-reduced steps before extragradient takes over; 0 if they do not save time."""
    batches = n / ACCELERATED.batch
    if batches < 4.0 or beta == 0.0:
        return 0
    p = 2.0 / batches
    contraction = min(3.0 * p / 8.0, 0.5 * math.sqrt(p) * mu / beta)
    steps = math.ceil(3.1 / contraction * (2.0 * digits + 3.0))
    return steps if 4 * ACCELERATED.batch * steps < 2 * n * n_iter else 0
