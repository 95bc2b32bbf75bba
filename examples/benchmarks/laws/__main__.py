"""Measure default fits on laws of data, keep what was measured, and compare states of the code.

python -m laws list
python -m laws run LABEL [--quick] [--only LAW ...] [--models NAME ...] [--seeds N] [--path DIR]
python -m laws compare [LABEL] LABEL
python -m laws check LABEL ...
python -m laws plot LABEL [LABEL]

in examples/benchmarks; `make laws LABEL=...` runs, and compares with what is stored. Rows that are
there are not measured again, so that code that has changed needs a new label. With --path the
package in another checkout is measured. Two labels are compared on the rows that both have, for the
same tables; the first is the older one. check measures what --quick measures, and fails if the mean
score of all cells, of a model or of a law is below that of the labels by more than chance explains;
rows are kept nowhere. The mean of several labels of the same code has less noise.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"  # the processes are the parallelism


def run(options):
    import skdpsco
    from laws.results import Store
    from laws.runs import code, jobs

    store = Store(options.labels[0], options.results)
    if set(store.read().code) - {code()}:
        raise SystemExit(f"{options.labels[0]} is the label of other code: choose a new one")
    print(f"measuring {Path(skdpsco.__file__).parent}")
    measure_all(store, jobs(options.quick, options.only, options.models, options.seeds), options)
    store.pack()


def measure_all(store, jobs, options):
    """Rows of all jobs that the store lacks."""
    from joblib import Parallel, delayed

    from laws.runs import measure

    done = store.keys()
    todo = [job for job in jobs if not done.issuperset(job.keys())]
    start = time.perf_counter()
    pool = Parallel(options.jobs, return_as="generator_unordered", batch_size=4)
    calls = (delayed(measure)(job, done & set(job.keys())) for job in todo)
    for k, rows in enumerate(pool(calls), 1):
        store.append(rows)
        if k % 20 == 0 or k == len(todo):
            seconds = time.perf_counter() - start
            print(f"\r{k} of {len(todo)} tables, {seconds:.0f} s", end="", flush=True)
    print()


def check(options):
    """Exit with an error if a mean score, of all, a model or a law, is below that of the labels."""
    from laws.report import change, mean_of
    from laws.results import Store
    from laws.runs import jobs

    old = mean_of(options.labels, options.results)
    with tempfile.TemporaryDirectory() as folder:
        store = Store("now", folder)
        laws = options.only or set(old.law)
        measure_all(store, jobs(True, laws, options.models, compared=False), options)
        mean, failures = change(old, store.read())
    print(mean)
    if failures:
        raise SystemExit("\n".join(["Scores are below stored ones:", *failures]))


def main():
    parser = argparse.ArgumentParser(prog="laws", description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["list", "run", "compare", "check", "plot"])
    parser.add_argument("labels", nargs="*", metavar="LABEL", help="states of the code")
    parser.add_argument("--quick", action="store_true", help="three tables of each law")
    parser.add_argument("--only", nargs="+", metavar="LAW")
    parser.add_argument("--models", nargs="+", metavar="NAME")
    parser.add_argument("--seeds", type=int, help="tables of each cell, for a closer look")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--path", metavar="DIR", help="a checkout whose package is measured")
    parser.add_argument("--results", metavar="FOLDER", type=Path, help="where rows are kept")
    options = parser.parse_args()
    counts = {"list": [0], "run": [1], "check": range(1, 10)}
    if len(options.labels) not in counts.get(options.command, [1, 2]):
        parser.error("run takes one LABEL, compare and plot one or two, check some")
    if options.path and os.environ.get("PYTHONPATH") != os.path.abspath(options.path):
        os.environ["PYTHONPATH"] = os.path.abspath(options.path)
        os.execv(sys.executable, [sys.executable, "-m", "laws", *sys.argv[1:]])
    from laws import report, results, runs

    unknown = set(options.only or ()) - {name for name, _ in runs.LAWS}
    if unknown:
        parser.error(f"no laws {sorted(unknown)}: `python -m laws list` names them")
    options.results = options.results or results.FOLDER
    if options.command == "list":
        for (name, task), law in runs.LAWS.items():
            print(f"{name} ({task}): {law.where}")
    elif options.command == "run":
        run(options)
    elif options.command == "check":
        check(options)
    elif options.command == "compare":
        report.compare(options.labels, options.results)
    else:
        report.plot(options.labels, options.results)


if __name__ == "__main__":
    main()
