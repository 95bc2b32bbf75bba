"""Saddle points and variational inequalities of one's own."""

from .games import BilinearGame, QuadraticGame, duality_gap
from .maximal_loss import MaximalLoss
from .solve import Block, LpBall, MatrixGame, VariationalSolution, solve_variational_inequality

__all__ = [
    "BilinearGame",
    "Block",
    "LpBall",
    "MatrixGame",
    "MaximalLoss",
    "QuadraticGame",
    "VariationalSolution",
    "duality_gap",
    "solve_variational_inequality",
]
