"""One declaration of a table: what it reads, what it refuses, and what it makes of records."""

import datetime
import decimal
import json

import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases import each
from numpy.testing import assert_allclose, assert_array_equal

from skdpsco import Schema

pa = pytest.importorskip("pyarrow")

SCHEMA = Schema(
    {
        "age": {"bounds": [18, 90], "integer": True, "unit": "years", "missing": [-9]},
        "city": {"categories": ["Bern", "Oslo"], "missing": ["?"]},
        "member": {"boolean": True, "missing": True},
        "income": {"bounds": [-1e5, 1e5], "fill": 5e4},
        "rooms": {"categories": [1, 2.5]},
        "ill": ["no", "yes"],
    },
    target="ill",
    person="id",
)
COLUMNS = {
    "age": [18, 54, None, -9, 200],
    "city": ["Bern", "?", None, "Rome", "Oslo"],
    "member": [True, False, None, True, False],
    "income": [0.0, -5e4, -1e9, None, 1.0],
    "rooms": [1.0, 2.5, 3.0, None, 2.5],
}
NAMES = ["age", "age_missing", "city_Bern", "city_Oslo", "city_missing", "member"]
NAMES += ["member_missing", "income", "rooms_1", "rooms_2.5"]
ENCODED = [
    [-1, 0, 1, 0, 0, 1, 0, 0.0, 1, 0],
    [0, 0, 0, 0, 1, 0, 0, -0.5, 0, 1],
    [0, 1, 0, 0, 1, 0, 1, -1.0, 0, 0],
    [0, 1, 0, 0, 0, 1, 0, 0.5, 0, 0],
    [1, 0, 0, 1, 0, 0, 0, 1e-5, 0, 1],
]


def frames():
    """The same records in frames of all kinds."""
    pandas, polars = pd.DataFrame(COLUMNS), pl.DataFrame(COLUMNS)
    cities = pl.Enum(["Bern", "Oslo", "Rome", "?"])
    return {
        "pandas": pandas,
        "nullable": pandas.convert_dtypes(),
        "pandas on Arrow": pandas.convert_dtypes(dtype_backend="pyarrow"),
        "objects": pandas.astype(object),
        "categories": pandas.astype({"city": "category", "rooms": "category"}),
        "polars": polars,
        "polars categories": polars.with_columns(pl.col("city").cast(pl.Categorical)),
        "polars enum": polars.with_columns(pl.col("city").cast(cities)),
        "arrow": pa.table(COLUMNS),
        "arrow dictionary": pa.table(
            {**COLUMNS, "city": pa.array(COLUMNS["city"]).dictionary_encode()}
        ),
    }  # fmt: skip


FAULTS = (
    "Column 'age' holds numbers beyond its bounds, to which they are clipped; 'city' holds values "
    "that are not among its categories, which become zeros; 'income' has missing values, which are "
    "not declared; 'income' holds numbers beyond its bounds, to which they are clipped; 'rooms' "
    "has missing values, which are not declared; 'rooms' holds values that are not among its "
    "categories, which become zeros."
)


@pytest.mark.parametrize("kind", frames())
def test_frames_of_all_libraries(kind):
    frame = frames()[kind]
    dense, sparse = SCHEMA.encode(frame), SCHEMA.encode(frame, sparse_output=True)
    assert SCHEMA.feature_names_out() == NAMES
    assert_allclose(dense, ENCODED, rtol=1e-12)
    assert_array_equal(sparse.toarray(), dense)
    assert sparse.has_canonical_format
    assert np.all(sparse.data != 0)
    with pytest.raises(ValueError, match="The frame does not fit the schema") as error:
        SCHEMA.validate(frame)
    assert str(error.value).endswith(FAULTS)


class Awkward:
    def _fail(self, *args):
        raise ArithmeticError

    __float__ = __hash__ = __eq__ = __lt__ = _fail


