"""Games of vectors as the solvers get them: bounds that hold, and what "auto" takes for them."""

import numpy as np
import pytest
from cases import each

from skdpsco.constraints import Simplex
from skdpsco.variational import (
    BilinearGame,
    Block,
    MatrixGame,
    Operator,
    QuadraticGame,
    solve_variational_inequality,
)
from skdpsco.variational.solve import VARIATIONAL_SOLVERS, _clipped


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
