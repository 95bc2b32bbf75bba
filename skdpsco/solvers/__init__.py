"""Solvers: each plans how to spend a budget on a problem, then follows its plan on the data."""

from skdpsco.constraints import LpBall

from ._geometry import Block
from .accelerated_recursive import AcceleratedRecursive
from .base import Allowance, Plan, Problem, Result, check_cost, check_supported
from .frank_wolfe import FrankWolfe, NoisyFrankWolfe
from .mirror_prox import MirrorProx
from .recursive_regularization import RecursiveRegularization
from .stagewise import Stagewise

__all__ = [
    "AcceleratedRecursive",
    "Allowance",
    "Block",
    "FrankWolfe",
    "LpBall",
    "MirrorProx",
    "NoisyFrankWolfe",
    "Plan",
    "Problem",
    "RecursiveRegularization",
    "Result",
    "Stagewise",
    "check_cost",
    "check_supported",
]
