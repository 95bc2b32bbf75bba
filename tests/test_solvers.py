"""Plans, convergence without noise, and stages of solvers in balls."""

import dataclasses
import math

import numpy as np
import pytest
from cases import each
from scipy import stats
from sklearn.linear_model import Lasso, LogisticRegression

from skdpsco import PrivateLasso, PrivateLogisticL1
from skdpsco._random import PrivacyWarning
from skdpsco.constraints import L1Ball, L2Ball, Polytope, Simplex
from skdpsco.data.design import as_design
from skdpsco.losses import Huber, Logistic, Multinomial, SmoothHinge, Squared
from skdpsco.mechanisms.samplers import SCALE_BITS
from skdpsco.privacy import (
    Budget,
    GaussianEvent,
    NoOpEvent,
)
from skdpsco.solvers import (
    Allowance,
    FrankWolfe,
    NoisyFrankWolfe,
    Problem,
    Stagewise,
    check_supported,
)

# Fits with a seed, for tests that can be repeated, warn that their noise is not secret.
seeded_fits = pytest.mark.filterwarnings("ignore::skdpsco._random.PrivacyWarning")

ONE = 2.0**SCALE_BITS
SOLVERS = [Stagewise(), FrankWolfe(), FrankWolfe("laplace"), NoisyFrankWolfe()]
each_solver = pytest.mark.parametrize("solver", SOLVERS, ids=["S", "FW", "FW-laplace", "NFW"])


# ------------------------------------------------------------------------------ plans


def test_allowance_subtracts():
    left = Allowance(1.0).minus(GaussianEvent(1.0))
    assert left.rho == 0.5
    assert left.mu == 1.0


@seeded_fits
@pytest.mark.parametrize("solver", ["stagewise", "frank-wolfe", "noisy-frank-wolfe"])
def test_what_is_planned_does_not_depend_on_the_data(solver):
    rng = np.random.default_rng(0)
    seen = set()
    for X in (np.zeros((300, 4)), rng.uniform(-1, 1, (300, 4)), np.full((300, 4), 1e6)):
        for y in (np.arange(300) % 2, X[:, 0] > 0):
            model = PrivateLogisticL1(
                epsilon=1.0, radius=2.0, solver=solver, classes=[0, 1], random_state=0
            )
            model.fit(X, y.astype(int))
            seen.add((model.privacy_.event, model.n_iter_, model.privacy_.rho))
    assert len(seen) == 1


@each_solver
def test_noise_falls_as_epsilon_grows(solver):
    problem = Problem(Logistic(), L1Ball(2.0), 500, 20)
    plans = [solver.plan(problem, Budget(e, 1e-6), 10) for e in (0.01, 0.1, 1.0, 10.0, 100.0)]
    if isinstance(solver, NoisyFrankWolfe):
        noise = [plan.grid for plan in plans]
    else:
        noise = [plan.path.grid for plan in plans]
    assert (np.diff(noise, axis=0) < 0).all()
    if isinstance(solver, Stagewise):
        assert (np.diff([plan.mu for plan in plans]) > 0).all()
        problem = dataclasses.replace(problem, constraint=None)
        plans = [solver.plan(problem, Budget(e, 1e-6), 10) for e in (0.01, 0.1, 1.0)]
        assert (np.diff([plan.path.stop_grid for plan in plans]) < 0).all()


@each_solver
def test_noise_falls_as_one_over_n(solver):
    """Grids are those of sums over records: the mean's noise is n times smaller."""
    grids = []
    for n in (1000, 10_000):
        plan = solver.plan(Problem(Logistic(), L1Ball(2.0), n, 20), Budget(1.0, 1e-6), 10)
        grids.append(plan.grid if isinstance(solver, NoisyFrankWolfe) else plan.path.grid)
    assert grids[0] == pytest.approx(grids[1], rel=1e-6)


@pytest.mark.parametrize(
    ("solver", "loss", "constraint", "message"),
    [
        (
            FrankWolfe(),
            Logistic(),
            L2Ball(1.0),
            "FrankWolfe needs the kernel `n_vertices`, which the constraint L2Ball does not "
            "implement.",
        ),
        (
            Stagewise(),
            Logistic(),
            Simplex(1.0),
            "Stagewise needs an L1Ball as constraint, or None for a radius yet to be chosen; got "
            "Simplex.",
        ),
        (
            NoisyFrankWolfe(),
            L1Ball(1.0),
            L1Ball(1.0),
            "NoisyFrankWolfe needs the kernel `derivative` or `derivatives`, which the loss "
            "L1Ball does not implement.",
        ),
    ],
)
def test_what_solvers_cannot_do_is_named(solver, loss, constraint, message):
    with pytest.raises(TypeError) as caught:
        check_supported(solver, Problem(loss, constraint, 10, 2))
    assert str(caught.value) == message


