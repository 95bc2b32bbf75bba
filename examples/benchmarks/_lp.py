"""Planted problems in balls of l_p norms, and runs of solvers on them."""

import math

import numpy as np
from scipy.linalg import toeplitz
from scipy.signal import lfilter
from scipy.special import expit

from skdpsco.constraints import L1Ball, L2Ball, LpBall
from skdpsco.data.design import as_design
from skdpsco.data.record_sums import BlockDesign
from skdpsco.losses import Logistic
from skdpsco.solvers import Problem

DELTA = 1e-6


def ball(p, radius=1.0):
    """The set of coefficients whose l_p norm is at most the radius."""
    return {1.0: L1Ball(radius), 2.0: L2Ball(radius)}.get(p, LpBall(p, radius))


def dual(p):
    """Order of the dual norm."""
    return 1.0 if p == math.inf else math.inf if p == 1.0 else p / (p - 1.0)


# ------------------------------------------------------------------------------ rates


BLOCK = 8192  # records


class Family:
    """Problems with identical records, (s u, 1), for every strength s in (0, 1].

    The smaller s is, the straighter is the loss, and the more noise decides. Noise is the only
    source of error: a sample determines the distribution exactly.

    Parameters
    ----------
    p : float
        Order of the norm of the coefficients, at most 1.
    d : int
    """

    def __init__(self, p, d):
        self.p, self.d = p, d
        # l2 norm 1, which is the bound on rows: one coordinate of many for p <= 2, all for p > 2,
        # where these have the larger dual norm.
        self.u = np.full(d, d**-0.5) if p > 2.0 else np.eye(d)[0]
        self.best = float(np.linalg.norm(self.u, dual(p)))  # <u, w> at the optimum

    def problem(self, n):
        return Problem(Logistic(), ball(self.p), n, self.d, row_norm=1.0)

    def excess(self, w, strength):
        """Risk on the distribution above the least in the ball, exactly."""
        z, best = strength * float(self.u @ w), strength * self.best
        return float(np.logaddexp(0.0, -z) - np.logaddexp(0.0, -best))

    def run(self, solver, plan, n, strength, seed):
        """The excess risk of one run."""
        # Bounds that the features fill to a share of ``strength``.
        bounds = np.full(self.d, 1.0 / strength)
        rows = np.tile(self.u, (BLOCK if solver.streams else n, 1))
        X, y = as_design(rows, bounds, False), np.ones(len(rows))
        if solver.streams:
            X, y = repeated(X, y, n), None
        result = run(solver, plan, self.problem(n), X, y, seed)
        return self.excess(result.coef, strength)


def repeated(X, y, n):
    """So many records: those of a design again and again, as a stream."""
    last = n % len(y)
    blocks = [(X.values, y)] * (n // len(y)) + [(X.values[:last], y[:last])]
    return BlockDesign(blocks, X.bounds, X.intercept, None, False)


def run(solver, plan, problem, X, y, seed):
    # Reproducible, so that tables are: the data are no secret.
    rng = np.random.default_rng(seed)
    return solver.run(plan, problem, X, y, rng, np.zeros(1, dtype=np.int64))


# ------------------------------------------------------------------------------ classification

SIGNAL = 3.0  # standard deviation of a prediction, roughly
SPREAD = 0.5  # of the features, whose bound is 1
CORRELATION = 0.5  # of neighbours; without any, a single gradient would tell the direction
N_TEST = 20_000


def planted_coef(rng, d, p):
    """Coefficients that suit the geometry: few for p = 1, decaying for p < 2, equal for p > 2."""
    if p == 1.0:
        size = (rng.permutation(d) < 5).astype(float)
    elif p < 2.0:
        size = rng.permutation(1.0 + np.arange(d)) ** -0.75
    elif p == 2.0:
        size = np.abs(rng.standard_normal(d))
    else:
        size = np.ones(d)
    w = rng.choice([-1.0, 1.0], d) * size
    variance = w @ toeplitz(CORRELATION ** np.arange(d)) @ w
    return w * (SIGNAL / SPREAD / np.sqrt(variance))


def planted(seed, n, d, p):
    """Training and test data, and the radius.

    Features are normal, clipped to [-1, 1]. Labels follow a logistic model, whose norm is the
    radius.
    """
    rng = np.random.default_rng(seed)
    w = planted_coef(rng, d, p)
    X = rng.standard_normal((n + N_TEST, d))
    X[:, 1:] *= np.sqrt(1.0 - CORRELATION**2)
    X = lfilter([SPREAD], [1.0, -CORRELATION], X)  # every column is half of its left neighbour
    np.clip(X, -1.0, 1.0, out=X)
    y = rng.random(len(X)) < expit(X @ w)
    return X[:n], y[:n], X[n:], y[n:], float(np.linalg.norm(w, p))
