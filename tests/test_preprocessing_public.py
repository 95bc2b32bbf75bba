"""Transformers with public parameters: records stay apart, bounds hold, nothing is learnt."""

import datetime
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases import each
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

from skdpsco.preprocessing import (
    CategoricalDomainEncoder,
    ColumnClipper,
    PublicBoundsScaler,
    RowClipper,
    bounds,
)

NAN, INF = float("nan"), float("inf")
NORMS = ["l1", "l2", "max"]
each_norm = pytest.mark.parametrize("norm", NORMS)


# --- laws of all


def records(n=40, d=5):
    rng = np.random.default_rng(1)
    return rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 2, (n, 1))


WORDS = np.array(["a", "b", "x", 1, 2.0, NAN, None, (1,), True, [1], "1", pd.NA], dtype=object)
CASES = {
    **{f"clip {norm}": (RowClipper(norm), records()) for norm in NORMS},
    "columns": (ColumnClipper([-1, -2, 0, 1, -9], [1, 2, 1, 3, 9]), records()),
    "scale": (PublicBoundsScaler([-1, -2, 0, 1, -9], [1, 2, 1, 3, 9], (-3, 0.5)), records()),
    "encode": (
        CategoricalDomainEncoder(["b", "a", None]),
        np.random.default_rng(0).choice(WORDS, (40, 3)),
    ),
    "encode numbers": (CategoricalDomainEncoder([2, 1]), np.round(records())),
}
each_case = pytest.mark.parametrize("case", CASES)


@each_case
def test_a_record_changes_its_row_only(case):
    transformer, X = CASES[case]
    transformer = clone(transformer).fit(X)
    out = transformer.transform(X)
    assert len(np.unique(out, axis=0)) > 3  # otherwise the test shows nothing
    for i in range(len(X)):
        assert_array_equal(transformer.transform(X[i : i + 1]), out[i : i + 1])
        changed = X.copy()
        changed[i] = X[(i + 7) % len(X)]
        new = clone(transformer).fit_transform(changed)
        assert_array_equal(np.delete(new, i, axis=0), np.delete(out, i, axis=0))
        assert_array_equal(new[i], out[(i + 7) % len(X)])


def test_a_record_changes_its_row_only_in_polars():
    # Arrays of polars turn integers into floats if there is one null: 2**60 + 1 would be 2**60.
    encoder = CategoricalDomainEncoder([2**60, 2**60 + 1])
    for last, row in [(2**60, [1, 0]), (None, [0, 0])]:
        out = encoder.fit_transform(pl.DataFrame({"a": [2**60 + 1, last]}))
        assert_array_equal(out, [[0, 1], row])


@each_case
def test_input_is_kept_and_numpy_may_raise(case):
    transformer, X = CASES[case]
    before, out = X.ravel().tolist(), transformer.fit_transform(X)
    with np.errstate(all="raise"):
        assert_array_equal(transformer.fit_transform(X), out)
    out[:] = 9
    assert all(x is y or x == y for x, y in zip(before, X.ravel().tolist(), strict=True))


# --- RowClipper


def exact_norm(row, norm):
    """The l1 or max norm, or the square of the l2 norm, as a fraction."""
    row = [abs(Fraction(x)) for x in row.tolist()]
    return max(row) if norm == "max" else sum(x * x for x in row) if norm == "l2" else sum(row)


def extreme_rows(norm, bound):
    """Rows on the sphere up to rounding, near it, far from it, and of wild numbers."""
    rng = np.random.default_rng(2)
    order = {"l1": 1, "l2": 2, "max": np.inf}[norm]
    rows = []
    for d in (1, 2, 3, 12):
        X = rng.normal(size=(60, 12)) * (np.arange(12) < d)
        X *= bound / np.linalg.norm(X, axis=1, ord=order)[:, None]
        rows += [X, X * 10.0 ** rng.uniform(-5, 5, (60, 1)), np.nextafter(X, np.copysign(INF, X))]
    wild = rng.normal(size=(60, 12)) * 10.0 ** rng.uniform(-320, 306, (60, 12))
    almost = np.zeros((6, 12))
    almost[:, 0] = bound
    almost[1:, 1] = [5e-324, 1e-300, 1e-200, bound * 1e-9, -bound * 1e-16]
    huge = np.full((1, 12), -np.finfo(float).max)
    return np.vstack([*rows, wild, almost, huge, np.full((1, 12), 1e300), np.zeros((1, 12))])


