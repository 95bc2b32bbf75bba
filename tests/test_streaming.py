"""Fits to records that come in blocks, and to files that are mapped into memory."""

import tracemalloc
from collections import deque

import numpy as np
import pandas as pd
import polars as pl
import pytest
from cases import each
from numpy.testing import assert_array_equal
from scipy import sparse
from test_bad_input import refuses
from test_estimators import FRAME_COLUMNS, data, same
from test_linear_model_lp import BOTH, OneGradient, fitted, target_of

from skdpsco import Ledger, PrivateLinearClassifier, PrivateLinearRegressor, RowBlocks
from skdpsco._validation import check_X_y
from skdpsco.linear_model._lp_ball import is_stream
from skdpsco.solvers import PhasedERM, Stagewise

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

N = 500
CUTS = [[100, 200], [1, 2, 3, 499], [0, 0, 250, 250], []]  # some blocks are empty


def streamed(Estimator, blocks, y=None, n_samples=N, **params):
    if Estimator is PrivateLinearClassifier:
        params = {"classes": [0, 1], **params}
    return fitted(Estimator, blocks, y, n_samples=n_samples, **params)


def cut(X, y, at):
    return list(zip(np.split(X, at), np.split(y, at), strict=True))


@BOTH
@pytest.mark.parametrize("at", CUTS)
def test_blocks_are_the_same_fit(Estimator, at):
    X, y = data()
    y = target_of(Estimator, y)
    whole = fitted(Estimator, X, y)
    assumed = "the number of records and the sizes of the blocks are public"
    for blocks in (cut(X, y, at), iter(cut(X, y, at)), (block for block in cut(X, y, at))):
        model = streamed(Estimator, blocks)
        assert_array_equal(model.coef_, whole.coef_)
        assert_array_equal(model.intercept_, whole.intercept_)
        assert model.privacy_.event == whole.privacy_.event
        assert assumed in model.privacy_.assumptions
    assert assumed not in whole.privacy_.assumptions


