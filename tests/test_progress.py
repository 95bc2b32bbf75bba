"""The progress bar of long fits."""

import itertools
import re
import sys
import threading
import time

import numba
import numpy as np
import pytest
from numba.core.event import install_listener

import skdpsco.compile
from skdpsco import PrivateLasso, PrivateLogisticL1, _kernels
from skdpsco._config import config_context, get_config, set_config
from skdpsco._kernels import CompilationNote
from skdpsco.base import progress as _progress
from skdpsco.solvers import FrankWolfe

X = np.random.default_rng(0).uniform(-1, 1, (200, 3))
Y = (X[:, 0] > 0).astype(float)


class SlowFrankWolfe(FrankWolfe):
    """Takes its time, counts, and may end in an exception."""

    def __init__(self, seconds=0.3, error=None):
        super().__init__()
        self.seconds, self.error = seconds, error

    def run(self, plan, problem, X, y, rng, progress):
        progress[0] = 3
        time.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        progress[0] = 0
        return super().run(plan, problem, X, y, rng, progress)


@pytest.fixture
def threads():
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("Estimator", [PrivateLasso, PrivateLogisticL1])
def test_bar_of_a_long_fit_shows_public_numbers(Estimator, capfd, monkeypatch):
    monkeypatch.setattr(_progress, "DELAY", 0.02)
    with config_context(progress=True):
        Estimator(radius=1.0, solver=SlowFrankWolfe(), n_iter=7).fit(X, Y)
    out, err = capfd.readouterr()
    assert out == ""
    assert Estimator.__name__ in err
    assert "3/7" in err
    assert err.rstrip().split("\r")[-1].count("7/7") == 1


@pytest.mark.usefixtures("threads")
def test_no_bar_before_the_delay(capfd, monkeypatch):
    monkeypatch.setattr(_progress, "DELAY", 600.0)
    start = time.perf_counter()
    model = PrivateLasso(radius=1.0, solver=SlowFrankWolfe(0.1), n_iter=7).fit(X, Y)  # compiles
    with config_context(progress=True):
        model.fit(X, Y)
    assert time.perf_counter() - start < 300.0  # a short fit does not wait for the delay
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("verbose", [0, 1])
@pytest.mark.parametrize(
    ("module", "delay", "said"),
    [("skdpsco.losses", 0.0, 1), ("skdpsco.losses", 600.0, 0), ("users_own", 0.0, 0)],
)
def test_compilation_is_said_once(capfd, verbose, module, delay, said):
    def one_more(x):
        return x + 1

    one_more.__module__ = module
    function = numba.njit(one_more)
    with config_context(verbose=verbose), install_listener("numba:compile", CompilationNote(delay)):
        for number in (1, 1.0, 2, 2.0):
            function(number)
    found = capfd.readouterr().err
    assert (
        found.count("Compiling kernels (once per machine and kind of model)")
        == found.count("\n")
        == said * verbose
    )
    assert found.count("python -m skdpsco.compile") == said * verbose


def test_time_of_compiling_is_added_up(capfd, monkeypatch):
    clock = itertools.count()
    monkeypatch.setattr(_kernels.time, "monotonic", lambda: 0.5 * next(clock))
    function = numba.njit(lambda x: x + 1)  # half a second passes between two looks
    function.py_func.__module__ = "skdpsco.losses"
    with config_context(verbose=1), install_listener("numba:compile", CompilationNote(3.0)):
        function(1)
        assert capfd.readouterr().err == ""
        function(1.0)
        assert "Compiling kernels" in capfd.readouterr().err


def test_the_command_that_compiles_fits_every_default(capsys, monkeypatch):
    fits = skdpsco.compile.invented_fits()
    defaults = {type(model) for _, model, _, _ in fits}
    named = {getattr(skdpsco, name) for name in skdpsco.linear_model.__all__ if "Private" in name}
    assert defaults == named - {skdpsco.PrivateMonotoneGLM} | {skdpsco.PrivateMoments}
    for _, model, _, _ in fits:
        assert model.get_params() == type(model)().get_params()
    ((lasso, *records),) = [fit[1:] for fit in fits if fit[0] == "PrivateLasso, dense"]
    monkeypatch.setattr(skdpsco.compile, "invented_fits", lambda: [("Lasso", lasso, *records)])
    skdpsco.compile.compile_kernels()
    assert re.fullmatch(r" *[\d.]+ s  Lasso\n", capsys.readouterr().out)


@pytest.mark.usefixtures("threads")
def test_silent_by_default(capfd, monkeypatch):
    monkeypatch.setattr(_progress, "DELAY", 0.0)
    monkeypatch.setattr(_progress.threading, "Thread", None)
    PrivateLasso(radius=1.0, solver=SlowFrankWolfe(0.1), n_iter=7).fit(X, Y)
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("broken")])
def test_a_fit_that_breaks_off(error, capfd, monkeypatch):
    monkeypatch.setattr(_progress, "DELAY", 0.02)
    model = PrivateLasso(radius=1.0, solver=SlowFrankWolfe(0.3, error), n_iter=7)
    with pytest.raises(type(error)), config_context(progress=True):
        model.fit(X, Y)
    assert "3/7" in capfd.readouterr().err
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "n_features_in_")


def test_without_tqdm(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "tqdm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    before = get_config()
    for change in (set_config, lambda **given: config_context(**given).__enter__()):
        with pytest.raises(ImportError, match=r"pip install 'skdpsco\[progress\]'"):
            change(progress=True)
    assert get_config() == before
    PrivateLasso().fit(X, Y)  # not needed without a bar
