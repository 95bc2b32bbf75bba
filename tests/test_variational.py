"""solve_variational_inequality: operators of the user's own, clipped, charged, checked."""

import numpy as np
import pytest
from cases import each

from skdpsco._random import PrivacyWarning
from skdpsco.constraints import L1Ball, L2Ball, Simplex
from skdpsco.constraints.norms import conjugate
from skdpsco.constraints.sets import LpBall
from skdpsco.privacy import BudgetExceededError, Ledger
from skdpsco.solvers.saddle.geometry import Block, Geometry
from skdpsco.variational import (
    BilinearGame,
    MatrixGame,
    Operator,
    QuadraticGame,
    solve_variational_inequality,
)
from skdpsco.variational.clipped_operator import _within_block, check_operator
from skdpsco.variational.solve import VARIATIONAL_SOLVERS, _clipped

seeded_fits = pytest.mark.filterwarnings("ignore::skdpsco._random.PrivacyWarning")
PAYOFFS = np.tile([[1.0, 0.0], [0.0, 0.5]], (4_000, 1, 1))  # both play (1/3, 2/3)


def mean_operator(z, x):
    """Its solution is the mean of x, if that is in the set."""
    return z - x


BALL = (Block(L2Ball(1.0), 3, 2.0),)


def mean_of(function=mean_operator, blocks=BALL, **declared):
    return Operator(function, blocks, **{"smoothness": [[1.0]], **declared})


def points(n=4_000):
    x = np.random.default_rng(0).standard_normal((n, 3)) * 0.2 + [0.4, -0.3, 0.2]
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)


@seeded_fits
@pytest.mark.parametrize("ledger", [True, False])
def test_matrix_game(ledger):
    ledger = Ledger(1.0, 1e-6) if ledger else None
    solution = solve_variational_inequality(
        MatrixGame(2, 2), PAYOFFS, epsilon=1.0, delta=1e-6, ledger=ledger, random_state=0
    )
    np.testing.assert_allclose(solution.z, [1 / 3, 2 / 3, 1 / 3, 2 / 3], atol=0.1)
    assert [part.sum() for part in solution.blocks] == pytest.approx([1.0, 1.0])
    assert (solution.z >= 0).all()
    assert solution.privacy.seeded
    if ledger is not None:
        (charge,) = ledger.charges()
        assert charge.estimator == "solve_variational_inequality"
        assert charge.rho == pytest.approx(solution.privacy.rho)
        with pytest.raises(BudgetExceededError):
            solve_variational_inequality(
                MatrixGame(2, 2), PAYOFFS, epsilon=1.0, delta=1e-6, ledger=ledger, random_state=0
            )


@seeded_fits
@pytest.mark.filterwarnings("ignore:Recursive regularisation:skdpsco.UtilityWarning")
@pytest.mark.parametrize("solver", ["mirror-prox", "recursive-regularisation"])
def test_monotone_operator(solver):
    x = points()
    solution = solve_variational_inequality(
        mean_of(), x, epsilon=2.0, delta=1e-6, solver=solver, n_iter=50, random_state=0
    )
    # Each of the last iterates is near; a random one is among the first with little probability.
    assert np.linalg.norm(solution.z - x.mean(axis=0)) < 0.25
    assert solution.n_iter == 50


def test_a_seed_is_a_warning_of_the_caller():
    with pytest.warns(PrivacyWarning) as caught:
        solve_variational_inequality(mean_of(), points(50), n_iter=50, random_state=0)
    assert caught[0].filename == __file__


@each(
    "block",
    [
        Block(L2Ball(1.0), 4, 0.5),
        Block(Simplex(), 4, 0.5),
        Block(L1Ball(1.0), 4, 0.5, 0.6),
        Block(LpBall(1.5, 1.0), 4, 0.5),
        Block(Simplex(), 1, 0.5),
    ],
)
def test_records_are_clipped_to_what_the_block_declares(block):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((200, block.size)) * 10.0 ** rng.uniform(-300, 300, (200, 1))
    rows[:4] = [[np.nan], [np.inf], [1e308], [1.0]]
    rows[3, 0] = -np.inf
    with np.errstate(all="ignore"):
        clipped = _within_block(rows, block)
    assert not clipped[[0, 1, 3]].any()
    assert np.linalg.norm(clipped, conjugate(block.p), axis=1).max() <= 0.5 * (1 + 1e-14)
    longest = np.linalg.norm(clipped, axis=1).max()
    assert longest <= (block.lipschitz_l2 if block.sensitivity is None else 0.3) * (1 + 1e-14)
    inside = np.abs(rows).max(axis=1) < 1e-3
    np.testing.assert_allclose(clipped[inside], rows[inside], rtol=1e-15)


def test_a_record_cannot_move_the_sum_further_than_was_planned_for():
    x, z = points(60), np.array([0.1, 0.2, 0.3])
    operator = _clipped(Operator(lambda z, x: 1e6 * (z - x), BALL))
    before = operator.total(z, (x,))
    largest = 0.0
    for bad in (*np.eye(3) * 1e9, *-np.eye(3) * 1e9, np.zeros(3), np.full(3, 1e308)):
        y = x.copy()
        y[7] = bad
        largest = max(largest, np.linalg.norm(operator.total(z, (y,)) - before))
    assert 2.0 < largest <= 4.0 * (1 + 1e-12)  # 2 L with L = 2


