"""Compile what fits with default parameters need, and save it where Numba looks for it.

::

    python -m skdpsco.compile

The first fit of a kind takes some seconds longer, in which Numba compiles its kernels. After this
command it does not: run it once where the package was installed, for instance in the recipe of a
container image. It fits models to a few invented records, dense and sparse. Machine code is saved
beside the package, or where the environment variable ``NUMBA_CACHE_DIR`` says.
"""

import time
from typing import Any

import numpy as np
from scipy import sparse

from skdpsco._config import config_context, get_config
from skdpsco._random import without_warnings
from skdpsco.linear_model import (
    PrivateElasticNet,
    PrivateGammaRegressor,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearDiscriminantAnalysis,
    PrivateLinearRegressor,
    PrivateLinearSVC,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivatePoissonRegressor,
    PrivateQuantileRegressor,
    PrivateRidge,
)
from skdpsco.moments import PrivateMoments

N, D = 4000, 3
OF_NUMBERS = (
    PrivateRidge,
    PrivateElasticNet,
    PrivateLasso,
    PrivateLinearRegressor,
    PrivateHuberRegressor,
    PrivateQuantileRegressor,
    PrivatePoissonRegressor,
    PrivateGammaRegressor,
    PrivateMoments,
)
OF_LABELS = (
    PrivateLogisticRegression,
    PrivateLinearSVC,
    PrivateLogisticL1,
    PrivateLinearClassifier,
    PrivateLinearDiscriminantAnalysis,
)


def invented_fits() -> list[tuple[str, Any, Any, np.ndarray]]:
    """A name, a model, features and a target for each fit."""
    X = np.sin(np.arange(N * D, dtype=np.float64)).reshape(N, D)
    y: np.ndarray = X[:, 0] + 2.0  # counts are not negative
    halves: np.ndarray = (X[:, 0] > 0.0).astype(int)
    thirds: np.ndarray = np.searchsorted([-0.5, 0.5], X[:, 0])
    fits = []
    for layout, records in (("dense", X), ("sparse", sparse.csr_matrix(X))):
        fits += [(f"{Model.__name__}, {layout}", Model(), records, y) for Model in OF_NUMBERS]
        for labels, classes in ((halves, "two classes"), (thirds, "three classes")):
            fits += [
                (f"{Model.__name__}, {classes}, {layout}", Model(), records, labels)
                for Model in OF_LABELS
            ]
    return fits


def compile_kernels() -> None:
    """Fit models to invented records, so that later fits find compiled kernels.

    Unless ``verbose`` is 0 in the settings, it prints a line for each fit.
    """
    for name, model, X, y in invented_fits():
        start = time.perf_counter()
        with without_warnings(), config_context(strict=False, verbose=0, progress=False):
            model.fit(X, y)
        if get_config()["verbose"]:
            print(f"{time.perf_counter() - start:6.1f} s  {name}")  # noqa: T201 -- a command


if __name__ == "__main__":
    compile_kernels()
