"""Every function that draws noise stands in a module that names its proof, and in the proof map."""

import ast
import re
from functools import cache
from pathlib import Path

from cases import each

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "skdpsco"
PROOFS = ROOT / "docs" / "proofs"
PAGE = PROOFS / "map.md"


def samplers():
    """Functions of the mechanisms that are given a generator."""
    return {
        node.name
        for path in (PACKAGE / "mechanisms").glob("*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef) and "rng" in {a.arg for a in node.args.args}
    } - {"_"}


def drawing(source, names):
    """The functions of a module that call a sampler, with the classes around them."""
    tree = ast.parse(source)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    taken = {
        alias.asname or alias.name: alias.name
        for node in imports
        if (node.module or "").startswith("skdpsco.mechanisms") or node.module == "skdpsco"
        for alias in node.names
    }

    if not taken:
        return []

    def draws(node):
        if isinstance(node, ast.Attribute):  # samplers.release
            return node.attr in names and getattr(node.value, "id", None) in taken
        return isinstance(node, ast.Name) and taken.get(node.id) in names

    def walk(parent, path):
        for node in ast.iter_child_nodes(parent):
            inside = path
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                inside = (*path, node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and draws(node) and path:
                yield ".".join(path)
            yield from walk(node, inside)

    return sorted(set(walk(tree, ())))


def proofs_of(source):
    """The pages that the docstring of a module names."""
    return re.findall(r"docs/proofs/(\w+)\.md", ast.get_docstring(ast.parse(source)) or "")


@cache
def rows():
    """The rows that the page should have: modules, their functions that draw, and proofs."""
    names, found = samplers(), []
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text("utf-8")
        functions = drawing(source, names)
        if functions and path.parent.name != "mechanisms":
            module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
            found.append((module, functions, proofs_of(source)))
    return found


def test_every_function_that_draws_names_its_proof():
    found = rows()
    assert sum(len(functions) for _, functions, _ in found) >= 35
    missing = {module: pages for module, _, pages in found if not pages}
    assert missing == {}
    unknown = {page for _, _, pages in found for page in pages} - {p.stem for p in PROOFS.iterdir()}
    assert unknown == set()


def test_the_map_is_complete():
    table = [
        f"| `{module}` | {', '.join(f'`{name}`' for name in functions)} | "
        f"{', '.join(f'[{page}]({page}.md)' for page in dict.fromkeys(pages))} |"
        for module, functions, pages in rows()
    ]
    lines = PAGE.read_text("utf-8").splitlines()
    assert [line for line in lines if line.startswith("| `")] == table


@each(
    ("source", "functions"),
    [
        ("from skdpsco.mechanisms import release\ndef f(rng): release(rng)", ["f"]),
        ("from skdpsco.mechanisms.samplers import release as r\ndef f(): return [r]", ["f"]),
        (
            "from skdpsco.mechanisms import samplers\nclass A:\n def f(s): samplers.release()",
            ["A.f"],
        ),
        ("def f(future): future.release()", []),
        ("from skdpsco.mechanisms import gaussian_grid\ndef f(): gaussian_grid()", []),
    ],
)
def test_what_counts_as_a_draw(source, functions):
    assert drawing(source, {"release"}) == functions
    assert proofs_of(source) == []
