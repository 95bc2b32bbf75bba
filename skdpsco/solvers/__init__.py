"""Solvers: each plans how to spend a budget on a problem, then follows its plan on the data."""

from skdpsco.constraints import LpBall

from ._composite import CompositeProblem
from ._geometry import Block
from .accelerated_recursive import AcceleratedRecursive
from .anytime_mirror_descent import AnytimeMirrorDescent
from .base import Allowance, Plan, Problem, Remainder, Result, check_cost, check_supported
from .bias_reduced_mirror_descent import BiasReducedMirrorDescent
from .boosted_mirror_descent import BoostedMirrorDescent
from .coordinate_descent import CoordinateDescent
from .frank_wolfe import FrankWolfe, NoisyFrankWolfe
from .gradient_descent import GradientDescent
from .greedy_coordinate_descent import GreedyCoordinateDescent
from .mirror_descent import MirrorDescent
from .mirror_prox import MirrorProx
from .moments import Moments
from .multiplicative_weights import MultiplicativeWeights
from .one_pass_frank_wolfe import OnePassFrankWolfe
from .phased_erm import PhasedERM
from .phased_sgd import PhasedSGD
from .recursive_regularization import RecursiveRegularization
from .select_measure import SelectMeasure
from .sgd import SGD
from .stagewise import Stagewise
from .tree_frank_wolfe import TreeFrankWolfe

__all__ = [
    "SGD",
    "AcceleratedRecursive",
    "Allowance",
    "AnytimeMirrorDescent",
    "BiasReducedMirrorDescent",
    "Block",
    "BoostedMirrorDescent",
    "CompositeProblem",
    "CoordinateDescent",
    "FrankWolfe",
    "GradientDescent",
    "GreedyCoordinateDescent",
    "LpBall",
    "MirrorDescent",
    "MirrorProx",
    "Moments",
    "MultiplicativeWeights",
    "NoisyFrankWolfe",
    "OnePassFrankWolfe",
    "PhasedERM",
    "PhasedSGD",
    "Plan",
    "Problem",
    "RecursiveRegularization",
    "Remainder",
    "Result",
    "SelectMeasure",
    "Stagewise",
    "TreeFrankWolfe",
    "check_cost",
    "check_supported",
]
