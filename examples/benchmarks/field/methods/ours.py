"""The library's estimators at their defaults; all declarations are public."""

from functools import partial

import numpy as np

import skdpsco
from field.methods import CLASSIFICATION, REGRESSION, Method


def predictions(model, problem):
    """Values, or labels with probabilities or scores if the model has them."""
    if problem.n_classes is None:
        return {"values": model.predict(problem.X_test)}
    found = {"labels": model.predict(problem.X_test)}
    if hasattr(model, "predict_proba"):
        found["probabilities"] = model.predict_proba(problem.X_test)
    elif problem.n_classes == 2:
        found["scores"] = model.decision_function(problem.X_test)
    return found


def declared(problem, budget):
    """Parameters that say what is public."""
    params = {"epsilon": budget.epsilon, "delta": budget.delta}
    if problem.n_classes is not None:
        params["classes"] = np.arange(problem.n_classes)
    return params


def linear(estimator, problem, budget, rng):
    model = getattr(skdpsco, estimator)(**declared(problem, budget))
    return predictions(model.fit(problem.X, problem.y), problem)


def group_dro(problem, budget, rng):
    model = skdpsco.PrivateGroupDRO(
        groups=np.arange(problem.group.max() + 1),
        group_membership="private",
        **declared(problem, budget),
    )
    return predictions(model.fit(problem.X, problem.y, sensitive_features=problem.group), problem)


def synthesizer(problem, budget, rng):
    domain = [np.arange(size) for size in problem.sizes]
    model = skdpsco.PrivateSynthesizer(
        domain=domain, epsilon=budget.epsilon, delta=budget.delta
    ).fit(problem.X)
    return {"table": np.asarray(model.sample(len(problem.X)))}


def of(estimator, *tasks):
    return Method(tasks, partial(linear, estimator))


METHODS = {
    "PrivateLogisticRegression": of("PrivateLogisticRegression", *CLASSIFICATION, "worst group"),
    "PrivateLogisticL1": of("PrivateLogisticL1", *CLASSIFICATION),
    "PrivateLinearSVC": of("PrivateLinearSVC", *CLASSIFICATION),
    "PrivateLinearClassifier": of("PrivateLinearClassifier", "binary", "text"),
    "PrivateAdditiveClassifier": of("PrivateAdditiveClassifier", "binary", "multiclass"),
    "PrivateAdditiveRegressor": of("PrivateAdditiveRegressor", *REGRESSION),
    "PrivateRidge": of("PrivateRidge", *REGRESSION),
    "PrivateLasso": of("PrivateLasso", *REGRESSION),
    "PrivateElasticNet": of("PrivateElasticNet", *REGRESSION),
    "PrivateHuberRegressor": of("PrivateHuberRegressor", *REGRESSION),
    "PrivateGroupDRO": Method(("worst group",), group_dro),
    "PrivateSynthesizer": Method(("table",), synthesizer),
}
