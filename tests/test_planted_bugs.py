"""The bugs of `make mutants` still have a place in the code, and tests that should find them."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / ".ci" / "mutants.py"
if not SCRIPT.is_file():
    pytest.skip("a source distribution has no .ci", allow_module_level=True)
BUGS = runpy.run_path(str(SCRIPT))["BUGS"]


def test_bugs_can_be_planted():
    sources = {bug.file: (ROOT / "skdpsco" / bug.file).read_text("utf-8") for bug in BUGS}
    assert [bug.name for bug in BUGS if sources[bug.file].count(bug.old) != 1] == []
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    for bug in BUGS:
        planted = sources[bug.file].replace(bug.old, bug.new)
        compile(planted, bug.file, "exec")  # otherwise any test would find it


def test_their_tests_exist():
    for bug in BUGS:
        for name in bug.tests.split():
            path = ROOT / "tests" / name
            assert path.with_name(f"test_{path.name}.py").is_file(), bug.name


def test_tests_for_the_oldest_dependencies_exist():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    names = re.search(r"^FLOOR_TESTS .*?\.py,([^)]*)\)", makefile, re.M | re.S).group(1)
    names = names.replace("\\", " ").split()
    assert len(names) > 20
    assert [name for name in names if not (ROOT / "tests" / f"test_{name}.py").is_file()] == []
