"""Defaults on the columns that people have: raw, one-sided, wide, imbalanced, heavy-tailed.

Every estimator is fitted with its defaults (and public bounds of the columns) on families of data,
at growing budgets. The table holds medians of accuracies or R^2 on test data. Scores that break one
of three rules are printed below it:

- a score is below that of the constant predictor, by more than .02;
- a score falls by more than .03 beyond its standard error when epsilon doubles or more;
- at epsilon 100 a score is .02 below that of the same objective without privacy.

Groups carry no information, and the score of the minimax classifier is the mean of those of both
classes, for which the constant has one half. Models that are solved by noisy moments are not fitted
to bags of words, where a fit takes many seconds.

python examples/benchmarks/robustness.py [--quick] [--families NAME ...] [--data-dir DIR]
python examples/benchmarks/robustness.py --baselines [the same]

Either takes less than ten minutes on two cores. The second compares with known models at epsilon
.5, 1 and 3, and prints where the better of two defaults is more than .01 below the best of them.

DIR adds families of real data: adult-train.csv.gz and adult-test.csv.gz (UCI, without headers),
electricity.csv.gz (OpenML's) and california_sklearn_layout.csv.gz.
"""

import argparse
import time
import warnings
from functools import partial

import _data
import baselines
import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import ElasticNet, LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, balanced_accuracy_score, r2_score
from sklearn.preprocessing import MinMaxScaler

from skdpsco import (
    PrivateElasticNet,
    PrivateGroupDRO,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateMinimaxClassifier,
    PrivateMinimaxRegressor,
    PrivateMonotoneGLM,
    PrivateRidge,
)

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 100.0)
BELOW_CONSTANT, FALL, BELOW_OPTIMUM = 0.02, 0.03, 0.02
BASELINE_EPSILONS, BELOW_BASELINE = (0.5, 1.0, 3.0), 0.01
OBVIOUS = ("LogisticRegression", "LogisticL1", "Ridge", "Lasso")
N, N_TEST = 4000, 4000

# The same objective without privacy: penalties are those of the columns as they are. (An automatic
# radius leaves the l1 ball to the data.)
NEWTON = {"solver": "newton-cholesky", "max_iter": 2000}  # which raw columns do not slow down
CLASSIFIERS = {
    "LogisticRegression": (PrivateLogisticRegression, LogisticRegression(**NEWTON)),
    "LogisticL1": (PrivateLogisticL1, LogisticRegression(C=1e4, **NEWTON)),
}
REGRESSORS = {
    "Ridge": (PrivateRidge, Ridge(alpha=1.0)),
    "Lasso": (PrivateLasso, LinearRegression()),
}


class InTwoGroups(PrivateGroupDRO):
    """Group DRO for two groups without information."""

    def fit(self, X, y):
        return super().fit(X, y, sensitive_features=np.arange(len(y)) % 2)


def classifying_link(classes, **params):
    """The monotone model whose predictions are probabilities."""
    return PrivateMonotoneGLM(**params)


WIDE = ("words", "regression, words")
BY_MOMENTS = ("MonotoneGLM", "GroupDRO", "MinimaxClassifier")
OTHER_CLASSIFIERS = {
    "MonotoneGLM": (classifying_link, CLASSIFIERS["LogisticL1"][1]),
    "GroupDRO": (partial(InTwoGroups, groups=[0, 1]), CLASSIFIERS["LogisticL1"][1]),
    "MinimaxClassifier": (
        PrivateMinimaxClassifier,
        LogisticRegression(C=1e4, class_weight="balanced", **NEWTON),
    ),
    "LinearClassifier": (PrivateLinearClassifier, CLASSIFIERS["LogisticL1"][1]),
}
OTHER_REGRESSORS = {
    "MonotoneGLM": (partial(PrivateMonotoneGLM, link="identity"), LinearRegression()),
    "GroupDRO": (partial(InTwoGroups, loss="squared", groups=[0, 1]), LinearRegression()),
    "MinimaxRegressor": (PrivateMinimaxRegressor, LinearRegression()),
    "LinearRegressor": (PrivateLinearRegressor, LinearRegression()),
    "ElasticNet": (PrivateElasticNet, ElasticNet(alpha=0.001)),
}


def split(X, y, rng, test=0.25):
    """Training and test data, at random."""
    order = rng.permutation(len(y))
    cut = round(test * len(y))
    return X[order[cut:]], y[order[cut:]], X[order[:cut]], y[order[:cut]]


def labelled(X, z, rng):
    """Labels of logistic probabilities, in halves."""
    return split(X, (rng.random(len(z)) < expit(z)).astype(int), rng, 0.5)


