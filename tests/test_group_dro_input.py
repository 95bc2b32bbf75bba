"""What PrivateGroupDRO refuses, by name, and that a refusal costs nothing."""

import numpy as np
import pandas as pd
import pytest
from cases import each
from scipy import sparse
from test_group_dro_estimator import data, model

pytestmark = [
    pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning"),
]


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


@each(("sensitive", "groups", "kind", "message"), BAD_GROUPS)
def test_bad_groups(sensitive, groups, kind, message):
    X, y, _ = data(40)
    with pytest.raises(kind, match=message):
        model(groups=groups).fit(X, y, sensitive_features=sensitive)


def test_private_membership_refuses_labels_that_are_not_declared():
    X, y, group = data(40)
    with pytest.raises(ValueError, match="a label that is not among groups"):
        model(**PRIVATE).fit(X, y, sensitive_features=np.where(group == "north", "west", group))
    overlapping = model(**PRIVATE, group_prior=[0.9, 0.8])  # need not sum to 1
    overlapping.fit(X, y, sensitive_features=MATRIX)
    with pytest.raises(ValueError, match="group_prior must sum to 1"):
        overlapping.fit(X, y, sensitive_features=group)