def test_supported_combinations_pass():
    check_supported(FrankWolfe(), Problem(Squared(), L1Ball(1.0), 10, 2))
    for loss in (Squared(1.0), Huber(), Logistic(), SmoothHinge(), Multinomial(3)):
        for constraint in (L1Ball(1.0), Simplex(1.0), Polytope(np.eye(2 * loss.n_outputs))):
            check_supported(FrankWolfe(), Problem(loss, constraint, 10, 2))
            check_supported(NoisyFrankWolfe(), Problem(loss, constraint, 10, 2))
        check_supported(NoisyFrankWolfe(), Problem(loss, L2Ball(1.0), 10, 2))
        check_supported(Stagewise(), Problem(loss, None, 10, 2))


@each("n", [10, 1000])
@each("T", [1, 7, 100])
@each("loss", [Squared(1.0), Logistic(), Multinomial(3), SmoothHinge(0.5)])
def test_frank_wolfe_has_the_textbook_scale(loss, T, n):
    """(2 L c / n) sqrt(T / (2 rho)) for Gumbel noise, (2 L c / n) sqrt(2 T / rho) for Laplace."""
    c, budget = 1.7, Budget(1.0, 1e-6)
    problem = Problem(loss, L1Ball(c), n, 5)
    for solver, factor in (
        (FrankWolfe(), math.sqrt(T / (2 * budget.rho))),
        (FrankWolfe("laplace"), math.sqrt(2 * T / budget.rho)),
    ):
        plan = solver.plan(problem, budget, T)
        for t, grid in enumerate(plan.path.grid):
            # The first step starts from 0, where slopes are smaller.
            L = loss.lipschitz(0.0 if t == 0 else c, 1.0)
            assert grid * ONE / n == pytest.approx(2 * L * c / n * factor, rel=0.01)


def test_noisy_frank_wolfe_has_the_textbook_scale():
    n, d, T, budget = 300, 7, 20, Budget(1.0, 1e-6)
    plan = NoisyFrankWolfe().plan(Problem(Logistic(), L2Ball(1.0), n, d), budget, T)
    expected = 2 * math.sqrt(d) / n * math.sqrt(T) / budget.mu
    assert [g * ONE / n for g in plan.grid] == pytest.approx([expected] * T, rel=0.01)
    assert plan.step[0] == 1.0
    assert plan.step == pytest.approx([2 / (t + 2) for t in range(T)])


def laplace_win(gap):
    """P(s + Laplace > s' + Laplace') of unit scale, gap = s - s'."""
    tail = math.exp(-abs(gap)) * (2 + abs(gap)) / 4
    return 1 - tail if gap > 0 else tail


def test_laplace_win_by_simulation():
    rng = np.random.default_rng(0)
    for gap in (-2.0, 0.3):
        wins = (gap + rng.laplace(size=100_000) > rng.laplace(size=100_000)).sum()
        assert stats.binomtest(int(wins), 100_000, laplace_win(gap)).pvalue > 1e-7


def exact_delta(loss_range, gap, T, epsilon):
    """Delta of T noisy choices between two vertices; their scores move by ``loss_range``."""
    wins = np.arange(T + 1)
    p = stats.binom.pmf(wins, T, laplace_win(gap + loss_range / 2))
    q = stats.binom.pmf(wins, T, laplace_win(gap - loss_range / 2))
    return np.maximum(p - math.exp(epsilon) * q, 0.0).sum()