def measured(X, z, rng, r2=0.8, centre=0.0, noise=None):
    """Targets of which a linear model explains the share ``r2``, in halves."""
    noise = rng.normal(size=len(z)) if noise is None else noise
    y = z + noise * z.std() * np.sqrt((1.0 - r2) / r2) / noise.std()
    return split(X, centre + y, rng, 0.5)


def weights(d, rng):
    return rng.normal(size=d) * np.sqrt(3.0 / d)


def signal(X, rng, size=2.0):
    """Predictions of a planted model, of mean 0."""
    z = X @ weights(X.shape[1], rng)
    return size * (z - z.mean()) / z.std()


def uniform(rng, d=20, low=0.0, high=1.0, n=N + N_TEST):
    return rng.uniform(low, high, (n, d))


def correlated(rng, d=20, n=N + N_TEST):
    """Columns with a common part, and a constant one."""
    X = 0.7 * rng.random((n, 1)) + 0.3 * uniform(rng, d, n=n)
    X[:, 0] = 1.0
    return X


def factors(rng, d=300, n=N + N_TEST):
    """Columns that follow from five numbers of a record."""
    X = rng.normal(size=(n, 5)) @ rng.normal(size=(5, d))
    return np.clip(X / 6.0, -1.0, 1.0)


def one_hot(rng, columns=8, categories=8, n=N + N_TEST):
    """Indicators of categories of which some are frequent."""
    p = 1.0 / np.arange(1, categories + 1)
    codes = rng.choice(categories, (n, columns), p=p / p.sum())
    return np.eye(categories)[codes].reshape(n, -1)


def words(rng, d=1000, n=N + N_TEST):
    """Bags of 30 words, zeros and ones."""
    p = 1.0 / np.arange(10, d + 10)
    codes = rng.choice(d, (n, 30), p=p / p.sum())
    rows = np.repeat(np.arange(len(codes)), 30)
    X = sparse.csr_array((np.ones(codes.size), (rows, codes.ravel())), shape=(len(codes), d))
    X.data = np.minimum(X.data, 1.0)
    return sparse.csr_matrix(X)


def cancer(rng, kind):
    X, y = load_breast_cancer(return_X_y=True)
    bound = 1.0
    if kind == "raw":  # a round number that no measurement of a column exceeds
        bound = 10.0 ** np.ceil(np.log10(X.max(axis=0)))
    elif kind == "unit":
        X = MinMaxScaler().fit_transform(X)
    else:
        X, bound = np.clip((X - X.mean(axis=0)) / X.std(axis=0), -3.0, 3.0), 3.0
    return *split(X, y, rng), bound


def digits(rng):
    X, y = load_digits(return_X_y=True)
    return split(X / 16.0, (y >= 5).astype(int), rng)


def diabetes(rng):
    X, y = load_diabetes(return_X_y=True)
    return *split(X, y, rng), 0.2


def rare(rng):
    X = uniform(rng, 20, -1.0)
    return labelled(X, signal(X, rng) - 4.5, rng)


def of(make, target, *arguments, **options):
    """A family: columns by ``make``, then ``target`` of a planted model."""

    def family(rng):
        X = make(rng, *arguments)
        return target(X, signal(X, rng), rng, **options)

    return family


def outliers(rng):
    """Columns that use a hundredth of their bounds, except for one record in a hundred."""
    X = 0.01 * rng.normal(size=(N + N_TEST, 20))
    z = signal(X, rng)
    X[rng.random(len(X)) < 0.01] *= 50.0
    return labelled(np.clip(X, -1.0, 1.0), z, rng)


def counts(rng):
    X = rng.poisson(rng.uniform(0.5, 6.0, 20), (N + N_TEST, 20)).astype(float)
    return *labelled(X, signal(X, rng), rng), 20.0


def heavy(rng):
    X = uniform(rng)
    return measured(X, signal(X, rng), rng, noise=rng.standard_t(2.0, size=len(X)))


