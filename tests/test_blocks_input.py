"""Blocks of rows: mistakes show before any charge, and nothing un-noised leaves."""

import threading

import numpy as np
import pytest
from cases import costs_nothing, each, fit
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.preprocessing import FunctionTransformer

from skdpsco import (
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLogisticL1,
    PrivateRidge,
    RowBlocks,
)
from skdpsco.data import record_sums

N, D = 1500, 6
RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (N, D))
Y = 2.0 * X[:, 0] - X[:, 3] + 0.1 * RNG.normal(size=N)
LABELS = np.where(Y > 0.0, "yes", "no")


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
    pd = pytest.importorskip("pandas")
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
    pd = pytest.importorskip("pandas", reason="needs pandas")
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
