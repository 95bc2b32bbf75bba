"""Parameters that several estimators have, each stated once: type, default and legal values.

An estimator inherits the groups that it has, states its own parameters in the same way, and gets
its ``__init__`` from `with_parameters`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, make_dataclass
from inspect import Signature, get_annotations, signature
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, get_args

from numpy.typing import ArrayLike

from skdpsco._typing import Auto, LedgerLike, Seed, SolverLike
from skdpsco._validation import (
    BY_SCHEMA,
    MAX_ITER,
    HasMethods,
    Interval,
    KnownBy,
    StrOptions,
    with_hints,
)
from skdpsco.privacy.relations import LARGEST_UNIT, RELATIONS

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform  # Python 3.10 has none
else:

    def dataclass_transform(**options):
        return lambda function: function


__all__ = [
    "BallParameters",
    "ClassParameters",
    "Constraints",
    "FeatureParameters",
    "L1BallParameters",
    "LabelParameters",
    "LinearParameters",
    "PrivacyParameters",
    "RecordParameters",
    "RelationParameters",
    "RowParameters",
    "StepParameters",
    "TargetParameters",
    "with_parameters",
]

_Class = TypeVar("_Class")
L1Solver = Literal[
    "stagewise",
    "frank-wolfe",
    "frank-wolfe-laplace",
    "noisy-frank-wolfe",
    "anytime-mirror-descent",
]
Constraints = dict[str, Any]
# What users of other libraries look for, by the parameter that takes its place here.
_ELSEWHERE = {"l1_ratio": "penalty", "n_iter": "max_iter", "feature_bound": "data_norm"}


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def with_parameters(**hints: str) -> Callable[[type[_Class]], type[_Class]]:
    """Decorate a class, whose annotated attributes with a value become keyword-only parameters.

    So do those of its decorated bases. ``__init__`` only stores them, as scikit-learn expects, and
    its signature has the order of the docstring. Type checkers take ``field(init=False)`` for what
    `fit` sets, and ``field(init=False, default=...)`` fixes a parameter of a base. The class is no
    dataclass: tools for these would see parameters alone, and no fit.

    Parameters
    ----------
    **hints : str
        For each parameter of another name that users look for, a sentence about what to use
        instead.
    """

    def decorate(cls: Any) -> Any:
        cls._own_parameters = take_parameters(cls)
        cls._own_constraints = vars(cls).get("_parameter_constraints", {})
        entries: dict[str, Any] = {}
        cls._parameter_constraints = {}
        for owner in reversed(cls.__mro__):
            entries |= vars(owner).get("_own_parameters", {})
            cls._parameter_constraints |= vars(owner).get("_own_constraints", {})
        entries = {name: entry for name, entry in entries.items() if name not in vars(cls)}
        init: Any = vars(make_dataclass(cls.__name__, entries.values(), kw_only=True))["__init__"]
        elsewhere = {
            other: f"Use {name}: see docs/migrating.md."
            for name, other in _ELSEWHERE.items()
            if name in entries and other not in entries
        }
        cls.__init__ = with_hints(**elsewhere | hints)(init)
        told = re.findall(r"\w+(?=(?:, \w+)* : )", cls.__doc__ or "")
        own, *others = signature(init).parameters.values()
        others.sort(key=lambda one: told.index(one.name) if one.name in told else len(told))
        bare = [one.replace(annotation=Signature.empty) for one in (own, *others)]
        cls.__init__.__signature__ = Signature(bare)  # types are in the docstring
        return cls

    return decorate


def take_parameters(cls: type) -> dict[str, tuple[str, Any, Any]]:
    """Names, types and defaults of the parameters that a class states itself, taken off the class.

    If they stayed there, an estimator whose ``__init__`` forgets one would not fail.
    """
    found = {}
    for name, kind in get_annotations(cls).items():
        given = vars(cls).get(name, MISSING)
        if given is MISSING or (name.startswith("_") and not isinstance(given, Field)):
            continue
        delattr(cls, name)
        known = given if isinstance(given, Field) else field(default=given)
        if known.init:
            found[name] = name, kind, known
        elif known.default is not MISSING:
            setattr(cls, name, known.default)
    return found


@with_parameters()
class PrivacyParameters:
    """What all private estimators have."""

    epsilon: float = 1.0
    delta: float = 1e-6
    ledger: LedgerLike | None = None
    max_records_per_unit: int | None = None
    random_state: Seed = None

    _parameter_constraints: ClassVar[Constraints] = {
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "delta": [Interval(Real, 0, 1, closed="left")],
        "ledger": [None, KnownBy("charge", "a Ledger")],
        "max_records_per_unit": [None, Interval(Integral, 1, LARGEST_UNIT, closed="both")],
        "random_state": ["random_state"],
    }


@with_parameters()
class FeatureParameters:
    """What estimators that clip features have."""

    feature_bound: ArrayLike | Auto | None = "auto"

    _parameter_constraints: ClassVar[Constraints] = {
        "feature_bound": [
            None,
            StrOptions({"auto"}),
            Interval(Real, 0, None, closed="neither"),
            "array-like",
            BY_SCHEMA,
        ]
    }


@with_parameters()
class StepParameters:
    """What estimators have whose solvers take steps."""

    n_iter: int | Auto = "auto"

    _parameter_constraints: ClassVar[Constraints] = {
        "n_iter": [StrOptions({"auto"}), Interval(Integral, 1, MAX_ITER, closed="both")]
    }


@with_parameters()
class LinearParameters(FeatureParameters, StepParameters):
    """What linear models have."""

    fit_intercept: bool = True

    _parameter_constraints: ClassVar[Constraints] = {"fit_intercept": ["boolean"]}


@with_parameters()
class RowParameters:
    """What estimators have that shorten long records."""

    row_norm: float | None = None

    _parameter_constraints: ClassVar[Constraints] = {
        "row_norm": [None, Interval(Real, 0, None, closed="neither")]
    }


@with_parameters()
class RelationParameters:
    """What estimators have whose neighbours may differ by a record that is added."""

    relation: Literal["replace-one", "add-or-remove-one"] = "replace-one"

    _parameter_constraints: ClassVar[Constraints] = {"relation": [StrOptions(set(RELATIONS))]}


@with_parameters()
class RecordParameters(RelationParameters):
    """What estimators have that also take weights of records."""

    max_weight: float | None = None

    _parameter_constraints: ClassVar[Constraints] = {
        "max_weight": [None, Interval(Real, 0, None, closed="neither")]
    }


@with_parameters()
class TargetParameters:
    """What regressions have."""

    target_bound: float | None = None

    _parameter_constraints: ClassVar[Constraints] = {
        "target_bound": [None, Interval(Real, 0, None, closed="neither"), BY_SCHEMA]
    }


@with_parameters()
class LabelParameters:
    """What estimators have that read labels."""

    classes: ArrayLike | None = None

    _parameter_constraints: ClassVar[Constraints] = {"classes": [None, "array-like", BY_SCHEMA]}


@with_parameters()
class ClassParameters(LabelParameters):
    """What classifiers have."""

    class_weight: Mapping[Any, float] | None = None

    _parameter_constraints: ClassVar[Constraints] = {
        "class_weight": [None, dict, str]  # a string is refused with a hint
    }


@with_parameters()
class BallParameters(LinearParameters):
    """What linear models in a ball have."""

    radius: float | Auto = "auto"

    _parameter_constraints: ClassVar[Constraints] = {
        "radius": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")]
    }


@with_parameters()
class L1BallParameters(BallParameters):
    """What linear models in an l1 ball have."""

    solver: L1Solver | SolverLike = "stagewise"

    _parameter_constraints: ClassVar[Constraints] = {
        "solver": [StrOptions(set(get_args(L1Solver))), HasMethods(["plan", "run"])]
    }