@pytest.mark.parametrize(
    ("Estimator", "n_columns", "epsilon", "n_classes"),
    [
        (PrivateLinearClassifier, 60, 0.3, 2),
        (PrivateLinearClassifier, 20, 0.07, 3),
        (PrivateLinearRegressor, 1000, 1.1, None),
    ],
)
def test_blocks_whose_features_noise_drowns_are_not_calibrated(
    Estimator, n_columns, epsilon, n_classes
):
    """Scores are read after coefficients, and blocks once: such fits failed after the charge."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1.0, 1.0, (N, n_columns)), rng.normal(size=N)
    params = {"epsilon": epsilon, "radius": "auto", "solver": "tree-frank-wolfe"}
    if n_classes is not None:
        y, params["classes"] = rng.integers(0, n_classes, N), range(n_classes)
    model = streamed(Estimator, cut(X, y, [200]), **params)
    calibrated = {"slope and offset of the scores", "shares of the classes"}
    labels = n_classes is not None  # regressions are not calibrated
    for one, expected in ((fitted(Estimator, X, y, **params), labels), (model, False)):
        steps = {step.name for step in one.privacy_.steps}
        assert bool(steps & calibrated) is expected
    if n_classes is not None:  # the units of a regression's targets are another release of arrays
        whole = fitted(Estimator, X, y, conditioning=None, **params)
        assert_array_equal(model.coef_, whole.coef_)
        assert_array_equal(model.intercept_, whole.intercept_)


@pytest.mark.parametrize(
    ("Estimator", "params"),
    [
        (PrivateLinearClassifier, {"p": 1.0, "solver": "one-pass-frank-wolfe"}),
        (PrivateLinearClassifier, {"solver": "phased-sgd"}),
        (PrivateLinearClassifier, {"p": 1.5, "solver": "tree-frank-wolfe"}),
    ],
    ids=lambda value: value["solver"] if isinstance(value, dict) else "",
)
def test_blocks_with_the_solvers_of_the_library(Estimator, params):
    X, y = data()
    y = target_of(Estimator, y)
    params["epsilon"] = 1000.0  # otherwise there are too few steps for an order to matter
    params["conditioning"] = None  # records that are read once are not conditioned
    whole = fitted(Estimator, X, y, shuffle=False, **params)
    model = streamed(Estimator, cut(X, y, [3, 100, 101]), **params)
    assert_array_equal(model.coef_, whole.coef_)
    assert np.any(fitted(Estimator, X, y, **params).coef_ != whole.coef_)  # in another order


@BOTH
def test_kinds_of_iterables(Estimator):
    X, y = data()
    y = target_of(Estimator, y)
    expected = fitted(Estimator, X, y)

    class Reader:
        def __iter__(self):
            return iter(cut(X, y, [100]))

    for blocks in (
        tuple(cut(X, y, [100])),
        deque(cut(X, y, [100])),
        map(tuple, [(X, y)]),
        Reader(),
    ):
        assert is_stream(blocks)
        assert_array_equal(streamed(Estimator, blocks).coef_, expected.coef_)
    assert_array_equal(streamed(Estimator, [[X, y]]).coef_, expected.coef_)
    lists = [(X.tolist(), y.tolist())]
    assert_array_equal(streamed(Estimator, lists).coef_, expected.coef_)


@each(
    "X",
    [
        np.ones((2, 2)),
        sparse.eye(3).tocsr(),
        pd.DataFrame({"a": [1]}),
        pl.DataFrame({"a": [1]}),
        [[1.0, 2.0], [3.0, 4.0]],
        [(1.0, 2.0), (3.0, 4.0)],
        list(zip(np.ones(3), np.ones(3), strict=True)),
        np.ones((3, 2)).tolist(),
        [list(row) for row in np.ones((3, 2))],
        [("a", "b")],
        [],
        "text",
        {"a": 1},
        None,
        3.0,
    ],
)
def test_what_is_no_stream(X):
    assert not is_stream(X)


@BOTH
@pytest.mark.parametrize(
    "kind",
    [
        sparse.csr_array,
        sparse.csc_matrix,
        np.asfortranarray,
        lambda X: X.astype(np.float32),
        lambda X: pd.DataFrame(X, columns=FRAME_COLUMNS),
        lambda X: pl.DataFrame(X, schema=FRAME_COLUMNS),
    ],
    ids=["csr", "csc", "Fortran", "float32", "pandas", "polars"],
)
def test_kinds_of_blocks(Estimator, kind):
    X, y = data()
    y = target_of(Estimator, y)
    blocks = [(kind(block), target) for block, target in cut(X, y, [17, 300])]
    model, whole = streamed(Estimator, blocks), fitted(Estimator, kind(X), y)
    assert_array_equal(model.coef_, whole.coef_)
    assert hasattr(model, "feature_names_in_") == hasattr(whole, "feature_names_in_")
    mixed = [(kind(X[:100]), y[:100]), (kind(X[100:]), y[100:])]
    assert_array_equal(streamed(Estimator, mixed).coef_, model.coef_)


def test_dense_and_sparse_blocks_in_turn():
    X, y = data()
    blocks = cut(X, y, [100, 200])
    blocks[1] = sparse.csr_array(blocks[1][0]), blocks[1][1]
    whole = fitted(PrivateLinearRegressor, X, y)
    assert_array_equal(streamed(PrivateLinearRegressor, blocks).coef_, whole.coef_)


def test_labels_of_blocks():
    X, y = data()
    labels = np.array(["b", "c", "a"])[target_of(PrivateLinearClassifier, y, 3)]
    whole = fitted(PrivateLinearClassifier, X, labels, classes=["a", "b", "c"])
    order = np.argsort(labels, kind="stable")  # a block need not hold every label
    blocks = cut(X[order], labels[order], [10])
    model = streamed(PrivateLinearClassifier, blocks, classes=["c", "b", "a"])
    assert list(model.classes_) == ["a", "b", "c"]
    np.testing.assert_allclose(model.coef_, whole.coef_, rtol=1e-6, atol=1e-6)


# --- memory


def peak(function):
    """Most memory that was allocated while ``function`` ran, in bytes."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_block_is_dropped_when_it_has_been_read():
    rng = np.random.default_rng(0)
    size, n_blocks, d = 1000, 40, 50

    def blocks():
        for _ in range(n_blocks):
            X = rng.uniform(-1, 1, (size, d))
            yield X, X[:, 0]

    params = {"n_samples": size * n_blocks, "feature_bound": 1.0}
    fitted(PrivateLinearRegressor, [(np.ones((3, d)), np.ones(3))], None, n_samples=3)  # imports
    used = peak(lambda: fitted(PrivateLinearRegressor, blocks(), None, **params))
    # Two blocks, a dense copy of one by the solver of the example, its clipping; not forty.
    assert used < 8 * size * d * 8


