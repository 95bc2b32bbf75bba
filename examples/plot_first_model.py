"""
A first private model
=====================

Does an image show a digit from 0 to 4, or from 5 to 9? The images are scikit-learn's handwritten
digits: 1,797 records of 64 pixels. They stand in for records that deserve protection. We fit a
logistic regression to them without privacy and then with it, and see what the private model
guarantees.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skdpsco import PrivateLogisticRegression
from skdpsco.inspection import privacy_report

X, digit = load_digits(return_X_y=True)
y = digit > 4
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
print(f"{len(X_train)} records to fit, {len(X_test)} to test")

# %%
# Without privacy
# ---------------
# This is the model to replace. Nothing limits how much one image may change its coefficients.
open_model = LogisticRegression(max_iter=3000).fit(X_train, y_train)
print(f"accuracy without privacy: {open_model.score(X_test, y_test):.3f}")

# %%
# With privacy
# ------------
# State three things beforehand, without looking at the records: how strong the guarantee is
# (``epsilon`` and ``delta``), how large a feature may be (``feature_bound``: pixels are counts from
# 0 to 16), and which labels there are (``classes``).
model = PrivateLogisticRegression(
    epsilon=1.0, delta=1e-6, feature_bound=16, classes=[False, True]
).fit(X_train, y_train)
print(f"accuracy with epsilon = 1: {model.score(X_test, y_test):.3f}")

# %%
# What is guaranteed
# ------------------
# ``privacy_`` is part of the fitted model: whoever receives the model can read the guarantee.
print(model.privacy_)

# %%
# Steps before a model count too. ``privacy_report`` looks at a whole pipeline; here there is only
# the model. If the pipeline contained a ``StandardScaler``, the report would say that it is not
# private; it cannot see steps that were run outside.
print(privacy_report(model))

# %%
# More privacy, less accuracy
# ---------------------------
# Every fit and every exact score reveals a little more: with private data, choose ``epsilon``
# beforehand, fit once, and publish no such score.
# These data are public, so we can look at the price of privacy. Noise is random, so each point is
# the median of ten fits, and the band holds the middle half of them.
epsilons = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
scores = np.empty((len(epsilons), 10))
for i, epsilon in enumerate(epsilons):
    model.set_params(epsilon=epsilon)
    for k in range(scores.shape[1]):
        scores[i, k] = model.fit(X_train, y_train).score(X_test, y_test)

low, middle, high = np.quantile(scores, [0.25, 0.5, 0.75], axis=1)
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.fill_between(epsilons, low, high, alpha=0.25, linewidth=0)
ax.plot(epsilons, middle, "o-", label="private")
ax.axhline(open_model.score(X_test, y_test), color="black", linestyle="--", label="not private")
ax.axhline(0.5, color="grey", linestyle=":", label="guessing")
ax.set_xscale("log", base=2)
ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
ax.set(xlabel="epsilon", ylabel="accuracy on other records", title="Digits 0-4 or 5-9")
ax.legend(loc="lower right")
plt.show()
