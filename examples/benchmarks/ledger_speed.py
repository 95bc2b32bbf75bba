"""
Speed and safety of the ledger
==============================

Prints durable charges per second of one process beside the rate at which the disk synchronises,
which bounds it; what 8 processes with 200 charges each leave in one file; and how many of the
charges that paid for a release survive 300 kills at random moments::

    python examples/benchmarks/ledger_speed.py [FOLDER]

The file is made in FOLDER, by default the one for temporary files, whose disk is measured.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from skdpsco.privacy import GaussianEvent, Ledger

CHILDREN = Path(__file__).parents[2] / "tests" / "ledger_children.py"
PARAMETERS = {"epsilon": 1.0, "delta": 1e-6, "radius": "auto", "solver": "stagewise"}


def report(name, value, verdict=None, note=""):
    """Print a line, with a verdict if there is a promise."""
    mark = "" if verdict is None else "ok" if verdict else "MISSED"
    print(f"{name:<50} {value:>9} {mark:<7}{note}", flush=True)


def rate(function, repetitions=200, rounds=5):
    """Calls per second, the median of a few rounds, since other users of a disk come and go."""
    rates = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repetitions):
            function()
        rates.append(repetitions / (time.perf_counter() - start))
    return statistics.median(rates)


def one_process(folder):
    with open(folder / "file", "wb", buffering=0) as file:

        def append():
            file.write(bytes(4096))
            os.fsync(file.fileno())

        disk = rate(append)
    report("disk: appends with fsync per second", f"{disk:.0f}")
    event = GaussianEvent(noise_multiplier=1000.0)
    for name, path in (("in memory", None), ("durable", folder / "ledger.db")):
        ledger = Ledger(10.0, 1e-6, path)
        speed = rate(lambda: ledger.charge(event, "PrivateLasso", PARAMETERS))  # noqa: B023
        verdict = None if path is None else speed >= 500
        note = "" if path is None else f"target 500; {disk / speed:.1f} appends each"
        report(f"one process, {name}: charges per second", f"{speed:.0f}", verdict, note)


def children(folder, *calls):
    command = [sys.executable, str(CHILDREN), str(folder), json.dumps(calls)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return [json.loads(line) for line in output.stdout.splitlines()]


def many_processes(folder):
    eight = {"processes": 8, "charges": 200}
    everything, half = children(folder, ("crowd", eight), ("crowd", {**eight, "share": 1 / 800}))
    for result, allowed in ((everything, 1600), (half, 800)):
        name = f"8 x 200 charges, budget for {allowed}"
        sound = result["recorded"] == result["accepted"] == allowed and not result["errors"]
        note = f"{result['recorded'] / result['seconds']:.0f} per second"
        report(f"{name}: rows", result["recorded"], sound, note)
        report(f"{name}: overspent", result["overspent"], not result["overspent"])
        report(f"{name}: torn", result["torn"], not result["torn"])
        report(f"{name}: longest wait", f"{result['longest']:.2f} s")


def kills(folder):
    for fits, name in ((False, "charges"), (True, "fits")):
        (result,) = children(folder, ("kills", {"times": 300, "fits": fits}))
        note = f"{result['marks']} releases, {result['inside']} kills inside a commit"
        report(f"300 kills of {name}: lost charges", result["lost"], result["lost"] == 0, note)
        report(f"300 kills of {name}: torn files", result["torn"], result["torn"] == 0)


def main(folder=None):
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(dir=folder) as place:
        for part in (one_process, many_processes, kills):
            part(Path(place))
    print(f"Took {time.perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main(*sys.argv[1:])
