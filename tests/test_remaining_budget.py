"""Draws of the exponential mechanism on the Gaussian curve, and what they leave to a fit."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from cases import each
from scipy import special

from skdpsco.constraints import L1Ball, LpBall
from skdpsco.linear_model import PrivateElasticNet, PrivateLasso, PrivateLogisticRegression
from skdpsco.losses import Hinge, Logistic, Multinomial, Squared
from skdpsco.penalties import L2
from skdpsco.privacy import (
    Budget,
    ExponentialMechanismEvent,
    GaussianEvent,
    Ledger,
    NoOpEvent,
    RepeatedEvent,
    SamplerErrorEvent,
    ZCDPEvent,
    allows,
    compose,
    delta_of,
    epsilon_of,
    gdp_of,
    is_gaussian,
    mu_of,
    pure_epsilon_of,
    rho_of,
)
from skdpsco.privacy.events import leaves
from skdpsco.privacy.spending import worst_of
from skdpsco.solvers import Allowance, Problem, Remainder, check_cost
from skdpsco.solvers.l1.frank_wolfe import NoisyFrankWolfe
from skdpsco.solvers.lp_ball.phased_erm import PhasedERM
from skdpsco.solvers.lp_ball.phased_sgd import PhasedSGD
from skdpsco.solvers.newton_step import NewtonStep
from skdpsco.solvers.penalized.coordinate_descent import CoordinateDescent
from skdpsco.solvers.penalized.gradient_descent import GradientDescent
from skdpsco.solvers.penalized.problem import CompositeProblem
from skdpsco.solvers.penalized.sgd import SGD

EPSILONS = (1e-3, 0.1, 0.5, 1.0, 3.0, 10.0)


def gaussian_curve(alpha, mu):
    """Least type II error of a test of N(0, 1) against N(mu, 1) with type I error alpha."""
    return special.ndtr(-special.ndtri(alpha) - mu)


def curve(p, q):
    """Corners of the trade-off function of q against p: both errors of likelihood ratio tests."""
    order = np.argsort(-p / q, kind="stable")
    alpha, power = (np.concatenate([[0.0], np.cumsum(x[order])]) for x in (q, p))
    return alpha, 1.0 - power


def is_above(p, q, mu):
    """Whether both trade-off functions are above the Gaussian one, corners and what is between."""
    for alpha, beta in (curve(p, q), curve(q, p)):
        between = np.linspace(0.0, 1.0, 23)[:, None]
        a = (between * alpha[1:] + (1.0 - between) * alpha[:-1]).ravel()
        b = (between * beta[1:] + (1.0 - between) * beta[:-1]).ravel()
        if not (b >= gaussian_curve(np.clip(a, 0.0, 1.0), mu) - 1e-12).all():
            return False
    return True


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_two_outcomes_are_above_the_gaussian_curve(epsilon):
    """All extreme pairs of bounded range, and the one that reaches the curve."""
    mu = gdp_of(ExponentialMechanismEvent(epsilon))
    assert mu <= math.sqrt(2.0 * math.pi) / 4.0 * epsilon * (1 + 1e-13)
    largest = 0.0
    for logit in np.linspace(-epsilon / 2 - 12.0, -epsilon / 2 + 12.0, 401):
        q, p = special.expit(logit), special.expit(logit + epsilon)
        pair = np.array([p, special.expit(-logit - epsilon)]), np.array([q, special.expit(-logit)])
        assert is_above(*pair, mu)
        largest = max(largest, special.ndtri(p) - special.ndtri(q))
    assert mu * (1 - 1e-7) <= largest <= mu * (1 + 1e-10)  # logits of -+epsilon / 2 are among them
    half = special.expit(np.array([epsilon / 2, -epsilon / 2]))
    assert not is_above(half, half[::-1], mu * 0.99)


def test_the_exponential_mechanism_is_above_the_gaussian_curve():
    """With any number of outcomes; half of the range would not be enough."""
    rng, worst = np.random.default_rng(0), []
    for epsilon, size in itertools.product((0.2, 1.0, 4.0), (2, 3, 7)):
        mu = gdp_of(ExponentialMechanismEvent(epsilon))
        for _ in range(40):
            scores = 2.0 * rng.standard_normal(size)
            change = epsilon * rng.random(size) * (rng.random(size) < 0.5)
            change[rng.integers(size)] = epsilon
            p, q = special.softmax(scores), special.softmax(scores + change)
            assert is_above(p, q, mu)
            worst.append(is_above(p, q, 0.5 * mu))
    assert not all(worst)


def test_the_mu_of_a_draw_is_rounded_up():
    """Against ndtri, and against the series of mu where that has no digits left."""
    for epsilon in np.geomspace(1e-90, 60.0, 500).tolist():
        mu = gdp_of(ExponentialMechanismEvent(epsilon))
        exact = -2.0 * special.ndtri(special.expit(-epsilon / 2.0))
        if epsilon < 1e-2:
            x = epsilon / 2.0
            exact = math.sqrt(math.pi / 2.0) * x * (1.0 + x * x * (math.pi / 48.0 - 1.0 / 12.0))
        assert exact * (1 - 1e-8) <= mu <= exact * (1 + 1e-8)
        assert math.erfc(mu / math.sqrt(8.0)) <= 2.0 * special.expit(-epsilon / 2.0) * (1 + 1e-15)
    assert gdp_of(NoOpEvent()) == 0.0
    assert gdp_of(compose(GaussianEvent(3.0), GaussianEvent(4.0))) == pytest.approx(5.0 / 12.0)
    assert math.isfinite(gdp_of(ExponentialMechanismEvent(1e100)))


def hockey_stick(mu, epsilon):
    """Hockey-stick divergence of N(mu, 1) from N(0, 1), also for epsilon < 0."""
    return special.ndtr(mu / 2 - epsilon / mu) - np.exp(
        epsilon + special.log_ndtr(-mu / 2 - epsilon / mu)
    )


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 6.0])
def test_draws_and_noise_together_keep_to_the_budget(epsilon):
    """The exact delta of two draws between two outcomes each, then Gaussian noise."""
    budget = Budget(epsilon, 1e-5)
    draw = ExponentialMechanismEvent(math.sqrt(8.0 * 0.05 * budget.rho))
    rest, deltas = Remainder(budget, RepeatedEvent(draw, 2)), []
    logits = -draw.epsilon0 / 2 + np.array([-8.0, -3.0, -1.0, -0.2, 0.0, 0.2, 1.0, 3.0, 8.0])
    for first, second in itertools.product(logits, repeat=2):
        pairs = [
            [special.expit([s * (x + up) for s in (1, -1)]) for x in (first, second)]
            for up in (draw.epsilon0, 0.0)
        ]
        p, q = (np.outer(*pair).ravel() for pair in pairs)
        for one, other in ((p, q), (q, p)):
            sticks = hockey_stick(rest.mu, epsilon - np.log(one / other))
            deltas.append(float(one @ sticks))
    assert max(deltas) <= budget.delta
    assert max(deltas) > 0.4 * budget.delta  # the noise alone has less than all of mu


# ------------------------------------------------------------------------------ what is left


@each("epsilon", [0.05, 1.0, 8.0])
@each("share", [0.0, 0.06, 0.11, 0.9])
def test_a_remainder_is_spent_and_not_more(epsilon, share):
    budget = Budget(epsilon, 1e-6)
    spent = NoOpEvent()
    if share > 0.0:
        draw = ExponentialMechanismEvent(math.sqrt(8.0 * share * budget.rho / 2.0))
        spent = RepeatedEvent(draw, 2)
        assert Remainder(budget, draw).minus(draw) == Remainder(budget, spent)
    rest = Remainder(budget, NoOpEvent()).minus(spent)
    event = GaussianEvent(1.0 / rest.mu)
    check_cost(event, rest)
    assert delta_of(compose(spent, event), budget.epsilon) <= budget.delta
    assert epsilon_of(compose(spent, event), budget.delta) >= epsilon * (1 - 1e-6)
    with pytest.raises(ValueError, match="its budget is"):
        check_cost(GaussianEvent(0.999 / rest.mu), rest)
    assert rest.rho == pytest.approx((1.0 - share) * budget.rho, rel=1e-9)
    check_cost(ZCDPEvent(rest.rho), rest)
    assert allows(rest, ZCDPEvent(rest.rho * (1 - 1e-9)))
    assert not allows(rest, ZCDPEvent(rest.rho * 1.01))
    if 0.0 < share < 0.2:  # few draws: less noise than in zCDP
        assert rest.mu > 1.02 * math.sqrt(2.0 * rest.rho)


SIZES = [(500, 8), (10**5, 40)]


def composite(loss, n, d, size):
    return CompositeProblem(
        loss, None, n, d + 1, True, penalty=L2(0.01), unit=(size,) * d + (0.0,), weight=size**-2.0
    )


@pytest.mark.parametrize("solver", [GradientDescent(), CoordinateDescent(), SGD()])
@pytest.mark.parametrize("loss", [Logistic(), Multinomial(3), Squared()])
def test_a_fixed_cost_does_not_depend_on_units(solver, loss):
    assert solver.fixed_cost
    if isinstance(loss, Squared):
        loss = Squared(1.0)
    for n, d in SIZES:
        rest = Remainder(Budget(1.0, 1e-6), ExponentialMechanismEvent(0.05))
        problems = [composite(loss, n, d, size) for size in (1e-9, 1.0, 1e9)]
        plans = [solver.plan(problem, rest) for problem in problems]
        assert len({plan.event for plan in plans}) == 1
        if getattr(solver, "fixed_plan", False):
            assert plans[0] == plans[1] == plans[2]


def test_a_fixed_plan_does_not_depend_on_what_is_found():
    rest = Remainder(Budget(1.0, 1e-6), ExponentialMechanismEvent(0.05))
    solvers = GradientDescent(), GradientDescent(shrunk=True), NewtonStep(GradientDescent())
    for solver, loss, (n, d) in itertools.product(solvers, (Logistic(), Squared(1.0)), SIZES):
        assert solver.fixed_plan
        problems = [
            dataclasses.replace(
                composite(loss, n, d, size), centred=True, mean_square=(square,) * d
            )
            for size in (1e-9, 1e9)
            for square in (1e-6, 1.0)
        ]
        plans = [solver.plan(problem, rest) for problem in problems]
        assert all(plan == plans[0] for plan in plans)


@each("solver", [NoisyFrankWolfe(), PhasedERM(), PhasedERM("localised"), PhasedSGD()])
def test_a_fixed_cost_does_not_depend_on_the_set(solver):
    assert solver.fixed_cost
    for n, d in SIZES:
        rest = Remainder(Budget(1.0, 1e-6), ExponentialMechanismEvent(0.05))
        balls = [LpBall(2.0, r) for r in (1e-3, 1.0, 1e3)]
        problems = [Problem(Logistic(), ball, n, d) for ball in balls]
        assert len({solver.plan(problem, rest).event for problem in problems}) == 1
    problems = [Problem(Hinge(), L1Ball(r), 2000, 5) for r in (1e-3, 1.0, 1e3)]
    smoothing = PhasedERM(smoothing="randomised")
    assert len({smoothing.plan(problem, rest).event for problem in problems}) == 1


# ------------------------------------------------------------------------------ estimators

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (2000, 3))
TARGET = X @ [1.0, -1.0, 0.5] + 0.1 * RNG.standard_normal(2000)
LABELS = TARGET > 0.0
quiet = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")


@quiet
@each(
    ("model", "y"),
    [
        *((PrivateElasticNet(target_bound=4.0, feature_bound=b), TARGET) for b in (None, 1.0)),
        (PrivateLogisticRegression(feature_bound=None), LABELS),
    ],
)
def test_fits_with_private_bounds_keep_to_the_gaussian_curve(model, y):
    model.set_params(random_state=0).fit(X, y)
    event = model.privacy_.event
    assert is_gaussian(event)
    assert model.epsilon * (1 - 1e-6) <= epsilon_of(event, model.delta) <= model.epsilon
    assert mu_of(event) == pytest.approx(Budget(1.0, 1e-6).mu, rel=1e-6)


@quiet
def test_with_a_ledger_all_counts_in_zcdp():
    ledger = Ledger(1.0, 1e-6)
    model = PrivateElasticNet(target_bound=4.0, feature_bound=None, ledger=ledger, random_state=0)
    model.fit(X, TARGET)
    rho = rho_of(model.privacy_.event)
    assert 0.999 * Budget(1.0, 1e-6).rho <= rho <= Budget(1.0, 1e-6).rho


@quiet
def test_a_plan_that_follows_from_a_release_stays_in_zcdp():
    """A radius in units of the target: another scale, another number of steps."""
    model = PrivateLasso(radius=1.0, target_bound=4.0, random_state=0).fit(X, TARGET)
    parts = [leaf for leaf, _ in leaves(model.privacy_.event)]
    assert any(type(leaf) is ZCDPEvent for leaf in parts)
    free = PrivateLasso(target_bound=4.0, random_state=0).fit(X, TARGET)  # the radius is "auto"
    assert not any(type(leaf) is ZCDPEvent for leaf, _ in leaves(free.privacy_.event))


class Fickle(CoordinateDescent):
    """Promises a cost that does not depend on units, and breaks it once the target has a scale."""

    def plan(self, problem, budget, n_iter=None):
        plan = super().plan(problem, budget, n_iter)
        if problem.unit[0] > 1e-3 and problem.unit[0] < 1e3:
            plan = dataclasses.replace(plan, event=compose(plan.event, GaussianEvent(1e6)))
        return plan


@quiet
def test_a_solver_that_breaks_its_promise_fails():
    model = PrivateElasticNet(solver=Fickle(), feature_bound=None, random_state=0, alpha=0.01)
    with pytest.raises(RuntimeError, match="do not cost the same"):
        model.fit(X, TARGET)
    assert not hasattr(model, "coef_")


def test_an_allowance_stays_in_zcdp():
    allowance = Allowance(0.02).minus(ExponentialMechanismEvent(0.1))
    assert allowance.mu == math.sqrt(2.0 * allowance.rho)


def test_the_worst_of_two_costs_covers_both():
    """In both currencies: neither rho alone nor the Gaussian curve alone compares them."""
    noise, draw = GaussianEvent(2.0**-0.5), ExponentialMechanismEvent(2.53)
    worst = worst_of((noise, draw))
    assert worst == worst_of((draw, noise)) == ZCDPEvent(rho_of(noise))
    for delta, cost in itertools.product((1e-9, 1e-3, 0.1), (noise, draw)):
        assert epsilon_of(worst, delta) >= epsilon_of(cost, delta)
    assert worst_of((noise, GaussianEvent(9.0), ExponentialMechanismEvent(0.01))) == noise
    many, one = RepeatedEvent(ExponentialMechanismEvent(0.1), 100), ExponentialMechanismEvent(1.05)
    assert rho_of(one) > rho_of(many)
    assert gdp_of(one) > gdp_of(many)  # but with delta = 0 the many cost ten times as much
    assert worst_of((many, one)) == ZCDPEvent(rho_of(one))


def covers(curve, worst, costs):
    """Whether a cost is at least that of others at every epsilon, by a curve of delta."""
    epsilons = (0.01, 0.1, 0.5, 1.0, 2.0, 5.0)
    return all(curve(worst, e) >= curve(cost, e) for e in epsilons for cost in costs)


def test_a_third_currency_is_compared_too():
    """Pure privacy: docs/proofs/boosted_mirror_descent.md."""
    noise, draw = GaussianEvent(2.0), ExponentialMechanismEvent(1.0)
    assert rho_of(draw) >= rho_of(noise)
    assert gdp_of(draw) >= gdp_of(noise)
    worst = worst_of((noise, draw))

    def by_three(event, epsilon):
        return 0.0 if epsilon >= pure_epsilon_of(event) else delta_of(event, epsilon)

    for curve in (delta_of, by_three):
        assert covers(curve, worst, (noise, draw))
    assert not covers(by_three, draw, (noise, draw))


def test_the_worst_of_costs_with_errors_of_samplers():
    costs = [
        compose(ZCDPEvent(0.1), SamplerErrorEvent(1e-6, 1e-12)),
        compose(ZCDPEvent(0.2), SamplerErrorEvent(1e-9, 1e-10)),
        GaussianEvent(1.0),
    ]
    for some in itertools.permutations(costs, 2):
        assert covers(delta_of, worst_of(some), some)
