"""Exact samplers on integer grids, and the grids that calibrate them."""

from skdpsco._random import generator

from .samplers import (
    exponential_grid,
    exponential_mechanism,
    gaussian_grid,
    gaussian_mechanism,
    summation_error,
)

__all__ = [
    "exponential_grid",
    "exponential_mechanism",
    "gaussian_grid",
    "gaussian_mechanism",
    "generator",
    "summation_error",
]
