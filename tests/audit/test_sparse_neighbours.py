"""Sensitivities and transcripts of the incremental path, by brute force over neighbours.

Like tests/audit/test_sensitivity.py, for scores that are sums of integers. A neighbour may have so
many more non-zeros that full passes are taken for it, with sums of floats: both ways are run on
every data set, and every score is compared with all others.
"""

import itertools
import math

import numpy as np
import pytest
from test_sensitivity import (
    MUST_HOLD,
    MUST_REACH,
    charged,
    design,
    largest_range,
    log_softmax,
    neighbours,
    renyi,
    scores_along,
)

from skdpsco.constraints import L1Ball
from skdpsco.losses import Huber, Logistic, Multinomial, SmoothHinge, Squared
from skdpsco.mechanisms.bucket_sampler import score_of
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.privacy import Budget, rho_of
from skdpsco.solvers import Problem, Stagewise
from skdpsco.solvers.l1 import sparse_path as sparse_module
from skdpsco.solvers.l1 import vertex_path as path_module

ONE = 2.0**SCALE_BITS


class Incremental:
    """Runs the incremental path as Python; choices are given, scores are kept."""

    def __init__(self, monkeypatch):
        self.log: list = []
        self.choices: tuple = ()
        monkeypatch.setattr(path_module, "vertex_path", path_module.vertex_path.py_func)
        monkeypatch.setattr(sparse_module, "sparse_path", sparse_module.sparse_path.py_func)
        monkeypatch.setattr(sparse_module, "draw_signed", self.draw)
        monkeypatch.setattr(sparse_module, "exponential_mechanism", self.stop)

    def draw(self, rng, sums, buckets):
        scores = np.array([score_of(buckets, s) for s in sums])
        self.log.append(np.concatenate([scores, -scores]))
        step = len(self.log) - 1
        return self.choices[step] if step < len(self.choices) else 0

    def stop(self, rng, losses, bits):
        assert bits == SCALE_BITS
        self.log.append(losses.copy())
        return 0

    def scores(self, plan, problem, ball, rows, choices):
        self.log, self.choices = [], choices
        X, y = design(rows, problem.intercept, "csr")
        sparse_module.run_sparse(plan, problem, ball, X, y, None, np.zeros(1, dtype=np.int64))
        return self.log


@pytest.fixture
def incremental(monkeypatch):
    return Incremental(monkeypatch)


PATHS = [
    (Logistic(), 1.5, 2, False, 2),
    (Logistic(), None, 1, True, 3),
    (Squared(1.0), 0.7, 2, False, 3),
    (Squared(99.0), 2.0, 1, True, 2),
    (Huber(0.6), None, 2, False, 2),
    (SmoothHinge(0.5), None, 1, True, 1),
    (Multinomial(3), None, 1, False, 2),
]


@pytest.mark.parametrize(("loss", "radius", "d", "intercept", "n"), PATHS)
def test_scores_change_by_what_is_charged_whichever_way(incremental, loss, radius, d, intercept, n):
    n_iter = 3
    constraint = None if radius is None else L1Ball(radius)
    problem = Problem(loss, constraint, n, d + intercept, intercept)
    plan = Stagewise().plan(problem, Budget(2.0, 1e-3), n_iter)
    ball = L1Ball(plan.radius)
    step_charge, stop_charge = charged(plan.path.event, n_iter)
    V = 2 * problem.n_coefficients
    worst = np.zeros(n_iter + 1)
    for prefix in itertools.product(range(V), repeat=n_iter if constraint is None else n_iter - 1):
        for group in neighbours(d, loss, n, 2):
            logs = [incremental.scores(plan.path, problem, ball, s, prefix) for s in group]
            for s in group[:: max(1, len(group) // 4)]:
                logs.append(scores_along(plan.path, problem, ball, s, "csr", prefix))
            for t, scores in enumerate(zip(*logs, strict=True)):
                charge = step_charge if t < n_iter else stop_charge
                worst[t] = max(worst[t], largest_range(scores) / charge)
    assert worst.max() <= MUST_HOLD
    steps = worst if constraint is None else worst[:n_iter]
    assert steps.min() > MUST_REACH


@pytest.mark.parametrize(
    ("loss", "radius", "intercept", "n"),
    [(Squared(1.0), 1.0, False, 3), (Logistic(), None, False, 1), (Logistic(), 2.0, True, 2)],
)
def test_renyi_divergence_of_whole_transcripts(incremental, loss, radius, intercept, n):
    T = 3
    constraint = None if radius is None else L1Ball(radius)
    problem = Problem(loss, constraint, n, 1 + intercept, intercept)
    plan = Stagewise().plan(problem, Budget(3.0, 1e-3), T)
    ball, rho = L1Ball(plan.radius), rho_of(plan.path.event)

    def law(rows, sharpen):
        result: list = []
        for sequence in itertools.product(range(2 * problem.n_coefficients), repeat=T):
            log = incremental.scores(plan.path, problem, ball, rows, sequence)
            total = math.fsum(
                log_softmax(scores * (sharpen / ONE))[k]
                for k, scores in zip(sequence, log, strict=False)
            )
            last = log_softmax(log[-1] * (sharpen / ONE)) if len(log) > T else np.zeros(1)
            result.extend(total + last)
        assert np.exp(result).sum() == pytest.approx(1.0, abs=1e-12)
        return np.array(result)

    def largest_ratio(sharpen):
        worst = 0.0
        for group in neighbours(1, loss, n, 2):
            laws = [law(rows, sharpen) for rows in group]
            for p, q in itertools.permutations(laws, 2):
                for alpha in (1.001, 1.5, 2.0, 8.0, 64.0):
                    worst = max(worst, renyi(p, q, alpha) / (alpha * rho))
        return worst

    assert largest_ratio(1.0) <= 1.0
    assert largest_ratio(2.0) > 1.0  # half the noise is seen
