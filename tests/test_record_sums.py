"""Large arrays in pieces: their sums, which do not depend on threads, and how these are rounded."""

import threading
import tracemalloc
import warnings

import numba
import numpy as np
import pytest
from cases import fit
from scipy import sparse
from sklearn.base import BaseEstimator

from skdpsco import (
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateLogisticRegression,
    PrivateRidge,
    RowBlocks,
)
from skdpsco._validation import check_target, check_X_y
from skdpsco.data.block_records import BlockRecords
from skdpsco.data.design import Dense, as_design
from skdpsco.data.pieces import (
    FAN_IN,
    LEAST_ROWS,
    PIECE_ROWS,
    PIECE_WORK,
    pieces,
    sum_in_batches,
    work,
)
from skdpsco.data.record_sums import BlockDesign, in_pieces, map_reduce, without_gil
from skdpsco.losses import Logistic, Squared
from skdpsco.privacy._cache import forget_all
from skdpsco.scaling import column_scales as _scales
from skdpsco.scaling import quantiles as _quantiles
from skdpsco.solvers import PhasedSGD
from skdpsco.solvers.gradient_sums import clipped_gradient_sum, gradient_sum
from skdpsco.solvers.l1 import frank_wolfe, vertex_path
from skdpsco.solvers.penalized import gradient_descent
from skdpsco.solvers.penalized.sgd import SGD

RNG = np.random.default_rng(0)
N = PIECE_ROWS + 5001
X = RNG.uniform(-1.0, 1.0, (N, 3))
Y = 2.0 * X[:, 0] - X[:, 2] + 0.1 * RNG.normal(size=N)
LABELS = np.where(Y > 0.0, "yes", "no")


def threads(monkeypatch, count):
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", count)


def matrix(n, d, density, seed=0):
    rng = np.random.default_rng(seed)  # a legacy seed would permute all cells
    return sparse.random(n, d, density=density, format="csr", random_state=rng)


# ------------------------------------------------------------------------------ pieces


@pytest.mark.parametrize(
    "A",
    [
        X,
        np.zeros((5000, 2000), dtype=np.float32),
        np.zeros((10, 3)),
        matrix(9000, 300, 0.2),
        matrix(3 * PIECE_ROWS, 4, 0.3),
        matrix(3000, 4, 0.0),
        matrix(2000, 50_000, 0.001),
    ],
    ids=["long", "wide", "small", "csr", "long csr", "empty csr", "wide csr"],
)
def test_pieces_are_all_records_in_order(A):
    n, d = A.shape
    design, y = as_design(A, np.ones(d), True), np.arange(float(n))
    found = pieces(design, y)
    np.testing.assert_array_equal(np.concatenate([part for _, part in found]), y)
    sizes = [len(part) for _, part in found]
    assert max(sizes) <= PIECE_ROWS
    assert len(sizes) == 1 or min(sizes[:-1]) >= LEAST_ROWS
    if isinstance(design, Dense):
        np.testing.assert_array_equal(np.concatenate([p.values for p, _ in found]), A)
        assert all(np.shares_memory(p.values, A) for p, _ in found)
        assert all(work(p) <= 2 * PIECE_WORK for p, _ in found)
    else:
        rows = [
            sparse.csr_matrix((p.data, p.indices, p.indptr), shape=(len(part), d))
            for p, part in found
        ]
        assert (sparse.vstack(rows) != A).nnz == 0
        assert len(found) == 1 or all(np.shares_memory(p.data, A.data) for p, _ in found)
        # The sums of all pieces take no more than an eighth of the time that the entries take.
        assert len(found) == 1 or len(found) * 8 * d <= 2 * A.nnz or max(sizes) == PIECE_ROWS


