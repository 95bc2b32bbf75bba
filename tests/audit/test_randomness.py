"""Where the noise of a fit comes from, and what a fitted estimator keeps."""

import copy
import os
import pickle
import threading
import warnings
from functools import partial

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from skdpsco import PrivateLasso, PrivateLogisticL1
from skdpsco._random import PrivacyWarning
from skdpsco.solvers import FrankWolfe, NoisyFrankWolfe, Stagewise

seeded_fits = pytest.mark.filterwarnings("ignore::skdpsco._random.PrivacyWarning")

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (200, 3))
Y = 0.5 * X[:, 0]
LABELS = (X[:, 0] > 0).astype(int)

CASES = [
    (PrivateLasso, {}),
    (PrivateLasso, {"radius": 1.0, "n_iter": 5}),
    (PrivateLasso, {"radius": 1.0, "solver": "noisy-frank-wolfe", "n_iter": 40}),
    (PrivateLogisticL1, {}),
    # So many steps that two fits hardly choose the same vertices throughout.
    (PrivateLogisticL1, {"radius": 1.0, "solver": "frank-wolfe", "n_iter": 40}),
    (PrivateLogisticL1, {"radius": 1.0, "solver": "frank-wolfe-laplace", "n_iter": 40}),
    (PrivateLogisticL1, {"radius": 1.0, "solver": "anytime-mirror-descent", "n_iter": 40}),
]
each_case = pytest.mark.parametrize(("cls", "parameters"), CASES)


def make(cls, parameters, **more):
    # Little budget: noise dominates, and every coefficient has some.
    return cls(epsilon=1.0, **parameters, **more)


def target(cls):
    return Y if cls is PrivateLasso else LABELS


def fingerprint(model):
    """All numbers that depend on noise."""
    return (*np.ravel(model.coef_), *np.ravel(model.intercept_))


@each_case
def test_an_integer_repeats_the_fit_and_warns(cls, parameters):
    prints = []
    for seed in (3, 3, 4):
        with pytest.warns(PrivacyWarning, match="anyone who knows the seed"):
            model = make(cls, parameters, random_state=seed).fit(X, target(cls))
        assert model.privacy_.seeded
        assert "REPRODUCIBLE" in str(model.privacy_)
        prints.append(fingerprint(model))
    assert prints[0] == prints[1]
    assert prints[0] != prints[2]


@seeded_fits
def test_a_random_state_instance_gives_new_noise_in_every_fit():
    state = np.random.RandomState(0)
    model = make(PrivateLasso, {}, random_state=state)
    prints = {fingerprint(model.fit(X, Y)) for _ in range(3)}
    assert len(prints) == 3
    assert model.privacy_.seeded
    again = make(PrivateLasso, {}, random_state=np.random.RandomState(0)).fit(X, Y)
    assert fingerprint(again) in prints


@each_case
def test_no_seed_gives_new_noise_in_every_fit(cls, parameters):
    y = target(cls)
    model = make(cls, parameters)
    prints = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # secret noise is nothing to warn of
        warnings.filterwarnings("ignore", "This fit finds no bounds of features")
        for _ in range(3):
            prints.append(fingerprint(model.fit(X, y)))
        for twin in (clone(model), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            prints.append(fingerprint(twin.fit(X, y)))
            prints.append(fingerprint(model.fit(X, y)))
    assert len(set(prints)) == len(prints)
    assert not model.privacy_.seeded
    assert "secret" in str(model.privacy_)


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


# ------------------------------------------------------------------------------ what is kept

COMMON = {"coef_", "intercept_", "n_iter_", "n_features_in_", "privacy_"}
COMMON |= {"feature_bound_", "feature_range_"}


@pytest.mark.parametrize("seed", [None, 0])
@each_case
@seeded_fits
def test_only_documented_attributes_are_stored(cls, parameters, seed):
    model = make(cls, parameters, random_state=seed)
    before = set(vars(model))
    assert before == set(model.get_params())
    model.fit(X, target(cls))
    expected = set(COMMON)
    expected.add("classes_" if cls is PrivateLogisticL1 else "target_range_")
    if "solver" not in parameters:
        expected |= {"radius_", "path_"}
    assert set(vars(model)) - before == {*expected, "_n_fits"}
    assert model._n_fits == 1  # how often it was fitted without a ledger
    for name in expected:  # the docstring names each of them
        assert f"\n    {name} : " in cls.__doc__
    assert {name: getattr(model, name) for name in before} == model.get_params()
    # Inside the two records as well.
    assert set(vars(model.privacy_)) == {
        "epsilon", "delta", "rho", "event", "seeded", "assumptions", "relation", "released",
        "steps",
    }  # fmt: skip
    if "path_" in expected:
        assert set(vars(model.path_)) == {"radius", "_points", "_unscale"}
        unscale = model.path_._unscale
        assert set(unscale.keywords) == {"intercept", "n_outputs"}
        assert set(unscale.func.__self__._fields) == {
            "bounds",
            "target",
            "conditioning",
            "calibration",
        }


def reachable(thing, depth=8):
    """Every object that attributes and containers lead to."""
    yield thing
    if depth == 0 or isinstance(thing, (str, bytes, int, float)):
        return
    children = []
    if isinstance(thing, dict):
        children = list(thing.values())
    elif isinstance(thing, (list, tuple, set)):
        children = list(thing)
    elif isinstance(thing, partial):
        children = [thing.func.__self__, *thing.args, *thing.keywords.values()]
    elif hasattr(thing, "__dict__") and not isinstance(thing, type):
        children = list(vars(thing).values())
    for child in children:
        yield from reachable(child, depth - 1)


@pytest.mark.parametrize("seed", [None, 0])
@each_case
@seeded_fits
def test_no_generator_and_no_data_are_kept(cls, parameters, seed):
    n = 173  # a size that nothing else has
    model = make(cls, parameters, random_state=seed).fit(X[:n], target(cls)[:n])
    for thing in reachable(model):
        assert not isinstance(
            thing, (np.random.Generator, np.random.RandomState, np.random.BitGenerator)
        )
        if isinstance(thing, np.ndarray):  # nothing per record
            assert n not in thing.shape
            assert thing.base is None or not np.shares_memory(thing, X)
    data = pickle.dumps(model)
    for word in (b"PCG64", b"AESCounter", b"BitGenerator", b"randomgen", b"Generator", b"lambda"):
        assert word not in data
    assert X[:n].tobytes()[:64] not in data
    # The search would find them.
    model.rng_ = np.random.default_rng(0)
    assert any(isinstance(thing, np.random.Generator) for thing in reachable(model))
    assert b"PCG64" in pickle.dumps(model)


@each_case
def test_pickles_predict_the_same(cls, parameters):
    model = make(cls, parameters).fit(X, target(cls))
    copied = pickle.loads(pickle.dumps(model))
    assert fingerprint(copied) == fingerprint(model)
    assert copied.privacy_ == model.privacy_
    assert np.array_equal(copied.predict(X), model.predict(X))


@seeded_fits
@pytest.mark.parametrize("solver", [Stagewise(), FrankWolfe(), NoisyFrankWolfe()])
def test_solver_objects_stay_as_they_were(solver):
    before = copy.deepcopy(vars(solver))
    PrivateLasso(radius=1.0, solver=solver, random_state=0).fit(X, Y)
    assert vars(solver) == before
