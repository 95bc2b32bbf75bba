"""The maximal loss of a linear model: gradients, bends and values are what the game says."""

import itertools

import numpy as np
import pytest
from cases import costs_nothing, each
from stand_ins import Declared

from skdpsco import PrivateMinimaxRegressor
from skdpsco.losses import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    Quantile,
    SmoothHinge,
    Squared,
    derivative,
    value,
)
from skdpsco.solvers.saddle.geometry import Geometry
from skdpsco.variational import MaximalLoss, duality_gap, solve_variational_inequality
from skdpsco.variational.clipped_operator import check_operator
from skdpsco.variational.loss_tasks import PreparedBall, PreparedVertices
from skdpsco.variational.solve import _clipped

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")

F = 3
SMOOTH = {  # each is made where it is used, as it probes its losses
    "logistic": lambda: MaximalLoss(Logistic(), F, 2.0),
    "multinomial": lambda: MaximalLoss(Multinomial(3), F, 2.0, weight_bounds=[1.0, 2.0, 4.0]),
}
WEIGHTED = "logistic, smooth hinge, weighted"
GAMES = {
    **SMOOTH,
    "squared": lambda: MaximalLoss(
        [Squared(), Squared(0.5)], F, 1.5, n_targets=2, target_bound=0.7
    ),
    WEIGHTED: lambda: MaximalLoss([Logistic(), SmoothHinge()], F, 2.0, weight_bounds=[2.0, 5.0]),
    "huber": lambda: MaximalLoss(Huber(0.3), F, n_targets=3),
}
KINKS = {
    "hinge": lambda: MaximalLoss([Hinge(), Logistic()], F, 2.0),
    "quantile": lambda: MaximalLoss([Quantile(0.3), Absolute()], F, 1.0, n_targets=2),
}


def games(*makers):
    makers = {name: make for group in makers for name, make in group.items()}
    return pytest.mark.parametrize("game", makers.values(), ids=makers, indirect=True)


@pytest.fixture
def game(request):
    return request.param()


def records(game, n, rng):
    X = rng.uniform(-1, 1, (n, F))
    T = rng.uniform(-1, 1, (n, game.n_targets)) * game.target_bound
    if game.n_outputs > 1:
        T = rng.integers(0, game.n_outputs, (n, 1)).astype(float)
    elif isinstance(game.losses[0], (Logistic, Hinge)):
        T = np.sign(T)
    data = X, T
    if game.n_arrays == 3:
        data += (rng.uniform(0, 1, (n, len(game.weight_bounds))) * game.weight_bounds,)
    return data


def somewhere(game, rng, concentration=1.0):
    return np.concatenate([rng.dirichlet(np.full(b.size, concentration)) for b in game.blocks])


def reference(game, z, data):
    """Payoffs in plain Python."""
    size = game.n_coefficients
    W = game.radius * (z[:size] - z[size : 2 * size]).reshape(game.n_outputs, F)
    y = z[2 * size :]
    found = []
    for i, x in enumerate(data[0]):
        weights = data[2][i] if game.n_arrays == 3 else [1.0]
        tasks = itertools.product(game.losses, data[1][i], weights)
        payoff = 0.0
        for share, (loss, t, weight) in zip(y, tasks, strict=True):
            if isinstance(loss, Multinomial):
                level = np.logaddexp.reduce(W @ x) - (W @ x)[int(t)]
            else:
                level = value(loss, float(W[0] @ x), t)
            payoff += share * weight * (level - game.centre)
        found.append(payoff)
    return np.array(found)


@games(GAMES, KINKS)
def test_values(game):
    rng = np.random.default_rng(0)
    data, z = records(game, 7, rng), somewhere(game, rng)
    assert game.value(z, *data) == pytest.approx(reference(game, z, data), abs=1e-12)
    assert np.abs(game.value(z, *data)).max() <= game.value_bound


@games(GAMES)
def test_gradients_are_those_of_the_values(game):
    rng = np.random.default_rng(1)
    data, z = records(game, 50, rng), somewhere(game, rng)
    total = game.total(z, data)
    rows = game(z, *data)
    assert total == pytest.approx(rows.sum(axis=0), abs=1e-9)
    x_size = game.blocks[0].size
    for j in range(len(z)):
        up, down = z.copy(), z.copy()
        up[j] += 1e-6
        down[j] -= 1e-6
        slope = (game.value(up, *data).sum() - game.value(down, *data).sum()) / 2e-6
        if j >= x_size and game.n_tasks == 1:
            slope = 0.0  # nothing to choose
        assert total[j] == pytest.approx(slope if j < x_size else -slope, abs=2e-4)


