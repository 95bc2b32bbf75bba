"""Habits that make docstrings and documents hard to read, and that a program can find."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "skdpsco").rglob("*.py"))
DOCUMENTS = [
    ROOT / "README.md",
    *sorted((ROOT / ".github").glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
TESTS = sorted(set((ROOT / "tests").rglob("*.py")) - {Path(__file__)})

# Words with -ize that are not ours: names of other libraries, titles of papers, the modules of
# penalised models, and the synthesizer, which is named like scikit-learn's transformers.
NOT_OURS = {
    "finalize", "minimize", "normalize", "optimize", "optimizer", "tokenizer",
    "studentized_range", "value_discretization_interval",
    "Binarizer", "CountVectorizer", "HashingVectorizer", "KBinsDiscretizer", "Normalizer",
    "RandomizedSearchCV", "TfidfVectorizer", "Minimization", "minimization", "Optimization",
    "optimization", "Generalized", "Regularization", "generalized", "penalized", "_penalized",
    "synthesizer", "PrivateSynthesizer", "tupleize_cols", "NoOpSerializer", "_bypass_serializer",
    "serializers",
}  # fmt: skip

# Beginnings of descriptions that leave out what they are about.
FRAGMENT = re.compile(r"    (Of|That of|Those of) ")
# Word orders and meanings that have to be read twice: "records enough", "rows less a centre", "and
# else" for "otherwise", "but for" for "except for".
PHRASES = re.compile(
    r"\b(is|are) none (that|of (them|these|which))\b|\brecords enough\b|(?:\band|;) else\b"
    r"|\b(rows|columns|records|entries|norms) less (an?|the|its|their)\b"
    r"|\bbut for (an?|the|its|their|that|those|what|rounding|[0-9])\b|\bdearer\b|\bas ever\b"
    r"|\b(is|are) no (number|matrix|label)s?\b"
)
# Comments and docstrings that begin in the middle of a sentence.
BEGINNING = re.compile(r'(?:"""|# )(Of (?!order)|That of|Those of|Else\b)')


def words_with_z(text):
    """Words of ours that are spelled with -ize."""
    words = re.findall(r"\w*[A-Za-z]iz(?:e|ed|er|ing|able|ation)\w*", text)
    parts = [w for w in words if not re.search("size", w, re.IGNORECASE)]
    return sorted(set(parts) - NOT_OURS)


def sections(docstring):
    """Name, lines and place of the numpydoc sections of a docstring."""
    lines = docstring.split("\n")
    name = None
    for i, line in enumerate(lines):
        if i + 1 < len(lines) and re.fullmatch("-{3,}", lines[i + 1].strip()):
            name = line.strip()
        elif line and not line.startswith((" ", "-")):
            following = lines[i + 1] if i + 1 < len(lines) else ""
            yield name, line, following


def faults(docstring):
    """What is wrong with the entries of a docstring."""
    found = []
    for name, line, following in sections(docstring):
        if name == "Raises" and not following.startswith(" "):
            found.append(f"does not say when it raises {line}")
        if name in ("Parameters", "Attributes", "Returns") and FRAGMENT.match(following):
            found.append(f"describes {line} by a fragment: {following.strip()}")
    if re.match(r"(Of|That of|Those of)\b|As `", docstring):
        found.append(f"begins with a fragment: {docstring.splitlines()[0]}")
    return found


def docstrings(path):
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield getattr(node, "name", "module"), text


def test_entries_of_docstrings():
    found = [
        f"{path.relative_to(ROOT)}: {name} {fault}"
        for path in SOURCES
        for name, text in docstrings(path)
        for fault in faults(text)
    ]
    assert found == []


@pytest.mark.parametrize(
    "paths", [SOURCES, EXAMPLES, DOCUMENTS, TESTS], ids=["code", "examples", "docs", "tests"]
)
def test_spelling_and_phrases(paths):
    for path in paths:
        text = path.read_text(encoding="utf-8")
        assert paths is TESTS or words_with_z(text) == [], path
        assert not BEGINNING.search(text), path
        assert not PHRASES.search(re.sub(r"\s+(?:# )?", " ", text)), path
        # "is none." ends a sentence that has to be read twice; "if there is none" does not.
        assert not re.search(r"(?<!there )\b(is|are) none[.;:]", text), path


def test_the_rules_find_faults():
    bad = "Do it.\n\nParameters\n----------\nx : int\n    Of the set.\n\nRaises\n------\nValueError"
    assert len(faults(bad)) == 2
    assert faults(bad.replace("Of the set.", "Size.") + "\n    If it is negative.") == []
    assert [len(faults(text)) for text in ("As `fit`.", "Those of it.", "As usual.")] == [1, 1, 0]
    assert words_with_z("localized sizes, minimise, resize") == ["localized"]
    for text in ("there are records enough", "rows less a centre", "1 if it is, and else 0"):
        assert PHRASES.search(text)
    for text in ("all but for the last", "a value that is no number", "free, as ever"):
        assert PHRASES.search(text)
    assert BEGINNING.search('"""Of all modules."""')
    assert BEGINNING.search("# Else it fails.")
    assert not BEGINNING.search("# Of order 1 / n.")
    for text in ("enough records", "no less than that", "if or else:", "columns less often"):
        assert not PHRASES.search(text)
