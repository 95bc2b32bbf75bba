"""Mistakes of users of private transformers, which draw no noise, and extreme input."""

import math

import numpy as np
import pytest
import test_bad_input as bad_input
from cases import each
from scipy import sparse
from sklearn.base import clone
from test_bad_input import INF, NAN, X, Y

from skdpsco.data.pieces import sum_error
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.preprocessing import (
    PrivateFeatureSelector,
    PrivateQuantileClipper,
    PrivateStandardScaler,
)
from skdpsco.preprocessing.scaler import SQUARES, plan_moments
from skdpsco.preprocessing.selector import plan_selection
from skdpsco.privacy import rho_of

pytestmark = pytest.mark.filterwarnings(
    "ignore::skdpsco.PrivacyWarning", "ignore:Bounds of the columns cannot be found"
)

SCALER, CLIPPER = PrivateStandardScaler(lower=-1.0, upper=1.0), PrivateQuantileClipper()
SELECTOR = PrivateFeatureSelector(n_features_to_select=2)
REGRESSION = PrivateFeatureSelector(n_features_to_select=2, task="regression")
ALL = {"scaler": SCALER, "clipper": CLIPPER, "selector": SELECTOR, "regression": REGRESSION}


def refuses(model, match, X=X, y=Y, **params):
    bad_input.refuses(clone(model).set_params(**params), match, X, y)


NUMBER = r"{} must be a number in \[-1e\+100, 1e\+100\], or a list of one such number for each of 4"
BOUNDS = [
    *(
        ({end: value}, NUMBER.format(end))
        for end in ("lower", "upper")
        for value in (NAN, INF, 1e101, "a", True, 1j, [1, 2], [1, 2, 3, NAN], [[1] * 4])
    ),
    ({"lower": 5e6, "upper": 1.0}, "lower must be less than upper, by at least 1e-100"),
    ({"lower": 2.0, "upper": 2.0}, "lower must be less than upper"),
    ({"lower": np.ma.masked, "upper": 2.0}, "lower must not be a masked array"),
    ({"lower": [0, 0, 7, 0], "upper": 7}, "lower must be less than upper.*of column 2 are 7 and 7"),
]


@each("name", ["scaler", "clipper"])
@each(("params", "match"), BOUNDS)
def test_bounds(name, params, match):
    refuses(ALL[name], match, **params)


PAIR = "quantile_range must be a tuple of two numbers, got"
SIDES = r"quantile_range must be two numbers in \[0, 0.5\) and \(0.5, 1\], got"


@each(
    ("model", "params", "match"),
    [
        *((SCALER, {end: None}, "lower and upper must both be") for end in ("lower", "upper")),
        *((CLIPPER, {end: None}, NUMBER.format(end)) for end in ("lower", "upper")),
        (SCALER, {"with_mean": "yes"}, "with_mean.*'bool'"),
        (SCALER, {"with_std": None}, "with_std.*'bool'"),
        (SCALER, {"with_mean": False, "with_std": False}, "both False: there is nothing to learn"),
        *((CLIPPER, {"quantile_range": v}, PAIR) for v in (None, 0.9, "ab", (0.1,), {0.1, 0.9})),
        *(
            (CLIPPER, {"quantile_range": v}, SIDES)
            for v in ((1.0, 99.0), (-0.1, 0.9), (0.1, 0.4), (0.5, 0.9), (0.6, 0.9), (0.1, 1.1))
        ),
        (CLIPPER, {"quantile_range": (0.9, 0.1)}, r"quantile_range\[0\] must be less than"),
        (CLIPPER, {"quantile_range": (NAN, 0.9)}, r"quantile_range\[0\] must be in"),
        (CLIPPER, {"quantile_range": ("a", 0.9)}, r"quantile_range\[0\] must be a finite number"),
        (CLIPPER, {"quantile_range": (0.1, True)}, r"quantile_range\[1\] must be a finite number"),
        (CLIPPER, {"feature_range": 1.0}, "feature_range must be a tuple of two numbers"),
        (CLIPPER, {"feature_range": (1, -1)}, r"feature_range\[0\] must be less than"),
        *(
            (SELECTOR, {"n_features_to_select": v}, r"n_features_to_select.*\[1, inf\)")
            for v in (0, -1, 2.0, 0.5, "all", None)
        ),
        (SELECTOR, {"n_features_to_select": True}, r"n_features_to_select must be an int >= 1"),
        *((SELECTOR, {"task": v}, r"task.*among \{'(cl|r)") for v in ("auto", None)),
        *(
            (SELECTOR, {"feature_bound": v}, "feature_bound")
            for v in (0, NAN, "a", True, [1, 2], [1, 1, 1, -1])
        ),
        (SELECTOR, {"classes": [0]}, "classes must be a list of at least two different labels"),
        (SELECTOR, {"classes": [0, 2]}, r"y contains labels that are not among classes=\[0, 2\]"),
        *((REGRESSION, {"target_bound": v}, "target_bound") for v in (0, NAN, "a", True, 1e101)),
    ],
)
def test_parameters(model, params, match):
    refuses(model, match, **params)


