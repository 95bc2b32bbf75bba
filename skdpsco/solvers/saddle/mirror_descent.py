"""Private entropic mirror descent for games over two simplices.

Proof: docs/proofs/mirror_descent.md.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpsco._kernels import njit
from skdpsco._validation import LARGEST, check_int
from skdpsco.constraints.sets import Simplex
from skdpsco.data.pieces import replace_one
from skdpsco.data.record_functions import Data
from skdpsco.mechanisms.samplers import SCALE_BITS, exponential_grid, exponential_mechanism, to_grid
from skdpsco.privacy import ZCDPEvent
from skdpsco.privacy._checks import check_real
from skdpsco.solvers.base import Plan
from skdpsco.solvers.saddle.problem import VariationalProblem, random_parts, runs_of
from skdpsco.solvers.steps import MOST_PLANNED, steps_to_try

__all__ = [
    "DESCENT",
    "Batches",
    "MirrorDescent",
    "Scores",
    "bound_on_gap",
    "check_game",
    "linear_weights",
    "lipschitz",
    "log_sizes",
    "mirror_steps",
    "second_smoothness",
    "spend",
    "walk_batches",
]

MOST_DRAWS = 10**6  # sums over draws must fit into 64-bit integers
LEAST_RANGE = 2.0**-21  # range of a draw; rounding to the grid needs 2.5 * 2**-SCALE_BITS of it


@dataclass(frozen=True)
class DescentTuning:
    """Constants of the automatic rules of mirror descent on draws of vertices."""

    # The bounds assume the worst in every step: gradients that differ as much as possible between
    # vertices, and means of vertices with the largest bias. This fraction of these terms decides on
    # steps: docs/proofs/mirror_descent.md, section 4.
    ease: float = 0.01
    # Weight of what the levels of bias reduction add to second moments. This is noise, which is
    # eased less: docs/proofs/bias_reduced_mirror_descent.md, section 4.
    level_noise: float = 10.0
    max_draws: int = 1 << 14  # vertices for one point


DESCENT = DescentTuning()


class Batches(NamedTuple):
    """Disjoint batches, and the grids on which their gradients are added to the scores.

    Parameters
    ----------
    sizes : tuple of int
        Number of records in each batch.
    grid : tuple of (float, float)
        Grid of each batch, for both players; a unit of the scores is 2**-SCALE_BITS nats.
    rho : float
        Largest cost of the draws for any record, in zCDP.
    """

    sizes: tuple[int, ...]
    grid: tuple[tuple[float, float], ...]
    rho: float


def check_game(solver: Any, problem: VariationalProblem) -> None:
    """Check that this is a saddle-point problem over two unit simplices.

    Raises
    ------
    ValueError
        If it is not, or if the operator has weights.
    """
    name, operator = type(solver).__name__, problem.operator
    sets = [block.constraint for block in problem.geometry.blocks]
    if len(sets) != 2 or not all(isinstance(c, Simplex) and c.radius == 1.0 for c in sets):
        raise ValueError(
            f"{name} needs exactly two blocks, each with a Simplex of radius 1; got {sets!r}."
        )
    if not operator.saddle:
        raise ValueError(f"{name} needs saddle=True: an average of points solves games only.")
    if hasattr(operator, "weights"):
        raise ValueError(f"{name} does not support an operator with weights.")


def second_smoothness(operator: Any) -> float | None:
    """The operator's bound on its second-order terms, or None.

    Raises
    ------
    TypeError
        If the bound is neither None nor a number.
    ValueError
        If it is outside [0, 1e+100].
    """
    value = getattr(operator, "second_smoothness", None)
    if value is None:
        return None
    return check_real("second_smoothness", value, 0.0, LARGEST, closed=True)


def log_sizes(problem: VariationalProblem) -> list[float]:
    """Logarithms of the numbers of vertices, at least log(2)."""
    return [math.log(max(block.size, 2)) for block in problem.geometry.blocks]


def lipschitz(problem: VariationalProblem) -> list[float]:
    """Bounds on the entries of a record's gradients, with a margin for rounding."""
    slack = 1.0 + problem.geometry.size * 2.0**-50
    return [block.lipschitz * slack for block in problem.geometry.blocks]


def left_for(rho: float, n_draws: float) -> float:
    """What is left of ``rho`` if each player's ``n_draws`` draws all have the least range."""
    return rho - n_draws * LEAST_RANGE**2 / 4.0