def test_printed_scale_is_too_small_if_a_record_is_replaced():
    """L c sqrt(8 T log(1 / delta)) / (n epsilon) gives every step four times its budget.

    Replacing a record moves every score by up to 2 L c / n, so the difference of two scores by up
    to 4 L c / n. Over T steps the law is binomial: delta is computed, not estimated.
    """
    T, epsilon, delta = 1000, 8.0, 1e-3
    printed = math.sqrt(8 * T * math.log(1 / delta)) / epsilon  # in units of L c / n
    moved = 4 / printed
    # One step: with a large gap the log-ratio reaches all of it.
    loss = math.log(laplace_win(-400 + moved) / laplace_win(-400))
    assert loss == pytest.approx(4 * epsilon / math.sqrt(8 * T * math.log(1 / delta)), rel=0.01)
    # All steps, each at the same gap 0, which is not even the worst case.
    assert exact_delta(moved, 0.0, T, epsilon) > 1.5 * delta
    # The scale of FrankWolfe("laplace") keeps to the budget at every gap.
    n, c = 1000, 1.0
    problem = Problem(Squared(1.0), Simplex(c), n, 2)
    grid = FrankWolfe("laplace").plan(problem, Budget(epsilon, delta), T).path.grid[-1]
    ours = 4 * c / (grid * ONE)  # L = 1
    for gap in (-8.0, -3.0, -1.0, 0.0, 1.0):
        assert exact_delta(ours, gap, T, epsilon) <= delta
    assert exact_delta(4 * ours, 0.0, T, epsilon) > delta  # the test would notice


# ------------------------------------------------------------------------------ convergence
# Noise is negligible at these budgets, so that what is left is the error of the optimisation.

HUGE = 1e8


def regression(n=2000):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 8))
    y = X @ [2, -1, 0.5, 0, 0, 0, 1, 0] + 0.3 + 0.1 * rng.normal(size=n)
    return X, y


def classification(n_classes, n=3000):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 6))
    W = np.array([[2, -1.5, 0.5, 0, 0, 1], [0, 0, 0, 0, 0, 0], [0, 1, 0, 1, -0.5, 0]])
    return X, (X @ W[:n_classes].T + rng.gumbel(size=(n, n_classes))).argmax(axis=1)


@seeded_fits
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(
    ("parameters", "tolerance", "alpha"),
    [
        *(({}, 0.003, alpha) for alpha in (0.05, 0.01, 1e-4)),
        *(({"n_iter": 100}, 0.01, alpha) for alpha in (0.05, 0.01, 1e-4)),  # coordinates: selected
        ({"solver": "frank-wolfe", "n_iter": 2000}, 0.01, 0.05),
        ({"solver": "frank-wolfe-laplace", "n_iter": 2000}, 0.01, 0.01),
        ({"solver": "noisy-frank-wolfe", "n_iter": 2000}, 0.01, 1e-4),
    ],
)
def test_lasso_without_noise_is_that_of_scikit_learn(parameters, tolerance, alpha, fit_intercept):
    X, y = regression()
    if fit_intercept:
        # Its l1 norm counts in the ball of some solvers: then a large ball, or none.
        y = y - Lasso(alpha=alpha, tol=1e-10).fit(X, y).intercept_
    exact = Lasso(alpha=alpha, tol=1e-10, fit_intercept=fit_intercept).fit(X, y)
    model = PrivateLasso(
        epsilon=HUGE,
        radius=np.abs(exact.coef_).sum(),
        target_bound=5.0,
        fit_intercept=fit_intercept,
        random_state=0,
        **parameters,
    ).fit(X, y)
    assert model.coef_ == pytest.approx(exact.coef_, abs=tolerance)
    assert model.intercept_ == pytest.approx(exact.intercept_, abs=0.02)


@seeded_fits
def test_lasso_without_noise_finds_its_radius():
    X, y = regression()
    exact = Lasso(alpha=1e-5, tol=1e-10).fit(X, y)
    model = PrivateLasso(epsilon=HUGE, target_bound=5.0, random_state=0).fit(X, y)
    assert model.coef_ == pytest.approx(exact.coef_, abs=0.003)


def reference(X, y, C):
    """Coefficients of scikit-learn's logistic regression; of the softmax, centred."""
    if C == np.inf:
        model = LogisticRegression(C=C, tol=1e-10, fit_intercept=False, max_iter=5000)
    else:
        renamed = LogisticRegression().penalty == "deprecated"  # since scikit-learn 1.8
        model = LogisticRegression(
            C=C, solver="saga", tol=1e-8, fit_intercept=False, max_iter=20_000
        ).set_params(**({"l1_ratio": 1} if renamed else {"penalty": "l1"}))
    return model.fit(X, y).coef_


