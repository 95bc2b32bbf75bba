"""What is shown when blocks are wrong: no value of a record, in no cause and from no source."""

import traceback
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from skdpsco import PrivateLasso, PrivateLinearRegressor, PrivateLogisticL1, RowBlocks

N = 60
RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (N, 3))
Y = X[:, 0].copy()
CANARY = "Xyzzy"
HUGE = 777_888_999


def bad(array, value):
    array = array.astype(object)
    array[(45,) + (1,) * (array.ndim - 1)] = value
    return array


BAD = [CANARY, CANARY.encode(), [CANARY], Decimal("nan"), 10**400, complex(HUGE, 1), pd.NA]
BAD += [pd.Timestamp("1987-06-05")]


def frames(X, y):
    return RowBlocks.from_arrays(pd.DataFrame(X), pd.Series(y), block_size=20)


def dask_arrays(X, y):
    da = pytest.importorskip("dask.array", reason="needs the extra dask")
    return RowBlocks.from_dask(da.from_array(X, chunks=(20, 3)), da.from_array(y, chunks=20))


def dask_frame(X, y):
    dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")
    frame = pd.DataFrame(X, columns=list("abc")).assign(y=y)
    return RowBlocks.from_dask(dd.from_pandas(frame, npartitions=3), target="y", n_samples=N)


def arrow(X, y):
    pa = pytest.importorskip("pyarrow", reason="needs the extra arrow")
    columns = dict(zip("abc", X.T, strict=True))
    try:
        return RowBlocks.from_arrow(pa.table({**columns, "y": pa.array(y)}), "y", block_size=20)
    except (pa.ArrowException, TypeError, OverflowError):
        pytest.skip("Arrow has no such column, or it is refused by its type")


SOURCES = {
    "arrays": lambda X, y: RowBlocks.from_arrays(X, y, block_size=20),
    "threads": lambda X, y: RowBlocks.from_arrays(X, y, block_size=20, n_jobs=2),
    "iterator": lambda X, y: iter([(X[i : i + 20], y[i : i + 20]) for i in (0, 20, 40)]),
    "frames": frames,
    "dask arrays": dask_arrays,
    "dask frame": dask_frame,
    "arrow": arrow,
}
MODELS = {
    "sums": PrivateLasso(n_iter=2),
    "once": PrivateLinearRegressor(n_samples=N),
    "classes": PrivateLogisticL1(classes=["a", "b"], n_iter=2),
}


@pytest.mark.parametrize("value", BAD, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("where", ["X", "y"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("source", SOURCES)
def test_errors_about_blocks_show_no_values(source, model, where, value):
    if (source, model) in (("iterator", "sums"), ("iterator", "classes")):
        pytest.skip("only solvers that read records once take iterators")
    y = np.where(Y > 0.0, "a", "b") if model == "classes" else Y
    given = (bad(X, value), y) if where == "X" else (X, bad(y, value))
    blocks = SOURCES[source](*given)
    with pytest.raises((ValueError, TypeError)) as caught:
        MODELS[model].fit(blocks)
    shown = "".join(traceback.format_exception(caught.value))
    for secret in (CANARY, str(HUGE), "1987", f"{X[45, 0]:.6f}", "9999", f"{HUGE:.3g}"):
        assert secret not in shown.replace(__file__, "")