def linear_weights(n_points: int) -> np.ndarray:
    """Weights of the points, proportional to 1, 2, ..., with mean 1."""
    return np.arange(1.0, n_points + 1.0) * (2.0 / (n_points + 1.0))


def choose_steps(
    problem: VariationalProblem, squares: float, n_points: int, variance: Any = (1.0, 1.0)
) -> tuple[tuple[float, float], float]:
    """Step sizes times gradient bounds, and the bound on the gap that they give.

    They minimise ``L (log d / (step T) + ease * 2/3 * variance * step)``, summed over players,
    subject to squares that sum to at most ``squares``: section 4 of the proof.
    """
    logs, bounds = log_sizes(problem), lipschitz(problem)
    weight = np.cbrt([bound * log for bound, log in zip(bounds, logs, strict=True)])
    most = [
        math.sqrt(1.5 * log / (DESCENT.ease * v * n_points))
        for log, v in zip(logs, variance, strict=True)
    ]
    free = (math.sqrt(squares) / np.hypot(*weight) * weight).tolist()
    step = [min(s, m) for s, m in zip(free, most, strict=True)]
    for k in (0, 1):  # what one player cannot use goes to the other
        step[k] = min(most[k], math.sqrt(max(squares - step[1 - k] ** 2, step[k] ** 2)))
    bound = sum(
        bound * (log / (s * n_points) + DESCENT.ease * v * s / 1.5)
        for bound, log, s, v in zip(bounds, logs, step, variance, strict=True)
    )
    return (step[0], step[1]), bound


def bound_on_gap(
    problem: VariationalProblem,
    rho: float,
    n_iter: int,
    need: float,
    n_draws: float,
    variance: Any = (1.0, 1.0),
) -> float:
    """The bound on the gap after ``n_iter`` steps, or infinity if ``rho`` cannot pay for them.

    ``need`` is the size of a batch per weight of its point, as in `spend`, and each player draws at
    most ``n_draws`` vertices in total.
    """
    # Sizes are proportional to weights times roots of draws, which sum to 8/15 T^1.5.
    ratio = problem.n_samples / (8.0 / 15.0 * need * (n_iter + 1.0) ** 1.5)
    rest = left_for(rho, n_draws)
    if not rest > 0.0:
        return math.inf
    return choose_steps(problem, 0.5 * rest * ratio**2, n_iter + 1, variance)[1]


def divide_records(need: np.ndarray, n_samples: int) -> np.ndarray:
    """Sizes >= 1 that sum to ``n_samples``, with the smallest ``size / need`` as large as possible.

    Raises
    ------
    ValueError
        If there are more batches than records.
    """
    if len(need) > n_samples:
        raise ValueError(
            f"n_iter must be at most the number of records, since each step uses records of its "
            f"own. Got {len(need)} steps for n_samples={n_samples}."
        )

    def at(ratio: float) -> np.ndarray:
        return np.maximum(np.ceil(ratio * need), 1.0)

    low, high = 0.0, n_samples / float(need.max())
    for _ in range(60):
        middle = 0.5 * (low + high)
        if at(middle).sum() <= n_samples:
            low = middle
        else:
            high = middle
    sizes = at(low).astype(np.int64)
    sizes[need.argmax()] += n_samples - sizes.sum()
    return sizes


def calibrate_draws(
    problem: VariationalProblem,
    sizes: np.ndarray,
    weight: np.ndarray,
    change: np.ndarray,
    draws: np.ndarray,
    step: tuple[float, float],
) -> Batches:
    """Grids for given batches and steps, and the largest cost of any record.

    Parameters
    ----------
    problem : VariationalProblem
    sizes : ndarray of shape (n_batches,), int
    weight : ndarray of shape (n_batches,)
        Weight of each batch's gradient in the scores.
    change : ndarray of shape (n_batches,)
        Sum of the absolute coefficients with which one record's gradients enter its batch's sum.
    draws : ndarray of shape (n_batches,), int
        Number of vertices that are drawn for each player after each batch.
    step : tuple of (float, float)
        Step sizes times the bounds on the gradients.

    Returns
    -------
    batches : Batches
    """
    bounds = lipschitz(problem)
    epsilon = np.maximum(4.0 * np.array(step) * (weight * change / sizes)[:, None], LEAST_RANGE)
    grid = []
    for size, a, (x, y) in zip(sizes.tolist(), change.tolist(), epsilon.tolist(), strict=True):
        # Eight more terms cover the rounding when a few sums are combined.
        ranges = [2.0 * a * replace_one(size + 8, bound) for bound in bounds]
        most = [a * (size + 8) * bound for bound in bounds]
        grid.append(
            (exponential_grid(ranges[0], x, most[0]), exponential_grid(ranges[1], y, most[1]))
        )
    rho = float((draws * (epsilon**2).sum(axis=1)).max()) / 8.0
    return Batches(tuple(sizes.tolist()), tuple(grid), rho)


