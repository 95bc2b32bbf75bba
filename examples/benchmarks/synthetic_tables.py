"""
Synthetic tables of Adult
=========================

Adult with all 15 columns, declared by a schema: all tables of two columns, the same with what is
known about the columns, all tables of three, and those of two of which one is the income, for
models of it::

    python examples/benchmarks/synthetic_tables.py DIR [--seeds 2] [--epsilon 1 3]

DIR holds adult-train.csv.gz and adult-test.csv.gz, the files of UCI. As many records as there are
are drawn from a fit to the training part, and compared with these:

- shares of zeros, and means, of capital gains and losses (target: an error of .01);
- the mean total variation over all pairs of columns; numbers are cut at their sixteenths, and zero
  is a part of its own (target: .294, that of 16 bins of equal length);
- the area under the curve of boosted trees that are trained on them and tested on real records
  (targets: .89 for models of the income at epsilon 1, .90 at 3);
- seconds of the fit (target: 20).

Neighbours differ by the replacement of one record. Run it with OMP_NUM_THREADS=1.
"""

import argparse
import time
import warnings
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from l1_speed import report
from raw_tables import CATEGORIES, COLUMNS, MISSING, NUMBERS
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

from skdpsco import PrivacyWarning, PrivateSynthesizer, Schema

BOUNDS = {**NUMBERS, "fnlwgt": [10_000, 1_500_000], "gain": [0, 99_999], "loss": [0, 4400]}
LOST = "1 - area under the curve of trees"
AREAS = {("target", 1.0): 0.11, ("target", 3.0): 0.10}
TARGETS = {
    "gain, share of zeros, error": 0.01,
    "loss, share of zeros, error": 0.01,
    "total variation of pairs": 0.294,
    "seconds": 20.0,
}
LEVELS = """
    Preschool 1st-4th 5th-6th 7th-8th 9th 10th 11th 12th HS-grad Some-college Assoc-voc Assoc-acdm
    Bachelors Masters Prof-school Doctorate
""".split()
SPOUSES = ["Married-civ-spouse", "Married-AF-spouse"]
KNOWN = [
    *(({"education": level}, {"education_num": k}) for k, level in enumerate(LEVELS, start=1)),
    *(({"education_num": k}, {"education": level}) for k, level in enumerate(LEVELS, start=1)),
    ({"relationship": ["Husband", "Wife"]}, {"marital": SPOUSES}),
    ({"workclass": None}, {"occupation": None}),
]
OPTIONS = {
    "pairs": {"order": 2},
    "constraints": {"order": 2, "constraints": KNOWN},
    "triples": {},
    "target": {"workload": "target", "target": "income", "order": 2},
}


def load(directory):
    """The schema of all columns, training records and test records."""
    columns = {name: {"bounds": pair, "integer": True} for name, pair in BOUNDS.items()}
    for name, words in CATEGORIES.items():
        columns[name] = {"categories": words.split(), "missing": name in MISSING}
    columns["income"] = ["<=50K", ">50K"]
    tables = []
    for part in ("train", "test"):
        file = Path(directory) / f"adult-{part}.csv.gz"
        table = pd.read_csv(file, names=COLUMNS, skipinitialspace=True, na_values="?")
        tables.append(table.assign(income=table["income"].str.rstrip(".")))
    return Schema({name: columns[name] for name in COLUMNS}, target="income"), *tables


def parts_of(real, table):
    """The columns of two tables as numbers of parts, which the real one decides."""
    found = []
    for name in real:
        x, z = real[name], table[name]
        if name in BOUNDS:
            inner = np.quantile(x[x != 0], np.arange(1, 16) / 16)
            edges = np.union1d(inner, [0.0, 0.5])
            found.append([np.searchsorted(edges, v, "right") for v in (x, z)])
        else:
            known = x.dropna().unique()
            found.append([pd.Categorical(v, known).codes.astype(int) + 1 for v in (x, z)])
    return found


def pair_distance(real, table):
    """Mean total variation over all pairs of columns."""
    found = []
    for (a, x), (b, y) in combinations(parts_of(real, table), 2):
        size = 1 + max(b.max(), y.max())
        cells = [a * size + b, x * size + y]
        p, q = (np.bincount(c, minlength=1 + max(map(max, cells))) / len(c) for c in cells)
        found.append(np.abs(p - q).sum() / 2)
    return np.mean(found)


def area(table, test):
    """Area under the curve of boosted trees, trained on one table and tested on another."""
    words = [name for name in table if name not in BOUNDS and name != "income"]
    both = pd.concat([table, test])
    known = {name: sorted(both[name].dropna().unique()) for name in words}
    X, T = (
        t.assign(**{name: pd.Categorical(t[name], known[name]) for name in words}).drop(
            columns="income"
        )
        for t in (table, test)
    )
    trees = HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)
    trees.fit(X, table["income"] == ">50K")
    return roc_auc_score(test["income"] == ">50K", trees.predict_proba(T)[:, 1])


def figures(table, train, test):
    """All figures of a table by name."""
    found = {}
    for name in ("gain", "loss"):
        zeros, real = ((t[name] == 0).mean() for t in (table, train))
        found[f"{name}, share of zeros"] = zeros
        found[f"{name}, share of zeros, error"] = abs(zeros - real)
        found[f"{name}, mean"] = table[name].mean()
    found["total variation of pairs"] = pair_distance(train, table)
    found[LOST] = 1.0 - area(table, test)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("directory")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--workload", choices=OPTIONS, nargs="+", default=list(OPTIONS))
    arguments = parser.parse_args()
    # The noise is reproducible so that tables are; the data are no secret.
    warnings.simplefilter("ignore", PrivacyWarning)
    schema, train, test = load(arguments.directory)
    for name, value in figures(train, train, test).items():
        report(f"real records: {name}", value, None)
    for epsilon in arguments.epsilon:
        for workload in arguments.workload:
            found = []
            for seed in range(arguments.seeds):
                model = PrivateSynthesizer(
                    epsilon=epsilon, domain=schema, random_state=seed, **OPTIONS[workload]
                )
                start = time.perf_counter()
                model.fit(train)
                seconds = time.perf_counter() - start
                table = model.sample(len(train), random_state=seed)
                found.append({**figures(table, train, test), "seconds": seconds})
            targets = {**TARGETS, LOST: AREAS.get((workload, epsilon))}
            for name in found[0]:
                values = [one[name] for one in found]
                note = f"{min(values):.3f} to {max(values):.3f}; replace-one"
                report(
                    f"epsilon {epsilon:g}, {workload}: {name}",
                    np.mean(values),
                    targets.get(name),
                    note,
                )


if __name__ == "__main__":
    main()
