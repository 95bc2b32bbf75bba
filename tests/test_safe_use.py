"""What a careless person does: it is said, or refused, before anything is charged."""

from threading import Thread

import pytest

import skdpsco


@pytest.fixture
def default_settings():
    """Restore the settings of the process."""
    before = skdpsco.get_config()
    yield
    skdpsco.set_config(**before)


def in_thread(function):
    """What ``function`` returns in a new thread."""
    found = []
    thread = Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.usefixtures("default_settings")
def test_settings_are_those_of_all_threads_and_contexts_those_of_one():
    with skdpsco.config_context(strict=True), skdpsco.config_context(verbose=0):
        assert skdpsco.get_config() == {"strict": True, "verbose": 0}
        assert in_thread(skdpsco.get_config) == {"strict": False, "verbose": 1}
    skdpsco.set_config(strict=True)
    assert in_thread(skdpsco.get_config) == skdpsco.get_config() == {"strict": True, "verbose": 1}


@pytest.mark.parametrize(
    "wrong", [{"strict": 1}, {"verbose": "no"}, {"verbose": True}, {"verbose": -1}]
)
def test_settings_that_are_not_legal_change_nothing(wrong):
    before = skdpsco.get_config()
    (name,) = wrong
    for change in (skdpsco.set_config, lambda **given: skdpsco.config_context(**given).__enter__()):
        with pytest.raises((TypeError, ValueError), match=f"{name} must be"):
            change(**wrong)
    assert skdpsco.get_config() == before