def spend(
    problem: VariationalProblem,
    weight: np.ndarray,
    change: np.ndarray,
    draws: np.ndarray,
    rho: float,
    variance: Any = (1.0, 1.0),
) -> Batches:
    """Batches with the best steps for which no record costs more than ``rho``.

    The parameters are those of `calibrate_draws`, and ``variance`` is that of `choose_steps`.

    Raises
    ------
    ValueError
        If there are more batches than records, or more draws than the budget can pay for.
    """
    need = weight * change * np.sqrt(draws)
    sizes = divide_records(need, problem.n_samples)
    rest = left_for(rho, float(draws.max()))
    if not rest > 0.0:
        raise ValueError(f"n_iter={len(weight)} is too large for a budget of rho={rho:.3g}.")
    squares = 0.5 * rest * float((sizes / need).min()) ** 2
    step, _ = choose_steps(problem, squares, len(weight) + 1, variance)
    return calibrate_draws(problem, sizes, weight, change, draws, step)


def walk_batches(
    rng: np.random.Generator, batches: Batches, data: Data
) -> Iterator[tuple[list[Data], tuple[float, float]]]:
    """Each batch's records and grids; which records it holds is independent of the data."""
    return zip(map(runs_of, random_parts(rng, data, batches.sizes)), batches.grid, strict=True)


class Scores:
    """The scores of all vertices. They stay secret, and only draws may be released.

    Scores are whole numbers of units, so that a record in one batch does not influence what the
    other batches add.
    """

    def __init__(self, problem: VariationalProblem) -> None:
        self._parts = problem.geometry.parts
        self._units = np.zeros(problem.geometry.size, dtype=np.int64)

    def add(self, total: np.ndarray, grid: tuple[float, float]) -> None:
        """Descend along a sum of gradients for both players; the operator contains their signs."""
        for part, width in zip(self._parts, grid, strict=True):
            _descend(np.ascontiguousarray(total[part], np.float64), width, self._units[part])

    def draw(self, rng: np.random.Generator, n_draws: int, counts: np.ndarray) -> None:
        """Draw ``n_draws`` vertices for each player, and add the number of each to ``counts``."""
        for part in self._parts:
            _draw_vertices(rng, self._units[part], n_draws, counts[part])


@njit
def _descend(total, grid, units):
    for j in range(units.shape[0]):
        units[j] += to_grid(-total[j], grid)


@njit
def _draw_vertices(rng, units, n_draws, counts):
    for _ in range(n_draws):
        counts[exponential_mechanism(rng, units, SCALE_BITS)] += 1.0


@dataclass(frozen=True, kw_only=True)
class MirrorDescentPlan(Plan):
    """The batches, the weights of the points, and the number of vertices drawn for each point."""

    batches: Batches
    weight: tuple[float, ...]
    n_draws: int


