"""What the solvers that descend on private draws of vertices share: batches, steps, draws.

Proofs: docs/proofs/mirror_descent.md.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from skdpsco._kernels import njit
from skdpsco.constraints.sets import Simplex
from skdpsco.mechanisms.samplers import SCALE_BITS, exponential_grid, exponential_mechanism, to_grid
from skdpsco.solvers.base import replace_one
from skdpsco.solvers.saddle.problem import Data, VariationalProblem, runs_of

LEAST_RANGE = 2.0**-21  # of a draw: the rounding to the grid needs 2.5 * 2**-SCALE_BITS


@dataclass(frozen=True)
class DescentTuning:
    """Constants of the automatic rules of mirror descent on draws of vertices."""

    # Bounds assume that a gradient differs between vertices by all that it may in every step, and
    # that means of vertices bias it by all that they may. On the games that were tried, this part
    # of these terms gives the best steps: docs/proofs/mirror_descent.md, section 4.
    ease: float = 0.01
    # The weight of what levels of bias reduction add to second moments: that is noise, and not
    # eased as much. docs/proofs/bias_reduced_mirror_descent.md, section 4.
    level_noise: float = 10.0
    max_draws: int = 1 << 14  # vertices for one point
    max_iter: int = 10_000  # steps


DESCENT = DescentTuning()


class Batches(NamedTuple):
    """Disjoint batches, and the grids on which their gradients enter the scores.

    Parameters
    ----------
    sizes : tuple of int
        Records in each batch.
    grid : tuple of (float, float)
        Of each batch, for either player: a unit of the scores is 2**-SCALE_BITS nats.
    step : tuple of (float, float)
        Of either player, times the bound on its gradient.
    rho : float
        The most that the draws cost a record, in zCDP.
    """

    sizes: tuple[int, ...]
    grid: tuple[tuple[float, float], ...]
    step: tuple[float, float]
    rho: float


def check_game(solver: Any, problem: VariationalProblem) -> None:
    """Refuse what is not a saddle-point problem over two unit simplices.

    Raises
    ------
    ValueError
    """
    name, operator = type(solver).__name__, problem.operator
    sets = [block.constraint for block in problem.geometry.blocks]
    if len(sets) != 2 or not all(isinstance(c, Simplex) and c.radius == 1.0 for c in sets):
        raise ValueError(
            f"{name} needs blocks of exactly two players, each on a Simplex of radius 1; got "
            f"{sets!r}."
        )
    if not operator.saddle:
        raise ValueError(f"{name} needs saddle=True: it averages points, which solves games only.")
    if hasattr(operator, "weights"):
        raise ValueError(f"{name} cannot serve an operator with weights.")


def second_smoothness(operator: Any) -> float | None:
    """The operator's bound on its second-order terms, if it has one.

    Raises
    ------
    TypeError, ValueError
    """
    value = getattr(operator, "second_smoothness", None)
    if value is None:
        return None
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise TypeError(f"second_smoothness must be a number or None, got {value!r}.")
    number: Any = value  # as it is: a huge int is no float
    if not 0.0 <= number <= 1e100:
        raise ValueError(f"second_smoothness must be in [0, 1e+100], got {value!r}.")
    return float(value)


def log_sizes(problem: VariationalProblem) -> list[float]:
    """Logarithms of the numbers of vertices, at least log(2)."""
    return [math.log(max(block.size, 2)) for block in problem.geometry.blocks]


def lipschitz(problem: VariationalProblem) -> list[float]:
    """Bounds on the entries of a record's gradients, whose products are rounded."""
    slack = 1.0 + problem.geometry.size * 2.0**-50
    return [block.lipschitz * slack for block in problem.geometry.blocks]


def left_for(rho: float, n_draws: float) -> float:
    """What ``rho`` leaves if every one of so many draws by either player has the least range."""
    return rho - n_draws * LEAST_RANGE**2 / 4.0


def linear_weights(n_points: int) -> np.ndarray:
    """Weights of the points, in proportion to their numbers 1, 2, ..., with mean 1."""
    return np.arange(1.0, n_points + 1.0) * (2.0 / (n_points + 1.0))


def choose_steps(
    problem: VariationalProblem, squares: float, n_points: int, variance: Any = (1.0, 1.0)
) -> tuple[tuple[float, float], float]:
    """Steps times gradient bounds, whose squares sum to at most ``squares``, and their bound.

    Minimises the sum over players of ``L (log d / (step T) + ease * 2/3 * variance * step)``:
    section 4 of the proof.
    """
    logs, bounds = log_sizes(problem), lipschitz(problem)
    weight = np.cbrt([bound * log for bound, log in zip(bounds, logs, strict=True)])
    most = [
        math.sqrt(1.5 * log / (DESCENT.ease * v * n_points))
        for log, v in zip(logs, variance, strict=True)
    ]
    free = (math.sqrt(squares) / np.hypot(*weight) * weight).tolist()
    step = [min(s, m) for s, m in zip(free, most, strict=True)]
    for k in (0, 1):  # what one player cannot use is the other's
        step[k] = min(most[k], math.sqrt(max(squares - step[1 - k] ** 2, step[k] ** 2)))
    bound = sum(
        bound * (log / (s * n_points) + DESCENT.ease * v * s / 1.5)
        for bound, log, s, v in zip(bounds, logs, step, variance, strict=True)
    )
    return (step[0], step[1]), bound


