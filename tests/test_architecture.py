"""The rules of the layout: imports go down only, a name has one meaning, only one module warns."""

import ast
import io
import re
import sys
import tokenize
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from cases import each

ROOT = Path(__file__).parents[1] / "skdpsco"
PACKAGE = ROOT.name

# From the ground up, as the table of the page lists them. A module imports from its own room,
# without a circle, and from rooms below.
PAGE = (ROOT.parent / "docs" / "architecture.md").read_text()
ROOMS = (*re.findall(r"^\| `([\w.]+)` \|", PAGE, flags=re.M), "__init__")
KERNEL_ROOMS = ("losses", "penalties", "constraints", "_kernels", "_random")
MAX_LINES, MAX_PARAMETERS = 600, 8

SOURCES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text()
    for path in sorted(ROOT.rglob("*.py"))
}


@cache
def trees():
    """Syntax trees of all modules."""
    return {module: ast.parse(source) for module, source in SOURCES.items()}


@cache
def nodes(tree):
    """All nodes of a module, over which most rules go."""
    return list(ast.walk(tree))


@cache
def imports(module, tree):
    """Absolute names that a module imports, of modules and of what is taken from them."""
    found = []
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [node.module] if node.module else []
            if node.level:
                parents = [PACKAGE, *module.split(".")][: -node.level]
                base = [".".join(parents + base)]
            found += [f"{base[0]}.{alias.name}" for alias in node.names]
    return found


def ours(module, tree):
    """The modules of this package that a module imports."""
    found = set()
    for name in imports(module, tree):
        if name.split(".")[0] != PACKAGE:
            continue
        parts = name.split(".")[1:]
        # The longest prefix that is a module; what follows is a name in it.
        for length in range(len(parts), -1, -1):
            head = ".".join(parts[:length])
            if head in SOURCES or f"{head}.__init__".lstrip(".") in SOURCES:
                found.add(head if head in SOURCES else f"{head}.__init__".lstrip("."))
                break
    return found


def room(module):
    """The folder that a module stands in; a module in no folder is a room of its own."""
    parts = module.split(".")
    if parts[0] != "solvers":
        return parts[0]
    return "solvers" if parts[1] == "__init__" else ".".join(parts[:2])


def wrong_imports(module, tree):
    """What a module imports against the rules, as sentences."""
    name, wrong = room(module), []
    for other in sorted(ours(module, tree)):
        target = room(other)
        if target != name and ROOMS.index(target) >= ROOMS.index(name):
            wrong.append(f"{module} imports {other}, which is not below it")
        if name in KERNEL_ROOMS and target == "privacy":
            wrong.append(f"the kernel module {module} imports {other}")
    for full in imports(module, tree):
        top, *rest = full.split(".")
        private = top != PACKAGE and any(re.match("_(?!_)", part) for part in rest)
        if name != "_upstream" and (private or full.startswith(("numba.np", "numba.core"))):
            wrong.append(f"{module} imports private {full}")
    return wrong


def warns(tree):
    """Whether a module imports anything to warn with, or calls it."""
    names = {full.split(".")[0] for full in imports("module", tree)}
    called = {
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in nodes(tree)
        if isinstance(node, ast.Call)
    }
    return "warnings" in names or bool(called & {"warn", "warn_explicit"})


def lines_of_code(source):
    """Number of lines that hold more than a comment or a docstring."""
    documented = set()
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            text = body[0].value
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                documented |= set(range(text.lineno, text.end_lineno + 1))
    empty = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    code = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in (*empty, tokenize.ENDMARKER):
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - documented)


def definitions(tree):
    """Names of functions, classes and constants that a module defines at its top level."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            names |= {part.id for part in parts if isinstance(part, ast.Name)}
    return names - {"_", "__all__"}


def test_every_module_has_a_room():
    assert {room(module) for module in SOURCES} == set(ROOMS)
    assert len(set(ROOMS)) == len(ROOMS) > 40


def test_imports_go_down():
    assert [w for module, tree in trees().items() for w in wrong_imports(module, tree)] == []


def test_imports_have_no_circles():
    graph = {module: ours(module, tree) - {module} for module, tree in trees().items()}
    TopologicalSorter(graph).prepare()  # raises CycleError


# What is optional is imported when it is asked for, and so is what sums Renyi moments.
ASKED_FOR = {
    "privacy._history": {"pandas", "matplotlib"},
    "privacy._pld": {"dp_accounting", "numpy"},
    "privacy.sampling": {"numpy"},
}


def test_privacy_imports_the_standard_library_only():
    for module, tree in trees().items():
        if room(module) == "privacy":
            first = ast.Module([s for s in tree.body if isinstance(s, ast.Import | ast.ImportFrom)])
            at_once, ever = (
                {name.split(".")[0] for name in imports(module, one)} for one in (first, tree)
            )
            known = sys.stdlib_module_names | {PACKAGE}
            assert at_once <= known, module
            assert ever - known <= ASKED_FOR.get(module, set()), module


def test_a_name_has_one_meaning():
    """No function, class or constant is defined in two modules: who looks for it finds one."""
    places: dict[str, list[str]] = {}
    for module, tree in trees().items():
        for name in definitions(tree):
            places.setdefault(name, []).append(module)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def taken():
    """What other modules of the package take from each module, by its name."""
    found: dict[str, set[str]] = {}
    for module, tree in trees().items():
        whole = {}  # modules that are imported as such, by the names that they have here
        for full in imports(module, tree):
            package, _, name = full.removeprefix(f"{PACKAGE}.").rpartition(".")
            if full in {f"{PACKAGE}.{other}" for other in SOURCES}:
                whole[name] = f"{package}.{name}".lstrip(".")
            elif package in SOURCES:
                found.setdefault(package, set()).add(name)
        for node in nodes(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                if node.value.id in whole:
                    found.setdefault(whole[node.value.id], set()).add(node.attr)
    return found


def listed(tree):
    """The names in `__all__`, or none if a module has no such list."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


