"""Private logistic regression with a penalty."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from numpy.typing import ArrayLike

from skdpsco._typing import Auto, LedgerLike, Seed, SolverLike
from skdpsco._validation import (
    CLASSES_CONSTRAINTS,
    COMPOSITE_CONSTRAINTS,
    WEIGHTS_CONSTRAINTS,
    with_hints,
)
from skdpsco.linear_model._classifier_regressor import LogisticClassifier
from skdpsco.linear_model._inference import CoefficientInference
from skdpsco.linear_model._penalized import CompositeModel, inverse_penalty

__all__ = ["PrivateLogisticRegression"]


class PrivateLogisticRegression(CoefficientInference, LogisticClassifier, CompositeModel):
    """Differentially private logistic regression.

    It minimises ``C * sum_i loss_i + penalty(w)``, as `sklearn.linear_model.LogisticRegression`
    does. For several classes the loss is the softmax cross-entropy.

    Parameters
    ----------
    {epsilon, delta, ledger, max_records_per_unit}
    C : float, default=1.0
        Inverse weight of the penalty, > 0; infinity means no penalty.
    l1_ratio : float, default=0
        Share of the l1 penalty, in [0, 1]; the rest is an l2 penalty.
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

    References
    ----------
    Mangold, Bellet, Salmon, Tommasi. Differentially Private Coordinate Descent for Composite
    Empirical Risk Minimization. ICML 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateLogisticRegression
    >>> X = np.random.default_rng(0).uniform(-1, 1, (20000, 20))
    >>> y = X[:, 0] - X[:, 3] > 0.1
    >>> PrivateLogisticRegression(classes=[False, True]).fit(X, y).score(X, y) > 0.9
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMPOSITE_CONSTRAINTS,
        **CLASSES_CONSTRAINTS,
        **WEIGHTS_CONSTRAINTS,
    }
    _planned_with = ("C", "n_iter")

    @with_hints(alpha="The parameter `C` is the inverse weight of the penalty.")
    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        max_records_per_unit: int | None = None,
        C: float = 1.0,
        l1_ratio: float = 0.0,
        feature_bound: ArrayLike | Auto | None = "auto",
        solver: Literal[
            "auto",
            "coordinate-descent",
            "greedy-coordinate-descent",
            "gradient-descent",
            "sgd",
        ]
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
        self.l1_ratio = l1_ratio
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

    def _penalty(self, n_samples):
        total = n_samples * self._largest_weight()
        return inverse_penalty(self.C, self.l1_ratio, total)
