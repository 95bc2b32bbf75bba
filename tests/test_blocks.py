"""Blocks of rows: every back end fits what NumPy fits, mistakes cost nothing, no value leaves."""

import itertools
import pickle
import threading

import joblib
import numpy as np
import pandas as pd
import pytest
from cases import costs_nothing, each, fit
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.preprocessing import FunctionTransformer

from skdpsco import (
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateLogisticL1,
    PrivateRidge,
    RowBlocks,
)
from skdpsco.data import record_sums
from skdpsco.data.design import as_design
from skdpsco.data.pieces import FAN_IN, add, tree_sum
from skdpsco.data.record_sums import map_reduce
from skdpsco.solvers import PhasedSGD

N, D = 1500, 6
RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (N, D))
Y = 2.0 * X[:, 0] - X[:, 3] + 0.1 * RNG.normal(size=N)
LABELS = np.where(Y > 0.0, "yes", "no")


def same(model, *data, X=X, y=Y):
    """Whether fits to ``data`` and to arrays agree: grids hide in which order terms were added."""
    expected, found = fit(model, X, y), fit(model, *data)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=1e-9, atol=1e-9)
    assert found.privacy_.rho == expected.privacy_.rho
    assert found.n_iter_ == expected.n_iter_
    return found


@pytest.mark.usefixtures("as_they_are")
def test_one_pass_solvers_take_blocks_in_order():
    solver = PhasedSGD(shuffle=False)
    for given in ({}, {"radius": 3.0}, {"target_bound": 3.0}):
        model = PrivateLinearRegressor(solver=solver, **given)
        same(model, RowBlocks.from_arrays(X, Y, block_size=400))


def test_arrays_of_any_kind():
    model = PrivateLasso(n_iter=4)
    same(model, RowBlocks.from_arrays(X, block_size=1000), Y)  # y apart
    same(model, RowBlocks.from_arrays(X.tolist(), Y.tolist(), block_size=1000))
    same(model, RowBlocks.from_arrays(np.asfortranarray(X), Y, block_size=1000))
    whole = np.rint(10 * X).astype(np.int8)
    same(model, RowBlocks.from_arrays(whole, Y, block_size=1000), X=whole)
    single = X.astype(np.float32)
    same(model, RowBlocks.from_arrays(single, Y, block_size=1000), X=single)
    matrix = sparse.csr_matrix(X * (X > 0.3))
    same(model, RowBlocks.from_arrays(matrix.tocsc(), Y, block_size=400), X=matrix)
    same(PrivateRidge(), RowBlocks.from_arrays(matrix, Y, block_size=400), X=matrix)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    found = same(model, RowBlocks.from_arrays(frame, pd.Series(Y), block_size=1000), X=frame)
    assert found.feature_names_in_.tolist() == list("abcdef")


def test_a_memmap_is_read_block_by_block_and_never_written(tmp_path):
    for name, values in (("X", X), ("y", Y)):
        np.save(tmp_path / f"{name}.npy", values)
        (tmp_path / f"{name}.npy").chmod(0o444)
    mapped, y = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "Xy")
    model = PrivateLasso(n_iter=4)
    blocks = RowBlocks.from_arrays(mapped, y, block_size=400)
    same(model, blocks)
    same(model, mapped, y)
    # What another process is sent is a name.
    assert len(pickle.dumps(blocks.parts)) < 2000
    block, _ = pickle.loads(pickle.dumps(blocks.parts[1])).read()
    assert np.array_equal(block, X[400:800])
    assert not block.flags.writeable
    same(model, RowBlocks.from_arrays(mapped[10:], y[10:], block_size=400), X=X[10:], y=Y[10:])
    same(model, RowBlocks.from_arrays(mapped[::2], y[::2], block_size=400), X=X[::2], y=Y[::2])
    mine = np.load(tmp_path / "X.npy", mmap_mode="c")
    mine[:500] = 0.5  # in memory, and not in the file
    (found, _), *_ = RowBlocks.from_arrays(mine, y, block_size=400)
    assert np.all(found == 0.5)


@pytest.mark.parametrize(("backend", "n_jobs"), [("threading", 2), ("sequential", 1)])
def test_joblib(backend, n_jobs):
    check_sums(backend, n_jobs)


