"""Declarations by column name: dicts, labelled Series and schemas are never taken by position."""

from contextlib import nullcontext
from inspect import signature

import numpy as np
import pandas as pd
import pytest
from cases import each
from numpy.testing import assert_array_equal
from sklearn.base import clone

import skdpsco
from skdpsco import (
    PrivateGroupDRO,
    PrivateLasso,
    PrivateLogisticRegression,
    PrivateMonotoneGLM,
    PrivateSynthesizer,
    RowBlocks,
    Schema,
)
from skdpsco._validation import check_feature_bound, in_column_order
from skdpsco.model_selection._fitting import n_classes_of, target_bound_of
from skdpsco.preprocessing import (
    CategoricalDomainEncoder,
    ColumnClipper,
    PrivateFeatureSelector,
    PrivateQuantileClipper,
    PrivateSplineTransformer,
    PrivateStandardScaler,
    PublicBoundsScaler,
    RowClipper,
)
from skdpsco.synthesis.columns import ColumnTable
from skdpsco.synthesis.domain import declare

SCHEMA = Schema(
    {
        "a": {"bounds": [-3, 2]},
        "b": {"bounds": [0, 50]},
        "c": "boolean",
        "d": ["x", "y"],
        "y": {"bounds": [-7, 5]},
    },
    target="y",
)
CLASSES = Schema({"a": {"bounds": [0, 1]}, "y": ["no", "yes"]}, target="y")
FRAME = pd.DataFrame(
    np.random.default_rng(0).uniform([-3, 0], [2, 50], (240, 2)), columns=["a", "b"]
)
LOWER, UPPER, BOUND = {"b": 0, "a": -3}, {"b": 50, "a": 2}, {"b": 50, "a": 3}
KINDS = {"dict": dict, "Series": pd.Series, "Schema": lambda bounds: SCHEMA}
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
def test_one_helper_for_all(kind):
    labelled = KINDS[kind](BOUND)
    assert in_column_order("feature_bound", labelled, ["a", "b"]) == [3, 50]
    assert check_feature_bound(labelled, 2, np.array(["b", "a"])).tolist() == [50, 3]
    with pytest.raises(ValueError, match="X has no column names"):
        in_column_order("feature_bound", labelled, None)
    with pytest.raises(ValueError, match=r"it lacks \['e'\]"):
        in_column_order("feature_bound", labelled, ["a", "e"])
    if kind != "Schema":
        with pytest.raises(ValueError, match=r"X lacks \['b'\]"):
            in_column_order("feature_bound", labelled, ["a"])
    unlabelled = pd.Series([3, 50])  # it has an order, and nothing else
    assert in_column_order("feature_bound", unlabelled, ["a", "b"]) is unlabelled


@each_kind
@each(
    "transformer",
    [
        PublicBoundsScaler(),
        ColumnClipper(),
        PrivateQuantileClipper(),
        PrivateStandardScaler(),
        PrivateSplineTransformer(),
    ],
)
def test_bounds_of_transformers(kind, transformer):
    given = {"lower": KINDS[kind](LOWER), "upper": KINDS[kind](UPPER)}
    expected = {"lower": [-3, 0], "upper": [2, 50]}
    frame = FRAME * 3.0
    private = hasattr(transformer, "epsilon")
    if private:  # with hardly any noise, seeded
        given |= {"random_state": 0, "epsilon": 1e3}
        expected |= {"random_state": 0, "epsilon": 1e3}
    with pytest.warns(match="random_state") if private else nullcontext():
        by_name = clone(transformer).set_params(**given).fit_transform(frame)
        in_order = clone(transformer).set_params(**expected).fit_transform(frame)
    assert_array_equal(by_name, in_order)
    with pytest.raises(ValueError, match="X has no column names"):
        clone(transformer).set_params(**given).fit(frame.to_numpy())


@each_kind
def test_norms_and_categories(kind):
    given = KINDS[kind](BOUND)
    for norm, radius in (("l1", 53.0), ("l2", np.hypot(3, 50)), ("max", 50.0)):
        expected = RowClipper(norm, bound=radius).fit_transform(FRAME * 9)
        assert_array_equal(RowClipper(norm, bound=given).fit_transform(FRAME * 9), expected)
    with pytest.raises(TypeError, match="bounds by the names of columns"):
        RowClipper(bound=pd.Series([1.0, 2.0])).fit(FRAME)
    words = pd.DataFrame({"d": ["y", "z"], "c": [True, False]}, dtype=object)
    lists = KINDS[kind]({"c": [False, True], "d": ["x", "y"]})
    out = CategoricalDomainEncoder(lists).fit_transform(words)
    assert_array_equal(out, [[0, 1, 0, 1], [0, 0, 1, 0]])


PUBLIC = [getattr(skdpsco, name) for name in skdpsco.__all__ if name.startswith("Private")]
BOUNDED = [kind for kind in PUBLIC if "feature_bound" in signature(kind).parameters]
MODELS = [kind() for kind in (*BOUNDED, PrivateFeatureSelector)]


