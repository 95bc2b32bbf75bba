"""What PrivateGroupDRO refuses, by name, and that a refusal costs nothing."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from test_group_dro_estimator import data, model

from skdpsco import BudgetExceededError, Ledger

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore::skdpsco.minimax.UtilityWarning"),
]

GOOD = data(40)[2]
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
]
BAD_PARAMETERS = [
    ({"loss": "hinge"}, ValueError, "loss must be one of"),
    ({"loss": None}, ValueError, "'loss' parameter"),
    ({"objective": "best"}, ValueError, "objective must be one of"),
    ({"group_membership": "private"}, ValueError, "group_membership must be one of"),
    ({"average_weight": -0.1}, ValueError, r"average_weight must be in \[0, 1\]"),
    ({"average_weight": np.nan}, ValueError, r"average_weight must be in \[0, 1\]"),
    ({"average_weight": True}, TypeError, "average_weight must be a number"),
    ({"cvar_level": 0.0}, ValueError, r"cvar_level must be in \[1e-09, 1\]"),
    ({"cvar_level": "low"}, ValueError, "'cvar_level' parameter"),
    ({"radius": 0.0}, ValueError, "'radius' parameter"),
    ({"radius": True}, TypeError, "radius must be a positive number"),
    ({"radius": 1e101}, ValueError, "radius must be in"),
    ({"feature_bound": [1.0, 1.0]}, ValueError, r"shape \(4,\)"),
    ({"feature_bound": np.inf}, ValueError, "feature_bound"),
    ({"target_bound": 0.0}, ValueError, "target_bound must be in"),
    ({"target_bound": False}, TypeError, "target_bound must be a positive number"),
    ({"epsilon": 0.0}, ValueError, "'epsilon' parameter"),
    ({"epsilon": 1e-30}, ValueError, "epsilon=1e-30 is too small"),
    ({"classes": [0, 1, 2]}, ValueError, "classes"),
    ({"fit_intercept": "yes"}, ValueError, "'fit_intercept' parameter"),
]


@pytest.mark.parametrize(("sensitive", "groups", "kind", "message"), BAD_GROUPS)
def test_bad_groups(sensitive, groups, kind, message):
    X, y, _ = data(40)
    with pytest.raises(kind, match=message):
        model(groups=groups).fit(X, y, sensitive_features=sensitive)


@pytest.mark.parametrize(("params", "kind", "message"), BAD_PARAMETERS)
def test_bad_parameters(params, kind, message):
    X, y, group = data(40)
    with pytest.raises(kind, match=message):
        model(**params).fit(X, y, sensitive_features=group)


def test_bad_data():
    X, y, group = data(40)
    with pytest.raises(ValueError, match="y contains NaN"):
        model(loss="squared").fit(X, np.where(y, np.nan, y), sensitive_features=group)
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        model().fit(X, np.arange(40) % 3, sensitive_features=group)
    with pytest.raises(ValueError, match="NaN"):
        model().fit(np.where(X > 0, np.nan, X), y, sensitive_features=group)
    with pytest.raises(ValueError, match="at most 2000 features"):
        model().fit(np.zeros((40, 2000)), y, sensitive_features=group)
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
