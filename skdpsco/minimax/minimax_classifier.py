"""Private classifiers whose largest loss is small."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score

from skdpsco._typing import Auto, LedgerLike, LossLike, MatrixLike, Seed, SolverLike, TargetLike
from skdpsco._validation import CLASSES_CONSTRAINTS, WEIGHTS_CONSTRAINTS, StrOptions
from skdpsco.base.labels import as_targets, encode_classes, labels_note, relative_weights
from skdpsco.base.predictions import LinearClassifierMixin
from skdpsco.group_dro.options import check_prior
from skdpsco.losses.library import Logistic, Multinomial
from skdpsco.minimax._model import MINIMAX_CONSTRAINTS, MinimaxModel
from skdpsco.minimax._tasks import Tasks

__all__ = ["PrivateMinimaxClassifier"]


class PrivateMinimaxClassifier(LinearClassifierMixin, MinimaxModel):
    """Differentially private linear classifier whose largest loss is small.

    It minimises the maximum of the mean losses of several tasks. By default the tasks are the
    classes, so that a rare class, or one that is hard to predict, counts as much as
    any other. This is a game between the model and the weights of the tasks, which is solved
    privately; for three or more classes and an automatic radius see ``solver``. The fit is
    (epsilon, delta)-differentially private: replacing one record, features and label, changes the
    distribution of everything that `fit` stores by at most that much.

    Parameters
    ----------
    losses : {"logistic", "smooth-hinge", "hinge"}, loss or list of these, default="logistic"
        Losses of `skdpsco.losses`, or convex and nonnegative ones of your own, see
        docs/extending.md; their targets are -1 and 1. With several losses, each is a task on every
        record (or class, or column), and the largest of their means is minimised, so their scales
        matter. With more than two classes only "logistic" is supported, the softmax cross-entropy.
    tasks : {"classes", "columns"} or None, default="classes"
        With "classes", the mean loss of the records of every class is a task. With "columns", y has
        several columns with the same classes, for instance the labels of several annotators, and
        every column is a task for one common model. With None, all records are one task.
    class_prior : array-like of shape (n_classes,) or None, default=None
        Public shares of the classes for ``tasks="classes"``, in the order of ``classes_``. They are
        in [1e-9, 1] and sum to 1. Sums over a class are divided by n_samples times its share. None
        spends a fiftieth of the budget on noisy shares, ``class_prior_``, since the label of a
        record is private. The noise is inversely proportional to the smallest share.
    epsilon : float, default=1.0
        Privacy budget, > 0. Smaller is more private.
    delta : float, default=1e-6
        Privacy budget, in (0, 1); far below 1 / n_samples.
    ledger : Ledger or None, default=None
        Ledger that is charged with the cost of every fit before noise is drawn. A fit that would
        exceed its budget raises `BudgetExceededError`, and nothing is fitted.
    max_records_per_unit : int or None, default=None
        A number k, in [1, 999999], if records belong to units, such as persons: ``fit`` is given
        ``units``, draws k records of each, and the guarantee is for all records of a unit at once.
    radius : float or "auto", default="auto"
        Radius of the l1 ball, > 0. Features are measured in units of
        their bounds b_j, and the ball includes the intercepts c: ``sum(b_j |w_j|) + |c| <= radius *
        max_j b_j``, jointly for all classes. With features in [-1, 1] it is the largest log-odds.
        The noise grows with it. "auto" is no bound for "gradient-descent", and
        otherwise 5 where features are in [-1, 1], or conditioned.
    feature_bound : "auto", float, array-like of shape (n_features,), dict, Series, Schema or \
            None, default="auto"
        Public bound on ``|X|``, to which features are clipped. A dict, a Series whose index holds
        strings, or a schema gives the bound of every column by its name. If none is declared
        ("auto" or None), bounds are found privately, for a small part of the budget; with too few
        records for that they are 1. A radius that is a number is in units of the bounds: with it
        "auto" means 1, which a warning says, and None is refused.
    fit_intercept : bool, default=True
        Whether to fit an intercept, as the coefficient of a column of ones.
    conditioning : "auto" or None, default="auto"
        "auto" finds a centre of features privately, and with ``radius="auto"`` a scale, for at most
        a third of the budget's mu^2, if ``solver`` is given by name and there are enough records.
        Columns that lie on one side of 0, or use a small part of their bounds, then cost little
        accuracy. The ball then limits the intercept of centred features: the prediction at the
        centre instead of that at 0. Sparse columns stay sparse, and get a centre only if
        "gradient-descent" fits them. Without an intercept the centre is 0, and only scales are
        found. "auto" also corrects the length of the coefficients and the intercept by a private
        table of predictions and targets, for at most 6 % of the budget's mu^2, if there is an
        intercept, features are conditioned, ``radius="auto"``, the only loss is the logistic one of
        two classes and there are enough records. Records count as in the worst mixture of tasks
        that was found. None does neither.
    classes : array-like of shape (n_classes,), Schema or None, default=None
        The public labels. None takes those that occur in y, which assumes that the set of labels in
        y is public. Declare them if one of them might be absent.
    class_weight : dict or None, default=None
        Public weights of classes by label, in [1e-6, 1e6]; 1 for those that are not named. They
        multiply losses: with ``tasks="classes"`` the largest of weight times mean loss of a class
        is minimised. They must not be counted from the data. Scores of a weighted fit are not
        calibrated.
    solver : {"auto", "gradient-descent", "mirror-descent", \
            "bias-reduced-mirror-descent", "boosted-mirror-descent", "mirror-prox", \
            "recursive-regularisation"} or object, default="auto"
        "gradient-descent" is for losses of `skdpsco.losses`; if ``radius`` is given, the nearest
        coefficients in the ball are taken in the end.
        With one loss and ``tasks=None`` there is nothing to maximise; with several losses or
        targets, weights of tasks whose noisy mean losses are larger grow between its steps. The
        hinge loss is replaced by a smooth one that is close to it. Where classes are the tasks, it
        minimises the mean of their mean losses, not the largest of them, and all weights of tasks
        are equal; in 29 of 32 measurements the largest loss was still smaller than that of games,
        whose noise is larger, and the worst class was more accurate in all. "auto" takes
        "gradient-descent" where it can, and otherwise "mirror-descent", which suits many features.
        The others are described in `solve_variational_inequality`. An object with ``plan`` and
        ``run``, such as `skdpsco.solvers.MirrorDescent`, is also allowed.
    n_iter : int or "auto", default="auto"
        Number of steps of the solver, at most 10000. "auto" follows from public sizes.
    random_state : int, RandomState instance or None, default=None
        None draws secret noise, anew in every fit. Anything else makes the noise reproducible and
        warns: anyone who knows it can subtract the noise.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    task_weights_ : ndarray of shape (n_losses, n_tasks)
        Weights of the worst mixture of tasks that was found, which sum to 1; n_tasks is the number
        of classes or of columns, or 1.
    class_prior_ : ndarray of shape (n_classes,)
        The noisy shares of the classes, if classes are tasks whose shares were not declared.
    feature_bound_ : ndarray of shape (n_features,)
        The bounds that were found or chosen; only with ``feature_bound="auto"`` or None.
    feature_range_ : ndarray of shape (2, n_features)
        Interval to which predictions clip every column: its bounds, or a smaller interval if
        features were conditioned. It is a release.
    n_iter_ : int
        Number of steps of the solver.
    n_rounds_ : int
        Number of rounds on parts of the records; 1 means that there was no recursion. Only for
        recursive solvers.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.
    privacy_ : PrivacyReport
        The guarantee: epsilon, delta, rho, event, relation, seeded and assumptions.

    See Also
    --------
    PrivateGroupDRO : The analogous model for groups other than classes, in an l2 ball.

    Notes
    -----
    Neighbouring data sets differ by the replacement of one record; the number of records and the
    set of labels are public. Errors in the input are reported to the caller and are not covered by
    the guarantee. Proof: docs/proofs/maximal_loss.md.

    References
    ----------
    T. Gonzalez, C. Guzman, C. Paquette. Mirror Descent Algorithms with Nearly
    Dimension-Independent Rates for Differentially-Private Stochastic Saddle-Point Problems. 2024.

    R. Bassily, C. Guzmán, M. Menart. Private Algorithms for Stochastic Saddle Points and
    Variational Inequalities: Beyond Euclidean Geometry. NeurIPS 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateMinimaxClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 5))
    >>> y = X[:, 0] + 0.2 * rng.normal(size=20000) > 0.6  # one in five
    >>> model = PrivateMinimaxClassifier(classes=[False, True]).fit(X, y)
    >>> bool(model.score(X[y], y[y]) > 0.8)  # of the rare class
    True
    """

    classes_: np.ndarray

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MINIMAX_CONSTRAINTS,
        **CLASSES_CONSTRAINTS,
        "class_weight": WEIGHTS_CONSTRAINTS["class_weight"],
        "tasks": [None, StrOptions({"classes", "columns"})],
        "class_prior": [None, "array-like"],
    }
    _targets, _foreign = "signs", ("numbers", "classes")
    _auto_radius = 5.0

    def __init__(
        self,
        *,
        losses: str | LossLike | Sequence[str | LossLike] = "logistic",
        tasks: Literal["classes", "columns"] | None = "classes",
        class_prior: ArrayLike | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        max_records_per_unit: int | None = None,
        radius: float | Auto = "auto",
        feature_bound: ArrayLike | Auto | None = "auto",
        fit_intercept: bool = True,
        conditioning: Auto | None = "auto",
        classes: ArrayLike | None = None,
        class_weight: Mapping[Any, float] | None = None,
        solver: Literal[
            "auto",
            "gradient-descent",
            "mirror-descent",
            "bias-reduced-mirror-descent",
            "boosted-mirror-descent",
            "mirror-prox",
            "recursive-regularisation",
        ]
        | SolverLike = "auto",
        n_iter: int | Auto = "auto",
        random_state: Seed = None,
    ) -> None:
        self.losses = losses
        self.tasks = tasks
        self.class_prior = class_prior
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger
        self.max_records_per_unit = max_records_per_unit
        self.radius = radius
        self.feature_bound = feature_bound
        self.fit_intercept = fit_intercept
        self.conditioning = conditioning
        self.classes = classes
        self.class_weight = class_weight
        self.solver = solver
        self.n_iter = n_iter
        self.random_state = random_state

    def _learn(self, X, y):
        losses = self._resolved_losses()
        if self.class_prior is not None and self.tasks != "classes":
            raise ValueError(f"class_prior must be None with tasks={self.tasks!r}.")
        X, y = self._checked(X, y, y_numeric=False)
        self.classes_, index = encode_classes(y.ravel(), self.classes)
        targets = as_targets(self.classes_, index).reshape(y.shape)
        n_classes = len(self.classes_)
        if n_classes > 2:
            if [type(loss) for loss in losses] != [Logistic]:  # empty tuples are all equal
                raise ValueError(
                    f"losses must be 'logistic' with {n_classes} classes, got {self.losses!r}."
                )
            losses = (Multinomial(n_classes),)
        weights = relative_weights(self.class_weight, self.classes_)
        notes = [labels_note(self.classes_, self.classes)]
        if self.tasks == "classes":
            prior = check_prior(self.class_prior, n_classes, of="class")
            tasks = Tasks(losses, 1, n_classes, prior, weights)
            if prior is not None:
                notes.append("the shares of the classes are public (class_prior)")
        else:
            tasks = Tasks(losses, y.shape[1], class_weights=weights)
        coef, intercept = self._fit(X, targets, tasks, None, tuple(notes))
        return np.atleast_2d(coef), np.atleast_1d(intercept)

    def score(  # type: ignore[override]
        self, X: MatrixLike, y: TargetLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Accuracy, or that of the worst column if y has several; computed without noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_tasks)
            True classes, of one task or several.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of the records; None weighs all of them the same.

        Returns
        -------
        score : float
            For the worst class use ``worst_group_score(model, X, y, sensitive_features=y)``.
        """
        return self._worst(accuracy_score, X, y, sample_weight)
