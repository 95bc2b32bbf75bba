"""Phased SGD: sensitivity by brute force over neighbours, and what its noise lets through.

Statistics are recorded just before they get noise, for data sets that differ in one record. They
may move by what the plan charges, mu times the scale of the noise, and must come close to that for
some pair: then half the noise would not have passed. The audit runs a whole plan on the worst pair;
(p - exp(epsilon) q) of the best event is the delta that was really spent.
"""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy import sparse

from skdpsco._kernels import njit
from skdpsco.constraints import L1Ball, L2Ball, LpBall, project
from skdpsco.data.design import as_design
from skdpsco.data.record_stream import read_row, row_room
from skdpsco.losses import Logistic, Multinomial, SmoothHinge, Squared
from skdpsco.losses.library import for_kernels
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.privacy import Budget
from skdpsco.solvers import Allowance, Problem
from skdpsco.solvers.lp_ball import phased_sgd as module
from skdpsco.solvers.lp_ball.phased_sgd import (
    PhasedSGD,
    SGDSteps,
    euclidean_bounds,
    release_point,
    sgd_pass,
)

ONE = 2.0**SCALE_BITS


@pytest.fixture
def means(monkeypatch):
    """Means before their noise; the phase that follows starts from 0 instead."""
    log = []

    def record(rng, w, grid, constraint):
        log.append(w.copy())
        w[:] = 0.0

    monkeypatch.setattr(module, "release_point", record)
    return log


def changes(means, solver, plan, problem, layout, one, other):
    """How far the mean of every phase moves, over what its noise is made for."""
    found = []
    for X, y in (one, other):
        X = as_design(X if layout == "dense" else sparse.csr_matrix(X), np.ones(X.shape[1]), False)
        means.clear()
        solver.run(plan, problem, X, y, None, np.zeros(1, dtype=np.int64))
        found.append(np.array(means))
    mu = 1.0 / plan.event.noise_multiplier
    allowed = np.array([phase.grid * ONE * mu for phase in plan.phases])
    return np.linalg.norm(found[0] - found[1], axis=1) / allowed


CASES = [
    (SmoothHinge(0.5), L2Ball(3.0), "dense"),
    (Squared(0.2), LpBall(1.5, 2.0), "csr"),
    (Squared(0.3), L1Ball(2.0), "dense"),
    (Logistic(), L2Ball(4.0), "csr"),
    (Squared(), LpBall(math.inf, 0.5), "dense"),
    (Multinomial(3), L2Ball(2.0), "dense"),
]


