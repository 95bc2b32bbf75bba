"""Losses, choices and games that do what a test tells them to."""

import math
from typing import NamedTuple

import numpy as np

from skdpsco.constraints import Simplex
from skdpsco.mechanisms.samplers import select
from skdpsco.solvers.saddle.geometry import Block


class Declared(NamedTuple):
    """A loss that declares what it is told to. Subclasses have kernels, or are without."""

    slope: float = 1.0
    bend: float = math.inf
    n_outputs: int = 1

    def lipschitz(self, prediction_bound=math.inf, target_bound=1.0):
        return self.slope

    def smoothness(self):
        return self.bend

    def baseline(self, target_bound=1.0):
        return self.slope


class Forced(NamedTuple):
    """A selection that keeps the scores and returns what it is told to, and then 0."""

    choices: tuple
    log: list


@select.register(Forced)
def _(mechanism, rng, scores):
    mechanism.log.append(np.array(scores))
    step = len(mechanism.log) - 1
    return mechanism.choices[step] if step < len(mechanism.choices) else 0


class Payoffs:
    """A matrix game all of whose records are alike; keeps the records of its calls."""

    saddle = monotone = True
    second_smoothness = 0.0
    value_bound = 1.0

    def __init__(self, A, bound=1.0):
        self.A = np.array(A, dtype=float)
        m, k = self.A.shape
        self.blocks = (Block(Simplex(), m, bound), Block(Simplex(), k, bound))
        self.smoothness = [[0.0, bound], [bound, 0.0]]
        self.calls = []

    def total(self, z, data):
        (numbers,) = data
        self.calls.append(numbers.tolist())
        m = len(self.A)
        return len(numbers) * np.concatenate([self.A @ z[m:], -self.A.T @ z[:m]])

    def value(self, z, numbers):
        self.calls.append(numbers.tolist())
        m = len(self.A)
        return np.full(len(numbers), z[:m] @ self.A @ z[m:])

    def gap(self, z):
        m = len(self.A)
        return float((self.A.T @ z[:m]).max() - (self.A @ z[m:]).min())
