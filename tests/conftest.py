"""One cache of machine code for all runs and workers: its stamps see edits (`skdpsco._kernels`)."""

import gc
import hashlib
import logging
import os
import time
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

# Scripts that tests run in processes of their own; importing them would run them here.
collect_ignore = ["noise_children.py", "required_kernels.py"]

_CACHES = Path(__file__).parents[1] / ".pytest_cache" / "numba"
# Read when Numba is imported, hence here and not in a fixture.
os.environ["NUMBA_CACHE_DIR"] = str(_CACHES / version("numba"))


def pytest_configure():
    """Show records of the package with a failure. `log_level` would set the level for each test."""
    logging.getLogger().setLevel(logging.INFO)
    from skdpsco._kernels import COMPILATION  # imports Numba, after the line above

    COMPILATION.left = float("inf")  # many tests expect that nothing is printed


def pytest_sessionstart(session):
    """Remove files that no run has used for two weeks: edits leave old machine code behind."""
    if hasattr(session.config, "workerinput"):
        return
    for path in _CACHES.rglob("*.nb[ci]"):
        if max(path.stat().st_atime, path.stat().st_mtime) < time.time() - 14 * 86_400:
            path.unlink(missing_ok=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Do not look for cycles among collected tests: they grow in number, and live to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000)  # every 700 new objects took a twentieth of all time
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Look for examples in the docstrings of the package, and not in those of tests."""
    collectors = yield
    return [collector for collector in collectors if not isinstance(collector, DoctestModule)]


@pytest.fixture
def as_they_are(monkeypatch):
    """Linear models whose features are neither centred nor scaled, nor scores calibrated."""
    from skdpsco.base import linear_model

    monkeypatch.setattr(linear_model, "conditioning_pays", lambda *sizes: False)
    monkeypatch.setattr(linear_model, "calibration_pays", lambda *sizes: False)


class Keys:
    """Keys of the noise of fits: functions of what asks for them, so that tests can be repeated.

    They are those of the operating system in other processes, in audits, which state how often they
    fail by chance, and if ``SKDPSCO_KEYS=fresh`` is set.
    """

    def __init__(self):
        self.process, self.asks = os.getpid(), None

    @contextmanager
    def of(self, name):
        before = self.asks
        audit = "tests/audit" in name or os.environ.get("SKDPSCO_KEYS") == "fresh"
        self.asks = None if audit else hashlib.shake_256(name.encode())
        try:
            yield
        finally:
            self.asks = before

    def __call__(self, size):
        if self.asks is None or os.getpid() != self.process:
            return os.urandom(size)
        self.asks.update(b"next")
        return self.asks.digest(size)


KEYS = Keys()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Key the noise of fits by the name of the test."""
    from skdpsco import _random

    _random.urandom = KEYS
    with KEYS.of(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Key the noise of a fixture by its own name: any test may be the first that asks for it."""
    with KEYS.of(f"{fixturedef.baseid} {fixturedef.argname} {request.param_index}"):
        return (yield)