ODD = [
    *("text", b"bytes", (1,), [1], {}, Awkward(), 1j, datetime.date(2000, 1, 1), pd.NaT),
    *(None, pd.NA, np.nan, np.inf, -np.inf, 10**400, -(10**400), decimal.Decimal("sNaN")),
    *(decimal.Decimal("30.5"), np.float32(3), np.int8(1), True, -9, 1e308),
]


def test_no_value_is_refused_and_a_record_changes_its_row_only():
    good = {"age": 30, "city": "Oslo", "member": True, "income": 10.0, "rooms": 2.5}
    rows = [good, *({**good, name: value} for value in ODD for name in good), good]
    frame = pd.DataFrame({name: pd.Series([r[name] for r in rows], dtype=object) for name in good})
    out = SCHEMA.encode(frame)
    assert np.isfinite(out).all()
    assert np.abs(out).max() <= 1.0
    for i in range(len(rows)):
        assert_array_equal(SCHEMA.encode(frame.iloc[[i]])[0], out[i])
    with pytest.raises(ValueError, match="does not fit") as error:
        SCHEMA.validate(frame)
    assert "'age' holds values that are not numbers" in str(error.value)
    assert "'member' holds values that are not booleans" in str(error.value)


def test_numbers_are_mapped_onto_their_range():
    schema = Schema({"x": {"bounds": [0, 3]}})
    x = np.random.default_rng(0).uniform(-1, 4, 1000)
    out = schema.encode(pd.DataFrame({"x": x}))[:, 0]
    assert_allclose(out, np.clip(2 * x / 3 - 1, -1, 1), atol=1e-15)
    whole = pa.table({"x": pa.array([2**62 + 1, -(2**62) - 1, 3])})  # no float64 equals these
    assert schema.encode(whole).ravel().tolist() == [1, -1, 1]


def short_floats():
    """A code, a number and a category, which short floats round."""
    numbers = pd.DataFrame({"a": [99.9, 1.0], "b": [0.1, 0.3], "c": [0.3, 0.2]}).astype("float32")
    for dtype in ("float32", "Float32", "float[pyarrow]", "Sparse[float32]"):
        yield numbers.astype(dtype)
    yield numbers.astype("float16").astype(pd.ArrowDtype(pa.float16()))
    yield numbers.astype({"b": "category"})
    yield numbers.astype("float[pyarrow]").astype({"b": "category"})
    yield pl.DataFrame(numbers)
    yield pa.table(numbers)


@pytest.mark.parametrize("frame", [*short_floats()])
def test_codes_and_categories_are_rounded_as_columns_round_them(frame):
    categories = {"categories": [0.1, 0.2], "missing": [0.3]}
    schema = Schema({"a": {"bounds": [0, 10], "missing": [99.9]}, "b": categories, "c": categories})
    assert schema.encode(frame).tolist() == [[0, 1, 1, 0, 0, 0, 0, 1], [-0.8, 0, 0, 0, 1, 0, 1, 0]]
    assert schema.validate(frame) is None


# Times of three days, of which the second is missing; those with a time zone are read in UTC.
TIMES = [datetime.datetime(2024, 1, 1, 23, 30), None, datetime.datetime(1969, 12, 31, 23, 59)]
ZONE = datetime.timezone(datetime.timedelta(hours=-2))
AWARE = [time and time.replace(tzinfo=ZONE) for time in TIMES]
DAYS = [time and time.date() for time in TIMES]
WORDS = [day and day.isoformat() for day in DAYS]
SCALARS = [np.datetime64("NaT" if time is None else time) for time in TIMES]
STAMPS = [pd.Timestamp(time) for time in TIMES]  # pandas.NaT for None


