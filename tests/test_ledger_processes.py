"""One ledger and many processes: none overspends, and no kill loses a charge."""

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from skdpsco import PrivateLasso
from skdpsco.privacy import Charge, Ledger, ZCDPEvent

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the children are forked")
SCRIPT = Path(__file__).with_name("ledger_children.py")


def run(folder, *calls):
    """Results of functions of the script, each of which gets a folder of its own."""
    output = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), json.dumps(calls)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        check=True,
        timeout=50 + 600 * any(sum(call[1].values()) > 1000 for call in calls),
    )
    return [json.loads(line) for line in output.stdout.splitlines()]


def check_kills(result, times):
    assert (result["kills"], result["lost"], result["torn"]) == (times, 0, 0)
    assert 0 < result["marks"] <= result["charges"] <= result["marks"] + times + 2


def check_crowd(result, attempts, accepted):
    assert result["errors"] == []
    assert result["accepted"] == result["recorded"] == accepted
    assert result["accepted"] + result["refused"] == attempts
    assert not result["torn"]
    assert not result["overspent"]


@pytest.fixture
def folder():
    """One without a disk, if there is one: a killed process loses no more in it, and it is fast."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as name:
        yield name


def test_processes(folder):
    kills, all_fit, some_fit, threads, forks = run(
        folder,
        ("kills", {"times": 20}),
        ("crowd", {"processes": 8, "charges": 20}),
        ("crowd", {"processes": 8, "charges": 20, "share": 1 / 70}),
        ("crowd", {"processes": 4, "charges": 20, "threads": 3}),
        ("forks", {"times": 10}),
    )
    check_kills(kills, 20)
    check_crowd(all_fit, 160, 160)
    check_crowd(some_fit, 160, 70)
    check_crowd(threads, 240, 240)
    assert forks == {"charged": 10, "refused": 10, "lost": 0, "torn": False}


@pytest.mark.slow
@pytest.mark.parametrize("fits", [False, True])
def test_300_kills(tmp_path, fits):
    (kills,) = run(tmp_path, ("kills", {"times": 300, "fits": fits, "seed": 1}))
    check_kills(kills, 300)
    if not fits:  # which take longer than a charge
        assert kills["inside"] > 10


@pytest.mark.slow
def test_8_processes_of_200_charges(tmp_path):
    all_fit, some_fit, threads = run(
        tmp_path,
        ("crowd", {"processes": 8, "charges": 200}),
        ("crowd", {"processes": 8, "charges": 200, "share": 1 / 1000}),
        ("crowd", {"processes": 4, "charges": 100, "threads": 4}),
    )
    check_crowd(all_fit, 1600, 1600)
    check_crowd(some_fit, 1600, 1000)
    check_crowd(threads, 1600, 1600)


def grid_search(ledger):
    X = np.random.default_rng(0).uniform(-1, 1, (90, 2))
    model = PrivateLasso(epsilon=0.1, ledger=ledger, target_bound=1.0)
    search = GridSearchCV(model, {"radius": [1.0, 2.0]}, cv=3, n_jobs=2, error_score="raise")
    return search.fit(X, X[:, 0])


def test_workers_of_joblib_charge_the_file(tmp_path):
    ledger = Ledger(8.0, 1e-6, tmp_path / "ledger.db")
    X = np.zeros((90, 2))
    PrivateLasso(epsilon=0.1, ledger=ledger, target_bound=1.0).fit(X, X[:, 0])  # compiles
    search = grid_search(ledger)
    charges = ledger.charges()
    assert [charge.parameters["radius"] for charge in charges].count(1.0) in (3, 4)
    assert len(charges) == 1 + 2 * 3 + 1  # candidates times folds, and the best of them
    assert search.best_estimator_.ledger is ledger
    spent = sum(charge.rho for charge in charges)
    assert ledger.remaining().rho == pytest.approx(ledger.rho - spent)


def test_workers_of_joblib_refuse_a_ledger_in_memory():
    with pytest.raises((TypeError, pickle.PicklingError)) as caught:
        grid_search(Ledger(8.0, 1e-6))
    causes = [caught.value, caught.value.__cause__, caught.value.__context__]
    assert any("path='ledger.db'" in str(cause) for cause in causes)


def test_pickles_of_parts_share_what_they_spend(tmp_path):
    ledger = Ledger(1.0, 1e-6, tmp_path / "ledger.db")
    cost = ZCDPEvent(ledger.rho / 4)
    with ledger.parallel(2) as parts:
        parts[0].charge(cost)
        others = pickle.loads(pickle.dumps(parts))
        for part in others:
            part.charge(cost)
        assert ledger.remaining().rho == pytest.approx(ledger.rho / 2)
    with pytest.raises(ValueError, match="has ended"):
        others[1].charge(cost)
    assert len(ledger.charges()) == 3


@pytest.mark.parametrize("in_memory", [True, False])
def test_interrupts_at_random_moments(tmp_path, monkeypatch, in_memory):
    """Ctrl-C, and a charge is there or not; the ledger goes on, other threads included."""
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        pytest.skip("needs signals")
    ledger = Ledger(1.0, 1e-6, None if in_memory else tmp_path / "ledger.db")
    rng = np.random.default_rng(0)
    certain, found = 0, []

    def interrupt(number, frame):
        raise KeyboardInterrupt

    def count():
        found.append(len(ledger.charges()))

    report = sys.unraisablehook

    def report_others(unraisable):
        # Python drops an interrupt that lands in a callback of the garbage collector.
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            report(unraisable)

    monkeypatch.setattr(sys, "unraisablehook", report_others)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(300 if in_memory else 40):
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 3e-4 if in_memory else 3e-2))
                for _ in range(5000):
                    ledger.charge(ZCDPEvent(1e-9))
                    certain += 1
            except KeyboardInterrupt:
                found = []
                thread = threading.Thread(target=count, daemon=True)
                thread.start()
                thread.join(20)
                # At most the charge that was interrupted was recorded without being reported.
                assert certain <= found[0] <= certain + 1
                certain = found[0]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert found
    assert ledger.remaining().rho == pytest.approx(ledger.rho - 1e-9 * certain)


def test_a_block_that_is_interrupted_charges_nothing(tmp_path):
    ledger = Ledger(1.0, 1e-6, tmp_path / "ledger.db")

    def interrupted(connection):
        ledger._record(connection, Charge("", "", {}, "", 1e-3, None, "replace-one"))
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            ledger._store.run(interrupted)
    assert ledger.remaining().rho == ledger.rho
    assert ledger.charges() == []
