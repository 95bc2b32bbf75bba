"""Fits on Dask: by local threads and on a cluster, whose workers may die."""

import contextlib
import itertools
import os
import time

import joblib
import numpy as np
import pytest
from cases import fit
from scipy import sparse
from sklearn.base import clone

from skdpsco import (
    Ledger,
    PrivacyWarning,
    PrivateGridSearchCV,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateLogisticL1,
    PrivateMinimaxRegressor,
    PrivateRidge,
    RowBlocks,
)
from skdpsco._validation import check_target
from skdpsco.data.block_records import BlockRecords
from skdpsco.data.pieces import FAN_IN
from skdpsco.data.record_sums import map_reduce
from skdpsco.solvers import PhasedSGD, TreeFrankWolfe

dask = pytest.importorskip("dask", reason="needs the extra dask")
da = pytest.importorskip("dask.array", reason="needs the extra dask")
distributed = pytest.importorskip("distributed", reason="needs the extra dask")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")
pd = pytest.importorskip("pandas", reason="needs pandas")
module = pytest.importorskip("skdpsco.data.dask_blocks", reason="needs the extra dask")

N, D = 1200, 6
RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (N, D))
Y = 2.0 * X[:, 0] - X[:, 3] + 0.1 * RNG.normal(size=N)
LABELS = np.where(Y > 0.0, "yes", "no")
FRAME = pd.DataFrame(X, columns=list("abcdef"))


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes, shared by the tests of this file.

    A worker that was killed is replaced, however long a busy machine takes to start a process.
    """
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(params=["threads", "cluster"])
def anywhere(request):
    """With and without a client."""
    if request.param == "threads":
        yield None
        return
    client = request.getfixturevalue("cluster")
    with client.as_current():
        yield client


def same(model, *data, y=Y):
    expected, found = fit(model, X, y), fit(model, *data)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=1e-9, atol=1e-9)
    return found


def total(X, y, w):
    """A sum that rounding would show in; the last entry counts records."""
    return np.append((np.clip(X.values, -1, 1) @ w * y) @ X.values, len(y))


def opened(blocks):
    return BlockRecords(blocks, check_target).open(np.ones(D), False)


CHANGED = r"Block \d of X: it is not what it was"


def ends(model, *data, charges=0, match=CHANGED, error=ValueError):
    """The fit fails after so many charges, and releases nothing."""
    ledger = Ledger(epsilon=5.0, delta=1e-5)
    model = clone(model).set_params(ledger=ledger, delta=1e-6)
    with pytest.raises(error, match=match):
        model.fit(*data)
    assert len(ledger.history()) == charges
    assert not hasattr(model, "coef_")


def kill(client, workers):
    """End these processes."""
    pids = set(client.run(os.getpid, workers=workers).values())
    for pid in pids:
        os.kill(pid, 9)
    return pids


def before_sum(monkeypatch, number, happens):
    """Call ``happens`` before that sum on the cluster; return the list of all sums."""
    original, sums = module.ClusterBlocks.sum, []

    def spy(self, task):
        sums.append(task)
        if len(sums) == number:
            happens()
        return original(self, task)

    monkeypatch.setattr(module.ClusterBlocks, "sum", spy)
    return sums


def test_arrays(anywhere):
    arrays = da.from_array(X, chunks=(250, 4)), da.from_array(Y, chunks=400)
    same(PrivateLasso(n_iter=3), *arrays)
    same(PrivateLasso(n_iter=3), arrays[0], Y)
    same(PrivateRidge(), RowBlocks.from_dask(*arrays, block_size=500))
    labels = da.from_array(LABELS, chunks=300)
    same(PrivateLogisticL1(classes=["no", "yes"], n_iter=3), arrays[0], labels, y=LABELS)
    same(PrivateLinearRegressor(solver=PhasedSGD(shuffle=False)), *arrays)
    solver = TreeFrankWolfe(shuffle=False)
    model = PrivateLinearClassifier(classes=["no", "yes"], solver=solver)
    same(model, arrays[0], labels, y=LABELS)


def test_frames(anywhere):
    frame = dd.from_pandas(FRAME.assign(target=Y), npartitions=5)
    blocks = RowBlocks.from_dask(frame, target="target", n_samples=N, block_size=300)
    found = same(PrivateLasso(n_iter=3), blocks)
    assert found.feature_names_in_.tolist() == list("abcdef")
    apart = frame.drop(columns="target"), frame["target"]
    same(PrivateLasso(n_iter=3), RowBlocks.from_dask(*apart, n_samples=N))
    same(PrivateLasso(n_iter=3), apart[0].to_dask_array(lengths=True), Y)


@pytest.mark.parametrize("n_blocks", [5, 150])
def test_sums_are_those_of_one_process_to_the_last_bit(anywhere, n_blocks):
    size = N // n_blocks
    w = 0.1 * np.arange(1.0, D + 1)
    arrays = da.from_array(X, chunks=(size, -1)), da.from_array(Y, chunks=size)
    assert n_blocks < FAN_IN or n_blocks > 2 * FAN_IN
    results = []
    for blocks in (
        RowBlocks.from_arrays(X, Y, block_size=size),
        RowBlocks.from_dask(*arrays, block_size=size),
    ):
        design = opened(blocks)
        results.append(map_reduce(design, None, total, w))
        design.close()
    assert np.array_equal(*results)
    assert results[0][-1] == N


def test_a_thread_gets_one_task_for_its_blocks(cluster):
    """Sums are the same to the last bit, whichever worker computes them."""
    w = 0.1 * np.arange(1.0, D + 1)
    with cluster.as_current():
        blocks = RowBlocks.from_dask(da.from_array(X, chunks=(100, -1)), Y, block_size=100)
        design = opened(blocks)
        sums = []
        for groups in ([], [[3, 0], [*range(4, 12), 2, 1]], [list(range(12))]):
            design.blocks._groups = groups
            sums.append(map_reduce(design, None, total, w))
        design.blocks._threads = {"tcp://127.0.0.1:1": 1}  # which is not there any more
        sums.append(map_reduce(design, None, total, w))
        assert design.blocks._threads == cluster.nthreads()
        design.close()
    assert all(np.array_equal(sums[0], other) for other in sums[1:])


def test_large_arguments_are_sent_once(cluster, monkeypatch):
    monkeypatch.setattr(module, "INLINE", 3)
    with cluster.as_current():
        for _ in range(2):  # the same values again
            same(PrivateLasso(n_iter=5), da.from_array(X, chunks=(400, -1)), Y)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: (da.from_array(X)[da.from_array(Y) > 0], None), ValueError, "compute_chunk_sizes"),
        (lambda: (dd.from_pandas(FRAME, npartitions=2), None), ValueError, "n_samples=..."),
        (lambda: (da.from_array(X), da.from_array(Y[1:])), ValueError, "the same length"),
        (lambda: (da.from_array(X), Y[1:]), ValueError, "one entry for each of 1200 records"),
        (
            lambda: (da.from_array(X), da.zeros((N, 2, 2))),
            ValueError,
            "y must have one dimension, or two",
        ),
        (lambda: (da.from_array(Y), Y), TypeError, "X must be a Dask array or data frame"),
    ],
)
def test_input(make, error, message):
    with pytest.raises(error, match=message):
        RowBlocks.from_dask(*make())


def test_a_declared_number_of_records_must_be_right(anywhere):
    frame = dd.from_pandas(FRAME.assign(target=Y), npartitions=3)
    blocks = RowBlocks.from_dask(frame, target="target", n_samples=N + 1)
    ends(PrivateLasso(), blocks, match=r"n_samples=1201 records were declared, but .* hold 1200")
    with pytest.raises(TypeError, match="n_samples must be None or an int"):
        RowBlocks.from_dask(frame, target="target", n_samples=2.0)
    with pytest.raises(ValueError, match="n_samples=7 was declared, but X has 1200 records"):
        RowBlocks.from_dask(da.from_array(X), Y, n_samples=7)


def test_mistakes_in_blocks_cost_nothing(anywhere):
    missing = X.copy()
    missing[700, 2] = np.nan
    missing = da.from_array(missing, chunks=(400, -1))
    liar = da.map_blocks(lambda x: x[:, :5], da.from_array(X, chunks=(400, -1)), meta=X[:0])
    for wrong, match in (
        (missing, "Block 1 of X: Input X contains NaN"),
        (liar, "Block 0 of X: it must have 6 columns"),
    ):
        ends(PrivateLasso(), RowBlocks.from_dask(wrong, Y, block_size=400), match=match)


def wait_until_dead(client, pids):
    """Wait for other workers to be there."""
    deadline = time.monotonic() + 300.0
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, KeyError):  # while they die
            now = set(client.run(os.getpid).values())
            if len(now) == 2 and not now & pids:
                return
        time.sleep(0.1)
    raise AssertionError("the workers have not been replaced")


def test_a_killed_worker_does_not_change_the_fit(cluster, monkeypatch):
    """Its blocks are read again, its sums taken again: deterministic, without noise."""
    expected = fit(PrivateLasso(n_iter=6), X, Y).coef_

    def happens():
        kill(cluster, [next(iter(cluster.scheduler_info()["workers"]))])

    sums = before_sum(monkeypatch, 4, happens)
    with cluster.as_current():
        found = fit(PrivateLasso(n_iter=6), da.from_array(X, chunks=(200, -1)), Y)
    assert len(sums) > 6
    assert np.array_equal(found.coef_, expected)


def permuted(seed=None):
    """Records in an order that is drawn anew whenever the graph is evaluated.

    With ``seed``, a file, the order follows from what is written there.
    """
    records = np.column_stack([X, Y])

    def draw():
        return np.random.default_rng(seed and int(seed.read_text())).permutation(N)

    def take(order, start):
        return records[order[start : start + 200]]

    order = dask.delayed(draw, pure=False)()
    take = dask.delayed(take, pure=False)
    pieces = [da.from_delayed(take(order, i), (200, D + 1), float) for i in range(0, N, 200)]
    whole = da.concatenate(pieces)
    return RowBlocks.from_dask(whole[:, :D], whole[:, D], block_size=200)


SEVERAL_PASSES = PrivateLasso(n_iter=4)
ONE_PASS = PrivateLinearRegressor(solver=PhasedSGD(shuffle=False))


@pytest.mark.parametrize("model", [SEVERAL_PASSES, ONE_PASS])
def test_a_graph_that_is_not_deterministic_costs_nothing(anywhere, model):
    ends(model, permuted(), match=CHANGED + ".*deterministic")


def test_models_of_arrays_do_not_compute_features_and_targets_apart():
    told = {"match": r"got a Dask Array.*X, y = dask.compute\(X, y\)", "error": TypeError}
    ends(PrivateMinimaxRegressor(), da.from_array(X), da.from_array(Y), **told)


def test_entries_of_a_sparse_row_may_come_in_any_order(anywhere):
    """It is the same matrix: what kernels see of it is compared."""
    matrix = sparse.csr_matrix(X * (X > 0.3))

    def mixed(start):
        part = matrix[start : start + 400]
        for i, j in itertools.pairwise(part.indptr):
            order = i + np.random.default_rng().permutation(j - i)
            part.indices[i:j], part.data[i:j] = part.indices[order], part.data[order]
        part.has_sorted_indices = False
        return part

    meta = sparse.csr_matrix((0, D))
    pieces = [
        da.from_delayed(dask.delayed(mixed, pure=False)(i), (400, D), meta=meta)
        for i in range(0, N, 400)
    ]
    blocks = RowBlocks.from_dask(da.concatenate(pieces), Y, block_size=400)
    assert blocks.sparse
    expected = fit(PrivateLasso(n_iter=3), matrix, Y)
    found = fit(PrivateLasso(n_iter=3), blocks)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9, atol=1e-9)


def test_targets_of_another_evaluation_are_refused(anywhere):
    """Features and targets that Dask computes apart may come in two orders."""
    frame = dd.from_pandas(FRAME.assign(target=Y), npartitions=4)
    frame = frame.map_partitions(lambda part: part.sample(frac=1.0))
    apart = frame.drop(columns="target"), frame["target"]
    with pytest.raises(ValueError, match="it is not what it was"):
        PrivateLasso(n_iter=3).fit(RowBlocks.from_dask(*apart, n_samples=N))


@pytest.mark.parametrize("model", [SEVERAL_PASSES, ONE_PASS])
def test_a_graph_that_changes_during_the_fit_ends_it(tmp_path, monkeypatch, model):
    """The data of every pass are those that were checked: there is no release otherwise."""
    seed = tmp_path / "seed"
    seed.write_text("0")
    charge = Ledger.charge

    def change(self, *arguments, **options):
        seed.write_text("1")
        return charge(self, *arguments, **options)

    monkeypatch.setattr(Ledger, "charge", change)
    ends(model, permuted(seed), charges=1)


def test_blocks_of_a_killed_worker_that_are_made_otherwise_end_the_fit(
    cluster, monkeypatch, tmp_path
):
    """Blocks of two evaluations would hold some records twice."""
    seed = tmp_path / "seed"
    seed.write_text("0")

    def happens():
        seed.write_text("1")
        address = next(iter(cluster.scheduler_info()["workers"]))
        wait_until_dead(cluster, kill(cluster, [address]))

    sums = before_sum(monkeypatch, 4, happens)
    with cluster.as_current():
        ends(PrivateLasso(n_iter=6), permuted(seed), charges=1)
    assert len(sums) == 4


@pytest.mark.parametrize("model", [SEVERAL_PASSES, ONE_PASS])
def test_a_pass_that_mixes_two_evaluations_costs_nothing(model):
    """A worker may be lost while blocks are checked, when nothing was compared before."""
    records, orders = np.column_stack([X, Y]), [np.arange(N), np.arange(N)[::-1]]
    taken = []

    def take(start):
        taken.append(start)
        return records[orders[len(taken) > 3][start : start + 200]]

    take = dask.delayed(take, pure=False)
    pieces = [da.from_delayed(take(i), (200, D + 1), float) for i in range(0, N, 200)]
    whole = da.concatenate(pieces)
    blocks = RowBlocks.from_dask(whole[:, :D], whole[:, D], block_size=200)
    with dask.config.set(scheduler="synchronous"):
        ends(model, blocks)


def test_targets_beside_blocks(anywhere):
    blocks = RowBlocks.from_dask(da.from_array(X, chunks=(400, -1)))
    expected = fit(PrivateLasso(n_iter=3), X, Y).coef_
    assert np.array_equal(fit(PrivateLasso(n_iter=3), blocks, Y).coef_, expected)
    with pytest.raises(TypeError, match="Pass a Dask y with its X"):
        blocks.with_target(da.from_array(Y))


@pytest.mark.parametrize("evaluations", [1, 2])
def test_blocks_that_are_made_anew_keep_their_sizes(evaluations):
    """Sizes are kept even if unknown: the number of records is fixed before the charge."""
    times = [0, 0, 0]

    def grow(array):
        times[array.ndim] += 1
        return array[: 601 + (times[array.ndim] > evaluations)]

    features = da.from_delayed(dask.delayed(grow)(X), (np.nan, D), float)
    targets = da.from_delayed(dask.delayed(grow)(Y), (np.nan,), float)
    blocks = RowBlocks.from_dask(features, targets, n_samples=601)
    with dask.config.set(scheduler="synchronous"):
        ends(PrivateLasso(n_iter=3), blocks, charges=evaluations - 1)


def test_data_that_are_lost_for_good_end_the_fit_and_keep_the_charge(cluster, monkeypatch):
    """Data that were sent to one worker cannot be recomputed."""
    with cluster.as_current():
        futures = cluster.scatter([X[:600], X[600:]])
        cluster.gather([cluster.submit(len, f) for f in futures])
        pieces = [da.from_delayed(f, (600, D), float) for f in futures]
        data = da.concatenate(pieces)
        before_sum(monkeypatch, 2, lambda: wait_until_dead(cluster, kill(cluster, None)))
        lost = {"match": r"lost|[Cc]ancelled", "error": Exception}
        ends(PrivateLasso(n_iter=5), data, Y, charges=1, **lost)


def test_a_search_runs_on_workers(cluster):
    """Candidates are fitted on joblib's Dask backend; see test_model_selection.py for loky."""
    search = PrivateGridSearchCV(
        PrivateLasso(n_iter=3), {"radius": [1.0, 3.0]}, epsilon=5.0, n_jobs=2, random_state=0
    )
    results = []
    for backend in ("threading", "dask"):
        with cluster.as_current(), joblib.parallel_config(backend=backend):
            with pytest.warns(PrivacyWarning, match="random_state"):
                results.append(clone(search).fit(X, Y))
    assert results[0].best_params_ == results[1].best_params_
    assert np.array_equal(results[0].best_estimator_.coef_, results[1].best_estimator_.coef_)


def test_nothing_stays_on_the_cluster(cluster, monkeypatch):
    """Blocks and sums are deleted; while they exist, they do not show their values."""
    shown = []
    original = module.ClusterBlocks.sum

    def look(self, task):
        shown.extend(repr(f) + str(f.key) for f in self._blocks)
        return original(self, task)

    monkeypatch.setattr(module.ClusterBlocks, "sum", look)
    with cluster.as_current():
        fit(PrivateLasso(n_iter=3), da.from_array(X, chunks=(400, -1)), Y)
    assert shown
    assert not any(f"{X[0, 0]:.4f}" in text for text in shown)
    deadline = time.monotonic() + 30.0
    while any(cluster.has_what().values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(cluster.has_what().values())