@pytest.fixture
def mapped(tmp_path):
    X, y = data(n=20_000, d=50)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    return [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "Xy"]


class Shares(OneGradient):
    """Notes whether it reads the memory that the user gave."""

    def __init__(self, given):
        self.given = given

    def __deepcopy__(self, memo):
        return self

    def run(self, plan, problem, X, y, rng, progress):
        self.shares = np.shares_memory(X.values, self.given)
        return super().run(plan, problem, X, y, rng, progress)


@BOTH
def test_memory_maps_are_not_copied(Estimator, mapped):
    X, y = mapped
    y = target_of(Estimator, y)
    assert not X.flags.writeable
    solver = Shares(X)
    model = fitted(Estimator, X, y, solver=solver)
    assert solver.shares
    same(model, fitted(Estimator, np.array(X), np.array(y), solver=Shares(X)))


def test_checks_take_no_copy(mapped):
    X, y = mapped
    check_X_y(PrivateLinearRegressor(), X[:10], y[:10], y_numeric=True)  # imports
    used = peak(lambda: check_X_y(PrivateLinearRegressor(), X, y, y_numeric=True))
    assert used < 0.1 * X.nbytes


# --- mistakes

X, Y = np.random.default_rng(0).uniform(-1, 1, (40, 4)), np.arange(40) % 2
BAD = np.where(np.arange(160).reshape(40, 4) == 7, np.nan, X)
FRAME = pd.DataFrame(X, columns=list("abcd"))
TWICE = sparse.csr_matrix(
    (np.full(80, 1e308), np.zeros(80, dtype=int), np.arange(0, 81, 2)), shape=(40, 4)
)


def model_of(Estimator, **params):
    if Estimator is PrivateLinearClassifier:
        params = {"classes": [0, 1], **params}
    return Estimator(**{"n_samples": 40, "solver": OneGradient(), **params})


PAIRS = "X must be an array, a matrix, a frame, or an iterable of pairs"
BEFORE = [
    ({"n_samples": None}, [(X, Y)], r"n_samples must be given if X yields blocks.*\[1, "),
    ({}, [], "n_samples=40 records were declared, but X has no blocks.*make a new one for every"),
    ({"n_samples": 39}, [(X, Y)], "n_samples=39 records .* block 0 of X alone holds 40"),
    ({}, [(TWICE, Y)], "Block 0 of X: X has duplicate entries whose sum is infinite"),
    ({}, [X], PAIRS + ".*block 0 is 'ndarray'"),
    ({}, [(X, Y, Y)], PAIRS + ".*block 0 is 'tuple'"),
    ({}, [3.0], PAIRS + ".*block 0 is 'float'"),
    ({}, range(3), PAIRS + ".*block 0 is 'int'"),
    ({}, [(BAD, Y)], "Block 0 of X: Input X contains NaN"),
    ({}, [(X, Y[:-1])], "Block 0 of X: .*inconsistent numbers of samples"),
    ({}, [(X, None)], "Block 0 of X: .*requires y to be passed"),
    ({}, [(X[:, :0], Y)], r"Block 0 of X: .*0 feature\(s\)"),
    ({}, [(X * 1j, Y)], "Block 0 of X: .*must be real"),
    ({"solver": "phased-erm"}, [(X, Y)], "solver 'phased-erm' cannot read blocks"),
    ({"solver": PhasedERM()}, [(X, Y)], "solver 'PhasedERM' cannot read blocks"),
    ({"solver": Stagewise()}, [(X, Y)], "solver 'Stagewise' cannot read blocks"),
]


@BOTH
@each(("params", "blocks", "match"), BEFORE)
def test_mistakes_that_show_before_the_charge(Estimator, params, blocks, match):
    refuses(model_of(Estimator, **params), match, X=Again(blocks), y=None)


class Again:
    """An iterable that is no list, and may be read several times."""

    def __init__(self, blocks):
        self.blocks = blocks

    def __iter__(self):
        return iter(self.blocks)


