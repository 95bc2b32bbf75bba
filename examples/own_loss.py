"""
A loss of your own
==================

Missing a malignant tumour is worse than a false alarm. The logistic loss with a weight for each
kind of mistake is not in the library; it takes a class and two functions. The data are
scikit-learn's breast cancer data: 569 records of 30 measurements.
"""

import math
from typing import NamedTuple

from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import recall_score
from sklearn.model_selection import train_test_split

from skdpsco import PrivateLinearClassifier, RowBlocks
from skdpsco.losses import derivative, value


# %%
# The parameters of the loss are fields, and its constants are methods. Targets are -1 and 1.
class CostlyMiss(NamedTuple):
    """Logistic loss, ``cost`` times as large for targets 1."""

    cost: float = 1.0

    n_outputs = 1  # predictions per record

    def lipschitz(self, prediction_bound=math.inf, target_bound=1.0):
        """Bound on |derivative| for predictions up to ``prediction_bound``."""
        return max(1.0, self.cost) / (1.0 + math.exp(-prediction_bound))

    def smoothness(self):
        """Bound on the second derivative."""
        return max(1.0, self.cost) / 4.0


# %%
# The kernels of one prediction z and one target y: plain Python that Numba can compile.
@value.register(CostlyMiss)
def _(loss, z, y):
    weight = loss.cost if y > 0.0 else 1.0
    return weight * (max(-y * z, 0.0) + math.log1p(math.exp(-abs(z))))


@derivative.register(CostlyMiss)
def _(loss, z, y):
    weight = loss.cost if y > 0.0 else 1.0
    e = math.exp(-abs(z))  # in (0, 1]: no overflow
    return -weight * y * (e if y * z > 0.0 else 1.0) / (1.0 + e)


# %%
# Public constants, as if from an earlier study: the guarantee does not cover how they were found.
data = load_breast_cancer()
X = (data.data - data.data.mean(axis=0)) / (2.0 * data.data.std(axis=0))
y = data.target_names[data.target]
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)

for cost in (1.0, 5.0):
    model = PrivateLinearClassifier(
        epsilon=4.0,
        loss=CostlyMiss(cost),
        feature_bound=1.0,
        row_norm=3.0,
        classes=["benign", "malignant"],
    )
    model.fit(X_train, y_train)
    found = recall_score(y_test, model.predict(X_test), pos_label="malignant")
    accuracy = model.score(X_test, y_test)
    print(f"cost {cost:g}: {found:.2f} of malignant tumours found, accuracy {accuracy:.2f}")

# %%
# Sparse matrices, frames and blocks of records need nothing more.
model.fit(RowBlocks.from_arrays(sparse.csr_array(X_train), y_train, block_size=100))
print(f"epsilon {model.privacy_.epsilon:g}, of which the report assumes:")
print(*model.privacy_.assumptions, sep="\n")
