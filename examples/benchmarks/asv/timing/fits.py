"""Times of default fits from commit to commit: `asv run` in this folder, then `asv publish`.

They show whether a change made fits slower. The other benchmarks compare with scikit-learn and with
the hardware.
"""

import numpy as np
from scipy import sparse

import skdpsco

MODELS = {
    "PrivateLasso": {"target_bound": 3.0},
    "PrivateRidge": {"target_bound": 3.0},
    "PrivateLogisticL1": {"classes": [False, True]},
    "PrivateLogisticRegression": {"classes": [False, True]},
}


RECORDS = {
    "small": (500, 10, "dense"),
    "dense": (100_000, 50, "dense"),
    "sparse": (100_000, 50, "sparse"),
}


def planted(n_samples, n_features, layout):
    """Records of a linear model, and its targets."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (n_samples, n_features))
    if layout == "sparse":
        X[rng.random(X.shape) < 0.95] = 0.0
    y = X[:, :5].sum(axis=1) + rng.normal(0.0, 0.5, n_samples)
    return (sparse.csr_matrix(X) if layout == "sparse" else X), y


class Fits:
    """Fits whose kernels are compiled."""

    params = (list(MODELS), list(RECORDS))
    param_names = ("model", "records")
    timeout = 300

    def setup(self, model, records):
        """Make records, and compile."""
        self.X, y = planted(*RECORDS[records])
        self.y = y > 0.0 if "Logistic" in model else y
        self.model = getattr(skdpsco, model)(**MODELS[model])
        self.model.fit(self.X, self.y)

    def time_fit(self, model, records):
        """Seconds of a fit."""
        self.model.fit(self.X, self.y)

    def peakmem_fit(self, model, records):
        """Memory of the process."""
        self.model.fit(self.X, self.y)


class Imports:
    """What every program pays."""

    def timeraw_import(self):
        """Seconds of an import in a process of its own."""
        return "import skdpsco"