@each("model", MODELS)
def test_models_refuse_other_names_before_the_charge(model):
    y = 1 + np.arange(len(FRAME)) % 2
    more = {"sensitive_features": y} if isinstance(model, PrivateGroupDRO) else {}
    wrong = pd.Series({"a": 3.0, "e": 50.0})
    unpayable = {"ledger": _NoCharge(), "feature_bound": wrong}
    with pytest.raises(ValueError, match=r"lacks \['b'\], and X lacks \['e'\]"):
        clone(model).set_params(**unpayable).fit(FRAME, y, **more)


@each("model", MODELS)
def test_models_take_what_a_schema_says_of_the_target(model):
    about = {"classes": CLASSES} if "classes" in model.get_params() else {"target_bound": SCHEMA}
    if isinstance(model, PrivateMonotoneGLM):
        about["link"] = "identity"
    labels = np.where(np.arange(len(FRAME)) % 2, "yes", "no")
    y = labels if "classes" in about else FRAME["a"].abs() + 1.0
    more = {"sensitive_features": y} if isinstance(model, PrivateGroupDRO) else {}
    with pytest.raises(_ReachedError):  # the charge, which comes once all has been checked
        clone(model).set_params(**about, ledger=_NoCharge()).fit(FRAME, y, **more)
    other = {name: SCHEMA if name == "classes" else CLASSES for name in about if name != "link"}
    with pytest.raises(ValueError, match="the schema declares no target with"):
        clone(model).set_params(**about).set_params(**other).fit(FRAME, y, **more)


def test_blocks_have_names_too():
    blocks = RowBlocks.from_arrays(FRAME, FRAME["a"])
    with pytest.raises(ValueError, match=r"lacks \['b'\]"):
        PrivateLasso(feature_bound={"a": 3.0}, ledger=_NoCharge()).fit(blocks)
    with pytest.raises(_ReachedError):
        PrivateLasso(feature_bound=BOUND, ledger=_NoCharge()).fit(blocks)


def test_what_searches_ask_of_their_models():
    y = np.array(["no"] * 5)  # one of two declared classes
    assert n_classes_of(PrivateLogisticRegression(classes=CLASSES), y) == 2
    assert target_bound_of([PrivateLasso(), PrivateLasso(target_bound=SCHEMA)]) == 7.0


def test_domain_of_a_schema():
    schema = Schema(
        {
            "year": {"bounds": [2000, 2010], "integer": True},
            "age": {"bounds": [0.5, 99.5], "integer": True},
            "x": {"bounds": [-1, 1]},
            "d": {"categories": ["u", "v"], "missing": True},
            "c": "boolean",
            "absent": [1, 2, 3],
        }
    )
    names = ["c", "d", "x", "age", "year"]
    dtypes = [np.dtype(t) for t in (bool, object, float, int, int)]
    domain = declare(schema, ColumnTable("pandas", names, dtypes))
    assert domain.shape == (2, 3, 16 + 1, 16, 11)
    fine = domain.fine.entries
    assert (fine[2].edges[0], fine[2].points, fine[2].edges[-1]) == (-1.0, (0.0,), 1.0)
    assert domain.entries[1].tolist() == ["u", "v", None]
    for j, low, high in ((3, 1, 99), (4, 2000, 2010)):
        assert_array_equal(fine[j].whole_numbers("int64")[0], np.arange(low, high + 1))
        assert fine[j].integer
    with pytest.raises(ValueError, match=r"it lacks \['id'\]"):
        declare(schema, ColumnTable("pandas", [*names, "id"], [*dtypes, np.dtype(int)]))
    frame = pd.DataFrame({"c": [True, False], "d": ["u", None], "year": [2001, 2010]})
    with pytest.raises(_ReachedError):
        PrivateSynthesizer(domain=schema, order=1, ledger=_NoCharge()).fit(frame)
    codes = Schema({"x": {"bounds": [0, 10], "missing": [0, -9]}})
    for dtype, missing in ((float, True), (int, False)):
        domain = declare(codes, ColumnTable("pandas", ["x"], [np.dtype(dtype)]))
        assert domain.fine.entries[0].points == (0.0, -9.0)
        assert domain.shape == ((16 if missing else 10) + 2 + missing,)
    nothing = Schema({"x": {"bounds": [0, 1], "integer": True, "missing": [0, 1]}})
    with pytest.raises(ValueError, match="all numbers of 'x' are codes of missing ones"):
        declare(nothing, ColumnTable("pandas", ["x"], [np.dtype(int)]))


def test_what_no_schema_declares():
    with pytest.raises(ValueError, match="radius must not be a schema"):
        SCHEMA.declared("radius")
    with pytest.raises(ValueError, match="declares no groups"):
        SCHEMA.declared("groups")


class _ReachedError(Exception):
    """All checks have passed."""


class _NoCharge:
    def charge(self, *args):
        raise _ReachedError