def dated_frames():
    """Columns of dates of all kinds, and whether they have a time zone."""
    for unit in ("s", "ms", "us", "ns"):
        series, array = pd.Series(TIMES), pa.array(TIMES, pa.timestamp(unit))
        yield series.astype(f"datetime64[{unit}]").to_frame("a"), False
        yield series.astype(pd.ArrowDtype(array.type)).to_frame("a"), False
        yield pa.table({"a": array}), False
    for values in (DAYS, WORDS, TIMES, STAMPS, SCALARS, AWARE):
        yield pd.DataFrame({"a": pd.Series(values, dtype=object)}), values is AWARE
    for dtype in ("str", "string[pyarrow]"):
        yield pd.DataFrame({"a": pd.Series(WORDS, dtype=dtype)}), False
    yield pd.DataFrame({"a": pd.Series(DAYS, dtype=pd.ArrowDtype(pa.date32()))}), False
    for unit in ("D", "h"):
        yield pd.DataFrame({"a": pd.PeriodIndex(TIMES, freq=unit)}), False
    for values in (DAYS, WORDS, TIMES):
        yield pl.DataFrame({"a": values}), False
        yield pa.table({"a": values}), False
    yield pa.table({"a": pa.array(DAYS, pa.date64())}), False
    yield pd.DataFrame({"a": pd.to_datetime(pd.Series(AWARE)).dt.tz_convert("Asia/Tokyo")}), True
    yield pl.DataFrame({"a": pl.Series(AWARE).dt.convert_time_zone("Asia/Tokyo")}), True
    yield pa.table({"a": pa.array(AWARE, pa.timestamp("us", "Asia/Tokyo"))}), True


@pytest.mark.parametrize(("frame", "aware"), [*dated_frames()])
def test_dates_of_all_libraries_are_numbers_of_days(frame, aware):
    days = [day and float(day.toordinal() + aware) for day in DAYS]
    numbers = pd.DataFrame({"a": days})
    ends = {"low": datetime.datetime(1950, 1, 1, 5), "high": pd.Timestamp("2024-06-01")}
    dated = Schema({"a": {"bounds": [*ends.values()], "missing": True}})
    bounds = [end.toordinal() for end in ends.values()]
    counted = Schema({"a": {"bounds": bounds, "integer": True, "missing": True}})
    assert dated.validate(frame) is None
    assert_array_equal(dated.encode(frame), counted.encode(numbers))
    ends = ["1970-01-01", "2024-01-02"] if aware else ["1969-12-31", "2024-01-01"]
    text = isinstance(narwhals.from_native(frame)["a"][0], str)
    public = Schema.from_public(frame).to_dict()["columns"]["a"]
    assert public == {"categories" if text else "bounds": ends, "missing": True}


def test_a_date_declaration_keeps_what_it_says():
    bounds = [np.datetime64("1900-01-01"), datetime.date(2024, 12, 31)]
    given = {"bounds": bounds, "fill": pd.Timestamp("2000-01-01"), "missing": ["9999-12-31"]}
    schema = Schema({"a": given, "b": {"bounds": np.array(bounds, dtype="datetime64[D]")}})
    assert repr(schema) == "Schema(date: 2)"
    written = {"bounds": ["1900-01-01", "2024-12-31"], "fill": "2000-01-01"}
    assert schema.to_dict()["columns"] == {
        "a": {**written, "missing": ["9999-12-31"]},
        "b": {"bounds": written["bounds"]},
    }
    assert Schema.from_dict(json.loads(schema.to_json())) == schema
    frame = pd.DataFrame({"a": ["9999-12-31", "2000-01-01", None], "b": ["1962-07-02"] * 3})
    assert schema.validate(frame) is None
    out = schema.encode(frame)
    assert out[:, 1].tolist() == [1, 0, 1]
    assert len(set(out[:, 0])) == 1  # that of the fill
    assert_allclose(out[:, 2], 0.0, atol=1e-4)


