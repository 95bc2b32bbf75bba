"""Run methods whose libraries need an environment of their own, in a process of its Python.

A process is started once and takes problems through a pipe. Its Python is that of the variable
FIELD_<NAME>, or of the environment that `make field` has made: .venv-field-<name>. FIELD_PATIENCE
is the number of seconds that a fit may take, by default 300.
"""

import atexit
import importlib
import os
import pickle
import select
import subprocess
import sys
import threading
import time
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1]
PATIENCE = float(os.environ.get("FIELD_PATIENCE", "300"))
processes = {}


def python_of(environment):
    """Path of the environment's Python, or None if there is none."""
    made = BENCHMARKS.parents[1] / f".venv-field-{environment}" / "bin" / "python"
    path = Path(os.environ.get(f"FIELD_{environment.upper()}", made))
    return path if path.is_file() else None


def started(environment):
    """The running process of an environment."""
    process = processes.get(environment)
    if process is None or process.poll() is not None:
        process = processes[environment] = subprocess.Popen(
            [python_of(environment), "-W", "ignore", "-m", "field.elsewhere"],
            cwd=BENCHMARKS,
            env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        atexit.register(process.kill)
    return process


def call(environment, module, function, *arguments):
    """The results of ``function`` in ``field.methods.<module>`` there, and ``seconds``.

    They are processor time, on which other programs have no influence.

    Raises
    ------
    TimeoutError
        If it takes longer than `PATIENCE`; the process is ended.
    RuntimeError
        If it fails; the message is the name of the error's class.
    """
    process = started(environment)
    # A large problem fills the pipe before the process has read it.
    request = pickle.dumps((module, function, arguments))
    writer = threading.Thread(target=lambda: (process.stdin.write(request), process.stdin.flush()))
    writer.start()
    if not select.select([process.stdout], [], [], PATIENCE)[0]:
        process.kill()
        process.wait()
        raise TimeoutError(function)
    writer.join()
    failed, answer = pickle.load(process.stdout)
    if failed:
        raise RuntimeError(answer)
    return answer


def serve():
    """Answer calls until the pipe is closed; output of libraries does not get into it."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            module, function, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            methods = importlib.import_module(f"field.methods.{module}")
            start = time.process_time()
            found = getattr(methods, function)(*arguments)
            seconds = time.process_time() - start
            answer = False, found | {"seconds": seconds}
        except Exception as error:
            answer = True, type(error).__name__
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    serve()
