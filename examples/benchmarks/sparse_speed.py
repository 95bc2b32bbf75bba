"""
Speed of stagewise fits on sparse data
======================================

Prints the time of whole fits, validation and refit included, beside targets in seconds and ratios
that do not depend on the machine: to one full pass ``X.T @ r``, and to liblinear's non-private l1
fit of the same data in the same run. Everything runs on one thread; times are CPU seconds, so that
other programs on the machine matter less::

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python examples/benchmarks/sparse_speed.py

The data have the shapes of RCV1 and News20, binary features and labels of planted words. The
cost of a step depends on the number of records with the chosen word: labels of very common words
cost more.
"""

import time

import _data
import numpy as np

from skdpsco import PrivateLogisticL1

SHAPES = {
    "RCV1": {},
    "News20": {"n": 19_996, "d": 1_355_191, "length": 496.0, "shift": 41.0, "power": 1.02},
}
# Steps and radius, with the target in seconds; for News20's long path, the excess over the short
# one.
TARGETS = {
    ("RCV1", 100, 10.0): 0.1,
    ("RCV1", 4000, 50.0): 0.25,
    ("News20", 100, 10.0): 1.5,
    ("News20", 4000, 50.0): 1.0,
}


def cpu_time(function, repetitions=5):
    """Least CPU time, after one call that is not counted."""
    function()
    times = []
    for _ in range(repetitions):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def planted(**shape):
    """Binary word counts, and labels of 200 words, none of which is among the five most common."""
    counts, rng = _data.text_counts(**shape)
    X = counts.sign()
    frequency = X.getnnz(axis=0)
    common = np.argsort(-frequency)[5:5000]
    words = rng.choice(common, 200, replace=False, p=frequency[common] / frequency[common].sum())
    z = X[:, words] @ rng.choice([-1.0, 1.0], 200)
    return X, z + rng.logistic(size=len(z)) > np.median(z)


def report(name, value, target=None, note=""):
    verdict = "" if target is None else "ok" if value <= target else "MISSED"
    print(f"{name:<44} {value:>8.3f} {target or '':>7} {verdict:<7}{note}", flush=True)


def main():
    print(f"{'':<44} {'value':>8} {'target':>7}")
    for shape, options in SHAPES.items():
        X, y = planted(**options)
        r = np.where(y, 0.5, -0.5)
        one_pass = cpu_time(lambda X=X, r=r: X.T @ r, 10)
        report(f"{shape}: X.T @ r, ms", 1e3 * one_pass, note=f"  {X.shape}, {X.nnz} non-zeros")
        liblinear = cpu_time(lambda X=X, y=y: _data.l1_logistic().fit(X, y), 1)
        report(f"{shape}: liblinear, s", liblinear)
        short = 0.0
        for (name, n_iter, radius), target in TARGETS.items():
            if name != shape:
                continue
            model = PrivateLogisticL1(radius=radius, n_iter=n_iter, classes=[False, True])
            seconds = cpu_time(lambda X=X, y=y, model=model: model.fit(X, y))
            above = seconds - short
            report(
                f"{shape}, {n_iter} steps: s{' above 100 steps' if short else ''}", above, target
            )
            report(f"{shape}, {n_iter} steps: fit / passes", seconds / (n_iter * one_pass))
            report(f"{shape}, {n_iter} steps: fit / liblinear", seconds / liblinear)
            short = seconds if shape == "News20" else 0.0


if __name__ == "__main__":
    main()
