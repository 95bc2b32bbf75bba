"""Saddle points of released models: post-processing, which never sees data.

``F_g(w) = s_g phi(w) - b_g'w + c_g`` is the modelled loss of group g, where ``phi(w)`` stands for
the mean of a convex function of the predictions, and ``s_g`` is 1 unless records have weights.
Proof of what is released: docs/proofs/group_dro.md.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

__all__ = [
    "LARGEST_COEF",
    "TRAPEZOID",
    "GaussianModel",
    "GroupLevels",
    "MovedModel",
    "QuadraticModel",
    "Saddle",
    "kept_share",
    "shrink_groups",
]


def _rule(nodes: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return nodes, weights / weights.sum()


# Quadratures for expectations under the standard normal law: for smooth functions, and for others.
HERMITE = _rule(*hermegauss(31))
TRAPEZOID = _rule(np.linspace(-8.0, 8.0, 257), np.exp(-0.5 * np.linspace(-8.0, 8.0, 257) ** 2))
LEAST_RIDGE = 1e-6  # weight of the squared coefficients, so that a minimum exists
LARGEST_COEF = 1e6  # bound on coefficients, for features in [-1, 1]


def log_cosh(z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``log(2 cosh(z / 2))`` and its first two derivatives."""
    r = 0.5 * np.tanh(0.5 * z)
    return np.logaddexp(z, 0.0) - z / 2, r, 0.25 - r * r


