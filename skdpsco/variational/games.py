"""Games whose records are pairs of vectors, and the duality gap of public ones."""

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco._clipping import clip, within
from skdpsco._kernels import njit, reduction
from skdpsco._validation import check_bound, check_int
from skdpsco.constraints.norms import project_simplex
from skdpsco.constraints.sets import Simplex
from skdpsco.data.record_functions import Data
from skdpsco.solvers.saddle.geometry import Block, Geometry
from skdpsco.solvers.saddle.problem import in_chunks

__all__ = ["BilinearGame", "QuadraticGame", "check_shapes", "duality_gap"]

MAX_RESPONSE_STEPS = 10_000  # most steps of the search for a best response


def check_shapes(data: Data, shapes: Sequence[tuple[int, ...]], flat: int | None = None) -> Data:
    """Check the arrays of a game against the shapes of a record, and return them.

    The array with the number ``flat``, whose records have one entry each, may have a single axis.

    Raises
    ------
    ValueError
        If there are not as many arrays, or one has another shape.
    """
    if len(data) != len(shapes):
        raise ValueError(f"data must be a tuple of {len(shapes)} arrays, got {len(data)}.")
    n = len(data[0])
    legal = [(n, *shape) for shape in shapes]
    for k, (array, shape) in enumerate(zip(data, legal, strict=True)):
        if array.shape != shape and not (k == flat and array.shape == (n,)):
            shown = [array.shape for array in data]
            raise ValueError(f"data must be arrays of shapes {legal}, got {shown}.")
    return data


class _VectorGame:
    """A game whose payoffs depend on products of the strategies with the records' vectors.

    With ``r = <u, x> - a``, ``q = <v, y> - c`` and a curvature k, the payoff is
    ``k/2 r**2 + r q - k/2 q**2``. Records are clipped as they are read, so that each of them is a
    game with the declared constants, whatever the data.
    """

    saddle = True
    monotone = True
    second_smoothness: ClassVar[float] = 0.0
    curvature: float
    n_arrays: int

    def __init__(self, n_rows: int, n_columns: int, bound: float = 1.0) -> None:
        self.bound: float = check_bound("bound", bound)
        square = self.bound**2
        # Bound on the factor of a vector. Targets, if any, are within the bound too.
        self._most = self.bound * (2.0 * (1.0 + self.curvature) if self.curvature else 1.0)
        largest = self._most * self.bound
        sizes = check_int("n_rows", n_rows), check_int("n_columns", n_columns)
        self.blocks: Any = tuple(Block(Simplex(), size, largest) for size in sizes)
        # Attained if both residuals are twice the bound; without curvature there are no targets.
        self.value_bound: float = 4.0 * square if self.curvature else square
        k = self.curvature * square
        self.smoothness: Any = [[k, square], [square, k]]

    def __call__(self, z: np.ndarray, *data: np.ndarray) -> np.ndarray:
        """Operators of records, ``(df/dx, -df/dy)``.

        Parameters
        ----------
        z : ndarray of shape (n_rows + n_columns,)
        *data : ndarray
            As the class says.

        Returns
        -------
        G : ndarray of shape (n_samples, n_rows + n_columns)
        """
        u, v, r, q = self._residuals(z, self._check(data))
        k, most = self.curvature, self._most
        right, left = (k * r + q).clip(-most, most), (k * q - r).clip(-most, most)
        return np.hstack([right[:, None] * u, left[:, None] * v])

    def total(self, z: np.ndarray, data: Data) -> np.ndarray:
        """Sum of the records' operators, in one pass over them."""
        total = np.zeros(sum(block.size for block in self.blocks))
        m = self.blocks[0].size
        for part in in_chunks(self._check(data)):
            _add_operators(
                _Records(*self._arrays(part)), z[:m], z[m:], self.bound, self._most, self.curvature,
                total[:m], total[m:],
            )  # fmt: skip
        return total

    def value(self, z: np.ndarray, *data: np.ndarray) -> np.ndarray:
        """Payoffs of the row player to the column player.

        Parameters
        ----------
        z : ndarray of shape (n_rows + n_columns,)
        *data : ndarray
            As the class says.

        Returns
        -------
        values : ndarray of shape (n_samples,)
        """
        found, k = [], self.curvature
        for part in in_chunks(self._check(data)):
            _, _, r, q = self._residuals(z, part)
            found.append(0.5 * k * (r**2 - q**2) + r * q)
        return np.concatenate(found)

    def _check(self, data: Data) -> Data:
        vectors = [(block.size,) for block in self.blocks]
        return check_shapes(data, [*vectors, (), ()][: self.n_arrays])

    def _arrays(self, data: Data) -> list[np.ndarray]:
        """The arrays as float64, with zeros in place of missing targets."""
        arrays = [np.ascontiguousarray(array, dtype=np.float64) for array in data]
        return arrays + [np.zeros(len(arrays[0]))] * (4 - len(arrays))

    def _residuals(self, z: np.ndarray, data: Data) -> tuple[np.ndarray, ...]:
        b, m = self.bound, self.blocks[0].size
        u, v, a, c = (within(array, -b, b) for array in self._arrays(data))
        return u, v, u @ z[:m] - a, v @ z[m:] - c