@games(GAMES)
def test_monotone_smooth_and_within_bounds_on_probes(game):
    """All of what an operator declares, tried by the check that users' operators may have."""
    rng = np.random.default_rng(2)
    wrapped = _clipped(game)
    assert wrapped.monotone
    assert wrapped.game is not None
    check_operator(wrapped, Geometry(game.blocks), records(game, 40, rng))


@pytest.mark.parametrize("target", [2.0, 0.5, 0.0, -0.3])
@pytest.mark.parametrize("losses", [Logistic(), SmoothHinge(0.5), [Logistic(), SmoothHinge()]])
def test_targets_that_are_no_labels_count_by_their_sign(losses, target):
    """The constants of these losses are for -1 and 1, and so is the logistic kernel."""
    game = MaximalLoss(losses, F, 4.0, target_bound=2.0)
    rng = np.random.default_rng(7)
    X = rng.uniform(-1, 1, (30, F))
    data = X, np.full(30, target)
    check_operator(_clipped(game), Geometry(game.blocks), data)
    z = somewhere(game, rng)
    labels = np.full(30, 1.0 if target > 0 else -1.0)
    assert np.array_equal(game.total(z, data), game.total(z, (X, labels)))


def test_a_steep_derivative_is_not_declared_monotone():
    """Rounding of the predictions would move it by more than solvers expect."""
    assert MaximalLoss(SmoothHinge(0.01), F, 5.0).monotone
    assert not MaximalLoss(SmoothHinge(1e-6), F, 5.0).monotone
    assert not MaximalLoss(Squared(1.0), F, 1e5).monotone


@games(SMOOTH)
def test_second_smoothness(game):
    rng = np.random.default_rng(3)
    x_size, worst = game.blocks[0].size, 0.0
    corners = np.array(list(itertools.product([-1.0, 1.0], repeat=F)))
    for _ in range(200):
        data = records(game, len(corners), rng)
        data = (corners, *data[1:])
        z, other = (somewhere(game, rng, 0.3) for _ in "ab")
        for part in (slice(0, x_size), slice(x_size, None))[: min(game.n_tasks, 2)]:
            u = np.zeros(len(z))
            u[part] = other[part] - z[part]
            h = np.abs(u).sum()
            if h < 0.1:
                continue  # rounding is all that would be seen
            # Second differences along u: at most second_smoothness times the squared length.
            t = 0.1
            # (z - t u would leave the simplex, where slopes are clipped.)
            bend = game(z + 2 * t * u, *data) - 2 * game(z + t * u, *data) + game(z, *data)
            worst = max(worst, np.abs(bend).max() / (t * h) ** 2)
    assert worst <= game.second_smoothness * (1 + 1e-6)
    assert worst > (0.1 if game.n_tasks > 1 else 0.02) * game.second_smoothness


def test_what_is_not_smooth_says_so():
    for make in KINKS.values():
        game = make()
        assert game.smoothness is None
        assert game.second_smoothness is None
    assert MaximalLoss(Huber(0.1), F).second_smoothness is None
    assert MaximalLoss(Squared(1.0), F, 1.0).second_smoothness is None  # it is linear beyond 1


def test_records_beyond_the_bounds_are_clipped():
    game, rng = GAMES[WEIGHTED](), np.random.default_rng(4)
    z = somewhere(game, rng)
    X, T = np.array([[5.0, -0.5, np.nan]]), np.array([[1.0]])
    inside = game.total(z, (np.array([[1.0, -0.5, -1.0]]), T, np.array([[2.0, 0.0]])))
    assert game.total(z, (X, T, np.array([[9.0, -3.0]]))) == pytest.approx(inside)


def test_prepared_records_are_the_same_game():
    rng = np.random.default_rng(5)
    n, shares = 60, np.array([0.3, 0.7])
    X, T = rng.uniform(-1, 1, (n, F)), np.sign(rng.normal(size=(n, 1)))
    members = np.eye(2)[rng.integers(0, 2, n)]
    losses = (Logistic(), SmoothHinge())
    public = MaximalLoss(losses, F, 2.0, weight_bounds=1.0 / shares)
    vertices = PreparedVertices(losses, F, 2.0, 1, shares)
    ball = PreparedBall(losses, F, 2.0, 1, shares)
    z = somewhere(public, rng)
    expected = public.total(z, (X, T, members / shares))
    assert vertices.total(z, (T, X, members)) == pytest.approx(expected)
    assert vertices.blocks == public.blocks
    assert vertices.value(z, T, X, members).sum() == pytest.approx(
        public.value(z, X, T, members / shares).sum()
    )
    point = np.concatenate([public.coef(z), z[2 * F :]])
    found = ball.total(point, (T, X, members)) * ball.weights(point)
    assert found[:F] * 2.0 == pytest.approx(expected[:F])  # a vertex has length 2
    assert found[F:] == pytest.approx(expected[2 * F :])
    assert (ball.weights(point)[:F] <= ball.largest_weights[0]).all()


