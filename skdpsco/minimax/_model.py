"""The base class of the models that minimise a maximal loss."""

import math
from dataclasses import field
from typing import Any, ClassVar, Literal

import numpy as np

from skdpsco._quiet import quietly, score_by
from skdpsco._typing import SolverLike
from skdpsco._validation import (
    HasMethods,
    StrOptions,
    check_X_y,
)
from skdpsco.base.linear_model import PrivateLinearModel
from skdpsco.base.parameters import BallParameters, Constraints, with_parameters
from skdpsco.losses.check import loss_of
from skdpsco.minimax._descent import TaskGradients
from skdpsco.minimax._solver import MINIMAX_SOLVERS, minimax_solver
from skdpsco.minimax._tasks import MinimaxProblem
from skdpsco.privacy._checks import abridged
from skdpsco.scaling.calibration import CLASS_CURVE, SHORT_CURVE, TargetCurve, curve_of
from skdpsco.scaling.target import Target

__all__ = ["MinimaxModel"]


@with_parameters()
class MinimaxModel(BallParameters, PrivateLinearModel):
    """A linear model in an l1 ball with a small maximal loss; see the subclasses."""

    solver: (
        Literal[
            "auto",
            "gradient-descent",
            "mirror-descent",
            "bias-reduced-mirror-descent",
            "boosted-mirror-descent",
            "mirror-prox",
            "recursive-regularisation",
        ]
        | SolverLike
    ) = "auto"

    _parameter_constraints: ClassVar[Constraints] = {
        "losses": [str, "array-like", tuple, HasMethods(["lipschitz", "smoothness"])],
        "solver": [
            StrOptions({"auto", "gradient-descent", *MINIMAX_SOLVERS}),
            HasMethods(["plan", "run"]),
        ],
    }

    task_weights_: np.ndarray = field(init=False)
    class_prior_: np.ndarray = field(init=False)

    losses: Any = field(init=False)
    tasks: Any = field(init=False)

    _conditioned_solvers = ("auto", "gradient-descent", *MINIMAX_SOLVERS)
    _widest = 6.0
    _keeps_given_balls = True
    _targets: ClassVar[str]  # of losses
    _foreign: ClassVar[tuple[str, ...]]  # targets of losses that are refused

    def _resolved_losses(self) -> tuple[Any, ...]:
        """The losses, by name or as given; losses of the user are probed.

        Raises
        ------
        TypeError
            If ``losses`` holds something that is not a loss, or a class instead of an instance.
        ValueError
            If a name is unknown, or a loss is for other targets.
        """
        given = self.losses
        one = isinstance(given, str) or hasattr(given, "n_outputs")
        if not one and (not isinstance(given, (list, tuple)) or len(given) == 0):
            raise TypeError(f"losses must be a loss or a list of losses, got {abridged(given)}.")
        return tuple(
            loss_of(self, "losses", loss, self._targets, self._foreign)
            for loss in ([given] if one else given)
        )

    def _resolved_solver(self, loss: Any, n_samples: int, n_features: int, rho: float) -> Any:
        return minimax_solver(self.solver, loss)

    def _problem(self, loss: Any, n_samples: int, bounds: np.ndarray, target: Target) -> Any:
        radius = self._ball_radius(bounds, target)
        solver = minimax_solver(self.solver, loss)
        if isinstance(solver, TaskGradients) and not self._ball_is_given():
            radius = math.inf
        intercept = bool(self.fit_intercept)
        return MinimaxProblem(loss, radius, n_samples, len(bounds) + intercept, intercept)

    def _follow(self, solver: Any, plan: Any, problem: Any, *data: Any) -> Any:
        result = super()._follow(solver, plan, problem, *data)
        self.task_weights_ = result.task_weights
        if problem.tasks.counts_first:
            self.class_prior_ = result.shares
        return result

    def _curve(self, loss: Any) -> TargetCurve | None:
        if loss.class_weights is not None:
            return None
        one = len(loss.losses) == 1 and loss.n_outputs == 1
        curve: Any = curve_of(loss.losses[0]) if one else None
        return SHORT_CURVE if curve is CLASS_CURVE else curve

    def _calibration_targets(self, result: Any, y: Any, n_samples: int) -> tuple[Any, float]:
        weights = result.task_weights[0]
        if result.shares is None:
            return y @ weights, float(n_samples)
        rates = weights / result.shares
        rates /= rates.max()
        targets = np.column_stack([y, rates[(y[:, 0] > 0.0).astype(int)]])
        return targets, n_samples * float(rates @ result.shares)

    def _checked(self, X: Any, y: Any, y_numeric: bool) -> tuple[Any, np.ndarray]:
        """X, and y with one column per target of a record.

        Raises
        ------
        TypeError
            If X or y has the wrong type.
        ValueError
            If X or y has the wrong shape, or is not finite and numeric.
        """
        several = self.tasks == "columns"
        X, y = check_X_y(self, X, y, y_numeric, multi_output=several)
        if several and y.ndim != 2:
            raise ValueError(
                f"y must have shape (n_samples, n_tasks) for tasks='columns', got shape {y.shape}."
            )
        return X, y.reshape(len(y), -1)

    def _worst(self, metric: Any, X: Any, y: Any, sample_weight: Any) -> float:
        """The score; with several targets, the worst of their scores."""
        predicted, y = self.predict(X), quietly("y must hold targets.", np.asarray, y)
        columns = y.T if y.ndim == 2 else [y]
        return min(score_by(metric, column, predicted, sample_weight) for column in columns)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