FAMILIES = {
    "digits in [0, 1]": (CLASSIFIERS, digits),
    "cancer in [0, 1]": (CLASSIFIERS, lambda rng: cancer(rng, "unit")),
    "cancer, raw": (CLASSIFIERS, lambda rng: cancer(rng, "raw")),
    "cancer, standardised": (CLASSIFIERS, lambda rng: cancer(rng, "standard")),
    "20 columns in [0, 1]": (CLASSIFIERS, of(uniform, labelled)),
    "200 columns in [0, 1]": (CLASSIFIERS, of(uniform, labelled, 200)),
    "strip": (CLASSIFIERS, of(uniform, labelled, 20, 0.85, 0.95)),
    "correlated": (CLASSIFIERS, of(correlated, labelled)),
    "common factors": (CLASSIFIERS, of(factors, labelled)),
    "one-hot": (CLASSIFIERS, of(one_hot, labelled)),
    "words": (CLASSIFIERS, of(words, labelled)),
    "outliers": (CLASSIFIERS, outliers),
    "5 % positive": (CLASSIFIERS, rare),
    "counts": (CLASSIFIERS, counts),
    "regression, [0, 1]": (REGRESSORS, of(uniform, measured)),
    "regression, [-1, 1]": (REGRESSORS, of(uniform, measured, 20, -1.0)),
    "regression, 200 columns": (REGRESSORS, of(uniform, measured, 200)),
    "regression, strip": (REGRESSORS, of(uniform, measured, 20, 0.85, 0.95)),
    "regression, correlated": (REGRESSORS, of(correlated, measured)),
    "regression, common factors": (REGRESSORS, of(factors, measured)),
    "regression, far target": (REGRESSORS, of(uniform, measured, centre=2000.0)),
    "regression, one-hot": (REGRESSORS, of(one_hot, measured)),
    "regression, heavy tails": (REGRESSORS, heavy),
    "regression, words": (REGRESSORS, of(words, measured)),
    "diabetes": (REGRESSORS, diabetes),
}


def real(load, rng, n=N):
    """Columns in [0, 1]: ``n`` records to fit, and others."""
    X, y = load()
    order = rng.permutation(len(y))
    train, test = order[:n], order[n : n + 10_000]
    return X[train], y[train], X[test], y[test]


def unit(X):
    return (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))


def adult(directory):
    """One-hot, and numbers in [0, 1]."""
    import pandas as pd

    parts = [
        pd.read_csv(f"{directory}/adult-{part}.csv.gz", header=None, skipinitialspace=True)
        for part in ("train", "test")
    ]
    both = pd.concat(parts, ignore_index=True).drop(columns=2)  # a sampling weight
    y = both.pop(14).str.startswith(">50K").to_numpy(int)
    numbers = both.select_dtypes("number").columns
    columns = pd.get_dummies(both.drop(columns=numbers)).to_numpy(float)
    return np.column_stack([unit(both[numbers].to_numpy(float)), columns]), y


def electricity(directory):
    X, _, y = _data.electricity(directory)
    return unit(X), (y > 0).astype(int)


def california(directory):
    X, _, y = _data.california(directory)
    return unit(X), y


def real_families(directory):
    """Families of the data in ``directory``, each read once."""
    cache = {}

    def load(read):
        if read not in cache:
            cache[read] = read(directory)
        return cache[read]

    return {
        "Adult": (CLASSIFIERS, partial(real, partial(load, adult))),
        "Adult, 32561 records": (CLASSIFIERS, partial(real, partial(load, adult), n=32_561)),
        "electricity in [0, 1]": (CLASSIFIERS, partial(real, partial(load, electricity))),
        "California in [0, 1]": (REGRESSORS, partial(real, partial(load, california))),
    }


def score(model, X, y, balanced):
    """Accuracy, of every class in turn if it is balanced; or R^2."""
    if y.dtype.kind != "i":
        return r2_score(y, model.predict(X))
    metric = balanced_accuracy_score if balanced else accuracy_score
    return metric(y, model.predict(X) > 0.5)  # of classes 0 and 1, or their probabilities


def scores_of(family, make, plain, seeds, **options):
    """Scores by epsilon and seed, without privacy, and of the constant predictor."""
    private, optimum, constant = np.empty((len(EPSILONS), seeds)), [], []
    balanced = make is PrivateMinimaxClassifier
    for seed in range(seeds):
        X, y, X_test, y_test, *bound = family(np.random.default_rng(seed))
        bound = bound[0] if bound else 1.0
        declared = {"classes": [0, 1]} if y.dtype.kind == "i" else {}
        for k, epsilon in enumerate(EPSILONS):
            model = make(epsilon=epsilon, feature_bound=bound, **declared, **options).fit(X, y)
            private[k, seed] = score(model, X_test, y_test, balanced)
        optimum.append(score(plain.fit(X, y), X_test, y_test, balanced))
        most = 0.5 if balanced else max(y_test.mean(), 1.0 - y_test.mean())
        constant.append(most if "classes" in declared else 0.0)
    return private, float(np.median(optimum)), float(np.median(constant))


def quietly(function, *arguments):
    """Call ``function`` in a process of its own, which has its own filters."""
    warnings.filterwarnings("ignore")
    return function(*arguments)


def in_processes(function, calls):
    """Results of ``function``, in the order of the calls."""
    pool = Parallel(n_jobs=-1, return_as="generator")
    return pool(delayed(quietly)(function, *arguments) for arguments in calls)


