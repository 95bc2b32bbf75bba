"""The noisy Newton and gradient steps: their parts, and what they reach without noise."""

import math

import numpy as np
import pytest
from cases import each

from skdpsco.constraints import L1Ball, L2Ball
from skdpsco.data.design import as_design
from skdpsco.losses import Huber, Logistic, Multinomial, Squared, lipschitz_l2
from skdpsco.losses.library import for_kernels
from skdpsco.mechanisms import samplers
from skdpsco.mechanisms.samplers import SCALE_BITS, deviation_on
from skdpsco.solvers import Problem
from skdpsco.solvers.l1 import refit as refit_module
from skdpsco.solvers.l1.refit import (
    Refit,
    minimise_quadratic,
    plan_refit,
)


def data(loss, n=400, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    signal = X @ np.linspace(1, -1, d)
    if loss.n_outputs > 1:
        return X, rng.integers(loss.n_outputs, size=n).astype(float)
    if isinstance(loss, Logistic):
        return X, np.where(signal + rng.logistic(size=n) > 0, 1.0, -1.0)
    return X, np.clip(0.4 * signal + 0.05 * rng.normal(size=n), -1, 1)


def refit(loss, X, y, support, mu, *, intercept=False, radius=50.0, hard=0.0, seed=0):
    """Coefficients from zero."""
    n, d = X.shape
    problem = Problem(loss, None, n, d + intercept, intercept)
    design = as_design(X, np.ones(d), intercept)
    rng = np.random.Generator(np.random.PCG64(seed))
    coef = np.zeros(problem.n_coefficients)
    progress = np.zeros(1, dtype=np.int64)
    support = np.array(support)
    plan = plan_refit(n, len(np.unique(support % problem.n_features)), mu)
    Refit(problem, design, y, rng, support, L1Ball(radius), plan, progress).run(coef, hard)
    return coef, int(progress[0])


# ------------------------------------------------------------------------------ parts


@pytest.mark.parametrize("n_ball", [6, 4])
@pytest.mark.parametrize("radius", [0.3, 1.0, 30.0])
def test_minimise_quadratic_by_cvxpy(radius, n_ball):
    import cvxpy as cp

    rng = np.random.default_rng(0)
    B = rng.normal(size=(20, 6))
    H, g, start = B.T @ B / 20, rng.normal(size=6), 0.1 * rng.normal(size=6)
    out = np.empty(6)
    minimise_quadratic(H, g, start, L1Ball(radius), n_ball, 2000, out)
    w = cp.Variable(6)
    objective = g @ (w - start) + cp.quad_form(w - start, cp.psd_wrap(H)) / 2
    cp.Problem(cp.Minimize(objective), [cp.norm1(w[:n_ball]) <= radius]).solve()
    assert out == pytest.approx(w.value, abs=1e-4)
    assert np.abs(out[:n_ball]).sum() <= radius * (1 + 1e-12)


def test_minimise_quadratic_agrees_with_python():
    rng = np.random.default_rng(1)
    B = rng.normal(size=(20, 5))
    H, g, start = B.T @ B / 20, rng.normal(size=5), np.zeros(5)
    for constraint in (L1Ball(0.5), L2Ball(0.5)):
        compiled, python = np.empty(5), np.empty(5)
        minimise_quadratic(H, g, start, constraint, 5, 50, compiled)
        minimise_quadratic.py_func(H, g, start, constraint, 5, 50, python)
        assert compiled == pytest.approx(python, rel=1e-12, abs=1e-14)


@each("loss", [Squared(1.0), Huber(0.3), Logistic(), Multinomial(3)])
def test_linearise(loss):
    _, y = data(loss, n=30)
    K = loss.n_outputs
    Z = np.random.default_rng(0).normal(size=(30, K))
    results = []
    for function in (refit_module.linearise, refit_module.linearise.py_func):
        R, v = Z.copy(), np.empty(30)
        function(for_kernels(loss), R, y, lipschitz_l2(loss), loss.smoothness(), v)
        results.append((R, v))
    for compiled, python in zip(*results, strict=True):
        assert compiled == pytest.approx(python, rel=1e-12, abs=1e-14)
    R, v = results[0]
    if K == 1:
        slopes = {
            Squared: np.clip(Z[:, 0] - y, -1, 1),
            Huber: np.clip(Z[:, 0] - y, -0.3, 0.3),
            Logistic: -y / (1 + np.exp(y * Z[:, 0])),
        }[type(loss)][:, None]
    else:
        P = np.exp(Z)
        slopes = P / P.sum(axis=1, keepdims=True) - np.eye(K)[y.astype(int)]
    assert pytest.approx(slopes, abs=1e-13) == R
    assert (v >= 0).all()
    assert (v <= loss.smoothness()).all()


@pytest.mark.parametrize("mu", [0.3, 300.0])
def test_blocks_of_records_do_not_matter(monkeypatch, mu):
    """Sums over blocks agree to rounding, far below the noise that the seed fixes."""
    for loss in (Logistic(), Multinomial(3)):
        X, y = data(loss)
        whole, _ = refit(loss, X, y, [0, 2], mu)
        with monkeypatch.context() as patch:
            patch.setattr("skdpsco.data.pieces.GATHERED_ROWS", 7)  # 400 is no multiple
            blocks, _ = refit(loss, X, y, [0, 2], mu)
        assert blocks == pytest.approx(whole, rel=1e-5, abs=1e-7)
        assert np.abs(whole).max() > 0


@pytest.mark.parametrize("mu", [0.3, 300.0])
def test_records_are_scaled_to_the_clipping_norm(monkeypatch, mu):
    seen = []
    weights = refit_module._weights

    def spy(A, clip):
        result = weights(A, clip)
        seen.append((np.linalg.norm(A * result[:, None], axis=1), clip, result))
        return result

    monkeypatch.setattr(refit_module, "_weights", spy)
    monkeypatch.setattr("skdpsco.data.pieces.GATHERED_ROWS", 4096)  # record 0 is first in each
    loss = Logistic()
    X, y = data(loss, n=4000)
    X *= 0.02
    X[0] = 1.0  # far longer than the others
    refit(loss, X, y, range(4), mu)
    assert seen
    for norms, clip, weight in seen:
        assert norms.max() <= clip * (1 + 1e-12)
        assert weight.max() <= 1.0
    assert weight[0] < 1.0
    assert weight[1] == 1.0


def test_every_release_is_on_its_public_grid(monkeypatch):
    """Whatever the data, outputs are whole numbers of grid units; the noise has its scale."""
    released = []
    mechanism = samplers.gaussian_mechanism

    def spy(rng, values, grid):
        before = values.copy()
        mechanism(rng, values, grid)
        released.append((values.copy(), before, grid))
        return deviation_on(grid)

    monkeypatch.setattr(samplers, "gaussian_mechanism", spy)
    loss = Logistic()
    for scale, mu in ((1.0, 0.3), (0.0, 0.3), (1 / 3, 300.0)):
        X, y = data(loss)
        for seed in range(40):
            refit(loss, X * scale, y, range(4), mu, seed=seed)
    noise = []
    for values, before, grid in released:
        assert np.array_equal(np.rint(values / grid) * grid, values)
        noise.extend((values - before) / (grid * 2.0**SCALE_BITS))
    assert len(released) >= 40 * 5 * 2
    noise = np.array(noise)
    # Power: the statistics themselves are not on the grid.
    assert any((np.rint(b / g) != b / g).any() for _, b, g in released)
    # Six standard deviations of the mean square: a false alarm has probability below 1e-8, and
    # half or twice the noise would be off by more than 20.
    assert abs((noise**2).mean() - 1) < 6 * math.sqrt(2 / len(noise))
    assert len(noise) > 1000


# ------------------------------------------------------------------------------ the whole


@pytest.mark.parametrize("radius", [0.2, 0.8])
def test_newton_stays_in_the_ball_and_frees_the_intercept(radius):
    import cvxpy as cp

    X, y = data(Squared(1.0))
    y = y * 0.5 + 0.45
    coef, _ = refit(Squared(1.0), X, y, range(5), 1e6, intercept=True, radius=radius)
    w, b = cp.Variable(4), cp.Variable()
    objective = cp.Minimize(cp.sum_squares(X @ w + b - y))
    cp.Problem(objective, [cp.norm1(w) <= radius]).solve()
    assert coef[:4] == pytest.approx(w.value, abs=1e-3)
    assert coef[4] == pytest.approx(float(b.value), abs=1e-3)