@pytest.mark.parametrize("shape", [(9000, 300), (2 * PIECE_ROWS, 4), (4000, 2000)])
def test_neighbours_are_cut_at_the_same_records(shape):
    """A record may have as many entries as all others: if cuts moved, so would predictions."""
    (n, d), found = shape, set()
    for density in (0.0, 0.01, 0.5):
        design = as_design(matrix(n, d, density), np.ones(d), False)
        sizes = tuple(len(part) for _, part in pieces(design, np.zeros(n)))
        found.add((type(in_pieces(design, np.zeros(n))), sizes))
    assert len(found) == 1
    assert len(sizes) > 1


class Term:
    """A number that counts in how many additions it has taken part."""

    def __init__(self, depth=0):
        self.depth = depth

    def __add__(self, other):
        return Term(max(self.depth, other.depth) + 1)


def one_term(A, some):
    return np.array([Term()])


def test_few_terms_are_added_one_after_the_other(monkeypatch):
    """Were there more than 2**26 records: more than 1024 blocks of the largest size."""
    monkeypatch.setattr("skdpsco.data.pieces.GATHERED_ROWS", 2)
    y = np.zeros(4 * FAN_IN**2)
    X = as_design(np.zeros((len(y), 1)), np.ones(1), False)
    total = sum_in_batches(X, y, np.array([0]), one_term)
    assert total[0].depth <= 2 * (FAN_IN - 1) + 1


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("loss", [Logistic(), Squared(0.5)])
def test_sums_are_those_of_the_whole_whatever_the_number_of_threads(layout, loss, monkeypatch):
    design, y = as_design(layout(X), np.array([1.0, 0.5, 0.1]), True), np.sign(Y)
    design_in_pieces, w = in_pieces(design, y), np.array([1.0, -2.0, 0.3, 0.1])
    for function, arguments in (
        (gradient_sum, (loss, w, 0.4)),
        (clipped_gradient_sum, (loss, w, np.array([0.3, 1.0, 2.0, 1.0]), 0.5)),
    ):
        whole = function(design, y, *arguments)
        found = []
        for count in (1, 2, 7):
            threads(monkeypatch, count)
            found.append(map_reduce(design_in_pieces, y, function, *arguments))
        np.testing.assert_allclose(found[0], whole, rtol=1e-11)
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[0], found[2])


def test_pieces_are_summed_up_by_as_many_threads_as_numba_has(monkeypatch):
    y = np.zeros(4 * PIECE_ROWS)

    @without_gil
    def who(design, y):
        barrier.wait(timeout=60)  # nobody goes on before all have come
        seen.add(threading.current_thread())
        return np.array([1.0])

    for count in (1, 2, 4):
        threads(monkeypatch, count)
        barrier = threading.Barrier(count)
        design = in_pieces(as_design(y[:, None], np.ones(1), False), y)
        seen = set()
        for _ in range(3):
            assert map_reduce(design, None, who) == 4.0
        assert len(seen) == count  # threads are started once


@without_gil
def warn(design, y):
    np.exp(np.full(1, 1e3))
    return np.ones(1)


@without_gil
def fail(design, y):
    raise ValueError("what is wrong")


