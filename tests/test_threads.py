"""Contexts that threads enter together."""

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import pytest
from threadpoolctl import ThreadpoolController

from skdpsco._threads import Joint
from skdpsco.data import record_sums


def test_the_first_begins_and_the_last_ends():
    said = []

    @contextmanager
    def context():
        said.append("begins")
        yield
        said.append("ends")

    joint = Joint(context)
    with joint:
        joint.__enter__()  # as another thread does, which leaves later
    assert said == ["begins"]
    joint.__exit__(None, None, None)
    assert said == ["begins", "ends"]
    with joint:
        assert said[2:] == ["begins"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("by", ["this thread", "another thread"])
def test_a_child_process_is_within_if_the_thread_that_forks_is(by):
    said, entered, leave = [], Event(), Event()

    @contextmanager
    def context():
        said.append("begins")
        yield
        said.append("ends")

    joint = Joint(context)

    def stay():
        with joint:
            entered.set()
            leave.wait(60)

    def said_in_child():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads
            pid = os.fork()
        if pid == 0:
            with joint:
                os._exit(len(said))
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    with ThreadPoolExecutor(1) as pool:
        if by == "another thread":
            pool.submit(stay)
            entered.wait(60)
            assert said_in_child() == 3  # it has ended, and begins again
            leave.set()
        else:
            with joint:
                assert said_in_child() == 1
    assert said == ["begins", "ends"]


def test_blas_has_its_threads_again(monkeypatch):
    # Other tests may have loaded a library since the first fit looked for them, and one that
    # interrupts a fit may have left the context of fits open.
    monkeypatch.setattr(record_sums, "_blas", [])
    one_thread = Joint(record_sums.one_blas_thread()._context)

    def threads():
        return [one["num_threads"] for one in ThreadpoolController().select(user_api="blas").info()]

    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = threads()
        with one_thread, one_thread:
            assert set(threads()) <= {1}
        assert threads() == before
