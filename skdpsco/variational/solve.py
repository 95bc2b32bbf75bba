"""Private solutions of variational inequalities and saddle points with an operator of your own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skdpsco._quiet import quietly
from skdpsco._validation import check_bound, check_int, check_n_iter, real_array
from skdpsco.base.private_estimator import (
    Payer,
    check_budget,
    plan_within,
    releasing,
    resolve_solver,
)
from skdpsco.constraints.sets import Simplex
from skdpsco.data.record_functions import Data
from skdpsco.privacy.report import PrivacyReport
from skdpsco.privacy.spending import Allowance
from skdpsco.solvers import (
    AcceleratedRecursive,
    BiasReducedMirrorDescent,
    BoostedMirrorDescent,
    MirrorDescent,
)
from skdpsco.solvers.base import assumed_of
from skdpsco.solvers.saddle.geometry import Block
from skdpsco.solvers.saddle.mirror_prox import MirrorProx
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.solvers.saddle.recursive_regularisation import RecursiveRegularisation
from skdpsco.variational.clipped_operator import Clipped, check_operator

__all__ = [
    "VARIATIONAL_SOLVERS",
    "MatrixGame",
    "Operator",
    "VariationalSolution",
    "solve_variational_inequality",
]

VARIATIONAL_SOLVERS: dict[str, Callable[[], Any]] = {
    "accelerated-recursive": AcceleratedRecursive,
    "bias-reduced-mirror-descent": BiasReducedMirrorDescent,
    "boosted-mirror-descent": BoostedMirrorDescent,
    "mirror-descent": MirrorDescent,
    "mirror-prox": MirrorProx,
    "recursive-regularisation": RecursiveRegularisation,
}
# Thresholds above which "auto" is mirror descent for games of vectors:
# docs/proofs/mirror_descent.md, section 5.
LEAST_SIZE, LEAST_STEPS = 30, 500


@dataclass(frozen=True)
class Operator:
    """An operator of your own, and what you declare of it. Games declare it themselves.

    Parameters
    ----------
    function : callable
        ``function(z, *arrays)`` returns an array of shape (n_records, size). Each row must depend
        only on z and on its record. It is called with read-only parts of the data. A record for
        which it raises an exception, or returns anything but finite real numbers, counts as 0. It
        should not warn because of a value, since a warning reveals something about the record. z
        may be outside the sets by a rounding error.
    blocks : sequence of Block
        The players: their sets, sizes and bounds, in the order in which z holds them.
    saddle : bool, default=False
        Whether the operator is ``(df/dw, -df/dv)`` for a convex-concave f.
    smoothness : array-like of shape (n_blocks, n_blocks) or None, default=None
        Entry (i, j) bounds how far block i of the operator moves, in its dual norm, when block j of
        z moves by one unit. It makes the solver faster. The privacy of "accelerated-recursive"
        rests on it: with too small a number that solver is not private.
    monotone : bool, default=False
        Whether you know that the operator is monotone for *every* data set, and respects its bounds
        and its smoothness without being clipped. "accelerated-recursive" is private only then. (If
        a block has a ``sensitivity``, each record's row must be within *half* of it in l2 norm.) To
        make this true, clip the records instead of the operator.
    """

    function: Callable[..., np.ndarray]
    blocks: Sequence[Block]
    saddle: bool = False
    smoothness: Any = None
    monotone: bool = False


class MatrixGame:
    """Operator of a zero-sum game whose payoff matrix is the mean of the records' matrices.

    The row player w minimises, and the column player v maximises, ``w' A v`` over simplices.

    Parameters
    ----------
    n_rows, n_columns : int
        Number of actions of each player.
    bound : float
        Payoffs are clipped to [-bound, bound].

    Attributes
    ----------
    blocks, saddle, smoothness, monotone, second_smoothness, value_bound
        What `solve_variational_inequality` asks for.
    """

    saddle = True
    monotone = True  # for all payoffs, since the payoffs are clipped and not the operator
    second_smoothness: ClassVar[float] = 0.0

    def __init__(self, n_rows: int, n_columns: int, bound: float = 1.0) -> None:
        self.bound: float = check_bound("bound", bound)
        self.value_bound: float = self.bound
        sizes = check_int("n_rows", n_rows), check_int("n_columns", n_columns)
        self.blocks: Any = tuple(Block(Simplex(), size, self.bound) for size in sizes)
        self.smoothness: Any = [[0.0, self.bound], [self.bound, 0.0]]

    def __call__(self, z: np.ndarray, payoffs: np.ndarray) -> np.ndarray:
        """Operators of records.

        Parameters
        ----------
        z : ndarray of shape (n_rows + n_columns,)
        payoffs : ndarray of shape (n_samples, n_rows, n_columns)

        Returns
        -------
        G : ndarray of shape (n_samples, n_rows + n_columns)
        """
        A, w, v = self._play(z, payoffs)
        return np.hstack([A @ v, -(A.transpose(0, 2, 1) @ w)])

    def value(self, z: np.ndarray, payoffs: np.ndarray) -> np.ndarray:
        """What w pays to v for each record, as an array of shape (n_samples,)."""
        A, w, v = self._play(z, payoffs)
        return A @ v @ w

    def _play(self, z: np.ndarray, payoffs: np.ndarray) -> tuple[np.ndarray, ...]:
        """Clipped payoffs, and the strategies of both players."""
        m = self.blocks[0].size
        if payoffs.shape[1:] != (m, self.blocks[1].size):
            raise ValueError(
                f"Every record must be a matrix of shape {(m, self.blocks[1].size)}, got "
                f"{payoffs.shape[1:]}."
            )
        return payoffs.clip(-self.bound, self.bound), z[:m], z[m:]


@dataclass
class VariationalSolution:
    """What `solve_variational_inequality` releases.

    Parameters
    ----------
    z : ndarray of shape (size,)
    blocks : list of ndarray
        The parts of z, one per player.
    n_iter : int
        Number of steps, which is public.
    privacy : PrivacyReport
    n_rounds : int or None
        Number of rounds of a recursive solver, which is public; 1 means that it did not recurse.
        None for other solvers.
    """

    z: np.ndarray
    blocks: list[np.ndarray]
    n_iter: int
    privacy: PrivacyReport
    n_rounds: int | None = None


def solve_variational_inequality(
    operator: Any,
    data: Any,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    solver: Any = "auto",
    n_iter: Any = "auto",
    probes: Any = None,
    ledger: Any = None,
    random_state: Any = None,
) -> VariationalSolution:
    """Solve a monotone variational inequality, or a saddle-point problem, under privacy.

    Find z in a convex set Z with ``<G(z), u - z> >= 0`` for all u in Z, where G is the mean of the
    records' operators, clipped to the bounds that their blocks declare. The result is (epsilon,
    delta)-differentially private for replacing one record; the number of records is public.

    Parameters
    ----------
    operator : Operator or game
        An `Operator`, or a callable with the same attributes, such as `BilinearGame`.
    data : ndarray or tuple of ndarray
        Finite numbers, with one record per entry of the first axis.
    epsilon, delta : float
        The privacy budget.
    solver : str or object, default="auto"
        "mirror-prox", "recursive-regularisation", "accelerated-recursive", or, for games on two
        simplices, "mirror-descent", "bias-reduced-mirror-descent" or "boosted-mirror-descent"; or
        an object with ``plan`` and ``run``. "auto" is mirror descent for linear and quadratic games
        of many actions and records, and otherwise mirror prox. See :doc:`/algorithms`.
    n_iter : int or "auto", default="auto"
        Number of steps, in [1, 10000]; "auto" for "accelerated-recursive".
    probes : ndarray or tuple of ndarray, default=None
        *Public* records, such as invented ones, on which declarations about the operator are
        checked.
    ledger : Ledger or None, default=None
        Ledger that is charged before noise is drawn.
    random_state : None, int or RandomState, default=None
        A seed makes the noise known: for tests only.

    Returns
    -------
    solution : VariationalSolution

    Raises
    ------
    TypeError
        If a parameter has the wrong type.
    ValueError
        If a parameter is out of range, the data are not finite, or the operator is not what it
        declares on the probes. (It is tried on the first record before the charge; errors there are
        not covered by the guarantee.)

    Warns
    -----
    UtilityWarning
        If "recursive-regularisation" does not recurse, which follows from public sizes alone.

    See Also
    --------
    skdpsco.variational.Operator : An operator of your own.
    skdpsco.variational.BilinearGame : A saddle point.
    skdpsco.variational.duality_gap : How far a solution is from optimal.

    Notes
    -----
    The privacy of "accelerated-recursive" rests on what is declared as ``smoothness`` and
    ``monotone``. Proof: :doc:`/proofs/mirror_prox`.

    References
    ----------
    Bassily, Guzman, Menart. Private Algorithms for Stochastic Saddle Points and Variational
    Inequalities: Beyond Euclidean Geometry. NeurIPS 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco.variational import MatrixGame, solve_variational_inequality
    >>> payoffs = np.tile([[1.0, 0.0], [0.0, 0.5]], (10_000, 1, 1))  # both play (1/3, 2/3)
    >>> solution = solve_variational_inequality(MatrixGame(2, 2), payoffs, epsilon=1.0, delta=1e-6)
    >>> print(np.abs(solution.z - [1 / 3, 2 / 3, 1 / 3, 2 / 3]).max() < 0.1)
    True

    The mean of records in a ball, as the solution of ``G(z; x) = z - x``:

    >>> from skdpsco.constraints import L2Ball
    >>> from skdpsco.variational import Block, Operator
    >>> x = np.tile([0.3, -0.4], (10_000, 1))
    >>> ball = Block(L2Ball(1.0), size=2, lipschitz=2.0)
    >>> operator = Operator(lambda z, x: z - x, blocks=[ball], smoothness=[[1.0]])
    >>> print(solve_variational_inequality(operator, x).z.shape)
    (2,)
    """
    budget = check_budget(epsilon, delta, ledger)
    clipped = _clipped(operator)
    arrays = _arrays("data", data)
    problem = VariationalProblem(clipped, len(arrays[0]))
    steps = check_n_iter(n_iter)

    def best() -> Any:
        descend = steps is None and _many_actions(problem, budget.rho)
        return VARIATIONAL_SOLVERS["mirror-descent" if descend else "mirror-prox"]()

    solver = resolve_solver(solver, {"auto": best, **VARIATIONAL_SOLVERS})
    if not (hasattr(solver, "plan") and hasattr(solver, "run")):
        raise TypeError(f"solver must be an object with plan and run, got {solver!r}.")
    if probes is not None:
        check_operator(clipped, problem.geometry, _arrays("probes", probes))
    clipped.try_record(problem.geometry.start(), tuple(array[:1] for array in arrays))
    available = budget if ledger is None else Allowance(budget.rho)
    plan = plan_within(lambda spend: solver.plan(problem, spend, steps), available)
    parameters = {"epsilon": epsilon, "delta": delta, "n_iter": plan.n_iter}
    assumptions = (
        "the operator of a record depends on that record only",
        "the sets, bounds, smoothness and probes are public",
        *assumed_of(solver, plan),
    )
    with releasing(
        Payer(ledger, "solve_variational_inequality", parameters),
        plan.event,
        budget,
        random_state,
        assumptions=assumptions,
        warnings=plan.warnings,
    ) as release:
        z = solver.run(plan, problem, arrays, release.rng)
    assert release.privacy is not None
    parts = [z[part] for part in problem.geometry.parts]
    return VariationalSolution(z, parts, plan.n_iter, release.privacy, plan.n_rounds)


def _many_actions(problem: VariationalProblem, rho: float) -> bool:
    """Whether mirror descent on draws of vertices is clearly better, from public sizes alone."""
    operator: Any = problem.operator
    affine = operator.game is not None and operator.saddle and operator.second_smoothness == 0.0
    if not affine or min(block.size for block in operator.blocks) < LEAST_SIZE:
        return False
    return MirrorDescent().schedule(problem, rho)[0] >= LEAST_STEPS


def _clipped(operator: Any) -> Clipped:
    function = operator.function if isinstance(operator, Operator) else operator
    if not callable(function):
        raise TypeError(f"operator must be callable, got {type(function).__name__}.")
    blocks = getattr(operator, "blocks", None)
    if not isinstance(blocks, (list, tuple)) or not blocks:
        raise TypeError(
            "operator must be an Operator, or have attributes like one: blocks must be a non-empty "
            f"sequence of Block, got {blocks!r}."
        )
    if not all(type(block) is Block for block in blocks):  # a subclass might change its bounds
        raise TypeError(f"blocks must be a non-empty sequence of Block, got {blocks!r}.")
    smoothness = getattr(operator, "smoothness", None)
    if smoothness is not None:
        k = len(blocks)
        matrix = real_array(smoothness)
        if matrix is None or matrix.shape != (k, k):
            raise ValueError(f"smoothness must be numbers of shape ({k}, {k}), got {smoothness!r}.")
        if not ((matrix >= 0) & (matrix <= 1e100)).all():
            raise ValueError(f"smoothness must be in [0, 1e+100], got {smoothness!r}.")
        smoothness = matrix.astype(np.float64)
    saddle, monotone = _flag(operator, "saddle"), _flag(operator, "monotone")
    return Clipped(function, tuple(blocks), saddle, smoothness, monotone)


def _flag(operator: Any, name: str) -> bool:
    """What the operator declares by its attribute of this name, False by default."""
    value = getattr(operator, name, False)
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be a bool, got {value!r}.")
    return bool(value)


def _arrays(name: str, data: Any) -> Data:
    """Check arrays of equal length: finite numbers as float64, integers unchanged."""
    arrays = []
    for given in data if isinstance(data, tuple) else (data,):
        legal = f"{name} must be an array of numbers, or a tuple of such arrays."
        array = quietly(legal, np.asarray, given)
        if array.dtype.kind not in "biuf" or array.ndim == 0:
            raise TypeError(legal)
        if array.dtype.kind == "f":
            with np.errstate(all="ignore"):  # of a long double
                array = array.astype(np.float64)
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite, but contains NaN or infinity.")
        arrays.append(array)
    if not arrays or len({len(array) for array in arrays}) != 1 or len(arrays[0]) == 0:
        raise ValueError(f"The arrays of {name} must have the same number of records, at least 1.")
    return tuple(arrays)