def check_sums(backend, n_jobs):
    """The sum does not depend on who computes it: equal to the last bit."""
    blocks = RowBlocks.from_arrays(X, Y, block_size=100)
    parallel = RowBlocks.from_arrays(X, Y, block_size=100, n_jobs=n_jobs)
    ones, results = np.ones(D), []
    with joblib.parallel_config(backend=backend):
        for some in (blocks, parallel):
            design = records_of(some).open(ones, True)
            results.append(map_reduce(design, None, moments, 0.1 * ones))
    assert np.array_equal(*results)
    assert results[0] == pytest.approx(moments(as_design(X, ones, True), Y, 0.1 * ones))


def records_of(blocks):
    from skdpsco._validation import check_target
    from skdpsco.data.block_records import BlockRecords

    return BlockRecords(blocks, check_target)


def moments(X, y, w):
    """A sum that rounding would show in."""
    return (np.clip(X.values, -1, 1) @ w * y) @ X.values


def test_parquet_and_arrow(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="needs the extra arrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra arrow")
    model = PrivateLasso(n_iter=4)
    columns = {f"x{j}": X[:, j] for j in range(D)}
    table = pa.table({"day": np.datetime64("2026-01-01") + np.arange(N), **columns, "target": Y})
    names = list(columns)
    found = same(model, RowBlocks.from_arrow(table, "target", columns=names, block_size=400))
    assert found.feature_names_in_.tolist() == names
    same(model, table.select(names), Y)
    path = tmp_path / "data.parquet"
    parquet.write_table(table, path, row_group_size=200)
    blocks = RowBlocks.from_parquet(path, "target", columns=names, block_size=500)
    assert blocks.n_blocks == 4  # of two row groups each
    same(model, blocks)
    same(model, RowBlocks.from_parquet([str(path)], columns=names, n_jobs=2), Y)
    same(PrivateLinearRegressor(target_bound=1.0), blocks)
    parquet.write_table(table, path)
    changed = RowBlocks.from_parquet(path, columns=names)
    parquet.write_table(table.slice(0, 1), path)
    with pytest.raises(ValueError, match=r"it must have 1500 rows.*got \(1, 6\)"):
        model.fit(changed, Y)  # one record is not taken for all
    labels = table.set_column(table.num_columns - 1, "target", pa.array(LABELS))
    parquet.write_table(labels, path, row_group_size=200)
    model = PrivateLogisticL1(classes=["no", "yes"], n_iter=4)
    same(model, RowBlocks.from_parquet(path, "target", columns=names), y=LABELS)

    with pytest.raises(TypeError, match="X must be numeric, but column 'day' is date32"):
        PrivateLasso().fit(RowBlocks.from_parquet(path, "target"))
    with pytest.raises(ValueError, match=r"target must be the name of one column.*got 'z'"):
        RowBlocks.from_parquet(path, "z")
    with pytest.raises(ValueError, match=r"columns must be different names.*got 'x1'"):
        RowBlocks.from_parquet(path, "target", columns=["x1", "x1"])
    other = tmp_path / "other.parquet"
    parquet.write_table(table.drop_columns(["day"]), path)
    parquet.write_table(table.drop_columns(["day", "x1"]), other)
    with pytest.raises(ValueError, match="other columns than"):
        RowBlocks.from_parquet([path, other], "target")


@each("n", [1, 2, FAN_IN, FAN_IN + 1, 3 * FAN_IN, FAN_IN**2 + 5])
def test_the_tree_is_fixed_and_adds_every_term_once(n):
    terms = [(np.array([1.0, 0.1 * k]), np.array(k)) for k in range(n)]
    total, count = tree_sum(iter(terms))
    assert total == pytest.approx(np.array([n, 0.1 * n * (n - 1) / 2]))
    assert count == n * (n - 1) // 2
    runs = [add(terms[start : start + FAN_IN]) for start in range(0, n, FAN_IN)]
    if n <= FAN_IN**2:
        assert np.array_equal(add(runs)[0], total)
    else:
        assert np.array_equal(add([add(runs[:FAN_IN]), add(runs[FAN_IN:])])[0], total)
    assert terms[0][0].tolist() == [1.0, 0.0]  # a term is left as it was


