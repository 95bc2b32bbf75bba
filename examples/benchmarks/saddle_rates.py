"""
Gap of saddle points against the number of records
==================================================

Prints the exponent at which the expected gap on the distribution falls with the number of records
n, beside that of the theorem, sqrt(1 / n) + sqrt(d) / (n epsilon) (Bassily, Guzman and Menart,
NeurIPS 2024)::

    python examples/benchmarks/saddle_rates.py [--repetitions 16] [--only 1.5] [--seed 1]

The game is min_w max_v w'Av + b'w - c'v, w in the unit l_p ball and v in the unit l_q ball (for
q = 1: in the simplex), with an equilibrium inside, where the gap is of the order of the error of
(w, v). A record brings its own b and c, each off by `spread` times a random signed unit vector.

- "privacy": records are identical, and epsilon is 1. Only the second term is left: n**-1. (The
  useful number of steps grows like n, and `max_calls` must not cut it: the gap would stop falling.)
- "records": records differ, and epsilon is a million. Only the first term is left: n**-0.5. (3000
  calls leave an error of optimisation that is small beside it.)

Gaps are exact, since they only need dual norms. The exponent is that of the least-squares line of
log mean gap over log n, and is to be within 0.1 of the theorem's. Delta is 1e-6, neighbours differ
by the replacement of one record, and noise is what the library's plan asks for.

"recursion" is `RecursiveRegularisation` with log2(n) / 2 rounds, for which the theorem's pull is of
the order of 1 / sqrt(n), its smallest. (With the theorem's constants there is no round at all for
this many steps.) Its gap and time are those at the largest n, over those of plain mirror prox.
"""

import argparse
import time
from dataclasses import dataclass

import numpy as np

from skdpsco.constraints import L2Ball, LpBall, Simplex
from skdpsco.privacy import Budget
from skdpsco.solvers import MirrorProx, RecursiveRegularisation
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.variational import Block

SETS = {1.0: Simplex(), 1.5: LpBall(1.5, 1.0), 2.0: L2Ball(1.0)}
GEOMETRIES = [(2.0, 1.0), (2.0, 2.0), (1.5, 1.5)]
D = 5  # coordinates of each player
SIZES = 4 ** np.arange(6, 10)  # of the data, 4096 to 262,144
DELTA = 1e-6
TOLERANCE = 0.1
# name, epsilon, spread, the theorem's exponent, limit on the calls, share of the repetitions
REGIMES = [("privacy", 1.0, 0.0, -1.0, 100_000, 0.6), ("records", 1e6, 2.0, -0.5, 3_000, 1.0)]
RECURSION_CALLS = 1_000  # of every round
RECURSION_REPETITIONS = 3


class Records:
    """Signed unit vectors as codes, and how often each occurs, which determines their sum."""

    def __init__(self, codes):
        self.codes = codes
        counts = [np.bincount(column, minlength=2 * D) for column in codes.T]
        self.sums = [count[:D] - count[D:] for count in counts]

    def __len__(self):
        return len(self.codes)

    def __getitem__(self, rows):
        return Records(self.codes[rows])


def norm(x, order):
    """Norm of the dual of l_order."""
    return float(np.linalg.norm(x, np.inf if order == 1.0 else order / (order - 1.0)))


def inside(order):
    """A point inside a set, and not its centre."""
    x = np.arange(D, 2.0 * D)
    if order == 1.0:
        return x / x.sum()
    x *= (-1.0) ** np.arange(D)
    return 0.5 * x / np.linalg.norm(x, order)