def test_no_date_is_refused_and_a_record_changes_its_row_only():
    schema = Schema({"a": {"bounds": ["2000-01-01", "2024-12-31"], "missing": True}})
    odd = [value for value in ODD if type(value) is not datetime.date]
    odd += ["2000-1-1", "20000101", "2000-W01-1", "2000-02-30", "now", "", datetime.time(5)]
    odd += [datetime.datetime.max.replace(tzinfo=ZONE), np.datetime64("NaT")]
    frame = pd.DataFrame({"a": pd.Series(odd, dtype=object)})
    assert schema.encode(frame).tolist() == [[0.0, 1.0]] * len(odd)
    early = pd.DataFrame({"a": pd.Series([datetime.date.min, *odd], dtype=object)})
    assert schema.encode(early)[0].tolist() == [-1.0, 0.0]
    late = pd.DataFrame({"a": pd.Series([np.datetime64("20000-01-01")], dtype=object)})
    assert schema.encode(late).tolist() == [[1.0, 0.0]]
    month = pd.DataFrame({"a": pd.period_range("2000-01", periods=1, freq="M")})
    for months in (month, month.astype(object)):
        assert schema.encode(months).tolist() == [[-1.0, 0.0]]
    fault = "'a' holds values that are not dates; 'a' holds dates beyond its bounds, to which"
    with pytest.raises(ValueError, match=fault):
        schema.validate(early)
    with pytest.raises(TypeError, match="'a' has dtype Int64, which holds no dates"):
        schema.encode(pd.DataFrame({"a": [738_886]}))


def test_what_fits_is_valid():
    frame = pd.DataFrame(COLUMNS).iloc[[0, 1]]
    for extra in ({}, {"ill": ["no", "yes"]}, {"ill": ["no", "no"], "id": [7, 8]}):
        assert SCHEMA.validate(frame.assign(**extra)) is None
    with pytest.raises(ValueError, match="'age' holds numbers that are not whole"):
        SCHEMA.validate(frame.assign(age=20.5))
    assert SCHEMA.encode(frame[::-1][frame.columns[::-1]])[1].tolist() == ENCODED[0]


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (lambda f: f.drop(columns="age"), ValueError, r"it lacks \['age'\]"),
        (lambda f: f.assign(x=1), ValueError, r"does not declare \['x'\]"),
        (lambda f: f.assign(age="x").astype({"age": "str"}), TypeError, "'age' has dtype String"),
        (lambda f: f.assign(city=1.5), TypeError, "numbers and strings differ"),
        (lambda f: f.assign(rooms="1").astype({"rooms": "str"}), TypeError, "'rooms' has dtype"),
        (lambda f: f.assign(age=pd.Timestamp(0)), TypeError, "'age' has dtype Datetime"),
        (lambda f: f.assign(age=pd.Period("2020")), TypeError, "'age' has dtype period"),
        (lambda f: f.assign(age=pd.Interval(0, 1)), TypeError, "'age' has dtype interval"),
        (lambda f: f.assign(age=1j), TypeError, "'age' has dtype complex128"),
        (lambda f: f.assign(member=f["city"].astype("category")), TypeError, "'member' has dtype"),
        (lambda f: pd.concat([f, f], axis=1), ValueError, "different names"),
        (lambda f: pl.DataFrame(COLUMNS).lazy(), TypeError, "got LazyFrame"),
        (lambda f: f.to_numpy(), TypeError, "got ndarray"),
        (lambda f: COLUMNS, TypeError, "got dict"),
    ],
)
def test_frames_that_do_not_fit(change, error, match):
    for method in (SCHEMA.encode, SCHEMA.validate):
        with pytest.raises(error, match=match):
            method(change(pd.DataFrame(COLUMNS)))


def test_there_and_back(tmp_path):
    assert Schema.from_dict(SCHEMA.to_dict()) == SCHEMA
    assert hash(Schema.from_dict(json.loads(SCHEMA.to_json()))) == hash(SCHEMA)
    assert Schema(SCHEMA.columns, target="ill", person="id") == SCHEMA
    assert Schema(SCHEMA.columns, target="ill") != SCHEMA
    assert repr(SCHEMA) == "Schema(number: 2, category: 3, boolean: 1; target='ill', person='id')"
    (tmp_path / "book.json").write_text(SCHEMA.to_json())
    assert Schema.from_file(tmp_path / "book.json") == SCHEMA
    with pytest.raises(ValueError, match=r"must end in \.json, \.yaml or \.yml"):
        Schema.from_file(tmp_path / "book.txt")


