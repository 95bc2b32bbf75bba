"""What scikit-learn shows of estimators: in notebooks a link and the privacy; and errors."""

import sys
from collections.abc import Callable
from functools import partial
from inspect import Signature, isfunction, signature
from typing import Any, ClassVar

from skdpsco._upstream import captioned_block, validate_parameter_constraints
from skdpsco.base.shared_entries import fill_docstrings
from skdpsco.privacy._checks import abridged

__all__ = ["Documented"]


def hide_types(cls: type) -> None:
    """Let `help` show parameters without their types, of which the docstrings say more."""
    own = [vars(owner) for owner in cls.__mro__ if owner.__module__.startswith("skdpsco.")]
    for function in (value for names in own for value in names.values() if isfunction(value)):
        if "__signature__" not in vars(function):
            parameters = signature(function).parameters.values()
            bare = [parameter.replace(annotation=Signature.empty) for parameter in parameters]
            function.__signature__ = Signature(bare)  # type: ignore[attr-defined]


class Documented:
    """Mixin for estimators with a page of their own; scikit-learn reads these attributes.

    They are data-independent, unless a subclass says otherwise.
    """

    _doc_link_module = "skdpsco"
    _doc_link_template = "https://skdpsco.readthedocs.io/en/stable/api/generated/{page}.html"

    _parameter_constraints: ClassVar[dict[str, Any]]
    _defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        fill_docstrings(cls)
        hide_types(cls)

    @classmethod
    def _default_params(cls) -> dict[str, Any]:
        """Parameters with their defaults, read off the signature once per class."""
        if "_defaults" not in vars(cls):
            cls._defaults = {name: p.default for name, p in signature(cls).parameters.items()}
        return cls._defaults

    def _validate_params(self) -> None:
        """Check types and ranges of parameters; errors show no long value, which may hold data."""
        defaults, params = self._default_params(), self.get_params(deep=False)  # type: ignore[attr-defined]
        # Defaults are legal.
        given = {name: value for name, value in params.items() if value is not defaults.get(name)}
        name = type(self).__name__
        try:
            validate_parameter_constraints(self._parameter_constraints, given, name)
        except ValueError as error:
            failure = error
        else:
            return
        value = getattr(self, str(failure).split("'")[1])
        raise type(failure)(str(failure).replace(repr(value), abridged(value)))

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        """Name the page by the shortest path from which users can import the class."""
        package, room, *_ = type(self).__module__.split(".")
        name = type(self).__name__
        listed = name in sys.modules[package].__all__
        return {"page": f"{package}.{name}" if listed else f"{package}.{room}.{name}"}

    @property
    def _sk_visual_block_(self) -> Callable[[], Any]:
        """A box with a caption; estimators that hold others are left to scikit-learn."""
        if any(hasattr(value, "fit") for value in self.get_params(deep=False).values()):  # type: ignore[attr-defined]
            raise AttributeError("scikit-learn draws estimators of estimators itself")
        return partial(captioned_block, self, self._caption())

    def _caption(self) -> str:
        return "data-independent"
