"""Blocks of rows: every back end fits what NumPy fits, and mistakes show before any charge."""

import itertools
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from cases import each, fit
from scipy import sparse

from skdpsco import PrivateLasso, PrivateLinearRegressor, PrivateLogisticL1, PrivateRidge, RowBlocks
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


def test_empty_blocks_and_single_rows_change_nothing():
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


def test_the_order_of_blocks_matters_to_no_sum():
    halves = [(X[700:], Y[700:]), (X[:700], Y[:700])]
    same(PrivateLasso(n_iter=4), RowBlocks.from_blocks(halves))
