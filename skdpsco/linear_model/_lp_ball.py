"""The base class of linear models in an l_p ball, the choice of a solver, and record streams."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, starmap
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import is_regressor

from skdpsco._validation import (
    COMMON_CONSTRAINTS,
    CONDITIONING_CONSTRAINTS,
    FLOATS,
    HasMethods,
    Integral,
    Interval,
    StrOptions,
    check_bound,
    check_int,
    check_X_y,
)
from skdpsco.base.linear_model import PrivateLinearModel
from skdpsco.constraints.norms import check_order
from skdpsco.constraints.sets import L1Ball, L2Ball, LpBall
from skdpsco.data.block_records import BlockRecords, as_blocks
from skdpsco.data.block_sources import check_apart
from skdpsco.data.design import as_design
from skdpsco.data.record_stream import Blocks
from skdpsco.losses.library import taken_on_trust
from skdpsco.losses.traits import traits_of
from skdpsco.privacy.relations import ADD_OR_REMOVE
from skdpsco.scaling.target import Target
from skdpsco.solvers import (
    OnePassFrankWolfe,
    PhasedERM,
    PhasedSGD,
    Problem,
    ProjectedDescent,
    TreeFrankWolfe,
)

__all__ = ["LOSS", "LP_CONSTRAINTS", "LpModel", "is_stream"]

MAX_SAMPLES = 2**53  # float64 counts exactly up to here
BALL_SOLVERS: dict[str, Any] = {
    "one-pass-frank-wolfe": OnePassFrankWolfe,
    "phased-erm": PhasedERM,
    "phased-sgd": PhasedSGD,
    "projected-descent": ProjectedDescent,
    "tree-frank-wolfe": TreeFrankWolfe,
}
LP_CONSTRAINTS: dict[str, list[Any]] = {
    **COMMON_CONSTRAINTS,
    **CONDITIONING_CONSTRAINTS,
    "p": [Interval(Real, 1, None, closed="both")],
    "row_norm": [None, Interval(Real, 0, None, closed="neither")],
    "solver": [StrOptions({"auto", *BALL_SOLVERS}), HasMethods(["plan", "run"])],
    "n_samples": [None, Interval(Integral, 1, MAX_SAMPLES, closed="both")],
    "shuffle": ["boolean"],
}
# What plans need from a declared loss. A fit looks up its kernels, and probes them.
LOSS = HasMethods(["lipschitz", "smoothness"])


class AutoBallTuning(NamedTuple):
    """Thresholds by which ``solver="auto"`` chooses, fitted by examples/benchmarks/lp_geometry.py.

    n is the number of records, d that of features, and mu the budget in Gaussian privacy.

    Parameters
    ----------
    clear : float
        For p = 1: above this r = (n mu)**(1/3) / log(2 d), one feature can be told from the rest.
    many_features : tuple of two floats
        For p = 1: above this d / (r log(2 d)**2), there are many features. The second number is for
        records in blocks.
    much_noise : float
        For p > 1 and arrays: below this n mu / sqrt(d), there is almost only noise.
    much_noise_blocks : float
        The same threshold for blocks and p <= 2, on n mu / d**(3/4).
    much_noise_cube : float
        The same threshold for blocks and p > 2, on n mu / d.
    little_noise : float
        From this n mu / d on, one pass is as good as many, if there are many records.
    many_records : int
        Number of records from which this holds. With fewer, one pass leaves a larger error than the
        noise does. At epsilon 100 and with 20 features in [0, 1], R^2 after one pass and after many
        is .56 and .76 for 4,000 records, .73 and .76 for 16,000, .79 and .76 for 64,000.
    corners : float
        For labels, p = 1 and an automatic radius: above this n mu / sqrt(d), solvers that stay in
        the ball are better than a projection onto it, which sets coefficients to 0.
    projected : float
        What the automatic radius of a regression is multiplied by for "projected-descent", whose
        noise does not grow with the ball.
    """

    clear: float = 1.26
    many_features: tuple[float, float] = (6.0, 1.0)
    much_noise: float = 55.0
    much_noise_blocks: float = 45.0
    much_noise_cube: float = 32.0
    little_noise: float = 300.0
    many_records: int = 50_000
    corners: float = 200.0
    projected: float = 2.0


AUTO_BALL = AutoBallTuning()


def automatic_ball_solver(
    p: float,
    n_samples: int,
    n_features: int,
    rho: float,
    smooth: bool,
    streaming: bool,
    descends: bool = False,
) -> str:
    """Name of the best solver for a problem of this kind, from public values.

    Over l1 balls the noise of Frank-Wolfe grows only with log(d), but falls more slowly with n. It
    is best for many features, if one of them can be told from the rest at all. Otherwise one long
    step is best if there is almost only noise, and many steps on all records if there is less. With
    little noise, one step on each record is equally good, and fast.

    Parameters
    ----------
    p : float
        Order of the norm of the ball.
    n_samples, n_features : int
    rho : float
        The budget, in zCDP.
    smooth : bool
        Whether the loss has a bounded second derivative.
    streaming : bool
        Whether the records come in blocks, each of which is read once.
    descends : bool, default=False
        Whether records can be read many times and unshortened, and the radius is automatic and
        large enough for a solution found without a ball.
    """
    if not smooth:
        return "phased-erm"
    d, signal = max(n_features, 1), n_samples * math.sqrt(2.0 * rho)
    if p == 1.0:
        root, log_d = signal ** (1.0 / 3.0), math.log(2.0 * d)
        few_steps = (
            root > AUTO_BALL.clear * log_d and d > AUTO_BALL.many_features[streaming] * root * log_d
        )
    elif streaming:
        cube = AUTO_BALL.much_noise_cube * d
        few_steps = signal < (AUTO_BALL.much_noise_blocks * d**0.75 if p <= 2.0 else cube)
    else:
        few_steps = signal < AUTO_BALL.much_noise * math.sqrt(d)
    if descends and (p > 1.0 or not few_steps):
        return "projected-descent"
    if few_steps:
        return "tree-frank-wolfe"
    little = signal / d >= AUTO_BALL.little_noise and n_samples >= AUTO_BALL.many_records
    return "phased-sgd" if streaming or little else "phased-erm"


def make_ball_solver(name: str, shuffle: bool) -> Any:
    """The solver with a name other than "auto"."""
    cls = BALL_SOLVERS[name]
    return cls(shuffle=shuffle) if getattr(cls, "streams", False) else cls()


def is_stream(X: Any) -> bool:
    """Whether X is an iterable of blocks, not an array, matrix, frame or list of numbers."""
    if isinstance(X, (list, tuple)):
        first = X[0] if len(X) > 0 else None
        if not isinstance(first, (tuple, list)) or len(first) != 2:
            return False
        # Rows of two numbers are not pairs of blocks, whether they are lists, tuples or NumPy's
        # scalars.
        has_records = len(getattr(first[0], "shape", ())) > 0
        return has_records or (isinstance(first, tuple) and isinstance(first[0], list))
    array_like = sparse.issparse(X) or hasattr(X, "shape") or hasattr(X, "__array__")
    return hasattr(X, "__iter__") and not array_like and not isinstance(X, (str, bytes, Mapping))


def is_mapped(X: Any) -> bool:
    """Whether X is an array that is mapped from a file."""
    while X is not None and not isinstance(X, np.memmap):
        X = getattr(X, "base", None)
    return X is not None


class Stream:
    """Blocks of records, each of which is checked when its turn comes.

    Parameters
    ----------
    blocks : iterable of (X, y)
        Blocks; the first is read at once for the number and names of the columns.
    read : callable
        Function that prepares X and y for a fit; its third argument says whether they come first.
    n_samples : int
        Number of records in all blocks.

    Raises
    ------
    TypeError
        If a block is not a pair of X and y.
    ValueError
        If a block differs in form from the first one, or there are more or fewer records than
        declared.
    """

    def __init__(self, blocks: Iterable[Any], read: Callable[..., Any], n_samples: int) -> None:
        self.n_samples = n_samples
        self._pairs = _checked_blocks(blocks, read)
        self._first: Any = next(self._pairs, None)
        declared = f"n_samples={n_samples} records were declared, but"
        if self._first is None:
            raise ValueError(
                f"{declared} X has no blocks. (An iterator yields them once: make a new one for "
                "every fit.)"
            )
        size, n_features = self._first[0].shape
        if size > n_samples:
            raise ValueError(f"{declared} block 0 of X alone holds {size}.")
        self.shape = n_samples, n_features

    def open(self, bounds: np.ndarray, intercept: bool) -> Blocks:
        """The records as solvers read them; this is possible only once."""

        def prepare(number, pair):
            with _block(number):
                return as_design(pair[0], bounds, intercept), pair[1]

        first, self._first = prepare(0, self._first), None
        pairs = chain([first], starmap(prepare, enumerate(self._pairs, 1)))
        return Blocks(pairs, lambda *pair: pair, self.n_samples)


def _checked_blocks(blocks: Iterable[Any], read: Callable[..., Any]) -> Iterator[Any]:
    for number, block in enumerate(blocks):
        if not _is_pair(block):
            raise ValueError(
                "X must be an array, a matrix, a frame, or an iterable of pairs (X, y) of blocks "
                f"of records; block {number} is {type(block).__name__!r}."
            )
        with _block(number):
            checked = read(*block, number == 0)
        yield checked


def _is_pair(block: Any) -> bool:
    return isinstance(block, (tuple, list)) and len(block) == 2


@contextmanager
def _block(number: int) -> Iterator[None]:
    """Say in which block of X there is a mistake."""
    try:
        yield
    except (ValueError, TypeError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"Block {number} of X: {error}") from None


class LpModel(PrivateLinearModel):
    """Mean loss in an l_p ball, over records that are read once; see the subclasses."""

    loss: Any
    p: float
    row_norm: Any
    n_samples: Any
    shuffle: bool

    _encode_block: Any  # a function that returns the targets of a block
    _streaming = False  # whether the records of a draft come in blocks

    _conditioned_solvers = ("auto", *BALL_SOLVERS)
    _widest = 6.0
    _keeps_given_balls = True

    def _records(self, X: Any, y: Any, y_numeric: bool, encode: Callable[..., Any]) -> Any:
        """Check X and y of a fit, and prepare them for `_fit`; ``encode`` prepares the target.

        Raises
        ------
        TypeError
            If ``n_samples`` is not an integer, or X or y has the wrong type.
        ValueError
            If ``n_samples`` is wrong or missing, or X or y is not valid.
        """
        n_samples = self.n_samples
        if n_samples is not None:
            if self._relation == ADD_OR_REMOVE:
                raise ValueError(f"n_samples must be None with relation={ADD_OR_REMOVE!r}.")
            check_int("n_samples", n_samples, "None or ", 1, MAX_SAMPLES)
        blocks = as_blocks(X, y)
        if blocks is not None:
            if n_samples not in (None, blocks.n_samples):
                raise ValueError(
                    f"n_samples must be None or that of the blocks, {blocks.n_samples}; got "
                    f"{n_samples!r}."
                )
            records = BlockRecords(blocks, self._encode_block)
            X, y, n_samples = records.read_once(), None, blocks.n_samples
        if not is_stream(X):
            X, y = check_X_y(self, X, y, y_numeric, dtype=FLOATS)
            if n_samples not in (None, len(y)):
                raise ValueError(
                    f"n_samples must be None or the number of records in X, {len(y)}; got "
                    f"{n_samples!r}."
                )
            return X, encode(y)
        if y is not None:
            raise ValueError("y must be None if X yields blocks (X, y).")
        if n_samples is None:
            raise ValueError(
                "n_samples must be given if X yields blocks: their number of records, a "
                f"public int in [1, {MAX_SAMPLES}]."
            )

        def read(X, y, first):
            X, y = check_X_y(self, X, y, y_numeric, reset=first, ensure_min_samples=0, dtype=FLOATS)
            return X, encode(y)

        if isinstance(X, (list, tuple)):
            check_apart([X for X, _ in filter(_is_pair, X)])
        self._streaming = True
        return Stream(X, read, int(n_samples)), None

    def _order(self) -> float:
        """The order of the ball's norm.

        Raises
        ------
        TypeError
            If ``p`` is a boolean.
        ValueError
            If ``p`` is not a supported order.
        """
        if isinstance(self.p, (bool, np.bool_)):
            raise TypeError(f"p must be a number in [1, inf], got {self.p!r}.")
        check_order(self.p)
        return float(self.p)

    def _assumptions(self, loss: Any) -> tuple[str, ...]:
        """Lines for the report."""
        lines = []
        if self.row_norm is not None and isinstance(self.solver, (str, *BALL_SOLVERS.values())):
            norm = check_bound("row_norm", self.row_norm)
            lines.append(f"records divided by the bounds are shrunk to l2 norm {norm:g}")
        if self._streaming:
            lines.append("the number of records and the sizes of the blocks are public")
        return (*lines, *taken_on_trust(loss))

    def _resolved_solver(self, loss: Any, n_samples: int, n_features: int, rho: float) -> Any:
        solver = self.solver
        if isinstance(solver, type):
            raise TypeError(f"solver must be an instance, {solver.__name__}(), not a class.")
        p, smooth = self._order(), loss.smoothness() < math.inf
        if isinstance(solver, str) and solver == "auto":
            if self._relation == ADD_OR_REMOVE:
                solver = "projected-descent"
        if isinstance(solver, str) and solver == "auto":
            once = self._streaming or self.row_norm is not None
            signal = n_samples * math.sqrt(2.0 * rho / max(n_features, 1))
            cornered = p == 1.0 and not is_regressor(self) and signal >= AUTO_BALL.corners
            stated = traits_of(loss).targets is not None
            descends = stated and not (once or cornered or self._ball_is_given())
            solver = automatic_ball_solver(
                p, n_samples, n_features, rho, smooth, self._streaming, descends
            )
        name = solver if isinstance(solver, str) else type(solver).__name__
        if name == "one-pass-frank-wolfe" and p != 1.0:
            raise ValueError(f"solver={name!r} needs the vertices of an l1 ball, p=1; got p={p!r}.")
        if isinstance(solver, str):
            solver = make_ball_solver(solver, bool(self.shuffle))
        if self._streaming and not getattr(solver, "streams", False):
            why = "" if smooth else f", which loss={self.loss!r} needs as it is not smooth,"
            raise ValueError(
                f"solver {name!r}{why} cannot read blocks of records, each of them once. Pass X "
                "and y as arrays, or choose a solver that can."
            )
        return solver

    def _problem(self, loss: Any, n_samples: int, bounds: np.ndarray, target: Target) -> Problem:
        p, intercept = self._order(), bool(self.fit_intercept)
        radius = self._ball_radius(n_samples, bounds, target)
        if is_regressor(self) and not self._ball_is_given():
            solver = self._resolved_solver(loss, n_samples, len(bounds), self._budget().rho)
            radius *= AUTO_BALL.projected if isinstance(solver, ProjectedDescent) else 1.0
        ball = L1Ball(radius) if p == 1.0 else L2Ball(radius) if p == 2.0 else LpBall(p, radius)
        row_norm = math.inf if self.row_norm is None else check_bound("row_norm", self.row_norm)
        n_columns = len(bounds) + intercept
        return Problem(loss, ball, n_samples, n_columns, intercept, row_norm=row_norm)

    def _needs_bounds(self) -> str:
        if self._streaming:
            return "X in memory, as blocks are read once"
        if self.row_norm is not None:
            return "row_norm=None, as a number is in units of the bounds"
        return super()._needs_bounds()

    def _conditions(self, task: Any, n_samples: int, mu: float) -> bool:
        # The row norm applies to unconditioned features, and mapped arrays may not fit into memory.
        in_memory = not self._streaming and not is_mapped(task.X)
        return in_memory and self.row_norm is None and super()._conditions(task, n_samples, mu)

    def _calibrates(self, *sizes: Any) -> bool:
        # Blocks are read once, and scores are those of coefficients that are found by then.
        return not self._streaming and super()._calibrates(*sizes)

    def _design(self, X: Any, bounds: np.ndarray, intercept: bool) -> Any:
        if isinstance(X, Stream):
            return X.open(bounds, intercept)
        return super()._design(X, bounds, intercept)

    def _follow(self, solver: Any, plan: Any, problem: Problem, *data: Any) -> Any:
        result = super()._follow(solver, plan, problem, *data)
        if isinstance(data[0], Blocks):
            data[0].close()
        return result