def test_yaml(tmp_path, monkeypatch):
    path = tmp_path / "book.yaml"
    path.write_text("columns:\n  age: {bounds: [18, 90]}\n  ill: ['no', 'yes']\ntarget: ill\n")
    with monkeypatch.context() as patch:
        patch.setitem(__import__("sys").modules, "yaml", None)
        with pytest.raises(ImportError, match="needs PyYAML"):
            Schema.from_file(path)
    pytest.importorskip("yaml")
    columns = {"age": {"bounds": [18, 90]}, "ill": ["no", "yes"]}
    assert Schema.from_file(path) == Schema(columns, target="ill")
    path.write_text("columns:\n  seen: {bounds: [2020-01-01, 2024-12-31]}\n")
    assert Schema.from_file(path) == Schema({"seen": DATES})
    for damaged in ("columns: {age: [", "columns:\n\t- x", "a: b: c", "- \x00"):
        path.write_text(damaged)
        with pytest.raises(ValueError, match=r"^path must hold YAML, but 'book\.yaml' does not"):
            Schema.from_file(path)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_from_a_public_sample(kind):
    frame = frames()[kind]
    schema = Schema.from_public(frame, person="id", groups="city", categories=["rooms"])
    assert "read off a public sample of 5 records" in repr(schema)
    assert schema.to_dict()["columns"] == {
        "age": {"bounds": [-9, 200], "integer": True, "missing": True},
        "city": {"categories": ["?", "Bern", "Oslo", "Rome"], "missing": True},
        "member": {"boolean": True, "missing": True},
        "income": {"bounds": [-1e9, 1.0], "integer": True, "missing": True},
        "rooms": {"categories": [1.0, 2.5, 3.0], "missing": True},
    }
    schema.validate(frame)
    assert schema.features == ["age", "member", "income", "rooms"]


@pytest.mark.parametrize(
    ("values", "categories"),
    [
        (pd.Series([2, 1, None, 2]), [1.0, 2.0]),
        (pd.Series([2, 1], dtype="Int64"), [1, 2]),
        (pd.Series([0.5, 0.25], dtype="float32"), [0.25, 0.5]),
        (pd.Series([True, False]), [False, True]),
        (pd.Series(["b", "a", None]), ["a", "b"]),
    ],
)
def test_categories_of_a_public_sample(values, categories):
    frame = values.astype("category").to_frame("a")
    schema = Schema.from_public(frame)
    assert schema.to_dict()["columns"]["a"]["categories"] == categories
    assert schema.validate(frame) is None


def test_samples_that_say_too_little():
    for dtype in ("datetime64[s]", "timedelta64[s]"):
        frame = pd.DataFrame({"a": pd.Series([1, 2], dtype=dtype).astype("category"), "b": [1, 2]})
        with pytest.raises(ValueError, match=r"columns \['a'\] of the frame"):
            Schema.from_public(frame)
    for values in ([1, 1], [None, None], [np.inf, 2.0], [b"a", b"b"], ["a", 1]):
        frame = pd.DataFrame({"a": pd.Series(values, dtype=object), "b": [1, 2]})
        with pytest.raises(ValueError, match=r"columns \['a'\] of the frame"):
            Schema.from_public(frame)
    with pytest.raises(ValueError, match=r"lacks \['c'\]"):
        Schema.from_public(frame, categories=["c"])


NUMBER = {"bounds": [0, 1]}
DATE = datetime.date(2024, 12, 31)
DATES = {"bounds": ["2020-01-01", "2024-12-31"]}


