"""
A model that finds a rare class
===============================

If one class is rare, a model that is good on average may hardly ever find it, and the noise of
privacy makes that worse. With `PrivateMinimaxClassifier` every class counts the same, however rare
it is: by default it minimises the mean of the classes' mean losses. The data are scikit-learn's
handwritten digits: is it an 8 or a 9? They stand in for private records: the accuracies shown are
on other records, and on private data they would be a separate release.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skdpsco import PrivateLogisticRegression, PrivateMinimaxClassifier
from skdpsco.group_dro import worst_group_score

# %%
# Pixels are between 0 and 16, which is public. Means of four pixels say nearly as much, and 16
# features have less noise than 64. The ten digits are equally frequent, so two in ten records are
# an 8 or a 9. That is public too, so the model need not count them (``class_prior``).
pixels, digit = load_digits(return_X_y=True)
X = pixels.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16) / 8.0 - 1.0
y = np.where(digit >= 8, "8 or 9", "other")
LABELS, SHARES = ["8 or 9", "other"], [0.2, 0.8]
EPSILONS = [1.0, 2.0, 4.0, 8.0, 16.0]
SPLITS = 20


def models(epsilon):
    """A private model for the average record, and one to which all classes count the same."""
    common = {"epsilon": epsilon, "feature_bound": 1.0, "classes": LABELS}
    return {
        "average": PrivateLogisticRegression(**common),
        "equal classes": PrivateMinimaxClassifier(class_prior=SHARES, **common),
    }


def accuracies(model, X_test, y_test):
    """On the worst class, and on all records."""
    worst = worst_group_score(model, X_test, y_test, sensitive_features=y_test)
    return worst, model.score(X_test, y_test)


# %%
# One fit, and its own report. The weights of the classes are part of the release: the model was
# fitted to this mixture of the classes' losses. Here they are equal.
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
model = models(4.0)["equal classes"].fit(X_train, y_train)
print(model.privacy_, "\n")
print("weights:", dict(zip(LABELS, model.task_weights_[0].round(2).tolist(), strict=True)), "\n")

# %%
# Many splits and fits, to tell noise from luck.
found = {(name, epsilon): [] for epsilon in EPSILONS for name in models(epsilon)}
without = {"average": [], "equal classes": []}
for seed in range(SPLITS):
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, random_state=seed, stratify=y
    )
    for epsilon in EPSILONS:
        for name, model in models(epsilon).items():
            fitted = model.fit(X_train, y_train)
            found[name, epsilon].append(accuracies(fitted, X_test, y_test))
    for name, weight in (("average", None), ("equal classes", "balanced")):
        fitted = LogisticRegression(class_weight=weight).fit(X_train, y_train)
        without[name].append(accuracies(fitted, X_test, y_test))

print(f"{'':>10}   accuracy on the worst class     accuracy on all records")
names = f"{'average':>9} {'equal classes':>13}"
print(f"{'epsilon':>10}   {names}        {names}")
for epsilon in EPSILONS:
    (a, b), (c, d) = (np.mean(found[name, epsilon], axis=0) for name in without)
    print(f"{epsilon:>10g}   {a:>9.3f} {c:>13.3f} {b:>16.3f} {d:>13.3f}")
(a, b), (c, d) = (np.mean(without[name], axis=0) for name in without)
print(f"{'no noise':>10}   {a:>9.3f} {c:>13.3f} {b:>16.3f} {d:>13.3f}")

# %%
# The model for the average gets four in five right by saying "other" to nearly all. Finding the
# other class costs some of that.
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
colours = {"average": "tab:grey", "equal classes": "tab:blue"}
for k, (ax, title) in enumerate(zip(axes, ["on the worst class", "on all records"], strict=True)):
    for name, colour in colours.items():
        values = np.array([np.array(found[name, epsilon])[:, k] for epsilon in EPSILONS])
        low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=1)
        ax.plot(EPSILONS, middle, marker="o", color=colour, label=f"private, {name}")
        ax.fill_between(EPSILONS, low, high, color=colour, alpha=0.2, linewidth=0)
        level = np.median(np.array(without[name])[:, k])
        ax.axhline(level, color=colour, linestyle=":", label=f"not private, {name}")
    ax.set_xscale("log", base=2)
    ax.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    ax.set(title=f"Accuracy {title}", xlabel="epsilon", ylim=(0, 1))
axes[1].legend(loc="lower right", fontsize="small")
figure.suptitle("Is it an 8 or a 9? Median and quartiles of 20 splits")
plt.show()
