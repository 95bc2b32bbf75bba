"""The library's estimators at their defaults; all declarations are public."""

from functools import partial

import numpy as np

import skdpsco
from field.methods import CLASSIFICATION, REGRESSION, Method


def predictions(model, problem, test):
    """Values, or labels with probabilities or scores if the model has them."""
    if problem.n_classes is None:
        return {"values": model.predict(test)}
    found = {"labels": model.predict(test)}
    if hasattr(model, "predict_proba"):
        found["probabilities"] = model.predict_proba(test)
    elif problem.n_classes == 2:
        found["scores"] = model.decision_function(test)
    return found


def declared(problem, budget):
    """Parameters that say what is public."""
    params = {"epsilon": budget.epsilon, "delta": budget.delta}
    if problem.n_classes is not None:
        params["classes"] = np.arange(problem.n_classes)
    return params


def linear(estimator, problem, budget, rng):
    model = getattr(skdpsco, estimator)(**declared(problem, budget))
    return predictions(model.fit(problem.records, problem.y), problem, problem.records_test)


def additive(estimator, problem, budget, rng):
    schema = skdpsco.Schema(problem.schema) if problem.schema else None
    model = getattr(skdpsco, estimator)(schema=schema, **declared(problem, budget))
    return predictions(model.fit(problem.frame, problem.y), problem, problem.frame_test)


def group_dro(problem, budget, rng):
    model = skdpsco.PrivateGroupDRO(
        groups=np.arange(problem.group.max() + 1),
        group_membership="private",
        **declared(problem, budget),
    )
    model.fit(problem.X, problem.y, sensitive_features=problem.group)
    return predictions(model, problem, problem.X_test)


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
    "PrivateAdditiveClassifier": Method(
        ("binary", "multiclass"), partial(additive, "PrivateAdditiveClassifier")
    ),
    "PrivateAdditiveRegressor": Method(
        ("regression",), partial(additive, "PrivateAdditiveRegressor")
    ),
    "PrivateRidge": of("PrivateRidge", *REGRESSION),
    "PrivateLasso": of("PrivateLasso", *REGRESSION),
    "PrivateElasticNet": of("PrivateElasticNet", *REGRESSION),
    "PrivateHuberRegressor": of("PrivateHuberRegressor", *REGRESSION),
    "PrivateGroupDRO": Method(("worst group",), group_dro),
    "PrivateSynthesizer": Method(("table",), synthesizer),
}