@BOTH
def test_y_beside_blocks(Estimator):
    refuses(model_of(Estimator), r"y must be None if X yields blocks", X=Again([(X, Y)]), y=Y)


def test_what_else_shows_before_the_charge():
    refuses(
        PrivateLinearClassifier(n_samples=40),
        "classes must be given if X yields blocks: a list of the public labels",
        X=Again([(X, Y)]),
        y=None,
    )
    refuses(
        model_of(PrivateLinearClassifier, classes=[0, 2]),
        r"Block 0 of X: y contains labels that are not among classes=\[0, 2\]",
        X=Again([(X, Y)]),
        y=None,
    )
    for Estimator, loss in (
        (PrivateLinearClassifier, "hinge"),
        (PrivateLinearRegressor, "absolute"),
    ):
        refuses(
            model_of(Estimator, loss=loss, solver="auto"),
            f"solver 'phased-erm', which loss='{loss}' needs as it is not smooth, cannot read",
            X=Again([(X, Y)]),
            y=None,
        )


TOO_FEW = "n_samples=40 records were declared, but the blocks hold 20 only"
AFTER = [
    ([(X[:0], Y[:0]), (TWICE, Y)], "Block 1 of X: X has duplicate entries whose sum is infinite"),
    ([(BAD[20:], Y[20:]), (BAD[:20], Y[:20])], "Block 1 of X: Input X contains NaN"),
    ([(X[:20], Y[:20])], TOO_FEW),
    ([(X, Y), (X.copy(), Y)], "n_samples=40 records were declared, but the blocks hold more"),
    ([(X[:20], Y[:20]), (X[20:, :3], Y[20:])], "Block 1 of X: X has 3 features, but .* 4 features"),
    ([(X[:20], Y[:20]), (X[20:], Y[:5])], "Block 1 of X: .*inconsistent numbers of samples"),
    ([(X[:20], Y[:20]), X[20:]], PAIRS + ".*block 1 is 'ndarray'"),
    ([(X[:20], Y[:20]), (X[20:], np.full(20, np.inf))], "Block 1 of X: Input y contains infinity"),
    (
        [(FRAME[:20], Y[:20]), (FRAME[20:][list("dcba")], Y[20:])],
        "Block 1 of X: The feature names should match",
    ),
]


def test_labels_of_blocks_must_be_declared():
    """Otherwise each block would have the classes that occur in it."""
    table = pytest.importorskip("pyarrow", reason="needs the extra arrow").table
    da = pytest.importorskip("dask.array", reason="needs the extra dask")
    columns = dict(zip("abcd", X.T, strict=True))
    for blocks in (da.from_array(X, chunks=(20, 4)), table(columns), RowBlocks.from_arrays(X)):
        with pytest.raises(ValueError, match="classes must be given if X yields blocks"):
            PrivateLinearClassifier().fit(blocks, Y)


@BOTH
def test_an_iterator_is_not_read_twice(Estimator):
    ledger = Ledger(5.0, 1e-6)
    model, blocks = model_of(Estimator, ledger=ledger), iter([(X, Y)])
    coef = model.fit(blocks).coef_
    with pytest.raises(ValueError, match="X has no blocks"):
        model.fit(blocks)
    assert model.coef_ is coef
    assert len(ledger.charges()) == 1


@BOTH
@pytest.mark.parametrize(("blocks", "match"), AFTER, ids=[match for _, match in AFTER])
def test_mistakes_that_show_after_the_charge(Estimator, blocks, match):
    ledger = Ledger(5.0, 1e-6)
    model = model_of(Estimator, ledger=ledger).fit([(X, Y)])
    before = dict(vars(model))
    with pytest.raises(ValueError, match=match):
        model.fit(blocks)
    assert len(ledger.charges()) == 2
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before)


def test_labels_of_a_later_block():
    ledger = Ledger(5.0, 1e-6)
    model = model_of(PrivateLinearClassifier, ledger=ledger)
    with pytest.raises(ValueError, match="Block 1 of X: y contains labels that are not among"):
        model.fit([(X[:20], Y[:20]), (X[20:], Y[20:] + 1)])
    assert len(ledger.charges()) == 1
    assert not hasattr(model, "classes_")