def test_the_gap_goes_to_zero_without_noise():
    rng = np.random.default_rng(6)
    X = rng.uniform(-1, 1, (4000, F))
    y = np.stack([np.sign(X[:, 0] + 0.3), np.sign(X[:, 0] - X[:, 1])], axis=1)
    game = MaximalLoss(Logistic(), F, 2.0, n_targets=2)
    gaps = []
    for epsilon, n_iter in ((1e5, 20), (1e5, 400)):
        solution = solve_variational_inequality(
            game, (X, y), epsilon=epsilon, solver="mirror-prox", n_iter=n_iter, random_state=0
        )
        gaps.append(duality_gap(game, solution.z, X, y, tol=1e-3))
    assert gaps[1] < 0.03
    assert gaps[1] < 0.5 * gaps[0]


@each(
    ("arguments", "options", "error", "message"),
    [
        (([], F), {}, ValueError, "losses must be one or more"),
        ((Logistic, F), {}, TypeError, "losses must be"),
        (([Logistic(), Multinomial(3)], F), {}, ValueError, "the same number of predictions"),
        ((Declared(), F), {}, TypeError, "kernel|value|derivative"),
        ((Multinomial(1), F), {}, ValueError, "at least two classes"),
        (([Logistic(), Huber(-1.0)], F), {}, ValueError, "Huber"),
        (([Absolute(), Quantile(1.5)], F), {}, ValueError, "Quantile is not convex"),
        ((SmoothHinge(0.0), F), {}, ValueError, "SmoothHinge"),
        ((Logistic(), 0), {}, ValueError, "n_features"),
        ((Logistic(), F, 0.0), {}, ValueError, "radius"),
        ((Squared(), F, 1e90), {}, ValueError, "bound on"),
        ((Logistic(), F), {"n_targets": 0}, ValueError, "n_targets"),
        ((Logistic(), F), {"target_bound": -1.0}, ValueError, "target_bound"),
        ((Logistic(), F), {"weight_bounds": []}, ValueError, "weight_bounds"),
        ((Logistic(), F), {"weight_bounds": [1.0, 0.0]}, ValueError, "weight_bounds"),
        ((Logistic(), F), {"weight_bounds": ["a"]}, TypeError, "weight_bounds"),
    ],
)
def test_bad_parameters(arguments, options, error, message):
    with pytest.raises(error, match=message):
        MaximalLoss(*arguments, **options)


ROWS = np.zeros((4, F))


@each("data", [(ROWS,), (ROWS[:, 1:], np.zeros(4)), (ROWS, ROWS), (ROWS, np.zeros(4), ROWS[:, :1])])
def test_bad_data(data):
    with pytest.raises(ValueError, match="data must be"):
        solve_variational_inequality(MaximalLoss(Logistic(), F), data)


def test_a_game_that_was_changed_is_clipped_like_any_operator():
    class Longer(MaximalLoss):
        def total(self, z, data):
            return 10.0 * super().total(z, data)

    changed = MaximalLoss(Logistic(), F)
    changed.radius = 5.0
    rng = np.random.default_rng(4)
    data = records(changed, 1, rng)
    for game in (Longer(Logistic(), F), changed):
        wrapped = _clipped(game)
        assert wrapped.game is None
        z = somewhere(game, rng, 0.3)
        assert np.abs(wrapped.total(z, data)[: 2 * F]).max() <= game.blocks[0].lipschitz


class Shifted(Declared):
    """The absolute residual less 3: convex, but negative."""


class Python(Shifted):
    """The absolute residual by what Numba does not know."""


@value.register(Shifted)
def _(loss, z, y):
    return abs(z - y) - 3.0


@value.register(Python)
def _(loss, z, y):
    return eval("abs(z - y)")


@derivative.register(Shifted)
@derivative.register(Python)
def _(loss, z, y):
    return 1.0 if z > y else (-1.0 if z < y else 0.0)


@pytest.mark.parametrize(
    ("loss", "error", "message"),
    [
        (Shifted(), ValueError, "finite and not negative"),
        (Python(), TypeError, "Numba cannot compile"),
    ],
)
def test_bad_losses_cost_nothing(loss, error, message):
    X = np.random.default_rng(0).uniform(-1, 1, (50, F))
    model = PrivateMinimaxRegressor(losses=["absolute", loss])
    costs_nothing(model, message, X, X[:, 0], error=error)
