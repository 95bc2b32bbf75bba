"""Facts that several files of the project state agree, and workflows run fixed code."""

import re
from pathlib import Path

import skdpsco

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
RECIPE = (ROOT / ".ci" / "conda" / "recipe.yaml").read_text("utf-8")


def unpinned(workflow):
    """Actions that are not named by the hash of a commit, with its version beside it."""
    uses = re.findall(r"uses: *(.*)", workflow)
    return [use for use in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", use)]


def test_one_version():
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.findall(r"^version: (.*)$", citation, re.M) == [skdpsco.__version__]
    assert re.findall(r'^  version: "(.*)"$', RECIPE, re.M) == [skdpsco.__version__]


def test_the_recipe_has_the_dependencies_of_the_project():
    declared = re.search(r"^dependencies = \[\n(.*?)^\]", PROJECT, re.M | re.S)[1]
    names = re.findall(r'^  "([\w-]+)(>=[\d.]+)"', declared, re.M)
    assert len(names) == 5
    python = re.search(r'^requires-python = "(.*)"$', PROJECT, re.M)[1]
    run = RECIPE.partition("  run:\n")[2].partition("\n\n")[0]
    assert re.findall(r"- ([\w-]+) (>=[\d.]+)$", run, re.M) == [("python", python), *names]


def test_actions_are_pinned():
    assert len(WORKFLOWS) >= 5
    for path in WORKFLOWS:
        assert unpinned(path.read_text("utf-8")) == [], path.name
    assert unpinned("- uses: actions/checkout@v4\n") == ["actions/checkout@v4"]


def test_targets_that_workflows_and_documents_name_are_there():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    texts = [*WORKFLOWS, ROOT / ".ci" / "run", *(ROOT / ".github").glob("*.md")]
    named = {
        name
        for path in texts
        for name in re.findall(
            r"(?:- run: |step |`|^    )make (\w+)", path.read_text("utf-8"), re.M
        )
    }
    side_by_side = re.search(r"for target in ([^;]+);", (ROOT / ".ci" / "run").read_text("utf-8"))
    named |= {name for name in side_by_side[1].split() if name.isidentifier()}
    assert {"test", "lint", "sdist"} <= named <= targets


def test_show_versions_names_the_machine_and_nothing_else(capsys):
    skdpsco.show_versions()
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert {"skdpsco", "numpy", "numba", "Python", "machine", "dask", "matplotlib"} <= set(lines)
    assert not {"pytest", "sphinx", "ruff"} & set(lines)
    assert lines["skdpsco"] == skdpsco.__version__
    assert str(Path.home()) not in str(lines)
