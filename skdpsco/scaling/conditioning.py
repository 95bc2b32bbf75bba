"""A private centre and scale of dense features, for any solver. Proof: docs/proofs/conditioning.md.

Features on one side of 0 share a large common direction, along which gradients are long, and
features that use little of their bounds are small compared with the noise. Reading records as
``clip((x - centre) / scale, -1, 1)`` removes both problems; with an intercept, the model can
represent the same functions.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skdpsco.data.design import Dense, clipped
from skdpsco.data.map_reduce import BlockDesign, in_pieces, map_reduce
from skdpsco.data.pieces import replace_one
from skdpsco.mechanisms.samplers import deviation_on, gaussian_grid, gaussian_mechanism
from skdpsco.privacy import Event
from skdpsco.solvers.base import share_mu

# Shares of mu**2: of the norms of rows before and after centring, of the centre, of mean squares.
NORM_SHARE, CENTRE_SHARE, CENTRED_NORM_SHARE = 0.02, 0.06, 0.02
N_COUNTS, N_CENTRED_COUNTS = 3, 4  # of records with a large norm: 2**N_COUNTS candidates
LEAST_RATIO = 5.0  # of n mu over sqrt(d), from which features are conditioned
TAIL = 0.1  # share of the records that may be longer
WIDTH = 3.0  # of what is clipped, in root mean squares, and more where noise is small
PLENTY_RATIO = 1000.0  # of n mu over sqrt(d), from which the width grows
BLOCK = 1024  # records that are centred at a time


class Conditioning(NamedTuple):
    """Features are read as ``clip((x - centre) / scale, -1, 1)``, x in [-1, 1].

    Parameters
    ----------
    centre, scale : ndarray of shape (n_features,)
    """

    centre: np.ndarray
    scale: np.ndarray

    def apply(self, X: Dense) -> Dense:
        """A copy of the records as solvers see them."""
        values = np.empty(X.values.shape, X.values.dtype)
        for start in range(0, len(values), BLOCK):
            rows = slice(start, start + BLOCK)
            values[rows] = clipped(X.values[rows], X.bounds) - self.centre
        return Dense(values, self.scale, X.intercept)

    def ranges(self, bounds: np.ndarray) -> np.ndarray:
        """Interval to which every column is clipped, in the user's units."""
        low = np.fmax(self.centre - self.scale, -1.0)
        return bounds * np.array([low, np.fmin(self.centre + self.scale, 1.0)])


@dataclass(frozen=True)
class ConditioningPlan:
    """Grids of the releases.

    Parameters
    ----------
    event : Event
    n_samples, n_features : int
    grids : dict
        Grids by the names of the releases.
    width : float
        Clipping width, in root mean squares.
    """

    event: Event
    n_samples: int
    n_features: int
    grids: dict[str, float]
    width: float

    part: ClassVar[str] = "conditioning"

    def release(self, X: Any, y: Any, rng: Any) -> Conditioning:
        """See `release_conditioning`."""
        return release_conditioning(self, X, y, rng)

    def apply(self, conditioning: Conditioning, X: Any, y: Any) -> tuple[Any, Any]:
        """The design of conditioned records, which copies arrays, and blocks one by one."""
        if isinstance(X, BlockDesign):
            return X._replace(conditioning=conditioning), y
        return conditioning.apply(X), y

    def note(self, conditioning: Conditioning) -> str:
        """A line for the report."""
        share = NORM_SHARE + CENTRE_SHARE + CENTRED_NORM_SHARE * self.scaled
        what = "centre and scale" if self.scaled else "centre"
        return f"{share:.0%} of the budget's mu^2 found a {what} of the features"

    @property
    def scaled(self) -> bool:
        """Whether a scale is released, too."""
        return "centred norm" in self.grids

    @property
    def extremes(self) -> tuple[Conditioning, ...]:
        """The smallest and the largest scale that may be found."""
        scales: tuple[float, ...] = (1.0,)
        if self.scaled:
            smallest = self.width * 2.0 ** (1.0 + (1 - 2**N_CENTRED_COUNTS) / 2.0)
            scales = (min(smallest, 1.0), 2.0)  # of features whose centre is 0 it is at most 1
        nowhere = np.zeros(self.n_features)
        return tuple(Conditioning(nowhere, nowhere + scale) for scale in scales)

    def tolerated(self, name: str) -> float:
        """Number of records that may be longer than a norm, above what noise makes of 0."""
        noise = deviation_on(self.grids[name])
        return max(TAIL * self.n_samples, min(3.0 * noise, 0.5 * self.n_samples))


