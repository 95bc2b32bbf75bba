"""Docstrings pass numpydoc's checks, with scikit-learn's exceptions. `make docs` runs this."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

validate = pytest.importorskip("numpydoc.validate", reason="numpydoc is not installed")

API = Path(__file__).parents[1] / "docs" / "api"
# Ignored as in scikit-learn: where a summary begins and a docstring ends, and names of what is
# returned. Neither are examples, references to other names and extended summaries asked for
# everywhere.
IGNORED = {"RT02", "GL01", "GL02", "EX01", "SA01", "ES01"}


def public_names():
    """Paths of all entries of the reference, and of the methods that are defined here."""
    for page in sorted(API.glob("*.rst")):
        for entry in re.findall(r"^   ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE):
            room, _, name = f"skdpsco.{entry}".rpartition(".")
            item = getattr(importlib.import_module(room), name)
            if not (inspect.isclass(item) or inspect.isfunction(item)):
                continue
            yield f"{room}.{name}"
            for method, value in vars(item).items() if inspect.isclass(item) else ():
                if not method.startswith("_") and inspect.isfunction(value) and value.__doc__:
                    yield f"{room}.{name}.{method}"


def faults(name):
    """What numpydoc finds, but for what is ignored."""
    return [error for error in validate.validate(name)["errors"] if error[0] not in IGNORED]


def test_docstrings():
    found = {name: errors for name in public_names() if (errors := faults(name))}
    assert found == {}


def test_a_fault_is_found():
    assert [code for code, _ in faults("inspect.cleandoc")] != []
