"""Names for the types of what users pass in, for type checkers."""

from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import Self  # Python 3.10 has none
else:
    Self = Any

__all__ = [
    "Auto",
    "LedgerLike",
    "LossLike",
    "MatrixLike",
    "Seed",
    "Self",
    "SolverLike",
    "TargetLike",
]

# Dense arrays, sparse matrices, data frames of several libraries, and blocks of records: the
# libraries may be absent, so no union can name them.
MatrixLike: TypeAlias = Any
TargetLike: TypeAlias = Any

Auto: TypeAlias = Literal["auto"]
Seed: TypeAlias = int | np.random.RandomState | None
LossLike: TypeAlias = tuple[Any, ...]  # a NamedTuple


class LedgerLike(Protocol):
    """A `Ledger`, or another object that counts what is spent."""

    def charge(self, *args: Any, **kwargs: Any) -> Any:
        """Count the cost of one release."""
        ...


class SolverLike(Protocol):
    """A solver of the library or of the user; its arguments depend on the kind of problem."""

    def plan(self, *args: Any, **kwargs: Any) -> Any:
        """Spend a budget on a problem."""
        ...

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Follow the plan on the data."""
        ...
