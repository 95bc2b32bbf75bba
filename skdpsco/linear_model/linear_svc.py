"""Private linear support vector classification."""

from typing import ClassVar, Literal

from skdpsco._typing import SolverLike
from skdpsco._validation import HasMethods, StrOptions
from skdpsco.base.parameters import Constraints, RecordParameters, with_parameters
from skdpsco.linear_model._classifier_regressor import LinearClassifier
from skdpsco.linear_model._inference import CoefficientInference
from skdpsco.linear_model._penalized import CompositeModel, inverse_penalty
from skdpsco.losses.library import OneVsRest, SmoothHinge

__all__ = ["PrivateLinearSVC"]

# Quadratic between both margins: there the best score is the mean of the labels -1 and 1.
MARGIN_LOSS = SmoothHinge(2.0)


@with_parameters(
    alpha="The parameter `C` is the inverse weight of the penalty.",
    loss="The loss is the squared hinge; PrivateLinearClassifier has others.",
)
class PrivateLinearSVC(CoefficientInference, LinearClassifier, RecordParameters, CompositeModel):
    """Differentially private linear support vector classification.

    It minimises ``C * sum_i loss(y_i (w'x_i + b)) + penalty(w)`` with the squared hinge loss, as
    `sklearn.svm.LinearSVC` does. The loss is linear for margins below -1, so that no record has
    too much weight. Several classes are fitted one against the rest.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit}
    C : float, default=1.0
        Inverse weight of the penalty, > 0; infinity means no penalty.
    penalty : {"l1", "l2"}, default="l2"
        As in scikit-learn.
    {feature_bound}
    solver : {"auto", "coordinate-descent", "gradient-descent", "sgd"} or solver, default="auto"
        "auto" is "gradient-descent". See :doc:`/algorithms`.
    {n_iter, fit_intercept, classes, class_weight, max_weight}
    {standard_errors}
        There must be two classes.
    {relation, random_state}

    Attributes
    ----------
    {coef_of_classes, intercept_of_classes, classes_, feature_bound_, feature_range_, n_iter_}
    {errors, n_features_in_, feature_names_in_, privacy_}

    See Also
    --------
    PrivateLogisticRegression : With probabilities.

    Notes
    -----
    {guarantee}
    Proof: :doc:`/proofs/gradient_descent`.

    References
    ----------
    Fan, Chang, Hsieh, Wang, Lin. LIBLINEAR: A Library for Large Linear Classification. Journal of
    Machine Learning Research 9, 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateLinearSVC
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20000, 20))
    >>> y = X[:, 0] - X[:, 3] > 0.1
    >>> PrivateLinearSVC(classes=[False, True]).fit(X, y).score(X, y) > 0.9
    True
    """

    C: float = 1.0
    penalty: Literal["l1", "l2"] = "l2"
    solver: Literal["auto", "coordinate-descent", "gradient-descent", "sgd"] | SolverLike = "auto"

    _parameter_constraints: ClassVar[Constraints] = {
        "penalty": [StrOptions({"l1", "l2"})],
        "solver": [
            StrOptions({"auto", "coordinate-descent", "gradient-descent", "sgd"}),
            HasMethods(["plan", "run"]),
        ],
    }
    _planned_with = ("C", "n_iter")

    def _class_loss(self, n_classes):
        return MARGIN_LOSS if n_classes == 2 else OneVsRest(MARGIN_LOSS, n_classes)

    def _penalty(self, n_samples):
        # The squared hinge loss is 2 * width times the loss of the kernels.
        total = 2.0 * MARGIN_LOSS.width * n_samples * self._largest_weight()
        return inverse_penalty(self.C, float(self.penalty == "l1"), total)
