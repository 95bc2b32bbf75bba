"""Private linear regressions whose largest loss is small."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import r2_score

from skdpsco._typing import LossLike, MatrixLike, TargetLike
from skdpsco._validation import StrOptions
from skdpsco.base.parameters import Constraints, TargetParameters, with_parameters
from skdpsco.base.predictions import LinearRegressorMixin
from skdpsco.minimax._model import MinimaxModel
from skdpsco.minimax._tasks import Tasks
from skdpsco.scaling.stages import Units

__all__ = ["PrivateMinimaxRegressor"]


@with_parameters()
class PrivateMinimaxRegressor(LinearRegressorMixin, TargetParameters, MinimaxModel):
    """Differentially private linear regression whose largest loss is small.

    It minimises the largest mean loss of several tasks: several losses of the same residuals, such
    as the costs of too high and too low predictions, or several targets with one common prediction.

    Parameters
    ----------
    losses : {"squared", "huber", "absolute"}, loss or list of these, default="squared"
        Losses of residuals, in units of the spread of y, from `skdpsco.losses`, such as
        ``[Quantile(0.3), Quantile(0.7)]``, or your own: see :doc:`/extending`. Each is a task, so
        their scales matter.
    tasks : {"columns"} or None, default=None
        With "columns", each column of y is a task.
    {epsilon, delta, ledger, max_records_per_unit, radius_of_game, feature_bound}
    {target_bound, fit_intercept, solver_of_game, n_iter, random_state}

    Attributes
    ----------
    {coef_, intercept_, task_weights_, feature_bound_, feature_range_, target_range_, n_iter_}
    {n_rounds_, n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateMinimaxClassifier : For classes.
    PrivateGroupDRO : For the worst of several groups.

    Notes
    -----
    {guarantee}
    Proof: :doc:`/proofs/maximal_loss`.

    References
    ----------
    Bassily, Guzmán, Menart. Private Algorithms for Stochastic Saddle Points and Variational
    Inequalities: Beyond Euclidean Geometry. NeurIPS 2024.

    Examples
    --------
    Three instruments, one of which is biased:

    >>> import numpy as np
    >>> from skdpsco import PrivateMinimaxRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 5))
    >>> y = 0.4 * X[:, [0]] + np.array([0.0, 0.0, 0.4]) + 0.1 * rng.normal(size=(20000, 3))
    >>> model = PrivateMinimaxRegressor(tasks="columns").fit(X, y)
    >>> abs(model.intercept_ - 0.2) < 0.05
    True
    """

    losses: str | LossLike | Sequence[str | LossLike] = "squared"
    tasks: Literal["columns"] | None = None

    _parameter_constraints: ClassVar[Constraints] = {
        "tasks": [None, StrOptions({"columns"})],
    }
    _targets, _foreign = "numbers", ("signs", "classes")
    _auto_radius = 1.0

    def _learn(self, X, y):
        losses = self._resolved_losses()
        X, y = self._checked(X, y, y_numeric=True)
        tasks = Tasks(losses, y.shape[1])
        return self._fit(X, y, tasks, self.target_bound, (), regression=True)

    def _set_ranges(self, units: Units) -> None:
        super()._set_ranges(units)
        self.target_range_: np.ndarray = units.target.range

    def score(  # type: ignore[override]
        self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """R^2, on the worst column if y has several; without noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_tasks)
            True targets, of one task or several.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the records; None weighs all of them the same.

        Returns
        -------
        score : float
            At most 1; 0 is the score of the mean of y.
        """
        return self._worst(r2_score, X, y, sample_weight)
