"""Private linear classifiers in an l_p ball."""

from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils.metaestimators import available_if

from skdpsco._typing import LossLike, MatrixLike
from skdpsco._validation import StrOptions
from skdpsco.base.parameters import Constraints, RecordParameters, with_parameters
from skdpsco.linear_model._classifier_regressor import LogisticClassifier
from skdpsco.linear_model._lp_ball import LOSS, LpModel
from skdpsco.losses.check import loss_of
from skdpsco.losses.library import Multinomial, is_proven
from skdpsco.losses.traits import traits_of

__all__ = ["PrivateLinearClassifier"]


def _is_logistic(model: Any) -> bool:
    loss = model.loss
    return loss == "logistic" if isinstance(loss, str) else traits_of(loss).scores == "log-odds"


@with_parameters(
    C="The parameter `radius` bounds the l_p norm of the coefficients in its place; "
    "PrivateLogisticRegression has C.",
    standard_errors="PrivateLogisticRegression has them, without a ball.",
)
class PrivateLinearClassifier(LogisticClassifier, RecordParameters, LpModel):
    """Differentially private linear classifier in an l_p ball.

    It minimises the mean loss subject to ``||w||_p <= radius``.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit}
    loss : {"logistic", "smooth-hinge", "hinge"} or loss, default="logistic"
        A loss of `skdpsco.losses` or your own: see :doc:`/extending`. Several classes need
        "logistic".
    {p, radius_of_lp_ball, feature_bound, row_norm, solver_of_lp_ball, n_iter}
    {fit_intercept, classes, class_weight, max_weight, relation}
    {random_state}

    Attributes
    ----------
    {coef_of_classes, intercept_of_classes, classes_, feature_bound_, feature_range_, n_iter_}
    {n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateLinearRegressor : For a number.
    PrivateLogisticRegression : Logistic loss with a penalty.

    Notes
    -----
    {guarantee}
    Proofs: :doc:`/proofs/lp_ball`.

    References
    ----------
    Bassily, Guzmán, Nandi. Non-Euclidean Differentially Private Stochastic Convex Optimization.
    COLT 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateLinearClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20000, 20))
    >>> y = X[:, 0] - X[:, 3] > 0.1
    >>> PrivateLinearClassifier(p=1, classes=[False, True]).fit(X, y).score(X, y) > 0.8
    True
    """

    loss: Literal["logistic", "smooth-hinge", "hinge"] | LossLike = "logistic"

    _parameter_constraints: ClassVar[Constraints] = {
        "loss": [StrOptions({"logistic", "smooth-hinge", "hinge"}), LOSS],
    }

    _auto_radius = 5.0

    def _class_loss(self, n_classes: int) -> Any:
        """The loss for so many classes.

        Raises
        ------
        TypeError
            If the loss is a class, or lacks a kernel or method.
        ValueError
            If the loss does not suit the number of classes, or violates what it declares.
        """
        loss, softmax = self.loss, Multinomial(n_classes)
        if n_classes == 2 and traits_of(loss).targets != "classes":
            return loss_of(self, "loss", loss, "signs")
        # A NamedTuple of another class is equal, too, if its only field is the same number.
        known = type(loss) in (str, Multinomial)
        if n_classes > 2 and known and loss in ("logistic", softmax):
            return softmax
        legal = "of one prediction" if n_classes == 2 else f"'logistic' or Multinomial({n_classes})"
        raise ValueError(f"With {n_classes} classes loss must be {legal}, got {loss!r}.")

    def _weighted_loss(self, loss: Any) -> Any:
        if self._weighs() and not is_proven(loss):
            raise ValueError(
                f"class_weight and sample_weight are for losses of this package, not {loss!r}."
            )
        return super()._weighted_loss(loss)

    @available_if(_is_logistic)
    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probability of every class; for the logistic loss only.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        p : ndarray of shape (n_samples, n_classes)
        """
        return super().predict_proba(X)

    @available_if(_is_logistic)
    def predict_log_proba(self, X: MatrixLike) -> np.ndarray:
        """Logarithm of the probability of every class; for the logistic loss only.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        log_p : ndarray of shape (n_samples, n_classes)
        """
        return super().predict_log_proba(X)
