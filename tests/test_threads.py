"""Contexts that threads enter together."""

from contextlib import contextmanager

from threadpoolctl import ThreadpoolController

from skdpsco._threads import Joint
from skdpsco.data.record_sums import one_blas_thread


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


def test_blas_has_its_threads_again():
    def threads():
        return [one["num_threads"] for one in ThreadpoolController().select(user_api="blas").info()]

    with ThreadpoolController().limit(limits=2, user_api="blas"):
        before = threads()
        with one_blas_thread(), one_blas_thread():
            assert set(threads()) <= {1}
        assert threads() == before
