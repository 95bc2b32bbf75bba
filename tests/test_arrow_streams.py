"""Blocks of Arrow streams: the results of arrays, and refusals of what cannot be read again."""

import warnings
from functools import cache, partial
from itertools import product

import numpy as np
import pytest
from cases import each
from sklearn import config_context
from sklearn.base import clone

from skdpsco import (
    Ledger,
    PrivacyWarning,
    PrivateAdditiveRegressor,
    PrivateLasso,
    PrivateLinearRegressor,
    PrivateMoments,
    RowBlocks,
    Schema,
    TableEncoder,
)
from skdpsco.preprocessing import PrivateStandardScaler
from skdpsco.solvers import PhasedSGD

pa = pytest.importorskip("pyarrow", reason="needs the extra arrow")
dataset = pytest.importorskip("pyarrow.dataset", reason="needs the extra arrow")
pl = pytest.importorskip("polars", reason="streams are opened by polars")

N, D, SIZE = 3000, 5, 700
RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (N, D))
Y = 2.0 * X[:, 0] - X[:, 3] + 0.1 * RNG.normal(size=N)
TABLE = pa.table({**{f"x{j}": X[:, j] for j in range(D)}, "y": Y})
BATCHES = [TABLE.slice(start, 130).to_batches()[0] for start in range(0, N, 130)]


CONNECTIONS = []  # older versions of DuckDB close one that only a relation refers to


def on_duckdb(folder):
    duckdb = pytest.importorskip("duckdb", reason="streams are opened by duckdb")
    connection = duckdb.connect(str(folder / "records.duckdb"))
    connection.register("given", TABLE)
    connection.execute("create table records as from given")
    CONNECTIONS.append(connection)
    return connection


def dataset_in(folder):
    for number, start in enumerate(range(0, N, 1000)):
        pa.parquet.write_table(TABLE.slice(start, 1000), folder / f"part{number}.parquet")
    return dataset.dataset(folder)


SOURCES = {
    "table": lambda folder: TABLE,
    "polars frame": lambda folder: pl.from_arrow(TABLE),
    "polars query": lambda folder: pl.from_arrow(TABLE).lazy().with_columns(pl.col("x1") * 1.0),
    "parquet query": lambda folder: (dataset_in(folder), pl.scan_parquet(folder))[1],
    "data set": dataset_in,
    "duckdb relation": lambda folder: on_duckdb(folder).sql("from records"),
    "duckdb query": lambda folder: partial(on_duckdb(folder).sql, "from records"),
    "function": lambda folder: lambda: pa.RecordBatchReader.from_batches(TABLE.schema, BATCHES),
    "pandas": lambda folder: TABLE.to_pandas(),
}