def test_threads_do_not_warn_and_their_errors_arrive(monkeypatch):
    design = in_pieces(as_design(X, np.ones(3), False), Y)
    threads(monkeypatch, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        map_reduce(design, Y, warn)
    with pytest.raises(ValueError, match="what is wrong"):
        map_reduce(design, Y, fail)


# ------------------------------------------------------------------------------ rounding


def test_blocks_of_any_size_keep_to_the_error():
    y = np.full(2**23, 0.1)
    blocks = RowBlocks.from_arrays(y.reshape(-1, 1), y, block_size=len(y))
    sizes = []

    def size(design, y):
        sizes.append(len(y))
        return np.ones(1)

    design = BlockRecords(blocks, check_target).open(np.ones(1), False)
    assert map_reduce(design, None, size) == len(sizes)
    assert sum(sizes) == len(y)
    assert max(sizes) <= PIECE_ROWS


# ------------------------------------------------------------------------------ fits


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (PrivateLasso(solver="frank-wolfe", radius=3.0, n_iter=4), Y),
        (PrivateLasso(solver="noisy-frank-wolfe", radius=3.0, n_iter=4), Y),
        (PrivateLasso(n_iter=4, feature_bound=1.0), Y),
        (PrivateLasso(feature_bound=1.0), Y),
        (PrivateRidge(solver="gradient-descent", n_iter=4, feature_bound=1.0), Y),
        (PrivateLogisticRegression(classes=["no", "yes"], feature_bound=1.0), LABELS),
        (PrivateRidge(solver="sgd", n_iter=3, random_state=0), Y),
    ],
    ids=["fw", "noisy-fw", "path", "stagewise", "gd", "logistic", "sgd"],
)
def test_fits_do_not_depend_on_threads(model, y, monkeypatch):
    found = []
    for count in (1, 3):
        threads(monkeypatch, count)
        found.append(fit(model, X, y).coef_.ravel())
    np.testing.assert_array_equal(*found)
    if model.get_params().get("solver") != "sgd":
        # Only some of so many records are counted in an array, but all in blocks.
        monkeypatch.setattr(_quantiles, "LEAST_READ", len(Y))
        forget_all()
        whole = fit(model, X, y).coef_.ravel()
        blocks = fit(model, RowBlocks.from_arrays(X, y, block_size=50_000))
        np.testing.assert_allclose(blocks.coef_.ravel(), whole, rtol=1e-9, atol=1e-9)
        forget_all()
    target = Y if y is Y else np.sign(Y)
    assert np.corrcoef(X @ found[0], target)[0, 1] > 0.4


SUMS = {
    "frank-wolfe": (vertex_path,),
    "noisy-frank-wolfe": (frank_wolfe,),
    "stagewise": (vertex_path, gradient_descent, _scales),
    "gradient-descent": (gradient_descent, _scales),
    "sgd": (gradient_descent, _scales),
    "coordinate-descent": (_scales,),
}


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize(
    ("model", "y"),
    [
        (PrivateLasso(solver="frank-wolfe", radius=3.0, n_iter=2), Y),
        (PrivateLasso(solver="noisy-frank-wolfe", radius=3.0, n_iter=2), Y),
        (PrivateLasso(n_iter=2), Y),
        (PrivateRidge(solver="gradient-descent", n_iter=2), Y),
        (PrivateRidge(solver=SGD(batch_size=N - 300), n_iter=2, delta=1e-6, target_bound=3.0), Y),
        (PrivateRidge(solver="coordinate-descent", n_iter=2), Y),
    ],
    ids=list(SUMS),
)
def test_nobody_adds_up_more_records_than_are_charged(model, y, layout, monkeypatch, request):
    """Solvers that charge `sum_error` cut their records before they call `map_reduce`."""
    name = request.node.callspec.id.rsplit("-", 1)[0]
    seen = []

    def look(X, y, *arguments):
        assert isinstance(X, BlockDesign) or len(y) <= PIECE_ROWS or sparse.issparse(X)
        seen.append(X)
        return map_reduce(X, y, *arguments)

    for module in SUMS[name]:
        monkeypatch.setattr(module, "map_reduce", look)
    fit(model, layout(X), y)
    assert seen


# ------------------------------------------------------------------------------ float32


BOTH_LAYOUTS = [PrivateLasso(), PrivateRidge(solver="gradient-descent", n_iter=4)]
SINGLE = [
    *BOTH_LAYOUTS,
    PrivateLasso(n_iter=4),
    PrivateLasso(solver="anytime-mirror-descent", radius=3.0),
    PrivateRidge(solver="coordinate-descent", feature_bound=None),
    PrivateLinearRegressor(radius=3.0, target_bound=3.0),
]


