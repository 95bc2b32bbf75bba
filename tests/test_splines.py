"""Splines of columns: what scikit-learn computes, between knots that are declared or private."""

import numpy as np
import pandas as pd
import pytest
from cases import costs_nothing, each
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer

from skdpsco import (
    Ledger,
    PrivateGridSearchCV,
    PrivateRidge,
    RowBlocks,
    Schema,
    make_private_pipeline,
)
from skdpsco.inspection import privacy_report
from skdpsco.preprocessing import PrivateSplineTransformer
from skdpsco.privacy import NoOpEvent

pytestmark = [
    # Seeds make the tests deterministic; tests/test_random.py tests the warning.
    pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning"),
    pytest.mark.filterwarnings("ignore:Bounds of the columns cannot be found"),
]
each_degree = pytest.mark.parametrize("degree", [0, 1, 2, 3])
KNOTS = np.array([[-2.0, 0.0], [-1.0, 1.0], [0.5, 4.0], [1.0, 9.0], [2.0, 9.5]])
RECORDS = np.random.default_rng(0).uniform(-4.0, 12.0, (500, 2))


# --- the basis


@each_degree
@each("extrapolation", ["constant", "periodic"])
def test_declared_knots_give_the_splines_of_scikit_learn_and_cost_nothing(degree, extrapolation):
    ledger = Ledger(epsilon=1.0, delta=1e-6)
    params = {"degree": degree, "knots": KNOTS, "extrapolation": extrapolation}
    splines = PrivateSplineTransformer(**params, ledger=ledger).fit(RECORDS)
    assert splines.privacy_.event == NoOpEvent()
    assert ledger.remaining().rho == pytest.approx(ledger.rho)
    assert_array_equal(splines.knots_, KNOTS)
    within = np.clip(RECORDS, KNOTS[0], KNOTS[-1])  # scikit-learn has no constant bins beyond them
    given = within if extrapolation == "constant" else RECORDS
    expected = SplineTransformer(**params).fit(given)
    assert_allclose(splines.transform(RECORDS), expected.transform(given), atol=1e-15)
    names = splines.get_feature_names_out(["a", "b"])
    assert_array_equal(names, expected.get_feature_names_out(["a", "b"]))


@each_degree
@each("extrapolation", ["constant", "periodic"])
def test_values_are_within_0_and_1_for_all_numbers(degree, extrapolation):
    params = {"knots": "uniform", "lower": -1, "upper": [1, 2], "extrapolation": extrapolation}
    splines = PrivateSplineTransformer(4, degree, **params).fit(RECORDS)
    extreme = np.array([[1e308, -1e308], [5e-324, 2.0], [-1.0, 1.0], [0.3, 1.9999]])
    out = splines.transform(extreme)
    assert out.min() >= 0.0
    assert out.max() <= 1.0
    half = out.shape[1] // 2
    assert_allclose([out[:, :half].sum(axis=1), out[:, half:].sum(axis=1)], 1.0)


def test_degree_0_stands_for_bins():
    edges = np.array([0.0, 1.0, 3.0, 10.0])
    x = np.array([-5.0, 0.0, 0.5, 1.0, 2.0, 3.0, 9.0, 10.0, 50.0])
    bins = PrivateSplineTransformer(degree=0, knots=edges[:, None]).fit_transform(x[:, None])
    assert_array_equal(bins.argmax(axis=1), [0, 0, 0, 1, 1, 2, 2, 2, 2])
    assert_array_equal(bins.sum(axis=1), 1.0)


@each("relation", ["replace-one", "add-or-remove-one"])
def test_private_knots_are_close_to_quantiles(relation):
    rng = np.random.default_rng(0)
    C = np.c_[rng.normal(size=20_000), np.exp(rng.normal(size=20_000)), rng.uniform(18, 90, 20_000)]
    bounds = {"lower": [-9, 0, 18], "upper": [9, 60, 90]}
    splines = PrivateSplineTransformer(**bounds, relation=relation, random_state=0).fit(C)
    for x, knots in zip(C.T, splines.knots_.T, strict=True):
        ranks = np.searchsorted(np.sort(x), knots[1:-1]) / len(x)
        assert_allclose(ranks, [0.25, 0.5, 0.75], atol=0.03)
        assert (x < knots[0]).mean() < 0.02
        assert (x > knots[-1]).mean() < 0.02