@each_norm
@pytest.mark.parametrize("bound", [1.0, np.sqrt(2), 3.7e20, 1e-100])
def test_norms_are_exactly_within_the_bound(norm, bound):
    X = extreme_rows(norm, bound)
    clipper = RowClipper(norm, bound)
    out = clipper.fit_transform(X)
    power = 2 if norm == "l2" else 1  # see exact_norm
    limit = Fraction(bound) ** power
    loss = 2.0**-52 if norm == "max" else 2.0**-51 * (X.shape[1] + 8)
    long = np.array([exact_norm(x, norm) > limit for x in X])
    assert 100 < long.sum() < len(X) - 100
    assert_array_equal(out[~long], X[~long])
    for x, y in zip(X[long], out[long], strict=True):
        size = exact_norm(y, norm)
        assert limit * Fraction(1 - loss) ** power <= size <= limit
        j = np.argmax(np.abs(x))  # the direction stays
        assert_allclose(y / y[j], x / x[j], rtol=1e-14, atol=1e-200)
    assert_array_equal(clipper.transform(out), out)
    for convert in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array):
        clipped = clipper.transform(convert(X))
        assert clipped.format == "csr"
        assert isinstance(clipped, sparse.sparray) == (convert is not sparse.csr_matrix)
        assert_allclose(clipped.toarray(), out, rtol=1e-14)
        if convert is sparse.csr_array:
            first = clipped.toarray()
            assert all(exact_norm(y, norm) <= limit for y in first)
        assert_array_equal(clipped.toarray(), first)


@each_norm
def test_common_rows(norm):
    # Rows on the sphere are not touched: one-hot, and others without rounding errors.
    X = np.array([[1.0, 0, 0], [0, -1, 0], [0, 0, 0], [0.5, 0.25, -0.25]])
    assert_array_equal(RowClipper(norm).fit_transform(X), X)
    row = np.array([[3.0, 4.0, 0.0]])
    expected = row * {"l1": 1 / 7, "l2": 1 / 5, "max": 1 / 4}[norm]
    assert_allclose(RowClipper(norm).fit_transform(row), expected, rtol=1e-14)
    assert_allclose(RowClipper(norm, 2.0).fit_transform(row.astype(int)), 2 * expected, rtol=1e-14)
    single = RowClipper(norm).fit_transform(row.astype(np.float32))
    assert single.dtype == np.float64
    assert_array_equal(single, RowClipper(norm).fit_transform(row))


@each_norm
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_blocks(norm, convert, monkeypatch):
    X = extreme_rows(norm, 1.0)
    X[5:30] = 0.0  # blocks without entries, if sparse
    whole = RowClipper(norm).fit_transform(convert(X))
    monkeypatch.setattr(bounds, "ENTRIES_AT_ONCE", 100)  # 8 rows
    blocks = RowClipper(norm).fit_transform(convert(X))
    assert abs(whole - blocks).max() == 0.0


@pytest.mark.parametrize("transformer", [RowClipper("l1"), PublicBoundsScaler()])
def test_sparse_matrices_of_any_kind(transformer):
    # Row 0 has two entries in column 1 and a stored zero, row 1 is empty.
    X = sparse.csr_matrix(([0.8, 0.7, 0.0, -3.0], [1, 1, 0, 2], [0, 3, 3, 4]), shape=(3, 3))
    data = X.data.copy()
    out = transformer.fit_transform(X)
    assert_allclose(out.toarray(), [[0, 1, 0], [0, 0, 0], [0, 0, -1]], rtol=1e-14)
    assert_array_equal(X.data, data)
    bad = sparse.csr_matrix(([1.0], [0], [0, 1]), shape=(1, 3))
    bad.indices[0] = 7
    with pytest.raises(ValueError, match="not a valid CSR matrix"):
        transformer.transform(bad)