class GaussianModel:
    """``E phi(x'w)`` for a convex phi, as if the predictions x'w were normal.

    Parameters
    ----------
    second_moments : ndarray of shape (n_features, n_features), positive semidefinite
    mean : ndarray of shape (n_features,)
    phi : callable, default=log_cosh
        Returns the values and the first two derivatives at the entries of an array.
    rule : tuple of ndarray, default=HERMITE
        Nodes, symmetric around 0, and weights of the quadrature.
    """

    mean: np.ndarray
    phi: Any
    nodes: Any
    weights: Any
    covariance: np.ndarray

    def __init__(
        self, second_moments: np.ndarray, mean: np.ndarray, phi: Any = log_cosh, rule: Any = HERMITE
    ) -> None:
        self.mean, self.phi = mean, phi
        self.nodes, self.weights = rule
        values, U = np.linalg.eigh(second_moments - np.outer(mean, mean))
        self.covariance = (U * np.maximum(values, 1e-8)) @ U.T

    def _predictions(self, w):
        a = self.covariance @ w
        deviation = np.sqrt(max(w @ a, 1e-12))
        return a / deviation, deviation, self.mean @ w + deviation * self.nodes

    def value(self, w: np.ndarray) -> float:
        """Value at ``w``, by quadrature."""
        return float(self.weights @ self.phi(self._predictions(w)[2])[0])

    def slopes(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and Hessian of `value`, which is convex, at ``w``."""
        a, deviation, z = self._predictions(w)  # a: gradient of the deviation
        _, r, v = self.phi(z)
        r, v = self.weights * r, self.weights * v
        spread = r @ self.nodes
        mixed = (v @ self.nodes) * np.outer(self.mean, a)
        hessian = v.sum() * np.outer(self.mean, self.mean) + mixed + mixed.T
        hessian += (spread / deviation) * self.covariance
        hessian += (v @ self.nodes**2 - spread / deviation) * np.outer(a, a)
        return r.sum() * self.mean + spread * a, hessian


class QuadraticModel:
    """``w' M w / 2``, the mean of half the squared predictions whatever their distribution.

    Parameters
    ----------
    second_moments : ndarray of shape (n_features, n_features), positive semidefinite
    mean : ndarray of shape (n_features,)
        Not used; `GaussianModel` has the same signature.
    """

    def __init__(self, second_moments: np.ndarray, mean: np.ndarray) -> None:
        self.second_moments = second_moments

    def value(self, w: np.ndarray) -> float:
        """Value at ``w``."""
        return float(w @ self.second_moments @ w) / 2

    def slopes(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and Hessian at ``w``."""
        return self.second_moments @ w, self.second_moments


class MovedModel(NamedTuple):
    """A model as a function of the way from ``origin``.

    Parameters
    ----------
    model : GaussianModel or QuadraticModel
    origin : ndarray of shape (n_features,)
    """

    model: Any
    origin: np.ndarray

    def value(self, w: np.ndarray) -> float:
        """Value at ``origin + w``."""
        return self.model.value(self.origin + w)

    def slopes(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and Hessian at ``origin + w``."""
        return self.model.slopes(self.origin + w)


def kept_share(
    vectors: np.ndarray, variance: Any, doubt: float = 0.0, usual: float = np.inf
) -> np.ndarray:
    """What the positive-part estimator of James and Stein keeps of noisy vectors, in [0, 1].

    Parameters
    ----------
    vectors : ndarray of shape (..., n_features)
    variance : float or ndarray of shape (...)
        Variance of the noise of each coordinate.
    doubt, usual : float
        As in `shrink_groups`.
    """
    F = vectors.shape[-1]
    threshold = max(F - 2, 1) + doubt * np.sqrt(2.0 * F)
    factor = 1.0 - threshold * variance / (np.square(vectors).sum(axis=-1) + 1e-300)
    return np.clip(factor, 0.0, 1.0 / (1.0 + variance / usual**2))


def shrink_groups(
    noisy: np.ndarray,
    deviation: np.ndarray,
    sizes: np.ndarray,
    usual: float = np.inf,
    doubt: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Shrink noisy vectors of groups towards their mean, and the mean towards 0.

    Both use the positive-part estimator of James and Stein. Vectors that are long compared with
    their noise hardly move.

    Parameters
    ----------
    noisy : ndarray of shape (n_groups, n_features)
    deviation : ndarray of shape (n_groups,)
        Standard deviation of the noise of each coordinate.
    sizes : ndarray of shape (n_groups,)
        Weights of the groups in the mean.
    usual : float, default=inf
        About the size of entries without noise: no vector keeps more of noise than they would.
    doubt : float, default=0.0
        Deviations of the squared length of noise by which a vector has to exceed its mean.

    Returns
    -------
    shrunk : ndarray of shape (n_groups, n_features)
    variances : ndarray of shape (n_groups + 1,)
        Remaining variance of the noise in a coordinate: the part of each group alone, and last the
        part that all groups share.
    """
    p = sizes / sizes.sum()
    pooled = p @ noisy
    common = (p**2) @ deviation**2
    # Variance per coordinate of the noise in a vector minus the mean.
    own = np.maximum(deviation**2 * (1.0 - 2.0 * p) + common, 0.0)
    mine = kept_share(noisy - pooled, own, doubt, usual)
    ours = kept_share(pooled, common, doubt, usual)
    shrunk = ours * pooled + mine[:, None] * (noisy - pooled)
    return shrunk, np.append(mine**2 * own, ours**2 * common)


def capped_softmax(scores: np.ndarray, cap: np.ndarray, base: np.ndarray) -> Any:
    """Maximise ``<theta, scores> - KL(theta || base)`` over the simplex with ``theta <= cap``.

    Returns
    -------
    theta : ndarray
    free : ndarray of bool
        Where the cap does not bind.
    """
    theta, free = np.zeros(len(scores)), np.ones(len(scores), dtype=bool)
    while free.any():
        e = base[free] * np.exp(scores[free] - scores[free].max())
        theta[free] = max(1.0 - cap[~free].sum(), 0.0) * e / e.sum()
        over = free & (theta > cap * (1.0 + 1e-12))
        if not over.any():
            break
        theta[over] = cap[over]
        free &= ~over
    return theta, free


class GroupLevels(NamedTuple):
    """Modelled losses ``C - B w + excess phi(w)`` of the groups, without ``phi(w)``, and weights.

    Parameters
    ----------
    B : ndarray of shape (n_groups, n_features)
    C : ndarray of shape (n_groups,)
    cap, base : ndarray of shape (n_groups,)
        Largest weights, and the weights towards which smoothing pulls; see `capped_softmax`.
    excess : ndarray of shape (n_groups,), or float
        At least -1; 0 unless groups have another share of ``phi(w)``.
    """

    B: np.ndarray
    C: np.ndarray
    cap: np.ndarray
    base: np.ndarray
    excess: Any = 0.0


class Saddle:
    """``min over |w| <= radius of phi(w) + max over theta of theta'(C - B w + excess phi(w))``.

    The maximum is smoothed by ``smoothing * KL(theta || base)``.

    Parameters
    ----------
    phi : GaussianModel or QuadraticModel
    groups : GroupLevels
    radius : float
        Radius of the l2 ball.
    n_ball : int
        The ball constrains the first ``n_ball`` coordinates; the others are free.
    smoothing : float
    variance : callable or None, default=None
        Function of ``theta`` that returns the variance of the noise in a coordinate of
        ``theta'B``. None if there is no noise.
    least_loss : float, default=-inf
        With noise, a minimiser whose modelled loss is smaller counts as noise.
    """

    phi: Any
    variance: Any
    least_loss: float
    cap: Any
    base: Any
    radius: float
    n_ball: int
    temperatures: np.ndarray

    def __init__(
        self,
        phi: Any,
        groups: Any,
        radius: float,
        n_ball: int,
        smoothing: float,
        variance: Any = None,
        least_loss: float = -np.inf,
    ) -> None:
        self.phi, self.variance, self.least_loss = phi, variance, least_loss
        self.B, self.C, self.cap, self.base, excess = groups
        self.excess: np.ndarray = np.zeros(len(self.C)) + excess
        self.radius, self.n_ball = min(radius, LARGEST_COEF), n_ball
        self.temperatures = np.geomspace(0.1, smoothing, 2 + int(np.log10(0.01 / smoothing)))

    def solve(self, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The minimiser, found from ``start``, and the maximising theta there."""
        w, theta = self._newton(start, LEAST_RIDGE)
        multiplier = LEAST_RIDGE
        if self._norm(w) > self.radius * 1.001:
            low = high = LEAST_RIDGE
            while self._norm(w) > self.radius and high < 1e30:
                low, high = high, 8.0 * high
                w, theta = self._newton(w, high)
            for _ in range(10):  # steps on the multiplier of the ball
                middle = (low * high) ** 0.5
                v, theta_v = self._newton(w, middle)
                if self._norm(v) > self.radius:
                    low = middle
                else:
                    high, w, theta = middle, v, theta_v
            multiplier = high
        if self.variance is not None:
            w, theta = self._quiet(w, theta, multiplier)
        w = np.clip(np.nan_to_num(w), -LARGEST_COEF, LARGEST_COEF)
        w[: self.n_ball] *= min(1.0, self.radius / max(self._norm(w), 1e-300))
        return w, theta

    def _quiet(self, w, theta, multiplier):
        """Raise the ridge as long as Stein's unbiased estimate of the noiseless loss decreases.

        Let ``w = argmin phi(w) - b'w + ridge w'w / 2``, with noise of variance v in b. The mean of
        ``b'w`` then exceeds the mean of ``E[b]'w`` by v times the mean trace of dw/db, which is the
        inverse of the Hessian. (theta is treated as fixed.)
        """
        best, least, rises, v = (w, theta), np.inf, 0, w
        step = 1e-3 * np.trace(self.phi.slopes(0.0 * w)[1]) / len(w)
        while rises < 2 and multiplier < 1e12:
            ridge = np.full(len(w), LEAST_RIDGE)
            ridge[: self.n_ball] = multiplier
            curvature = (1.0 + theta @ self.excess) * self.phi.slopes(v)[1]
            inverse = np.linalg.inv(curvature + np.diag(ridge + 1e-9))
            value = self._value(v, 0.0 * ridge, self.temperatures[-1])[0]
            risk = value + self.variance(theta) * np.trace(inverse)
            if value < self.least_loss:
                best = v, theta
            elif risk < least:
                best, least, rises = (v, theta), risk, 0
            else:
                rises += 1
            multiplier = max(3.0 * multiplier, step)
            v, theta = self._newton(v, multiplier, self.temperatures[-1:])  # from nearby
        return best

    def _norm(self, w):
        return float(np.linalg.norm(w[: self.n_ball]))

    def _value(self, w, ridge, temperature):
        common = self.phi.value(w)
        levels = self.C - self.B @ w + self.excess * common
        theta, free = capped_softmax(levels / temperature, self.cap, self.base)
        inside = theta > 0.0
        entropy = theta[inside] @ np.log(theta[inside] / self.base[inside])
        smooth = theta @ levels - temperature * entropy
        return common + smooth + 0.5 * ridge @ (w * w), theta, free

    def _newton(self, w: np.ndarray, multiplier: float, temperatures=None):
        """Take damped Newton steps at falling temperatures; return w and theta."""
        ridge = np.full(len(w), LEAST_RIDGE)
        ridge[: self.n_ball] = multiplier
        for temperature in self.temperatures if temperatures is None else temperatures:
            for _ in range(40):
                value, theta, free = self._value(w, ridge, temperature)
                gradient, H = self.phi.slopes(w)
                slopes = self.B - np.outer(self.excess, gradient)  # of the groups' own parts
                gradient = gradient - theta @ slopes + ridge * w
                H = (1.0 + theta @ self.excess) * H + np.diag(ridge + 1e-9)
                weight = theta * free
                if weight.sum() > 0.0:
                    D = slopes - weight @ slopes / weight.sum()
                    H += (D.T * (weight / temperature)) @ D
                step = -np.linalg.solve(H, gradient)
                decrease = -float(gradient @ step)
                if not decrease > 1e-10:
                    break
                length = 1.0
                while (
                    length > 1e-6
                    and not self._value(w + length * step, ridge, temperature)[0]
                    <= value - 0.25 * length * decrease
                ):
                    length *= 0.5
                if length <= 1e-6:  # rounding is all that is left
                    break
                w = w + length * step
        return w, theta
