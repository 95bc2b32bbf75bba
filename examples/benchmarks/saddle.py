"""
Games over simplices with a thousand actions for each player
===============================================================

Duality gaps of mirror descent on private draws of vertices (`solver="mirror-descent"`), and its
time::

    python examples/benchmarks/saddle.py [--only rates] [--repetitions 6]

The games are planted, with known equilibria, and have 1000 actions for each player:

- bilinear: matching pennies on two actions of each player; every other action loses. The payoffs
  of all actions are in [-1, 1], times a strength.
- quadratic: ``|r|^2 / 2 + r q / 2 - |q|^2 / 2`` with ``r = x - x*``, ``q = y - y*``, over 4, times
  a strength; the planted strategies have four actions each.

"rates": the exponent at which the gap falls with the number of records n where privacy is the
limit, beside that of the theorem, -1/2 for affine operators (Gonzalez, Guzman and Paquette, 2024,
Theorem 3.1). Theorems are for the worst case, so it is the worst mean over strengths; records are
identical, so there is no sampling error. It is to be within 0.1.

"gain": the gap at n = 100,000 over that of the published constants, in the same run on the same
records, which differ: "published" is our solver with their number of steps, batches, step size and
draws (with y ascending, which is misprinted). Payoffs are clipped to [-1, 1], residuals to
[-2, 2]. The gap is that of the distribution.

"time": seconds of a plan and a run on 100,000 x 1000 records.

"others": gaps of other solvers on the bilinear game with identical records. (Mirror prox takes
all records in each of at most 1000 calls, with Gaussian noise.)

Epsilon is 1, delta 1e-6, neighbours differ by the replacement of one record. Run it with
OMP_NUM_THREADS=1.
"""

import argparse
import math
import time

import numpy as np
from l1_speed import report

from skdpsco.constraints import Simplex
from skdpsco.privacy import Budget, ZCDPEvent
from skdpsco.solvers import BiasReducedMirrorDescent, MirrorDescent, MirrorProx
from skdpsco.solvers.saddle.mirror_descent import MirrorDescentPlan, calibrate_draws
from skdpsco.solvers.saddle.problem import VariationalProblem
from skdpsco.variational import BilinearGame, Block, QuadraticGame

D = 1000
N = 100_000
EPSILON, DELTA = 1.0, 1e-6
BUDGET = Budget(EPSILON, DELTA)
SIZES = [2**k for k in (11, 13, 15, 17)]
STRENGTHS = 2.0 ** -np.arange(6.0)
THEOREM = -0.5
TOLERANCE = 0.1


class Pennies:
    """The bilinear game with identical records."""

    name = "bilinear"
    saddle = True
    second_smoothness = 0.0
    smoothness = ((0.0, 1.0), (1.0, 0.0))
    sampled = BilinearGame(D, D)
    scale = 3.0  # of payoffs here over those of the sampled game

    def __init__(self, strength=1.0):
        self.strength = strength
        self.blocks = (Block(Simplex(), D, 1.0),) * 2

    def mean(self, z):
        """Operator of the distribution."""
        x, y = z[:D], z[D:]
        right, left = np.full(D, y[:2].sum()), np.full(D, -x[:2].sum())
        right[:2] = np.array([1.0, -1.0]) * (y[0] - y[1]) + y[:2].sum() - 1.0
        left[:2] = np.array([1.0, -1.0]) * (x[0] - x[1]) + 1.0 - x[:2].sum()
        return self.strength * np.concatenate([right, -left])

    def total(self, z, data):
        """Sum of the records' operators."""
        return len(data[0]) * self.mean(z)

    def gap(self, z):
        """Exact: the payoff is linear for each player."""
        g = self.mean(z)
        return -float(g[:D].min() + g[D:].min())

    @staticmethod
    def draw(n, rng):
        """Records: one of three matrices of rank one, whose sum is the matrix of payoffs."""
        rows, columns = np.zeros((3, D)), np.ones((3, D))
        rows[0, :2] = columns[0, :2] = [1.0, -1.0]
        columns[0, 2:] = 0.0
        rows[1, 2:] = 1.0
        rows[2] = -1.0
        columns[2, :2] = 0.0
        kind = rng.integers(0, 3, n)
        return rows.astype(np.int8)[kind], columns.astype(np.int8)[kind]


class Residuals(Pennies):
    """The quadratic game."""

    name = "quadratic"
    smoothness = ((0.25, 0.25), (0.25, 0.25))
    sampled = QuadraticGame(D, D)
    scale = 0.25
    x, y = np.zeros((2, D))
    x[:4] = y[2:6] = 0.25

    def mean(self, z):
        r, q = z[:D] - self.x, z[D:] - self.y
        return self.strength / 4.0 * np.concatenate([r + 0.5 * q, q - 0.5 * r])

    def gap(self, z):
        r, q = z[:D] - self.x, z[D:] - self.y
        best_r = nearest(self.x - 0.5 * q) - self.x
        best_q = nearest(self.y + 0.5 * r) - self.y
        difference = payoff(r, best_q) - payoff(best_r, q)
        return self.strength / 4.0 * float(difference)

    @classmethod
    def draw(cls, n, rng):
        """Records: random signs, that of v agreeing with that of u three times out of four."""
        u = (2 * rng.integers(0, 2, (n, D), dtype=np.int8) - 1).astype(np.int8)
        v = np.where(rng.integers(0, 4, (n, D), dtype=np.int8) > 0, u, -u)
        return u, v, u @ cls.x, v @ cls.y


