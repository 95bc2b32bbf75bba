"""Docstrings pass numpydoc's checks, with scikit-learn's exceptions. `make docs` runs this."""

import importlib
import inspect
import re
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

validate = pytest.importorskip("numpydoc.validate", reason="numpydoc is not installed")

API = Path(__file__).parents[1] / "docs" / "api"
# As in scikit-learn, summaries begin in the first line, docstrings may end in it, results have
# names, and not everything needs examples and extended summaries, or references to other names,
# which estimators do have.
# Besides, numpydoc takes nouns such as "Codes" for verbs (SS05), and overlooks that a sentence in
# parentheses ends with its parenthesis (PR09, RT05).
IGNORED = {"RT02", "GL01", "GL02", "EX01", "SA01", "ES01", "SS05", "PR09", "RT05"}
# Estimators have every parameter and result described. A building block may do with a sentence.
OF_ESTIMATORS = {"PR01", "PR07", "RT01", "RT03"}


def public_names():
    """Paths of the reference's entries and their methods, and whether it is an estimator."""
    for page in sorted(API.glob("*.rst")):
        for entry in re.findall(r"^   ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE):
            room, _, name = f"skdpsco.{entry}".rpartition(".")
            item = getattr(importlib.import_module(room), name)
            if not (inspect.isclass(item) or inspect.isfunction(item)):
                continue
            estimator = inspect.isclass(item) and issubclass(item, BaseEstimator)
            yield f"{room}.{name}", estimator
            for method, value in vars(item).items() if inspect.isclass(item) else ():
                if not method.startswith("_") and inspect.isfunction(value) and value.__doc__:
                    yield f"{room}.{name}.{method}", estimator


def faults(name, estimator):
    """The faults that numpydoc finds, except for ignored ones."""
    ignored = IGNORED if estimator else IGNORED | OF_ESTIMATORS
    if estimator and name.rpartition(".")[2][0].isupper() and ".base." not in name:
        ignored = ignored - {"SA01"}
    return [error for error in validate.validate(name)["errors"] if error[0] not in ignored]


def test_docstrings():
    names = dict(public_names())
    assert sum(names.values()) > 50
    assert {name: found for name, kind in names.items() if (found := faults(name, kind))} == {}


def test_a_fault_is_found():
    assert "PR01" in dict(faults("inspect.cleandoc", estimator=True))
