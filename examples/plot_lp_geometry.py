"""
Which ball, which solver
========================

`PrivateLinearClassifier` minimises the loss on records to come over a ball of an l_p norm; three of
its solvers read every record once. Theorems bound their error in the worst case: one part comes
from sampling and is of the order of n**(-1/2); the other comes from noise and is of the order of
1 / n times a power of d, or of n**(-2/3) times log(d) for p = 1. The data are generated: on
private data a plot like this would itself be a release.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.signal import lfilter
from scipy.special import expit, xlogy

from skdpsco import PrivateLinearClassifier

EPSILON, REPETITIONS = 1.0, 1
SOLVERS = ["one-pass-frank-wolfe", "tree-frank-wolfe", "phased-sgd"]
COLOURS = dict(zip(SOLVERS, plt.cm.tab10.colors, strict=False))

rng = np.random.default_rng(0)


# %%
# Every ball has a planted model that suits it: 5 relevant features for p = 1, decaying coefficients
# for p = 1.5, normal ones for p = 2, and equal ones except for the sign for p = 4. The radius is
# its norm.
def planted(n, d, p):
    """Records, and the coefficients of the logistic model that their labels follow."""
    sizes = {1.0: np.arange(d) < 5, 1.5: np.arange(1.0, d + 1) ** -0.75, 2.0: rng.normal(size=d)}
    w = rng.permutation(sizes.get(p, np.ones(d))) * rng.choice([-1.0, 1.0], d)
    w *= 6.0 / np.linalg.norm(w)
    X = lfilter([0.43], [1.0, -0.5], rng.standard_normal((n + 5000, d)))  # correlated neighbours
    X = np.clip(X, -1.0, 1.0)
    return X, rng.random(len(X)) < expit(X @ w), w


def excess(X, y, w, p, solver):
    """Mean loss on 5000 new records, less that of the planted model, which is the least."""
    model = PrivateLinearClassifier(
        epsilon=EPSILON,
        p=p,
        radius=np.linalg.norm(w, p),
        feature_bound=1.0,
        solver=solver,
        fit_intercept=False,
    )
    q = model.fit(X[:-5000], y[:-5000]).predict_proba(X[-5000:])[:, 1]
    true = expit(X[-5000:] @ w)
    return (xlogy(true, true / q) + xlogy(1.0 - true, (1.0 - true) / (1.0 - q))).mean()


# %%
# The excess falls as n grows, often faster than the theorem says for the worst case, whose slope is
# dotted: once noise is smaller than the signal, it hardly matters.
SIZES, D = 4 ** np.arange(5, 9), 20
curves = {
    1.0: ("one-pass-frank-wolfe", -2 / 3),
    1.5: ("tree-frank-wolfe", -1.0),
    2.0: ("phased-sgd", -1.0),
    4.0: ("phased-sgd", -1.0),
}
print(f"Excess loss at epsilon {EPSILON:g} and d = {D}, means, n =", *SIZES)
found = {}
for p, (solver, _) in curves.items():
    found[p] = [
        np.mean([excess(*planted(n, D, p), p, solver) for _ in range(REPETITIONS)]) for n in SIZES
    ]
    print(f"p = {p:<4g}{solver:<22}", *(f"{value:8.4f}" for value in found[p]))

# %%
# Which solver is best depends on n and d, especially for l1 balls: "auto" follows a rule that was
# fitted on data like these. (With all records at hand it may also take "phased-erm".) With a single
# repetition the maps contain some luck; more repetitions, and more records, draw sharper borders.
LENGTHS, WIDTHS = [400, 2800, 20_000], [5, 20, 80]


def compare(p, solvers):
    """Mean excess, of shape (solvers, lengths, widths)."""
    errors = np.zeros((len(solvers), len(LENGTHS), len(WIDTHS)))
    for i, n in enumerate(LENGTHS):
        for j, d in enumerate(WIDTHS):
            for _ in range(REPETITIONS):
                data = planted(n, d, p)
                errors[:, i, j] += [excess(*data, p, solver) / REPETITIONS for solver in solvers]
    return errors


maps = {1.0: SOLVERS, 2.0: SOLVERS[1:]}
errors = {p: compare(p, solvers) for p, solvers in maps.items()}

# %%
figure, axes = plt.subplots(
    1, 3, figsize=(12, 4.4), width_ratios=[1.3, 1.0, 1.0], layout="constrained"
)
for (p, (solver, slope)), marker in zip(curves.items(), "osd^", strict=True):
    theory = np.exp(np.log(found[p]).mean() + slope * (np.log(SIZES) - np.log(SIZES).mean()))
    (line,) = axes[0].plot(SIZES, found[p], marker=marker, label=f"p = {p:g}, {solver}")
    axes[0].plot(SIZES, theory, linestyle=":", linewidth=1.0, color=line.get_color())
axes[0].set(xlabel="records", xscale="log", yscale="log", ylabel="excess loss")
axes[0].set_title(f"{D} features; dotted: the slope of the theorem")
axes[0].legend(fontsize="small")
for ax, (p, solvers) in zip(axes[1:], maps.items(), strict=True):
    best = errors[p].argmin(axis=0)
    image = np.array([COLOURS[name] for name in solvers])[best]
    ax.imshow(image.transpose(1, 0, 2), origin="lower", alpha=0.6)
    for i, j in np.ndindex(best.shape):
        ax.text(i, j, f"{errors[p][best[i, j], i, j]:.2g}", ha="center", va="center")
    ax.set(xlabel="records", ylabel="features", title=f"p = {p:g}: least excess loss")
    ax.set_xticks(range(len(LENGTHS)), [f"{n:,}" for n in LENGTHS])
    ax.set_yticks(range(len(WIDTHS)), WIDTHS)
handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[name], alpha=0.6) for name in SOLVERS]
figure.legend(
    handles, SOLVERS, title="best of", loc="outside lower right", ncols=3, fontsize="small"
)
figure.suptitle(f"Excess loss at epsilon = {EPSILON:g}")
plt.show()
