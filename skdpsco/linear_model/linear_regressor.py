"""Private linear regression in an l_p ball."""

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from skdpsco._typing import Auto, LedgerLike, LossLike, Seed, SolverLike
from skdpsco._validation import TARGET_CONSTRAINTS, StrOptions, check_bound, with_hints
from skdpsco.data.block_records import is_blocks
from skdpsco.linear_model._classifier_regressor import LinearRegressor
from skdpsco.linear_model._lp_ball import LOSS, LP_CONSTRAINTS, LpModel, is_stream
from skdpsco.losses.check import loss_of
from skdpsco.scaling.target import Target, declared_target

__all__ = ["PrivateLinearRegressor"]


class PrivateLinearRegressor(LinearRegressor, LpModel):
    """Differentially private linear regression in an l_p ball, for records that are read once.

    It minimises the mean loss subject to ``||w||_p <= radius``, by private stochastic convex
    optimisation. By default every record is used in a single step, so the data may be larger than
    memory, and the guarantee of accuracy is about future records. The coefficients are (epsilon,
    delta)-differentially private: replacing one record, features and target, changes the
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
    loss : {"squared", "huber", "absolute"} or loss, default="squared"
        Loss of the residual in units of the target's spread. "squared" is linear beyond a residual
        of 1, "huber" beyond 0.1. You may also pass a loss of `skdpsco.losses`, such as
        ``Huber(0.3)`` or ``Quantile(0.9)``, or a loss of your own, see docs/extending.md; its
        targets are in [-1, 1].
    p : float, default=2.0
        Order of the norm of the ball, in [1, inf]. 1 suits few relevant features among many; 2
        suits records of bounded l2 norm, see ``row_norm``; inf bounds every coefficient by itself.
    radius : float or "auto", default="auto"
        Radius of the ball, > 0. Features are measured in units of their bounds b_j, and the
        intercept c, the coefficient of a column of ones, is included: the ball is
        ``||(b_1 w_1, ..., b_d w_d, c)||_p <= radius * max_j b_j``. With features in [-1, 1] and
        p = 1 predictions are at most ``radius``. The noise grows with it, except for
        "projected-descent". "auto" is 2 for features that are in [-1, 1] or conditioned and targets
        in units of their spread, up to 16 if there is little noise, and down to 0.5 if there is
        much; for "projected-descent" it is twice as much.
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
    target_bound : float, Schema or None, default=None
        Public bound on ``|y|``, to which y is clipped. It may be generous: with enough records and
        ``radius="auto"`` the centre and the spread of y are found privately, for about a twentieth
        of the budget, and the spread is the unit of the residual. None also finds the magnitude of
        y. With a number as radius, and for records in blocks, which are read once, a declared
        bound is the unit: choose it tight, and centre y. None means 1 for blocks.
    solver : {"auto", "projected-descent", "phased-sgd", "one-pass-frank-wolfe", \
            "tree-frank-wolfe", "phased-erm"} or solver, default="auto"
        See `skdpsco.solvers`. "phased-erm" is for losses that are not smooth, such as "absolute";
        it and "projected-descent" need all records at hand. "auto" follows only from the loss, p,
        the sizes of X, whether X yields blocks, the budget, and which of ``radius`` and
        ``row_norm`` are numbers.
    n_iter : int or "auto", default="auto"
        Number of private steps of the solver, at most 10000. "auto" computes it from public sizes,
        never from the data.
    n_samples : int or None, default=None
        Public number of records. `fit` needs it if X yields blocks; for arrays it must be their
        length.
    shuffle : bool, default=True
        Whether solvers given by name read the records of arrays in random order. Blocks are read in
        the order in which they arrive. The order affects accuracy, not privacy: records that are
        sorted, for instance by target, must be shuffled.
    fit_intercept : bool, default=True
        Whether to fit an intercept, as the coefficient of a column of ones.
    conditioning : "auto" or None, default="auto"
        "auto" finds a centre of features privately, and with ``radius="auto"`` a scale, for at most
        24 % of the budget's mu^2, if ``row_norm`` is None, ``solver`` is given by name, X is an
        array in memory and there are enough records. Columns that lie on one side of 0, or use a
        small part of their bounds, then cost little accuracy. The ball then limits the intercept of
        centred features: the prediction at the centre instead of that at 0. This holds for sparse
        columns if "projected-descent" fits them, and they stay sparse. Without an intercept the
        centre is 0, and only scales are found. None uses the columns as they are.
    max_weight : float or None, default=None
        Public bound on ``sample_weight``, to which weights are clipped; it must be declared for a
        fit with weights. They are as private as the record. The noise is as if all records had this
        weight, so small weights lose accuracy. Only losses of this
        package take weights.
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
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    feature_bound_ : ndarray of shape (n_features,)
        The bounds that were found or chosen; only with ``feature_bound="auto"`` or None.
    feature_range_ : ndarray of shape (2, n_features)
        Interval to which predictions clip every column: its bounds, or a smaller interval if
        features were conditioned. It is a release.
    target_range_ : ndarray of shape (2,)
        Interval to which predictions are clipped: the one to which the fit clipped targets. It is a
        release.
    n_iter_ : int
        Number of private steps.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Only if X has string column names.
    privacy_ : PrivacyReport
        The guarantee: epsilon, delta, rho, event, relation, seeded and assumptions.

    See Also
    --------
    PrivateLinearClassifier : For classes.
    PrivateRidge : Squared loss with a penalty.
    PrivateLasso : Squared loss in an l1 ball.
    sklearn.linear_model.SGDRegressor : Other losses without privacy.

    Notes
    -----
    Neighbouring data sets differ by the replacement of one record, and the number of records is
    public, unless ``relation`` says that a record is added or removed. The sizes of the blocks, the
    number and names of the features and their dtypes are public. Errors in the
    input (a NaN, say) are reported to the caller and are not covered by the guarantee. A mistake in
    a block other than the first is found only after the charge. Nothing is fitted then, but the
    charge is kept, since noise may have been drawn.

    If fitted by gradient descent, a regression adds to the mean loss that of one more record per
    feature, which has this feature only, at the end of its range, and a target at the centre:
    without it nothing but noise would decide on features that are constant in all records.

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
    >>> from skdpsco import PrivateLinearRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 10))
    >>> y = 0.5 * X[:, 0] - 0.3 * X[:, 3] + 0.1 * rng.normal(size=20000)
    >>> model = PrivateLinearRegressor(epsilon=1.0).fit(X, y)
    >>> bool(model.score(X, y) > 0.5)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LP_CONSTRAINTS,
        **TARGET_CONSTRAINTS,
        "loss": [StrOptions({"squared", "huber", "absolute"}), LOSS],
    }
    _auto_radius = 2.0
    _least_growth = 0.25

    @with_hints(
        alpha="The parameter `radius` bounds the l_p norm of the coefficients in its place; "
        "PrivateRidge or PrivateElasticNet has alpha.",
        standard_errors="PrivateRidge and PrivateHuberRegressor have them, without a ball.",
    )
    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        max_records_per_unit: int | None = None,
        loss: Literal["squared", "huber", "absolute"] | LossLike = "squared",
        p: float = 2.0,
        radius: float | Auto = "auto",
        feature_bound: ArrayLike | Auto | None = "auto",
        row_norm: float | None = None,
        target_bound: float | None = None,
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
        self.target_bound = target_bound
        self.solver = solver
        self.n_iter = n_iter
        self.n_samples = n_samples
        self.shuffle = shuffle
        self.fit_intercept = fit_intercept
        self.conditioning = conditioning
        self.max_weight = max_weight
        self.relation = relation
        self.random_state = random_state

    def _learn(self, X, y):
        loss = loss_of(self, "loss", self.loss, "numbers", foreign=("signs", "classes"))
        encode, bound = np.asarray, self.target_bound
        if is_stream(X) or is_blocks(X):  # their records are read once
            bound = check_bound("target_bound", 1.0 if bound is None else bound)
            encode = Target(bound, 0.0, bound).apply
        X, y = self._records(X, y, True, encode)
        return self._fit(X, y, loss, bound, self._assumptions(loss), regression=True)

    def _plan_target(self, loss, bound, n_samples, rho):
        if self._streaming:
            return declared_target(bound)
        return super()._plan_target(loss, bound, n_samples, rho)
