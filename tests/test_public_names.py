"""Public names are where the README says, and in one sub-package each."""

import importlib
import pkgutil
import pydoc
import re
from collections import defaultdict
from inspect import Signature, isclass, signature
from pathlib import Path

from sklearn.base import BaseEstimator

import skdpsco

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
PUBLIC = sorted(m.name for m in pkgutil.iter_modules(skdpsco.__path__) if m.name[0] != "_")
# What fits release before their solver runs, with nothing to call; a command.
INTERNAL = {"scaling", "compile"}
ROWS = [
    (re.findall(r"`(\w+)`", row[1]), row[2])
    for row in re.finditer(r"^\| (`[^|]*`) \| `(skdpsco[.\w]*)` \|", README, re.MULTILINE)
]


def exported():
    """The sub-packages that export each name."""
    where = defaultdict(set)
    for name in set(PUBLIC) - INTERNAL:
        for public in importlib.import_module(f"skdpsco.{name}").__all__:
            where[public].add(name)
    return where


def test_names_are_where_the_readme_says():
    assert len(ROWS) >= 19
    for names, package in ROWS:
        module = importlib.import_module(package)
        assert set(names) <= set(module.__all__), package


def test_all_names_exist_and_have_one_sub_package():
    where = exported()
    for name, packages in where.items():
        for package in packages:
            assert hasattr(importlib.import_module(f"skdpsco.{package}"), name), name
    several = {name: packages for name, packages in where.items() if len(packages) > 1}
    assert several == {}


def test_the_readme_names_what_users_import():
    told = {name for names, _ in ROWS for name in names}
    users = {name for name in exported() if name.startswith("Private")}
    results = {"PrivateEstimator", "PrivateScore", "PrivateScorer"}  # made, or derived from
    assert users - results <= told
    settings = {"config_context", "get_config", "set_config"}
    top = set(skdpsco.__all__) - {"PrivacyWarning", "UtilityWarning", "show_versions", *settings}
    assert top == {name for names, package in ROWS for name in names if package == "skdpsco"}
    for package in set(PUBLIC) - INTERNAL:
        assert f"`skdpsco.{package}`" in README + REFERENCE, package
    for name in top:  # the same object as in its sub-package
        (package,) = exported()[name]
        assert getattr(importlib.import_module(f"skdpsco.{package}"), name) is getattr(
            skdpsco, name
        )


def test_help_of_estimators_shows_parameters_without_their_types():
    kinds = [getattr(skdpsco, name) for name in skdpsco.__all__]
    estimators = [kind for kind in kinds if isclass(kind) and issubclass(kind, BaseEstimator)]
    assert len(estimators) > 20
    for estimator in estimators:
        text = pydoc.render_doc(estimator, renderer=pydoc.plaintext)
        assert estimator.__doc__.splitlines()[0] in text
        assert "numpy._typing" not in text, estimator
        assert signature(estimator).return_annotation is Signature.empty
        assert estimator.__init__.__annotations__  # which checkers of types read
