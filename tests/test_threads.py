"""Contexts that threads enter together."""

from contextlib import contextmanager

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