class BilinearGame(_VectorGame):
    """Zero-sum game whose payoff matrix is the mean of matrices of rank one.

    A record is a pair of vectors (u, v) with the payoff ``<u, x> <v, y>``; x minimises and y
    maximises its mean, both over simplices. The time of a step is proportional to the number of
    entries of its records, not of the matrix.

    The data are two arrays, of shapes (n_samples, n_rows) and (n_samples, n_columns).

    Parameters
    ----------
    n_rows, n_columns : int
        Number of actions of each player.
    bound : float, default=1.0
        Entries of the vectors are clipped to [-bound, bound].

    Attributes
    ----------
    blocks, saddle, smoothness, monotone, second_smoothness, value_bound
        What `solve_variational_inequality` and its solvers ask for.

    Raises
    ------
    TypeError
        If a parameter has the wrong type.
    ValueError
        If a number is outside its range.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco.variational import BilinearGame, duality_gap, solve_variational_inequality
    >>> u, v = np.tile([1.0, -1.0], (20_000, 1)), np.tile([1.0, -1.0], (20_000, 1))
    >>> game = BilinearGame(2, 2)  # matching pennies
    >>> solution = solve_variational_inequality(game, (u, v), solver="mirror-descent")
    >>> print(duality_gap(game, solution.z, u, v) < 0.3)  # of public data
    True
    """

    curvature: float = 0.0
    n_arrays = 2


class QuadraticGame(_VectorGame):
    """Game of two linear models, one of which minimises what the other one maximises.

    A record (u, v, a, c) has the residuals ``r = <u, x> - a`` and ``q = <v, y> - c`` and the payoff
    ``r**2 / 2 + r q - q**2 / 2``; x minimises and y maximises its mean, both over simplices.

    The data are four arrays, of shapes (n_samples, n_rows), (n_samples, n_columns), (n_samples,)
    and (n_samples,).

    Parameters
    ----------
    n_rows, n_columns : int
        Number of weights of each player.
    bound : float, default=1.0
        Entries of the vectors, and targets, are clipped to [-bound, bound].

    Attributes
    ----------
    blocks, saddle, smoothness, monotone, second_smoothness, value_bound
        What `solve_variational_inequality` and its solvers ask for.

    Raises
    ------
    TypeError
        If a parameter has the wrong type.
    ValueError
        If a number is outside its range.
    """

    curvature: float = 1.0
    n_arrays = 4


