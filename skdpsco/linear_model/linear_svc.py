"""Private linear support vector classification."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from numpy.typing import ArrayLike

from skdpsco._typing import Auto, LedgerLike, Seed, SolverLike
from skdpsco._validation import (
    CLASSES_CONSTRAINTS,
    COMPOSITE_CONSTRAINTS,
    WEIGHTS_CONSTRAINTS,
    HasMethods,
    StrOptions,
    with_hints,
)
from skdpsco.linear_model._classifier_regressor import LinearClassifier
from skdpsco.linear_model._inference import CoefficientInference
from skdpsco.linear_model._penalized import CompositeModel, inverse_penalty
from skdpsco.losses.library import OneVsRest, SmoothHinge

__all__ = ["PrivateLinearSVC"]

# Quadratic between both margins: there the best score is the mean of the labels -1 and 1.
MARGIN_LOSS = SmoothHinge(2.0)


class PrivateLinearSVC(CoefficientInference, LinearClassifier, CompositeModel):
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMPOSITE_CONSTRAINTS,
        **CLASSES_CONSTRAINTS,
        **WEIGHTS_CONSTRAINTS,
        "penalty": [StrOptions({"l1", "l2"})],
        "solver": [
            StrOptions({"auto", "coordinate-descent", "gradient-descent", "sgd"}),
            HasMethods(["plan", "run"]),
        ],
    }
    _planned_with = ("C", "n_iter")

    @with_hints(
        alpha="The parameter `C` is the inverse weight of the penalty.",
        loss="The loss is the squared hinge; PrivateLinearClassifier has others.",
    )
    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        max_records_per_unit: int | None = None,
        C: float = 1.0,
        penalty: Literal["l1", "l2"] = "l2",
        feature_bound: ArrayLike | Auto | None = "auto",
        solver: Literal["auto", "coordinate-descent", "gradient-descent", "sgd"]
        | SolverLike = "auto",
        n_iter: int | Auto = "auto",
        fit_intercept: bool = True,
        classes: ArrayLike | None = None,
        class_weight: Mapping[Any, float] | None = None,
        max_weight: float | None = None,
        standard_errors: bool = False,
        relation: Literal["replace-one", "add-or-remove-one"] = "replace-one",
        random_state: Seed = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger
        self.max_records_per_unit = max_records_per_unit
        self.C = C
        self.penalty = penalty
        self.feature_bound = feature_bound
        self.solver = solver
        self.n_iter = n_iter
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.class_weight = class_weight
        self.max_weight = max_weight
        self.standard_errors = standard_errors
        self.relation = relation
        self.random_state = random_state

    def _class_loss(self, n_classes):
        return MARGIN_LOSS if n_classes == 2 else OneVsRest(MARGIN_LOSS, n_classes)

    def _penalty(self, n_samples):
        # The squared hinge loss is 2 * width times the loss of the kernels.
        total = 2.0 * MARGIN_LOSS.width * n_samples * self._largest_weight()
        return inverse_penalty(self.C, float(self.penalty == "l1"), total)
