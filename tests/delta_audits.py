"""How much of delta sums of releases prove to be spent, and what their noise lets them prove."""

import math

import numpy as np
from scipy import optimize, stats

EPSILON, DELTA = 1.0, 0.01


def spent(sums, cut):
    """Delta at EPSILON that the event "sum above the cut" proves, and its standard error."""
    p, q = ((s > cut).mean() for s in sums)
    error = math.sqrt((p * (1 - p) + math.exp(2 * EPSILON) * q * (1 - q)) / len(sums[0]))
    return p - math.exp(EPSILON) * q, error


def exact(n_steps, deviation, probability):
    """The best cut, and the delta that it spends, for steps with this noise."""
    k = np.arange(n_steps + 1)
    weights = stats.binom.pmf(k, n_steps, probability)
    deviation *= math.sqrt(n_steps)

    def delta(cut):
        p, q = (weights @ stats.norm.sf(cut, s * k, deviation) for s in (1, -1))
        return p - math.exp(EPSILON) * q

    cuts = np.linspace(-3 * deviation, 10 * deviation, 400)
    start, width = max(cuts, key=delta), cuts[1] - cuts[0]
    best = optimize.minimize_scalar(
        lambda cut: -delta(cut), bounds=(start - width, start + width), method="bounded"
    )
    return best.x, delta(best.x)


def check_noise(evidence, n_steps, deviation, probability, most):
    """``evidence`` makes sums for one record and for its opposite, with a share of the noise.

    To 5.5 standard errors, of ``most``; half the noise spends five times delta or more.
    """
    cut, delta = exact(n_steps, deviation, probability)
    # All of delta is spent, except for samples of many steps, whose sum reveals less than they do.
    assert (0.5 if n_steps > 1 and probability < 1.0 else 0.97) * DELTA < delta < 1.001 * DELTA
    found, error = spent(evidence(1.0), cut)
    assert error < most
    assert abs(found - delta) < 5.5 * error
    cut, _ = exact(n_steps, deviation / 2, probability)
    found, error = spent(evidence(0.5), cut)
    assert found - 5.5 * error > 5 * DELTA