@pytest.mark.parametrize(
    ("layout", "centred", "model"),
    # All solvers read sparse and conditioned features by the same code, so that two stand for all.
    [
        *((np.asarray, False, model) for model in SINGLE),
        *((np.asarray, True, model) for model in BOTH_LAYOUTS),
        *((sparse.csr_matrix, False, model) for model in BOTH_LAYOUTS),
        *((sparse.csr_matrix, True, model) for model in BOTH_LAYOUTS),
    ],
    ids=lambda m: str(m.solver) if isinstance(m, BaseEstimator) else None,
)
def test_single_precision_is_read_as_it_is(layout, centred, model, request):
    if not centred:
        request.getfixturevalue("as_they_are")
    tolerance = 1e-7 if centred else 1e-9  # centred features are rounded
    some, y = layout(X[:2000].astype(np.float32)), Y[:2000]
    single = fit(model, some, y)
    coef, predictions = single.coef_.copy(), single.predict(some)
    double = fit(model, some.astype(np.float64), y)
    np.testing.assert_allclose(coef, double.coef_, rtol=tolerance, atol=tolerance)
    assert coef.dtype == np.float64
    expected = double.predict(some.astype(np.float64))
    nearly_0 = tolerance if centred else 0.0
    np.testing.assert_allclose(predictions, expected, rtol=1e-4, atol=nearly_0)


@pytest.mark.parametrize("centred", [False, True])
def test_single_precision_is_not_copied(centred, request):
    if not centred:
        request.getfixturevalue("as_they_are")
    n, d = 99_000, 50
    single = RNG.uniform(-1.0, 1.0, (n, d)).astype(np.float32)
    y = single[:, 0] * 2.0
    labels = np.where(y > 0.0, 1, -1)
    # Centred features are a copy in single precision.
    copy, most = 8 * n * d, 0.7 if centred else 0.4
    for model, target in (
        (PrivateLasso(solver="frank-wolfe", radius=3.0, n_iter=4), y),
        (PrivateLasso(radius=3.0), y),
        (PrivateLogisticRegression(classes=[-1, 1], solver="gradient-descent"), labels),
        (PrivateLinearClassifier(classes=[-1, 1]), labels),
    ):
        fit(model, single, target).predict(single)  # compiles
        tracemalloc.start()
        fit(model, single, target).predict(single)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < most * copy, (model, peak / copy)


@pytest.mark.usefixtures("as_they_are")
def test_blocks_of_single_precision():
    single = X[:4000].astype(np.float32)
    # Sparse features are not centred, and centred ones are rounded to single precision.
    model = PrivateLasso(n_iter=4)
    expected = fit(model, single.astype(np.float64), Y[:4000]).coef_.copy()
    for given in (single, sparse.csr_matrix(single)):
        blocks = RowBlocks.from_arrays(given, Y[:4000], block_size=1500)
        np.testing.assert_allclose(fit(model, blocks).coef_, expected, rtol=1e-9, atol=1e-9)


def test_memory_maps_are_read_where_they_are(tmp_path, monkeypatch):
    """The memory that a solver reads is that of the file, and checks take no copy."""
    wide = np.tile(X[:20_000], (1, 16))
    np.save(tmp_path / "X.npy", wide)
    mapped, seen = np.load(tmp_path / "X.npy", mmap_mode="r"), []
    run = PhasedSGD.run

    def look(self, plan, problem, design, *arguments):
        seen.append(np.shares_memory(design.values, mapped))
        return run(self, plan, problem, design, *arguments)

    monkeypatch.setattr(PhasedSGD, "run", look)
    params = {"solver": PhasedSGD(), "feature_bound": 1.0}
    for model, y in (
        (PrivateLinearRegressor(target_bound=3.0, radius=1.0, **params), Y[:20_000]),
        (PrivateLinearClassifier(**params), LABELS[:20_000]),
    ):
        expected = fit(model, wide, y).coef_
        np.testing.assert_array_equal(fit(model, mapped, y).coef_, expected)
    assert seen == [False, True] * 2
    tracemalloc.start()
    check_X_y(model, mapped, Y[:20_000], y_numeric=True)
    assert tracemalloc.get_traced_memory()[1] < 0.1 * mapped.nbytes
    tracemalloc.stop()
