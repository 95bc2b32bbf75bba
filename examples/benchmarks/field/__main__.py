"""Measure methods on data sets, keep what was measured, and write tables and plots from it.

python -m field run [--tuned] [--data FOLDER] [--splits 4] [--jobs N] [--until HH:MM] [--only ...]
python -m field report
python -m field tables
python -m field expect

in examples/benchmarks; `make field` runs and reports. Finished cells are skipped; a method or a
data set that is missing is named and left out. With --tuned, the settings of methods that are not
their defaults are measured. `tables` prints the tables that the pages leave out.
"""

import argparse
import os
import warnings
from datetime import datetime
from pathlib import Path

from joblib import Parallel, delayed

from field import data, report, results
from field.methods import all_methods, all_settings
from field.runs import EPSILONS, SPLITS, TUNED_EPSILONS, TUNED_SPLITS, cells, measure_quietly


def chosen(names, methods):
    """Methods that are named, or that have one of the texts in their names."""
    return {
        name: method
        for name, method in methods.items()
        if any(text == name or (text not in methods and text in name) for text in names)
    }


def run(options):
    """Measure what is missing, the first split of everything before the second."""
    store = results.Store(options.results)
    done = store.keys()
    missing = data.unavailable(options.data)
    for name, reason in missing.items():
        print(f"left out: {name}: {reason}")
    methods = chosen(options.methods, all_settings() if options.tuned else all_methods())
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
    parser.add_argument("command", choices=["run", "report", "tables", "expect"])
    parser.add_argument("--tuned", action="store_true", help="other settings than the defaults")
    parser.add_argument("--data", metavar="FOLDER", help="files that users download: codebook.json")
    parser.add_argument("--splits", type=int, help="4, or 3 with --tuned")
    parser.add_argument("--epsilons", type=float, nargs="*", help="four, or three with --tuned")
    parser.add_argument("--tracks", nargs="*", choices=data.TRACKS, help="both, if none is named")
    parser.add_argument("--tasks", nargs="*", metavar="TASK", help="all, if none is named")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="data sets")
    parser.add_argument("--methods", nargs="*", default=[""], metavar="TEXT", help="names or parts")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--until", metavar="HH:MM", help="no fit starts after this time of today")
    parser.add_argument("--results", default=results.FOLDER, help="a folder")
    parser.add_argument("--docs", default=report.DOCS, type=Path, help="where the page is")
    options = parser.parse_args()
    options.splits = options.splits or (TUNED_SPLITS if options.tuned else SPLITS)
    options.epsilons = options.epsilons or (TUNED_EPSILONS if options.tuned else EPSILONS)
    warnings.filterwarnings("ignore")
    if options.command == "run":
        run(options)
    elif options.command == "expect":
        print(report.expectations(report.known_rows(options.results)[1]), end="")
    elif options.command == "tables":
        print(report.more_tables(options.results), end="")
    else:
        report.write(options.results, options.docs)


if __name__ == "__main__":
    main()
