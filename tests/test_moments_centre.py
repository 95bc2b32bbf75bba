"""The solver of noisy moments where features are far from being centred."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from test_moments import PLENTY, fit, fitted, no_noise, problem_for  # noqa: F401

from skdpsco.data.design import as_design
from skdpsco.losses import Logistic, Multinomial, values
from skdpsco.penalties import L2
from skdpsco.privacy import Budget
from skdpsco.solvers.moments import moments as module
from skdpsco.solvers.moments.moments import Moments

each_layout = pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])


def shifted(loss, n=300, d=4, seed=0):
    """Features around 0.6 or -0.6."""
    rng = np.random.default_rng(seed)
    X = 0.6 * np.where(np.arange(d) % 3, 1.0, -1.0) + rng.uniform(-0.3, 0.3, (n, d))
    z = (X - X.mean(axis=0)) @ np.linspace(8, -4, d) + 0.4
    if loss.n_outputs > 1:
        scores = np.outer(z, np.linspace(-1, 1, loss.n_outputs))
        return X, np.argmax(scores + rng.gumbel(size=scores.shape), axis=1).astype(float)
    return X, np.where(z + rng.logistic(size=n) > 0, 1.0, -1.0)


@pytest.mark.parametrize("max_features", [0, 2000])
@each_layout
@pytest.mark.parametrize(
    ("loss", "C"), [(Logistic(), 1.0), (Logistic(), 10.0), (Multinomial(3), 1.0)]
)
def test_against_scikit_learn(monkeypatch, no_noise, loss, C, layout, max_features):  # noqa: F811
    tuning = module.MOMENTS._replace(max_features=max_features)
    monkeypatch.setattr(module, "MOMENTS", tuning)
    X, y = shifted(loss)
    coef, intercept = fitted(LogisticRegression(C=C, tol=1e-12, max_iter=10_000), X, y)
    W, b, plan = fit(layout(X), y, loss, L2(1 / (300 * C)), PLENTY)
    assert plan.centre_grid is not None
    assert pytest.approx(coef, abs=2e-6 * np.abs(coef).max()) == W
    assert np.diff(b[:, 0], prepend=0) == pytest.approx(np.diff(intercept, prepend=0), abs=1e-5)


@each_layout
def test_rows_are_centred_if_that_shortens_them(monkeypatch, layout):
    """Dense rows at their mean, in halves, with a clipping norm of what remains."""
    runs, fit_of = [], module._Run.fit

    def spy(self, progress):
        runs.append(self)
        return fit_of(self, progress)

    monkeypatch.setattr(module._Run, "fit", spy)
    for offset in (0.0, 0.6):
        X = np.random.default_rng(0).uniform(-0.3, 0.3, (5000, 4)) + offset
        fit(layout(X), np.where(X[:, 0] > offset, 1.0, -1.0), Logistic(), L2(0.01), PLENTY)
    still, centred = runs
    assert (still.X.bounds == 1.0).all()
    assert 0.5 < still.c < 0.8  # of norms up to 0.6
    if layout is np.asarray:
        assert (centred.X.bounds == 2.0).all()
        assert np.abs(centred.X.values.mean(axis=0)).max() < 0.02
        assert 0.25 < centred.c < 0.45  # of half norms up to 0.3
    else:
        assert (centred.X.bounds == 1.0).all()
        assert centred.c > 1.4


@each_layout
def test_an_offset_costs_little(layout):
    """At epsilon 1: dense rows lose 0.01, sparse ones, which are not shortened less, 0.09."""
    loss = Logistic()
    X, y = shifted(loss, n=20_000, d=30)
    Z, out, losses = np.empty((20_000, 1)), np.empty(20_000), []
    for budget in (Budget(1.0, 1e-6), PLENTY):
        W, b, _ = fit(layout(X), y, loss, L2(1e-4), budget)
        Z[:] = X @ W.T + b[:, 0]
        values(loss, Z, y, out)
        losses.append(out.mean())
    assert losses[0] - losses[1] < (0.03 if layout is np.asarray else 0.15)


@each_layout
def test_a_mean_along_the_moment_sets_the_intercept(layout):
    """Without a matrix, where one direction is all that is known of an offset."""
    X = 0.5 + np.random.default_rng(0).uniform(-0.5, 0.5, (1500, 100))
    y = np.where(X[:, :50].sum(axis=1) > 25, 1.0, -1.0)
    plan = Moments().plan(problem_for(Logistic(), L2(0.01), *X.shape), Budget(1.0, 1e-6), 0)
    assert plan.line
    assert plan.centre_grid is None
    positive = []
    for seed in range(7):
        rng, progress = np.random.Generator(np.random.PCG64(seed)), np.zeros(1, dtype=np.int64)
        design = as_design(layout(X), np.ones(100), True)
        w = (
            Moments()
            .run(plan, problem_for(Logistic(), L2(0.01), *X.shape), design, y, rng, progress)
            .coef
        )
        positive.append(np.mean(X @ w[:-1] + w[-1] > 0))
    assert 0.2 < np.median(positive) < 0.8


def test_an_intercept_with_a_penalty_is_another_problem():
    problem = problem_for(Logistic(), None, 10, 2)
    problem = replace(problem, intercept=True, unit=(1.0,) * problem.n_features)
    with pytest.raises(ValueError, match=r"unit\[-1\] must be 0"):
        Moments().plan(problem, PLENTY)
