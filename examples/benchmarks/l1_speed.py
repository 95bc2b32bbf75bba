"""
Speed and memory of the sparse linear models
============================================

Prints ratios that do not depend on the machine, beside their targets: the time of a fit against
scikit-learn's non-private fit of the same data in the same run, the CPU time of a first fit above
importing scikit-learn and Numba, and the memory of a fit above that of its input::

    python examples/benchmarks/l1_speed.py
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import _data
import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from skdpsco import PrivateLogisticL1

FIRST_FIT = """
import sys, time
import numpy as np
import numba, sklearn.linear_model
from scipy import sparse
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, ({n}, {d}))
y = X[:, :5].sum(axis=1) > 0
if {is_sparse}:
    X = sparse.csr_matrix(np.where(X > 0.5, X, 0.0))
start = time.process_time()
from skdpsco import PrivateLogisticL1
PrivateLogisticL1(classes=[False, True]).fit(X, y)
print(time.process_time() - start)
"""

PEAK = """
from pathlib import Path
import numpy as np
from scipy import sparse
from skdpsco import PrivateLogisticL1

def resident(name):
    line = next(x for x in Path("/proc/self/status").open() if x.startswith(name))
    return 1024 * int(line.split()[1])

rng = np.random.default_rng(0)
model = PrivateLogisticL1(classes=[False, True], **{options})
load = {{".npy": np.load, ".npz": sparse.load_npz}}[{path!r}[-4:]]
for path, n_iter in (({warm!r}, 5), ({path!r}, "auto")):
    X = load(path)
    model.set_params(n_iter=n_iter)  # with a number all kernels are loaded, however few the records
    y = rng.random(X.shape[0]) < 0.5
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    before = resident("VmRSS")
    model.fit(X, y)
size = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
print((resident("VmHWM") - before) / size)
"""


def best_times(*functions, repetitions=7):
    """Least wall times of functions that are called in turn, after one call that is not counted."""
    best = [np.inf] * len(functions)
    for repetition in range(repetitions + 1):
        for i, function in enumerate(functions):
            start = time.perf_counter()
            function()
            if repetition:
                best[i] = min(best[i], time.perf_counter() - start)
    return best


def report(name, value, target, note=""):
    """Print a line; a value that may be large has no target."""
    verdict = "" if target is None else "ok" if value <= target else "MISSED"
    print(f"{name:<60} {value:>7.3f} {target or '':>7} {verdict:<7}{note}", flush=True)


def in_new_process(code, cache=None):
    """The number that a fresh interpreter prints."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = cache
    output = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=Path(__file__).parent,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return float(output.stdout.split()[-1])


def dense():
    X, y, *_ = _data.planted_logistic(0, _data.GEOMETRIC, d=200)
    private = PrivateLogisticL1(classes=[False, True])
    ours, theirs = best_times(lambda: private.fit(X, y), lambda: LogisticRegression().fit(X, y))
    note = f"{ours:.3f} s against {theirs:.3f} s"
    report("dense 20000 x 200, time / LogisticRegression", ours / theirs, 1.0, note)


def csr():
    X, y = _data.text()
    private = PrivateLogisticL1(classes=[False, True])
    ours, theirs = best_times(lambda: private.fit(X, y), lambda: _data.l1_logistic().fit(X, y))
    report("text, default fit: seconds", ours, 0.5, f"{X.shape[0]} x {X.shape[1]}, {X.nnz} entries")
    note = f"{ours:.3f} s against {theirs:.3f} s"
    report("text, time / liblinear's l1 LogisticRegression", ours / theirs, 1.5, note)


def first_fit():
    """CPU seconds, of three processes each the median."""
    shapes = {
        "all coordinates, dense": (20_000, 20, False),
        "selection and refit, dense": (5000, 200, False),
        "selection and refit, CSR": (5000, 200, True),
    }
    for name, (n, d, is_sparse) in shapes.items():
        code = FIRST_FIT.format(n=n, d=d, is_sparse=is_sparse)
        cold, warm = [], []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as cache:
                cold.append(in_new_process(code, cache))
                warm.append(in_new_process(code, cache))
        report(f"first fit, cold cache, {name}: CPU s", statistics.median(cold), 3.0)
        report(f"first fit, warm cache, {name}: CPU s", statistics.median(warm), 0.5)


def memory():
    """Growth of the high-water mark of the resident set during a second fit, over the input."""
    if not Path("/proc/self/clear_refs").exists():
        print("Memory is measured on Linux only.")
        return
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        np.save(folder / "dense.npy", rng.uniform(-1, 1, (20_000, 2_000)))
        # narrow, so that the memory that it leaves behind is of little use to the second fit
        np.save(folder / "small.npy", rng.uniform(-1, 1, (500, 100)))
        X, _ = _data.text()
        sparse.save_npz(folder / "text.npz", X, compressed=False)
        sparse.save_npz(folder / "small.npz", X[:500, :100], compressed=False)
        for name, file, small in (
            ("dense 20000 x 2000", "dense.npy", "small.npy"),
            ("text", "text.npz", "small.npz"),
        ):
            for options in ({}, {"radius": 15.0}):
                code = PEAK.format(
                    options=options, path=str(folder / file), warm=str(folder / small)
                )
                what = f"memory above input / input, {name}, {options or 'defaults'}"
                report(what, in_new_process(code), 0.3)


def main():
    start = time.perf_counter()
    print(f"{'':<60} {'value':>7} {'target':>7}")
    for part in (dense, csr, first_fit, memory):
        part()
    print(f"Took {time.perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main()
