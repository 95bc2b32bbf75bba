"""Models of diffprivlib at their defaults, with the same public bounds.

Its guarantees are of pure epsilon: delta is not used. Logistic regression (objective perturbation,
one class against the rest) and linear regression (functional mechanism) have the sensitivities of
a replaced record. Counts of naive Bayes and of a forest's leaves have those of an added or a
removed one; replacing is both, so these two get epsilon / 2.
"""

from functools import partial

from field import elsewhere
from field.methods import CLASSIFICATION, REGRESSION, Method


def logistic(problem, epsilon):
    from diffprivlib.models import LogisticRegression

    return LogisticRegression(epsilon=epsilon, data_norm=problem.row_norm)


def naive_bayes(problem, epsilon):
    from diffprivlib.models import GaussianNB

    return GaussianNB(epsilon=epsilon / 2.0, bounds=(0.0, 1.0))


def forest(problem, epsilon):
    from diffprivlib.models import RandomForestClassifier

    classes = list(range(problem.n_classes))
    return RandomForestClassifier(epsilon=epsilon / 2.0, bounds=(0.0, 1.0), classes=classes)


def linear(problem, epsilon):
    from diffprivlib.models import LinearRegression

    bounds = tuple(float(bound) for bound in problem.y_range)
    return LinearRegression(epsilon=epsilon, bounds_X=(0.0, 1.0), bounds_y=bounds)


def fitted(name, problem, epsilon):
    """Predictions, in the environment of diffprivlib."""
    X, X_test = (x.toarray() if hasattr(x, "toarray") else x for x in (problem.X, problem.X_test))
    model = globals()[name](problem, epsilon).fit(X, problem.y)
    if problem.n_classes is None:
        return {"values": model.predict(X_test)}
    return {"labels": model.predict(X_test), "probabilities": model.predict_proba(X_test)}


def run(name, problem, budget, rng):
    return elsewhere.call("rivals", "diffprivlib_models", "fitted", name, problem, budget.epsilon)


def of(name, tasks, most_columns=None):
    return Method(tasks, partial(run, name), True, "rivals", most_columns)


METHODS = {
    "diffprivlib LogisticRegression": of("logistic", (*CLASSIFICATION, "worst group")),
    "diffprivlib GaussianNB": of("naive_bayes", CLASSIFICATION, 600),
    "diffprivlib RandomForest": of("forest", CLASSIFICATION),
    "diffprivlib LinearRegression": of("linear", REGRESSION, 60),
}