def test_empty_blocks_single_rows_and_another_order_change_nothing():
    cuts = [0, 0, 1, 1, 700, N, N]
    pairs = [(X[a:b], Y[a:b]) for a, b in itertools.pairwise(cuts)]
    blocks = RowBlocks.from_blocks(pairs)
    assert (blocks.n_blocks, blocks.n_samples) == (6, N)
    for model in (
        PrivateLasso(n_iter=4),
        PrivateRidge(),
        PrivateRidge(solver="gradient-descent", n_iter=3, feature_bound=None),
    ):
        same(model, blocks)
    same(PrivateLinearRegressor(target_bound=1.0), blocks)
    matrix = sparse.csr_matrix(X)
    pairs = [(matrix[a:b], Y[a:b]) for a, b in itertools.pairwise(cuts)]
    same(PrivateLasso(n_iter=4), RowBlocks.from_blocks(pairs), X=matrix)
    halves = [(X[700:], Y[700:]), (X[:700], Y[:700])]  # in another order
    same(PrivateLasso(n_iter=4), RowBlocks.from_blocks(halves))


# ------------------------------------------------------------------------------ mistakes


def broken(**changes):
    """Three blocks, of which the last is another one."""
    last = {"X": X[1000:].copy(), "y": Y[1000:].copy()}
    for name, change in changes.items():
        last[name] = change(last[name])
    pairs = [(X[:500], Y[:500]), (X[500:1000], Y[500:1000]), (last["X"], last["y"])]
    return RowBlocks.from_blocks(pairs)


def by_size(frame):
    """Columns in the order of their entries in the first row, which one record decides."""
    return frame.iloc[:, np.argsort(frame.to_numpy()[0])]


@pytest.mark.parametrize("on_dask", [False, True])
def test_columns_in_another_order_are_refused(on_dask):
    records = X[:60].copy()
    records[:30] = np.sort(records[:30])
    frame = pd.DataFrame(records, columns=list("abcdef"))
    blocks = RowBlocks.from_arrays(frame, Y[:60], block_size=30).map(FunctionTransformer(by_size))
    if on_dask:
        dask, dd = (pytest.importorskip(name) for name in ("dask", "dask.dataframe"))
        parts = [dask.delayed(by_size)(frame[:30]), dask.delayed(by_size)(frame[30:])]
        mixed = dd.from_delayed(parts, meta=frame[:0], verify_meta=False)
        y = dask.array.from_array(Y[:60], chunks=30)
        blocks = RowBlocks.from_dask(mixed, y, n_samples=60, block_size=30)
    costs_nothing(PrivateLasso(), "Block 1 of X: its columns must be those of X", blocks)


def with_entry(value):
    def change(array):
        array[(7,) + (2,) * (array.ndim - 1)] = value
        return array

    return change


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"X": with_entry(np.nan)}, ValueError, "Block 2 of X: Input X contains NaN"),
        ({"y": with_entry(np.nan)}, ValueError, "Block 2 of X: y must be finite"),
        ({"X": lambda x: x[:, :5]}, ValueError, r"it must have 6 columns.*got \(500, 5\)"),
        ({"X": sparse.csr_matrix}, ValueError, "it is sparse, but X was said to be dense"),
        ({"y": lambda y: y[:-1]}, ValueError, "500 rows, and one-dimensional targets"),
        ({"X": lambda x: np.full(x.shape, "a")}, ValueError, "Block 2 of X: X must be numeric"),
    ],
)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_block_that_is_wrong_costs_nothing(changes, error, message, n_jobs):
    blocks = broken(**changes)
    blocks.n_jobs = n_jobs
    costs_nothing(PrivateLasso(), message, blocks, error=error)


def test_targets_are_given_once():
    with pytest.raises(ValueError, match="y must be given, or be part of the RowBlocks"):
        PrivateLasso().fit(RowBlocks.from_arrays(X))
    with pytest.raises(ValueError, match="y must be None where the blocks of X hold the targets"):
        PrivateLasso().fit(RowBlocks.from_arrays(X, Y), Y)
    with pytest.raises(ValueError, match=f"one entry for each of {N} records"):
        PrivateLasso().fit(RowBlocks.from_arrays(X), Y[1:])


