"""
Cost of a fit against the size of the data
==========================================

What one pass over the data costs, in memory, out of core and on workers::

    python examples/benchmarks/scale.py [--only workers] [--share 0.1] [--plot scale.png]

"step": one step of Frank-Wolfe with Gaussian noise, a whole gradient, on 1e6 x 100 records in
memory, over the time of ``X.sum()``; the same in float32; and for 500,000 sparse rows of 75 entries
in 10,000 columns, some of them far more frequent than others, over the time that their bytes take
at the rate of ``X.sum()``; by all threads, and by one. Targets: 1.3, and 2 for sparse rows.

"n": seconds of a fit of `PrivateLasso` by 20 steps of Frank-Wolfe, for 1e4 to 1e7 records of 20
columns in a file: as an array in memory, as a memmap, and as `RowBlocks` of it.

"d" and "nnz": the same for 1e2 to 1e6 columns, sparse rows of 20 entries, and for 5 to 320 entries
per row of 10,000 columns, in memory and in blocks.

"workers": 100 steps on 1e6 x 100 records in 8 blocks: in this process, in joblib's threads, on
`dask.distributed.LocalCluster(n_workers=2)`. Targets: the cluster takes at most 1.25 times the time
of this process, and no coefficient differs by more than 1e-9.

"memory": a memmap 4 times as large as the memory that a child process may allocate (RLIMIT_DATA).
Targets: it is fitted, in at most 1.5 times the time of the same blocks in memory, with at most
1.2 times the bytes of a block in memory beyond what the process takes without data. (A fit to an
array reads about half as much: it keeps its predictions, and adds one column to them.)

Run it with OMP_NUM_THREADS=1 on a machine that has nothing else to do.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numba
import numpy as np
from scipy import sparse

from skdpsco import PrivacyWarning, PrivateLasso, RowBlocks

STEPS = 20
BLOCK = 2**26  # bytes
PASSES = STEPS + 4  # the check of the blocks, and the private centre and scale of the target


def model(n_iter=STEPS):
    """A fit whose number of passes is known."""
    return PrivateLasso(solver="frank-wolfe", radius=3.0, n_iter=n_iter, random_state=0)


def seconds(*data, n_iter=STEPS, repetitions=2):
    """Least time of a fit, and its coefficients."""
    best = np.inf
    for _ in range(repetitions):
        start = time.perf_counter()
        coef = model(n_iter).fit(*data).coef_
        best = min(best, time.perf_counter() - start)
    return best, coef


def seconds_of_a_step(X, y, n_threads):
    """Time of a longer fit minus that of a shorter one, divided by the difference in steps."""
    numba.config.NUMBA_NUM_THREADS = n_threads
    times = {}
    for _ in range(5):  # in turn, the least of five
        for n_iter in (2, 22):
            start = time.perf_counter()
            private = PrivateLasso(
                solver="noisy-frank-wolfe", radius=3.0, target_bound=3.0, n_iter=n_iter
            )
            private.fit(X, y)
            times[n_iter] = min(times.get(n_iter, np.inf), time.perf_counter() - start)
    return (times[22] - times[2]) / 20


def step(arguments, folder):
    n, d = round(10**6 * arguments.share), 100
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n, d))
    y = X[:, 0] - X[:, 3]

    def sum_seconds():
        start = time.perf_counter()
        X.sum()
        return time.perf_counter() - start

    read = min(sum_seconds() for _ in range(10))
    cores = numba.config.NUMBA_NUM_THREADS
    print(f"\n{n} x {d}: X.sum() takes {read:.4f} s, {X.nbytes / read / 1e9:.1f} GB/s, on one core")
    alone = seconds_of_a_step(X, y, 1)
    missed = report(
        f"a step over X.sum(), {cores} threads", seconds_of_a_step(X, y, cores) / read, 1.3
    )
    report("a step over X.sum(), one thread", alone / read)
    single = X.astype(np.float32)
    report(f"in float32, {cores} threads", seconds_of_a_step(single, y, cores) / read)
    m, wide, per_row = round(500_000 * arguments.share), 10_000, 75
    indices = np.sort((wide * rng.random((m, per_row)) ** 3).astype(np.int32), axis=1).ravel()
    starts = np.arange(0, m * per_row + 1, per_row, dtype=np.int32)
    data = rng.uniform(-1.0, 1.0, m * per_row)
    S = sparse.csr_matrix((data, indices, starts), shape=(m, wide))
    S.sum_duplicates()
    bytes_ = S.data.nbytes + S.indices.nbytes + S.indptr.nbytes
    least = bytes_ / X.nbytes * read
    t = np.asarray(S[:, 0].todense()).ravel()
    parts = [(cores, seconds_of_a_step(S, t, cores)), (1, seconds_of_a_step(S, t, 1))]
    numba.config.NUMBA_NUM_THREADS = cores
    for count, value in parts:
        name = f"a step on sparse rows over their bytes, {count} thread{'s' * (count > 1)}"
        missed += report(name, value / least, 2.0 if count == cores else None)
    return missed


def write(folder, n, d, seed=0):
    """Records in files: X and a target that follows two columns."""
    rng = np.random.default_rng(seed)
    X = np.lib.format.open_memmap(folder / f"X{n}.npy", "w+", float, (n, d))
    y = np.lib.format.open_memmap(folder / f"y{n}.npy", "w+", float, (n,))
    for start in range(0, n, 100_000):
        stop = min(start + 100_000, n)
        X[start:stop] = rng.uniform(-1.0, 1.0, (stop - start, d))
        y[start:stop] = 2.0 * X[start:stop, 0] - X[start:stop, 3] + rng.normal(size=stop - start)
    X.flush()
    y.flush()
    os.sync()  # nothing is written while time is taken
    return folder / f"X{n}.npy", folder / f"y{n}.npy"


def report(label, value, target=None):
    """Print a measurement beside its target; whether it was missed."""
    missed = target is not None and not value <= target
    wanted = "" if target is None else f"   target <= {target:g}{'   MISSED' if missed else ''}"
    print(f"{label:<58}{value:>11.4g}{wanted}", flush=True)
    return int(missed)


def against_n(arguments, folder):
    print(f"\n{'n':>9} {'array [s]':>10} {'memmap':>9} {'blocks':>9}   GB/s per pass in blocks")
    for n in (10**4, 10**5, 10**6, 10**7):
        n = round(n * arguments.share)
        files = write(folder, n, 20)
        mapped = [np.load(file, mmap_mode="r") for file in files]
        held, _ = seconds(*(np.array(a) for a in mapped)) if n <= 2e6 else (np.nan, None)
        whole, coef = seconds(*mapped)
        cut, same = seconds(RowBlocks.from_arrays(*mapped))
        rate = n * 160 * PASSES / cut / 1e9
        print(f"{n:>9} {held:>10.3f} {whole:>9.3f} {cut:>9.3f}   {rate:.2f}", flush=True)
        assert np.abs(coef - same).max() < 1e-9
        arguments.points.append(("records", n, cut))
        for file in files:
            file.unlink()
    return 0


def sparse_rows(n, d, per_row):
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(0, d, (n, per_row)), axis=1).ravel()
    data = rng.uniform(-1.0, 1.0, n * per_row)
    X = sparse.csr_matrix((data, indices, np.arange(0, n * per_row + 1, per_row)), shape=(n, d))
    X.sum_duplicates()
    return X, np.asarray(X[:, 0].todense()).ravel() + 0.1 * rng.normal(size=n)


def against_shape(arguments, name, cases):
    print(f"\n{name:>9} {'matrix [s]':>10} {'blocks':>9}")
    n = round(50_000 * arguments.share)
    for d, per_row in cases:
        X, y = sparse_rows(n, d, per_row)
        whole, coef = seconds(X, y)
        cut, same = seconds(RowBlocks.from_arrays(X, y, block_size=max(1, n // 8)))
        assert np.abs(coef - same).max() < 1e-9
        size = d if name == "d" else per_row
        print(f"{size:>9} {whole:>10.3f} {cut:>9.3f}", flush=True)
        arguments.points.append(("columns" if name == "d" else "entries per row", size, cut))
    return 0


def against_d(arguments, folder):
    return against_shape(arguments, "d", [(d, 20) for d in (10**2, 10**3, 10**4, 10**5, 10**6)])


def against_nnz(arguments, folder):
    return against_shape(arguments, "nnz", [(10_000, k) for k in (5, 20, 80, 320)])


def workers(arguments, folder):
    import dask
    import dask.array as da
    from distributed import Client, LocalCluster

    n, d = round(10**6 * arguments.share), 100
    files = write(folder, n, d)
    X, y = (np.load(file) for file in files)
    size = -(-n // 8)
    print(f"\n{n} x {d} in 8 blocks")
    alone, coef = seconds(RowBlocks.from_arrays(X, y, block_size=size), n_iter=100)
    report("one process [s]", alone)
    threads, same = seconds(RowBlocks.from_arrays(X, y, block_size=size, n_jobs=2), n_iter=100)
    report("two threads of joblib [s]", threads)
    assert np.array_equal(coef, same)
    load = dask.delayed(lambda start: np.load(files[0], mmap_mode="r")[start : start + size])
    parts = [da.from_delayed(load(start), (size, d), float) for start in range(0, n, size)]
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        with Client(cluster):
            blocks = RowBlocks.from_dask(da.concatenate(parts), y, block_size=size)
            together, same = seconds(blocks, n_iter=100)
    report("LocalCluster(n_workers=2) [s]", together)
    for name, value in (("1 thread", alone), ("2 threads", threads), ("2 workers", together)):
        arguments.points.append(("100 steps on 8 blocks", name, value))
    missed = report("the same over that of one process", together / alone, 1.25)
    return missed + report("largest difference of a coefficient", np.abs(coef - same).max(), 1e-9)


def child(path_X, path_y, limit, rows):
    """Fit to files under a limit of allocated memory; print seconds and peak resident bytes."""
    data = [np.load(path, mmap_mode="r") for path in (path_X, path_y)]
    some = [a[:20_000] for a in data]
    for few in ((RowBlocks.from_arrays(*some),), some, map(np.array, some)):
        model().fit(*few)  # loads what is compiled
    del few, some
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (status("VmData") + limit,) * 2)
    else:
        data = [np.array(a) for a in data]
    found = [seconds(RowBlocks.from_arrays(*data, block_size=rows), repetitions=6)[0]]
    if not limit:
        found.append(seconds(*data)[0])
    print(json.dumps([*found, status("VmHWM") - before]))


def status(name):
    """A number of bytes that Linux reports for this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name + ":")).split()[1])


