"""Solvers: each plans how to spend a budget on a problem, then follows its plan on the data."""

from .base import Allowance, Plan, Problem, Result, check_cost, check_supported
from .frank_wolfe import FrankWolfe, NoisyFrankWolfe
from .stagewise import Stagewise

__all__ = [
    "Allowance",
    "FrankWolfe",
    "NoisyFrankWolfe",
    "Plan",
    "Problem",
    "Result",
    "Stagewise",
    "check_cost",
    "check_supported",
]
