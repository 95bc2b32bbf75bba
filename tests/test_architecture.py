"""What the modules must never do: imports go down the floors, warnings do not speak of data."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "skdpsco"
PACKAGE = ROOT.name

# A module imports from lower floors, or from its own without a circle.
FLOORS = {
    1: ("privacy", "_random", "_kernels", "_validation", "_labels", "_progress", "_quiet"),
    2: (
        "losses",
        "_clipping",
        "_record_functions",
        "_loss_kernels",
        "_loss_check",
        "penalties",
        "constraints",
        "_norms",
        "mechanisms",
        "_bucket_sampler",
        "_generalized_gaussian",
        "_design",
        "_digests",
        "_passes",
        "_records",
        "_summation",
        "_block_sources",
        "_blocks",
        "_dask",
        "_map_reduce",
    ),
    3: ("solvers", "_target", "_quantiles", "_feature_bounds", "_conditioning"),
    4: ("_base", "_estimator"),
    5: ("linear_model", "minimax", "preprocessing"),
    6: ("model_selection", "inspection"),
    7: ("__init__",),
}
FLOOR = {name: floor for floor, names in FLOORS.items() for name in names}
ESTIMATORS = {name for name, floor in FLOOR.items() if floor >= 4}
KERNELS = ("losses", "_loss_kernels", "penalties", "constraints", "_norms", "_design")
KERNELS += ("_clipping", "_kernels", "_random")
MAX_LINES = 400

SOURCES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text()
    for path in sorted(ROOT.rglob("*.py"))
}
each_module = pytest.mark.parametrize("module", SOURCES)


def imports(module, source):
    """Absolute names that a module imports, of modules and of what is taken from them."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [node.module] if node.module else []
            if node.level:
                parents = [PACKAGE, *module.split(".")][: -node.level]
                base = [".".join(parents + base)]
            found += [f"{base[0]}.{alias.name}" for alias in node.names]
    return found


def ours(module, source):
    """The modules of this package that a module imports."""
    found = set()
    for name in imports(module, source):
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
    return module.split(".")[0]


def wrong_imports(module, source):
    """What a module imports against the rules, as sentences."""
    name, inner = room(module), ours(module, source)
    wrong = []
    for other in inner:
        target = room(other)
        if FLOOR[target] > FLOOR[name]:
            wrong.append(f"floor {FLOOR[name]} imports {other} of floor {FLOOR[target]}")
        if name == "privacy" and target != "privacy":
            wrong.append(f"privacy imports {other}")
        if name == "solvers" and target in ESTIMATORS:
            wrong.append(f"a solver imports {other}")
        if name in KERNELS and target == "privacy":
            wrong.append(f"a kernel module imports {other}")
    for full in imports(module, source):
        top, *rest = full.split(".")
        if top == "sklearn" and name != "_validation":
            wrong += [f"imports private {full}"] if any(p.startswith("_") for p in rest) else []
        if full.startswith("numba.np") and name != "_random":
            wrong.append(f"imports {full}")
    return wrong


def warns(source):
    """Whether a module imports anything to warn with, or calls it."""
    tree = ast.parse(source)
    names = {full.split(".")[0] for full in imports("module", source)}
    called = {
        node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    }
    return "warnings" in names or bool(called & {"warn", "warn_explicit"})


@each_module
def test_every_module_has_a_floor(module):
    assert room(module) in FLOOR, f"Give {module} a floor, here and in docs/architecture.md."


@each_module
def test_imports(module):
    assert wrong_imports(module, SOURCES[module]) == []


def test_imports_have_no_circles():
    graph = {module: ours(module, source) - {module} for module, source in SOURCES.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError


@each_module
def test_modules_stay_short(module):
    # Too long is a sign of two things in one room.
    assert len(SOURCES[module].splitlines()) < MAX_LINES


RAW = {"value", "values", "derivative", "derivatives", "curvature", "curvatures"}
# What is called on public points, or clipped where it is called.
CLIPPED = {("solvers.coordinate_descent", "slopes"), ("minimax._loss_tasks", "_evaluate")}


@each_module
def test_kernels_of_losses_are_called_with_bounds(module):
    """On records `_loss_kernels` calls them, and clips: no solver sees what a loss returns."""
    taken = {full.split(".")[-1] for full in imports(module, SOURCES[module]) if "loss" in full}
    if FLOOR[room(module)] < 3:
        return
    for function in ast.walk(ast.parse(SOURCES[module])):
        if not isinstance(function, ast.FunctionDef) or (module, function.name) in CLIPPED:
            continue
        calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
        assert not RAW & taken & {call.id for call in calls if isinstance(call, ast.Name)}, (
            function.name
        )


@each_module
def test_only_the_generator_warns(module):
    # A warning that depends on data is a release. That of a fixed seed depends on a parameter.
    assert warns(SOURCES[module]) == (module == "_random")


@pytest.mark.parametrize(
    ("module", "line", "wrong"),
    [
        ("privacy.events", "from skdpsco.losses import Squared", "privacy imports losses"),
        ("privacy.events", "from skdpsco import _kernels", "privacy imports _kernels"),
        ("privacy.events", "from .. import _kernels", "privacy imports _kernels"),
        ("privacy.events", "from .._kernels import njit", "privacy imports _kernels"),
        ("privacy.__init__", "from .._kernels import njit", "privacy imports _kernels"),
        ("solvers.base", "from skdpsco.linear_model import PrivateLasso", "a solver imports"),
        ("solvers.base", "def f():\n    import skdpsco._estimator", "a solver imports"),
        ("losses", "from skdpsco.privacy import Budget", "a kernel module imports privacy"),
        ("losses", "import skdpsco.privacy.events", "a kernel module imports privacy.events"),
        ("_design", "from skdpsco.solvers.base import Problem", "floor 2 imports solvers.base"),
        ("_kernels", "from skdpsco import losses", "floor 1 imports losses"),
        ("_target", "from skdpsco import PrivateLasso", "floor 3 imports __init__"),
        ("_estimator", "from sklearn.utils._tags import Tags", "imports private sklearn"),
        ("_estimator", "from sklearn.base import _fit_context", "imports private sklearn"),
        ("_estimator", "import sklearn.utils._tags as t", "imports private sklearn"),
        ("mechanisms", "from numba.np import random", "imports numba.np"),
        ("mechanisms", "import numba.np.random", "imports numba.np"),
    ],
)
def test_the_rules_find_what_they_forbid(module, line, wrong):
    assert any(sentence.startswith(wrong) for sentence in wrong_imports(module, line))


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("privacy.report", "from .events import Event"),
        ("solvers.__init__", "from .base import Problem"),
        ("solvers.base", "from skdpsco.privacy import Event"),
        ("mechanisms", "from skdpsco.privacy import Event"),
        ("_validation", "from sklearn.utils._param_validation import Interval"),
        ("_random", "from numba.np.random.generator_core import next_uint64"),
        ("_estimator", "from sklearn.utils.validation import check_is_fitted"),
        ("__init__", "from skdpsco.linear_model import PrivateLasso"),
    ],
)
def test_the_rules_allow_the_rest(module, line):
    assert wrong_imports(module, line) == []


def test_what_counts_as_a_warning():
    assert warns("import warnings")
    assert warns("from warnings import warn as tell")
    assert warns("logger.warn('n = %d', n)")
    assert not warns("def warning(): return 'no warning'")