@each("name", ["scaler", "clipper"])
def test_sparse(name):
    match = r"X is sparse, but Private\w+ moves zeros: make it dense, with X.toarray\(\)"
    refuses(ALL[name], match, X=sparse.csr_array(X))
    model = clone(ALL[name]).set_params(random_state=0).fit(X)
    with pytest.raises(ValueError, match=match):
        model.transform(sparse.csc_array(X))


@each("bound", [1e-100, 1.0, 1e100])
def test_extreme_magnitudes(bound):
    """No overflow on the way, whatever NumPy does about one."""
    huge = np.where(X > 0, 1e308, -1e308)
    for name, params in (
        ("scaler", {"lower": -bound, "upper": bound}),
        ("clipper", {"lower": -bound, "upper": bound, "epsilon": 50.0}),
        ("selector", {"feature_bound": bound}),
        ("regression", {"feature_bound": bound, "target_bound": bound}),
    ):
        for given in (huge, X * 1e-310):
            model = clone(ALL[name]).set_params(random_state=0, **params)
            with np.errstate(all="raise"):
                out = model.fit(given, Y).transform(given)
            assert np.isfinite(out).all()


def test_plans_cover_rounding_where_it_matters():
    n, d, mu = 2**27, 2000, 1e-4
    error = sum_error(n, 1.0)
    assert error > 9e-4
    plan = plan_moments(n, d, True, mu)
    sensitivity = 2 * math.sqrt(d) * (1 + error * (1 + 2 * SQUARES))
    units = sensitivity / plan.grid + 1.25 * math.sqrt(2 * d)
    assert units <= mu * math.sqrt(4.0**SCALE_BITS - 16)
    assert units > 0.999 * mu * 2**SCALE_BITS
    for regression, width in ((False, 1.0), (True, 2.0)):
        selection = plan_selection(n, d, 1, regression, 1.0, 0.02)
        grid = selection.grid
        epsilon0 = math.sqrt(8 * (0.02 - (rho_of(selection.target.event) if regression else 0.0)))
        change = 2 * width + 16 * error
        assert grid * 2**SCALE_BITS == pytest.approx(2 * change / epsilon0, rel=1e-4)


def test_too_many_columns():
    match = r"split the budget for epsilon=0\.0001, delta=1e-06, n=1, d={}: .*too large"
    refuses(SCALER, match.format(310000), np.zeros((1, 310_000)), [0], epsilon=1e-4)
    params = {"epsilon": 1e-4, "n_features_to_select": 450_000, "classes": [0, 1]}
    refuses(SELECTOR, match.format(450001), np.zeros((1, 450_001)), [0], **params)
