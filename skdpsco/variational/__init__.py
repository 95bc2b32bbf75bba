"""Saddle points and variational inequalities with an operator of your own."""

from skdpsco.solvers.saddle.geometry import Block

from .games import BilinearGame, QuadraticGame, duality_gap
from .maximal_loss import MaximalLoss
from .solve import MatrixGame, Operator, VariationalSolution, solve_variational_inequality

__all__ = [
    "BilinearGame",
    "Block",
    "MatrixGame",
    "MaximalLoss",
    "Operator",
    "QuadraticGame",
    "VariationalSolution",
    "duality_gap",
    "solve_variational_inequality",
]