def conditioning_pays(n_samples: int, n_features: int, mu: float) -> bool:
    """Whether a centre is more than noise."""
    return n_samples * mu >= LEAST_RATIO * math.sqrt(n_features)


def plan_conditioning(n_samples: int, n_features: int, mu: float, scaled: bool) -> ConditioningPlan:
    """Spend a share of ``mu**2`` on the centre and on the norms of rows.

    Parameters
    ----------
    n_samples, n_features : int
    mu : float
        Budget of the whole fit.
    scaled : bool
        Whether a scale is released, too.

    Raises
    ------
    ValueError
        If the noise is too large for the grids.
    """
    n, d = n_samples, n_features
    parts = {"norm": (NORM_SHARE / N_COUNTS, N_COUNTS), "centre": (CENTRE_SHARE, 1)}
    if scaled:
        parts["centred norm"] = (CENTRED_NORM_SHARE / N_CENTRED_COUNTS, N_CENTRED_COUNTS)
    multiplier, event = share_mu(mu, parts)
    slack = 1.0 + d * 2.0**-50  # rounding of norms
    sensitivity = replace_one(n, slack, parts=d)
    grids = {
        "norm": gaussian_grid(1.0, multiplier["norm"], 1, n),
        "centre": gaussian_grid(sensitivity, multiplier["centre"], d, n * slack),
    }
    if scaled:
        grids["centred norm"] = gaussian_grid(1.0, multiplier["centred norm"], 1, n)
    width = WIDTH * math.sqrt(max(n * mu / math.sqrt(d) / PLENTY_RATIO, 1.0))
    return ConditioningPlan(event, n, d, grids, width)


def release_conditioning(plan: ConditioningPlan, X: Any, y: Any, rng) -> Conditioning:
    """A centre and a scale for dense records, in arrays or blocks."""
    n, d = plan.n_samples, plan.n_features
    X = in_pieces(X, y)
    nowhere = np.zeros(d)

    def norm(name, centre, largest, n_counts):
        """A norm that few rows exceed, by halving: 2**n_counts candidates up to the largest."""
        candidates = largest * 2.0 ** (np.arange(1 - 2**n_counts, 1) / 2.0)
        counts = map_reduce(X, y, longer_than, centre, candidates * (1.0 + 1e-9))
        low, high = 0, len(candidates) - 1
        while low < high:
            middle = (low + high) // 2
            count = counts[[middle]]
            gaussian_mechanism(rng, count, plan.grids[name])
            low, high = (low, middle) if count[0] <= plan.tolerated(name) else (middle + 1, high)
        return float(candidates[high])

    c = norm("norm", nowhere, math.sqrt(d), N_COUNTS)
    sums = map_reduce(X, y, shortened_sum, nowhere, c)
    deviation = gaussian_mechanism(rng, sums, plan.grids["centre"])
    # James and Stein's: towards 0, where the records are if nothing is known.
    sums *= max(0.0, 1.0 - d * deviation**2 / max(float(sums @ sums), 1e-300))
    centre = np.clip(c * sums / n, -1.0, 1.0)
    if not plan.scaled:
        return Conditioning(centre, np.ones(d))
    c = norm("centred norm", centre, 2.0 * math.sqrt(d), N_CENTRED_COUNTS)
    farthest = 1.0 + float(np.abs(centre).max())  # no feature is farther from its centre
    return Conditioning(centre, np.full(d, min(plan.width * c / math.sqrt(d), farthest)))


def _centred_rows(X: Dense, centre: np.ndarray):
    """Features less ``centre``, and their norms, some records at a time."""
    for start in range(0, len(X.values), BLOCK):
        A = clipped(X.values[start : start + BLOCK], X.bounds) - centre
        yield A, np.sqrt(np.einsum("ij,ij->i", A, A))


def longer_than(X, y, centre, limits) -> np.ndarray:
    """How many centred rows are longer than each of the increasing ``limits``."""
    counts = np.zeros(len(limits))
    for _, norms in _centred_rows(X, centre):
        counts += (norms[:, None] > limits).sum(axis=0)
    return counts


def shortened_sum(X, y, centre, c) -> np.ndarray:
    """Sum of centred rows, shortened to norm ``c``, over ``c``."""
    total = np.zeros(len(centre))
    for A, norms in _centred_rows(X, centre):
        total += (1.0 / np.maximum(norms, c)) @ A
    return total
