"""
One release, many answers
=========================

How well do the other rows of a picture predict each row? For scikit-learn's digits, pictures of
8 x 8 pixels, that is eight regressions, and soon there are more: with fewer rows, or with another
penalty. Models that are fitted to the records share the budget; models that are fitted to moments,
which were released once, cost nothing. The scores are those of the training records, without noise:
on private data they would be a separate release.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LinearRegression

from skdpsco import Budget, PrivateMoments, PrivateRidge

EPSILON, DELTA = 2.0, 1e-5
REPETITIONS = 3
N_MODELS = [1, 4, 16, 64, 256]  # among which the budget is divided

pictures = load_digits().images  # from 0 to 16, which is public
rows = 2.0 * pictures.mean(axis=2) / 16.0 - 1.0  # mean ink of every row, in [-1, 1]
d = rows.shape[1]
others = [[j for j in range(d) if j != k] for k in range(d)]


def score(fitted):
    """Mean R^2 of the eight models that a function returns."""
    return np.mean([fitted(k).score(rows[:, others[k]], rows[:, k]) for k in range(d)])


# %%
# A column is chosen as the target by its number.
def of_moments(k):
    return PrivateRidge().fit(moments.select(others[k], target=k))


def of_records(k):
    model = PrivateRidge(epsilon=part.epsilon, delta=DELTA, target_bound=1.0)
    return model.fit(rows[:, others[k]], rows[:, k])


whole = score(lambda k: LinearRegression().fit(rows[:, others[k]], rows[:, k]))
once = []
for _ in range(REPETITIONS):
    moments = PrivateMoments(epsilon=EPSILON, delta=DELTA).fit(rows)
    once.append(score(of_moments))
print(f"Mean R^2 at epsilon {EPSILON:g} in all; without privacy {whole:.2f}:")
print(f"any number of models of one release  {np.median(once):5.2f}")
shared = []
for n_models in N_MODELS:
    part = Budget.from_rho(Budget(EPSILON, DELTA).rho / n_models, DELTA)
    shared.append(np.median([score(of_records) for _ in range(REPETITIONS)]))
    print(f"{n_models:>3} models of the records              {shared[-1]:5.2f}")
print(moments.privacy_)

# %%
# Models of moments know how uncertain they are. The plot shows the fourth row, predicted from the
# two rows above and the two below it. Points are the values without privacy, and intervals count
# both sampling and noise.
near = [1, 2, 4, 5]
model = PrivateRidge(alpha=0.0).fit(moments.select(near, target=3))
low, high = model.confint().T
plain = LinearRegression().fit(rows[:, near], rows[:, 3])

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
left.axhline(whole, color="black", linewidth=0.8, label="without privacy")
left.axhline(np.median(once), label="fitted to moments")
left.plot(N_MODELS, shared, "o-", color="C1", label="fitted to records")
left.set(xscale="log", ylim=(0.0, None), xlabel="number of models", ylabel="mean R²")
left.set_title(f"ε = {EPSILON:g} for all of them")
left.legend()
right.axhline(0.0, color="lightgrey", linewidth=0.8)
lengths = [model.coef_ - low, high - model.coef_]
right.errorbar(near, model.coef_, lengths, fmt="o", capsize=3, label="fitted to moments")
right.plot(near, plain.coef_, "x", color="black", label="without privacy")
right.set(xlabel="row of the picture", ylabel="coefficient", xticks=near)
right.set_title("Row 3, with 95 % intervals")
right.legend()
figure.tight_layout()
plt.show()
