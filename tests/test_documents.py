"""The documentation hangs together: pages are reachable, links lead somewhere, formulas survive."""

import importlib
import pkgutil
import re
from pathlib import Path

from cases import each
from sklearn.base import BaseEstimator

import skdpsco

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BUILT = {"_build", "generated", "auto_examples"}
PAGES = sorted(
    path
    for kind in ("*.md", "*.rst")
    for path in DOCS.rglob(kind)
    if not BUILT & set(path.relative_to(DOCS).parts) and "_templates" not in path.parts
)
MARKDOWN = [
    ROOT / "README.md",
    *sorted((ROOT / ".github").glob("*.md")),
    *(path for path in PAGES if path.suffix == ".md"),
]
# An underscore between signs, as in the norm ‖x‖_p, and a later one that ends the emphasis.
EMPHASIS = re.compile(r"(?<![\w\\])_\S.*?(?<![\s\\])_(?!\w)", re.DOTALL)


def prose(text):
    """The text without its blocks and spans of code."""
    text = re.sub(r"^(```+|:::+).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`+[^`]*`+", "code", text)


def anchors(text):
    """What headings are called in links, by GitHub's rule."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(path, text):
    """Relative links to no file, or to no heading of a document."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.is_file() or (anchor and anchor not in anchors(file.read_text("utf-8"))):
            broken.append(target)
    return broken


def tables_of_contents(text):
    """The documents that the toctrees of a page name."""
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = [line.strip() for tree in trees for line in tree.splitlines()]
    return [line for line in lines if line and not line.startswith(":")]


def test_every_page_is_reached_once_from_the_first():
    reached, new = [], [DOCS / "index.md"]
    while new:
        page = new.pop()
        reached.append(page)
        for name in tables_of_contents(page.read_text("utf-8")):
            if name.partition("/")[0] in BUILT:
                continue
            (child,) = (path for path in PAGES if path.with_suffix("") == page.parent / name)
            new.append(child)
    assert sorted(reached) == PAGES


@each("path", MARKDOWN)
def test_links_and_formulas(path):
    text = path.read_text("utf-8")
    assert broken_links(path, text) == []
    for paragraph in re.split(r"\n\s*\n", prose(text)):
        assert not EMPHASIS.search(paragraph), paragraph


@each("path", [path for path in MARKDOWN if path.parent.name != "proofs"])
def test_lines_are_short(path):
    """Except for rows of tables, which Markdown cannot break."""
    lines = path.read_text("utf-8").splitlines()
    assert [line for line in lines if len(line) > 120 and not line.startswith("| ")] == []


def test_the_readme_is_short():
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= 70
    assert max(map(len, lines)) <= 120


def test_the_reference_lists_every_public_name_once():
    pages = [page.read_text("utf-8") for page in sorted((DOCS / "api").glob("*.rst"))]
    listed = re.findall(r"^   ([\w.]+)$", "\n".join(pages), re.MULTILINE)
    names = [name.rpartition(".")[2] for name in listed]
    assert len(names) == len(set(names))
    public = set(skdpsco.__all__)
    for module in pkgutil.iter_modules(skdpsco.__path__):
        if not module.name.startswith("_"):
            package = importlib.import_module(f"skdpsco.{module.name}")
            public |= set(getattr(package, "__all__", ()))
    assert set(names) == public
    for name, entry in zip(names, listed, strict=True):  # the shortest path that users can type
        assert ("." in entry) == (name not in skdpsco.__all__), entry


PROOFS = sorted(
    {*(DOCS / "proofs").glob("*.md")} - {DOCS / "proofs" / f for f in ("index.md", "map.md")}
)


@each("path", PROOFS)
def test_proofs_say_what_they_show_and_lead_to_their_code(path):
    title, _, box = path.read_text("utf-8").partition(":::{admonition} In short\n")
    assert title.count("\n") == 2
    box, end, _ = box.partition("\n:::\n")
    assert end
    parts = [" ".join(part.split()) for part in box.split("\n\n")]
    starts = ("*What is shown.* ", "*What you have to believe:* ", "*The code:* ")
    for part, start in zip(parts, starts, strict=True):
        assert part.startswith(start)
    assert len(re.findall(r"[.](?= |$)", parts[0].removeprefix(starts[0]))) == 2
    files = re.findall(r"\]\((\.\./\.\./skdpsco/[\w/]+\.py)\)", parts[2])
    assert files
    assert [file for file in files if not (path.parent / file).is_file()] == []


def test_displays_of_estimators_lead_to_their_pages():
    pages = [page.read_text("utf-8") for page in sorted((DOCS / "api").glob("*.rst"))]
    listed = re.findall(r"^   ([\w.]+)$", "\n".join(pages), re.MULTILINE)
    linked = set()
    for entry in listed:
        room, _, name = f"skdpsco.{entry}".rpartition(".")
        kind = getattr(importlib.import_module(room), name)
        if isinstance(kind, type) and issubclass(kind, BaseEstimator) and name != "ColumnTransform":
            link = kind.__new__(kind)._get_doc_link()
            assert link.endswith(f"/api/generated/skdpsco.{entry}.html")
            linked.add(name)
    assert {"PrivateLasso", "PrivateStandardScaler", "ColumnClipper"} <= linked

    class Own(skdpsco.PrivateLasso):
        """An estimator of the user's has no page."""

    assert Own()._get_doc_link() == ""


def test_the_checks_find_faults():
    page = DOCS / "index.md"
    assert broken_links(page, "[a](no.md) [b](choosing.md#nowhere) `[c](no.md)`") == [
        "no.md",
        "choosing.md#nowhere",
    ]
    assert broken_links(page, "[a](choosing.md#epsilon-and-delta) [b](https://x.org)") == []
    assert EMPHASIS.search("‖w_j‖_p + ‖w_k‖_{p*}")
    assert not EMPHASIS.search("‖w_j‖\\_p + ‖w_k‖\\_{p*}, ‖x‖_2, and a_b_c")
