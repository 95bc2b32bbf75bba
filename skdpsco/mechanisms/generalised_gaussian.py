"""Generalised Gaussian noise, for statistics whose sensitivity is bounded in an l_r norm, r > 2.

The density is proportional to exp(-||z||_r**2 / (2 sigma**2)) with the l_r norm of the coordinates.
Exact noise of scale `generalised_gaussian_scale` is rho zCDP: charge ``ZCDPEvent(rho)`` together
with `generalised_gaussian_error`, and do not use a curve that holds for Gaussian noise only. Order
2 is the Gaussian itself, which `skdpsco.mechanisms.samplers` draws exactly.

This is the only mechanism here whose noise is drawn in floating point. Its sum with a statistic is
rounded to a coarse grid. Proofs, and the limits of rounding:
``docs/proofs/generalised_gaussian.md``.

References
----------
R. Bassily, C. Guzman, A. Nandi. Non-Euclidean Differentially Private Stochastic Convex
Optimization. COLT 2021.
"""

import math

import numpy as np

from skdpsco._kernels import njit
from skdpsco.mechanisms.samplers import GRID_LIMIT, check_positive, to_grid
from skdpsco.privacy import SamplerErrorEvent

__all__ = [
    "GAMMA_ACCURACY",
    "generalised_gaussian_error",
    "generalised_gaussian_grid",
    "generalised_gaussian_mechanism",
    "generalised_gaussian_scale",
]

GAMMA_ACCURACY = (
    "NumPy's gamma and uniform variables are as accurate as docs/proofs takes them to be"
)

# The grid is sigma / 2**8. A coarse grid costs no privacy and hides what floating point does to
# the noise; its own rounding adds sigma**2 / 2**19 to the variance of a coordinate.
_CELLS = 2**8

# random() is a multiple of 2**-53. Minus this number, it is the middle of a cell of that width:
# exact, symmetric around 0 and never 0.
_HALF = 0.5 - 2.0**-54


def generalised_gaussian(
    rng: np.random.Generator, size: int, order: float, sigma: float
) -> np.ndarray:
    """Draw one vector of generalised Gaussian noise.

    The squared norm over sigma**2 is chi-squared with ``size`` degrees of freedom. The direction is
    that of independent coordinates of density proportional to exp(-abs(x)**order), here made of
    a uniform and a gamma variable each, which do not underflow for a large order.

    Parameters
    ----------
    rng : numpy.random.Generator
    size : int
        Number of coordinates, at least 1.
    order : float
        r, at least 2 and finite.
    sigma : float
        Scale; the mean of the squared l_r norm is ``size * sigma**2``.

    Returns
    -------
    noise : ndarray of shape (size,)
    """
    _check_order(order)
    check_positive(sigma=sigma, size=size)
    x = rng.random(size) - _HALF
    x *= rng.standard_gamma(1.0 + 1.0 / order, size) ** (1.0 / order)
    x /= np.abs(x).max()
    norm = np.sum(np.abs(x) ** order) ** (1.0 / order)
    radius = sigma * math.sqrt(2.0 * rng.standard_gamma(0.5 * size))
    return x * (radius / norm)


def generalised_gaussian_mechanism(
    rng: np.random.Generator, values: np.ndarray, order: float, sigma: float, grid: float
) -> None:
    """Release ``values`` in place: add noise, and round the sums to multiples of ``grid``.

    Parameters
    ----------
    rng : numpy.random.Generator
    values : ndarray of shape (n_values,), float64
    order : float
        r > 2. For order 2 use `skdpsco.mechanisms.samplers.gaussian_mechanism`, which is exact.
    sigma : float
        From `generalised_gaussian_scale`.
    grid : float
        From `generalised_gaussian_grid`. Sums are clamped to +-2**50 units; NaN becomes 0.

    Raises
    ------
    ValueError
        If order or sigma is out of range, before noise is drawn.
    """
    if order == 2:
        raise ValueError("order must be above 2: the Gaussian has an exact mechanism.")
    check_positive(grid=grid)
    _round_sums(values, generalised_gaussian(rng, values.size, order, sigma), grid)


@njit
def _round_sums(values, noise, grid):
    for j in range(values.shape[0]):
        values[j] = to_grid(values[j] + noise[j], grid) * grid


def generalised_gaussian_scale(sensitivity: float, rho: float, order: float) -> float:
    """Scale of the noise of one release that is ``rho`` zCDP.

    sigma**2 = (order - 1) sensitivity**2 / (2 rho), raised by 2**-40 for the rounding of this line.

    Parameters
    ----------
    sensitivity : float
        Bound on the l_r norm of the change of the statistic when one record is replaced; r is
        ``order``. It includes the floating-point error of the statistic, but no rounding to the
        grid, which comes after the noise.
    rho : float
    order : float
        r, at least 2 and finite.

    Returns
    -------
    sigma : float
    """
    _check_order(order)
    check_positive(sensitivity=sensitivity, rho=rho)
    sigma = sensitivity * math.sqrt((order - 1.0) / rho / 2.0) * (1 + 2.0**-40)
    if not np.finfo(float).tiny <= sigma < math.inf:
        raise ValueError(
            f"sensitivity={sensitivity!r} or rho={rho!r} is too large or too small for float64."
        )
    return sigma


def generalised_gaussian_error(size: int) -> SamplerErrorEvent:
    """What drawing the noise of one release in floating point adds to its cost.

    Parameters
    ----------
    size : int
        Number of coordinates, from 8 to about 25,000, for which there is a proof. With fewer of
        them the Gaussian has the smaller scale.

    Returns
    -------
    error : SamplerErrorEvent
        Charge it once for each release that a record takes part in.
    """
    radius = math.sqrt(size) + 10.0
    eta = 2.0**-31 * size * radius * math.exp(min(radius, 1000.0) / 250.0)
    if size < 8 or eta > 2.0**-8:
        raise ValueError(f"size must be from 8 to about 25,000, got {size!r}.")
    return SamplerErrorEvent(eta, math.exp(2.0 * eta) * (2.0**-40 * size + 2.0**-44))


def generalised_gaussian_grid(sigma: float, magnitude: float) -> float:
    """Grid for noise of scale ``sigma``: a public width.

    Parameters
    ----------
    sigma : float
    magnitude : float
        Public bound on every coordinate. It widens the grid to magnitude / 2**49 if need be, so
        that sums are hardly ever clamped. Privacy does not depend on it.

    Returns
    -------
    grid : float
    """
    check_positive(sigma=sigma, magnitude=magnitude)
    grid = max(sigma / _CELLS, magnitude / (GRID_LIMIT // 2))
    if grid < np.finfo(float).tiny:
        raise ValueError(
            f"sigma={sigma!r} and magnitude={magnitude!r} are too small for float64: rescale the "
            "data."
        )
    return grid


def _check_order(order: float) -> None:
    if not 2 <= order < math.inf:
        raise ValueError(f"order must be in [2, inf), got {order!r}.")
