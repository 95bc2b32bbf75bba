"""Private linear regressions whose largest loss is small."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from numpy.typing import ArrayLike
from sklearn.metrics import r2_score

from skdpsco._typing import Auto, LedgerLike, LossLike, MatrixLike, Seed, SolverLike, TargetLike
from skdpsco._validation import TARGET_CONSTRAINTS, StrOptions
from skdpsco.base.predictions import LinearRegressorMixin
from skdpsco.minimax._model import MINIMAX_CONSTRAINTS, MinimaxModel
from skdpsco.minimax._tasks import Tasks
from skdpsco.scaling.stages import Units

__all__ = ["PrivateMinimaxRegressor"]


class PrivateMinimaxRegressor(LinearRegressorMixin, MinimaxModel):
    """Differentially private linear regression whose largest loss is small.

    It minimises the maximum of the mean losses of several tasks. These are several losses of the
    same residuals, such as the costs of predictions that are too high or too low, or several
    targets for one common prediction, such as measurements by several instruments. This is a game
    between the model and the weights of the tasks, which is solved privately. The fit is (epsilon,
    delta)-differentially private: replacing one record, features and targets, changes the
    distribution of everything that `fit` stores by at most that much.

    Parameters
    ----------
    losses : {"squared", "huber", "absolute"}, loss or list of these, default="squared"
        Losses of the residual in units of the targets' spread. "squared" is linear beyond a
        residual of 1, "huber" beyond 0.1. Losses of `skdpsco.losses` are allowed too, such as
        ``[Quantile(0.3), Quantile(0.7)]``, and convex and nonnegative ones of your own, see
        docs/extending.md; their targets are in [-1, 1]. With several losses, the largest of their
        means is minimised, so their scales matter.
    tasks : {"columns"} or None, default=None
        With "columns", y has several columns, and each is a task for one common prediction. With
        None, y has one column. With one loss and one target there is nothing to maximise.
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
        their bounds b_j, and the ball includes the intercept c, less the centre of the targets if
        one is found: ``sum(b_j |w_j|) + |c| <= radius * max_j b_j``. With features in [-1, 1]
        predictions are at most ``radius``. The noise grows with it. "auto" is no bound for
        "gradient-descent", and otherwise 1 where features are in [-1, 1], or conditioned, and
        targets in units of their spread.
    feature_bound : "auto", float, array-like of shape (n_features,), dict, Series, Schema or \
            None, default="auto"
        Public bound on ``|X|``, to which features are clipped. A dict, a Series whose index holds
        strings, or a schema gives the bound of every column by its name. If none is declared
        ("auto" or None), bounds are found privately, for a small part of the budget; with too few
        records for that they are 1. A radius that is a number is in units of the bounds: with it
        "auto" means 1, which a warning says, and None is refused.
    target_bound : float, Schema or None, default=None
        Public bound on ``|y|``, to which y is clipped. It may be generous: with enough records and
        ``radius="auto"`` a centre and a spread that all columns of y share are found privately, for
        about a twentieth of the budget, and the spread is the unit of the residual. None also finds
        the magnitude of y. With a number as radius a declared bound is the unit.
    fit_intercept : bool, default=True
        Whether to fit an intercept, as the coefficient of a column of ones.
    conditioning : "auto" or None, default="auto"
        "auto" finds a centre of features privately, and with ``radius="auto"`` a scale, for at most
        24 % of the budget's mu^2, if ``solver`` is given by name and there are enough records.
        Columns that lie on one side of 0, or use a small part of their bounds, then cost little
        accuracy. The ball then limits the intercept of centred features: the prediction at the
        centre instead of that at 0. Sparse columns stay sparse, and get a centre only if
        "gradient-descent" fits them. Without an intercept the centre is 0, and only scales are
        found. None uses the columns as they are.
    solver : {"auto", "gradient-descent", "mirror-descent", \
            "bias-reduced-mirror-descent", "boosted-mirror-descent", "mirror-prox", \
            "recursive-regularisation"} or object, default="auto"
        "gradient-descent" is for losses of `skdpsco.losses`; if ``radius`` is given, the nearest
        coefficients in the ball are taken in the end.
        Between its steps, weights of tasks whose noisy mean losses are larger grow; with one loss
        of one target there is nothing to maximise. Losses that are not smooth are replaced by
        smooth ones that are close to them. For the others see `solve_variational_inequality`.
        "auto" is "gradient-descent" where it can be used, and otherwise "mirror-descent". An object
        with ``plan`` and ``run``, like `skdpsco.solvers.MirrorDescent`, is a solver of games.
    n_iter : int or "auto", default="auto"
        Number of steps of the solver, at most 10000. "auto" follows from public sizes.
    random_state : int, RandomState instance or None, default=None
        None draws secret noise, anew in every fit. Anything else makes the noise reproducible and
        warns: anyone who knows it can subtract the noise.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    task_weights_ : ndarray of shape (n_losses, n_tasks)
        Weights of the worst mixture of tasks that was found, which sum to 1; n_tasks is the number
        of columns of y.
    feature_bound_ : ndarray of shape (n_features,)
        The bounds that were found or chosen; only with ``feature_bound="auto"`` or None.
    feature_range_ : ndarray of shape (2, n_features)
        Interval to which predictions clip every column: its bounds, or a smaller interval if
        features were conditioned. It is a release.
    target_range_ : ndarray of shape (2,)
        Interval to which predictions are clipped: the one to which the fit clipped targets. It is a
        release.
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
    PrivateMinimaxClassifier : For classes.
    PrivateGroupDRO : For the worst of groups that are known in the fit.

    Notes
    -----
    Neighbouring data sets differ by the replacement of one record; the number of records is public.
    Errors in the input are reported to the caller and are not covered by the guarantee. Proof:
    docs/proofs/maximal_loss.md.

    References
    ----------
    T. Gonzalez, C. Guzman, C. Paquette. Mirror Descent Algorithms with Nearly
    Dimension-Independent Rates for Differentially-Private Stochastic Saddle-Point Problems. 2024.

    R. Bassily, C. Guzmán, M. Menart. Private Algorithms for Stochastic Saddle Points and
    Variational Inequalities: Beyond Euclidean Geometry. NeurIPS 2024.

    Examples
    --------
    Three instruments, one of which is biased; their mean would be as far from two as from one:

    >>> import numpy as np
    >>> from skdpsco import PrivateMinimaxRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20000, 5))
    >>> y = 0.4 * X[:, [0]] + np.array([0.0, 0.0, 0.4]) + 0.1 * rng.normal(size=(20000, 3))
    >>> model = PrivateMinimaxRegressor(tasks="columns").fit(X, y)
    >>> print(abs(model.intercept_ - 0.2) < 0.05)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **MINIMAX_CONSTRAINTS,
        "tasks": [None, StrOptions({"columns"})],
        **TARGET_CONSTRAINTS,
    }
    _targets, _foreign = "numbers", ("signs", "classes")
    _auto_radius = 1.0

    def __init__(
        self,
        *,
        losses: str | LossLike | Sequence[str | LossLike] = "squared",
        tasks: Literal["columns"] | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        ledger: LedgerLike | None = None,
        max_records_per_unit: int | None = None,
        radius: float | Auto = "auto",
        feature_bound: ArrayLike | Auto | None = "auto",
        target_bound: float | None = None,
        fit_intercept: bool = True,
        conditioning: Auto | None = "auto",
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
        self.epsilon = epsilon
        self.delta = delta
        self.ledger = ledger
        self.max_records_per_unit = max_records_per_unit
        self.radius = radius
        self.feature_bound = feature_bound
        self.target_bound = target_bound
        self.fit_intercept = fit_intercept
        self.conditioning = conditioning
        self.solver = solver
        self.n_iter = n_iter
        self.random_state = random_state

    def _learn(self, X, y):
        losses = self._resolved_losses()
        X, y = self._checked(X, y, y_numeric=True)
        tasks = Tasks(losses, y.shape[1])
        return self._fit(X, y, tasks, self.target_bound, (), regression=True)

    def _set_ranges(self, units: Units) -> None:
        super()._set_ranges(units)
        self.target_range_ = units.target.range

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
