"""How far gradient steps are trusted: the released gradients are compared with their noise.

This is post-processing. Proof: docs/proofs/gradient_descent.md.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from skdpsco.losses.library import SOFTMAX, Huber, Squared, lipschitz_l2, unweighted
from skdpsco.losses.log_link import LogLink, usual_mean

__all__ = ["GradientSteps", "excess", "own_factors", "shrink_result", "typical_curvature"]


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
        Square of a mean of centred targets, in units of that of the targets, beyond which it must
        exceed its noise by more than ``offset_doubt``.
    doubt : float
        Standard deviations of noise that are ignored in a first gradient, which is long if the
        truth lies along few directions of large curvature.
    offset_doubt : float
        The same for a mean of centred targets, a single number: noise should be taken for such a
        mean in one fit of 40,000.
    mixture_steps : int
        Number of steps that find a mixture of laws; chosen by hand, for time.
    alike : float
        Number of coordinates of one law that are added to a mixture.
    """

    curved: float = 0.8
    most_signal: float = 0.2
    most_offset: float = 0.06
    doubt: float = 2.0
    offset_doubt: float = 12.0
    mixture_steps: int = 100
    alike: float = 10.0


SHRINKAGE = ShrinkageTuning()


class GradientSteps(NamedTuple):
    """Gradient steps as `GradientDescent.run` takes them, if the loss is ``u**2 / 2``.

    Parameters
    ----------
    n_iter, n_averaged : int
    length : float
        At most 1: longer steps with momentum, which real curvatures allow, would diverge here.
    momentum : float
        The largest momentum.
    penalty : float
        Curvature of the penalty.
    n_first : int
        Number of first steps whose gradients have other noise.
    first_noise : float
        Deviation of this noise, in units of that of later gradients.
    """

    n_iter: int
    n_averaged: int
    length: float
    momentum: float
    penalty: float = 0.0
    n_first: int = 0
    first_noise: float = 1.0

    def gains(self) -> tuple[float, float]:
        """Variance of a result if later gradients have unit noise, and share of an optimum reached.

        There are no restarts. The result is linear in what is added to gradients: its factor is
        found for the last gradient first, as are those of the last step ``u`` and the point ``y``
        before that gradient. Points and gradients of the last steps are averaged.
        """
        shorter = 1.0 / (1.0 + self.length * self.penalty)
        kept, added = (1.0 - self.length) * shorter, self.length * shorter
        of_points, of_gradients = shorter / self.n_averaged, -added / self.n_averaged
        u = y = variance = reached = 0.0
        for t in reversed(range(self.n_iter)):
            last = float(t >= self.n_iter - self.n_averaged)
            momentum = min(self.momentum, (t + 1.0) / (t + 4.0))
            moved = u + (1.0 + momentum) * y  # the factor of the new step
            own = last * of_gradients - added * moved
            variance += (own * (self.first_noise if t < self.n_first else 1.0)) ** 2
            reached -= own
            u, y = -momentum * y, kept * moved + last * (of_points + of_gradients)
        return variance, reached * (1.0 + self.penalty)


def excess(x: np.ndarray, variance: float, doubt: float = 0.0, taken: float = 0.0) -> float:
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
    """
    m = np.count_nonzero(x)
    return max(float((x * x).sum()) + taken - (m + doubt * math.sqrt(2.0 * m)) * variance, 0.0)


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
    shares = np.full(len(laws), 1.0 / len(laws))
    for _ in range(SHRINKAGE.mixture_steps):
        by_law = likely * shares
        by_law /= by_law.sum(axis=1, keepdims=True)
        shares = by_law.sum(axis=0) / max(x.size, 1)
    shares *= x.size
    shares[0] += SHRINKAGE.alike
    by_law = likely * shares
    by_law /= by_law.sum(axis=1, keepdims=True)
    return np.minimum(by_law @ (laws / total) / reached, 1.0).reshape(x.shape)


def shrink_result(
    problem: Any,
    u: np.ndarray,
    gradients: tuple[np.ndarray, np.ndarray],
    noise: float,
    target: float,
    steps: GradientSteps,
    each: bool = False,
) -> None:
    """Shrink coordinates in place.

    They are those of the features and, for centred targets and fits that begin at a model, of the
    ones.

    Parameters
    ----------
    problem : CompositeProblem
    u : ndarray
        The coordinates.
    gradients : tuple of two ndarrays
        Gradient of the mean loss at 0, and gradient of the penalty at ``u``.
    noise : float
        Deviation of the noise in every coordinate of a gradient, after the first steps.
    target : float
        Root mean square of the targets.
    steps : GradientSteps
        The steps that were taken, with the true curvatures of loss and penalty.
    each : bool, default=False
        Whether coordinates of features have factors of their own. For labels, whose scores are
        lengthened or shortened afterwards, the largest of these is 1 unless there is a start.
    """
    curvature = typical_curvature(problem.loss) * problem.mean_weight
    length = min(steps.length * curvature, 1.0)
    steps = steps._replace(length=length, penalty=steps.penalty / curvature)
    gain, reached = steps.gains()
    reached = max(min(reached, 1.0), 1e-100)
    variance = gain * (noise / curvature) ** 2
    slope = target if problem.has_residuals else lipschitz_l2(problem.loss)
    most = SHRINKAGE.most_signal * max(target, slope / curvature) ** 2
    d = problem.n_features - problem.intercept
    W, first, pull = (x.reshape(problem.loss.n_outputs, -1) for x in (u, *gradients))
    along = excess(first[:, :d], (noise * steps.first_noise) ** 2, SHRINKAGE.doubt) / curvature**2
    # An l1 penalty subtracts from all coordinates a part of their noise, too.
    shortened = float((W * (pull / curvature - steps.penalty * W))[:, :d].sum())
    parts = [(slice(0, d), along, max(shortened, 0.0))]
    centred = isinstance(unweighted(problem.loss), Squared | Huber) or problem.start
    if problem.intercept and centred:
        beyond = excess(W[:, d:], variance, SHRINKAGE.offset_doubt) / reached**2
        parts.append((slice(d, None), beyond, 0.0))
    for part, along, taken in parts:
        doubt = SHRINKAGE.doubt if problem.start and (each or len(W) > 1) else 0.0
        square = excess(W[:, part], variance, doubt, taken) / reached**2
        if part.start == d and not problem.start:
            square = min(square, SHRINKAGE.most_offset * target**2)
        truth = min(max(square, along), most)
        if each and part.start == 0:
            factors = own_factors(W[:, part], variance, truth, reached)
            if not (problem.has_residuals or problem.start):
                factors /= max(float(factors.max(initial=0.0)), 1e-100)
            W[:, part] *= factors
        else:
            W[:, part] *= best_factor(truth, np.count_nonzero(W[:, part]) * variance, reached)


def typical_curvature(loss: Any) -> float:
    """A guess of the mean second derivative of a loss."""
    loss = unweighted(loss)
    if isinstance(loss, LogLink):
        return usual_mean(loss)
    # Two classes attain the curvature of the softmax; with more, probabilities are smaller.
    most = 1.0 / loss.n_outputs if isinstance(loss, SOFTMAX) else loss.smoothness()
    return SHRINKAGE.curved * most
