"""Draw the picture of the README: accuracy over epsilon on scikit-learn's digits, 0-4 against 5-9.

`PrivateLogisticRegression` at its default, scikit-learn's logistic regression without privacy, and
two known private methods on the same splits: gradient descent (`baselines.py`) and objective
perturbation. Lines are medians over the splits, bands quartiles.

python examples/benchmarks/front_page.py [--splits 40] [--plot FILE]
"""

import argparse
import warnings

import baselines
import numpy as np
from matplotlib.figure import Figure
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skdpsco import PrivateLogisticRegression
from skdpsco.privacy import Budget

EPSILONS = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
BOUND, DELTA = 16.0, 1e-6  # pixels are counts from 0 to 16, which is public
OURS = "PrivateLogisticRegression"
GRADIENTS = "gradient descent (Song et al. 2013)"
OBJECTIVE = "objective perturbation (Kifer et al. 2012)"


def objective_perturbation(X, y, X_test, epsilon, rng):
    """Labels by the minimiser of a noisy objective, with Gaussian noise (Kifer et al. 2012)."""

    def rows(X):  # of norm at most 1, whose last entry is that of the intercept
        A = (X / BOUND - 0.5) * 2.0 / np.sqrt(X.shape[1])
        return np.column_stack([A, np.full(len(A), 0.3)]) / np.sqrt(1.09)

    A, signs = rows(X), np.where(y, 1.0, -1.0)
    noise = np.sqrt(8.0 * np.log(2.0 / DELTA) + 4.0 * epsilon) / epsilon
    linear = rng.normal(0.0, noise, A.shape[1])
    ridge = 2.0 * 0.25 / epsilon  # 0.25 bounds the largest eigenvalue of a record's Hessian

    def objective(w):
        z = signs * (A @ w)
        value = np.logaddexp(0.0, -z).sum() + ridge / 2.0 * w @ w + linear @ w
        return value, linear + ridge * w - A.T @ (signs * expit(-z))

    w = minimize(objective, np.zeros(A.shape[1]), jac=True, method="L-BFGS-B").x
    return rows(X_test) @ w > 0.0


def measure(n_splits):
    """Accuracies by model, of shape (epsilons, splits), and without privacy, of shape (splits,)."""
    X, digit = load_digits(return_X_y=True)
    found = {name: np.empty((len(EPSILONS), n_splits)) for name in (OURS, GRADIENTS, OBJECTIVE)}
    free = np.empty(n_splits)
    for split in range(n_splits):
        X_train, X_test, y, y_test = train_test_split(X, digit > 4, random_state=split)
        free[split] = LogisticRegression(max_iter=3000).fit(X_train, y).score(X_test, y_test)
        for i, epsilon in enumerate(EPSILONS):
            model = PrivateLogisticRegression(
                epsilon=epsilon, delta=DELTA, feature_bound=BOUND, classes=[False, True]
            )
            found[OURS][i, split] = model.fit(X_train, y).score(X_test, y_test)
            rng = np.random.default_rng(split)
            budget = Budget(epsilon, DELTA)
            labels = baselines.gradient_descent(X_train, y, X_test, BOUND, budget, rng)
            found[GRADIENTS][i, split] = np.mean(labels == y_test)
            labels = objective_perturbation(X_train, y, X_test, epsilon, rng)
            found[OBJECTIVE][i, split] = np.mean(labels == y_test)
    return found, free


def draw(found, free, path):
    """Write the picture, with a background of its own for dark pages."""
    figure = Figure(figsize=(7.0, 3.6), layout="constrained", facecolor="white")
    ax = figure.subplots()
    for (name, scores), colour in zip(found.items(), ["C0", "C1", "C2"], strict=True):
        low, middle, high = np.quantile(scores, [0.25, 0.5, 0.75], axis=1)
        ax.fill_between(EPSILONS, low, high, color=colour, alpha=0.2, linewidth=0)
        ax.plot(EPSILONS, middle, "o-", color=colour, label=name)
    ax.axhline(np.median(free), color="black", linestyle="--", label="not private")
    ax.axhline(0.5, color="grey", linestyle=":", label="guessing")
    ax.set_xscale("log", base=2)
    ax.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    ax.set(xlabel="epsilon (less is more private)", ylabel="accuracy on other records")
    ax.set_title("Digits 0-4 or 5-9: 1,347 images for training", fontsize="medium")
    ax.legend(loc="lower right", fontsize="small")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=40)
    parser.add_argument("--plot", metavar="FILE", help="where to save the picture")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # how much noise there is, the picture shows
    found, free = measure(options.splits)
    print(f"{'epsilon':<45}", *(f"{epsilon:>6g}" for epsilon in EPSILONS))
    for name, scores in found.items():
        print(f"{name:<45}", *(f"{score:6.3f}" for score in np.median(scores, axis=1)))
    print(f"{'not private':<45} {np.median(free):6.3f}")
    if options.plot:
        draw(found, free, options.plot)