def duality_gap(game: Any, z: np.ndarray, *data: np.ndarray, tol: float = 1e-6) -> float:
    """Duality gap ``max_v F(x, v) - min_u F(u, y)`` of a point, where F is the mean payoff.

    It is not private. Use it only on public data, to evaluate a solver.

    Parameters
    ----------
    game : object
        A game with two ``blocks`` on simplices, ``total(z, data)``, which returns the sum of the
        records' operators, and ``value(z, *data)``, which returns their payoffs; for example a
        `BilinearGame` or a `QuadraticGame`.
    z : ndarray of shape (n_rows + n_columns,)
        The strategies of both players.
    *data : ndarray
        The arrays of the game's records.
    tol : float, default=1e-6
        The search for a best response ends when it is certified to be within ``tol`` of the best,
        or after 10,000 steps.

    Returns
    -------
    gap : float
        An upper bound on the gap, at most ``2 * tol`` above it if both searches are certified.

    Raises
    ------
    TypeError
        If ``game`` has no ``blocks``, ``total`` or ``value``, or a parameter has the wrong type.
    ValueError
        If the blocks are not two simplices, or ``z``, ``data`` or ``tol`` is not valid.
    """
    if not all(hasattr(game, name) for name in ("blocks", "total", "value")):
        raise TypeError(f"game must have blocks, total and value, got {game!r}.")
    tol = check_bound("tol", tol)
    geometry = Geometry(tuple(game.blocks))
    if len(geometry.blocks) != 2 or not all(
        isinstance(block.constraint, Simplex) for block in geometry.blocks
    ):
        raise ValueError(f"game must have two blocks, each on a Simplex, got {game.blocks!r}.")
    z, arrays = np.array(z, dtype=np.float64), tuple(np.asarray(array) for array in data)
    if z.shape != (geometry.size,):
        raise ValueError(f"z must have shape {(geometry.size,)}, got {z.shape}.")
    return sum(_gain(game, z, part, k, arrays, tol) for k, part in enumerate(geometry.parts))


def _gain(game: Any, z: np.ndarray, part: slice, player: int, data: Data, tol: float) -> float:
    """Bound on what a player can gain, by accelerated gradient steps up to a certificate."""
    n, radius = len(data[0]), game.blocks[player].constraint.radius
    sign = 1.0 if player == 0 else -1.0  # the operator contains the signs of the players

    def loss(w: np.ndarray) -> float:
        return sign * float(np.mean(game.value(_with(z, part, w), *data)))

    def slope(w: np.ndarray) -> np.ndarray:
        return np.asarray(game.total(_with(z, part, w), data))[part] / n

    def certificate(w: np.ndarray, g: np.ndarray) -> float:
        return float(g @ w) - radius * float(g.min())

    start = loss(z[part])
    w = previous = momentum = z[part].copy()
    # The first step is far too long; it is halved until it descends.
    width, t = 1.0 / max(float(np.abs(slope(w)).max()), 1e-300), 1.0
    for _ in range(MAX_RESPONSE_STEPS):
        g = slope(w)
        if certificate(w, g) <= tol:
            break
        g, here = slope(momentum), loss(momentum)
        while True:
            ahead = radius * project_simplex((momentum - width * g) / radius)
            move = ahead - momentum
            model = here + float(g @ move) + float(move @ move) / (2.0 * width)
            if loss(ahead) <= model + 1e-15 * abs(here) or width < 1e-100:
                break
            width *= 0.5
        previous, w = w, ahead
        following = 0.5 + (0.25 + t * t) ** 0.5
        momentum, t = w + (t - 1.0) / following * (w - previous), following
    return start - loss(w) + certificate(w, slope(w))


def _with(z: np.ndarray, part: slice, w: np.ndarray) -> np.ndarray:
    z = z.copy()
    z[part] = w
    return z


@reduction
def _clipped_product(row, z, bound):
    total = 0.0
    for j in range(row.shape[0]):
        total += clip(row[j], bound) * z[j]
    return total


class _Records(NamedTuple):
    """The vectors of both players, and the targets."""

    u: np.ndarray
    v: np.ndarray
    a: np.ndarray
    c: np.ndarray


@njit
def _add_operators(records, x, y, bound, most, curvature, gx, gy):
    """Add the records' gradients to ``gx`` and ``gy``, while the rows are still in the cache."""
    u, v, a, c = records
    for i in range(u.shape[0]):
        r = _clipped_product(u[i], x, bound) - clip(a[i], bound)
        q = _clipped_product(v[i], y, bound) - clip(c[i], bound)
        # The products are rounded, and no record may exceed the declared bounds.
        right, left = clip(curvature * r + q, most), clip(curvature * q - r, most)
        for j in range(x.shape[0]):
            gx[j] += right * clip(u[i, j], bound)
        for j in range(y.shape[0]):
            gy[j] += left * clip(v[i, j], bound)
