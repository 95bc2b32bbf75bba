"""
Tuning within the budget
========================

Twenty fits of a grid search use the records twenty times, and its scores are releases too.
`PrivateGridSearchCV` states one epsilon for all of it. Here it finds out how far features should be
clipped, in a model that tells digits 0-4 from 5-9: 1,347 records of scikit-learn's digits, whose 64
pixels have values that we pretend not to know. The same total epsilon is spent in four ways; boxes
show the accuracy on other records over eight repetitions. (On private data such a plot would itself
be a release.)

A search pays where the default is wrong, and costs where it is right: what is spent on knowing
better is not spent on the model. Both cases are below, the same pixels in two units.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from skdpsco import PrivateGridSearchCV, PrivateLogisticL1

X, y = load_digits(return_X_y=True)
y = y > 4
BOUNDS = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0])
EPSILON = 4.0
SPLITS = 8
model = PrivateLogisticL1(classes=[False, True], epsilon=EPSILON)

# %%
# A search is an estimator like any other, and reports its whole cost.
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
search = PrivateGridSearchCV(model, {"feature_bound": BOUNDS.tolist()}, epsilon=EPSILON)
search.fit(X_train, y_train)
print(search.best_params_, f"accuracy {search.score(X_test, y_test):.3f}")
print(search.privacy_)


# %%
# Against it: all of the budget for one candidate drawn blindly, all of it for the candidate that
# is best on the test records (which nobody knows), and the default, feature_bound=1.
def compare(X, bounds):
    scores = {"search": [], "random candidate": [], "best": [], "default": []}
    single = np.zeros((SPLITS, len(bounds)))
    search = PrivateGridSearchCV(model, {"feature_bound": bounds.tolist()}, epsilon=EPSILON)
    for seed in range(SPLITS):
        X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=seed, stratify=y)
        for k, bound in enumerate(bounds):
            model.set_params(feature_bound=bound)
            single[seed, k] = model.fit(X_train, y_train).score(X_test, y_test)
        model.set_params(feature_bound=1.0)
        scores["search"].append(search.fit(X_train, y_train).score(X_test, y_test))
        scores["default"].append(model.fit(X_train, y_train).score(X_test, y_test))
    scores["random candidate"] = single.ravel().tolist()
    scores["best"] = single[:, single.mean(axis=0).argmax()].tolist()
    return scores


# Pixels are counts from 0 to 16: the default clips nearly all of what they say. As shares of 16
# they fill what the default expects.
cases = {
    "counts: the default clips too much": compare(X, BOUNDS),
    "shares: the default is right": compare(X / 16.0, BOUNDS / 16.0),
}
for title, scores in cases.items():
    print(title)
    for name, values in scores.items():
        print(f"  {name:<17} {np.median(values):.3f}")

# %%
# So search for what nobody can guess, with few candidates that differ by much. What is publicly
# known, such as the range of a pixel, is better declared: it costs nothing.
figure, panels = plt.subplots(1, 2, figsize=(11, 4), sharey=True)
for ax, (title, scores) in zip(panels, cases.items(), strict=True):
    ax.boxplot(list(scores.values()))
    ax.set_xticks(range(1, len(scores) + 1), list(scores))
    ax.set_title(title)
panels[0].set_ylabel(f"accuracy on other records, total epsilon {EPSILON:g}")
figure.tight_layout()
plt.show()
