"""Private linear classifiers in an l_p ball."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from skdpsco._typing import Auto, LedgerLike, LossLike, MatrixLike, Seed, SolverLike
from skdpsco._validation import CLASSES_CONSTRAINTS, WEIGHTS_CONSTRAINTS, StrOptions, with_hints
from skdpsco.data.block_records import is_blocks
from skdpsco.linear_model._classifier_regressor import LogisticClassifier
from skdpsco.linear_model._lp_ball import LOSS, LP_CONSTRAINTS, LpModel, is_stream
from skdpsco.losses.check import loss_of
from skdpsco.losses.library import Multinomial, is_proven
from skdpsco.losses.traits import traits_of

__all__ = ["PrivateLinearClassifier"]


def _is_logistic(model: Any) -> bool:
    loss = model.loss
    return loss == "logistic" if isinstance(loss, str) else traits_of(loss).scores == "log-odds"


class PrivateLinearClassifier(LogisticClassifier, LpModel):
    """Differentially private linear classifier in an l_p ball, for records that are read once.

    It minimises the mean loss subject to ``||w||_p <= radius``, by private stochastic convex
    optimisation. By default every record is used in a single step, so the data may be larger than
    memory, and the guarantee of accuracy is about future records. The coefficients are (epsilon,
    delta)-differentially private: replacing one record, features and label, changes the
    distribution of everything that `fit` stores by at most that much.

    Parameters
    ----------
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
    loss : {"logistic", "smooth-hinge", "hinge"} or loss, default="logistic"
        A loss of `skdpsco.losses`, or one of your own, see docs/extending.md; its targets are -1
        and 1. With more than two classes only "logistic" is supported, the softmax cross-entropy,
        which is minimised as one problem.
    p : float, default=2.0
        Order of the norm of the ball, in [1, inf]. 1 suits few relevant features among many; 2
        suits records of bounded l2 norm, see ``row_norm``; inf bounds every coefficient by itself.
    radius : float or "auto", default="auto"
        Radius of the ball, > 0. Features are measured in units of their bounds b_j, and the
        intercepts c, the coefficients of a column of ones, are included: the ball is
        ``||(b_1 w_1, ..., b_d w_d, c)||_p <= radius * max_j b_j``, jointly for all classes. With
        features in [-1, 1] and p = 1 predictions are log-odds of at most ``radius``. The noise
        grows with it. "auto" is 5 where features are in [-1, 1], or conditioned, and up to 40
        where there is little noise.
    feature_bound : "auto", float, array-like of shape (n_features,), dict, Series, Schema or \
            None, default="auto"
        Public bound on ``|X|``, to which features are clipped. A dict, a Series whose index holds
        strings, or a schema gives the bound of every column by its name. If none is declared
        ("auto" or None), bounds are found privately, for a small part of the budget; with too few
        records for that they are 1. Numbers as ``radius`` or ``row_norm`` are in units of the
        bounds, and blocks are read once: with them "auto" means 1, which a warning says, and None
        is refused.
    row_norm : float or None, default=None
        Public bound on the l2 norm of a record after its features have been clipped and divided by
        their bounds; longer records are shortened to it. None means sqrt(n_features), which no
        record exceeds. Except for p = 1, the noise grows with it, so declare a smaller bound if
        records are shorter, such as rows of tf-idf, which have norm 1.
    solver : {"auto", "projected-descent", "phased-sgd", "one-pass-frank-wolfe", \
            "tree-frank-wolfe", "phased-erm"} or solver, default="auto"
        See `skdpsco.solvers`. "phased-erm" is for losses that are not smooth, such as "hinge"; it
        and "projected-descent" need all records at hand. "auto" follows only from the loss, p, the
        sizes of X, whether X yields blocks, the budget, and which of ``radius`` and ``row_norm``
        are numbers.
    n_iter : int or "auto", default="auto"
        Number of private steps of the solver, at most 10000. "auto" computes it from public sizes,
        never from the data.
    n_samples : int or None, default=None
        Public number of records. `fit` needs it if X yields blocks; for arrays it must be their
        length.
    shuffle : bool, default=True
        Whether solvers given by name read the records of arrays in random order. Blocks are read in
        the order in which they arrive. The order affects accuracy, not privacy: records that are
        sorted, for instance by label, must be shuffled.
    fit_intercept : bool, default=True
        Whether to fit an intercept, as the coefficient of a column of ones.
    conditioning : "auto" or None, default="auto"
        "auto" finds a centre of features privately, and with ``radius="auto"`` a scale, for at most
        a third of the budget's mu^2, if ``row_norm`` is None, ``solver`` is given by name, X is an
        array in memory and there are enough records. Columns that lie on one side of 0, or use a
        small part of their bounds, then cost little accuracy. The ball then limits the intercept of
        centred features: the prediction at the centre instead of that at 0. This holds for sparse
        columns if "projected-descent" fits them, and they stay sparse. Without an intercept the
        centre is 0, and only scales are found. "auto" also corrects the length of the coefficients
        and the intercept by a private table of predictions and targets, for 6 % of the budget's
        mu^2, up to 21 % if records are few and less if the budget is large, if there is an
        intercept, ``radius="auto"``, the loss is the logistic one of two classes and there are
        enough records. Scores of more classes are drawn towards a constant prediction, from noisy
        counts of classes, for up to 20 % if records are few. None does neither.
    classes : array-like of shape (n_classes,), Schema or None, default=None
        The public labels. None takes those that occur in y, which assumes that the set of labels in
        y is public. Declare them if one of them might be absent. They must be declared for blocks.
    class_weight : dict or None, default=None
        Public weights of the classes, by label, in [1e-6, 1e6]; other labels have weight 1. They
        are never counted from the data. Only losses of this package take weights.
    max_weight : float or None, default=None
        Public bound on ``sample_weight``, to which weights are clipped; it must be declared for a
        fit with weights. They are as private as the record. The noise is as if all records had this
        weight, so small weights lose accuracy.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Which data sets are neighbours. With "add-or-remove-one" the number of records is private:
        a fiftieth of the budget's rho counts them, and all else is planned from this count. All
        records must be in memory, solver must be "auto" or "projected-descent", and row_norm and
        n_samples must be None. There may be up to 67 million records.
    random_state : int, RandomState instance or None, default=None
        None draws secret noise, anew in every fit. Anything else makes the noise reproducible and
        warns: anyone who knows it can subtract the noise.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    feature_bound_ : ndarray of shape (n_features,)
        The bounds that were found or chosen; only with ``feature_bound="auto"`` or None.
    feature_range_ : ndarray of shape (2, n_features)
        Interval to which predictions clip every column: its bounds, or a smaller interval if
        features were conditioned. It is a release.
    n_iter_ : int
        Number of private steps.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.
    privacy_ : PrivacyReport
        The guarantee: epsilon, delta, rho, event, relation, seeded and assumptions.

    See Also
    --------
    PrivateLinearRegressor : For a number.
    PrivateLogisticRegression : Logistic loss with a penalty.
    PrivateLogisticL1 : Logistic loss in an l1 ball.
    sklearn.linear_model.SGDClassifier : Other losses without privacy.

    Notes
    -----
    Neighbouring data sets differ by the replacement of one record, and the number of records is
    public, unless ``relation`` says that a record is added or removed. The sizes of the blocks, the
    number and names of the features, their dtypes and the set of labels are public. Errors in the
    input (a NaN, say) are reported to the caller and are not covered by the guarantee. A mistake in
    a block other than the first is found only after the charge. Nothing is fitted then, but the
    charge is kept, since noise may have been drawn.

    CSR matrices and a read-only `numpy.memmap` are not copied. Arrays of float64 in C order are
    copied once, if they are conditioned and ``radius="auto"`` or the solver reads records many
    times. Proofs: docs/proofs.

    References
    ----------
    R. Bassily, C. Guzmán, A. Nandi. Non-Euclidean Differentially Private Stochastic Convex
    Optimization. COLT 2021.

    V. Feldman, T. Koren, K. Talwar. Private Stochastic Convex Optimization: Optimal Rates in Linear
    Time. STOC 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateLinearClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 20))
    >>> y = X[:, 0] - X[:, 3] > 0.1
    >>> model = PrivateLinearClassifier(epsilon=1.0, classes=[False, True]).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True

    Blocks of records, from files for instance:

    >>> blocks = ((X[i : i + 5000], y[i : i + 5000]) for i in range(0, 20000, 5000))
    >>> model = PrivateLinearClassifier(classes=[False, True], n_samples=20000).fit(blocks)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LP_CONSTRAINTS,
        **CLASSES_CONSTRAINTS,
        **WEIGHTS_CONSTRAINTS,
        "loss": [StrOptions({"logistic", "smooth-hinge", "hinge"}), LOSS],
    }

    _auto_radius = 5.0

    @with_hints(
        C="The parameter `radius` bounds the l_p norm of the coefficients in its place; "
        "PrivateLogisticRegression has C.",
        standard_errors="PrivateLogisticRegression has them, without a ball.",
    )
    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        max_records_per_unit: int | None = None,
        loss: Literal["logistic", "smooth-hinge", "hinge"] | LossLike = "logistic",
        p: float = 2.0,
        radius: float | Auto = "auto",
        feature_bound: ArrayLike | Auto | None = "auto",
        row_norm: float | None = None,
        solver: Literal[
            "auto",
            "projected-descent",
            "phased-sgd",
            "one-pass-frank-wolfe",
            "tree-frank-wolfe",
            "phased-erm",
        ]
        | SolverLike = "auto",
        n_iter: int | Auto = "auto",
        n_samples: int | None = None,
        shuffle: bool = True,
        fit_intercept: bool = True,
        conditioning: Auto | None = "auto",
        classes: ArrayLike | None = None,
        class_weight: Mapping[Any, float] | None = None,
        max_weight: float | None = None,
        relation: Literal["replace-one", "add-or-remove-one"] = "replace-one",
        random_state: Seed = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger
        self.max_records_per_unit = max_records_per_unit
        self.loss = loss
        self.p = p
        self.radius = radius
        self.feature_bound = feature_bound
        self.row_norm = row_norm
        self.solver = solver
        self.n_iter = n_iter
        self.n_samples = n_samples
        self.shuffle = shuffle
        self.fit_intercept = fit_intercept
        self.conditioning = conditioning
        self.classes = classes
        self.class_weight = class_weight
        self.max_weight = max_weight
        self.relation = relation
        self.random_state = random_state

    def _loss_of(self, n_classes: int) -> Any:
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

    def _learn(self, X, y):
        in_blocks = is_stream(X) or is_blocks(X)
        self._allow_weights(not in_blocks)
        if self.classes is None and in_blocks:
            raise ValueError(
                "classes must be given if X yields blocks: a list of the public labels, two or "
                "more."
            )
        X, y = self._records(X, y, False, self._encode)
        loss = self._loss_of(len(self.classes_))
        if self._weighs() and not is_proven(loss):
            raise ValueError(
                f"class_weight and sample_weight are for losses of this package, not {loss!r}."
            )
        loss = self._weighted_loss(loss)
        notes = (*self._label_notes(), *self._assumptions(loss))
        coef, intercept = self._fit(X, y, loss, None, notes)
        return np.atleast_2d(coef), np.atleast_1d(intercept)

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