# --- PublicBoundsScaler


def test_map_of_the_bounds():
    X = np.random.default_rng(3).uniform(-50, 150, (200, 3))
    lower, upper = np.array([0.0, -20.0, 18.0]), np.array([100.0, 20.0, 90.0])
    for ends in [(-1.0, 1.0), (0, 1), [-0.1, 7.3]]:
        scaler = PublicBoundsScaler(lower, list(upper), ends)
        out = scaler.fit_transform(X)
        reference = MinMaxScaler(tuple(ends), clip=True).fit(np.stack([lower, upper]))
        assert_allclose(out, reference.transform(X), atol=1e-14)
        assert_allclose([out.min(), out.max()], ends, rtol=1e-14)
        back = scaler.inverse_transform(out)
        assert_allclose(back, np.clip(X, lower, upper), rtol=1e-13, atol=1e-12)
        assert ((back >= lower) & (back <= upper)).all()
        assert_allclose(scaler.transform(back), out, atol=1e-14)
        assert_array_equal(scaler.inverse_transform([[-1e308] * 3, [1e308] * 3]), [lower, upper])


@pytest.mark.parametrize("seed", range(3))
def test_outputs_never_leave_the_range(seed):
    rng = np.random.default_rng(seed)
    d = 300
    lower, low = rng.normal(size=d) * 10.0 ** rng.uniform(-80, 90, d), rng.normal()
    upper = lower + np.abs(lower) * 10.0 ** rng.uniform(-14, 3, d)
    high = low + 10.0 ** rng.uniform(-12, 3)
    X = np.stack(
        [lower, upper, np.nextafter(lower, INF), np.nextafter(upper, -INF), (lower + upper)]
    )
    X = np.vstack([X, rng.uniform(lower, upper, (50, d)), np.full((1, d), 1.7e308), -X])
    scaler = PublicBoundsScaler(lower, upper, (low, high)).fit(X)
    out = scaler.transform(X)
    assert ((out >= low) & (out <= high)).all()
    back = scaler.inverse_transform(out)
    assert ((back >= lower) & (back <= upper)).all()
    order = np.argsort(X, axis=0)  # a monotone map
    assert (np.diff(np.take_along_axis(out, order, axis=0), axis=0) >= 0).all()


def test_symmetric_maps_of_sparse_matrices():
    rng = np.random.default_rng(4)
    X = sparse.random(50, 6, 0.4, random_state=0, data_rvs=lambda k: 5 * rng.normal(size=k))
    upper = np.array([1, 2, 3, 5, 1e-50, 1e50])
    scaler = PublicBoundsScaler(-upper, upper, (-0.3, 0.3))
    dense = scaler.fit_transform(X.toarray())
    for convert in (sparse.csr_array, sparse.csc_matrix):
        given = convert(X)
        out = scaler.fit_transform(given)
        assert_array_equal(out.toarray(), dense)
        assert not np.shares_memory(out.indices, given.indices)
        assert_array_equal(scaler.inverse_transform(out).toarray(), scaler.inverse_transform(dense))
    assert scaler.fit_transform(np.full((1, 6), 1e-60))[0, 0] == pytest.approx(0.3e-60)


# --- CategoricalDomainEncoder


@pytest.mark.parametrize("sparse_output", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, int])
def test_like_one_hot_encoder(sparse_output, dtype):
    categories = [["b", "c", "a"], ["y", "x"]]
    X = np.random.default_rng(5).choice(["a", "b", "c", "x", "y"], (30, 2))
    params = {"dtype": dtype, "sparse_output": sparse_output}
    expected = OneHotEncoder(categories=categories, handle_unknown="ignore", **params).fit(X)
    for data in (X, X.tolist(), X.astype(object)):
        encoder = CategoricalDomainEncoder(categories, **params).fit(data)
        out, other = encoder.transform(data), expected.transform(X)
        assert type(out) is type(other)
        assert out.dtype == other.dtype
        assert abs(out - other).max() == 0
        names = encoder.get_feature_names_out
        assert_array_equal(names(), expected.get_feature_names_out())
        assert_array_equal(names(["u", "v"]), expected.get_feature_names_out(["u", "v"]))
        assert [list(c) for c in encoder.categories_] == categories


