"""Where the noise of a fit comes from, and what a fitted estimator keeps."""

import copy
import os
import threading
import warnings

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from skdpsco import PrivateLasso
from skdpsco.solvers import FrankWolfe, NoisyFrankWolfe, Stagewise

seeded_fits = pytest.mark.filterwarnings("ignore::skdpsco._random.PrivacyWarning")

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (200, 3))
Y = 0.5 * X[:, 0]


def make(cls, parameters, **more):
    # Little budget: noise dominates, and every coefficient has some.
    return cls(epsilon=1.0, **parameters, **more)


def fingerprint(model):
    """All numbers that depend on noise."""
    return (*np.ravel(model.coef_), *np.ravel(model.intercept_))


def test_the_global_state_of_numpy_is_neither_used_nor_changed():
    prints = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        prints.append(fingerprint(make(PrivateLasso, {}).fit(X, Y)))
        after = np.random.get_state()[1].tolist()  # noqa: NPY002
        np.random.seed(0)  # noqa: NPY002
        assert after == np.random.get_state()[1].tolist()  # noqa: NPY002
    assert prints[0] != prints[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_forked_processes_draw_different_noise():
    model = make(PrivateLasso, {"radius": 1.0}).fit(X, Y)  # compiled, and fitted once before
    pipes = []
    for _ in range(3):
        read, write = os.pipe()
        with warnings.catch_warnings():
            # Python 3.12 warns of a fork while threads run; the child starts none.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.write(write, repr(fingerprint(model.fit(X, Y))).encode())
                code = 0
            finally:
                os._exit(code)
        os.close(write)
        pipes.append((pid, read))
    prints = [repr(fingerprint(model.fit(X, Y)))]
    for pid, read in pipes:
        with os.fdopen(read) as pipe:
            prints.append(pipe.read())
        assert os.waitpid(pid, 0)[1] == 0
    assert all(p.startswith("(") for p in prints)
    assert len(set(prints)) == 4


def fit_in_worker(model):
    return fingerprint(model.fit(X, Y))


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_parallel_workers_draw_different_noise(backend):
    model = make(PrivateLasso, {"radius": 1.0}).fit(X, Y)
    with joblib.parallel_config(backend=backend):
        prints = joblib.Parallel(n_jobs=2)(
            joblib.delayed(fit_in_worker)(clone(model)) for _ in range(6)
        )
    assert len({*prints, fingerprint(model)}) == 7


@seeded_fits
def test_concurrent_seeded_fits_do_not_disturb_each_other():
    def run(seed):
        return fingerprint(make(PrivateLasso, {"radius": 1.0}, random_state=seed).fit(X, Y))

    expected = [run(seed) for seed in range(4)]
    found = [None] * 4
    threads = [
        threading.Thread(target=lambda s=seed: found.__setitem__(s, run(s))) for seed in range(4)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the filters of a test hold in its own thread only
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == expected


@seeded_fits
@pytest.mark.parametrize("solver", [Stagewise(), FrankWolfe(), NoisyFrankWolfe()])
def test_solver_objects_stay_as_they_were(solver):
    before = copy.deepcopy(vars(solver))
    PrivateLasso(radius=1.0, solver=solver, random_state=0).fit(X, Y)
    assert vars(solver) == before