@seeded_fits
def test_nothing_of_the_data_is_raised_or_warned_about():
    def fragile(z, x):
        return z + np.log(x) + 1e308 * x  # NaN, and overflow

    x = points(100)
    x[:50] *= -1
    solution = solve_variational_inequality(mean_of(fragile), x, n_iter=50, random_state=0)
    assert np.isfinite(solution.z).all()


def test_probes():
    probes = points(5)

    def check(function, blocks):
        operator = _clipped(Operator(function, blocks))
        check_operator(operator, Geometry(operator.blocks), (probes,))

    check(mean_operator, BALL)
    with pytest.raises(ValueError, match="not monotone"):
        check(lambda z, x: x - z, BALL)
    with pytest.raises(ValueError, match="lipschitz bound of block 0"):
        check(mean_operator, (Block(L2Ball(1.0), 3, 0.5),))
    # A rotation is monotone, with products of zero.
    check(lambda z, x: np.tile([z[1], -z[0], 0.0], (len(x), 1)), BALL)


def test_matrix_game_is_monotone_and_within_its_bounds():
    game = MatrixGame(3, 4, bound=0.7)
    probes = np.random.default_rng(0).uniform(-2, 2, (6, 3, 4))  # clipped
    operator = _clipped(game)
    assert operator.saddle
    check_operator(operator, Geometry(operator.blocks), (probes,))


@each(
    ("changes", "error", "match"),
    [
        ({"operator": mean_operator}, TypeError, "operator must be an Operator"),
        ({"function": 3}, TypeError, "operator"),
        ({"function": lambda z, x: z}, ValueError, "operator must return"),
        ({"function": lambda z, x: (z - x).astype(str)}, ValueError, "operator must return"),
        ({"blocks": None}, TypeError, "blocks"),
        ({"blocks": [3]}, TypeError, "blocks"),
        ({"saddle": "yes"}, TypeError, "saddle"),
        ({"smoothness": [1.0]}, ValueError, "smoothness"),
        ({"smoothness": [[-1.0]]}, ValueError, "smoothness"),
        ({"solver": "newton"}, ValueError, "solver"),
        ({"n_iter": 0}, ValueError, "n_iter"),
        ({"epsilon": 0.0}, ValueError, "epsilon"),
        ({"ledger": 3}, TypeError, "ledger"),
        ({"data": [[np.nan, 0, 0]]}, ValueError, "data must be finite"),
        ({"data": [["a", "b", "c"]]}, TypeError, "data"),
        ({"data": np.zeros((0, 3))}, ValueError, "data"),
        ({"data": (np.zeros((2, 3)), np.zeros(3))}, ValueError, "data"),
        ({"probes": [[np.inf, 0, 0]]}, ValueError, "probes"),
        ({"random_state": 1.5}, TypeError, "random_state"),
    ],
)
def test_bad_input(changes, error, match):
    ledger = Ledger(1.0, 1e-5)
    declared = {k: v for k, v in changes.items() if k in Operator.__dataclass_fields__}
    arguments = {
        "operator": mean_of(**declared),
        "data": points(20),
        "ledger": ledger,
        "n_iter": 50,
    }
    arguments.update({k: v for k, v in changes.items() if k not in declared})
    with pytest.raises(error, match=match):
        solve_variational_inequality(arguments.pop("operator"), arguments.pop("data"), **arguments)
    assert ledger.charges() == []


def test_an_operator_that_mixes_records_is_found_on_probes():
    def mixing(z, x):
        return (z - x) / (1.0 + np.abs(x).max())

    probes = np.array([[0.1, 0.2], [0.3, -0.4], [0.0, 0.9]])
    block = Block(L2Ball(1.0), 2, 4.0)
    with pytest.raises(ValueError, match="depends on this record alone"):
        solve_variational_inequality(Operator(mixing, [block]), probes, probes=probes)


def test_an_underflow_does_not_show():
    data = np.full((50, 2), 0.5)
    data[0, 0] = 1e-200
    block = Block(LpBall(1.5, 1.0), 2, 2.0)
    with np.errstate(all="raise"):
        solve_variational_inequality(Operator(lambda z, x: x.copy(), [block]), data)


class Fickle:
    """A game whose functions behave differently if one of the records is negative."""

    second_smoothness = 0.0
    value_bound = 1.0

    def __init__(self, of_operator=None, of_value=None):
        self.of_operator, self.of_value = of_operator, of_value

    def __call__(self, z, x):
        rows = x[:, None] * [0.5, -0.2, 0.3, 0.1]
        return self.of_operator(rows) if self.of_operator and (x < 0.0).any() else rows

    def value(self, z, x):
        pays = x * (z[0] - z[3])
        return self.of_value(pays) if self.of_value and (x < 0.0).any() else pays