def payoff(r, q):
    """The payoff of the quadratic game."""
    return 0.5 * (r @ r + r @ q - q @ q)


def nearest(point):
    """Projection on the simplex."""
    u = np.sort(point)[::-1]
    excess = (np.cumsum(u) - 1.0) / np.arange(1, D + 1)
    return np.maximum(point - excess[u > excess][-1], 0.0)


def published(problem):
    """The constants of the paper for L_2 = 0: K = 1 draw, and one more for the result."""
    n, log_d = problem.n_samples, 2.0 * math.log(D)
    lipschitz = problem.geometry.blocks[0].lipschitz
    log_delta = math.log(1.0 / DELTA)
    T = int(min(n, n * EPSILON / math.sqrt(log_d * log_delta)))
    batch = n // T
    private = batch * EPSILON / (16.0 * lipschitz * math.sqrt(2 * T * log_delta))
    step = lipschitz * min(math.sqrt(log_d / T) / lipschitz, private)
    ones = np.ones(T - 1)
    batches = calibrate_draws(
        problem, np.full(T - 1, batch), ones, ones, 2 * np.arange(T - 1, 0, -1), (step, step)
    )
    assert batches.rho <= BUDGET.rho
    event = ZCDPEvent(batches.rho)
    return MirrorDescentPlan(event, T - 1, batches=batches, weight=(1.0,) * T, n_draws=1)


def rates(arguments):
    """Exponents."""
    for kind in (Pennies, Residuals):
        worst, steps = [], []
        for n in SIZES:
            solver, data = MirrorDescent(), (np.zeros(n, np.int8),)
            plan = solver.plan(VariationalProblem(kind(), n), BUDGET)
            steps.append(plan.n_iter)
            means = []
            for strength in STRENGTHS:
                game = kind(strength)
                problem = VariationalProblem(game, n)
                runs = [
                    game.gap(solver.run(plan, problem, data, np.random.default_rng([n, seed])))
                    for seed in range(arguments.repetitions)
                ]
                means.append(np.mean(runs))
            worst.append(max(means))
        exponent = float(np.polyfit(np.log(SIZES), np.log(worst), 1)[0])
        gaps = ", ".join(f"{gap:.4f}" for gap in worst)
        note = f"{exponent:.3f} beside {THEOREM}; gaps {gaps}; steps {steps[0]} to {steps[-1]}"
        report(f"{kind.name}: distance of the exponent", abs(exponent - THEOREM), TOLERANCE, note)


def gain(arguments):
    """Gap over that of the published constants."""
    for kind in (Pennies, Residuals):
        game, sampled = kind(), kind.sampled
        problem, solver = VariationalProblem(sampled, N), MirrorDescent()
        plans = solver.plan(problem, BUDGET), published(problem)
        gaps = np.zeros(2)
        for seed in range(arguments.repetitions // 3):
            rng = np.random.default_rng(seed)  # reproducible: the data are no secret
            data = kind.draw(N, rng)
            gaps += [game.gap(solver.run(plan, problem, data, rng)) for plan in plans]
        gaps /= game.scale * (arguments.repetitions // 3)
        note = (
            f"{gaps[0]:.4f} against {gaps[1]:.4f}, start {start(game) / game.scale:.4f}; "
            f"rho {plans[0].batches.rho:.4f} against {plans[1].batches.rho:.4f}"
        )
        report(f"{kind.name}, n = {N:,}: gap / published", gaps[0] / gaps[1], 0.5, note)


def start(game):
    """Gap of the uniform strategies."""
    return game.gap(np.full(2 * D, 1.0 / D))


def seconds(arguments):
    """Time of one pass."""
    rng = np.random.default_rng(0)
    for kind in (Pennies, Residuals):
        data = tuple(array.astype(np.float64) for array in kind.draw(N, rng))
        problem = VariationalProblem(kind.sampled, N)
        for solver in (MirrorDescent(), BiasReducedMirrorDescent()):
            begin = time.perf_counter()
            plan = solver.plan(problem, BUDGET)
            solver.run(plan, problem, data, rng)
            taken = time.perf_counter() - begin
            label = f"{kind.name}, {type(solver).__name__}: seconds"
            report(label, taken, 5.0, f"{plan.n_iter} steps")


def others(arguments):
    """Gaps of other solvers; no targets."""
    game = Pennies()
    problem, data = VariationalProblem(game, N), (np.zeros(N, np.int8),)
    for solver in (MirrorDescent(), BiasReducedMirrorDescent(), MirrorProx()):
        plan = solver.plan(problem, BUDGET)
        runs = [
            game.gap(solver.run(plan, problem, data, np.random.default_rng(seed)))
            for seed in range(2)
        ]
        report(f"bilinear, alike, {type(solver).__name__}: gap", float(np.mean(runs)), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parts = {"rates": rates, "gain": gain, "time": seconds, "others": others}
    parser.add_argument("--only", choices=list(parts))
    parser.add_argument("--repetitions", type=int, default=6)
    arguments = parser.parse_args()
    begin = time.perf_counter()
    print(f"{'':<60} {'value':>7} {'target':>7}")
    for name, part in parts.items():
        if arguments.only in (None, name):
            part(arguments)
    print(f"Took {time.perf_counter() - begin:.0f} s.")


if __name__ == "__main__":
    main()