def divide_records(need: np.ndarray, n_samples: int) -> np.ndarray:
    """Sizes >= 1 with sum ``n_samples`` and the largest possible least ``size / need``.

    Raises
    ------
    ValueError
        If there are more batches than records.
    """
    if len(need) > n_samples:
        raise ValueError(
            f"n_iter must be at most the number of records: each step takes its own. Got "
            f"{len(need)} steps for n_samples={n_samples}."
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
    """Grids of given batches and steps, and what the worst placed record pays.

    Parameters
    ----------
    problem : VariationalProblem
    sizes : ndarray of shape (n_batches,), int
    weight : ndarray of shape (n_batches,)
        Of each batch's gradient in the scores.
    change : ndarray of shape (n_batches,)
        Sum of the absolute coefficients of the gradients of one record that enter its batch's sum.
    draws : ndarray of shape (n_batches,), int
        How many vertices of either player are drawn after each batch.
    step : tuple of (float, float)
        Steps times the bounds on the gradients.

    Returns
    -------
    batches : Batches
    """
    bounds = lipschitz(problem)
    epsilon = np.maximum(4.0 * np.array(step) * (weight * change / sizes)[:, None], LEAST_RANGE)
    grid = []
    for size, a, (x, y) in zip(sizes.tolist(), change.tolist(), epsilon.tolist(), strict=True):
        # Eight more terms cover the rounding of the few sums that are put together.
        ranges = [2.0 * a * replace_one(size + 8, bound) for bound in bounds]
        most = [a * (size + 8) * bound for bound in bounds]
        grid.append(
            (exponential_grid(ranges[0], x, most[0]), exponential_grid(ranges[1], y, most[1]))
        )
    rho = float((draws * (epsilon**2).sum(axis=1)).max()) / 8.0
    return Batches(tuple(sizes.tolist()), tuple(grid), step, rho)


def spend(
    problem: VariationalProblem,
    weight: np.ndarray,
    change: np.ndarray,
    draws: np.ndarray,
    rho: float,
    variance: Any = (1.0, 1.0),
) -> Batches:
    """Batches, and the best steps, for which no record pays more than ``rho``.

    Parameters as in `calibrate_draws`; ``variance`` as in `choose_steps`.

    Raises
    ------
    ValueError
        If there are more batches than records, or more draws than the budget can pay for.
    """
    need = weight * change * np.sqrt(draws)
    sizes = divide_records(need, problem.n_samples)
    rest = left_for(rho, float(draws.max()))
    if not rest > 0.0:
        raise ValueError(f"n_iter={len(weight)} is too large for the budget of rho={rho:.3g}.")
    squares = 0.5 * rest * float((sizes / need).min()) ** 2
    step, _ = choose_steps(problem, squares, len(weight) + 1, variance)
    return calibrate_draws(problem, sizes, weight, change, draws, step)


def walk_batches(
    rng: np.random.Generator, batches: Batches, n_samples: int, data: Data
) -> Iterator[tuple[list[Data], tuple[float, float]]]:
    """Records and grids of the batches, in a random order that does not depend on the data."""
    rows = rng.permutation(n_samples)
    start = 0
    for size, grid in zip(batches.sizes, batches.grid, strict=True):
        chosen = rows[start : start + size]
        yield runs_of(tuple(array[chosen] for array in data)), grid
        start += size


class Scores:
    """The scores of all vertices, which stay inside; only draws may leave.

    They are whole numbers of units, so that a record of one batch has no influence on what other
    batches add.
    """

    def __init__(self, problem: VariationalProblem):
        self._parts = problem.geometry.parts
        self._units = np.zeros(problem.geometry.size, dtype=np.int64)

    def add(self, total: np.ndarray, grid: tuple[float, float]) -> None:
        """Descend along a sum of gradients, for both players: the operator holds their signs."""
        for part, width in zip(self._parts, grid, strict=True):
            _descend(np.ascontiguousarray(total[part], np.float64), width, self._units[part])

    def draw(self, rng: np.random.Generator, n_draws: int, counts: np.ndarray) -> None:
        """Add to ``counts`` how often each vertex is drawn, ``n_draws`` times for each player."""
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
