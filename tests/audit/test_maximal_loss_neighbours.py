"""Maximal losses: what replacing a record may do to sums, over extreme and random neighbours."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from stand_ins import Declared

from skdpsco import PrivateMinimaxClassifier
from skdpsco.data.design import as_design
from skdpsco.losses import (
    Absolute,
    Hinge,
    Logistic,
    Multinomial,
    Quantile,
    SmoothHinge,
    Squared,
    derivative,
    value,
)
from skdpsco.minimax._solver import minimax_solver
from skdpsco.minimax._tasks import MinimaxProblem, Tasks
from skdpsco.privacy import Budget, NoOpEvent, ZCDPEvent, rho_of
from skdpsco.solvers import Allowance, MirrorProx, Plan, check_cost
from skdpsco.variational import MaximalLoss
from skdpsco.variational import loss_tasks as tasks_module
from skdpsco.variational.loss_tasks import PreparedBall, PreparedVertices

F = 3  # the last column is that of an intercept
CORNERS = [(*x, 1.0) for x in itertools.product([-1.0, 1.0], repeat=F - 1)]
CASES = [
    ((Logistic(),), 1, (0.1, 0.9)),
    ((Logistic(), Hinge(), SmoothHinge(0.5)), 1, (0.3, 0.2, 0.5)),
    ((Squared(), Absolute()), 2, None),
    ((Quantile(0.1), Quantile(0.9)), 1, None),
    ((Multinomial(3),), 1, (0.2, 0.2, 0.6)),
]
each_case = pytest.mark.parametrize(("losses", "n_targets", "shares"), CASES)
# Targets that are classes; 9 is clipped to 1.
each_weights = pytest.mark.parametrize("weights", [None, (0.1, 1.0, 1.0), (9.0, 0.5, 0.1)])
RADIUS = 4.0


def record(losses, n_targets, shares, rng):
    """An extreme record."""
    x = np.array([CORNERS[rng.integers(len(CORNERS))]])
    k = losses[0].n_outputs
    t = rng.integers(0, k, (1, 1)) if k > 1 else rng.choice([-1.0, 1.0], (1, n_targets))
    groups = () if shares is None else (np.eye(len(shares))[[rng.integers(len(shares))]],)
    return (t.astype(float), x, *groups)


def point(game, rng):
    """A vertex for each player, or a mixture of few."""
    parts = []
    for block in game.blocks:
        part = rng.dirichlet(np.full(block.size, 10.0 ** rng.uniform(-3, 0.5)))
        if rng.random() < 0.5:
            part = np.eye(block.size)[rng.integers(block.size)]
        parts.append(part)
    if isinstance(game, PreparedBall):
        parts[0] = RADIUS * parts[0] * rng.choice([-1.0, 1.0], len(parts[0]))
    return np.concatenate(parts)


def largest_changes(game, losses, n_targets, shares, rng, n_trials):
    """Largest changes of both blocks in sup norm, and of the second in l2 norm."""
    model, tasks = 0.0, 0.0
    tasks_l2 = 0.0
    size = game.blocks[0].size
    for _ in range(n_trials):
        z = point(game, rng)
        first, second = (record(losses, n_targets, shares, rng) for _ in "ab")
        change = game.total(z, first) - game.total(z, second)
        model = max(model, np.abs(change[:size]).max())
        tasks = max(tasks, np.abs(change[size:]).max())
        tasks_l2 = max(tasks_l2, float(np.linalg.norm(change[size:])))
    return model, tasks, tasks_l2


@each_case
@each_weights
def test_vertices(losses, n_targets, shares, weights):
    """Neighbours may differ in features, targets and class, and no bound is much too large."""
    given = None if shares is None else np.array(shares)
    game = PreparedVertices(losses, F, RADIUS, n_targets, given, weights)
    rng = np.random.default_rng(0)
    model, tasks, _ = largest_changes(game, losses, n_targets, shares, rng, 2000)
    bounds = [2.0 * block.lipschitz for block in game.blocks]
    assert 0.9 * bounds[0] <= model <= bounds[0] * (1 + 1e-12)
    assert 0.4 * bounds[1] <= tasks <= bounds[1] * (1 + 1e-12)


@each_case
@each_weights
def test_ball(losses, n_targets, shares, weights):
    """In units, in which one record does the same in every class; the l2 bound is of both kinds."""
    given = None if shares is None else np.array(shares)
    game = PreparedBall(losses, F, RADIUS, n_targets, given, weights)
    rng = np.random.default_rng(1)
    model, tasks, tasks_l2 = largest_changes(game, losses, n_targets, shares, rng, 2000)
    first, second = game.blocks
    assert 0.9 * 2.0 * first.lipschitz <= model <= 2.0 * first.lipschitz * (1 + 1e-12)
    assert tasks <= 2.0 * second.lipschitz * (1 + 1e-12)
    assert 0.4 * second.sensitivity <= tasks_l2 <= second.sensitivity * (1 + 1e-12)


def test_the_public_game():
    """Records far beyond the bounds, and values that are not numbers."""
    game = MaximalLoss([Logistic(), Hinge()], F, RADIUS, n_targets=2, weight_bounds=[1.0, 3.0])
    rng, size = np.random.default_rng(2), game.blocks[0].size
    wild = np.array([0.0, 1.0, -1.0, 1e300, -1e300, np.nan, np.inf])
    for _ in range(500):
        z = point(game, rng)
        totals = [
            game.total(
                z, (rng.choice(wild, (1, F)), rng.choice(wild, (1, 2)), rng.choice(wild, (1, 2)))
            )
            for _ in "ab"
        ]
        change = np.abs(totals[0] - totals[1])
        assert (change[:size] <= 2.0 * game.blocks[0].lipschitz).all()
        assert (change[size:] <= 2.0 * game.blocks[1].lipschitz).all()


class Liar(Declared):
    """Slopes and values far beyond what it declares."""


@value.register(Liar)
def _(loss, z, y):
    return 50.0 * abs(z) if abs(z) != 4.0 else 1.0  # small at the ends, where it is asked


@derivative.register(Liar)
def _(loss, z, y):
    return 50.0 * y


@pytest.mark.parametrize("made", [PreparedVertices, PreparedBall])
def test_a_loss_that_declares_too_little(monkeypatch, made):
    monkeypatch.setattr(tasks_module, "check_loss", lambda *_: None)
    losses = (Liar(1.0, 1.0), Logistic())
    game = made(losses, F, RADIUS, 1, np.array([0.5, 0.5]))
    rng = np.random.default_rng(3)
    model, tasks, _ = largest_changes(game, losses, 1, (0.5, 0.5), rng, 1000)
    assert model <= 2.0 * game.blocks[0].lipschitz * (1 + 1e-12)
    assert tasks <= 2.0 * game.blocks[1].lipschitz * (1 + 1e-12)
    assert not game.monotone


@pytest.mark.parametrize("name", ["mirror-descent", "mirror-prox", "bias-reduced-mirror-descent"])
@pytest.mark.parametrize("prior", [None, (0.2, 0.3, 0.5)])
def test_cost_is_the_budget_whatever_the_shares(name, prior):
    """What is charged, and what the run's own plan costs for very different counts."""
    tasks = Tasks((Multinomial(3),), 1, 3, prior)
    problem = MinimaxProblem(tasks, 2.0, 500, F)
    solver = minimax_solver(name, tasks)
    budget = Budget(1.0, 1e-6)
    plan = solver.plan(problem, budget, 20)
    assert rho_of(plan.event) <= (budget.mu**2 / 2) * (1 + 1e-9)
    if name != "mirror-prox":
        assert rho_of(plan.event) <= budget.rho * (1 + 1e-9)
    if prior is None:
        released = rho_of(plan.event) - plan.rest.rho
        assert released > 0.0
        for shares in ([1.0, 1e-3, 1e-3], [1.0, 1.0, 1.0], [1e-3, 1.0, 5.0]):
            game = solver.game(problem, np.array(shares) / np.sum(shares))
            inner = solver.solver.plan(game, plan.rest, plan.wanted)
            assert rho_of(inner.event) <= plan.rest.rho * (1 + 1e-9)