def violations(private, optimum, constant):
    """Broken rules, in words."""
    medians = np.median(private, axis=1)
    errors = 1.25 * private.std(axis=1) / np.sqrt(private.shape[1])
    for k, epsilon in enumerate(EPSILONS):
        if medians[k] < constant - BELOW_CONSTANT:
            yield f"epsilon {epsilon:g}: {medians[k]:.3f} is below the constant's {constant:.3f}"
        if k > 0 and medians[k] < medians[k - 1] - FALL - np.hypot(errors[k], errors[k - 1]):
            yield f"epsilon {epsilon:g}: falls from {medians[k - 1]:.3f} to {medians[k]:.3f}"
    if medians[-1] < optimum - BELOW_OPTIMUM:
        yield f"epsilon {EPSILONS[-1]:g}: {medians[-1]:.3f}, without privacy {optimum:.3f}"


def compared(estimators, family, epsilon, seeds):
    """Medians of defaults and of `baselines`."""
    found = {}
    for seed in range(seeds):
        X, y, X_test, y_test, *bound = family(np.random.default_rng(seed))
        bound = bound[0] if bound else 1.0
        declared = {"classes": [0, 1]} if y.dtype.kind == "i" else {}
        rng = np.random.default_rng()
        scores = baselines.scores(X, y, X_test, y_test, bound, epsilon, rng)
        for label in set(OBVIOUS) & set(estimators):
            model = estimators[label][0](epsilon=epsilon, feature_bound=bound, **declared)
            scores[label] = model.fit(X, y).score(X_test, y_test)
        for label, score in scores.items():
            found.setdefault(label, []).append(score)
    return {label: float(np.median(values)) for label, values in found.items()}


def compare(families, names, seeds):
    """Print medians of defaults and of `baselines`; return where the latter are better."""
    broken = []
    rows = [(name, epsilon) for name in names for epsilon in BASELINE_EPSILONS]
    calls = [(*families[name], epsilon, seeds) for name, epsilon in rows]
    for (name, epsilon), medians in zip(rows, in_processes(compared, calls), strict=True):
        estimators, _ = families[name]
        row = "".join(f"  {label} {score:.3f}" for label, score in medians.items())
        print(f"{name:26}epsilon {epsilon:<4g}{row}", flush=True)
        ours = max(score for label, score in medians.items() if label in estimators)
        best = max(score for label, score in medians.items() if label not in estimators)
        if ours < best - BELOW_BASELINE:
            broken.append(f"{name}, epsilon {epsilon:g}: {ours:.3f}, a baseline {best:.3f}")
    return broken


def check(families, names, seeds):
    """Print scores by epsilon; return what breaks a rule."""
    broken, rows, calls = [], [], []
    heads = "".join(f"{f'eps {epsilon:g}':>9}" for epsilon in EPSILONS)
    print(f"{'':48}{heads}{'constant':>10}{'no noise':>10}")
    for name in names:
        estimators, family = families[name]
        others = OTHER_CLASSIFIERS if estimators is CLASSIFIERS else OTHER_REGRESSORS
        for label, (make, plain) in (estimators | others).items():
            if name not in WIDE or label not in BY_MOMENTS:
                rows.append((name, label))
                calls.append((family, make, plain, seeds))
    found = in_processes(scores_of, calls)
    for (name, label), (private, optimum, constant) in zip(rows, found, strict=True):
        row = "".join(f"{max(score, -99.0):9.3f}" for score in np.median(private, axis=1))
        print(f"{name:26}{label:22}{row}{constant:10.3f}{optimum:10.3f}", flush=True)
        broken += [f"{name}, {label}, {text}" for text in violations(private, optimum, constant)]
    return broken


def main():
    """Print scores, then what breaks the rules."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="three seeds and eight families")
    parser.add_argument("--families", nargs="*", metavar="NAME", help="all, if none is named")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data-dir", metavar="DIR", help="real data, see above")
    parser.add_argument("--baselines", action="store_true", help="compare with known models")
    arguments = parser.parse_args()
    seeds = 3 if arguments.quick else arguments.seeds
    families = FAMILIES | (real_families(arguments.data_dir) if arguments.data_dir else {})
    names = arguments.families or list(families)
    unknown = set(names) - set(families)
    if unknown:
        parser.error(f"no families {sorted(unknown)}; there are {list(families)}")
    names = names[::3] if arguments.quick else names
    start = time.perf_counter()
    broken = (compare if arguments.baselines else check)(families, names, seeds)
    print(f"\n{len(broken)} violations, {time.perf_counter() - start:.0f} seconds")
    print("\n".join(broken))


if __name__ == "__main__":
    main()
