"""The base class of linear models in an l_p ball, and the choice of a solver."""

import math
from numbers import Real
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from sklearn.base import is_regressor

from skdpsco._typing import SolverLike
from skdpsco._validation import (
    HasMethods,
    Interval,
    StrOptions,
    check_bound,
)
from skdpsco.base.linear_model import PrivateLinearModel
from skdpsco.base.parameters import BallParameters, Constraints, with_parameters
from skdpsco.constraints.norms import check_order
from skdpsco.constraints.sets import L1Ball, L2Ball, LpBall
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

__all__ = ["LOSS", "LpModel"]

BALL_SOLVERS: dict[str, Any] = {
    "one-pass-frank-wolfe": OnePassFrankWolfe,
    "phased-erm": PhasedERM,
    "phased-sgd": PhasedSGD,
    "projected-descent": ProjectedDescent,
    "tree-frank-wolfe": TreeFrankWolfe,
}
# What plans need from a declared loss. A fit looks up its kernels, and probes them.
LOSS = HasMethods(["lipschitz", "smoothness"])


class AutoBallTuning(NamedTuple):
    """Constants of an automatic solver (examples/benchmarks/lp_geometry.py) and radius.

    n is the number of records, d that of features, and mu the budget in Gaussian privacy.

    Parameters
    ----------
    clear : float
        Above this r = (n mu)**(1/3) / log(2 d), one feature can be told from the rest.
    many_features : float
        Above this d / (r log(2 d)**2), there are many features.
    projected : float
        What an automatic radius is multiplied by for "projected-descent", whose noise does not grow
        with the ball; except for labels if p > 1, where nearly all solutions are in the ball.
    growth_ratio : float
        The n mu / sqrt(d) above which a radius grows in proportion to it, up to a limit: no
        default should keep a model from its optimum if nothing else does.
    largest_growth : float
        That limit.
    shrinking_ratio : float
        The n mu / sqrt(d) below which the radius of a regression shrinks in proportion to it, down
        to a limit: in a larger ball its noise would predict worse than a constant does.
    """

    clear: float = 1.26
    many_features: float = 5.0
    projected: float = 2.0
    growth_ratio: float = 250.0
    largest_growth: float = 8.0
    shrinking_ratio: float = 100.0


AUTO_BALL = AutoBallTuning()


def has_vertices_to_choose(n_samples: int, n_features: int, rho: float) -> bool:
    """Whether Frank-Wolfe is best in an l1 ball, from public values.

    Its noise grows only with log(d), but falls more slowly with n than that of gradients. So it is
    best for many features, if one of them can be told from the rest at all.
    """
    d = max(n_features, 1)
    root, log_d = (n_samples * math.sqrt(2.0 * rho)) ** (1.0 / 3.0), math.log(2.0 * d)
    return root > AUTO_BALL.clear * log_d and d > AUTO_BALL.many_features * root * log_d


def is_mapped(X: Any) -> bool:
    """Whether X is an array that is mapped from a file."""
    while X is not None and not isinstance(X, np.memmap):
        X = getattr(X, "base", None)
    return X is not None


@with_parameters()
class LpModel(BallParameters, PrivateLinearModel):
    """Mean loss in an l_p ball; see the subclasses."""

    p: float = 2.0
    row_norm: float | None = None
    solver: (
        Literal[
            "auto",
            "projected-descent",
            "phased-sgd",
            "one-pass-frank-wolfe",
            "tree-frank-wolfe",
            "phased-erm",
        ]
        | SolverLike
    ) = "auto"

    _parameter_constraints: ClassVar[Constraints] = {
        "p": [Interval(Real, 1, None, closed="both")],
        "row_norm": [None, Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"auto", *BALL_SOLVERS}), HasMethods(["plan", "run"])],
    }

    _conditioned_solvers = ("auto", *BALL_SOLVERS)
    _widest = 6.0
    _keeps_given_balls = True
    _least_growth: ClassVar[float] = 1.0  # of an automatic radius

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

    def _loss_notes(self, loss):
        lines: tuple[str, ...] = ()
        if self.row_norm is not None and isinstance(self.solver, (str, *BALL_SOLVERS.values())):
            norm = check_bound("row_norm", self.row_norm)
            lines = (f"records divided by the bounds are shrunk to l2 norm {norm:g}",)
        return (*lines, *taken_on_trust(loss))

    def _resolved_solver(self, loss: Any, n_samples: int, n_features: int, rho: float) -> Any:
        solver: Any = self.solver
        if isinstance(solver, type):
            raise TypeError(f"solver must be an instance, {solver.__name__}(), not a class.")
        if isinstance(solver, str) and solver == "auto":
            solver = self._automatic_solver(loss, n_samples, n_features, rho)
        name = solver if isinstance(solver, str) else type(solver).__name__
        if name == "one-pass-frank-wolfe" and self._order() != 1.0:
            raise ValueError(
                f"solver={name!r} needs the vertices of an l1 ball, p=1; got p={self.p!r}."
            )
        return BALL_SOLVERS[solver]() if isinstance(solver, str) else solver

    def _automatic_solver(self, loss: Any, n_samples: int, n_features: int, rho: float) -> str:
        """Name of the best solver for a problem of this kind, from public values."""
        if self._relation == ADD_OR_REMOVE:
            return "projected-descent"
        if loss.smoothness() == math.inf:
            return "phased-erm"
        if self._order() == 1.0 and has_vertices_to_choose(n_samples, n_features, rho):
            return "tree-frank-wolfe"
        if self.row_norm is None and traits_of(loss).targets is not None:
            return "projected-descent"
        return "phased-sgd" if self._by_blocks else "phased-erm"

    def _growth(self, loss: Any, n_samples: int, n_features: int) -> float:
        """Factor of an automatic radius: above 1 with little noise, and below 1 with much."""
        budget = self._budget()
        ratio, factor = n_samples * budget.mu / math.sqrt(max(n_features, 1)), 1.0
        if self._order() == 1.0 or is_regressor(self):
            solver = self._resolved_solver(loss, n_samples, n_features, budget.rho)
            factor = AUTO_BALL.projected if isinstance(solver, ProjectedDescent) else 1.0
        if ratio < AUTO_BALL.growth_ratio:
            return factor * max(min(ratio / AUTO_BALL.shrinking_ratio, 1.0), self._least_growth)
        return factor * min(ratio / AUTO_BALL.growth_ratio, AUTO_BALL.largest_growth)

    def _problem(self, loss: Any, n_samples: int, bounds: np.ndarray, target: Target) -> Problem:
        p, intercept = self._order(), bool(self.fit_intercept)
        radius = self._ball_radius(bounds, target)
        if not self._ball_is_given():
            radius *= self._growth(loss, n_samples, len(bounds))
        ball = L1Ball(radius) if p == 1.0 else L2Ball(radius) if p == 2.0 else LpBall(p, radius)
        row_norm = math.inf if self.row_norm is None else check_bound("row_norm", self.row_norm)
        n_columns = len(bounds) + intercept
        return Problem(loss, ball, n_samples, n_columns, intercept, row_norm=row_norm)

    def _needs_bounds(self) -> str:
        if self.row_norm is not None:
            return "row_norm=None, as a number is in units of the bounds"
        return super()._needs_bounds()

    def _conditions(self, task: Any, n_samples: int, mu: float) -> bool:
        # The row norm applies to unconditioned features, and mapped arrays may not fit into memory.
        free = self.row_norm is None and not is_mapped(task.X)
        return free and super()._conditions(task, n_samples, mu)
