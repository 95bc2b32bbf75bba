"""Inputs that every fit refuses, each of another kind, named by their fault.

No message may show ``SECRET``, ``NUMBER`` or a part of them, or the year of the dates.
"""

import collections
import datetime
import decimal
import fractions
import io
import pathlib

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from scipy import sparse

N = 12
SECRET, NUMBER = "secret7321", 7321.625
MARKS = ("secret", "7321", "2073")  # parts of what values look like in a message
X = np.random.default_rng(0).uniform(-1.0, 1.0, (N, 3))
Y = np.arange(N) % 2


class Broken:
    """An array-like that fails when it is read."""

    shape = (N, 3)

    def __len__(self):
        return N

    def __array__(self, dtype=None, copy=None):
        raise ValueError(f"{SECRET} is in the message")


class NoNumber:
    """A value that fails when it is asked for its number, with any error."""

    def __init__(self, error):
        self.error = error

    def __float__(self):
        raise self.error(SECRET)


class Mislabelled:
    """An object that claims to be an array, and has no entries."""

    shape, ndim, dtype = (N, 3), 2, np.dtype(float)

    def __len__(self):
        return N

    def __getitem__(self, index):
        raise IndexError(SECRET)


class NoInterface:
    """An object that fails when NumPy asks for its memory."""

    @property
    def __array_interface__(self):
        raise OSError(SECRET)


class Text:
    """An array-like that is text."""

    def __array__(self, dtype=None, copy=None):
        return SECRET


# Values that hardly any parameter may have. Where one is legal, `test_refusals` says so.
ODD_VALUES = {
    "an object": object(),
    "another word": "oops",
    "bytes": b"oops",
    "no number": float("nan"),
    "a complex number": 1j,
    "minus one": -1,
    "a huge int": 10**400,
    "a truth": True,
    "an empty list": [],
    "a set": {1, 2},
    "a dict": {"other": 1},
    "a class": dict,
    "an array of no number": np.array([np.nan]),
    "an array of objects": np.array([object()]),
}


def with_entry(value, dtype=None):
    """X with one changed entry, and the number that no message may show."""
    changed = np.array(X, dtype=dtype)
    changed[2, 1] = NUMBER if dtype is None else value
    changed[3, 2] = value
    return changed


def frame(value, library=pd):
    """A frame whose column "b" ends with a value."""
    return library.DataFrame({"a": X[:, 0], "b": [*X[:-1, 1].tolist(), value]})


def column(values, dtype=None):
    """A frame with this column "b"."""
    return pd.DataFrame({"a": X[:, 0], "b": pd.Series(values, dtype=dtype)})


def lazily(value):
    """A polars frame whose only column holds a value everywhere."""
    return pl.DataFrame({"b": [value] * N})


def csr(part, change):
    """A CSR matrix with one array changed after it was made."""
    matrix = sparse.csr_array(X)
    setattr(matrix, part, change(getattr(matrix, part).copy()))
    return matrix


def csc(part, change):
    """A CSC matrix with one array changed after it was made."""
    matrix = sparse.csc_array(X)
    setattr(matrix, part, change(getattr(matrix, part).copy()))
    return matrix


def misplaced(matrix, place):
    """A COO matrix with one entry moved after it was made."""
    matrix.coords[0][3] = place
    return matrix


def put(at, value):
    """A change of one entry."""

    def change(array):
        array[at] = value
        return array

    return change


def endless():
    """A list that contains itself."""
    found: list = []
    found.append(found)
    return found


def failing_rows():
    """Rows; the sixth fails."""
    for number, row in enumerate(X.tolist()):
        if number == 5:
            raise ValueError(SECRET)
        yield row


