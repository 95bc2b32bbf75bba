"""
Groups in hospitals
===================

A model for the average serves the large hospitals. `PrivateGroupDRO` minimises the loss of the
worst one. The patients are invented: in one of six hospitals the younger ones are ill. Which
hospital a patient was in is public here; nothing else about a patient is.
"""

import numpy as np
import pandas as pd

from skdpsco import PrivateGroupDRO, PrivateLogisticRegression, Schema, make_private_pipeline
from skdpsco.group_dro import group_report
from skdpsco.inspection import GroupLossDisplay

rng, n = np.random.default_rng(0), 40_000
shares = {"Bonn": 0.3, "Graz": 0.2, "Lyon": 0.2, "Oslo": 0.15, "Pisa": 0.08, "Turku": 0.07}
hospital = rng.choice(list(shares), n, p=list(shares.values()))
patients = pd.DataFrame({"age": rng.uniform(18, 90, n), "pressure": rng.normal(130, 20, n)})
tendency = np.where(hospital == "Turku", -0.3, 1.0) * (patients["age"] - 54) / 12
tendency += (patients["pressure"] - 130) / 10 + rng.logistic(size=n)
patients = patients.assign(hospital=hospital, ill=tendency > 0)

# %%
# The code book. It also names the column that holds the groups, which is not a feature.
columns = {"age": {"bounds": [18, 90]}, "pressure": {"bounds": [60, 220], "unit": "mmHg"}}
columns |= {"hospital": list(shares), "ill": "boolean"}
schema = Schema(columns, target="ill", groups="hospital")
X, y, groups = patients[schema.features], patients["ill"], patients["hospital"]
worst = make_private_pipeline(schema, PrivateGroupDRO(), epsilon=1.0)
worst.fit(X[::2], y[::2], privategroupdro__sensitive_features=groups[::2])
print(worst[-1].privacy_, "\n")

# %%
# For comparison, a model for the average; both are scored on other patients.
average = make_private_pipeline(schema, PrivateLogisticRegression(), epsilon=1.0)
average.fit(X[::2], y[::2])
other = {"X": X[1::2], "y": y[1::2], "sensitive_features": groups[1::2]}
for name, model in {"worst hospital": worst, "average": average}.items():
    print(f"A model for the {name}:\n{group_report(model, **other)}\n")
_ = GroupLossDisplay.from_estimator(worst, **other, name="worst", baseline={"average": average})
