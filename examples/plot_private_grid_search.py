"""
Tuning within the budget
========================

Twenty fits of a grid search use the records twenty times, and its scores are releases too.
`PrivateGridSearchCV` states one epsilon for all of it. Here it finds out how far features should be
clipped, in a model that tells digits 0-4 from 5-9: 1,347 records of scikit-learn's digits, whose 64
pixels have values that we pretend not to know. The same total epsilon is spent in four ways; boxes
show the accuracy on other records over ten repetitions. (On private data such a plot would itself
be a release.)
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import ParameterGrid, train_test_split

from skdpsco import PrivateGridSearchCV, PrivateLogisticL1

X, y = load_digits(return_X_y=True)
y = y > 4
GRID = {"feature_bound": [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]}
EPSILON = 4.0
SPLITS = 10
model = PrivateLogisticL1(classes=[False, True])

# %%
# A search is an estimator like any other, and reports its whole cost.
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
search = PrivateGridSearchCV(model, GRID, epsilon=EPSILON).fit(X_train, y_train)
print(search.best_params_, f"accuracy {search.score(X_test, y_test):.3f}")
print(search.privacy_)

# %%
# Against it: all of the budget for one candidate drawn blindly, all of it for the candidate that
# is best on the test records (which nobody knows), and the default, feature_bound=1.
candidates = list(ParameterGrid(GRID))
scores: dict[str, list[float]] = {"search": [], "random candidate": [], "best": [], "defaults": []}
single = np.zeros((SPLITS, len(candidates)))
for seed in range(SPLITS):
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=seed, stratify=y)
    for k, params in enumerate(candidates):
        one = PrivateLogisticL1(epsilon=EPSILON, classes=[False, True], **params)
        single[seed, k] = one.fit(X_train, y_train).score(X_test, y_test)
    scores["search"].append(search.fit(X_train, y_train).score(X_test, y_test))
    defaults = PrivateLogisticL1(epsilon=EPSILON, classes=[False, True])
    scores["defaults"].append(defaults.fit(X_train, y_train).score(X_test, y_test))
scores["random candidate"] = single.ravel().tolist()
scores["best"] = single[:, single.mean(axis=0).argmax()].tolist()
for name, values in scores.items():
    print(f"{name:<17} {np.median(values):.3f}")

# %%
figure, ax = plt.subplots(figsize=(7, 4))
ax.boxplot(list(scores.values()))
ax.set_xticks(range(1, len(scores) + 1), list(scores))
ax.set(ylabel="accuracy on other records", title=f"Digits 0-4 or 5-9, total epsilon {EPSILON:g}")
figure.tight_layout()
plt.show()
