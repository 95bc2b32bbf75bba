"""
Counts, and what is rarely exceeded
===================================

How many visits does a patient make in a year, by age? A Poisson regression tells the mean, and
quantile regressions tell how many visits half of the patients, and nine in ten, do not exceed. Each
model has scikit-learn's name and parameters, and a third of the budget, by one ledger. The data are
generated.
"""

import matplotlib.pyplot as plt
import numpy as np

from skdpsco import Budget, Ledger, PrivatePoissonRegressor, PrivateQuantileRegressor

rng = np.random.default_rng(0)
age = rng.uniform(18.0, 90.0, 20_000)
visits = rng.negative_binomial(4, 4.0 / (4.0 + np.exp(0.5 + 0.02 * (age - 18.0))))

ledger = Ledger(epsilon=3.0, delta=1e-6, dataset="visits")
part = Budget.from_rho(Budget(3.0, 1e-6).rho / 3.0, 1e-6)
common = {"epsilon": part.epsilon, "delta": 1e-6, "ledger": ledger, "feature_bound": 90.0}
models = {"mean": PrivatePoissonRegressor(alpha=0.0, target_bound=60.0, **common)}
for level in (0.5, 0.9):
    name = f"exceeded by {1.0 - level:.0%}"
    models[name] = PrivateQuantileRegressor(quantile=level, alpha=0.0, target_bound=60.0, **common)

# %%
# All bounds are public: nobody is older than 90, and nobody comes more than sixty times.
grid = np.linspace(18.0, 90.0, 50)
figure, ax = plt.subplots(figsize=(5.5, 3.8))
near = (age[:, None] < grid[1:]) & (age[:, None] >= grid[:-1])
middle = 0.5 * (grid[1:] + grid[:-1])
truth = {
    "mean": np.array([visits[rows].mean() for rows in near.T]),
    "exceeded by 50%": np.array([np.quantile(visits[rows], 0.5) for rows in near.T]),
    "exceeded by 10%": np.array([np.quantile(visits[rows], 0.9) for rows in near.T]),
}
for (name, model), colour in zip(models.items(), plt.cm.tab10.colors, strict=False):
    model.fit(age[:, None], visits)
    ax.plot(middle, truth[name], ".", color=colour, markersize=4)
    ax.plot(grid, model.predict(grid[:, None]), color=colour, label=name)
ax.set(xlabel="age", ylabel="visits in a year", ylim=(0.0, None))
ax.legend()
figure.tight_layout()
plt.show()

# %%
# Points are those of the records, without privacy. The three fits have spent:
print(f"epsilon {ledger.spent().epsilon:.2f}")