class MirrorDescent:
    """Mirror descent on gradients at privately drawn vertices, with one pass over the records.

    Both players multiply their weights by ``exp(-step * gradient)``. The weights stay secret: only
    vertices that the exponential mechanism draws from them are released. The noise grows only with
    the logarithm of the number of vertices, but a mean of a few hundred vertices is far from
    strategies that are spread over many actions.

    Both blocks must be simplices of radius 1. For an l1 ball of radius R let the block hold weights
    p of its 2 d vertices: the point is ``R (p[:d] - p[d:])`` and the gradient in p is ``R (g,
    -g)``.

    Parameters
    ----------
    n_draws : int or "auto", default="auto"
        Number of vertices drawn for each point, in [1, 10**6]. "auto" is 1 for bilinear and
        quadratic games, and otherwise needs the operator's ``smoothness``.

    Raises
    ------
    TypeError
        If ``n_draws`` has the wrong type.
    ValueError
        If ``n_draws`` is outside its range.

    References
    ----------
    Gonzalez, Guzman, Paquette. Mirror Descent Algorithms with Nearly Dimension-Independent Rates
    for Differentially-Private Stochastic Saddle-Point Problems. 2024, Algorithm 1, with other
    batches and draws.
    """

    def __init__(self, n_draws: int | str = "auto") -> None:
        if n_draws != "auto":
            n_draws = check_int("n_draws", n_draws, "'auto' or ", 1, MOST_DRAWS)
        self.n_draws = n_draws

    def plan(
        self, problem: VariationalProblem, budget: Any, n_iter: int | None = None
    ) -> MirrorDescentPlan:
        """Calibrate ``n_iter`` steps, or the number that minimises the bound on the gap.

        Parameters
        ----------
        problem : VariationalProblem
            A game of two players on simplices of radius 1.
        budget : Budget or Allowance
        n_iter : int or None
            Number of steps, each on records of its own.

        Returns
        -------
        plan : MirrorDescentPlan

        Raises
        ------
        ValueError
            If the blocks are not two simplices, if ``smoothness`` is needed but missing, or if
            there are fewer records than steps.
        """
        check_game(self, problem)
        steps, n_draws = self.schedule(problem, budget.rho, n_iter)
        weight = linear_weights(steps + 1)
        draws = n_draws * np.arange(steps, 0, -1)
        batches = spend(problem, weight[:-1], np.ones(steps), draws, budget.rho)
        summary = (
            f"mirror-descent: {steps} steps on {min(batches.sizes)} to {max(batches.sizes)} "
            f"records, {n_draws} vertices of each player per step",
        )
        return MirrorDescentPlan(
            event=ZCDPEvent(batches.rho),
            n_iter=steps,
            summary=summary,
            batches=batches,
            weight=tuple(weight.tolist()),
            n_draws=n_draws,
        )

    def schedule(
        self, problem: VariationalProblem, rho: float, n_iter: int | None = None
    ) -> tuple[int, int]:
        """Numbers of steps and draws with the smallest bound on the gap: section 4 of the proof.

        Raises
        ------
        ValueError
            If the operator's ``smoothness`` is needed but missing.
        """
        bias, counts = 0.0, [1]
        if self.n_draws != "auto":
            counts = [int(self.n_draws)]
        elif second_smoothness(problem.operator) != 0.0:
            if problem.operator.smoothness is None:
                raise ValueError(
                    "To choose the number of vertices, MirrorDescent needs the operator's "
                    "smoothness, or second_smoothness=0. Alternatively, pass n_draws."
                )
            smoothness = np.asarray(problem.operator.smoothness, np.float64)
            bias = DESCENT.ease * 2.0 * float(np.trace(smoothness))
            if bias > 0.0:
                counts = [1 << k for k in range(DESCENT.max_draws.bit_length())]
        most = min(problem.n_samples, MOST_PLANNED)
        lengths = steps_to_try(most, 100) if n_iter is None else [n_iter]

        def bound(steps: int, n_draws: int) -> float:
            needed, drawn = math.sqrt(n_draws), float(n_draws) * steps
            return bound_on_gap(problem, rho, steps, needed, drawn) + bias / n_draws

        return min(((s, k) for s in lengths for k in counts), key=lambda pair: bound(*pair))

    def run(
        self,
        plan: MirrorDescentPlan,
        problem: VariationalProblem,
        data: Data,
        rng: np.random.Generator,
        progress: np.ndarray | None = None,
    ) -> np.ndarray:
        """Follow ``plan`` on the data; see `MirrorProx.run`."""
        batches = walk_batches(rng, plan.batches, data)
        return mirror_steps(problem, batches, plan.weight, plan.n_draws, rng, progress)


def mirror_steps(
    problem: VariationalProblem,
    batches: Iterable[tuple[list[Data], Any]],
    weight: Sequence[float],
    n_draws: int,
    rng: np.random.Generator,
    progress: np.ndarray | None,
    total: Callable[..., np.ndarray] | None = None,
) -> np.ndarray:
    """Weighted mean of the start and of points that are means of ``n_draws`` drawn vertices each.

    The vertices are drawn by the summed gradients of the batches so far. ``total(z, batch,
    scores)`` sums up the gradients of a batch, after the point z; None for those at z itself.
    """
    scores, z = Scores(problem), problem.geometry.start()
    result = weight[0] * z
    for (batch, grid), share in zip(batches, weight[1:], strict=True):
        gradient = problem.total(z, batch) if total is None else total(z, batch, scores)
        scores.add(gradient, grid)
        z = np.zeros(len(z))
        scores.draw(rng, n_draws, z)
        z /= n_draws
        result += share * z
        if progress is not None:
            progress[0] += 1
    return result / math.fsum(weight)
