"""TukeyEM (Amin et al. 2023), and the same on columns that DPKendall selects (Dick et al. 2023).

Models are fitted to disjoint batches of records. The depth of a point is the least number of models
on either side of it, over all columns, so that points of depth q or more are a box between order
statistics. A point is drawn with a density of exp(a depth) among those of depth t or more, but only
if a noisy distance from records on which this is not private is large enough.

A replaced record replaces one model, so that depths move by at most 1. Write V(q) for the volume
of the box of depth q, and M(s) for the integral of exp(a depth) over the box of depth s.

- Densities of neighbours differ by a factor of at most exp(2 a) where both are positive. Only one
  of them is where depths are t and t - 1. That is within the box of depth t - 1, and adds at most
  exp(a (t + 1)) V(t - 1) / M(t) to delta.
- So the draw is private if exp(a (t + k + 1)) V(t - k - 1) / M(t + k) <= delta holds at k = 0. If
  this holds at k, it holds at k - 1 for a neighbour, whose box of depth q contains that of depth
  q + 1. Hence the number of k for which it holds, the distance, moves by at most 1.
- If the distance is 0, Laplace noise lets the draw happen with a probability of at most delta.

The authors give the guarantee of an added record. This is that of a replaced one, without the
constants of theirs that it does not need.
"""

import math
from functools import partial

import numpy as np
from scipy.special import logsumexp
from scipy.stats import kendalltau

from field.methods import REGRESSION, Method

COLUMNS, SELECTION = 5, 0.05  # that are selected, and the share of epsilon for it


class Refused(Exception):
    """The records may not be far enough from those on which a draw is not private."""


def batch_models(A, y, m, rng):
    """Least squares on m batches of as many rows."""
    rows = rng.permutation(len(y))[: len(y) // m * m].reshape(m, -1)
    return np.einsum("mdb,mb->md", np.linalg.pinv(A[rows]), y[rows])


class Boxes:
    """Boxes of the points of depth 1, 2, ..., m / 2, and logarithms of what is said above."""

    def __init__(self, models, a):
        ordered, top = np.sort(models, axis=0), len(models) // 2
        self.low, self.high = ordered[:top], ordered[::-1][:top]
        with np.errstate(divide="ignore"):
            self.volume = np.log(self.high - self.low).sum(axis=1)
        # exp(a depth) is a sum over the boxes that contain a point: of exp(a t) for that of depth
        # t, and of exp(a q) - exp(a (q - 1)) for deeper ones.
        self.a, self.t, self.depth = a, len(models) // 4, np.arange(1, top + 1)
        self.deeper = a * self.depth + math.log(-math.expm1(-a)) + self.volume

    def weights(self, s):
        """Logarithms of the integrals over the boxes from depth s on; their sum is M(s)."""
        return np.append(self.a * s + self.volume[s - 1], self.deeper[s:])

    def distance(self, delta):
        """At how many k from 0 on the condition holds."""
        for k in range(self.t - 1):
            mass = logsumexp(self.weights(self.t + k))
            least = self.a * (self.t + k + 1) + self.volume[self.t - k - 2] - math.log(delta)
            if not least <= mass > -np.inf:
                return k
        return self.t - 1

    def draw(self, rng):
        weights = self.weights(self.t)
        k = self.t - 1 + np.argmax(weights + rng.gumbel(size=len(weights)))
        return rng.uniform(self.low[k], self.high[k])


def tukey_em(A, y, epsilon, delta, rng, rows=1.0):
    """A model by the depth of models of batches; ``rows`` of a batch are for each column."""
    n, d = A.shape
    m = int(n / (rows * d))
    if m < 4:
        raise Refused
    boxes = Boxes(batch_models(A, y, m, rng), epsilon / 4.0)
    needed = 2.0 / epsilon * math.log(0.5 / delta)
    if boxes.distance(delta) + 2.0 / epsilon * rng.laplace() <= needed:
        raise Refused
    return boxes.draw(rng)


def different(z):
    """How many ordered pairs of records have different values."""
    return float(len(z) ** 2 - (np.unique(z, return_counts=True)[1] ** 2).sum())


def correlation(x, y):
    """Kendall's: concordant pairs minus discordant ones, over n - 1; ties are neither.

    A replaced record is in n - 1 pairs, and moves it by at most 2.
    """
    tau = np.nan_to_num(kendalltau(x, y).statistic)  # of a constant: 0
    return 0.5 * tau * math.sqrt(different(x) * different(y)) / (len(x) - 1)


def dp_kendall(X, y, k, epsilon, rng):
    """Columns that go with the target, and less so with those chosen before.

    An exponential mechanism chooses each of them, with the k-th part of epsilon.
    """
    target, others = np.abs([correlation(x, y) for x in X.T]), np.zeros(X.shape[1])
    chosen = []
    for _ in range(k):
        moved = 4.0 if chosen else 2.0
        noise = 2.0 * moved * k / epsilon * rng.gumbel(size=len(target))
        score = target - others / max(len(chosen), 1) + noise
        score[chosen] = -np.inf
        chosen.append(int(np.argmax(score)))
        others += np.abs([correlation(x, X[:, chosen[-1]]) for x in X.T])
    return chosen


def run(selects, problem, budget, rng, columns=COLUMNS, rows=1.0):
    X, X_test, epsilon = problem.X, problem.X_test, budget.epsilon
    if selects and columns < X.shape[1]:
        chosen = dp_kendall(X, problem.y, columns, SELECTION * epsilon, rng)
        X, X_test, epsilon = X[:, chosen], X_test[:, chosen], (1.0 - SELECTION) * epsilon
    A, A_test = (np.column_stack([x, np.ones(len(x))]) for x in (X, X_test))
    return {"values": A_test @ tukey_em(A, problem.y, epsilon, budget.delta, rng, rows)}


METHODS = {
    "TukeyEM": Method(REGRESSION, partial(run, False), settings=({"rows": 2.0}, {"rows": 4.0})),
    "DPKendall, TukeyEM": Method(
        REGRESSION, partial(run, True), settings=({"rows": 2.0}, {"columns": 10})
    ),
}
