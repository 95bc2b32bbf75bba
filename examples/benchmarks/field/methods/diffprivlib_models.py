"""Models of diffprivlib at their defaults, with the same public bounds.

Its guarantees are of pure epsilon: delta is not used. Logistic regression (objective perturbation,
one class against the rest) and linear regression (functional mechanism) have the sensitivities of
a replaced record. Counts of naive Bayes and of a forest's leaves have those of an added or a
removed one; replacing is both, so these two get epsilon / 2.
"""

from functools import partial

from field import elsewhere
from field.methods import CLASSIFICATION, REGRESSION, Method


def logistic(problem, epsilon, C=1.0, norm=1.0):
    """Rows are shortened to the share ``norm`` of their public bound."""
    from diffprivlib.models import LogisticRegression

    return LogisticRegression(epsilon=epsilon, C=C, data_norm=norm * problem.row_norm)


def naive_bayes(problem, epsilon, **setting):
    from diffprivlib.models import GaussianNB

    return GaussianNB(epsilon=epsilon / 2.0, bounds=(0.0, 1.0), **setting)


def forest(problem, epsilon, **setting):
    from diffprivlib.models import RandomForestClassifier

    public = {"bounds": (0.0, 1.0), "classes": list(range(problem.n_classes))}
    return RandomForestClassifier(epsilon=epsilon / 2.0, **public, **setting)


def linear(problem, epsilon, start=0.0, end=1.0):
    """Targets are clipped to a part of their public range."""
    from diffprivlib.models import LinearRegression

    low, high = problem.y_range
    bounds = low + start * (high - low), low + end * (high - low)
    return LinearRegression(epsilon=epsilon, bounds_X=(0.0, 1.0), bounds_y=bounds)


def fitted(name, problem, epsilon, setting):
    """Predictions, in the environment of diffprivlib."""
    X, X_test = (x.toarray() if hasattr(x, "toarray") else x for x in (problem.X, problem.X_test))
    model = globals()[name](problem, epsilon, **setting).fit(X, problem.y)
    if problem.n_classes is None:
        return {"values": model.predict(X_test)}
    return {"labels": model.predict(X_test), "probabilities": model.predict_proba(X_test)}


def run(name, problem, budget, rng, **setting):
    arguments = name, problem, budget.epsilon, setting
    return elsewhere.call("rivals", "diffprivlib_models", "fitted", *arguments)


def of(name, tasks, most_columns=None, settings=()):
    return Method(tasks, partial(run, name), True, "rivals", most_columns, settings)


PENALTIES = tuple(
    {"C": C, "norm": norm} for C in (1.0, 0.1, 0.01) for norm in (1.0, 0.4) if (C, norm) != (1, 1)
)
VARIANCES = tuple({"var_smoothing": share} for share in (1e-3, 1e-2, 0.1))
TREES = (
    {"n_estimators": 10, "max_depth": 3},
    {"n_estimators": 3, "max_depth": 5},
    {"n_estimators": 30, "max_depth": 8},
)
RANGES = ({"start": 0.0, "end": 0.5}, {"start": 0.25, "end": 0.75})
METHODS = {
    "diffprivlib LogisticRegression": of(
        "logistic", (*CLASSIFICATION, "worst group"), settings=PENALTIES
    ),
    "diffprivlib GaussianNB": of("naive_bayes", CLASSIFICATION, 600, VARIANCES),
    "diffprivlib RandomForest": of("forest", CLASSIFICATION, settings=TREES),
    "diffprivlib LinearRegression": of("linear", REGRESSION, 60, RANGES),
}