class BilinearGame:
    """A `MonotoneOperator` with a known distribution of the records."""

    saddle = True
    smoothness = ((0.0, 1.0), (1.0, 0.0))  # A's largest entry: ||Av||_p* <= ||v||_q for p, q <= 2

    def __init__(self, p, q, spread):
        self.p, self.q, self.spread = p, q, spread
        self.A = np.diag(np.linspace(0.5, 1.0, D))
        self.b = -self.A @ inside(q)
        self.c = self.A.T @ inside(p)
        self.blocks = (
            Block(SETS[p], D, 1.0 + norm(self.b, p) + spread),
            Block(SETS[q], D, 1.0 + norm(self.c, q) + spread),
        )

    def draw(self, n, rng):
        """Data of n records."""
        return (Records(rng.integers(0, 2 * D, (n, 2), dtype=np.int16)),)

    def mean(self, z):
        """Operator of the distribution."""
        w, v = z[:D], z[D:]
        return np.concatenate([self.A @ v + self.b, self.c - self.A.T @ w])

    def total(self, z, data):
        """Sum of the records' operators."""
        return len(data[0]) * self.mean(z) + self.spread * np.concatenate(data[0].sums)

    def gap(self, z):
        """Strong gap on the distribution: the sum of what both players can gain."""
        # <G(z), z> is b'w + c'v: the bilinear terms cancel.
        G, gain = self.mean(z), 0.0
        for g, order in ((G[:D], self.p), (G[D:], self.q)):
            gain += float(-g.min()) if order == 1.0 else norm(g, order)
        return gain + float(G @ z)


@dataclass
class Study:
    """Gaps over repetitions, one row for each n."""

    gaps: np.ndarray
    seconds: np.ndarray
    steps: int  # at the last n

    @property
    def exponent(self):
        """Slope of log mean gap over log n, and its standard error."""
        x = np.log(SIZES) - np.log(SIZES).mean()
        weight = x / (x @ x)
        mean = self.gaps.mean(axis=1)
        error = self.gaps.std(axis=1, ddof=1) / np.sqrt(self.gaps.shape[1]) / mean
        return float(weight @ np.log(mean)), float(np.linalg.norm(weight * error))


def study(game, solver, epsilon, sizes, repetitions, seed):
    gaps, seconds = np.zeros((2, len(sizes), repetitions))
    for i, n in enumerate(sizes):
        problem = VariationalProblem(game, int(n))
        plan = solver.plan(problem, Budget(epsilon, DELTA))
        for k in range(repetitions):
            rng = np.random.default_rng([seed, int(n), k])  # reproducible: the data are no secret
            data = game.draw(n, rng)
            start = time.perf_counter()
            gaps[i, k] = game.gap(solver.run(plan, problem, data, rng))
            seconds[i, k] = time.perf_counter() - start
    return Study(gaps, seconds, plan.n_iter)


def row(p, q, regime, repetitions, seed):
    name, epsilon, spread, theorem, max_calls, share = regime
    repetitions = max(round(share * repetitions), 2)
    game = BilinearGame(p, q, spread)
    plain = study(game, MirrorProx("mirror-prox", max_calls), epsilon, SIZES, repetitions, seed)
    slope, error = plain.exponent
    rounds = round(np.log2(SIZES[-1]) / 2)
    recursion = RecursiveRegularisation(MirrorProx("mirror-prox", RECURSION_CALLS), rounds)
    other = study(game, recursion, epsilon, SIZES[-1:], RECURSION_REPETITIONS, seed)
    first, last = plain.gaps.mean(axis=1)[[0, -1]]
    missed = abs(slope - theorem) > TOLERANCE
    print(
        f"{f'({p:g}, {q:g})':<11}{name:<9}{first:>9.4f}{last:>9.5f}{plain.steps:>7}"
        f"{slope:>9.3f}{error:>7.3f}{theorem:>9g} {'MISSED' if missed else 'ok':<7}"
        f"{other.gaps.mean() / last:>6.1f}{plain.seconds[-1].mean():>8.2f}"
        f"{other.seconds.mean():>8.2f}",
        flush=True,
    )
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--repetitions", type=int, default=16)
    parser.add_argument("--only", default="", help="geometries whose (p, q) contain this")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    start = time.perf_counter()
    print(f"{'':<20}{'mean gap at n =':>18}{'':<39}{'recursion':>9}{'seconds at most':>17}")
    print(
        f"{'(p, q)':<11}{'limit':<9}{SIZES[0]:>9}{SIZES[-1]:>9}{'steps':>7}{'exponent':>9}"
        f"{'error':>7}{'theorem':>9} {'':<7}{'ratio':>6}{'plain':>8}{'recur.':>8}"
    )
    missed = sum(
        row(p, q, regime, arguments.repetitions, arguments.seed)
        for p, q in GEOMETRIES
        if arguments.only in f"({p:g}, {q:g})"
        for regime in REGIMES
    )
    print("error: standard error of the exponent. ratio: gap over that of plain mirror prox.")
    print(f"{missed} targets missed. Took {time.perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main()