ARRAYS = {
    "NaN": with_entry(np.nan),
    "infinity": with_entry(np.inf),
    "minus infinity": with_entry(-np.inf),
    "float32 NaN": with_entry(np.nan).astype(np.float32),
    "float16 infinity": with_entry(np.inf).astype(np.float16),
    "numbers that only a long double holds": with_entry("1e4000", np.longdouble),
    "big-endian NaN": with_entry(np.nan).astype(">f8"),
    "NaN by columns": np.asfortranarray(with_entry(np.nan)),
    "infinity in every other column of an array": np.repeat(with_entry(np.inf), 2, 1)[:, ::2],
    "NaN in a reversed view": with_entry(np.nan)[::-1],
    "NaN in memory of others": np.frombuffer(with_entry(np.nan).tobytes()).reshape(N, 3),
    "a masked array": np.ma.masked_array(X, X > 0.5),
    "a mask that is empty": np.ma.masked_array(X, False),
    "a matrix": X.view(np.matrix),
    "complex": X * 1j,
    "dates": np.full((N, 3), np.datetime64("2073-04-05")),
    "durations": np.full((N, 3), np.timedelta64(7321, "D")),
    "strings": np.full((N, 3), SECRET),
    "byte strings": np.full((N, 3), SECRET.encode()),
    "fields": np.array([(1.0, NUMBER)] * N, "f8, f8"),
    "a record array": np.rec.fromarrays([X[:, 0], X[:, 1]], names="a,b"),
    "raw memory": np.zeros((N, 3), "V8"),
    "one dimension": X[:, 0],
    "three dimensions": X[:, :, None],
    "four dimensions": X[:, :, None, None],
    "zero dimensions": np.array(NUMBER),
    "an object without dimensions": np.array({"a": NUMBER}, dtype=object),
    "a word without dimensions": np.array(SECRET),
    "no records": X[:0],
    "no features": X[:, :0],
    "fewer records": X[:-1],
    "more records": np.vstack([X, X[:1]]),
    "an array that fails": Broken(),
    "an array without entries": Mislabelled(),
    "an array without memory": NoInterface(),
    "an array of text": Text(),
}
ENTRIES = {
    "text": SECRET,
    "empty text": "",
    "text that is too large a number": "1e400",
    "bytes": SECRET.encode(),
    "None": None,
    "pandas.NA": pd.NA,
    "not a time": pd.NaT,
    "a list": [NUMBER],
    "a range": range(3),
    "a dict": {SECRET: NUMBER},
    "a set": {SECRET},
    "an object": object(),
    "a function": len,
    "a class": int,
    "complex": 1j * NUMBER,
    "a huge integer": 10**400,
    "a Decimal that is NaN": decimal.Decimal("NaN"),
    "a Decimal that signals NaN": decimal.Decimal("sNaN7321"),
    "an infinite Decimal": decimal.Decimal("Infinity"),
    "a huge Decimal": decimal.Decimal("7321.625e9999"),
    "a huge Fraction": fractions.Fraction(7321 * 10**400, 3),
    "a date": datetime.date(2073, 4, 5),
    "a datetime": datetime.datetime(2073, 4, 5),
    "a time": datetime.time(12),
    "a duration": datetime.timedelta(7321),
    "a Timestamp": pd.Timestamp("2073-04-05"),
    "a Timedelta": pd.Timedelta(7321),
    "a Period": pd.Period("2073"),
    "an Interval": pd.Interval(0, NUMBER),
    "what fails as a number": NoNumber(RuntimeError),
    "what has no number": NoNumber(KeyError),
}
OTHERS = {
    "a number": NUMBER,
    "a complex number": 1j * NUMBER,
    "True": True,
    "a word": SECRET,
    "a word of bytes": SECRET.encode(),
    "a path": pathlib.Path(SECRET),
    "nothing": None,
    "an ellipsis": ...,
    "a slice": slice(3),
    "a range": range(N),
    "a set": {1.0, NUMBER},
    "a dict": {"a": [NUMBER] * N},
    "values of a dict": {"a": X[:, 0]}.values(),
    "a class": np.ndarray,
    "a function": len,
    "a module": np,
    "an error": ValueError(SECRET),
    "a file": io.StringIO(SECRET),
    "a buffer of bytes": bytearray(24 * N),
    "rows that fail half-way": failing_rows(),
    "a tuple with names": collections.namedtuple("Columns", "a b")(X[:, 0], [[NUMBER]]),
    "an empty list": [],
    "empty lists": [[]] * N,
    "ragged lists": [[1.0, 2.0], [NUMBER]] * (N // 2),
    "lists of lists of lists": X[:, :, None].tolist(),
    "a list that contains itself": endless(),
    "words in a list": [SECRET] * N,
    "sets in a list": [{1.0, NUMBER}] * N,
    "dicts in a list": [{"a": NUMBER}] * N,
    "iterators in a list": [iter([NUMBER])] * N,
    "frames in a list": [pd.DataFrame(X)] * N,
    "an array among numbers": [[X[0], 0.0, 1.0], *X[1:].tolist()],
    "a sparse matrix in a list": [sparse.csr_array(X)],
}
FRAMES = {
    "text at the end": frame(SECRET),
    "a date at the end": frame(pd.Timestamp("2073-04-05")),
    "None": frame(None),
    "NaN": frame(np.nan),
    "infinity": frame(np.inf),
    "pandas.NA": frame(pd.NA),
    "a missing Int64": column([1] * (N - 1) + [None], "Int64"),
    "a missing boolean": column([True] * (N - 1) + [None], "boolean"),
    "a missing Float32": column([1.0] * (N - 1) + [None], "Float32"),
    "a missing Arrow integer": column([1] * (N - 1) + [None], pd.ArrowDtype(pa.int64())),
    "sparse NaN": column([np.nan] * N, pd.SparseDtype(float)),
    "categories of text": column(pd.Categorical([SECRET, "b"] * (N // 2))),
    "ordered categories": column(pd.Categorical([SECRET, "b"] * (N // 2), ordered=True)),
    "a missing category": column(pd.Categorical([1.0, None] * (N // 2))),
    "strings": column([SECRET] * N, "string"),
    "Arrow strings": column([SECRET] * N, pd.ArrowDtype(pa.string())),
    "Arrow dates": column([datetime.date(2073, 4, 5)] * N, pd.ArrowDtype(pa.date32())),
    "Arrow lists": column([[NUMBER]] * N, pd.ArrowDtype(pa.list_(pa.float64()))),
    "Arrow categories": column(
        [SECRET, "b"] * (N // 2), pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))
    ),
    "durations": column([datetime.timedelta(k) for k in range(N)]),
    "times of a zone": column(pd.date_range("2073-04-05", periods=N, tz="UTC")),
    "periods": column(pd.period_range("2073-04", periods=N)),
    "intervals": column(pd.interval_range(0, N)),
    "complex": column([1j * NUMBER] * N),
    "lists": column([[NUMBER]] * N, object),
    "frames": column([pd.DataFrame()] * N, object),
    "Decimals that signal": column([decimal.Decimal("sNaN7321")] * N, object),
    "dates as objects": column([datetime.date(2073, 4, 5)] * N, object),
    "no rows": pd.DataFrame({"a": [], "b": []}),
    "no columns": pd.DataFrame(index=range(N)),
    "one name twice": pd.DataFrame([[1.0, SECRET]] * N, columns=["a", "a"]),
    "names of two types": pd.DataFrame(X, columns=["a", 1, "b"]),
    "names of two levels, and NaN": pd.DataFrame(
        with_entry(np.nan), columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])
    ),
    "a series": pd.Series(X[:, 0]),
    "an index": pd.Index(X[:, 0]),
    "records by group": pd.DataFrame(X, columns=list("abc")).groupby("a"),
    "polars text": lazily(SECRET),
    "polars null": frame(None, pl),
    "polars NaN": pl.DataFrame(with_entry(np.nan), schema=list("abc")),
    "a polars column of null": lazily(None),
    "polars dates": lazily(datetime.date(2073, 4, 5)),
    "polars times": lazily(datetime.time(3)),
    "polars durations": lazily(datetime.timedelta(3)),
    "polars categories": lazily(SECRET).cast(pl.Categorical),
    "polars enums": lazily(SECRET).cast(pl.Enum([SECRET])),
    "polars bytes": lazily(SECRET.encode()),
    "polars lists": lazily([NUMBER]),
    "polars arrays": lazily([NUMBER]).cast(pl.Array(pl.Float64, 1)),
    "polars structs": lazily({"c": NUMBER}),
    "polars objects": pl.DataFrame({"b": pl.Series([object()] * N, dtype=pl.Object)}),
    "a polars query": pl.DataFrame(X).lazy(),
    "a polars series": pl.Series(X[:, 0]),
    "an Arrow array": pa.array(X[:, 0]),
    "Arrow chunks": pa.chunked_array([X[:, 0]]),
    "Arrow lists of one length": pa.array([[1.0, NUMBER]] * N, pa.list_(pa.float64(), 2)),
}
SPARSE = {
    "NaN": sparse.csr_array(with_entry(np.nan)),
    "an explicit NaN": csr("data", put(4, np.nan)),
    "an explicit infinity": csr("data", put(4, -np.inf)),
    "infinity by coordinates": sparse.coo_array(with_entry(np.inf)),
    "NaN by columns": sparse.csc_array(with_entry(np.nan)),
    "NaN in lists": sparse.lil_array(with_entry(np.nan)),
    "NaN on diagonals": sparse.dia_array(with_entry(np.nan)),
    "NaN in blocks": sparse.bsr_array(with_entry(np.nan)),
    "infinity by keys": sparse.dok_array(with_entry(np.inf)),
    "complex": sparse.csc_array(X * 1j),
    "text": csr("data", lambda data: np.full(len(data), SECRET)),
    "dates": csr("data", lambda data: data.astype("M8[s]")),
    "one dimension": sparse.coo_array(X[:, 0]),
    "no records": sparse.csr_array((0, 3)),
    "no features": sparse.csr_array((N, 0)),
    "duplicates of infinite sum": sparse.csr_array(
        (np.full(2, 1e308), [1, 1], [0, 2] + [2] * (N - 1)), shape=(N, 3)
    ),
    "duplicates without a sum": sparse.csr_array(
        (np.array([np.inf, -np.inf]), [1, 1], [0, 2] + [2] * (N - 1)), shape=(N, 3)
    ),
    "a negative index": csr("indices", put(3, -1)),
    "an index of no column": csr("indices", put(3, 3)),
    "an index far beyond": csr("indices", put(3, 7321)),
    "indices of float": csr("indices", lambda indices: indices.astype(float)),
    "indices of bool": csr("indices", lambda indices: indices.astype(bool)),
    "indices of objects": csr("indices", lambda indices: indices.astype(object)),
    "an index of no row": csc("indices", put(3, N)),
    "a coordinate of no row": misplaced(sparse.coo_array(X), 7321),
    "a negative coordinate": misplaced(sparse.coo_array(X), -1),
    "fewer indices than entries": csr("indices", lambda indices: indices[:-1]),
    "fewer entries than indices": csr("data", lambda data: data[:-1]),
    "entries in two dimensions": csr("data", lambda data: data[:, None]),
    "rows that do not begin at 0": csr("indptr", put(0, 1)),
    "rows that end before they begin": csr("indptr", put(2, 1)),
    "a row that begins below 0": csr("indptr", put(1, -1)),
    "rows that end beyond the entries": csr("indptr", put(-1, 7321)),
    "fewer rows than it says": csr("indptr", lambda indptr: indptr[:-1]),
    "rows that begin at floats": csr("indptr", lambda indptr: indptr.astype(float)),
}
BAD_X = {
    **ARRAYS,
    **{f"an entry: {name}": with_entry(value, object) for name, value in ENTRIES.items()},
    **{f"instead of an array: {name}": value for name, value in OTHERS.items()},
    **{f"a frame: {name}": value for name, value in FRAMES.items()},
    **{f"sparse: {name}": value for name, value in SPARSE.items()},
}
# What additive models take: numbers that are missing.
MISSING_NUMBERS = {
    "NaN", "float32 NaN", "big-endian NaN", "NaN by columns", "NaN in a reversed view",
    "NaN in memory of others", "an entry: None", "an entry: a Decimal that is NaN",
    "a frame: None", "a frame: NaN", "a frame: a missing Int64", "a frame: a missing boolean",
    "a frame: a missing Float32", "a frame: a missing Arrow integer", "a frame: sparse NaN",
    "a frame: a missing category", "a frame: names of two levels, and NaN",
    "a frame: polars null", "a frame: polars NaN", "a frame: a polars column of null",
}  # fmt: skip
OTHER_LENGTHS = {"fewer records", "more records", "instead of an array: a range"}


def first(value):
    """Targets with another first entry."""
    targets = np.array([None, *[1.0] * (N - 1)], dtype=object)
    targets[0] = value
    return targets


BAD_Y = {
    "NaN": np.where(Y == 1, np.nan, 0.0),
    "infinity": np.where(Y == 1, np.inf, 0.0),
    "None": None,
    "an entry None": first(None),
    "an entry pandas.NA": first(pd.NA),
    "an entry without a number": first(NoNumber(RuntimeError)),
    "a Decimal that signals NaN": first(decimal.Decimal("sNaN7321")),
    "a huge integer": first(10**400),
    "a missing Float64": pd.Series([1.0] * (N - 1) + [None], dtype="Float64"),
    "complex": Y * 1j,
    "a masked array": np.ma.masked_array(Y, Y == 1),
    "three dimensions": np.column_stack([Y, Y, Y])[:, :, None],
    "fewer": Y[:-1],
    "more": np.append(Y, 1),
    "a number": NUMBER,
    "a word": SECRET,
    "a dict": {SECRET: NUMBER},
    "a list as an entry": [[NUMBER], *Y[1:]],
    "lists of other lengths": [[1.0], [NUMBER, 2.0]] * (N // 2),
    "nothing": Y[:0],
    "sparse": sparse.csr_array(Y[:, None]),
    "fields": np.array([(1.0, NUMBER)] * N, "f8, f8"),
    "polars lists": pl.Series([[NUMBER]] * N),
    "an array that fails": Broken(),
}
BAD_WEIGHTS = {
    "a negative weight": np.where(Y == 1, -NUMBER, 1.0),
    "NaN": np.where(Y == 1, np.nan, 1.0),
    "infinity": np.where(Y == 1, np.inf, 1.0),
    "complex": np.full(N, 1j * NUMBER),
    "words": [SECRET] * N,
    "None": [None] * N,
    "dates": np.full(N, np.datetime64("2073-04-05")),
    "dates as objects": np.full(N, np.datetime64("2073-04-05")).astype(object),
    "times of NumPy as objects": np.array([*np.ones(N, dtype="m8[s]"), None], dtype=object)[:N],
    "spans of time": np.ones(N, dtype="m8[s]"),
    "digits": ["1"] * N,
    "a list as an entry": [[NUMBER], *[1.0] * (N - 1)],
    "two columns": np.ones((N, 2)),
    "fewer": np.ones(N - 1),
    "a number": NUMBER,
    "a dict": {SECRET: NUMBER},
    "sparse": sparse.csr_array(np.ones((N, 1))),
    "a masked array": np.ma.masked_array(np.ones(N), Y == 1),
    "a huge integer": [10**400] * N,
}
BAD_GROUPS = {
    "none": None,
    "fewer": [SECRET] * (N - 1),
    "a number": NUMBER,
    "a column of an array": "nobody",
    "NaN": np.where(Y == 1, np.nan, 0.0),
    "None": [None, *[SECRET] * (N - 1)],
    "sets": [{SECRET}] * N,
    "lists of other lengths": [[SECRET], [SECRET, SECRET]] * (N // 2),
    "dicts": [{SECRET: NUMBER}] * N,
    "three dimensions": np.zeros((N, 2, 2)),
    "sparse": sparse.csr_array(np.ones((N, 1))),
    "an array that fails": Broken(),
}
BAD_UNITS = {
    "none": [],
    "a number": NUMBER,
    "a word": SECRET,
    "two columns": np.full((N, 2), NUMBER),
    "None": [SECRET, None],
    "NaN": [NUMBER, np.nan],
    "lists": [[SECRET], [NUMBER, 1.0]],
    "dicts": [{SECRET: NUMBER}],
    "an array that fails": Broken(),
}


def sources(folder):
    """Makers of records in blocks, each wrong in another way.

    Files are in the folder, and shrink once the blocks know them.
    """
    from skdpsco import RowBlocks

    def failing():
        yield X[:5], Y[:5]
        raise ValueError(SECRET)

    def shrinking():
        path = folder / "shrinks.npy"
        np.save(path, X)
        blocks = RowBlocks.from_arrays(np.load(path, mmap_mode="r"), Y, block_size=5)
        path.write_bytes(path.read_bytes()[:200])
        return blocks

    def changing():
        records = X.copy()
        blocks = RowBlocks.from_arrays(records, Y, block_size=5)
        records[8] = np.nan
        return blocks

    def pairs(*more):
        return lambda: RowBlocks.from_blocks([(X[:5], Y[:5]), *more])

    return {
        "an iterator that fails half-way": lambda: RowBlocks.from_blocks(failing()),
        "a file that shrinks": shrinking,
        "an array that changes": changing,
        "a block with NaN": pairs((with_entry(np.nan)[:7], Y[:7])),
        "a block of text": pairs((np.full((7, 3), SECRET), Y[5:])),
        "a block of fewer features": pairs((X[5:, :2], Y[5:])),
        "a block of fewer targets": pairs((X[5:], Y[6:])),
        "a block without targets": pairs((X[5:], None)),
        "a sparse block": pairs((sparse.csr_array(X[5:]), Y[5:])),
        "a block that is a number": pairs(NUMBER),
        "no block": lambda: RowBlocks.from_blocks([]),
        "the same rows twice": pairs((X[:5], Y[:5])),
        "targets that are infinite": pairs((X[5:], np.full(7, np.inf))),
    }