@pytest.mark.parametrize("kind", ["list", "array", "frame", "sets apart"])
def test_ways_to_declare(kind):
    X = pd.DataFrame({"size": [1, 2], "colour": ["red", "green"]})
    categories = {
        "list": [[1, 2], ("red", "green")],
        "array": [np.array([1.0, 2.0]), np.array(["red", "green"])],
        "frame": {"colour": pd.Index(["red", "green"]), "size": range(1, 3)},
        "sets apart": {"colour": pd.Series(["red", "green"]), "size": [True, 2]},
    }[kind]
    encoder = CategoricalDomainEncoder(categories).set_output(transform="pandas")
    out = encoder.fit_transform(X)
    one = {"array": "1.0", "sets apart": "True"}.get(kind, "1")
    two = "2.0" if kind == "array" else "2"
    names = [f"size_{one}", f"size_{two}", "colour_red", "colour_green"]
    assert_array_equal(out.columns, names)
    assert_array_equal(out, [[1, 0, 1, 0], [0, 1, 0, 1]])
    for value in ([1, 2], np.array([1, 2]), [np.True_, 2]):  # one list for all columns
        out = CategoricalDomainEncoder(value).fit_transform([[1, 2], [2, 2]])
        assert_array_equal(out, [[1, 0, 0, 1], [0, 1, 0, 1]])


MISSING = [None, NAN, np.float64("nan"), np.float32("nan"), pd.NA]


@each("declared", MISSING)
def test_missing_values(declared):
    X = np.array([["a"], *[[value] for value in MISSING], ["b"], [np.str_("a")]], dtype=object)
    silent = CategoricalDomainEncoder(["a"]).fit_transform(X)
    assert_array_equal(silent[:, 0], [1, 0, 0, 0, 0, 0, 0, 1])
    for categories, column in [(["a", declared], 1), ([declared, "a"], 0)]:
        out = CategoricalDomainEncoder(categories).fit_transform(X)
        assert_array_equal(out[:, 1 - column], silent[:, 0])
        assert_array_equal(out[:, column], [0, 1, 1, 1, 1, 1, 0, 0])
    numbers = CategoricalDomainEncoder([1, declared]).fit_transform([[1.0], [NAN], [INF]])
    assert_array_equal(numbers, [[1, 0], [0, 1], [0, 0]])


@each("dtype", ["float16", "float32", "float[pyarrow]", "category"])
def test_categories_are_rounded_as_columns_round_them(dtype):
    X = pd.DataFrame({"a": [0.2, 0.1, 0.3]})
    X = X.astype("float16" if dtype == "float16" else "float32").astype(dtype)
    out = CategoricalDomainEncoder([[0.1, 0.2]]).fit_transform(X)
    assert_array_equal(out, [[0, 1], [1, 0], [0, 0]])


def test_values_that_cannot_be_compared_sorted_or_hashed():
    odd = [1, "a", 2.5, b"a", None, {"a": 1}, [1], {1}, 1j, datetime.date(2020, 1, 1), object()]
    X = np.empty((len(odd), 1), dtype=object)
    X[:, 0] = odd
    encoder = CategoricalDomainEncoder(["a", "c"]).fit(X)
    assert_array_equal(encoder.transform(X), np.array([[v == "a", False] for v in odd]))
    numbers = CategoricalDomainEncoder([2.5, 1]).fit(X[1:2])
    assert_array_equal(numbers.transform(X), np.array([[v == 2.5, v == 1] for v in odd]))
    # Integers that float64 cannot hold apart, integers that it cannot hold at all.
    huge = [[2**60 + 1, 10**400], [2**60, -1]]
    out = CategoricalDomainEncoder([2**60, 10**400]).fit_transform(huge)
    assert_array_equal(out, [[0, 0, 0, 1], [1, 0, 0, 0]])