@each(
    ("columns", "roles", "error", "match"),
    [
        ([], {}, TypeError, "columns must be a dict"),
        ({}, {}, ValueError, "at least one entry"),
        ({1: NUMBER}, {}, TypeError, "strings as names"),
        ({"a": 3}, {}, TypeError, r"columns\['a'\] must be 'boolean', a list"),
        ({"a": {}}, {}, ValueError, "got the keys"),
        ({"a": {**NUMBER, "categories": ["x"]}}, {}, ValueError, "got the keys"),
        ({"a": {"bounds": [0]}}, {}, ValueError, "two numbers"),
        ({"a": {"bounds": [1, 0]}}, {}, ValueError, "must be less than"),
        ({"a": {"bounds": [0, np.inf]}}, {}, ValueError, r"must be in \[-1e\+100, 1e\+100\]"),
        ({"a": {"bounds": [None, 1]}}, {}, TypeError, "must be a finite number"),
        ({"a": {"bounds": ["0", 1]}}, {}, TypeError, r"columns\['a'\] must have either numbers or"),
        ({"a": {"bounds": ["1.1.2020", DATE]}}, {}, TypeError, "dates such as '2024-01-31'"),
        ({"a": {"bounds": ["2020-01-01", 20000]}}, {}, TypeError, "'bounds' is"),
        ({"a": {"bounds": ["2020-01-01"]}}, {}, ValueError, "two numbers or two dates"),
        ({"a": {"bounds": [DATE, "2020-01-01"]}}, {}, ValueError, "the earlier one first"),
        ({"a": {**DATES, "integer": True}}, {}, ValueError, "for dates, 'fill' and 'missing'"),
        ({"a": {**DATES, "fill": 3}}, {}, TypeError, "'fill' is 3"),
        (
            {"a": {**DATES, "missing": "2020-01-01"}},
            {},
            TypeError,
            "that mean it, got '2020-01-01'",
        ),
        ({"a": {**DATES, "fill": "2019-12-31"}}, {}, ValueError, "date within .* '2019-12-31'"),
        ({"a": {**NUMBER, "missing": "?"}}, {}, TypeError, "True or False, or a list of the val"),
        ({"a": {**DATES, "missing": [-9]}}, {}, TypeError, r"'missing' is \[-9\]"),
        ({"a": DATES}, {"target": "a"}, ValueError, "must not be a column of dates"),
        ({"a": {**NUMBER, "fill": 2}}, {}, ValueError, r"\['fill'\] must be a number within"),
        ({"a": {**NUMBER, "integer": 1}}, {}, TypeError, "True or False"),
        ({"a": {"boolean": False}}, {}, ValueError, "must be True"),
        ({"a": []}, {}, ValueError, "at least one category"),
        ({"a": [18, 90]}, {}, ValueError, r"\{'bounds': \[18, 90\]\}, for categories \{'cat"),
        ({"a": [None]}, {}, ValueError, "must have a category"),
        ({"a": ["x", 1]}, {}, ValueError, "all numbers or all strings"),
        ({"a": {"categories": ["x"], "missing": ["x"]}}, {}, ValueError, "also listed as missing"),
        ({"a": ["missing"], "a_missing": "boolean"}, {}, ValueError, "several features"),
        ({"a": NUMBER}, {"target": "b"}, ValueError, "target must be one of"),
        ({"a": NUMBER}, {"groups": "a"}, ValueError, "categories or booleans"),
        ({"a": NUMBER}, {"person": "a"}, ValueError, "not declared in columns"),
        ({"a": {**NUMBER, "missing": True}}, {"target": "a"}, ValueError, "missing values"),
    ],
)
def test_declarations_that_are_not_legal(columns, roles, error, match):
    with pytest.raises(error, match=match):
        Schema(columns, **roles)


@each("categories", [[1, 2, 3], [7], [1, None], ["1", "2"], (0, 1)])
def test_lists_of_categories(categories):
    bare = categories != (0, 1)  # two numbers need a key
    schema = Schema({"a": categories if bare else {"categories": categories}})
    assert schema.columns["a"].values() == [value for value in categories if value is not None]


def test_dicts_that_are_not_legal():
    with pytest.raises(TypeError, match="must be a dict"):
        Schema.from_dict([1])
    for wrong in ({}, {"columns": {"a": NUMBER}, "label": "a"}):
        with pytest.raises(ValueError, match="the key 'columns'"):
            Schema.from_dict(wrong)
