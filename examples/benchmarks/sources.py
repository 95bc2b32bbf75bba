"""
A fit to records where they are stored
======================================

How many rows per second a fit takes from a memmap, Parquet, DuckDB, Polars, Dask and Spark::

    python examples/benchmarks/sources.py [--rows 1e7] [--memory 1024] [--repetitions 3]

The same records are written to a file of numbers, to Parquet and to a database of DuckDB, and are
read in blocks of the same size, so the released numbers must agree bit by bit (on Dask to 1e-9). A
fit makes many passes. Those to DuckDB and Polars hold blocks in ``--memory`` MB; with 0 they
evaluate the query in every pass. Rates are records over the least time of a fit, and "blocks" is
the time to make the blocks. Targets: half of the memmap's rate for DuckDB and Polars, and .3 of it
for Spark, which is left out without PySpark. Its fits include two evaluations of the frame.

Run it on a machine that has nothing else to do.
"""

import argparse
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import dask.array as da
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet
from sklearn import set_config

from skdpsco import PrivacyWarning, PrivateLogisticRegression, PrivateMoments, RowBlocks

MODELS = {
    "logistic regression": lambda: PrivateLogisticRegression(
        classes=[0, 1], delta=1e-8, random_state=0
    ),
    "moments": lambda: PrivateMoments(delta=1e-8, random_state=0),
}
TARGETS = {"DuckDB": 0.5, "Polars": 0.5, "Spark": 0.3}


def write(folder, n, d, size):
    """Records in files, a part at a time."""
    rng = np.random.default_rng(0)
    names = [f"x{j}" for j in range(d)]
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", float, (n, d))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.int64, (n,))
    writer = None
    for start in range(0, n, size):
        part = rng.uniform(-1.0, 1.0, (min(size, n - start), d))
        labels = (2.0 * part[:, 0] - part[:, 1] + rng.normal(size=len(part)) > 0).astype(np.int64)
        X[start : start + size], y[start : start + size] = part, labels
        table = pa.table({**dict(zip(names, part.T, strict=True)), "y": labels})
        writer = writer or pyarrow.parquet.ParquetWriter(folder / "records.parquet", table.schema)
        writer.write_table(table)
    writer.close()
    X.flush()
    y.flush()
    database = duckdb.connect(str(folder / "records.duckdb"))
    database.execute(f"create table records as from '{folder / 'records.parquet'}'")
    database.execute("checkpoint")
    os.sync()
    return database


def sources(folder, database, size):
    """Blocks by the name of what they are read from."""
    X, y = (np.load(folder / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    file = folder / "records.parquet"
    options = {"target": "y", "block_size": size}
    session = spark()
    more = {"Spark": lambda: RowBlocks.from_spark(session.read.parquet(str(file)), **options)}
    return {
        "memmap": lambda: RowBlocks.from_arrays(X, y, block_size=size),
        "Parquet": lambda: RowBlocks.from_parquet(file, **options),
        "DuckDB": lambda: RowBlocks.from_arrow(database.sql("from records"), **options),
        "Polars": lambda: RowBlocks.from_arrow(pl.scan_parquet(file), **options),
        "Dask": lambda: RowBlocks.from_dask(
            da.from_array(X, chunks=(size, -1)), np.array(y), block_size=size
        ),
        **(more if session is not None else {}),
    }


def spark():
    """A session with two threads; None without PySpark."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return None
    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {"spark.driver.memory": "4g", "spark.ui.showConsoleProgress": "false"}
    return SparkSession.builder.master("local[2]").config(map=options).getOrCreate()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=10**6)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--memory", type=float, default=1024.0, help="MB")
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    n, d, size = arguments.rows, arguments.columns, 100_000
    warnings.simplefilter("ignore", PrivacyWarning)  # the noise is fixed; the data are no secret
    set_config(working_memory=arguments.memory)
    missed = 0
    with tempfile.TemporaryDirectory() as name:
        database = write(Path(name), n, d, size)
        print(f"{n} x {d}, blocks of {size} rows")
        for model, make in MODELS.items():
            print(f"\n{model:<20}{'s':>9}{'1e6 rows/s':>12}{'of memmap':>11}{'blocks [s]':>12}")
            times, coefs = {}, {}
            for source, opened in sources(Path(name), database, size).items():
                start = time.perf_counter()
                blocks = opened()
                setup = time.perf_counter() - start
                for _ in range(arguments.repetitions):
                    start = time.perf_counter()
                    fitted = make().fit(blocks)
                    seconds = time.perf_counter() - start
                    times[source] = min(times.get(source, np.inf), seconds)
                coefs[source] = fitted.coef_ if hasattr(fitted, "coef_") else fitted.covariance_
                ratio = times["memmap"] / times[source]
                target = TARGETS.get(source, 0.0)
                missed += ratio < target
                print(
                    f"{source:<20}{times[source]:>9.2f}{n / times[source] / 1e6:>12.2f}"
                    f"{ratio:>11.2f}{setup:>12.2f}{'   MISSED' if ratio < target else ''}",
                    flush=True,
                )
            for source, coef in coefs.items():
                error = np.abs(coef - coefs["memmap"]).max()
                assert error <= (1e-9 if source == "Dask" else 0.0), (source, error)
        database.close()
    print(f"\n{missed} targets missed.")


if __name__ == "__main__":
    main()