def raised(_):
    raise RuntimeError("a negative number")


FICKLE = {
    "raises": raised,
    "is complex": lambda G: np.where(np.abs(G) > 1.0, 1j, G),
    "has objects": lambda G: np.where(np.abs(G) > 1.0, None, G),
    "is text": lambda G: G.astype(str),
    "has another shape": lambda G: G[:-1],
    "is nothing": lambda G: None,
}
OF_OPERATORS = {
    "is short": lambda G: G.astype(np.float32),
    "is infinite": lambda G: np.where(np.abs(G) > 1.0, np.inf, G),
}


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
@pytest.mark.filterwarnings("ignore:Recursive regularisation:skdpsco.UtilityWarning")
@pytest.mark.parametrize("solver", VARIATIONAL_SOLVERS)
def test_whatever_a_function_does_for_a_record_the_record_bears(solver):
    x = np.random.default_rng(0).uniform(0.1, 1.0, 300)
    x[123] = -50.0
    blocks = [Block(Simplex(), 2, 1.0), Block(Simplex(), 2, 1.0)]
    steps = "auto" if solver == "accelerated-recursive" else 2

    def solve(game):
        operator = Operator(game, blocks, True, smoothness=np.zeros((2, 2)), monotone=True)
        return solve_variational_inequality(
            operator, x, n_iter=steps, solver=solver, random_state=0
        ).z

    def nothing(G):
        return np.where(np.abs(G) > 1.0, np.nan, G)

    expected = solve(Fickle(nothing, nothing))
    for name, wrong in (FICKLE | OF_OPERATORS).items():
        np.testing.assert_array_equal(solve(Fickle(wrong, nothing)), expected, name)
    for name, wrong in FICKLE.items():
        np.testing.assert_array_equal(solve(Fickle(nothing, wrong)), expected, name)


# --- games of vectors


class Loud(BilinearGame):
    """A game that keeps to no bound."""

    def __call__(self, z, *data):
        return 10.0 * super().__call__(z, *data)

    def total(self, z, data):
        return 10.0 * super().total(z, data)


def changed(**attributes):
    game = BilinearGame(2, 2)
    vars(game).update(attributes)
    return game


@each(
    "game",
    [
        Loud(2, 2),
        changed(bound=5.0),
        changed(_most=5.0),
        changed(blocks=(Block(Simplex(), 2, 0.1),) * 2),
        changed(total=lambda z, data: np.full(4, 7.0)),
    ],
)
def test_games_that_were_changed_keep_to_the_bounds(game):
    operator = _clipped(game)
    for n in (1, 3):
        total = operator.total(np.full(4, 0.5), (np.full((n, 2), 5.0),) * 2)
        assert 0.0 < np.abs(total).max() <= n * operator.blocks[0].lipschitz * (1 + 1e-12)


GAME = BilinearGame(30, 40)


@pytest.mark.parametrize(
    ("game", "n", "options", "name"),
    [
        (BilinearGame(30, 40), 60_000, {}, "mirror-descent"),
        (QuadraticGame(30, 40), 60_000, {}, "mirror-descent"),
        (BilinearGame(29, 40), 60_000, {}, "mirror-prox"),
        (BilinearGame(30, 40), 20_000, {}, "mirror-prox"),
        (BilinearGame(30, 40), 60_000, {"epsilon": 0.3}, "mirror-prox"),
        (BilinearGame(30, 40), 60_000, {"epsilon": 1e-3}, "mirror-prox"),
        (BilinearGame(30, 40), 60_000, {"n_iter": 10}, "mirror-prox"),
        (Operator(GAME, GAME.blocks, saddle=False), 60_000, {}, "mirror-prox"),
        (Loud(30, 40), 60_000, {}, "mirror-prox"),
        (MatrixGame(30, 40), 60_000, {}, "mirror-prox"),
    ],
)
def test_auto(game, n, options, name, monkeypatch):
    for known in VARIATIONAL_SOLVERS:
        monkeypatch.setitem(VARIATIONAL_SOLVERS, known, lambda known=known: known)
    data = tuple(np.zeros((n, k), np.int8) for k in (game.blocks[0].size, 40))
    if isinstance(game, QuadraticGame):
        data = (*data, np.zeros(n), np.zeros(n))
    elif isinstance(game, MatrixGame):
        data = np.zeros((n, 30, 40), np.int8)
    with pytest.raises(TypeError, match=f"with plan and run, got '{name}'"):
        solve_variational_inequality(game, data, **options)


@pytest.mark.parametrize("game", [BilinearGame(2, 3, 0.3), QuadraticGame(2, 3, 0.3)])
def test_rounded_points_make_no_record_exceed_its_bounds(game):
    data = (np.ones((1, 2)), np.ones((1, 3)), -np.ones(1), -np.ones(1))[: game.n_arrays]
    for z in (np.full(5, 3.0), np.full(5, -3.0)):  # far more than rounding does
        for found in (game.total(z, data), game(z, *data)[0]):
            assert np.abs(found).max() == pytest.approx(game.blocks[0].lipschitz, rel=1e-15)
