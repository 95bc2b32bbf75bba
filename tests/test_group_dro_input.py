"""What PrivateGroupDRO refuses, by name, and that a refusal costs nothing."""

import numpy as np
import pandas as pd
import pytest
from cases import each
from scipy import sparse
from test_group_dro_estimator import data, model

from skdpsco import BudgetExceededError, Ledger
from skdpsco.solvers import Allowance, FrankWolfe
from skdpsco.solvers.groups.descent import GroupDescent

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning"),
]


class Overspends(GroupDescent):
    """Plans with twice the budget."""

    def plan(self, problem, budget, n_iter=None):
        return super().plan(problem, Allowance(4 * budget.rho), n_iter)


GOOD = data(40)[2]
PRIVATE = {"group_membership": "private", "groups": ["north", "south"]}
MATRIX = np.eye(2, dtype=bool)[np.arange(40) % 2]
MISSING = pd.DataFrame(MATRIX).astype("boolean").mask(MATRIX[:, ::-1])
BAD_GROUPS = [
    (None, None, ValueError, "fit needs sensitive_features"),
    (GOOD[:-1], None, ValueError, "sensitive_features must hold one label per record: 40.*39"),
    (GOOD, ["north"], ValueError, "a label that is not among groups"),
    (GOOD, ["north", "south", "west"], ValueError, "groups: 'west' has no member"),
    (GOOD, ["north", "north", "south"], ValueError, "groups must hold different labels"),
    (GOOD, [], ValueError, "groups must hold labels"),
    (GOOD, [["north", None]], ValueError, "groups must not contain missing labels"),
    (GOOD, "north", ValueError, "'groups' parameter"),
    (GOOD, 2, ValueError, "'groups' parameter"),
    ("region", None, ValueError, "'region' must be the name of one column of X"),
    ([None, *GOOD[1:]], None, ValueError, "sensitive_features must not contain missing"),
    ([np.nan] * 40, None, ValueError, "sensitive_features must not contain missing"),
    ([pd.NA, *GOOD[1:]], None, ValueError, "sensitive_features must not contain missing"),
    ([{}] * 40, None, TypeError, "sensitive_features must hold labels that can be hashed"),
    (np.zeros((40, 2, 2)), None, ValueError, "sensitive_features must hold labels"),
    (3, None, ValueError, "sensitive_features must hold labels"),
    (sparse.csr_array(np.ones((40, 1))), None, TypeError, "sensitive_features must be dense"),
    (sparse.csr_array(MATRIX), None, TypeError, "sensitive_features must be dense"),
    (MATRIX[:-1], None, ValueError, "sensitive_features must hold one row per record: 40.*39"),
    (MATRIX, ["north"], ValueError, "one label per column of sensitive_features: 2 .* 1 labels"),
    (MATRIX, ["north", "north"], ValueError, "groups must hold different labels"),
    (MATRIX & [True, False], None, ValueError, "groups: 1 has no member"),
    (MATRIX[:, :0], None, ValueError, "sensitive_features must hold labels"),
    (MISSING, None, ValueError, "sensitive_features must not contain missing values"),
]
BAD_PARAMETERS = [
    ({"loss": "huber"}, ValueError, "'loss' .* must be a str among"),
    ({"loss": None}, ValueError, "'loss' parameter"),
    ({"objective": "best"}, ValueError, "'objective' .* must be a str among"),
    ({"group_membership": "secret"}, ValueError, "'group_membership' .* a str among"),
    ({"group_membership": "private"}, ValueError, "groups must be declared"),
    ({"group_prior": [0.5, 0.5]}, ValueError, "group_prior must be None"),
    ({"group_prior": 0.5, **PRIVATE}, ValueError, "'group_prior' parameter"),
    ({"group_prior": [1.0], **PRIVATE}, ValueError, r"group_prior must have shape \(2,\)"),
    ({"group_prior": [[0.5, 0.5]], **PRIVATE}, ValueError, r"group_prior must have shape \(2,\)"),
    ({"group_prior": [0.5, 0.4], **PRIVATE}, ValueError, "group_prior must sum to 1"),
    ({"group_prior": [0.5, 0.50001], **PRIVATE}, ValueError, "group_prior must sum to 1"),
    ({"group_prior": [0.0, 1.0], **PRIVATE}, ValueError, r"shares in \[1e-09, 1\]"),
    ({"group_prior": [-0.5, 1.5], **PRIVATE}, ValueError, r"shares in \[1e-09, 1\]"),
    ({"group_prior": [np.nan, 1.0], **PRIVATE}, ValueError, r"shares in \[1e-09, 1\]"),
    ({"group_prior": [True, True], **PRIVATE}, TypeError, "one number per group"),
    ({"group_prior": ["a", "b"], **PRIVATE}, TypeError, "one number per group"),
    ({"group_prior": [[0.5], [0.2, 0.3]], **PRIVATE}, TypeError, "one number per group"),
    ({"solver": "sgd"}, ValueError, "'solver' parameter"),
    ({"solver": GroupDescent}, TypeError, r"an instance, GroupDescent\(\), not a class"),
    ({"solver": FrankWolfe()}, TypeError, "FrankWolfe needs the kernel"),
    ({"solver": Overspends()}, ValueError, "The solver's plan costs"),
    ({"n_iter": 0}, ValueError, "'n_iter' parameter"),
    ({"n_iter": "many"}, ValueError, "'n_iter' parameter"),
    ({"n_iter": True}, TypeError, "n_iter must be 'auto' or an int"),
    ({"average_weight": -0.1}, ValueError, r"average_weight' .* in the range \[0.0, 1.0\]"),
    ({"average_weight": np.nan}, ValueError, r"average_weight' .* in the range \[0.0, 1.0\]"),
    ({"average_weight": True}, TypeError, "average_weight must be a number"),
    ({"cvar_level": 0.0}, ValueError, r"cvar_level' .* in the range \[1e-09, 1.0\]"),
    ({"cvar_level": "low"}, ValueError, "'cvar_level' parameter"),
    ({"radius": 0.0}, ValueError, "'radius' parameter"),
    ({"radius": True}, TypeError, "radius must be a positive number"),
    ({"radius": 1e101}, ValueError, "radius must be in"),
    ({"feature_bound": [1.0, 1.0]}, ValueError, r"shape \(4,\)"),
    ({"feature_bound": np.inf}, ValueError, "feature_bound"),
    ({"target_bound": 0.0}, ValueError, "'target_bound' parameter"),
    ({"target_bound": 1e101}, ValueError, "target_bound must be in"),
    ({"target_bound": True}, TypeError, "target_bound must be a positive number"),
    ({"epsilon": 0.0}, ValueError, "'epsilon' parameter"),
    ({"epsilon": 1e-30}, ValueError, "epsilon=1e-30 is too small"),
    ({"classes": [0, 1, 2]}, ValueError, "classes"),
    ({"fit_intercept": "yes"}, ValueError, "'fit_intercept' parameter"),
]


