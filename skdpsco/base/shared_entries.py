"""What docstrings of several estimators say, written once."""

import re
from inspect import isfunction

__all__ = ["fill_docstrings"]

TEXTS = """
[epsilon]
epsilon : float, default=1.0
    Privacy budget, > 0. Smaller is safer.

[delta]
delta : float, default=1e-6
    Failure probability, in [0, 1), far below one over n_samples; few fits accept zero.

[ledger]
ledger : Ledger or None, default=None
    Refuses fits beyond its budget. See :doc:`/ledger`.

[max_records_per_unit]
max_records_per_unit : int or None, default=None
    Limit on records per person (``units``); protects people. See :doc:`/persons`.

[feature_bound]
feature_bound : float, array-like, dict, Series, Schema, "auto" or None, default="auto"
    Public bound that clips ``|X|``. "auto" and None find it with at most 7 % of the budget, or warn
    and use 1. See :doc:`/clipping`.

[target_bound]
target_bound : float, Schema or None, default=None
    Public bound that clips ``|y|``. None finds one privately.

[target_bounds]
target_bound : float, array-like of shape (n_targets,), Schema or None, default=None
    Public bound that clips ``|y|``. None finds one privately.

[descent]
solver : {"auto", "gradient-descent", "sgd"} or solver, default="auto"
    "auto" is "gradient-descent". See :doc:`/algorithms`.

[solver]
solver : str or solver, default="auto"
    "auto" is "gradient-descent". Others are "coordinate-descent",
    "greedy-coordinate-descent" and "sgd". See :doc:`/algorithms`.

[solver_of_l1_ball]
solver : str or solver, default="stagewise"
    Other solvers need a number as radius: "frank-wolfe", "frank-wolfe-laplace",
    "noisy-frank-wolfe" and "anytime-mirror-descent". See :doc:`/algorithms`.

[solver_of_lp_ball]
solver : str or solver, default="auto"
    "projected-descent", "phased-sgd", "one-pass-frank-wolfe", "tree-frank-wolfe" or "phased-erm".
    "auto" chooses by loss, budget and shape of X. See :doc:`/algorithms`.

[n_iter]
n_iter : int or "auto", default="auto"
    Noisy steps, in [1, 10000]; "auto" depends on budget and shape of X.

[fit_intercept]
fit_intercept : bool, default=True
    Whether to fit an intercept.

[classes]
classes : array-like of shape (n_classes,), Schema or None, default=None
    All possible labels. None takes those in y, and makes them public.

[class_weight]
class_weight : dict or None, default=None
    Public weights by label, in [1e-6, 1e6]; other labels weigh one.

[max_weight]
max_weight : float or None, default=None
    Public bound that clips ``sample_weight``; noise grows with it. None refuses weights.

[standard_errors]
standard_errors : bool, default=False
    Whether to spend about half of the budget on standard errors. See :doc:`/standard-errors`.

[relation]
relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
    What is hidden: values of a record, or also its presence. See :doc:`/neighbours`.

[random_state]
random_state : int, RandomState instance or None, default=None
    For tests only: it reveals the noise.

[p]
p : float, default=2.0
    Order of the norm, in [1, inf]. 1 suits data in which few features matter.

[row_norm]
row_norm : float or None, default=None
    Public bound on the l2 norm of a record whose features are divided by their bounds. Longer
    records are scaled down. None means sqrt(n_features). Noise grows with it.

[row_norm_of_moments]
row_norm : float or None, default=None
    Public bound, > 0, on the l2 norm of a record, target included, divided by its bounds. Longer
    ones are scaled down. None finds one privately.

[schema]
schema : Schema or None, default=None
    Ranges and categories of columns. With None, X must hold numbers only.

[monotone]
monotone : dict or None, default=None
    By column name: 1 if predictions never decrease with it, -1 if they never increase. Such
    columns form no pairs. Columns of arrays are called "x0", "x1" and so on.

[pairs]
pairs : "auto", list of tuple of two str, or None, default="auto"
    Pairs of columns, by name, that get a function of both. "auto" chooses some privately; None
    means no pairs.

[classes_]
classes_ : ndarray of shape (n_classes,)

[coef_]
coef_ : ndarray of shape (n_features,)

[coef_of_targets]
coef_ : ndarray of shape (n_features,) or (n_targets, n_features)

[coef_of_classes]
coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)

[intercept_]
intercept_ : float

[intercept_of_targets]
intercept_ : float or ndarray of shape (n_targets,)

[intercept_of_classes]
intercept_ : ndarray of shape (1,) or (n_classes,)

[feature_bound_]
feature_bound_ : ndarray of shape (n_features,)
    Absent if you declare bounds.

[feature_range_]
feature_range_ : ndarray of shape (2, n_features)
    `predict` clips X to this range.

[target_range_]
target_range_ : ndarray of shape (2,)
    Range of targets and predictions.

[target_range_of_targets]
target_range_ : ndarray of shape (2,) or (2, n_targets)
    Range of targets and predictions.

[n_iter_]
n_iter_ : int

[errors]
coef_covariance_, coef_standard_error_, uncertainty_
    If standard errors are known.

[task_weights_]
task_weights_ : ndarray of shape (n_losses, n_tasks)
    Weights of the tasks; the worst have the largest.

[n_rounds_]
n_rounds_ : int
    Only with "recursive-regularisation".

[radius_of_l1_ball]
radius : float or "auto", default="auto"
    Bound on the l1 norm of the coefficients, > 0, for features rescaled to the largest
    ``feature_bound``. "auto" chooses it with at most a tenth of the budget. With a number,
    ``feature_bound="auto"`` means 1, and ``feature_bound=None`` is refused.

[radius_of_lp_ball]
radius : float or "auto", default="auto"
    Bound on the norm of coefficients and intercepts, > 0, for features rescaled to the largest
    ``feature_bound``. Noise grows with it. With a number, here or in ``row_norm``,
    ``feature_bound="auto"`` means 1, and ``feature_bound=None`` is refused.

[solver_of_game]
solver : str or solver, default="auto"
    "gradient-descent", "mirror-descent", "bias-reduced-mirror-descent",
    "boosted-mirror-descent", "mirror-prox" or "recursive-regularisation". "auto" chooses by loss,
    budget and shape of X. See :doc:`/algorithms`.

[radius_of_l2_ball]
radius : float or "auto", default="auto"
    Bound on the l2 norm of the coefficients, > 0, for features rescaled to the largest
    ``feature_bound``. With a number, ``feature_bound="auto"`` means 1.

[radius_of_game]
radius : float or "auto", default="auto"
    Bound on the l1 norm of coefficients and intercepts, > 0, for features rescaled to the largest
    ``feature_bound``. With a number, ``feature_bound="auto"`` means 1.

[radius_]
radius_ : float
    Radius of a ball that holds the solution ("stagewise" only).

[path_]
path_ : RadiusPath
    Solutions with smaller radii, at no further cost ("stagewise" only).

[shape_functions_]
shape_functions_ : dict of str to ShapeFunction
    Function that each column adds to a prediction, by name.

[pair_functions_]
pair_functions_ : dict of tuple of two str to PairFunction
    Functions that pairs of columns add, by names.

[densities_]
densities_ : dict of str to Density or Shares
    Private estimates of how each column is distributed, by name.

[n_features_in_]
n_features_in_ : int

[feature_names_in_]
feature_names_in_ : ndarray of shape (`n_features_in_`,)

[privacy_]
privacy_ : PrivacyReport
    Guarantee and cost.

[guarantee]
By default, `fit` is (epsilon, delta)-differentially private for one replaced record. The shape
of X is public. See :doc:`/threat-model`.

[units]
units : array-like of shape (n_samples,) or None, default=None
    The person or other unit that each record belongs to. Needs ``max_records_per_unit``, and X in
    memory.

[outcome]
Returns
-------
self : object
    The fitted estimator. If a fit fails, the estimator keeps the results of an earlier one.

Raises
------
ValueError, TypeError
    If a parameter or the input is invalid. This costs no budget.
BudgetExceededError
    If the ledger's remaining budget is too small.
"""

SHARED: dict[str, str] = dict(re.findall(r"^\[(\w+)\]\n(.*?)\n+(?=\[|\Z)", TEXTS, re.DOTALL | re.M))
PLACEHOLDER = re.compile(r"^( *)\{(\w+(?:,\s+\w+)*)\}$", re.MULTILINE)


def _filled(docstring: str) -> str:
    """The docstring with the texts that lines such as ``{epsilon, delta}`` name."""

    def text(match: re.Match[str]) -> str:
        names = re.split(r",\s+", match[2])
        if not SHARED.keys() >= set(names):  # of a class of the user's
            return match[0]
        return re.sub("^(?=.)", match[1], "\n".join(SHARED[name] for name in names), flags=re.M)

    return PLACEHOLDER.sub(text, docstring)


def fill_docstrings(cls: type) -> None:
    """Fill in what the docstrings of a class and its methods share with those of others."""
    for documented in (cls, *filter(isfunction, vars(cls).values())):
        if documented.__doc__:  # Python has none with -OO, and nor have classes of users
            documented.__doc__ = _filled(documented.__doc__)
