"""
Synthetic records of a real table
=================================

`PrivateSynthesizer` releases marginals (tables of counts) of a table with one guarantee, and a
distribution that has them, from which records can be drawn at no further cost. The table is
scikit-learn's breast cancer data, 569 records: six measurements in bins, and the diagnosis. The
edges of the bins are public: they must come from what the columns mean, not from the records. To
compare with the true marginals, as this page does, would on private data be a release of its own.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from skdpsco import PrivateSynthesizer
from skdpsco.synthesis import Bins

RANGES = {  # public
    "mean radius": (5, 25),
    "mean texture": (5, 35),
    "mean smoothness": (0.05, 0.15),
    "mean concavity": (0, 0.4),
    "mean symmetry": (0.1, 0.3),
    "worst radius": (5, 35),
}
N_BINS = 4
DIAGNOSIS = 6  # the last column

data = load_breast_cancer()
columns = [list(data.feature_names).index(name) for name in RANGES]
X = np.c_[data.data[:, columns], data.target]
train, test = train_test_split(X, test_size=0.3, random_state=0, stratify=X[:, -1])

# %%
# One entry of the domain per column: bins, and two values of the diagnosis. With few records ask
# for few tables: here those of the diagnosis and one measurement. ("marginals" asks for all tables
# of this many columns.)
domain = [Bins(np.linspace(low, high, N_BINS + 1)) for low, high in RANGES.values()] + [2]
workload = [(DIAGNOSIS, j) for j in range(6)]
model = PrivateSynthesizer(epsilon=1.0, domain=domain, workload=workload).fit(train)
print(model.privacy_, "\n")
synthetic = model.sample(len(train))
print(f"{len(model.answers_)} answers from {len(train)} records; the first synthetic records:")
print(np.array2string(synthetic[:3], precision=2, suppress_small=True), "\n")


# %%
# Before and after: the true marginals, and the released ones. With so few records the noise is
# visible; it falls as 1 / (n epsilon). A sample has sampling errors in addition.
def shares(records, columns):
    """Marginals of records, not private."""
    edges = [np.arange(3) - 0.5 if j == DIAGNOSIS else domain[j].edges for j in columns]
    clipped = [np.clip(records[:, j], e[0], e[-1]) for j, e in zip(columns, edges, strict=True)]
    return np.histogramdd(np.array(clipped).T, bins=edges)[0] / len(records)


true = np.concatenate([shares(train, table).ravel() for table in model.tables_])
drawn = np.concatenate([shares(synthetic, table).ravel() for table in model.tables_])
figure, axes = plt.subplots(2, 3, figsize=(11, 6.5), layout="constrained")
for axis, j in zip(axes[0], (0, 3, 5), strict=True):
    for shift, colour, label, table in (
        (-0.3, "0.6", "records", shares(train, (j,))),
        (0.0, "C0", "released", model.query((DIAGNOSIS, j)).sum(axis=0)),
        (0.3, "C1", "a sample", shares(synthetic, (j,))),
    ):
        axis.bar(np.arange(N_BINS) + shift, table, width=0.28, color=colour, label=label)
    axis.set(xticks=np.arange(N_BINS + 1) - 0.5, xlabel=list(RANGES)[j], ylabel="share of records")
    axis.set_xticklabels([f"{edge:g}" for edge in np.round(domain[j].edges, 3)])
axes[0, 0].legend()
for axis, title, table in (
    (axes[1, 0], "records", shares(train, (DIAGNOSIS, 5))),
    (axes[1, 1], "released", model.query((DIAGNOSIS, 5))),
):
    image = axis.imshow(table, vmin=0, vmax=0.4, cmap="Blues", aspect="auto")
    for (row, column), share in np.ndenumerate(table):
        colour = "white" if share > 0.25 else "black"
        axis.text(column, row, f"{share:.2f}", ha="center", va="center", color=colour)
    axis.set(title=f"diagnosis and worst radius: {title}", xlabel="bin of worst radius")
    axis.set(yticks=[0, 1], yticklabels=["malignant", "benign"])
axis = axes[1, 2]
axis.plot([0, 0.6], [0, 0.6], color="0.7", linewidth=1)
axis.plot(true, drawn, ".", color="C1", alpha=0.5, label="a sample")
axis.plot(true, model.answers_, ".", color="C0", alpha=0.7, label="released")
axis.set(xlabel="share of the records", ylabel="private share", title="all cells of all tables")
axis.legend()
figure.suptitle(f"{len(train)} records, epsilon = 1")
for name, shown in (("the released answers", model.answers_), ("a sample", drawn)):
    error = np.abs(shown - true)
    print(f"Errors of {name}: largest {error.max():.3f}, mean {error.mean():.3f}")
print()

# %%
# Whatever is done with synthetic records is private, too: here a model that knows nothing about
# privacy is fitted to them and tested on real records.
for name, records in (("the records", train), ("synthetic records", model.sample(5000))):
    classifier = HistGradientBoostingClassifier(random_state=0).fit(records[:, :-1], records[:, -1])
    score = classifier.score(test[:, :-1], test[:, -1])
    print(f"Accuracy of a classifier fitted on {name:<17} {score:.3f}")
plt.show()
