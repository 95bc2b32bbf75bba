"""Check that .ci/floor.txt pins exactly the floors that the installed skdpsco declares."""

import sys
from importlib.metadata import requires, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version


def operand(requirement, operator):
    """The version after ``operator``, or None."""
    versions = [s.version for s in requirement.specifier if s.operator == operator]
    return Version(versions[0]) if versions else None


lines = (Path(__file__).parent / "floor.txt").read_text().splitlines()
pins = {
    canonicalize_name(pin.name): operand(pin, "==")
    for pin in (Requirement(line) for line in lines if line and not line.startswith("#"))
}
errors = []
for requirement in map(Requirement, requires("skdpsco")):
    name = canonicalize_name(requirement.name)
    is_core = requirement.marker is None
    builds_docs = not is_core and requirement.marker.evaluate({"extra": "docs"})
    if builds_docs or (not is_core and name not in pins):
        continue  # a tool: it has no part in what the library supports
    floor = operand(requirement, ">=")
    if floor is None or floor != pins.get(name):
        errors.append(f"{name}: floor {floor} in pyproject.toml, pin {pins.get(name)}")
    elif is_core and Version(version(name)) != floor:
        errors.append(f"{name}: floor {floor}, but {version(name)} is installed")
if errors:
    sys.exit("\n".join(errors))
print("The pins equal the declared floors.")
