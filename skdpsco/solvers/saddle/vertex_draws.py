"""Batches, steps and draws of the solvers that descend on privately drawn vertices.

Proof: docs/proofs/mirror_descent.md.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpsco._kernels import njit
from skdpsco._validation import is_number
from skdpsco.constraints.sets import Simplex
from skdpsco.data.pieces import replace_one
from skdpsco.data.record_functions import Data
from skdpsco.mechanisms.samplers import SCALE_BITS, exponential_grid, exponential_mechanism, to_grid
from skdpsco.solvers.saddle.problem import VariationalProblem, random_parts, runs_of

__all__ = [
    "DESCENT",
    "Batches",
    "Scores",
    "bound_on_gap",
    "check_game",
    "linear_weights",
    "lipschitz",
    "log_sizes",
    "second_smoothness",
    "spend",
    "walk_batches",
]

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
    if not is_number(value):
        raise TypeError(f"second_smoothness must be a number or None, got {value!r}.")
    if not 0.0 <= value <= 1e100:  # unconverted, since a huge int does not fit into a float
        raise ValueError(f"second_smoothness must be in [0, 1e+100], got {value!r}.")
    return float(value)


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