@seeded_fits
@pytest.mark.parametrize(
    ("parameters", "C", "tolerance", "n_classes"),
    [
        *(({}, C, 0.003, k) for C in (np.inf, 0.06, 0.005) for k in (2, 3)),
        *(({"n_iter": 300}, 0.06, 0.02, k) for k in (2, 3)),  # coordinates are selected
        ({"solver": "frank-wolfe", "n_iter": 3000}, 0.06, 0.02, 3),
        ({"solver": "noisy-frank-wolfe", "n_iter": 3000}, 0.005, 0.02, 2),
    ],
)
def test_logistic_without_noise_is_that_of_scikit_learn(n_classes, parameters, C, tolerance):
    X, y = classification(n_classes)
    exact = reference(X, y, C)
    model = PrivateLogisticL1(
        epsilon=HUGE,
        radius=np.abs(exact).sum(),
        fit_intercept=False,
        random_state=0,
        **parameters,
    ).fit(X, y)
    found = model.coef_
    if n_classes > 2:  # the softmax does not see a shift of all classes
        found, exact = found - found.mean(axis=0), exact - exact.mean(axis=0)
    assert found == pytest.approx(exact, abs=tolerance)


@seeded_fits
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_in_a_large_ball_is_not_regularised(n_classes):
    X, y = classification(n_classes)
    y[X[:, 0] > 0.5] = 0  # an intercept is needed
    exact = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000).fit(X, y)
    model = PrivateLogisticL1(epsilon=HUGE, radius=50.0, random_state=0).fit(X, y)
    coef, intercept = model.coef_, model.intercept_
    if n_classes > 2:
        coef, intercept = coef - coef.mean(axis=0), intercept - intercept.mean()
    assert coef == pytest.approx(exact.coef_, abs=0.01)
    assert intercept == pytest.approx(exact.intercept_, abs=0.01)


def solve(solver, problem, X, y, n_iter, seed=0, epsilon=HUGE):
    plan = solver.plan(problem, Budget(epsilon, 1e-6), n_iter)
    design = as_design(X, np.ones(X.shape[1]), problem.intercept)
    rng = np.random.Generator(np.random.PCG64(seed))
    return solver.run(plan, problem, design, y, rng, np.zeros(1, dtype=np.int64))


# ------------------------------------------------------------------------------ stages


def test_stages_follow_from_public_sizes():
    budget = Budget(1.0, 1e-6)

    def plan(n, d, **kwargs):
        return Stagewise().plan(Problem(Logistic(), L1Ball(3.0), n, d, **kwargs), budget)

    few = plan(10**5, 10)
    assert few.path is None
    assert few.all_coordinates
    many = plan(10**4, 10**4)
    assert many.path is not None
    assert many.mu > 0.0
    nothing = plan(10, 10**4)
    assert nothing.event == NoOpEvent()
    intercept = plan(10, 10**4, intercept=True)
    assert not intercept.all_coordinates
    assert intercept.mu == budget.mu


def test_all_coordinates_are_fitted_if_gradients_tell_enough_of_each():
    problem = Problem(Squared(1.0), None, 4000, 200, centred=True, mean_square=(0.1,) * 200)

    def plan(ratio, n_iter=None):  # of n mu to the number of features
        return Stagewise().plan(problem, Allowance(0.5 * (ratio / 20.0) ** 2), n_iter)

    assert plan(11.9).probe is not None
    assert plan(12.1, n_iter=20).path is not None
    assert plan(12.1).all_coordinates
    assert plan(12.1).clips_gradients


def test_without_a_plan_nothing_is_read():
    """A fit that can afford nothing returns zeros, whatever the data."""
    problem = Problem(Logistic(), L1Ball(3.0), 10, 1000)
    X = np.random.default_rng(0).uniform(-1, 1, (10, 1000))
    result = solve(Stagewise(), problem, X, np.ones(10), None, epsilon=1e-3)
    assert not result.coef.any()


@seeded_fits
def test_path_ends_at_the_solution_and_grows():
    X, y = regression()
    with pytest.warns(PrivacyWarning):
        model = PrivateLasso(epsilon=10.0, radius=3.0, target_bound=5.0, random_state=0).fit(X, y)
    assert model.path_.coef[0].tolist() == [0.0] * 8
    assert model.path_.coef[-1] == pytest.approx(model.coef_)
    norms = np.abs(model.path_.coef).sum(axis=1)
    assert (np.diff(norms) > 0).all()
    assert (norms <= 3.0 + 1e-9).all()
