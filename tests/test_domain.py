"""Public domains of tables: bins, codes, and back to arrays and frames of the same dtypes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases import each
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator

from skdpsco import Schema
from skdpsco.synthesis import Bins
from skdpsco.synthesis.columns import read_table
from skdpsco.synthesis.domain import declare

NAN, INF = float("nan"), float("inf")


def domain_of(domain, X):
    table = read_table(BaseEstimator(), X)
    declared = declare(domain, table)
    return declared, declared.encode(table.columns)


def test_bins():
    bins = Bins(np.array([0, 1, 2.5]))
    assert bins == Bins([0.0, 1.0, 2.5])
    assert bins.size == 2
    assert_array_equal(bins.codes([-5.0, 0, 0.99, 1, 2.5, 9]), [0, 0, 0, 1, 1, 1])
    values = np.random.default_rng(0).normal(size=1000)
    counts = np.histogram(values, edges := np.linspace(-9, 9, 30))[0]
    assert_array_equal(np.bincount(Bins(edges).codes(values), minlength=29), counts)


@each(
    ("edges", "error"),
    [
        *(
            (edges, ValueError)
            for edges in ([], [1], [1, 1], [2, 1], [0, NAN], [0, INF], [0, 1e101], 3, "ab", {1, 2})
        ),
        *((edges, TypeError) for edges in ([True, 2], ["a", "b"], [None, 1], [0, 1j], [[0, 1]])),
    ],
)
def test_illegal_bins(edges, error):
    with pytest.raises(error, match="edges must be a list of at least two increasing numbers"):
        Bins(edges)


@each(
    ("params", "match"),
    [
        ({"points": [0, 0]}, "points must be a list of different numbers"),
        ({"points": [INF]}, "points must be a list of different numbers"),
        ({"missing": [-9]}, "missing must be True or False"),
        ({"integer": 1}, "integer must be True or False"),
    ],
)
def test_illegal_points(params, match):
    with pytest.raises((TypeError, ValueError), match=match):
        Bins([0, 1], **params)


@each("dtype", ["int64", "float64"])
def test_whole_numbers_between_edges_are_no_points(dtype):
    bins = Bins([0, 4], points=[0, 3, 9], integer=True)
    drawn = bins.numbers(np.repeat([0, 1, 2, 3], 2000), dtype, np.random.default_rng(0))
    counts = np.unique(drawn, return_counts=True)
    assert_array_equal(counts[0], [0, 1, 2, 3, 4, 9])
    assert_array_equal(counts[1][[0, 3, 5]], 2000)
    assert (abs(counts[1][[1, 2, 4]] - 2000 / 3) < 4.5 * np.sqrt(2000 * 2 / 9)).all()
    assert_array_equal(bins.codes(drawn.astype(float)), np.repeat([0, 1, 2, 3], 2000))
    for wrong, match in (
        ({"points": [0.5]}, "points that int64"),
        ({"points": [0, 1]}, "bins with"),
    ):
        with pytest.raises(ValueError, match=match):
            domain_of(Bins([0, 1], **wrong), np.array([[1]]))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int8", "uint8", "int64"])
def test_numbers_are_drawn_from_their_bins(dtype):
    bins = Bins([0, 2, 2.2, 2.5, 99])
    declared, _ = domain_of(bins, np.ones((3, 2), dtype=dtype)) if "f" in dtype else (None, None)
    if declared is None:
        with pytest.raises(ValueError, match=f"bins without a number that {dtype} holds"):
            domain_of(bins, np.ones((3, 2), dtype=dtype))  # none from 2.2 to 2.5, that is
        bins = Bins([-0.5, 2, 3, 3.5, 99])
        declared, _ = domain_of(bins, np.ones((3, 2), dtype=dtype))
    codes = np.random.default_rng(0).integers(0, 4, (2000, 2))
    values = declared.decode(codes, np.random.default_rng(1))
    assert values.dtype == dtype
    if dtype == "float16":  # which rounds up to an edge
        assert (bins.codes(values) - codes).max() <= 1
    else:
        assert_array_equal(bins.codes(values), codes)
    last = values[codes == 3]
    assert last.min() < 10  # drawn all over the bin
    assert last.max() > 90
    assert_array_equal(bins.codes(declared.decode(codes)), codes)
    assert len(np.unique(declared.decode(codes))) == 4  # one number for each bin


def test_bins_stay_within_what_a_dtype_holds():
    declared, codes = domain_of(Bins([-1e9, 0, 1e9]), np.array([[-128], [127]], dtype=np.int8))
    assert_array_equal(codes, [[0], [1]])
    drawn = declared.decode(np.repeat([[0], [1]], 9999, axis=0), np.random.default_rng(0))
    assert (drawn.min(), drawn.max()) == (-128, 127)
    with pytest.raises(
        ValueError, match=r"domain\[0\] does not fit .* float32: edges or points are"
    ):
        domain_of(Bins([0, 1e39]), np.ones((2, 1), dtype=np.float32))


DAYS = ["mon", "tue", "wed"]
# Entry of the domain, the values of a column, and its dtypes in pandas and polars.
COLUMNS = {
    "size": (3, [0, 2, 1, 0], "int64", pl.Int64),
    "small": (3, [0, 2, 1, 0], "int8", pl.Int8),
    "unsigned": (range(250, 253), [251, 250, 252, 251], "uint8", pl.UInt8),
    "nullable": ([0, 1, None], [0, None, 1, 1], "Int16", pl.Int16),
    "float of a size": (2, [0.0, 1.0, 1.0, 0.0], "float64", pl.Float64),
    "floats": ([0.5, NAN, 1.5], [1.5, NAN, 0.5, 0.5], "float64", pl.Float64),
    "short floats": ([0.1, 0.2], [0.2, 0.1, 0.1, 0.1], "float32", pl.Float32),
    "bool": ([False, True], [True, True, False, True], "bool", pl.Boolean),
    "bool of a size": (2, [True, True, False, True], "bool", pl.Boolean),
    "maybe": ([True, False, None], [True, None, False, True], "boolean", pl.Boolean),
    "object": (["a", "b", None], ["b", None, "a", "b"], "object", pl.String),
    "string": (["a", "b", None], ["b", None, "a", "b"], "string", pl.String),
    "category": (DAYS, ["wed", "mon", "mon", "wed"], pd.CategoricalDtype(DAYS), pl.Categorical),
    "ordered": (DAYS, ["wed", "tue", "mon", "wed"], pd.CategoricalDtype(DAYS, True), pl.Enum(DAYS)),
    "numbers": ([3, 5, None], [3, 5, None, 3], pd.CategoricalDtype([3, 5]), pl.UInt32),
    "bins": (Bins([0, 10, 20]), [3.0, 15.0, 20.0, 0.0], "float32", pl.Float32),
    "whole bins": (Bins([0, 10, 20]), [3, 15, 20, 0], "int16", pl.Int16),
    "nullable bins": (Bins([0, 10, 20]), [3, 15, 20, 0], "UInt8", pl.UInt8),
    "bins and points": (
        Bins([0, 10], points=[0, -9], missing=True),
        [NAN, -9, 0, 3],
        "float64",
        pl.Float64,
    ),
    "whole bins and points": (
        Bins([0, 10], points=[0, -9], missing=True),
        [None, -9, 0, 3],
        "Int16",
        pl.Int16,
    ),
}
DOMAIN = {name: column[0] for name, column in COLUMNS.items()}
PANDAS = pd.DataFrame({name: pd.Series(c[1], dtype=c[2]) for name, c in COLUMNS.items()})
POLARS = pl.DataFrame(
    [
        pl.Series(name, [None if v != v else v for v in c[1]], dtype=c[3])
        for name, c in COLUMNS.items()
    ]
)


@pytest.mark.parametrize("frame", [PANDAS, POLARS], ids=["pandas", "polars"])
@pytest.mark.parametrize("kind", [dict, list])
def test_frames_there_and_back(frame, kind):
    given = DOMAIN if kind is dict else list(DOMAIN.values())
    domain, codes = domain_of(given, frame)
    assert domain.shape == tuple(map(size_of, DOMAIN.values()))
    back = domain.decode(codes, np.random.default_rng(0))
    assert type(back) is type(frame)
    assert list(back.columns) == list(frame.columns)
    assert list(back.dtypes) == list(frame.dtypes)
    exact = [name for name in COLUMNS if "bins" not in name]
    if frame is PANDAS:
        assert back[exact].equals(frame[exact])
    else:  # whose categorical columns of different origins are not equal
        assert back[exact].rows() == frame[exact].rows()
    assert_array_equal(domain.encode(read_table(BaseEstimator(), back).columns), codes)


def size_of(entry):
    return entry if isinstance(entry, int) else getattr(entry, "size", None) or len(entry)


ARRAYS = [
    (np.array([[0, 1], [1, 2]], dtype=np.int8), [2, [1, 2]]),
    (np.array([[0, 1], [1, 0]], dtype=bool), [2, [False, True]]),
    (np.array([[0.5, NAN], [1, 2]]), [[0.5, 1], [2, None]]),
    (np.array([["a", "b"], ["c", "b"]]), [["a", "c"], ["b"]]),
    (np.array([["a", 1], [None, 2]], dtype=object), [["a", None], [1, 2]]),
]


@each(("X", "given"), ARRAYS)
def test_arrays_there_and_back(X, given):
    domain, codes = domain_of(given, X)
    back = domain.decode(codes)
    assert back.dtype == X.dtype
    assert_array_equal(back, X)
    assert_array_equal(domain_of(given, np.asfortranarray(X))[1], codes)
    lists = domain_of(given, X.tolist())
    assert_array_equal(lists[1], codes)
    back = lists[0].decode(codes)
    if X.dtype.kind in "iU":
        assert back.dtype.kind == X.dtype.kind
    assert_array_equal(back.astype(X.dtype), X)


def test_dtypes_say_nothing_about_values():
    """What is kept of the widths of strings, and of categories, is what was declared."""
    for words in (["a", "b"], ["a", "longest of all"]):
        given = [["a", "b", "longest of all", "never"]]
        domain, codes = domain_of(given, np.array(words)[:, None])
        assert domain.table.dtypes == [np.dtype("U")]
        assert domain.decode(codes).dtype == "<U14"
    for categories in (["a"], ["b", "a", "x"]):
        frame = pd.DataFrame({"c": pd.Categorical(["a"], categories=categories, ordered=True)})
        domain, codes = domain_of([["x", "b", "a"]], frame)
        assert list(domain.decode(codes)["c"].cat.categories) == ["x", "b", "a"]
        assert domain.decode(codes)["c"].cat.ordered
    frame = pd.DataFrame({"c": pd.Categorical([1, 2])})
    domain, codes = domain_of([[1, 2, 2.5]], frame)
    assert domain.decode(codes)["c"].cat.categories.tolist() == [1, 2, 2.5]


@pytest.mark.parametrize(
    ("column", "declared", "codes"),
    [
        (["a", "?", None], {"categories": ["a"], "missing": ["?"]}, [0, 1, 2]),
        ([2, -9, 1], {"categories": [1, 2], "missing": [-9]}, [1, 2, 0]),  # no None in integers
        ([2, 1, 2], {"categories": [1, 2], "missing": True}, [1, 0, 1]),
        ([2.0, None, 1.0], {"categories": [1, 2], "missing": ["?"]}, [1, 2, 0]),
        ([True, -9, None], {"boolean": True, "missing": [-9]}, [1, 2, 3]),
    ],
)
def test_values_that_a_schema_calls_missing_are_categories(column, declared, codes):
    X = pd.DataFrame({"b": column})
    domain, found = domain_of(Schema({"b": declared}), X)
    assert_array_equal(found[:, 0], codes)
    pd.testing.assert_frame_equal(domain.decode(found), X)


SHORT = ["float32", "Float32", "float[pyarrow]", "halffloat[pyarrow]", "Sparse[float32]"]


@each("dtype", [*SHORT, "double[pyarrow]", "Sparse[float64]", pl.Float32])
def test_floats_of_all_libraries_hold_what_is_declared_as_they_round_it(dtype):
    numbers = pd.DataFrame({"a": [3.0, 99.9], "b": [0.2, 0.1]})
    if dtype is pl.Float32:
        X = pl.DataFrame(numbers).cast(dtype)
    elif str(dtype).startswith("half"):
        X = numbers.astype("float16").astype(dtype)
    else:
        X = numbers.astype(dtype)
    given = {"a": Bins([0, 10], points=[99.9], missing=True), "b": [0.1, 0.2]}
    domain, codes = domain_of(given, X)
    assert codes.tolist() == [[0, 1], [1, 0]]
    back = domain.decode(codes, np.random.default_rng(0))
    assert list(back.dtypes) == list(X.dtypes)
    assert domain.encode(read_table(BaseEstimator(), back).columns).tolist() == codes.tolist()
    if dtype in SHORT[:3]:
        assert domain_of(given, X.astype({"b": "category"}))[1].tolist() == codes.tolist()


FRAME = pd.DataFrame({"a": [0, 1], "b": ["u", "v"]})
ENTRY = "must be a list of categories, Bins or an int >= 1"
LIST = r"must be a list of at least one category, all different"
FIT = "does not fit this column of X, whose dtype is"


@each(
    ("domain", "message"),
    [
        (None, "domain must be declared"),
        ("ab", "domain must be a list of one entry per column of X, a dict"),
        ({2, 3}, "domain must be a list of one entry"),
        ([2], "domain must have one entry for each of 2 columns of X, got 1"),
        ({"a": 2}, r"others; it lacks \['b'\]\."),
        ({"a": 2, "b": 2, "c": 2}, r"others; X lacks \['c'\]"),
        ([0, ["u", "v"]], rf"domain\['a'\] {ENTRY}, got 0"),
        ([2.0, ["u", "v"]], rf"domain\['a'\] {ENTRY}, got 2.0"),
        ([2, "uv"], rf"domain\['b'\] {ENTRY}, got 'uv'"),
        ([2**20 + 1, ["u", "v"]], r"domain\['a'\] must be at most 1048576"),
        ([2, []], rf"domain\['b'\] {LIST}"),
        ([2, ["u", "u"]], rf"domain\['b'\] {LIST}"),
        ([2, ["u", 1]], rf"domain\['b'\] {LIST}"),
        ([[0, 0.5, 1], ["u", "v"]], rf"domain\['a'\] {FIT} int64: it does not hold what is"),
        ([[0, 1, None], ["u", "v"]], rf"domain\['a'\] {FIT} int64"),
        ([2, Bins([0, 1])], rf"domain\['b'\] {FIT} (str|object): bins are|X must hold numbers"),
        ([2, ["u", "w"]], r"X has a value in column 'b' that domain\['b'\] does not list"),
        ([[1, 2], ["u", "v"]], r"X has a value in column 'a' that domain\['a'\] does not list"),
        ([1, ["u", "v"]], r"X has a value in column 'a' that domain\['a'\] does not list"),
    ],
)
def test_illegal_domains(domain, message):
    with pytest.raises((TypeError, ValueError), match=message):
        domain_of(domain, FRAME)


@each(
    ("X", "domain", "message"),
    [
        (np.array([[0.0], [NAN]]), 2, r"missing value in column 0: declare .*, or list None among"),
        (np.array([[0.0], [NAN]]), Bins([0, 1]), "NaN or .* column 0: declare 'missing': True"),
        (np.array([[0.0], [INF]]), Bins([0, 1]), "infinity in column 0: bins need finite"),
        (np.array([[0.0], [INF]]), 2, r"value in column 0 that domain\[0\] does not list"),
        (np.array([[0], ["0"]], dtype=object), 2, "does not list. Numbers and strings differ"),
        (np.array([[0], ["zz"]], dtype=object), Bins([0, 1]), "X must hold numbers in column 0"),
        (np.array([[0], [None]], dtype=object), Bins([0, 1]), r"column 0: declare .* or Bins\("),
        (np.array([[0], [10**400]], dtype=object), Bins([0, 1]), "number in column 0 that is too"),
        (np.array([[0], [2]]), {"a": 2}, "domain is given by the names of columns, but X has no"),
        (np.array([[b"a"]]), [["a"]], r"domain\[0\] does not fit this column of X"),
        (np.array([["a"]]), Bins([0, 1]), "bins are for numbers"),
        (np.array([[1]], dtype=np.uint8), 300, "whose dtype is uint8"),
        (np.array([[0.1]], dtype=np.float32), [[0.1, 0.1 + 1e-12]], "the same in it"),
        (pl.DataFrame({"a": [1]}, schema={"a": pl.Int8}), 300, "whose dtype is Int8"),
        (
            pl.DataFrame({"a": ["x"]}, schema={"a": pl.Enum(["x"])}),  # the values are not shown
            Bins([0, 1]),
            "whose dtype is Enum: bins are for numbers",
        ),
        (pl.DataFrame({"a": ["x"]}, schema={"a": pl.Enum(["x", "y"])}), [[1, 2]], "is Enum"),
        (pd.DataFrame({"a": pd.Categorical([1])}), Bins([0, 1]), "bins are for numbers"),
        (pd.DataFrame({"a": pd.array([1, None], dtype="Int8")}), Bins([0, 2]), "missing value in"),
        *(
            (pd.DataFrame({"a": [1]}, dtype=dtype), Bins([0, 2**32, 2**33]), "bins without a num")
            for dtype in ("uint8[pyarrow]", "int8[pyarrow]", "uint32")
        ),
        (pl.DataFrame({"a": [1]}).cast(pl.Decimal(9, 2)), Bins([0, 2]), "integers or floats"),
        (pd.DataFrame({"a": pd.interval_range(0, 1)}), Bins([0, 2]), "integers or floats"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}), 2, "Turn dates into numbers first"),
        (pd.DataFrame({"a": []}), 2, "at least one row and one column, got shape"),
    ])  # fmt: skip
def test_illegal_records(X, domain, message):
    with pytest.raises((TypeError, ValueError), match=message) as info:
        domain_of(domain, X)
    assert "zz" not in str(info.value)  # no values
