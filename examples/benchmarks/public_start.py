"""What 200 public records save: fits that begin at a public model, on Adult and on California.

    python examples/benchmarks/public_start.py --data-dir DIR [--seeds 10]

DIR holds the files that raw_tables.py names. It prints medians over splits
of the area under the curve and of R^2: for the public model alone, for private fits without it, for
private fits that begin at it, and for private fits that are given its records.
"""

import argparse

import numpy as np
from raw_tables import adult, california
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import r2_score, roc_auc_score

from skdpsco import PrivateLogisticRegression, PrivateRidge, TableEncoder

N_PUBLIC, SIZES, EPSILONS = 200, (1000, 4000, 16_000), (0.1, 0.3, 1.0, 3.0)


def encoded(schema, train, test):
    """Features of both tables, and targets."""
    encoder = TableEncoder(schema).fit(train[schema.features])
    parts = [np.asarray(encoder.transform(table[schema.features])) for table in (train, test)]
    targets = [table[schema.target].to_numpy() for table in (train, test)]
    return parts[0], targets[0], parts[1], targets[1]


def area(model, X, y):
    return roc_auc_score(y, model.decision_function(X))


def explained(model, X, y):
    return r2_score(y, model.predict(X))


def measure(name, data, public, private, score, seeds):
    X, y, X_test, y_test = data
    print(f"{name}, {X.shape[1]} columns\nrecords epsilon  public  private  init  public_data")
    for n in SIZES:
        found = {epsilon: [] for epsilon in EPSILONS}
        for seed in range(seeds):
            order = np.random.default_rng(seed).permutation(len(y))
            known, rows = order[:N_PUBLIC], order[N_PUBLIC : N_PUBLIC + n]
            start = public().fit(X[known], y[known])
            for epsilon, results in found.items():
                public_data = X[known], y[known]
                given = {}, {"init": start}, {"public_data": public_data}
                fits = [private(epsilon).fit(X[rows], y[rows], **more) for more in given]
                results.append([score(model, X_test, y_test) for model in (start, *fits)])
        for epsilon, results in found.items():
            print(n, epsilon, *np.median(results, axis=0).round(3), sep="\t", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="directory with the data")
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    where, seeds = arguments.data_dir, arguments.seeds
    if where is None:
        print("There is nothing to measure without --data-dir.")
        return

    def logistic(epsilon):
        return PrivateLogisticRegression(epsilon=epsilon, classes=["<=50K", ">50K"])

    def ridge(epsilon):
        return PrivateRidge(epsilon=epsilon, target_bound=500_001)

    table = encoded(*adult(where, 10_000, 3000))
    measure("Adult", table, lambda: LogisticRegression(C=0.3), logistic, area, seeds)
    table = encoded(*california(where))
    alphas = np.logspace(-3, 2, 11)
    measure("California", table, lambda: RidgeCV(alphas), ridge, explained, seeds)


if __name__ == "__main__":
    main()
