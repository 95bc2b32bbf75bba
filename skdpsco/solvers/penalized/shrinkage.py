"""How far gradient steps are trusted: the released gradients are compared with their noise.

This is post-processing. Proof: docs/proofs/gradient_descent.md.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from skdpsco.losses.library import lipschitz_l2
from skdpsco.losses.traits import traits_of, usual_curvature
from skdpsco.penalties import L1, L2, ElasticNet

__all__ = [
    "Descended",
    "GradientSteps",
    "excess",
    "prior_sizes",
    "set_length",
]


class ShrinkageTuning(NamedTuple):
    """Constants of the factor; examples/benchmarks/named_models.py shows the accuracy with them.

    Parameters
    ----------
    curved : float
        Typical curvature of a loss relative to its largest: clipped residuals have no curvature.
    most_signal : float
        Largest square of the coordinates, in units of that of the targets, or of the largest step
        to a minimum if that is longer: a typical slope over the typical curvature.
    most_offset : float
        Largest square of a mean of centred targets, in units of that of the targets.
    doubt : float
        Standard deviations of noise that are ignored in a first gradient, which is long if the
        truth lies along few directions of large curvature.
    mixture_steps : int
        Number of steps that find a mixture of laws; chosen by hand, for time.
    alike : float
        Number of coordinates of one law that are added to a mixture.
    rougher : int
        Powers of the variances of a prior that are tried are below it; chosen by hand.
    curvature_doubt : float
        What is beyond a typical curvature is believed where its square exceeds its variance by this
        factor.
    longest : float
        Largest factor of a result.
    """

    curved: float = 0.8
    most_signal: float = 0.2
    most_offset: float = 0.06
    doubt: float = 2.0
    mixture_steps: int = 100
    alike: float = 10.0
    rougher: int = 4
    curvature_doubt: float = 3.0
    longest: float = 4.0


SHRINKAGE = ShrinkageTuning()


class GradientSteps(NamedTuple):
    """Gradient steps as they were taken.

    Parameters
    ----------
    lengths, momenta, noises : ndarray of shape (n_iter,)
        For every step its length, the momentum after it and the deviation of its gradient's noise.
    n_averaged : int
        Number of the last points and gradients that are averaged for the result.
    penalty : float
        Mean curvature of the penalty.
    """

    lengths: np.ndarray
    momenta: np.ndarray
    noises: np.ndarray
    n_averaged: int
    penalty: float = 0.0

    def responses(self, curvature: Any) -> np.ndarray:
        """How result and mean point follow the noise of every gradient, of shape (2, n_iter).

        For a loss of this curvature, in one coordinate, both are linear in what is added to
        gradients. Factors are found for the last gradient first, as are those of the last step u
        and of the point y before that gradient. Steps are at most as long as one to the minimum.
        An array of curvatures adds an axis, the last.
        """
        T, K = len(self.lengths), self.n_averaged
        longest = 1.0 / np.maximum(curvature, 1e-300)
        out = np.empty((2, T, *np.shape(curvature)))
        lengths = [np.minimum(length, longest) for length in self.lengths.tolist()]
        momenta = self.momenta.tolist()
        last_shorter = 1.0 / (1.0 + lengths[-1] * self.penalty)
        last_parts = (last_shorter / K, -lengths[-1] * last_shorter / K), (1.0 / K, 0.0)
        for factors, (of_points, of_gradients) in zip(out, last_parts, strict=True):
            u = y = 0.0
            for t in reversed(range(T)):
                last = float(t >= T - K)
                moved = u + (1.0 + momenta[t]) * y  # the factor of the new step
                shorter = 1.0 / (1.0 + lengths[t] * self.penalty)
                own = last * of_gradients - lengths[t] * shorter * moved
                factors[t] = own
                u, y = -momenta[t] * y, shorter * moved + last * of_points + curvature * own
        return out


class Descended(NamedTuple):
    """What a descent has found, flat: everything has been released.

    Parameters
    ----------
    u, pull : ndarray
        The result, and the gradient of the penalty there.
    first : ndarray
        The first gradient, at 0.
    point, gradient : ndarray
        Means of the last points and gradients.
    ridge : ndarray
        Curvatures of the penalty.
    ones : float
        Square of the column of ones.
    """

    u: np.ndarray
    pull: np.ndarray
    first: np.ndarray
    point: np.ndarray
    gradient: np.ndarray
    ridge: np.ndarray
    ones: float = 1.0

    def part(self, n_outputs: int, columns: slice) -> "Descended":
        """The same for some columns, of every output."""
        parts: Any = [x.reshape(n_outputs, -1)[:, columns].ravel() for x in self[:-1]]
        return Descended(*parts)


def excess(
    x: np.ndarray, variance: float, doubt: float = 0.0, taken: float = 0.0, sizes: Any = 1.0
) -> float:
    """The square of ``x`` minus that of noise in its entries that are not 0, but at least 0.

    Parameters
    ----------
    x : ndarray
    variance : float
        Variance of the noise in an entry.
    doubt : float, default=0.0
        Standard deviations of the square of the noise that are ignored.
    taken : float, default=0.0
        Product of ``x`` with what a penalty has subtracted from it.
    sizes : ndarray or float, default=1.0
        Weights of the squares of entries.
    """
    w = sizes * (x != 0.0)
    noise = float(w.sum()) + doubt * math.sqrt(2.0 * float((w * w).sum()))
    return max(float((w * x * x).sum()) + taken - noise * variance, 0.0)


def best_factor(square: float, noise: float, reached: float) -> float:
    """The best factor, at most 1, for coordinates that have reached a share of the truth.

    Parameters
    ----------
    square, noise : float
        Square of the truth, and square of the noise.
    reached : float
        Share of the truth to which noise was added.
    """
    return min(1.0, reached * square / max(reached * reached * square + noise, 1e-300))


def own_factors(x: np.ndarray, variance: float, square: float, reached: float) -> np.ndarray:
    """The best factor, at most 1, of every coordinate on its own.

    It follows from the mean of the truth given ``x`` if truths come from a mixture of normal laws
    of mean 0, the mixture under which ``x`` is most likely: where most coordinates are noise, these
    almost vanish, and those that stand out remain.

    Parameters
    ----------
    x : ndarray
        A share of the truth, with noise.
    variance : float
        Variance of the noise in an entry.
    square : float
        Guess of the square of the truth. To the mixture are added a few entries of the law that it
        suggests for all, so that few entries do not suggest a mixture.
    reached : float
        That share.
    """
    # All variances are in units of that of the noise, or of what is nearly none.
    deviation = max(math.sqrt(variance), 1e-6 * float(np.abs(x).max(initial=0.0)), 1e-150)
    squares = np.square(x.ravel() / deviation)
    common = reached * reached * square / max(x.size, 1) / deviation / deviation
    n_laws = 3 + math.ceil(math.log2(max(float(squares.max(initial=0.0)), 1.0)))
    laws = np.append([common, 0.0], 2.0 ** np.arange(-2.0, n_laws - 2))
    total = laws + 1.0
    logs = -0.5 * np.log(total) - 0.5 * squares[:, None] / total
    likely = np.exp(logs - logs.max(axis=1, keepdims=True))

    def by_law(shares: np.ndarray) -> np.ndarray:
        """Probabilities that entries come from each law."""
        joint = likely * shares
        return joint / joint.sum(axis=1, keepdims=True)

    shares = np.full(len(laws), 1.0 / len(laws))
    for _ in range(SHRINKAGE.mixture_steps):
        shares = by_law(shares).sum(axis=0) / max(x.size, 1)
    shares *= x.size
    shares[0] += SHRINKAGE.alike
    return np.minimum(by_law(shares) @ (laws / total) / reached, 1.0).reshape(x.shape)


def prior_sizes(problem: Any) -> np.ndarray:
    """Mean squares of the features, of which 1 is the largest unless all features are 0."""
    squares = np.array(problem.mean_square)
    sizes: np.ndarray = squares / (float(squares.max()) or 1.0)
    return sizes


def prior_factors(
    x: np.ndarray, variance: np.ndarray, reached: np.ndarray, sizes: np.ndarray, most: float
) -> np.ndarray:
    """The best factor, at most 1, of every coordinate if truths are normal.

    Their variances are a multiple of a power of ``sizes``, of which 1 is the largest: small ones
    vanish first if they are no more than noise. Factors are means over multiples and powers, the
    more likely ones given ``x`` having more weight.

    Parameters
    ----------
    x : ndarray
        Shares of truths, with noise.
    variance, reached : ndarray
        Variances of the noise, and those shares.
    sizes : ndarray
        Curvatures, by which squares of truths are weighted.
    most : float
        Largest sum of these squares.
    """
    likely, factors = [], []
    for power in range(SHRINKAGE.rougher):
        unit = sizes**power
        unit *= most / max(float(sizes @ unit), 1e-300)
        for part in (0.0, *2.0 ** -np.arange(0.0, 16.0, 0.5)):
            truth = part * unit
            total = np.maximum(reached**2 * truth + variance, 1e-300)
            likely.append(-0.5 * float((np.log(total) + x * x / total).sum()) - power)
            factors.append(np.minimum(reached * truth / total, 1.0))
    found: np.ndarray = softmax(likely) @ factors
    return found


def set_length(
    problem: Any,
    found: Descended,
    target: float,
    steps: GradientSteps,
    how: str,
    kept: float = 1.0,
) -> None:
    """Change the length of a result in place, and then its intercept.

    The length of the features follows from a search along the result if ``how`` is "search". If
    mean squares of features are those of a "prior", so are the variances of coordinates. Otherwise
    all coordinates are shrunk by a "common" factor, or "each" by its own. For centred
    targets and fits that begin at a model the ones follow.

    Parameters
    ----------
    problem : CompositeProblem
    found : Descended
    target : float
        Root mean square of the targets.
    steps : GradientSteps
    how : str
    kept : float, default=1.0
        What clipping leaves of curvatures, if that is known to be less than usual.
    """
    traits = traits_of(problem.loss)
    typical = usual_curvature(problem.loss) * (1.0 if traits.exponential else SHRINKAGE.curved)
    curvature = min(typical, kept) * problem.mean_weight
    K, d = problem.loss.n_outputs, problem.n_features - problem.intercept
    if traits.sums_to_zero:  # so do gradients over classes
        steps = steps._replace(noises=steps.noises * math.sqrt(1.0 - 1.0 / K))
    responses = steps.responses(curvature)
    slope = target if traits.residuals else lipschitz_l2(problem.loss)
    most = SHRINKAGE.most_signal * max(target, slope / curvature) ** 2
    W = found.u.reshape(K, -1)
    features = found.part(K, slice(0, d))
    if how == "search":
        total = problem.mean_weight * target**2 if traits.quadratic else math.inf
        factor = best_length(features, steps, responses, curvature, total)
        # The values of other penalties may be infinite for longer coefficients.
        scales = isinstance(problem.penalty, L1 | L2 | ElasticNet)
        W[:, :d] *= factor if scales else min(factor, 1.0)
    elif how == "prior":
        sizes, which = np.unique(prior_sizes(problem), return_inverse=True)
        moved = steps.responses(curvature * sizes)[0]
        came = np.clip(-(curvature * sizes + steps.penalty) * moved.sum(axis=0), 0.0, 1.0)
        noise = np.square(moved).T @ np.square(steps.noises)
        noise, came, size = (np.tile(one[which], K) for one in (noise, came, sizes))
        own = prior_factors(features.u, noise, came, size, max(most, target**2))
        W[:, :d] *= own.reshape(K, d)
    else:
        variance = float(np.square(responses[0] * steps.noises).sum())
        reached = -float(responses[0].sum()) * (curvature + steps.penalty)
        reached = max(min(reached, 1.0), 1e-100)
        u, first = features.u, features.first
        along = excess(first, steps.noises[0] ** 2, SHRINKAGE.doubt) / curvature**2
        # An l1 penalty subtracts from all coordinates a part of their noise, too.
        taken = float(u @ (features.pull - steps.penalty * u)) / curvature
        doubt = SHRINKAGE.doubt if problem.start and (how == "each" or K > 1) else 0.0
        square = excess(u, variance, doubt, max(taken, 0.0)) / reached**2
        truth = min(max(square, along), most)
        factors = np.full(u.size, best_factor(truth, np.count_nonzero(u) * variance, reached))
        if how == "each":
            factors = own_factors(u, variance, truth, reached)
        if how == "each" and not (traits.residuals or problem.start):
            factors /= max(float(factors.max(initial=0.0)), 1e-100)
        W[:, :d] *= factors.reshape(K, d)
    if problem.intercept and (traits.quadratic or problem.start):
        p = features.point
        # Without coefficients all residuals are the same, and the last are clipped least.
        square = float(p @ p)
        longer = float(W[:, :d].ravel() @ p) / square if square > 1e-150 else 1.0
        most = most if problem.start else min(most, SHRINKAGE.most_offset * target**2)
        ones = found.part(K, slice(d, None))
        W[:, d:] = offset(ones, steps, longer, curvature * found.ones, most)[:, None]


def offset(
    ones: Descended, steps: GradientSteps, longer: float, curvature: float, most: float
) -> np.ndarray:
    """The intercept that belongs to features whose coefficients are ``longer`` than at the point.

    It follows from the mean residuals at 0 and at the mean point, and is shrunk as a number whose
    square is ``most`` at most.
    """
    variances = np.square(steps.noises)
    K, curved = steps.n_averaged, curvature
    moved = ones.gradient - ones.first - curved * ones.point  # by the features
    found = -(ones.first + longer * moved) / curved
    variance = (1.0 - longer) ** 2 * variances[0] + longer**2 * variances[-K:].sum() / K**2
    variance /= curved**2
    square = min(excess(found, variance), most)
    return found * best_factor(square, found.size * variance, 1.0)


def best_length(
    found: Descended, steps: GradientSteps, responses: np.ndarray, curvature: float, total: float
) -> float:
    """The factor of a result w at which a quadratic loss would be smallest along it.

    That is w'b / w'Hw for the negative gradient b at 0 and the curvatures H, less what a penalty
    takes. Both are estimated from released gradients, less what their noise adds on average.
    ``total`` is the mean square of targets, of which no more can be explained.
    """
    w, p = found.u, found.point
    variances, K = np.square(steps.noises), steps.n_averaged
    m, size, own = np.count_nonzero(w), float(w @ w), curvature
    along = m * responses[0, 0] * variances[0] - float(w @ found.first)
    # Along p the curvature is known, and w'Hw is at least q'Hp for q = 2w - p.
    for q, of_q in ((p, responses[1]), (2.0 * w - p, 2.0 * responses[0] - responses[1])):
        square = float(q @ p)
        if not square > 0.5 * size > 1e-150:  # so that its square is a number
            continue
        bias = of_q[-K:] @ variances[-K:] / K - of_q[0] * variances[0]
        beyond = (float(q @ (found.gradient - found.first)) - m * bias) / square - curvature
        unknown = float(q @ q) * (variances[0] + variances[-K:].sum() / K**2) / square**2
        sure = max(1.0 - SHRINKAGE.curvature_doubt * unknown / max(beyond**2, 1e-200), 0.0)
        own = curvature + beyond * sure if q is p else max(own, curvature + beyond * sure)
    ridged = float(found.ridge @ (w * w))
    along = max(along - max(float(found.pull @ w) - ridged, 0.0), 0.0)
    # No more can be explained than there is; and what may be noise is not believed.
    bent = max(own * size, along**2 / total) + ridged
    sure = along**2 / max(along**2 + size * variances[0], 1e-300)
    return min(sure * along / max(bent, 1e-300), SHRINKAGE.longest)
