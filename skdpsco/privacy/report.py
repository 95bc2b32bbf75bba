"""The report of a fitted estimator about its privacy."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from .accounting import rho_of
from .events import Event, leaves
from .relations import ADD_OR_REMOVE

__all__ = ["PrivacyReport", "ReleasedStep", "html_table"]


def html_table(caption: str, rows: Iterable[tuple[str, ...]]) -> str:
    """An HTML table whose rows have a name and some values."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        + "".join(f"<td style='text-align:left'>{escape(value)}</td>" for value in values)
        + "</tr>"
        for name, *values in rows
    )
    return f"<table><caption>{escape(caption)}</caption>{cells}</table>"


class ReleasedStep(NamedTuple):
    """One step of a fit.

    Parameters
    ----------
    name : str
        What the step finds.
    n_releases : int
    share : float
        Part of the fit's cost in zCDP; NaN if that is infinite.
    found : str
        What was decided, from what has been released.
    """

    name: str
    n_releases: int
    share: float
    found: str

    @classmethod
    def of(cls, name: str, event: Event, whole: Event, found: str) -> "ReleasedStep":
        """The step that released ``event`` in a fit that is charged for ``whole``."""
        cost, total = rho_of(event), rho_of(whole)
        share = cost / total if 0.0 < total < math.inf else math.nan
        return cls(name, sum(k for _, k in leaves(event)), share, found)

    @classmethod
    def all_of(
        cls, steps: Iterable[tuple[str, Event, str]], whole: Event
    ) -> "tuple[ReleasedStep, ...]":
        """The steps of these names, costs and findings."""
        return tuple(cls.of(name, event, whole, found) for name, event, found in steps)

    def __str__(self) -> str:
        spent = "" if math.isnan(self.share) else f", {self.share:.1%} of the budget"
        said = f": {self.found}" if self.found else ""
        plural = "" if self.n_releases == 1 else "s"
        return f"{self.name} ({self.n_releases} release{plural}{spent}){said}"


@dataclass(frozen=True)
class PrivacyReport:
    """The guarantee of one fit, which prints as a short table, also as HTML.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee.
    rho : float
        The charge in zero-concentrated differential privacy; infinite if only epsilon and delta
        can cover what was released.
    event : Event
        What was released, as the accountant sees it; for units of several records its cost only.
    seeded : bool
        Whether the noise was reproducible. If so, the guarantee holds only against those who do not
        know the seed.
    assumptions : tuple of str
        What must be public, or true, for the guarantee to hold.
    relation : str
        Which data sets are neighbours. With "replace-one" they differ in one record; with
        "replace-one within groups" this record is also in the same groups in both, and with
        "replace one unit of at most k records" they differ in up to k records. With
        "add-or-remove-one" one has one more record than the other.
    released : Event or None
        For a fit that is post-processing of an earlier release and cost nothing more: the event of
        that release, which a sum over fits to the same records has to count.
    steps : tuple of ReleasedStep
        What the fit released, in order, and what it decided by that; empty for estimators that
        release everything at once.
    """

    epsilon: float
    delta: float
    rho: float
    event: Event
    seeded: bool
    assumptions: tuple[str, ...] = ()
    relation: str = "replace-one"
    released: Event | None = None
    steps: tuple[ReleasedStep, ...] = ()

    def rows(self) -> list[tuple[str, str]]:
        """Names and values of the table."""
        secrecy = "private" if self.relation == ADD_OR_REMOVE else "public"
        rows = [
            ("epsilon", f"{self.epsilon:g}"),
            ("delta", f"{self.delta:g}"),
            ("rho (zCDP)", f"{self.rho:.6g}"),
            ("neighbours", f"{self.relation}, number of records {secrecy}"),
            ("noise", "REPRODUCIBLE (random_state was set)" if self.seeded else "secret"),
        ]
        rows += [(f"step {i}", str(step)) for i, step in enumerate(self.steps, 1)]
        return rows + [("assumes" if i == 0 else "", a) for i, a in enumerate(self.assumptions)]

    def to_dict(self) -> dict[str, Any]:
        """The fields as types that JSON knows; events as the text that a ledger stores."""
        released = None if self.released is None else repr(self.released)
        events = {"event": repr(self.event), "released": released}
        rho = self.rho if math.isfinite(self.rho) else None
        steps = [
            {**step._asdict(), "share": None if math.isnan(step.share) else step.share}
            for step in self.steps
        ]
        assumptions = list(self.assumptions)
        return {**vars(self), **events, "rho": rho, "assumptions": assumptions, "steps": steps}

    def to_json(self) -> str:
        """The dict of `to_dict` as a JSON object."""
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        return "\n".join(f"{name:<11} {value}" for name, value in self.rows())

    def _repr_html_(self) -> str:
        return html_table("Differential privacy", self.rows())
