"""Fits on Spark: the sums of its executors, frames that change, and blocks that are lost."""

import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import fit

from skdpsco import (
    Ledger,
    PrivateLasso,
    PrivateLinearRegressor,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivateRidge,
    RowBlocks,
    Schema,
)
from skdpsco.additive import PrivateAdditiveRegressor
from skdpsco.minimax import PrivateMinimaxRegressor
from skdpsco.model_selection import PrivateGridSearchCV
from skdpsco.preprocessing import CategoricalDomainEncoder
from skdpsco.solvers import PhasedSGD

pytest.importorskip("pyspark", reason="needs the extra spark")
pa = pytest.importorskip("pyarrow", reason="needs the extra spark")
pd = pytest.importorskip("pandas", reason="needs pandas")
if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
    pytest.skip("needs a Java runtime", allow_module_level=True)

from pyspark.sql import SparkSession, functions  # noqa: E402

from skdpsco.data.spark_blocks import SparkBlocks  # noqa: E402

# PySpark does not know the newest pandas, uses what is deprecated, and leaves sockets open.
pytestmark = pytest.mark.filterwarnings(
    "ignore:PySpark does not yet:FutureWarning",
    "ignore:distutils Version classes:DeprecationWarning",
    "ignore:unclosed:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
N, PARTITIONS = 600, 3
RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (N, 4))
Y = 2.0 * X[:, 0] - X[:, 3] + 0.1 * RNG.normal(size=N)
FRAME = pd.DataFrame(X, columns=["a", "A", "c.d", "e"]).assign(
    y=Y, z=-Y, city=np.where(Y > 0, "Rome", "Oslo"), ill=(Y > 0).astype(int)
)
NUMBERS = ["a", "A", "c.d", "e"]
SCHEMA = "a double, y double"
RAW = Schema({"a": {"bounds": [-1, 1]}, "city": ["Bern", "Oslo", "Rome"]})


@pytest.fixture(scope="module")
def spark():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.builder.master("local[2]").config(map=options)
    session = builder.config("spark.sql.caseSensitive", "true").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def frame(spark, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("records") / "records.parquet")
    FRAME.to_parquet(path)
    return spark.read.parquet(path).repartition(PARTITIONS)


@pytest.fixture
def numbers(spark, tmp_path):
    """A frame that is read from two files in every evaluation, and a function that writes them."""

    def write(x, kind=0):
        for part, some in enumerate(np.array_split(x, 2)):
            np.save(tmp_path / f"{part}.npy", np.column_stack([some, 0.5 * some]))

    folder = str(tmp_path)

    def read(batches):
        for batch in batches:
            for part in batch.column(0).to_pylist():
                columns = np.load(f"{folder}/{part}.npy").T
                yield pa.RecordBatch.from_arrays(list(map(pa.array, columns)), names=["a", "y"])

    write(X[:, 0])
    return spark.range(0, 2, 1, 2).mapInArrow(read, SCHEMA), write


def lose(blocks):
    """Let executors forget the blocks of a fit, as if each of them had been killed."""
    blocks._kept.unpersist(True)


def before_sum(monkeypatch, number, act):
    """Act before a sum of a fit; the list that is returned grows with every sum."""
    original, sums = SparkBlocks.sum, []

    def sum_of(self, task):
        sums.append(task)
        if len(sums) == number:
            act(self)
        return original(self, task)

    monkeypatch.setattr(SparkBlocks, "sum", sum_of)
    return sums


def n_kept(spark):
    return spark.sparkContext._jsc.getPersistentRDDs().size()


MODELS = {
    "lasso": (lambda: PrivateLasso(n_iter=3), "y"),
    "logistic regression": (lambda: PrivateLogisticRegression(classes=[0, 1]), "ill"),
    "labels of text": (lambda: PrivateLogisticRegression(classes=["Oslo", "Rome"]), "city"),
    "several targets": (lambda: PrivateMoments(), ["y", "z"]),
    "moments": (lambda: PrivateMoments(), "y"),
    "one pass": (lambda: PrivateLinearRegressor(solver=PhasedSGD(shuffle=False)), "y"),
    "additive": (lambda: PrivateAdditiveRegressor(schema=RAW), "y"),
}