@pytest.mark.parametrize(("loss", "ball", "layout"), CASES)
@pytest.mark.parametrize("schedule", ["practical", "theorem"])
@pytest.mark.parametrize("rho", [0.05, 1e12])
def test_means_move_by_what_is_charged_and_hardly_less(means, loss, ball, layout, schedule, rho):
    """With steps that noise makes short, and, without noise, the longest that are allowed."""
    n, d = 24, 3
    problem = Problem(loss, ball, n, d)
    solver = PhasedSGD(schedule, shuffle=False)
    plan = solver.plan(problem, Allowance(rho), 2)
    rng = np.random.default_rng(0)
    classes = np.arange(3) if loss.n_outputs > 1 else np.array([-1.0, 1.0])
    largest = 0.0
    for trial in range(60):
        # The other records are zero, random, or pull hard in all directions.
        X = np.zeros((n, d))
        if trial % 3:
            X = rng.uniform(-2, 2, (n, d)) if trial % 3 == 1 else rng.choice([-1.0, 1.0], (n, d))
        y = rng.choice(classes, n).astype(float)
        for i in (0, int(rng.integers(n)), n // 2, n - 1):
            X[i], y[i] = rng.choice([-1.0, 1.0], d), classes[0]
            other, other_y = X.copy(), y.copy()
            other_y[i] = classes[-1]
            if trial % 2:
                other[i] = rng.choice([-1.0, 0.0, 1.0], d)
            change = changes(means, solver, plan, problem, layout, (X, y), (other, other_y))
            assert change.max() <= 1.0
            assert (change > 0).sum() <= 1  # one phase reads the record
            largest = max(largest, change.max())
    # Two steps in opposite directions; only some losses are as steep at 0 as they may be.
    assert largest > (0.85 if loss in (SmoothHinge(0.5), Squared(0.2), Squared(0.3)) else 0.2)


def test_steps_beyond_the_longest_would_be_expansive(means):
    """The other test would see this if smoothness did not bound steps: 5 is more than 1."""
    n, loss = 24, Squared(0.3)
    problem = Problem(loss, L2Ball(3.0), n, 1)
    solver = PhasedSGD(shuffle=False)
    plan = solver.plan(problem, Allowance(1e12), 1)
    found = []
    for factor in (1.0, 2.5 / plan.phases[0].step):
        longer = plan.phases[0]._replace(step=factor * plan.phases[0].step)
        given = dataclasses.replace(plan, phases=(longer,))
        X, y = np.ones((n, 1)), np.zeros(n)
        other = y.copy()
        y[0], other[0] = -1e-3, 1e-3
        change = changes(means, solver, given, problem, "dense", (X, y), (X, other))
        found.append(change.max() / (factor * 2e-3 / 0.6))
    assert found[0] <= 1.0
    assert found[1] > 5.0


def nearest(v, ball):
    """The projection of ``v`` on a ball of order 1, 2 or inf, with the digits that ``v`` has."""
    r = v.dtype.type(ball.radius)
    if ball.p == math.inf:
        return np.clip(v, -r, r)
    if ball.p == 2.0:
        return v * min(v.dtype.type(1), r / np.sqrt(v @ v))
    a = np.sort(np.abs(v))[::-1]
    threshold = max(((np.cumsum(a) - r) / np.arange(1, len(v) + 1)).max(), 0)
    return np.sign(v) * np.maximum(np.abs(v) - threshold, 0)


def slope_of(loss, z, y):
    """The derivative of ``loss``, with the digits that ``z`` has."""
    if isinstance(loss, Squared):
        return np.clip(z - y, -loss.clip, loss.clip)
    if isinstance(loss, SmoothHinge):
        return -y * np.clip((1 - y * z) / loss.width, 0, 1)
    return -y / (1 + np.exp(min(y * z, 100)))


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 2.0**-60, reason="No digits beyond float64")
@pytest.mark.parametrize("ball", [L1Ball(1.03), L2Ball(1.03), LpBall(math.inf, 1.03)])
@pytest.mark.parametrize("scale", [1e-90, 1.0, 1e4, 1e90])
def test_steps_err_by_less_than_what_the_noise_is_made_for(ball, scale):
    """Over the longest steps, and over steps that are all but nothing: what remains is rounding."""
    rng = np.random.default_rng(0)
    ball = ball._replace(radius=scale * ball.radius)
    largest = 0.0
    losses = (Squared(), Squared(0.2), Logistic(), SmoothHinge(1e-4))
    for loss, D, e in itertools.product(losses, (1, 2, 30), (math.inf, 0.1, 1e-15)):
        problem = Problem(loss, ball, 10, D, row_norm=math.inf if e > 1.0 else 0.5)
        bounds = euclidean_bounds(problem)
        e = min(e, 2.0 / bounds.bend * (1.0 - 2.0**-40))
        step = e * bounds.radius / (bounds.slope * bounds.features)
        n = 2**40  # so many that what else there is does not count
        allowed = bounds.sensitivity(n, 1, e, 1) / (2.0 * n)
        for _ in range(30):
            w = rng.uniform(-1.0, 1.0, D) * ball.radius * 10.0 ** rng.uniform(-1, 0.5)
            project(ball, w)
            X = np.sign(w)[None] if rng.random() < 0.5 else rng.uniform(-1.0, 1.0, (1, D))
            X, y = as_design(X, np.ones(D), False), rng.choice([-1.0, 1.0], 1)
            row = row_room(X, problem.row_norm)
            size = read_row(X, 0, *row)
            x, u = row[-1][:size].astype(np.longdouble), w.astype(np.longdouble)
            slope = np.clip(slope_of(loss, x @ u, int(y[0])), -bounds.slope, bounds.slope)
            exact = nearest(u - step * slope * x, ball)
            chunk = X, y, np.zeros(1, dtype=np.int64)
            steps = SGDSteps(step, bounds.slope, bounds.inside, every=1, first=1, due=1)
            sgd_pass(chunk, problem.row_norm, for_kernels(loss), ball, steps, w, np.zeros(D))
            error = np.linalg.norm(((w - exact) / bounds.radius).astype(float))
            largest = max(largest, error / allowed)
    assert largest <= 1.0
    # A cube has no other rounding than that of a sum, which is attained; others are bounded in a
    # simple way.
    assert largest > {1.0: 1e-3, 2.0: 0.03, math.inf: 0.5}[ball.p]


TRIALS, EPSILON, DELTA, N = 200_000, 1.0, 0.01, 50


@njit
def trials(rng, chunk, loss, constraint, steps, grid, out):
    n_averaged = chunk[2].shape[0] - steps.first
    w, total = np.empty(1), np.empty(1)
    for trial in range(out.shape[0]):
        w[0] = total[0] = 0.0
        sgd_pass(chunk, np.inf, loss, constraint, steps, w, total)
        total[0] /= n_averaged
        release_point(rng, total, grid, constraint)
        out[trial] = total[0]


@pytest.mark.parametrize(("share", "convicted"), [(1.0, False), (0.5, True)])
def test_noise_lets_through_what_the_curve_says(share, convicted):
    """False alarm below 1e-6: five standard errors. Half the noise spends 0.12 instead of 0.01."""
    problem = Problem(SmoothHinge(0.5), L2Ball(3.0), N, 1)
    solver = PhasedSGD(shuffle=False)
    plan = solver.plan(problem, Budget(EPSILON, DELTA), 1)
    (phase,) = plan.phases
    X = np.zeros((N, 1))
    X[0] = 1.0
    X = as_design(X, np.ones(1), False)
    rng = np.random.Generator(np.random.PCG64(0))
    samples = np.empty((2, TRIALS))
    first, every = N - phase.n_averaged, phase.every
    steps = SGDSteps(phase.step, plan.bounds.slope, plan.bounds.inside, every, first, every)
    for target, out in zip((1.0, -1.0), samples, strict=True):
        y = np.full(N, target)
        chunk, grid = (X, y, np.arange(N)), share * phase.grid
        trials(rng, chunk, for_kernels(problem.loss), problem.constraint, steps, grid, out)
    # The event of largest p - exp(epsilon) q is a half line; it is chosen on half of the samples.
    half = TRIALS // 2
    lines = np.linspace(samples.min(), samples.max(), 400)
    p, q = ((part[:half, None] > lines).mean(axis=0) for part in samples)
    best = lines[np.argmax(p - math.exp(EPSILON) * q)]
    p, q = ((part[half:] > best).mean() for part in samples)
    error = math.sqrt((p * (1 - p) + math.exp(2 * EPSILON) * q * (1 - q)) / half)
    spent = p - math.exp(EPSILON) * q
    assert (spent > DELTA + 5 * error) == convicted
    assert spent > 0.5 * DELTA