@each(("sensitive", "groups", "kind", "message"), BAD_GROUPS)
def test_bad_groups(sensitive, groups, kind, message):
    X, y, _ = data(40)
    with pytest.raises(kind, match=message):
        model(groups=groups).fit(X, y, sensitive_features=sensitive)


@each(("params", "kind", "message"), BAD_PARAMETERS)
def test_bad_parameters(params, kind, message):
    X, y, group = data(40)
    with pytest.raises(kind, match=message):
        model(**params).fit(X, y, sensitive_features=group)


def test_private_membership_refuses_labels_that_are_not_declared():
    X, y, group = data(40)
    with pytest.raises(ValueError, match="a label that is not among groups"):
        model(**PRIVATE).fit(X, y, sensitive_features=np.where(group == "north", "west", group))
    overlapping = model(**PRIVATE, group_prior=[0.9, 0.8])  # need not sum to 1
    overlapping.fit(X, y, sensitive_features=MATRIX)
    with pytest.raises(ValueError, match="group_prior must sum to 1"):
        overlapping.fit(X, y, sensitive_features=group)


def test_bad_data():
    X, y, group = data(40)
    with pytest.raises(ValueError, match="y contains NaN"):
        model(loss="squared").fit(X, np.where(y, np.nan, y), sensitive_features=group)
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        model().fit(X, np.arange(40) % 3, sensitive_features=group)
    with pytest.raises(ValueError, match="NaN"):
        model().fit(np.where(X > 0, np.nan, X), y, sensitive_features=group)
    message = "contains labels that are not among"
    with pytest.raises(ValueError, match=message):
        model(classes=[1, 2]).fit(X, y, sensitive_features=group)


def test_a_fit_that_fails_costs_nothing_and_changes_nothing():
    X, y, group = data()
    ledger = Ledger(20.0, 1e-5)
    fitted = model(ledger=ledger).fit(X, y, sensitive_features=group)
    before, left = fitted.coef_.copy(), ledger.remaining()
    for bad in (None, group[:-1]):
        with pytest.raises(ValueError, match="sensitive_features"):
            fitted.fit(X, y, sensitive_features=bad)
    assert ledger.remaining() == left
    with pytest.raises(BudgetExceededError):
        fitted.set_params(epsilon=100.0).fit(X, y, sensitive_features=group)
    assert ledger.remaining() == left
    assert np.array_equal(fitted.coef_, before)