def test_ranges_that_are_not_declared_are_found():
    rng = np.random.default_rng(0)
    C = 1e6 * np.c_[rng.normal(size=20_000), 7.0 + 0.3 * rng.normal(size=20_000)]
    knots = PrivateSplineTransformer(random_state=0).fit(C).knots_
    for x, own in zip(C.T, knots.T, strict=True):
        ranks = np.searchsorted(np.sort(x), own[1:-1]) / len(x)
        assert_allclose(ranks, [0.25, 0.5, 0.75], atol=0.1)


@each("n", [5, 3000])
@each("n_knots", [2, 5, 100])
@each(
    "bounds",
    [
        {},
        {"lower": -1.0, "upper": 1.0},
        {"lower": 1e9, "upper": 1e9 + 1.0},
        {"lower": -1e100, "upper": 1e100},
        {"lower": 0.0, "upper": 1e-100},
    ],
)
def test_knots_increase_whatever_the_columns_are(n, n_knots, bounds):
    rng = np.random.default_rng(0)
    columns = (np.zeros(n), np.full(n, 5.0), rng.integers(0, 2, n), rng.choice([-1e300, 1e300], n))
    C = np.column_stack(columns)
    for seed in range(5):
        splines = PrivateSplineTransformer(n_knots, **bounds, random_state=seed).fit(C)
        assert (np.diff(splines.knots_, axis=0) > 0).all()
        out = splines.transform(C)
        assert np.isfinite(out).all()
        if bounds:
            assert (splines.knots_ >= bounds["lower"]).all()
            assert (splines.knots_ <= bounds["upper"]).all()


def test_other_columns_are_passed_on():
    frame = pd.DataFrame({"a": RECORDS[:, 0], "b": [0.0, 1.0] * 250, "c": RECORDS[:, 1]})
    by_name = {"c": [0.0, 4.0, 9.0], "a": [-2.0, 0.0, 1.0]}
    splines = PrivateSplineTransformer(degree=1, knots=by_name, columns=["c", "a"])
    out = splines.set_output(transform="pandas").fit_transform(frame)
    names = ["a_sp_0", "a_sp_1", "a_sp_2", "c_sp_0", "c_sp_1", "c_sp_2", "b"]
    assert list(out.columns) == names
    assert_array_equal(out["b"], frame["b"])
    by_place = PrivateSplineTransformer(
        degree=1, knots=[[-2, 0], [0, 4], [1, 9]], columns=np.array([0, 2])
    )
    assert_array_equal(out, by_place.fit_transform(frame.to_numpy()))
    assert_allclose(out["a_sp_1"], np.interp(frame["a"], by_name["a"], [0.0, 1.0, 0.0]))


# --- privacy


def test_a_pipeline_is_private_and_splines_after_it_have_bounds():
    model = PrivateRidge(feature_bound=1.0)
    for step in (PrivateSplineTransformer(), PrivateSplineTransformer(columns=[0], knots=KNOTS)):
        assert privacy_report(make_pipeline(step, model)).private
    data_knots = make_pipeline(SplineTransformer(), model)
    assert not privacy_report(data_knots).private
    assert "PrivateSplineTransformer" in str(privacy_report(data_knots))


