"""What the time of a fit tells about one record, alone and together with what the fit releases.

Default fits (epsilon = 1) of two tables that differ in their first record, in random order: it is
an ordinary one, and in the other table all zeros, all 1e300 (which is clipped), all 1e-310 (which
some processors handle slowly), or, of a sparse table, a row of as many entries as there are columns
in place of an empty one. As a control, it is the same one.

Half of the fits choose a threshold. Its advantage, the rate of true minus false positives, is that
of the other half, with an interval of 99 % confidence. "both" is the best sum of a released number
and the time; without the time, epsilon = 1 allows .46 at most. "p" is that of a Kolmogorov-Smirnov
test of the times. Times are of the processor: others disturb them less than an attacker's clock.

Run it with OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1. The default of 10,000 fits per line takes about
an hour.

python examples/benchmarks/timing.py [--fits 10000] [--only PrivateRidge ...] [--tables sparse]
"""

import argparse
import time
import warnings

import numpy as np
from scipy import sparse, stats

from skdpsco import PrivateLasso, PrivateLogisticRegression, PrivateRidge

ESTIMATORS = {
    "PrivateRidge": (lambda: PrivateRidge(), lambda z: z),
    "PrivateLogisticRegression": (
        lambda: PrivateLogisticRegression(classes=[0, 1]),
        lambda z: (z > 0.0).astype(int),
    ),
    "PrivateLasso": (lambda: PrivateLasso(), lambda z: z),
}
SIZES = [(200, 5), (5000, 20)]
SPARSE_SIZE, ENTRIES = (2000, 500), 5
RECORDS = {"zeros": 0.0, "1e300": 1e300, "1e-310": 1e-310}
LEVEL = 0.99


def pairs(rng):
    """Name of each pair of tables, and the tables."""
    for n, d in SIZES:
        X = rng.uniform(-1.0, 1.0, (n, d))
        for name, value in RECORDS.items():
            other = X.copy()
            other[0] = value
            yield f"{n} x {d}: {name}", X, other
        yield f"{n} x {d}: the same record", X, X
    n, d = SPARSE_SIZE
    S = sparse.random(n, d, ENTRIES / d, format="lil", random_state=0)
    S[0] = 0.0
    other = S.copy()
    other[0] = 1.0
    yield f"{n} x {d}, sparse: 0 or {d} entries", sparse.csr_matrix(S), sparse.csr_matrix(other)


def measured(make, tables, y, n_fits, rng):
    """Which table was fitted, a released number and the time of the fit, for every fit."""
    which = rng.permutation(np.arange(n_fits) % 2)
    released, seconds = np.empty(n_fits), np.empty(n_fits)
    for table in tables:  # machine code, caches
        make().fit(table, y)
    for k, i in enumerate(which):
        model, table = make(), tables[i].copy()  # not at the same place for all fits
        start = time.process_time()
        model.fit(table, y)
        seconds[k] = time.process_time() - start
        released[k] = np.ravel(model.coef_)[0]
    return which, released, np.log(seconds)


def advantage(which, score):
    """The advantage in the second half of the best threshold of the first, and its error."""
    half = len(which) // 2
    values, labels = np.sort(score[:half]), which[:half][np.argsort(score[:half])]
    above = labels[::-1].cumsum()[::-1] / labels.sum()
    false = (1 - labels)[::-1].cumsum()[::-1] / (1 - labels).sum()
    best = np.abs(above - false).argmax()
    sign = np.sign(above[best] - false[best]) or 1.0
    hit = score[half:] >= values[best]
    rates = [hit[which[half:] == i].mean() for i in (0, 1)]
    sizes = [(which[half:] == i).sum() for i in (0, 1)]
    variance = sum(max(r * (1.0 - r), 1.0 / n) / n for r, n in zip(rates, sizes, strict=True))
    return sign * (rates[1] - rates[0]), stats.norm.ppf(0.5 + LEVEL / 2) * variance**0.5


def together(which, *scores):
    """The sum of scores that tells the tables apart best, in the first half."""
    half = len(which) // 2
    S = np.column_stack([stats.rankdata(score) / len(which) for score in scores])
    zero, one = (S[:half][which[:half] == i] for i in (0, 1))
    return S @ np.linalg.solve(np.cov(zero.T) + np.cov(one.T), one.mean(axis=0) - zero.mean(axis=0))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fits", type=int, default=10_000)
    parser.add_argument("--only", nargs="*", default=list(ESTIMATORS))
    parser.add_argument("--tables", default="", help="a part of the names of tables")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{options.fits} fits per line\n")
    print("| estimator | tables | ms | change | p | advantage of time | of output | of both |")
    print("|---|---|---|---|---|---|---|---|")
    for name in options.only:
        make, targets = ESTIMATORS[name]
        rng = np.random.default_rng(0)
        for pair, *tables in pairs(rng):
            if options.tables not in pair:
                continue
            z = rng.normal(size=tables[0].shape[0])
            which, released, seconds = measured(make, tables, targets(z), options.fits, rng)
            of = [np.median(seconds[which == i]) for i in (0, 1)]
            p = stats.ks_2samp(seconds[which == 0], seconds[which == 1]).pvalue
            cells = [
                "{:.3f} ± {:.3f}".format(*advantage(which, score))
                for score in (seconds, released, together(which, released, seconds))
            ]
            change = f"{100.0 * (np.exp(of[1] - of[0]) - 1.0):+.2f} %"
            print(f"| {name} | {pair} | {1e3 * np.exp(of[0]):.2f} | {change} | {p:.1g} | "
                  f"{' | '.join(cells)} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
