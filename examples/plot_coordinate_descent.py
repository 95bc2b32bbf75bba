"""
Columns of different scales
===========================

The solver decides where the noise goes. DP-SGD clips the gradient of a record as a whole, adds the
same noise to all of its coordinates, and moves them by one step size: columns with small values
hardly move, and drown in noise. Private coordinate descent has a separate bound, noise and step
size for every column; a tenth of the budget goes into finding out how large their values are. This
library's `SGD` also spends a tenth of the budget on that, unless told not to. The data are
generated: on private data a plot like this would itself be a release.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from skdpsco import PrivateLogisticRegression
from skdpsco.solvers import SGD

EPSILON, N, REPETITIONS = 1.0, 20_000, 2
PASSES = [2, 5, 10, 20]
BATCHES = 20  # in a pass of SGD
BOUNDS = np.array([1.0, 24.0, 100.0, 100.0, 1e3, 1e4, 1e5, 1e6])  # what is declared: [0, bound]
LARGEST = BOUNDS * [1.0, 1.0, 0.6, 0.4, 0.2, 0.1, 0.06, 0.04]  # what occurs, and nobody knows

rng = np.random.default_rng(0)
X = LARGEST * rng.random((N, 8))
standardised = np.sqrt(12.0) * (X / LARGEST - 0.5)
y = rng.random(N) < expit(standardised @ [0.5, -0.5, 0.8, 0.5, -1.0, 1.0, -0.8, 1.2])


# %%
# The plot shows the relative excess of the objective over its minimum. Every point is a separate
# fit, which spends the whole budget on this many passes: more passes get farther but add more
# noise. Step sizes are the solvers' own, which follow from public numbers; tuned ones would get
# DP-SGD farther. A solver is given by its name, or as an object with parameters.
def objective(model, X):
    losses = np.logaddexp(0.0, np.where(y, -1.0, 1.0) * model.decision_function(X))
    return losses.sum() + 0.5 * (model.coef_**2).sum()


def excess(X, bounds, solver, steps_per_pass):
    """One row for each of PASSES, one column per repetition."""
    least = objective(LogisticRegression(solver="newton-cholesky", tol=1e-8).fit(X, y), X)
    model = PrivateLogisticRegression(
        epsilon=EPSILON, feature_bound=bounds, solver=solver, classes=[False, True]
    )
    rows = []
    for passes in PASSES:
        model.set_params(n_iter=passes * steps_per_pass)
        rows.append([objective(model.fit(X, y), X) / least - 1.0 for _ in range(REPETITIONS)])
    return np.array(rows)


solvers = {
    "DP-CD": ("coordinate-descent", 1),
    "DP-SGD": (SGD(batch_size=N / BATCHES, preconditioned=False), BATCHES),
    "DP-SGD, preconditioned": (SGD(batch_size=N / BATCHES), BATCHES),
}
panels = {"raw columns": (X, BOUNDS), "standardised columns": (standardised, np.sqrt(3.0))}
print(f"Relative excess of the objective at epsilon {EPSILON:g}, medians, after passes:")
print(f"{'':<22} {'':<22}", *(f"{passes:>6}" for passes in PASSES))
found = {}
for title, (features, bounds) in panels.items():
    for name, solver in solvers.items():
        found[title, name] = excess(features, bounds, *solver)
        medians = np.median(found[title, name], axis=1)
        print(f"{title:<22} {name:<22}", *(f"{value:6.4f}" for value in medians))

# %%
# If all columns have similar scales, the solvers differ little. Whether they have is hard to know
# beforehand: means and standard deviations are not public, unless they are released privately.
figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
for (title, name), errors in found.items():
    ax = axes[list(panels).index(title)]
    style = {"linestyle": "--", "linewidth": 1.0} if "preconditioned" in name else {}
    (line,) = ax.plot(PASSES, np.median(errors, axis=1), marker="o", label=name, **style)
    low, high = errors.min(axis=1), errors.max(axis=1)
    ax.fill_between(PASSES, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    ax.set(xlabel="passes over the records", xscale="log", yscale="log", title=title)
    ax.set_xticks(PASSES, [str(passes) for passes in PASSES])
    ax.minorticks_off()
    ax.grid(alpha=0.3)
axes[0].set_ylabel("relative excess of the objective")
axes[0].legend(loc="lower left")
figure.suptitle(f"Logistic regression on {N:,} records, epsilon = {EPSILON:g}")
figure.tight_layout()
plt.show()
