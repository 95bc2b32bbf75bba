"""Docstrings pass numpydoc's checks, with scikit-learn's exceptions. `make docs` runs this."""

import importlib
import inspect
import re
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator
from test_english import faults as faults_of_english

from skdpsco.base.shared_entries import SHARED, fill_docstrings

validate = pytest.importorskip("numpydoc.validate", reason="numpydoc is not installed")

DOCS = Path(__file__).parents[1] / "docs"
API = DOCS / "api"
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


# --- what estimators say, with the entries that they share


def estimators():
    """Docstrings of the public private estimators, as `help` shows them, by name."""
    for path, estimator in public_names():
        room, _, name = path.rpartition(".")
        if estimator and name.startswith("Private") and room != "skdpsco.base":
            yield name, inspect.getdoc(getattr(importlib.import_module(room), name))


ESTIMATORS = dict(estimators())


def entries(docstring, section):
    """The entries of a section, each with its first line."""
    text = re.search(rf"^{section}\n-+\n(.*?)(?:\n\n|\Z)", docstring, re.DOTALL | re.MULTILINE)
    return re.split(r"\n(?=\S)", text[1]) if text else []


def long_entries(docstring):
    """Parameters of more than 60 words, or with more than two numbers after the first line."""
    for entry in entries(docstring, "Parameters"):
        first, _, rest = entry.partition("\n")
        numbers = re.findall(r"(?<![\w.])\d[\w.-]*", rest)
        if len(entry.split()) > 60 or len(numbers) > 2:
            yield first


def test_estimators_are_documented_briefly():
    words = {name: len(text.split()) for name, text in ESTIMATORS.items()}
    assert len(words) > 25
    assert {name: n for name, n in words.items() if n > 600} == {}
    assert statistics.median(words.values()) <= 450
    assert {name: list(long_entries(text)) for name, text in ESTIMATORS.items()} == {
        name: [] for name in words
    }


def test_what_estimators_share_is_written_once():
    """Entries with the first line of a shared one begin with it, and nothing is left to fill in."""
    shared = [text for name, text in SHARED.items() if name not in ("units", "outcome")]
    uses = Counter()
    for name, text in ESTIMATORS.items():
        assert not re.search(r"^ *\{[\w, ]+\}$", text, re.MULTILINE), name
        assert faults_of_english(text) == [], name
        for section in ("Parameters", "Attributes"):
            for entry in entries(text, section):
                first = entry.partition("\n")[0]
                alike = [one for one in shared if one.partition("\n")[0] == first]
                begins = [one for one in alike if entry.startswith(one)]
                assert len(begins) == bool(alike), (name, entry)
                uses.update(begins)
        uses[SHARED["guarantee"]] += SHARED["guarantee"] in text
    assert [text for text in shared if uses[text] < 2] == []


def test_links_of_docstrings_lead_to_pages():
    links = {page for text in ESTIMATORS.values() for page in re.findall(r":doc:`(.*?)`", text)}
    assert len(links) > 15
    assert [page for page in links if not (DOCS / f"{page.strip('/')}.md").is_file()] == []


def test_docstrings_of_users_and_none_at_all():
    class Own:
        """Own.

        {epsilon, delta}
        {something}
        """

        def fit(self):
            pass

    fill_docstrings(Own)
    shared = SHARED["epsilon"] + "\n" + SHARED["delta"]
    assert inspect.getdoc(Own) == f"Own.\n\n{shared}\n{{something}}"
    command = "from skdpsco import PrivateRidge as R; print(R.__doc__, R.fit.__doc__)"
    run = [sys.executable, "-OO", "-c", command]
    assert subprocess.run(run, capture_output=True, text=True).stdout == "None None\n"


def test_long_entries_are_found():
    text = "A.\n\nParameters\n----------\na : int\n    In [1, 2], or l2.\nb : int\n    1, 2 or 3."
    assert list(long_entries(text)) == ["b : int"]
    assert list(long_entries(text.replace("l2", "a " * 60))) == ["a : int", "b : int"]
