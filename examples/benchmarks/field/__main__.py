"""Measure methods on data sets, keep what was measured, and write tables and plots from it.

python -m field run [--data FOLDER] [--splits 5] [--jobs N] [--until HH:MM] [--only ...]
python -m field report

in examples/benchmarks; `make field` does both. What is finished is skipped; a method or a data
set that is not there is named and left out.
"""

import argparse
import os
import warnings
from datetime import datetime

from joblib import Parallel, delayed

from field import data, report, results
from field.methods import all_methods
from field.runs import EPSILONS, cells, measure_quietly


def run(options):
    """Measure what is missing, the first split of everything before the second."""
    store = results.Store(options.results)
    done = store.keys()
    missing = data.unavailable(options.data)
    for name, reason in missing.items():
        print(f"left out: {name}: {reason}")
    methods = {
        name: method
        for name, method in all_methods().items()
        if any(text in name for text in options.methods)
    }
    todo = [
        cell
        for cell in cells(methods, options)
        if cell.name not in missing and not done.issuperset(cell.keys())
    ]
    jobs = (
        delayed(measure_quietly)(cell, options.data, done & set(cell.keys()))
        for cell in todo
        if not options.until or datetime.now().strftime("%H:%M") < options.until
    )
    for k, rows in enumerate(Parallel(options.jobs, return_as="generator_unordered")(jobs), 1):
        store.append(rows)
        line = f"{k} of {len(todo)}: {rows[0]['data']}, {rows[0]['method']}"
        print(f"\r{line:78}", end="", flush=True)
    store.pack()


def main():
    parser = argparse.ArgumentParser(prog="field", description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["run", "report"])
    parser.add_argument("--data", metavar="FOLDER", help="files that users download: codebook.json")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="*", default=EPSILONS)
    parser.add_argument("--tasks", nargs="*", metavar="TASK", help="all, if none is named")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="data sets")
    parser.add_argument("--methods", nargs="*", default=[""], metavar="TEXT", help="parts of names")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--until", metavar="HH:MM", help="no fit starts after this time of today")
    parser.add_argument("--results", default=results.FOLDER, help="a folder")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    run(options) if options.command == "run" else report.write(options.results)


if __name__ == "__main__":
    main()