# Modules from which others take names that are defined elsewhere.
HAND_ON = {"_validation", "_upstream", "_typing", "losses.library"}


def test_modules_list_what_others_take_from_them():
    """`__all__` is what a change of the module may break; a name is taken where it is defined."""
    for module, names in taken().items():
        assert not {n for n in names if n.startswith("_")} - {"__version__"}, module
        public = "penalties", "_upstream"  # what users import, and what tests import as well
        if module not in public:
            assert sorted(listed(trees()[module])) == sorted(names), module
        if module not in HAND_ON:
            assert set(names) <= definitions(trees()[module]) | {"__version__"}, module
    others = {m for m, tree in trees().items() if listed(tree)} - set(taken())
    assert {module.split(".")[-1] for module in others} <= {"__init__"}


def test_modules_stay_short():
    # A long module is a sign of two things in one place.
    long = {module: source for module, source in SOURCES.items() if source.count("\n") >= MAX_LINES}
    lengths = {module: lines_of_code(source) for module, source in long.items()}
    assert {module: n for module, n in lengths.items() if n > MAX_LINES} == {}


def parameters(function):
    """Number of parameters by position, beside the object or class that a method belongs to.

    Those that have to be named, as of estimators, cannot be confused however many there are.
    """
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def test_functions_take_few_parameters():
    # What belongs together is one argument: kernels take NamedTuples.
    functions = [
        (module, node)
        for module, tree in trees().items()
        for node in nodes(tree)
        if isinstance(node, ast.FunctionDef | ast.Lambda)
    ]
    many = [(m, node) for m, node in functions if parameters(node) > MAX_PARAMETERS]
    assert [(m, getattr(node, "name", "lambda")) for m, node in many] == []


RAW = {"value", "values", "derivative", "derivatives", "curvature", "curvatures"}
# What is called on public points, or clipped where it is called.
CLIPPED = {
    ("solvers.penalized.coordinate_descent", "slopes"),
    ("variational.loss_tasks", "_losses_and_slopes"),
}


def test_kernels_of_losses_are_called_with_bounds():
    """On records `losses.kernels` calls them, and clips: no solver sees what a loss returns."""
    raw = []
    for module, tree in trees().items():
        if ROOMS.index(room(module)) < ROOMS.index("data"):
            continue
        taken = {full.split(".")[-1] for full in imports(module, tree) if "loss" in full}
        for function in nodes(tree):
            if not isinstance(function, ast.FunctionDef) or (module, function.name) in CLIPPED:
                continue
            calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
            called = {call.id for call in calls if isinstance(call, ast.Name)}
            raw += [(module, function.name)] if RAW & taken & called else []
    assert raw == []


def test_only_the_generator_warns():
    # A warning that depends on data is a release. That of a fixed seed depends on a parameter.
    assert [module for module, tree in trees().items() if warns(tree)] == ["_random"]


@each(
    ("module", "line", "wrong"),
    [
        ("privacy.events", "from skdpsco.losses import Squared", "imports losses"),
        ("privacy.events", "from .. import _kernels", "imports _kernels"),
        ("privacy.__init__", "from .._kernels import njit", "imports _kernels"),
        ("solvers.base", "from skdpsco.linear_model import PrivateLasso", "imports linear_model"),
        ("solvers.l1.screening", "def f():\n    import skdpsco.base", "imports base"),
        ("solvers.saddle.prox", "from skdpsco.solvers import SGD", "imports solvers.__init__"),
        ("losses.library", "from skdpsco.privacy import Budget", "kernel module"),
        ("data.design", "from skdpsco.solvers.base import Problem", "imports solvers.base"),
        ("scaling.target", "from skdpsco import PrivateLasso", "imports __init__"),
        ("base.labels", "from sklearn.utils._tags import Tags", "imports private sklearn"),
        ("base.labels", "import sklearn.utils._tags as t", "imports private sklearn"),
        ("mechanisms.samplers", "from numba.np import random", "imports private numba.np"),
        ("data.products", "from pandas._libs import missing", "imports private pandas"),
    ],
)
def test_the_rules_find_what_they_forbid(module, line, wrong):
    assert any(wrong in sentence for sentence in wrong_imports(module, ast.parse(line)))


# What a set of tuned constants says about itself: what fitted it, or that nothing did.
ORIGIN = re.compile(
    r"(examples/benchmarks/[\w/]+\.py|docs/proofs/\w+\.md)|by hand|not fitted|`\w+Tuning`"
)


def tunings():
    """All sets of tuned constants: name, source and fields, with their lines and those above."""
    for module, source in SOURCES.items():
        lines = source.splitlines()
        for node in trees()[module].body:
            if isinstance(node, ast.ClassDef) and node.name.endswith("Tuning"):
                fields = [field for field in node.body if isinstance(field, ast.AnnAssign)]
                around = {f.target.id: "\n".join(lines[f.lineno - 2 : f.lineno]) for f in fields}
                yield node.name, ast.get_source_segment(source, node), around


def test_tuned_constants_say_what_they_are_and_what_fitted_them():
    assert len(list(tunings())) > 30
    for name, text, fields in tunings():
        found = list(ORIGIN.finditer(re.sub(r"\s+(?:# )?", " ", text)))
        assert found, name
        assert all((ROOT.parent / match[1]).is_file() for match in found if match[1]), name
        entries = re.findall(r"^    ([\w, ]+) : ", text, re.MULTILINE)
        documented = {field for entry in entries for field in entry.split(", ")}
        assert [f for f, lines in fields.items() if f not in documented and "#" not in lines] == []
