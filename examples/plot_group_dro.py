"""
A model for the worst group
===========================

A model that is good on average may be useless for a small group. Here five hospitals pool their
records; in the two small ones a marker has the opposite meaning. `PrivateGroupDRO` minimises the
loss of the worst hospital, with the same guarantee for every record as a model for the average.
Which hospital a patient was in is taken to be public. The data are generated: what can be shown of
them here would, on private data, be a release of its own.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from skdpsco import PrivateGroupDRO, PrivateLogisticL1, UtilityWarning
from skdpsco.group_dro import group_report, worst_group_score
from skdpsco.inspection import GroupLossDisplay, privacy_report
from skdpsco.preprocessing import PublicBoundsScaler

HOSPITALS = ["Ash", "Birch", "Cedar", "Dogwood", "Elm"]
RECORDS = [24_000, 16_000, 6_000, 2_500, 1_500]
MEANING = [3.4, 3.4, 2.0, -3.0, -3.4]  # of the marker, in the log-odds
LOWER, UPPER = np.array([0.0] + [20.0] * 19), np.array([50.0] + [80.0] * 19)  # public ranges


def draw(sizes, seed):
    rng = np.random.default_rng(seed)
    index = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.uniform(LOWER, UPPER, (len(index), 20))
    x = 2.0 * (X - LOWER) / (UPPER - LOWER) - 1.0
    log_odds = np.array(MEANING)[index] * x[:, 0] + x[:, 1:] @ np.resize([1.2, -0.8, 0.4], 19)
    y = np.where(rng.random(len(X)) < expit(log_odds), "ill", "well")
    return X, y, np.array(HOSPITALS)[index]


X, y, hospital = draw(RECORDS, seed=0)
X_test, y_test, hospital_test = draw(RECORDS, seed=1)

# %%
# A pipeline passes the groups to the step that is named in front of two underscores. (Or switch on
# scikit-learn's metadata routing: then ``sensitive_features=hospital`` finds its way, in searches
# too.) The guarantee is that of one record, which may be replaced by any other of its hospital.
scaler = PublicBoundsScaler(lower=LOWER, upper=UPPER)
labels = ["ill", "well"]
private = make_pipeline(scaler, PrivateGroupDRO(epsilon=1.0, classes=labels, groups=HOSPITALS))
private.fit(X, y, privategroupdro__sensitive_features=hospital)
print(privacy_report(private), "\n")

# %%
# Beside it: a private model for the average at the same epsilon, and one without privacy.
average = make_pipeline(scaler, PrivateLogisticL1(epsilon=1.0, classes=labels)).fit(X, y)
open_model = make_pipeline(scaler, LogisticRegression()).fit(X, y)
models = {
    "private, worst group": private,
    "private, average": average,
    "not private, average": open_model,
}
for name, model in models.items():
    worst = worst_group_score(model, X_test, y_test, sensitive_features=hospital_test)
    print(f"{name:<21} accuracy on the worst group {worst:.3f}")
print(f"\nAccuracy of the private model for the worst group, on {len(y_test):,} other records:")
print(group_report(private, X_test, y_test, sensitive_features=hospital_test), "\n")

# %%
# What the average hides: even without privacy, the model for it is hardly better than a coin in the
# small hospitals; noise is not the reason. The large ones pay for the model of the worst group;
# with ``average_weight`` between 0 and 1 they pay less, and the small ones gain less.
display = GroupLossDisplay.from_estimator(
    private,
    X_test,
    y_test,
    sensitive_features=hospital_test,
    baseline={name: model for name, model in models.items() if model is not private},
    name="private, worst group",
)
display.figure_.suptitle("Loss in every hospital (records), epsilon = 1")

# %%
# Noise is inversely proportional to the size of a group. A warning, from public sizes alone, says
# where it will drown the records: here for a ward of 60 patients. Merge such groups with others.
ward = hospital.astype(object)
ward[np.flatnonzero(hospital == "Ash")[:60]] = "Ash, ward 7"
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", UtilityWarning)
    PrivateGroupDRO(classes=labels).fit(scaler.transform(X), y, sensitive_features=ward)
print(caught[0].message)
plt.show()
