"""Models for the worst case, synthetic data, and saddle points and inequalities of one's own."""

from skdpsco._random import UtilityWarning

from ._domain import Bins
from ._games import BilinearGame, QuadraticGame, duality_gap
from ._maximal_loss import MaximalLoss
from .group_dro import PrivateGroupDRO
from .links import Link
from .metrics import group_report, worst_group_score, worst_group_scorer
from .minimax_classifier import PrivateMinimaxClassifier
from .minimax_regressor import PrivateMinimaxRegressor
from .monotone_glm import PrivateMonotoneGLM
from .synthesizer import PrivateSynthesizer
from .variational import (
    Block,
    LpBall,
    MatrixGame,
    VariationalSolution,
    solve_variational_inequality,
)

__all__ = [
    "BilinearGame",
    "Bins",
    "Block",
    "Link",
    "LpBall",
    "MatrixGame",
    "MaximalLoss",
    "PrivateGroupDRO",
    "PrivateMinimaxClassifier",
    "PrivateMinimaxRegressor",
    "PrivateMonotoneGLM",
    "PrivateSynthesizer",
    "QuadraticGame",
    "UtilityWarning",
    "VariationalSolution",
    "duality_gap",
    "group_report",
    "solve_variational_inequality",
    "worst_group_score",
    "worst_group_scorer",
]