@pytest.mark.parametrize("prior", [None, (0.2, 0.8)])
def test_other_noise_is_not_charged_as_gaussian(prior):
    """Other noise of equal rho is less private: a solver charged as Gaussian must be so."""

    class Other(MirrorProx):
        def plan(self, problem, budget, n_iter=None):
            return replace(super().plan(problem, budget, n_iter), event=ZCDPEvent(budget.mu**2 / 2))

    budget = Budget(1.0, 1e-6)
    tasks = Tasks((Logistic(),), 1, 2, prior)
    solver = minimax_solver(Other(), tasks)
    with pytest.raises(ValueError, match=r"Gaussian noise|budget"):
        check_cost(solver.plan(MinimaxProblem(tasks, 2.0, 500, F), budget, 3).event, budget)


def test_counts_have_their_noise():
    """The standard deviation that their share of the budget buys."""
    tasks = Tasks((Multinomial(3),), 1, 3, None)
    n, rho, runs = 3000, 0.5, 400
    problem = MinimaxProblem(tasks, 1.0, n, 1)
    solver = minimax_solver("mirror-descent", tasks)
    plan = solver.plan(problem, Allowance(rho), 1)
    assert plan.counts.grid * 2.0**24 == pytest.approx(
        math.sqrt(2.0) / math.sqrt(2.0 * 0.02 * rho), rel=1e-3
    )
    # Gradient descent releases the same counts, and spends the rest.
    descent = minimax_solver("gradient-descent", tasks)
    other = descent.plan(problem, Allowance(rho), 3)
    assert other.counts == plan.counts
    check_cost(other.event, Allowance(rho))
    assert rho_of(other.event) > 0.999 * rho
    declared = MinimaxProblem(replace(tasks, prior=(0.5, 0.3, 0.2)), 1.0, n, 1)
    assert descent.plan(declared, Allowance(rho), 3).counts is None

    class Still:
        """In place of the solver: nothing is drawn but the counts."""

        def plan(self, game, budget, n_iter):
            return Plan(NoOpEvent(), 1)

        def run(self, plan, game, data, rng, progress):
            return game.geometry.start()

    solver.solver, rng = Still(), np.random.default_rng(4)
    y, X = np.repeat([0.0, 1.0, 2.0], n // 3)[:, None], np.zeros((n, 1))
    design = as_design(X, np.ones(1), False)
    shares = np.array([solver.run(plan, problem, design, y, rng).shares for _ in range(runs)])
    # A share is noisy by (noise - share * sum of noises) / n: variance s**2 (1 - 1/3) / n**2.
    expected = math.sqrt(2.0 / 3.0) * plan.counts.grid * 2.0**24 / n
    deviation = shares.std(axis=0)
    assert deviation == pytest.approx(np.full(3, expected), rel=0.2)  # 5.6 standard errors


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
def test_a_class_without_records_is_no_error():
    """With declared classes a neighbour may have lost one: it must not fail differently."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (200, 2))
    for labels in (np.zeros(200, int), np.r_[1, np.zeros(199, int)], rng.integers(0, 3, 200)):
        for solver, classes in (("auto", [0, 1]), ("auto", [0, 1, 2]), ("mirror-prox", [0, 1, 2])):
            model = PrivateMinimaxClassifier(
                classes=classes, solver=solver, n_iter=3, random_state=0
            )
            model.fit(X, np.minimum(labels, classes[-1]))
            assert np.isfinite(model.coef_).all()
