"""Private logistic regression with a penalty."""

from skdpsco.base.parameters import RecordParameters, with_parameters
from skdpsco.linear_model._classifier_regressor import LogisticClassifier
from skdpsco.linear_model._inference import CoefficientInference
from skdpsco.linear_model._penalized import CompositeModel, inverse_penalty

__all__ = ["PrivateLogisticRegression"]


@with_parameters(alpha="The parameter `C` is the inverse weight of the penalty.")
class PrivateLogisticRegression(
    CoefficientInference, LogisticClassifier, RecordParameters, CompositeModel
):
    """Differentially private logistic regression.

    It minimises ``C * sum_i loss_i + penalty(w)``, as `sklearn.linear_model.LogisticRegression`
    does. For several classes the loss is the softmax cross-entropy.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit}
    C : float, default=1.0
        Inverse weight of the penalty, > 0; infinity means no penalty.
    l1_ratio : float, default=0
        Share of the penalty that is l1, in [0, 1]; the rest is l2.
    {feature_bound, solver, n_iter, fit_intercept, classes}
    {class_weight}
    {max_weight, standard_errors, relation, random_state}

    Attributes
    ----------
    {coef_of_classes, intercept_of_classes, classes_, feature_bound_, feature_range_, n_iter_}
    {errors, n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateLogisticL1 : For many features of which few matter.
    PrivateAdditiveClassifier : For curved effects.
    PrivateMinimaxClassifier : For rare classes.

    Notes
    -----
    {guarantee}
    Proof: :doc:`/proofs/gradient_descent`.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateLogisticRegression
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20000, 20))
    >>> y = X[:, 0] - X[:, 3] > 0.1
    >>> PrivateLogisticRegression(classes=[False, True]).fit(X, y).score(X, y) > 0.9
    True
    """

    C: float = 1.0
    l1_ratio: float = 0.0

    _planned_with = ("C", "n_iter")

    def _penalty(self, n_samples):
        total = n_samples * self._largest_weight()
        return inverse_penalty(self.C, self.l1_ratio, total)