def fitted(model, *data):
    """A fit with the same noise every time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return clone(model).set_params(random_state=0).fit(*data)


def same(model, *data):
    """Released numbers of such a fit."""
    found = vars(fitted(model, *data))
    arrays = {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
    # A model that reads each record once takes names from frames only.
    return {name: value for name, value in arrays.items() if name != "feature_names_in_"}


MODELS = {
    "sums": PrivateLasso(n_iter=3),
    "moments": PrivateMoments(),
    "scaler": PrivateStandardScaler(),
    "each record once": PrivateLinearRegressor(solver=PhasedSGD(shuffle=False)),
}


def arrays_in_blocks():
    return RowBlocks.from_arrays(TABLE.drop_columns(["y"]).to_pandas(), Y, block_size=SIZE)


@cache
def of_arrays(name):
    """The fit of a model that others are compared with."""
    return same(MODELS[name], arrays_in_blocks())


@pytest.mark.parametrize("kind", SOURCES)
def test_results_are_those_of_arrays_in_the_same_blocks(kind, tmp_path):
    pytest.importorskip("pyarrow.parquet")
    blocks = RowBlocks.from_arrow(SOURCES[kind](tmp_path), "y", block_size=SIZE)
    arrays = arrays_in_blocks()
    assert (blocks.n_samples, blocks.n_blocks) == (N, arrays.n_blocks)
    assert blocks.feature_names == arrays.feature_names
    for name, memory in product(MODELS, (0, 2 * SIZE * (D + 1) * 8 / 2**20, 1024)):
        with config_context(working_memory=memory):  # none of the blocks are held, one, or all
            found, wanted = same(MODELS[name], blocks), of_arrays(name)
        assert found.keys() == wanted.keys()
        assert all(np.array_equal(found[key], wanted[key]) for key in wanted)
    some = np.arange(5, N, 3)
    for part, other in zip(blocks.take(some), arrays.take(some), strict=True):
        assert np.array_equal(part[0], other[0])
        assert np.array_equal(part[1], other[1])


@pytest.mark.parametrize("kind", ["polars query", "duckdb relation", "function"])
def test_raw_columns_are_those_of_an_arrow_table(kind, tmp_path):
    city = np.where(X[:, 0] > 0.2, "Oslo", "Rome").astype(object)
    city[::7] = None
    age = pa.array(np.round(50 + 30 * X[:, 1]).astype(int), mask=X[:, 2] > 0.9)
    raw = pa.table({"city": pa.array(city), "age": age, "y": Y})
    schema = Schema(
        {
            "city": {"categories": ["Oslo", "Rome"], "missing": True},
            "age": {"bounds": [18, 90], "missing": True},
            "y": {"bounds": [-4, 4]},
        },
        target="y",
    )
    source = {
        "polars query": lambda: pl.from_arrow(raw).lazy(),
        "duckdb relation": lambda: duckdb_of(raw, tmp_path),
        "function": lambda: raw.to_reader,
    }[kind]()
    found, wanted = (RowBlocks.from_arrow(given, "y", block_size=SIZE) for given in (source, raw))
    models = [fitted(PrivateAdditiveRegressor(schema=schema), blocks) for blocks in (found, wanted)]
    one, other = (model.predict(raw.drop_columns(["y"])) for model in models)
    assert np.array_equal(one, other)
    pairs = zip(found.map(TableEncoder(schema)), wanted.map(TableEncoder(schema)), strict=True)
    assert all(np.array_equal(a, b) for (a, _), (b, _) in pairs)
    with pytest.raises(TypeError, match="X must be numeric, but column 'city' is"):
        PrivateLasso().fit(found)


def duckdb_of(table, folder):
    connection = on_duckdb(folder)
    connection.register("raw", table)
    return connection.sql("from raw")


def test_a_stream_is_held_open_only_while_it_is_read(tmp_path):
    connection = on_duckdb(tmp_path)
    blocks = RowBlocks.from_arrow(connection.sql("from records"), "y", block_size=SIZE)
    assert connection.sql("select count(*) from records").fetchall() == [(N,)]
    assert blocks.first.shape == (1, D)
    assert connection.sql("select count(*) from records").fetchall() == [(N,)]
    connection.execute("update records set x2 = 'nan'::double where x0 > 0.9")
    with pytest.raises(ValueError, match="NaN") as caught:
        PrivateLasso().fit(blocks)
    assert connection.sql("select count(*) from records").fetchall() == [(N,)]
    assert caught.value.__cause__ is None


# ------------------------------------------------------------------------------ refusals

ROWS = "source had 3000 rows when it was opened first, and must have the same"


def changing(*tables):
    """A source that is one table after the other, and the last one from then on; None fails."""
    left = list(tables)

    def opened():
        table = left.pop(0) if len(left) > 1 else left[0]
        if table is None:
            raise RuntimeError(f"the database shows {X[0, 0]}")
        return table

    return opened


def shuffled():
    """A query whose records are in another order each time."""
    order = pl.int_range(pl.len()).shuffle()
    return pl.from_arrow(TABLE).lazy().select(pl.all().gather(order))


# Sources are opened to count their rows, to see whether they can be opened again, for the layout,
# for the checking pass, and for the one that compares.
CHANGES = {
    "random": (shuffled, "it is not what it was when it was read before"),
    "order": (
        lambda: changing(*[TABLE] * 4, TABLE.take(np.r_[1, 0, 2:N])),
        "it is not what it was",
    ),
    "fewer rows": (lambda: changing(TABLE, TABLE, TABLE.slice(1)), ROWS),
    "more rows": (lambda: changing(*[TABLE] * 3, pa.concat_tables([TABLE, TABLE])), ROWS),
    "columns": (lambda: changing(TABLE, TABLE, TABLE.drop_columns(["x1"])), "source must have the"),
    "names": (
        lambda: changing(*[TABLE] * 3, TABLE.rename_columns([*"abcde", "y"])),
        "source must have the same columns",
    ),
    "failing": (lambda: changing(*[TABLE] * 3, None), "source cannot be read"),
}


@each("kind", CHANGES)
@each("model", MODELS)
def test_a_source_that_changes_is_refused_before_the_charge(kind, model):
    source, message = CHANGES[kind]
    blocks, ledger = RowBlocks.from_arrow(source(), "y", block_size=SIZE), Ledger(5.0, 1e-5)

    def fit():
        assert blocks.first.shape == (1, D)
        clone(MODELS[model]).set_params(ledger=ledger, delta=1e-6).fit(blocks)

    with pytest.raises(ValueError, match=message) as caught:
        fit()
    assert ledger.charges() == []
    assert str(X[0, 0]) not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize(("memory", "n_read"), [(0.0, 5), (0.05, 3), (0.1, 2), (1024.0, 0)])
def test_passes_after_the_checks_read_the_blocks_that_memory_does_not_hold(memory, n_read):
    reads = []

    class Source:
        def __arrow_c_stream__(self, requested_schema=None):
            batches = (reads.append(batch) or batch for batch in TABLE.to_batches(SIZE))
            reader = pa.RecordBatchReader.from_batches(TABLE.schema, batches)
            return reader.__arrow_c_stream__(requested_schema)

    blocks = RowBlocks.from_arrow(Source(), "y", block_size=SIZE)
    fit = PrivateMoments(feature_bound=1.0, target_bound=3.0, conditioning=None).fit
    assert blocks.n_blocks == 5
    assert blocks.first.shape == (1, D)
    reads.clear()
    with config_context(working_memory=memory):
        fit(blocks)
    assert len(reads) == 5 + 5 + n_read


def test_a_source_that_changes_later_ends_the_fit():
    source = changing(*[TABLE] * 5, TABLE.take(np.r_[1, 0, 2:N]))
    blocks, ledger = RowBlocks.from_arrow(source, "y", block_size=SIZE), Ledger(5.0, 1e-5)
    assert blocks.first.shape == (1, D)
    model = PrivateLasso(n_iter=4, ledger=ledger, delta=1e-6)
    with config_context(working_memory=0):
        with pytest.raises(ValueError, match=r"Block 0 of X: it is not what it was"):
            model.fit(blocks)
    assert len(ledger.charges()) == 1
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (TABLE.to_reader(), ROWS),
        (changing(TABLE.to_reader()), ROWS),
        (changing(TABLE, None), "source cannot be read"),
        (X, "source must be an Arrow table.*got ndarray"),
        (lambda: X, "source must be an Arrow table.*got function"),
        (lambda table: table, "source cannot be read"),
        (lambda: TABLE.slice(0, 0), "X must have at least one of its records"),
    ],
    ids=["reader", "same reader", "fails again", "array", "of array", "with argument", "empty"],
)
def test_a_source_that_cannot_be_opened_twice_is_refused(source, message):
    with pytest.raises((TypeError, ValueError), match=message):
        RowBlocks.from_arrow(source, "y")


def test_a_stream_has_no_workers():
    with pytest.raises(ValueError, match="n_jobs must be None"):
        RowBlocks.from_arrow(TABLE.to_reader, "y", n_jobs=2)
    with pytest.raises(ValueError, match=r"target must be the name of one column.*got 'z'"):
        RowBlocks.from_arrow(pl.from_arrow(TABLE), "z")