def memory(arguments, folder):
    n, d = round(10**6 * arguments.share), 100
    files = write(folder, n, d)
    size = n * d * 8
    rows = min(BLOCK // (8 * d), n // 12)
    found = {}
    for limit in (0, size // 4):
        command = [sys.executable, __file__, "--child", *map(str, files), str(limit), str(rows)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found[limit > 0] = json.loads(output)
    print(f"\nmemmap of {size / 1e6:.0f} MB, {size / 4e6:.0f} MB of memory, blocks of {rows} rows")
    mapped, peak = found[True]
    held, array, _ = found[False]
    missed = report("time over that of the blocks in memory", mapped / held, 1.5)
    report("time over that of an array in memory", mapped / array)
    peak /= rows * d * 8
    return missed + report("peak memory over the bytes of a block", peak, 1.2)


def plot(points, path):
    """One panel for each quantity that was varied."""
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(name for name, _, _ in points))
    figure, axes = plt.subplots(1, len(names), figsize=(3.2 * len(names), 3.0), squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        x, times = zip(*[(x, t) for n, x, t in points if n == name], strict=True)
        if isinstance(x[0], str):
            axis.bar(x, times)
        else:
            axis.loglog(x, times, "o-")
        axis.set(xlabel=name, ylabel="fit in blocks [s]")
    figure.tight_layout()
    figure.savefig(path)


def main():
    if sys.argv[1:2] == ["--child"]:
        warnings.simplefilter("ignore", PrivacyWarning)
        return child(*sys.argv[2:4], *map(int, sys.argv[4:]))
    parts = {
        "step": step,
        "n": against_n,
        "d": against_d,
        "nnz": against_nnz,
        "workers": workers,
        "memory": memory,
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--only", choices=list(parts))
    parser.add_argument("--share", type=float, default=1.0, help="of the records")
    parser.add_argument("--plot", help="file for a plot")
    arguments = parser.parse_args()
    arguments.points = []
    # The noise is reproducible so that coefficients can be compared; the data are no secret.
    warnings.simplefilter("ignore", PrivacyWarning)
    start, missed = time.perf_counter(), 0
    for name, part in parts.items():
        if arguments.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                missed += part(arguments, Path(folder))
    if arguments.plot and arguments.points:
        plot(arguments.points, arguments.plot)
    print(f"{missed} targets missed. Took {time.perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main()