@each(
    "params, match",
    [
        ({"knots": "kmeans"}, "knots must be 'quantile', 'uniform'"),
        ({"knots": [[0.0, 1.0]]}, "knots must be .* at least two numbers"),
        ({"knots": [[0.0], [1.0]]}, r"knots must be .* got shape \(2, 1\)"),
        ({"knots": [[0.0, 1.0], [1.0, 1.0]]}, "those of column 1 do not"),
        ({"knots": [[0.0, 1.0], [np.nan, 2.0]]}, "those of column 0 do not"),
        ({"knots": [[0.0, 1.0], [2.0]]}, "must have equally many"),
        ({"knots": ["a", "b"]}, "knots must be"),
        ({"knots": {"a": [0, 1], "b": [0, 1]}}, "X has no column names"),
        ({"knots": "uniform"}, "lower and upper must be declared with knots='uniform'"),
        ({"extrapolation": "linear"}, "extrapolation"),
        ({"extrapolation": "periodic"}, "needs knots that are declared"),
        (
            {"extrapolation": "periodic", "knots": KNOTS[:3]},
            "needs more knots than the degree, which is 3; got 3",
        ),
        ({"degree": 4}, "degree"),
        ({"n_knots": 1}, "n_knots"),
        ({"lower": 0.0}, "lower and upper must both be declared"),
        ({"lower": 1.0, "upper": 1.0}, "lower must be less than upper"),
        ({"lower": 1e15, "upper": 1e15 + 4}, "those of column 0 are too close"),
        ({"relation": "add-or-remove-one"}, "lower and upper must be declared with relation"),
        ({"columns": ["a"]}, "X has no 'a'"),
        ({"columns": [2]}, r"places in \[0, 1\]; X has no 2"),
        ({"columns": [-1]}, r"places in \[0, 1\]"),
        ({"columns": [0, 0]}, "every column once"),
        ({"columns": []}, "columns must be None"),
        ({"columns": [True, False]}, "columns must be None"),
        ({"columns": "a"}, "columns must be None"),
    ],
)
def test_mistakes_cost_nothing(params, match):
    costs_nothing(PrivateSplineTransformer(**params), match, RECORDS)


# --- models of splines


@each("strategy", ["composition", "random-stopping"])
@each("knots", ["quantile", "uniform"])
def test_a_search_tunes_splines(strategy, knots):
    frame = pd.DataFrame(np.random.default_rng(0).uniform(-3, 3, (4000, 2)), columns=["a", "b"])
    y = np.abs(frame["a"]) + 0.2 * frame["b"]
    splines = PrivateSplineTransformer(degree=1, knots=knots, columns=["a"], lower=-3, upper=3)
    pipeline = make_private_pipeline(splines, PrivateRidge(feature_bound=3.0))
    grid = {"privatesplinetransformer__n_knots": [2, 5]}
    search = PrivateGridSearchCV(pipeline, grid, strategy=strategy, epsilon=20.0, random_state=0)
    assert search.fit(frame, y).best_params_ == {"privatesplinetransformer__n_knots": 5}
    assert search.score(frame, y) > 0.9


def test_a_schema_says_which_features_become_splines():
    rng = np.random.default_rng(0)
    n = 6000
    frame = pd.DataFrame({"city": rng.choice(["Graz", "Oslo"], n), "age": rng.uniform(18, 90, n)})
    frame["sum"] = np.abs(frame["age"] - 54.0) / 36.0 + (frame["city"] == "Oslo")
    columns = {"city": ["Graz", "Oslo"], "age": {"bounds": [18, 90]}, "sum": {"bounds": [0, 3]}}
    schema = Schema(columns, target="sum")
    splines = PrivateSplineTransformer(degree=1, knots="uniform")
    pipeline = make_private_pipeline(schema, splines, PrivateRidge(feature_bound=1.0))
    X = frame[schema.features]
    assert pipeline.fit(X, frame["sum"]).score(X, frame["sum"]) > 0.95
    names = pipeline[:-1].get_feature_names_out()
    assert list(names) == [*(f"age_sp_{k}" for k in range(5)), "city_Graz", "city_Oslo"]
    assert splines.columns is None
    blocks = RowBlocks.from_arrays(frame, frame["sum"], block_size=500)
    assert pipeline.fit(blocks).score(X, frame["sum"]) > 0.95
