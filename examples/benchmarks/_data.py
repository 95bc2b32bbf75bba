"""Data of the benchmarks: planted models, text-like sparse rows, prepared real data."""

from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

TEN = np.linspace(0.5, 2.5, 10)  # l1 norm 15
GEOMETRIC = 20.0 * 0.7 ** np.arange(30) / (0.7 ** np.arange(30)).sum()  # l1 norm 20


def planted(seed, weights, d, n=20_000, correlation=0.0):
    """X ~ U[-1, 1] for training and testing, with its predictions by planted weights.

    With ``correlation`` every column is that share of its left neighbour.
    """
    rng = np.random.default_rng(seed)
    coef = np.zeros(d)
    support = rng.choice(d, len(weights), replace=False)
    coef[support] = weights * rng.choice([-1.0, 1.0], len(weights))
    X = rng.random((2 * n, d))
    X *= 2.0
    X -= 1.0
    if correlation:
        for j in range(1, d):
            X[:, j] *= 1.0 - correlation
            X[:, j] += correlation * X[:, j - 1]
    return X, X @ coef, rng


def halves(X, y, oracle):
    n = len(y) // 2
    return X[:n], y[:n], X[n:], y[n:], oracle


def planted_logistic(seed, weights, d, **options):
    """Training and test data, and the accuracy of the planted model on the latter."""
    X, z, rng = planted(seed, weights, d, **options)
    y = rng.random(len(z)) < expit(z)
    return halves(X, y, np.mean((z > 0) == y))


def planted_squared(seed, weights, d, r2=0.785):
    """Training and test data, with as much noise as gives the planted model this R^2."""
    X, z, rng = planted(seed, weights, d)
    variance = (weights**2).sum() / 3.0
    y = z + rng.normal(scale=np.sqrt(variance * (1.0 - r2) / r2), size=len(z))
    return halves(X, y, r2)


def standardised(X):
    """Standardise, clip to [-2, 2], halve. Public constants are assumed, as in all of these."""
    spread = X.std(axis=0)
    return np.clip((X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0), -2.0, 2.0) / 2.0


def split(seed, X, y, classify=True):
    stratify = y if classify else None
    parts = train_test_split(X, y, random_state=seed, stratify=stratify)
    return parts[0], parts[2], parts[1], parts[3], np.nan


def breast_cancer(seed):
    X, y = load_breast_cancer(return_X_y=True)
    return split(seed, standardised(X), y)


def digits(seed, halved=True):
    """Digits 0-4 against 5-9, or all ten."""
    X, y = load_digits(return_X_y=True)
    return split(seed, standardised(X), y > 4 if halved else y)


def diabetes(seed):
    """The documented range of the target is used: 25 to 346."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    return split(seed, standardised(X), y - 185.0, classify=False)


def text_counts(n=20_242, d=47_236, seed=0, length=79.6, shift=21.0, power=1.05):
    """Word counts, of RCV1's shape: Zipf columns, log-normal rows, 1.5 million non-zeros."""
    rng = np.random.default_rng(seed)
    popularity = (np.arange(d) + shift) ** -power
    length = np.maximum(3, rng.lognormal(np.log(length) - 0.32, 0.8, n)).astype(int)
    word = np.searchsorted(np.cumsum(popularity) / popularity.sum(), rng.random(length.sum()))
    column = rng.permutation(d)[np.minimum(word, d - 1)]
    rows = np.repeat(np.arange(n), length)
    counts = sparse.csr_matrix((np.ones(len(rows)), (rows, column)), shape=(n, d))
    counts.sum_duplicates()
    return counts, rng


def text(seed=0, balanced=False, n=20_242, d=47_236):
    """L2-normalised tf-idf of `text_counts`, and labels of a planted model with 200 words.

    Balanced: the most common words have the largest weights, with signs such that long texts do not
    share a label. Otherwise weights and signs do not depend on how common a word is.
    """
    counts, rng = text_counts(n, d, seed=seed)
    X = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
    frequency = counts.getnnz(axis=0)
    common = np.argsort(-frequency)[5:5000]
    chosen = rng.choice(common, 200, replace=False, p=frequency[common] / frequency[common].sum())
    weight = rng.gamma(4.0, 0.25, 200) * (1.0 + np.arange(200)) ** -0.5
    sign = np.where(np.arange(200) % 2 == 0, -1.0, 1.0)
    if balanced:
        chosen = chosen[np.argsort(-frequency[chosen])]
        share, total = weight * X[:, chosen].mean(axis=0).A1, 0.0
        for k in np.argsort(-share):
            sign[k] = -1.0 if total > 0.0 else 1.0
            total += sign[k] * share[k]
    coef = np.zeros(X.shape[1])
    coef[chosen] = weight * sign
    z = X @ coef
    y = rng.random(len(z)) < expit(8.0 * (z - np.median(z)) / z.std())
    return X, y ^ (rng.random(len(y)) < 0.02)


def text_split(seed, kind, balanced=False):
    """Split: three quarters are for training, or as many as in RCV1 if the data are balanced."""
    X, y = text(seed, True, n=26_990) if balanced else text(seed)
    if kind == "clipped":
        X = X.minimum(0.1) * 10.0
    elif kind == "binary":
        X = X.sign()
    return split(seed, X, y)


def l1_logistic(**options):
    """An l1-penalised logistic regression by liblinear, in any version of scikit-learn."""
    model = LogisticRegression(solver="liblinear", **options)
    try:
        return model.set_params(penalty="deprecated", l1_ratio=1.0)
    except ValueError:
        return model.set_params(penalty="l1")


def unscaled_and_standardised(X):
    return X, (X - X.mean(axis=0)) / X.std(axis=0)


def electricity(directory):
    """Prices rise or not: 45,312 x 8, features raw and standardised, labels -1 and 1."""
    import pandas as pd

    table = pd.read_csv(Path(directory) / "electricity.csv.gz")
    y = np.where(table["class"] == "UP", 1.0, -1.0)
    return *unscaled_and_standardised(table.drop(columns="class").to_numpy(float)), y


def california(directory):
    """House prices in 100,000 dollars: 20,640 x 8, features raw and standardised."""
    import pandas as pd

    table = pd.read_csv(Path(directory) / "california_sklearn_layout.csv.gz").to_numpy(float)
    return *unscaled_and_standardised(table[:, :8]), table[:, 8]


def madelon(directory):
    """Generated data, few of whose features matter: 2600 x 500, standardised; labels -1 and 1."""
    import pandas as pd

    table = pd.read_csv(Path(directory) / "madelon_2600x500.csv.gz", header=None).to_numpy(float)
    return unscaled_and_standardised(table[:, :500])[1], table[:, 500]