@each(
    ("arguments", "parameters", "error", "message"),
    [
        ((X, Y), {"block_size": 0}, ValueError, "block_size must be None or an int >= 1, got 0"),
        ((X, Y), {"block_size": 1.5}, TypeError, "block_size must be None or an int >= 1"),
        ((X, Y), {"n_jobs": 0}, ValueError, "n_jobs must be None or an int other than 0"),
        ((X, Y[1:]), {}, ValueError, "X and y must have the same length"),
        ((Y, Y), {}, ValueError, "X must have 2 dimensions"),
        ((X, X[:, :1]), {}, ValueError, "y must have 1 dimension, got"),
        ((X[:0], Y[:0]), {}, ValueError, "X must have at least one of its records, got 0"),
    ],
)
def test_parameters(arguments, parameters, error, message):
    with pytest.raises(error, match=message):
        RowBlocks.from_arrays(*arguments, **parameters)


def test_lists_of_blocks_are_of_one_kind():
    with pytest.raises(ValueError, match="blocks must not be empty"):
        RowBlocks.from_blocks([])
    with pytest.raises(ValueError, match="blocks must have a y in all pairs, or None in all"):
        RowBlocks.from_blocks([(X, Y), (X, None)])
    frames = [pd.DataFrame(X[:5], columns=list(names)) for names in ("abcdef", "abcdfe")]
    with pytest.raises(ValueError, match="blocks must have the same names of columns"):
        RowBlocks.from_blocks([(frame, Y[:5]) for frame in frames])


# ------------------------------------------------------------------------------ privacy


def test_noise_is_drawn_once_and_here(monkeypatch):
    """No generator is sent anywhere, and no task runs outside of the caller's threads."""
    seen = []
    original = record_sums.Task.__call__

    def spy(self, X, y):
        seen.append(threading.get_ident())
        assert not any(isinstance(a, np.random.Generator) for a in self.arguments)
        before = original(self, X, y)
        again = original(self, X, y)  # a task that is retried
        both = [r if isinstance(r, tuple) else (r,) for r in (before, again)]
        assert all(map(np.array_equal, *both))
        return before

    expected = fit(PrivateLasso(n_iter=4), X, Y)
    monkeypatch.setattr(record_sums.Task, "__call__", spy)
    found = fit(PrivateLasso(n_iter=4), RowBlocks.from_arrays(X, Y, block_size=500))
    assert len(seen) > 3 * 4
    assert np.array_equal(found.coef_, expected.coef_)


@pytest.mark.parametrize(
    "make", [PrivateLasso, PrivateRidge, PrivateLogisticL1, PrivateLinearClassifier]
)
def test_predictions_of_blocks_are_refused(make):
    model = make()
    labels = LABELS if is_classifier(model) else Y
    fit(model, X, labels)
    blocks = RowBlocks.from_arrays(X, labels, block_size=500)
    match = r"X must be .* got RowBlocks.*for X, y in blocks: model.predict\(X\)"
    names = ["predict", "predict_proba", "predict_log_proba", "decision_function", "score"]
    for name in names if is_classifier(model) else ["predict", "score"]:
        with pytest.raises(TypeError, match=match):
            getattr(model, name)(blocks)
    with pytest.raises(TypeError, match=match):
        model.score(blocks, labels)
    found = np.concatenate([model.predict(x) for x, _ in blocks])  # as the message says
    assert np.array_equal(found, model.predict(X))


def test_results_do_not_show_their_values():
    hidden = record_sums.Hidden(np.array([123.25]))
    assert "123" not in repr(hidden) + str(hidden)
    assert hidden.__sizeof__() >= 8
    matrix = sparse.csr_matrix(X)
    assert record_sums.Hidden((matrix, Y)).__sizeof__() > matrix.data.nbytes + Y.nbytes
    assert record_sums.attempt(lambda: 1 / 0) == record_sums.Failure(
        RuntimeError, "ZeroDivisionError"
    )
