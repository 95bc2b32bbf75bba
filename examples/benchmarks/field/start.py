"""The cost of starting a library: its import, its first fit and a later one, and memory.

Each is measured in a fresh process, in seconds of the processor. Problems are generated: 10,000
records of 20 columns in two classes, or of ten binary columns. The peak of memory is that of the
process that fits, with the records. A later process finds the compiled kernels of ours on disk.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from field import data, elsewhere
from field.methods import all_methods

LIBRARIES = {  # what is imported, by method
    "LogisticRegression": "sklearn.linear_model",
    "PrivateLogisticRegression": "skdpsco",
    "diffprivlib LogisticRegression": "diffprivlib.models",
    "Opacus DP-SGD": "opacus",
    "PrivateSynthesizer": "skdpsco",
    "OpenDP AIM": "opendp.prelude",
    "smartnoise MST": "snsynth",
}
PROBLEMS = {"table": "ten binary columns", "worst group": "opposed minority"}
RECORDS = 10_000
COMPILES = ("PrivateLogisticRegression", "PrivateSynthesizer")
COLUMNS = ("method", "import", "first fit", "later fit", "megabytes", "fit that compiles")
FILE = "start.csv"


def fits(name):
    """Seconds of two fits of a method, and the peak of memory."""
    from skdpsco.privacy import Budget

    method, seconds, peak = all_methods()[name], [], 0.0
    task = next(task for task in PROBLEMS if task in method.tasks)
    problem = data.problem(task, PROBLEMS[task], 0)
    problem.X, problem.y = problem.X[:RECORDS], problem.y[:RECORDS]
    problem.records = problem.X
    for _ in range(2):
        start = time.process_time()
        found = method.run(problem, Budget(1.0, 1e-6), np.random.default_rng())
        seconds.append(found.get("seconds", time.process_time() - start))
        peak = found.get("memory", elsewhere.memory())
    return *seconds, peak


IMPORT = """
from time import process_time
start = process_time()
import {}
print(process_time() - start)
"""
FITS = "import json; from field.start import fits; print(json.dumps(fits({!r})))"


def printed(code, python=sys.executable, **variables):
    """The last line that some code prints in a fresh process, or None if it fails."""
    done = subprocess.run(
        [python, "-W", "ignore", "-c", code],
        cwd=elsewhere.BENCHMARKS,
        env=os.environ | variables,
        capture_output=True,
        text=True,
    )
    return None if done.returncode else json.loads(done.stdout.splitlines()[-1])


def measure(folder, methods):
    """Write one row for each method that stands for a library, and keep those not installed."""
    rows = []
    for name, package in LIBRARIES.items():
        if name not in methods:
            continue
        environment = methods[name].environment
        python = elsewhere.python_of(environment) if environment else sys.executable
        if python is None:
            print(f"left out: {name}: no environment {environment}")
            continue
        with tempfile.TemporaryDirectory() as cache:
            of_all = [None]  # compiled kernels are cached on disk
            if name in COMPILES:
                of_all = printed(FITS.format(name), NUMBA_CACHE_DIR=cache) or [None]
            fitted = printed(FITS.format(name), NUMBA_CACHE_DIR=cache) or [None] * 3
        found = name, printed(IMPORT.format(package), python), *fitted, of_all[0]
        rows.append(dict(zip(COLUMNS, found, strict=True)))
        print(rows[-1])
    if rows:
        path, frame = Path(folder) / FILE, pd.DataFrame(rows).round(3)
        if path.exists():
            old = pd.read_csv(path)
            frame = pd.concat([frame, old[~old["method"].isin(frame["method"])]])
        frame.to_csv(path, index=False)
