"""Known methods as `baselines.py` has them, with an exact accounting of their noise.

All protect against the replacement of a record. They find a centre and a scale of rows, and the
scale of a target, as the library's estimators do, and are linear models for two classes.
"""

from functools import partial

import baselines

from field.methods import REGRESSION, Method


def classify(predict, problem, budget, rng):
    labels = predict(problem.X, problem.y, problem.X_test, 1.0, budget, rng)
    return {"labels": labels}


def regress(predict, problem, budget, rng):
    return {"values": predict(problem.X, problem.y, problem.X_test, 1.0, budget, rng)}


def of(kind, tasks, predict, most_columns=None):
    return Method(tasks, partial(kind, predict), most_columns=most_columns)


TWO_CLASSES = ("binary", "text", "worst group")
METHODS = {
    "DP gradient descent": of(classify, TWO_CLASSES, baselines.gradient_descent),
    "objective perturbation": of(classify, TWO_CLASSES, baselines.objective_perturbation, 600),
    "AdaSSP": of(regress, REGRESSION, baselines.adassp),
    "boosted AdaSSP": of(regress, REGRESSION, baselines.boosted_adassp),
}
