"""Scores of predictions."""

from itertools import combinations

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, r2_score, roc_auc_score

MEASURES = (
    "score", "auc", "log_loss", "calibration", "rmse", "pairs", "largest", "downstream"
)  # fmt: skip
LEAST = 1e-6  # probability that is given to a class
BINS, SUBSETS = 10, 120


def calibration_error(probabilities, y):
    """Mean distance between confidence and accuracy, in ten bins of confidence."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == y
    cell = np.minimum((confidence * BINS).astype(int), BINS - 1)
    sums = np.bincount(cell, weights=confidence - right, minlength=BINS)
    return float(np.abs(sums).sum() / len(y))


def of_classes(problem, found):
    """Accuracy (of the worst group, if there are groups), AUC, log loss and calibration."""
    y, right = problem.y_test, found["labels"] == problem.y_test
    groups = np.zeros(len(y), int) if problem.group_test is None else problem.group_test
    measured = {"score": min(right[groups == group].mean() for group in np.unique(groups))}
    p, scores = found.get("probabilities"), found.get("scores")
    if p is not None:
        p = np.clip(np.nan_to_num(p), LEAST, 1.0)
        p /= p.sum(axis=1)[:, None]
        labels = np.arange(problem.n_classes)
        measured["log_loss"] = log_loss(y, p, labels=labels)
        measured["calibration"] = calibration_error(p, y)
        scores = p[:, 1] if problem.n_classes == 2 else p
    if scores is not None and len(np.unique(y)) == problem.n_classes:
        measured["auc"] = roc_auc_score(y, scores, multi_class="ovr")
    return measured


def one_hot(X, sizes):
    return np.hstack([np.eye(size)[column] for column, size in zip(X.T, sizes, strict=True)])


def marginal_errors(X, table, sizes, order):
    """Errors of the shares of at most `SUBSETS` marginals of so many columns, an array for each."""
    subsets = list(combinations(range(len(sizes)), order))
    for subset in subsets[:: -(-len(subsets) // SUBSETS)]:
        shape = [sizes[j] for j in subset]
        shares = [
            np.bincount(np.ravel_multi_index(Z[:, subset].T, shape), minlength=np.prod(shape))
            / len(Z)
            for Z in (X, table)
        ]
        yield np.abs(shares[0] - shares[1])


def of_table(problem, found):
    """1 minus the mean distance of marginals of three columns, and the score of a model.

    The mean distance of marginals of pairs, and the largest error of a share of three columns,
    follow.
    """
    table, sizes = found["table"], problem.sizes
    pairs = list(marginal_errors(problem.X, table, sizes, 2))
    triples = list(marginal_errors(problem.X, table, sizes, 3))
    measured = {
        "score": 1.0 - np.mean([0.5 * errors.sum() for errors in triples]),
        "pairs": np.mean([0.5 * errors.sum() for errors in pairs]),
        "largest": max(errors.max() for errors in triples),
    }
    train, labels = one_hot(table[:, :-1], sizes[:-1]), table[:, -1]
    if len(np.unique(labels)) > 1:
        model = LogisticRegression(max_iter=200).fit(train, labels)
        test = one_hot(problem.X_test[:, :-1], sizes[:-1])
        measured["downstream"] = model.score(test, problem.X_test[:, -1])
    return measured


def measured(problem, found):
    """Every measure that the predictions allow, by name."""
    if problem.sizes is not None:
        return of_table(problem, found)
    if problem.n_classes is not None:
        return of_classes(problem, found)
    values, y = found["values"], problem.y_test
    return {"score": r2_score(y, values), "rmse": float(np.sqrt(np.mean((y - values) ** 2)))}
