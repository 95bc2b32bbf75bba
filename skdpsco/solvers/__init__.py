"""Solvers: each plans how to spend a budget on a problem, then follows its plan on the data."""

from skdpsco._kernels import njit
from skdpsco._problem import Problem
from skdpsco.privacy.spending import Allowance, Remainder, check_cost
from skdpsco.solvers.groups.mirror_prox import GroupMirrorProx
from skdpsco.solvers.l1.frank_wolfe import FrankWolfe, NoisyFrankWolfe
from skdpsco.solvers.l1.stagewise import Stagewise
from skdpsco.solvers.lp_ball.anytime_mirror_descent import AnytimeMirrorDescent
from skdpsco.solvers.lp_ball.one_pass_frank_wolfe import OnePassFrankWolfe
from skdpsco.solvers.lp_ball.phased_erm import PhasedERM
from skdpsco.solvers.lp_ball.phased_sgd import PhasedSGD
from skdpsco.solvers.lp_ball.projected_descent import ProjectedDescent
from skdpsco.solvers.lp_ball.tree_frank_wolfe import TreeFrankWolfe
from skdpsco.solvers.penalized.coordinate_descent import CoordinateDescent
from skdpsco.solvers.penalized.gradient_descent import GradientDescent
from skdpsco.solvers.penalized.greedy_coordinate_descent import GreedyCoordinateDescent
from skdpsco.solvers.penalized.problem import CompositeProblem
from skdpsco.solvers.penalized.sgd import SGD
from skdpsco.solvers.saddle.accelerated_recursive import AcceleratedRecursive
from skdpsco.solvers.saddle.bias_reduced_mirror_descent import BiasReducedMirrorDescent
from skdpsco.solvers.saddle.boosted_mirror_descent import BoostedMirrorDescent
from skdpsco.solvers.saddle.mirror_descent import MirrorDescent
from skdpsco.solvers.saddle.mirror_prox import MirrorProx
from skdpsco.solvers.saddle.recursive_regularisation import RecursiveRegularisation
from skdpsco.solvers.synthesis.measure_project import MeasureProject
from skdpsco.solvers.synthesis.multiplicative_weights import MultiplicativeWeights
from skdpsco.solvers.synthesis.select_measure import SelectMeasure

from .base import Plan, Result, check_supported

__all__ = [
    "SGD",
    "AcceleratedRecursive",
    "Allowance",
    "AnytimeMirrorDescent",
    "BiasReducedMirrorDescent",
    "BoostedMirrorDescent",
    "CompositeProblem",
    "CoordinateDescent",
    "FrankWolfe",
    "GradientDescent",
    "GreedyCoordinateDescent",
    "GroupMirrorProx",
    "MeasureProject",
    "MirrorDescent",
    "MirrorProx",
    "MultiplicativeWeights",
    "NoisyFrankWolfe",
    "OnePassFrankWolfe",
    "PhasedERM",
    "PhasedSGD",
    "Plan",
    "Problem",
    "ProjectedDescent",
    "RecursiveRegularisation",
    "Remainder",
    "Result",
    "SelectMeasure",
    "Stagewise",
    "TreeFrankWolfe",
    "check_cost",
    "check_supported",
    "njit",
]
