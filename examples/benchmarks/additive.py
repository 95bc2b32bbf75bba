"""Additive models against linear ones on the tables of the field, over epsilon.

`python additive.py [--data DIR] [--splits N] [--only NAME ...]` prints, for every table, AUC of two
classes, accuracy of several and R^2 of numbers: of the linear default with the ranges of the
code-book, of the additive model with the same ranges, and of the additive model with categories
only ("raw"); and, last, the mean differences to the linear default and the median times of a fit.
"""

import argparse
import os
import time
import warnings

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"  # the processes are the parallelism

import numpy as np
import pandas as pd
from field import data
from joblib import Parallel, delayed
from sklearn.metrics import r2_score, roc_auc_score
from sklearn.model_selection import train_test_split

from skdpsco import PrivateLogisticRegression, PrivateRidge, Schema
from skdpsco.additive import PrivateAdditiveClassifier, PrivateAdditiveRegressor

TASKS = ("binary", "multiclass", "regression")
WIDE = ("digits",)  # 64 columns of pixels


def table_of(name, folder):
    """The frame, its target, the linear model's features, and two schemas."""
    entry = data.CODEBOOK[name]
    table = data.loaded(name, folder)
    domains = {str(column): domain for column, domain in data.columns_of(entry, table)}
    frame = table.rename(columns=str)[list(domains)]
    ranges = {c: {"bounds": list(map(float, d))} for c, d in domains.items() if data.is_range(d)}
    raw = {c: {"categories": list(d)} for c, d in domains.items() if not data.is_range(d)}
    schemas = Schema({**ranges, **raw}), Schema(raw) if raw else None
    return frame, data.target_of(entry, table), data.encoded(entry, table)[0], schemas


def measured(name, seed, epsilons, folder):
    """Rows of scores and times for one split."""
    warnings.simplefilter("ignore")
    frame, y, X, (declared, raw) = table_of(name, folder)
    rows = np.arange(len(y))
    train, test = train_test_split(rows, test_size=0.25, random_state=seed)
    train, test = train[: data.N_TRAIN], test[: data.N_TEST]
    labels = data.CODEBOOK[name]["tasks"][0] != "regression"
    options = {"classes": sorted(np.unique(y))} if labels else {}
    linear = PrivateLogisticRegression if labels else PrivateRidge
    additive = PrivateAdditiveClassifier if labels else PrivateAdditiveRegressor
    found = []
    for epsilon in epsilons:
        models = {
            "linear": (linear(epsilon=epsilon, feature_bound=1.0, **options), X),
            "additive": (additive(epsilon=epsilon, schema=declared, **options), frame),
            "raw": (additive(epsilon=epsilon, schema=raw, **options), frame),
        }
        for method, (model, records) in models.items():
            part = records.iloc if records is frame else records
            start = time.perf_counter()
            model.fit(part[train], y[train])
            seconds = time.perf_counter() - start
            found.append((name, seed, epsilon, method, score(model, part[test], y[test]), seconds))
    return found


def score(model, X, y):
    if not hasattr(model, "classes_"):
        return max(r2_score(y, model.predict(X)), -1.0)
    if len(model.classes_) > 2:
        return model.score(X, y)
    return roc_auc_score(y, model.decision_function(X))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="a folder of files that users download")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--only", nargs="+", metavar="NAME")
    options = parser.parse_args()
    absent = data.unavailable(options.data)
    names = [
        name
        for name, entry in data.CODEBOOK.items()
        if "generated" not in entry and name not in (*absent, *WIDE) and entry["tasks"][0] in TASKS
    ]
    jobs = [
        delayed(measured)(name, seed, options.epsilons, options.data)
        for name in options.only or names
        for seed in range(options.splits)
    ]
    rows = [row for found in Parallel(2)(jobs) for row in found]
    table = pd.DataFrame(rows, columns=["table", "split", "epsilon", "method", "score", "seconds"])
    scores = table.pivot_table(index=["table", "epsilon"], columns="method", values="score")
    print(scores.round(3).to_string())
    gains = scores[["additive", "raw"]].sub(scores["linear"], axis=0).groupby("epsilon")
    print("\nmean difference to the linear model, and the least\n")
    print(gains.agg(["mean", "min"]).round(3).to_string())
    times = table.pivot_table(index="method", columns="epsilon", values="seconds", aggfunc="median")
    print("\nseconds of a fit, median\n")
    print(times.round(3).to_string())


if __name__ == "__main__":
    main()
