"""Processes that charge one ledger: helper of the tests and of examples/benchmarks/ledger_speed.py.

Runs functions of this file and prints what they return, as JSON::

    python tests/ledger_children.py FOLDER '[["kills", {"times": 15}], ["crowd", {}]]'

The children are forked, which takes a millisecond: they share what this process has imported.
"""

import itertools
import json
import math
import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from skdpsco import PrivateLasso
from skdpsco.privacy import BudgetExceededError, Ledger, ZCDPEvent

BUDGET = (1000.0, 1e-6)
X = np.linspace(-1, 1, 40)[:, None]


def audit(path):
    """Whether the file is sound, the charges' sum, the ledger's own sum, and marks of charges."""
    with sqlite3.connect(path) as connection:
        sound = connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = connection.execute("SELECT parameters, rho FROM charges").fetchall()
        spent = connection.execute("SELECT spent FROM datasets").fetchone()[0]
    connection.close()
    marks = [json.loads(words).get("radius") for words, _ in rows]
    return sound, math.fsum(rho for _, rho in rows), spent, marks


def charge(ledger, mark):
    ledger.charge(ZCDPEvent(1e-9), parameters={"radius": mark})


def fit(ledger, mark):
    PrivateLasso(radius=mark, target_bound=1.0, ledger=ledger).fit(X, X[:, 0])


def release_without_end(path, markers, number, release):
    """Charge, then mark what stands for noise, on disk; over and over."""
    ledger = Ledger(*BUDGET, path)
    with open(markers, "ab", buffering=0) as file:
        for i in itertools.count():
            mark = number + 1 + i / 2**20
            release(ledger, mark)
            file.write(f"{mark!r}\n".encode())
            os.fsync(file.fileno())


def kills(folder, times, fits=False, seed=0):
    """Kill processes that charge, at random moments; look for noise without a charge.

    Returns
    -------
    result : dict
        ``lost`` marks of which there is no charge, ``torn`` files and wrong sums, kills that were
        ``inside`` a commit, and the number of ``charges`` and of ``marks``.
    """
    path, markers = folder / "ledger.db", folder / "markers"
    release = fit if fits else charge
    ledger = Ledger(*BUDGET, path)
    markers.touch()
    release(ledger, 0.5)  # compiles
    start = time.perf_counter()
    release(ledger, 0.75)
    moments = random.Random(seed)
    longest = 5 * (time.perf_counter() - start) + 0.005
    lost, torn, inside = 0, 0, 0
    running, ready = os.pipe()
    for number in range(times):
        size = markers.stat().st_size
        child = os.fork()
        if child == 0:
            try:
                os.write(ready, b"x")
                if number % 2:
                    Ledger(*BUDGET, folder / f"new{number}.db")
                release_without_end(path, markers, number, release)
            finally:
                os._exit(1)
        os.read(running, 1)
        latest = time.perf_counter() + 10.0
        # Some children have charged before, however busy the machine is.
        while number % 5 == 4 and markers.stat().st_size == size and time.perf_counter() < latest:
            time.sleep(0.001)
        time.sleep(moments.uniform(0.0, longest))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the child has failed before it was killed"
        inside += Path(f"{path}-wal").exists()
        Ledger.open(path).remaining()
        if number % 2:
            charge(Ledger(*BUDGET, folder / f"new{number}.db"), 0.0)
        sound, exact, spent, marks = audit(path)
        torn += not (sound and exact <= spent <= exact * (1 + 1e-10))
        *complete, _ = markers.read_text().split("\n")
        lost = len({float(line) for line in complete} - set(marks))
    counts = {"charges": len(marks), "marks": len(complete)}
    return {"kills": times, "lost": lost, "torn": torn, "inside": inside, **counts}


def crowd(folder, processes=8, charges=25, share=1e-6, threads=1):
    """Processes, each of several threads, that make one file at the same moment and charge it.

    Returns
    -------
    result : dict
        Charges that were ``accepted`` and ``refused``, rows ``recorded``, ``torn`` and
        ``overspent`` as bool, ``errors``, ``seconds``, and of these the ``longest`` charge.
    """
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(processes), context.SimpleQueue()
    path = folder / "ledger.db"

    def work():
        found = {"accepted": 0, "refused": 0, "errors": [], "longest": 0.0}

        def loop():
            for _ in range(charges):
                start = time.perf_counter()
                try:
                    ledger.charge(ZCDPEvent(share * ledger.rho))
                    found["accepted"] += 1
                except BudgetExceededError:
                    found["refused"] += 1
                except Exception as error:
                    found["errors"].append(repr(error))
                found["longest"] = max(found["longest"], time.perf_counter() - start)

        barrier.wait()
        try:
            ledger = Ledger(1.0, 1e-6, path)
            workers = [threading.Thread(target=loop) for _ in range(threads)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        except Exception as error:
            found["errors"].append(repr(error))
        results.put(found)

    children = [context.Process(target=work) for _ in range(processes)]
    start = time.perf_counter()
    for child in children:
        child.start()
    found = [results.get() for _ in children]
    for child in children:
        child.join()
    seconds = time.perf_counter() - start
    sound, exact, spent, marks = audit(path)
    return {
        **{name: sum((f[name] for f in found), type(found[0][name])()) for name in found[0]},
        "longest": max(f["longest"] for f in found),
        "recorded": len(marks),
        "torn": not (sound and exact <= spent <= exact * (1 + 1e-10)),
        "overspent": exact > Ledger.open(path).rho * (1 + 1e-10),
        "seconds": seconds,
    }


def forks(folder, times=20):
    """Fork while other threads charge. Return how many children could charge, and what went wrong.

    A ledger in memory must refuse the children.
    """
    ledger, memory = Ledger(*BUDGET, folder / "ledger.db"), Ledger(*BUDGET)
    stop = threading.Event()
    counts = [0, 0, 0]

    def loop(i):
        while not stop.is_set():
            charge(memory if i == 2 else ledger, 0.0)
            counts[i] += 1

    threads = [threading.Thread(target=loop, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    charged = refused = 0
    for _ in range(times):
        child = os.fork()
        if child == 0:
            result = 1
            try:
                signal.alarm(5)
                charge(ledger, 1.0)
                result = 2
                memory.remaining()
            except TypeError as error:
                result += "memory of the process that made it" in str(error)
            finally:
                os._exit(result)
        _, status = os.waitpid(child, 0)
        result = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
        charged += result >= 2
        refused += result == 3
    stop.set()
    for thread in threads:
        thread.join()
    sound, _, _, marks = audit(ledger.path)
    lost = sum(counts[:2]) + charged - len(marks) + counts[2] - len(memory.charges())
    return {"charged": charged, "refused": refused, "lost": lost, "torn": not sound}


def main(folder, calls):
    for name, arguments in json.loads(calls):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            result = globals()[name](Path(place), **arguments)
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
