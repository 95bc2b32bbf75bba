"""Private logistic regression in an l1 ball."""

from skdpsco.base.parameters import L1BallParameters, RecordParameters, with_parameters
from skdpsco.linear_model._classifier_regressor import LogisticClassifier

__all__ = ["PrivateLogisticL1"]


@with_parameters(
    C="The parameter `radius` bounds the l1 norm of the coefficients in its place; "
    "PrivateLogisticRegression(l1_ratio=1) has C.",
    standard_errors="PrivateLogisticRegression has them, also with l1_ratio=1.",
)
class PrivateLogisticL1(L1BallParameters, RecordParameters, LogisticClassifier):
    """Differentially private logistic regression in an l1 ball.

    It minimises the mean logistic loss subject to ``||w||_1 <= radius``, the constrained form of
    ``LogisticRegression(l1_ratio=1)``. For several classes the loss is the softmax cross-entropy,
    and the norm is that of all coefficients.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit, radius_of_l1_ball, feature_bound}
    {solver_of_l1_ball, n_iter, fit_intercept, classes, class_weight}
    {max_weight, relation, random_state}

    Attributes
    ----------
    {coef_of_classes, intercept_of_classes, classes_, feature_bound_, feature_range_, n_iter_}
    {radius_, path_, n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateLogisticRegression : With a penalty in place of a radius.
    PrivateLasso : For a number.

    Notes
    -----
    {guarantee}
    Proof: :doc:`/proofs/stagewise`.

    References
    ----------
    Talwar, Thakurta, Zhang. Nearly Optimal Private LASSO. NeurIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateLogisticL1
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20000, 50))
    >>> y = X[:, 0] - X[:, 3] > 0.1
    >>> PrivateLogisticL1(classes=[False, True]).fit(X, y).score(X, y) > 0.9
    True
    """
