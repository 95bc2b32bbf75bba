"""Problems as planners see them, and what is known of the error of a solution."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from skdpsco.constraints.sets import in_double_precision

__all__ = ["Problem", "Uncertainty"]


@dataclass(frozen=True)
class Problem:
    """What a planner may know: loss, constraint and public sizes, never data.

    Features are in [-1, 1] and targets in ``[-target_bound, target_bound]``, as ensured by
    `skdpsco.data.design` and the estimators.

    Parameters
    ----------
    loss : NamedTuple of `skdpsco.losses`
    constraint : NamedTuple of `skdpsco.constraints`, or None for a radius yet to be chosen
    n_samples : int
    n_features : int
        Number of features, including the column of ones of an intercept.
    intercept : bool
        Whether the last column is this column of ones.
    target_bound : float, default=1.0
    row_norm : float, default=inf
        Bound on the l2 norm of a record's features without the intercept's 1. Solvers that read
        records through `skdpsco.data.record_stream` shorten longer rows to it. (With features in
        [-1, 1] the norm is at most sqrt(n_features).)
    sparse : bool, default=False
        Whether records are sparse.
    centred : bool, default=False
        Whether features are known to have a mean near 0.
    mean_square : tuple of float, or None
        Mean square of every feature except that of the intercept, if a release has measured it.
    added : bool, default=False
        Whether neighbours add a record or remove one, and do not replace one. Then ``n_samples`` is
        a noisy count, which was released.
    """

    loss: Any
    constraint: Any
    n_samples: int
    n_features: int
    intercept: bool = False
    target_bound: float = 1.0
    row_norm: float = math.inf
    sparse: bool = False
    centred: bool = False
    mean_square: tuple[float, ...] | None = None
    added: bool = False

    def __post_init__(self) -> None:
        # Squares of smaller bounds would underflow, and longer rows would not be shortened.
        if not self.row_norm >= 1e-150:
            raise ValueError(f"row_norm must be at least 1e-150, got {self.row_norm!r}.")
        object.__setattr__(self, "constraint", in_double_precision(self.constraint))

    @property
    def n_coefficients(self) -> int:
        """Length of the flat vector of coefficients."""
        return self.n_features * self.loss.n_outputs

    def n_mu(self, mu: float) -> float:
        """Number of records times mu, which tells how large sums of gradients are beside noise.

        It counts twice where records are added, as these move sums by half as much.
        """
        return self.n_samples * mu * (2.0 if self.added else 1.0)

    def feature_norm(self, order: float) -> float:
        """Bound on the norm of ``order`` >= 1 of a record's features, with the intercept's 1.

        Let x in [-1, 1]^d have l2 norm at most B. For q >= 2 the sum of ``|x_j|^q`` is at most
        ``max |x_j|^(q - 2)`` times B^2; for smaller q, Hoelder's inequality holds. The bound covers
        the rounding of the features.
        """
        d = self.n_features - self.intercept
        l2 = min(self.row_norm, math.sqrt(d))
        if order >= 2.0:
            given = min(1.0, l2) * max(1.0, l2) ** (2.0 / order)
        else:
            given = d ** (1.0 / order - 0.5) * l2
        norm = max(given, 1.0) if self.intercept else given
        if self.intercept and order < math.inf:
            norm *= ((min(given, 1.0) / max(given, 1.0)) ** order + 1.0) ** (1.0 / order)
        return norm * (1.0 + (self.n_features + 16) * 2.0**-51)


class Uncertainty(NamedTuple):
    """Uncertainty of a model's coefficients and intercept.

    With several targets, all numbers but ``joint`` have one more axis, the first. With more than
    two classes the covariance alone has it.

    Parameters
    ----------
    covariance : ndarray of shape (n_features + 1, n_features + 1)
        Covariance of the coefficients, followed by the intercept.
    curvature_noise : float
        Noise in the curvatures (for least squares, in the covariances of the features), relative to
        them. Unless it is far below 1, coefficients are not nearly linear in the noise.
    doubtful : bool
        Whether this noise is so large that the coverage of intervals is doubtful.
    residual_variance : float or None
        Variance of the target around predictions: its mean given what was released, if all
        variances were equally likely before. Noise may make the released variance negative. None
        where targets are labels.
    joint : ndarray of shape (n_classes, n_features + 1, n_classes, n_features + 1), or None
        Covariance of the coefficients of all classes together, if there are more than two, or of
        all targets (with n_targets in place of n_classes), if there are two or more, and at most
        1000 coefficients and intercepts. ``covariance[k]`` is ``joint[k, :, k]``.
    debiasing : ndarray of shape (n_features + 1,), or (n_classes, n_features + 1), or None
        What an l1 penalty has taken off the coefficients and the intercept: intervals are for
        coefficients without any penalty, and around those of the model plus this. None without such
        a penalty.
    risk_variance : float or None
        Variance of predictions, if the baseline hazard depends on it.
    """

    covariance: np.ndarray
    curvature_noise: Any
    doubtful: Any
    residual_variance: Any = None
    joint: Any = None
    debiasing: Any = None
    risk_variance: Any = None