@pytest.mark.parametrize("name", MODELS)
def test_fits_are_those_of_arrays_to_the_last_bit(frame, spark, name):
    make, target = MODELS[name]
    columns = ["a", "city"] if name == "additive" else NUMBERS
    blocks = RowBlocks.from_spark(frame, target, columns=columns, block_size=80)
    assert blocks.n_blocks > PARTITIONS
    assert blocks.n_samples == N
    arrays = RowBlocks.from_blocks([(pd.DataFrame(x, columns=columns), y) for x, y in blocks])
    found, expected = fit(make(), blocks), fit(make(), arrays)
    assert found.feature_names_in_.tolist() == columns
    for attribute in ("coef_", "intercept_", "covariance_"):
        if hasattr(expected, attribute):
            assert np.array_equal(getattr(found, attribute), getattr(expected, attribute))
    grid = FRAME.loc[:50, columns] if hasattr(found, "predict") else None
    assert grid is None or np.array_equal(found.predict(grid), expected.predict(grid))
    assert n_kept(spark) == 0


def test_the_page(spark, tmp_path):
    columns = {"age": X[:, 0], "dose": X[:, 1], "ill": FRAME["ill"], "town": FRAME["city"]}
    pd.DataFrame(columns).to_parquet(tmp_path / "visits.parquet")
    page = (Path(__file__).parents[1] / "docs" / "spark.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {"spark": spark}
    exec(block.replace("visits.parquet", f"{tmp_path}/visits.parquet"), names)
    assert names["model"].feature_names_in_.tolist() == ["age", "dose"]


def test_blocks_hold_the_records(frame, spark):
    pairs = list(RowBlocks.from_spark(frame, "y", columns=["e", "a"], block_size=70))
    assert max(len(y) for _, y in pairs) == 70
    found = np.concatenate([np.column_stack(pair) for pair in pairs])
    order, same = np.argsort(found[:, 2]), FRAME.sort_values("y")[["e", "a", "y"]].to_numpy()
    assert np.array_equal(found[order], same)
    gaps = spark.createDataFrame([(1.0, None), (2.0, 3)], "a double, b int").coalesce(1)
    assert np.array_equal(next(iter(RowBlocks.from_spark(gaps)))[0], [[1, np.nan], [2, 3]], True)


def test_text_is_encoded_where_it_is(frame):
    blocks = RowBlocks.from_spark(frame, "y", columns=["city"])
    encoder = CategoricalDomainEncoder({"city": ["Oslo", "Rome"]}).fit(FRAME[["city"]])
    exact = PrivateMoments(feature_bound=1.0, target_bound=4.0, epsilon=1e6)
    fitted = PrivateRidge().fit(fit(exact, blocks.map(encoder)))
    text = pd.DataFrame({"city": ["Oslo", "Rome"]})
    means = FRAME.groupby("city")["y"].mean()
    np.testing.assert_allclose(fitted.predict(encoder.transform(text)), means, atol=0.01)


def test_strings_of_64_bits(frame, spark):
    name = "spark.sql.execution.arrow.useLargeVarTypes"
    spark.conf.set(name, "true")
    try:
        blocks = RowBlocks.from_spark(frame, columns=["city"])
        found = np.concatenate([np.asarray(x["city"]) for x, _ in blocks])
    finally:
        spark.conf.unset(name)
    assert sorted(found) == sorted(FRAME["city"])


def test_frames_without_targets_need_no_blocks(frame):
    fitted = fit(PrivateMoments(epsilon=1e6), frame.select("a", "A"))
    np.testing.assert_allclose(fitted.covariance_, np.cov(X[:, :2].T), atol=0.01)


@pytest.mark.parametrize(
    ("use", "message"),
    {
        "no such target": (lambda f: RowBlocks.from_spark(f, "b"), "target must be the name of"),
        "no such feature": (lambda f: RowBlocks.from_spark(f, columns=["b"]), "columns must be"),
        "no targets": (lambda f: PrivateLasso().fit(f), "y must be given"),
        "targets of their own": (lambda f: PrivateLasso().fit(f, Y), "target=..."),
        "text": (lambda f: PrivateLasso().fit(RowBlocks.from_spark(f, "y")), "column 'city' is"),
        "dates": (
            lambda f: RowBlocks.from_spark(f.withColumn("day", functions.current_date())),
            "'day' is date: cast it",
        ),
        "a stream": (
            lambda f: RowBlocks.from_spark(f.sparkSession.readStream.format("rate").load()),
            "frame must not be streaming",
        ),
        "of pandas": (lambda f: RowBlocks.from_spark(FRAME), "frame must be a DataFrame of Spark"),
        "no records": (lambda f: RowBlocks.from_spark(f.where("a > 2"), "y"), "at least one"),
        "needs arrays": (lambda f: PrivateMinimaxRegressor().fit(f, Y), "Collect it"),
        "a search": (
            lambda f: PrivateGridSearchCV(PrivateRidge(), {"alpha": [1, 2]}).fit(
                RowBlocks.from_spark(f, "y", columns=NUMBERS)
            ),
            "X must be",
        ),
        "missing targets": (
            lambda f: PrivateLasso().fit(RowBlocks.from_spark(holed(f, "y"), "y", columns=["e"])),
            "y must be finite",
        ),
        "missing labels": (
            lambda f: PrivateLogisticRegression(classes=["Oslo", "Rome"]).fit(
                RowBlocks.from_spark(holed(f, "city"), "city", columns=["e"])
            ),
            "y must",
        ),
        "missing values": (
            lambda f: PrivateLasso().fit(RowBlocks.from_spark(holed(f, "e"), "y", columns=["e"])),
            "Input X contains NaN",
        ),
    }.values(),
)
def test_bad_frames_are_refused_before_the_charge(frame, spark, monkeypatch, use, message):
    charged = []
    monkeypatch.setattr("skdpsco.base.private_estimator.generator", charged.append)
    with pytest.raises((TypeError, ValueError)) as caught:
        use(frame)
    assert message in str(caught.value)
    assert charged == []
    assert n_kept(spark) == 0


def holed(frame, name):
    """A frame with a missing value in a column."""
    rare = functions.col("y") > float(np.sort(Y)[-2])
    return frame.withColumn(name, functions.when(~rare, functions.col(name)))


@pytest.mark.parametrize("change", ["order", "length"])
def test_a_frame_that_is_never_the_same_is_refused_before_the_charge(spark, change):
    def read(_):
        rng = np.random.default_rng()
        size = 100 if change == "order" else 1 + int(rng.integers(10**6))
        x = pa.array(rng.permutation(np.linspace(-1.0, 1.0, size)))
        yield pa.RecordBatch.from_arrays([x, x], names=["a", "y"])

    ledger = Ledger(10.0, 1e-5)
    random = spark.range(0, 1, 1, 1).mapInArrow(read, SCHEMA)
    with pytest.raises(ValueError, match=r"Block \d+ of X: it is not what it was|were declared"):
        PrivateLasso(ledger=ledger).fit(RowBlocks.from_spark(random, "y"))
    assert ledger.spent().epsilon == 0.0
    assert n_kept(spark) == 0


def test_seeded_samples_are_the_same_in_every_pass(frame, monkeypatch):
    some = frame.select(*(f"`{name}`" for name in NUMBERS), "y").sample(0.5)
    some = some.withColumn("noise", functions.rand() - 0.5)
    blocks = RowBlocks.from_spark(some, "y")
    expected = fit(PrivateLasso(n_iter=3), RowBlocks.from_blocks(list(blocks)))
    sums = before_sum(monkeypatch, 3, lose)
    assert np.array_equal(fit(PrivateLasso(n_iter=3), blocks).coef_, expected.coef_)
    assert len(sums) > 3


def test_lost_blocks_are_read_again(numbers, monkeypatch):
    frame, _ = numbers
    blocks = RowBlocks.from_spark(frame, "y", block_size=50)
    expected = fit(PrivateLasso(n_iter=3), RowBlocks.from_blocks(list(blocks)))
    sums = before_sum(monkeypatch, 3, lose)
    assert np.array_equal(fit(PrivateLasso(n_iter=3), blocks).coef_, expected.coef_)
    assert len(sums) > 3


CHANGES = {
    "a value": np.where(np.arange(N) == 7, 0.1, X[:, 0]),
    "order": X[::-1, 0],
    "fewer blocks": X[:400, 0],
    "more blocks": np.append(X[:, 0], X[:100, 0]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("number", [None, 3], ids=["before the fit", "when blocks are lost"])
def test_records_that_change_are_refused(numbers, spark, monkeypatch, number, change):
    frame, write = numbers
    blocks = RowBlocks.from_spark(frame, "y", block_size=50)
    changed = CHANGES[change]

    def act(blocks):
        lose(blocks)
        write(changed)

    if number is not None:
        sums = before_sum(monkeypatch, number, act)
    else:
        original = SparkBlocks._check
        monkeypatch.setattr(
            SparkBlocks, "_check", lambda self, *a: (original(self, *a), write(changed))[0]
        )
    ledger = Ledger(10.0, 1e-5)
    with pytest.raises(ValueError, match=r"Block \d+ of X: it is not what it was"):
        PrivateLasso(n_iter=3, ledger=ledger).fit(blocks)
    assert (ledger.spent().epsilon > 0.0) == (number is not None)
    assert number is None or len(sums) == number
    assert n_kept(spark) == 0


def test_a_pass_in_order_compares_too(numbers, monkeypatch):
    frame, write = numbers
    blocks = RowBlocks.from_spark(frame, "y", block_size=50)
    original = SparkBlocks.__iter__

    def changed(self):
        lose(self)
        write(CHANGES["a value"])
        return original(self)

    monkeypatch.setattr(SparkBlocks, "__iter__", changed)
    with pytest.raises(ValueError, match="Block 0 of X: it is not what it was"):
        PrivateLinearRegressor(solver=PhasedSGD(shuffle=False)).fit(blocks)


@pytest.mark.parametrize("late", [False, True])
def test_errors_of_spark_do_not_tell(spark, tmp_path, late):
    flag = str(tmp_path / "flag")

    def read(batches):
        for _ in batches:
            if os.path.exists(flag) or not late:
                raise ValueError("the canary")
            x = pa.array(X[:, 0])
            yield pa.RecordBatch.from_arrays([x, x], names=["a", "y"])

    def use():
        blocks = RowBlocks.from_spark(spark.range(0, 1, 1, 1).mapInArrow(read, SCHEMA), "y")
        open(flag, "w").close()
        PrivateLasso().fit(blocks)

    with pytest.raises(ValueError, match="Spark cannot evaluate the frame") as caught:
        use()
    assert caught.value.__context__ is caught.value.__cause__ is None
    assert "the canary" not in str(caught.value)


def test_batches_have_the_layout_that_is_expected(spark):
    """Otherwise nothing of Spark can be fitted: the method is not public."""
    from skdpsco._upstream import arrow_batches

    frame = spark.createDataFrame([(1, 2.0)], "a int, b double").coalesce(1)
    (batch,) = arrow_batches(frame).collect()
    schema = pa.schema([("a", pa.int32()), ("b", pa.float64())])
    table = pa.ipc.read_record_batch(pa.py_buffer(batch), schema)
    assert table.to_pylist() == [{"a": 1, "b": 2.0}]
