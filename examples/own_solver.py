"""
A solver of your own
====================

The simplest private linear model: the gradients of all records at 0 are summed, noise is added, and
the coefficients are the point of the ball that goes furthest against the sum. For two classes that
is the direction from one mean to the other. It shows what `plan` and `run` have to do. The data are
the 1797 handwritten digits that ship with scikit-learn: is a digit odd?
"""

import math
from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skdpsco import PrivateLinearClassifier
from skdpsco.constraints import minimiser
from skdpsco.data import columns_of, one_pass
from skdpsco.losses import bounded_derivatives, derivative, derivatives, lipschitz_l2
from skdpsco.mechanisms import gaussian_grid, gaussian_mechanism, summation_error
from skdpsco.privacy import GaussianEvent
from skdpsco.solvers import Plan, Result, njit


# %%
# A plan is frozen and holds all that `run` must know: here the grid on which noise is drawn. It
# follows from the budget and from public sizes.
@dataclass(frozen=True)
class OneGradientPlan(Plan):
    grid: float = 0.0


class OneGradient:
    """One noisy gradient at 0, followed to the boundary of the ball."""

    requires = {"loss": ((derivative, derivatives),), "constraint": ((minimiser,),)}
    by_blocks = True  # `one_pass` also reads records in blocks

    def plan(self, problem, budget, n_iter=None):
        n, D = problem.n_samples, problem.n_coefficients
        bound = gradient_bound(problem)
        # Replacing a record moves the sum by 2 bound in l2 norm, and rounding adds a little.
        sensitivity = 2.0 * bound + 2.0 * math.sqrt(D) * summation_error(n + 1, bound)
        grid = gaussian_grid(sensitivity, 1.0 / budget.mu, D, n * bound)
        return OneGradientPlan(event=GaussianEvent(1.0 / budget.mu), n_iter=1, grid=grid)

    def run(self, plan, problem, X, y, rng, progress):
        loss, columns = problem.loss, np.arange(problem.n_features)
        clip = lipschitz_l2(loss)
        total = np.zeros((loss.n_outputs, len(columns)))
        for design, targets, rows in one_pass(X, y, rng, shuffle=False).take(problem.n_samples):
            x = columns_of(design, rows[0], rows[-1] + 1, columns)  # in [-1, 1], dense
            slope = np.zeros((len(rows), loss.n_outputs))
            write_slopes(loss, targets[rows], clip, slope)
            total += slope.T @ x
        coef = total.ravel()
        gaussian_mechanism(rng, coef, plan.grid)
        progress[0] += 1
        direction = coef.copy()
        minimiser(problem.constraint, direction, coef)
        return Result(coef, plan.n_iter)


# Kernels of losses and sets are Python functions, which are compiled when a function with `njit`
# calls them. Called from Python they take hundreds of times as long.
@njit
def write_slopes(loss, y, clip, out):
    """Derivatives at 0; rows have l2 norms of at most ``clip``, whatever the loss returns."""
    bounded_derivatives(loss, np.zeros_like(out), y, clip, clip, out)


def gradient_bound(problem):
    """Bound on the l2 norm of a record's gradient: that of its features is at most sqrt(d)."""
    return lipschitz_l2(problem.loss) * math.sqrt(problem.n_features) * (1.0 + 2.0**-40)


# %%
# The estimator checks input, charges the ledger before noise is drawn, and reports.
if __name__ == "__main__":
    X, y = load_digits(return_X_y=True)
    X = X / 8.0 - 1.0  # public: pixels are counts from 0 to 16
    X_train, X_test, y_train, y_test = train_test_split(X, y % 2 == 1, random_state=0)
    model = PrivateLinearClassifier(
        epsilon=1.0, feature_bound=1.0, solver=OneGradient(), classes=[False, True]
    )
    model.fit(X_train, y_train)
    print(f"accuracy on other records: {model.score(X_test, y_test):.3f}")
    print(model.privacy_)
