"""
One budget for a whole pipeline
===============================

A `StandardScaler` in front of a private model breaks its guarantee: the means are those of the
records. Here every step is private or data-independent, a ledger adds up what they cost, and
`privacy_report` says so, for a plain scikit-learn `Pipeline`. The data are scikit-learn's breast
cancer data: 569 records of 30 measurements, in their own units.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpsco import BudgetExceededError, Ledger, PrivateLogisticL1
from skdpsco.inspection import privacy_report
from skdpsco.preprocessing import PrivateStandardScaler

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)

# Public bounds: no tumour has measurements beyond these. They are generous.
upper = [30, 40, 200, 2500, 0.2, 0.4, 0.5, 0.25, 0.4, 0.1]
upper += [3, 5, 25, 550, 0.04, 0.15, 0.4, 0.06, 0.1, 0.03]
upper += [40, 50, 260, 4300, 0.25, 1.1, 1.3, 0.3, 0.7, 0.25]

# %%
# The usual way. The report names the step that is not private.
leaky = make_pipeline(StandardScaler(), PrivateLogisticL1(classes=[0, 1], feature_bound=1.0))
print(privacy_report(leaky.fit(X_train, y_train)), "\n")

# %%
# The same with private means and scales, and a ledger: it is charged before any noise is drawn.
ledger = Ledger(epsilon=2.0, delta=1e-6, dataset="breast cancer")
pipeline = make_pipeline(
    PrivateStandardScaler(epsilon=0.48, lower=0.0, upper=upper, ledger=ledger),
    PrivateLogisticL1(epsilon=0.86, classes=[0, 1], feature_bound=1.0, ledger=ledger),
)
pipeline.fit(X_train, y_train)
print(privacy_report(pipeline), "\n")
print(f"accuracy on other records: {pipeline.score(X_test, y_test):.3f}")

# %%
# Copies charge the same ledger. What is left pays for two of five folds of cross-validation; the
# others are refused. (Raw scores are a release that is not private, shown only as an example.)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", FitFailedWarning)
    scores = cross_val_score(pipeline, X_train, y_train, cv=5, error_score=np.nan)
print(f"folds that were fitted: {np.isfinite(scores).sum()} of 5")
print(f"remaining: epsilon {ledger.remaining().epsilon:.2f} of {ledger.epsilon:g}")
try:
    pipeline.fit(X_train, y_train)
except BudgetExceededError as error:
    print(error)

# %%
print(ledger.history()[["estimator", "rho"]].to_string())
ledger.plot()
plt.tight_layout()
plt.show()
