"""The report of a fitted estimator about its privacy."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from .accounting import pure_epsilon_of, rho_of
from .events import Event, event_of, leaves
from .registry import deployment
from .relations import ADD_OR_REMOVE
from .risk import Risk

__all__ = ["MEANINGS", "SEEDED", "PrivacyReport", "ReleasedStep", "folded", "html_table"]


SEEDED = (
    "The noise is REPRODUCIBLE, since random_state was set. What follows holds only against those "
    "who do not know the seed."
)
MEANINGS = {
    "epsilon": "natural logarithm of the factor by which odds may change",
    "delta": "at worst, the probability that everything is revealed",
    "no delta": "pure differential privacy: this never fails",
    "pure": "with delta = 0, since no noise of this fit is Gaussian",
    "rho": "cost in zero-concentrated differential privacy, a unit in which costs add up",
}


def folded(summary: str, html: str) -> str:
    """HTML that shows when its summary is clicked."""
    return f"<details><summary>{escape(summary)}</summary>{html}</details>"


def html_table(
    caption: str, rows: Iterable[tuple[str, ...]], head: tuple[str, ...] | None = None
) -> str:
    """An HTML table with a head; without one, every row begins with a name."""

    def cells(tag: str, words: tuple[str, ...]) -> str:
        style = "style='text-align:left'"
        return "".join(f"<{tag} {style}>{escape(word)}</{tag}>" for word in words)

    first = "th" if head is None else "td"
    lines = [cells(first, row[:1]) + cells("td", row[1:]) for row in rows]
    lines = lines if head is None else [cells("th", head), *lines]
    above = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{above}{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


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
        spent = "" if math.isnan(self.share) else f"{100 * self.share:.1f} % on "
        return f"{spent}{self.name}{f': {self.found}' if self.found else ''}"


@dataclass(frozen=True)
class PrivacyReport:
    """The guarantee of one fit; it prints in words first, then in numbers, also as HTML.

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
        What must be public, or true, for the guarantee to hold, and the bounds in use.
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

    @property
    def risk(self) -> Risk:
        """What an attacker can find out about one record."""
        event = self.event if self.released is None else self.released
        return Risk(self.epsilon, self.delta, event, self.relation)

    def rows(self) -> list[tuple[str, str]]:
        """What the report says in words, each line with a name or none."""
        found = {step.found for step in self.steps}  # said under "budget"
        parts = {
            "CAUTION": [SEEDED] if self.seeded else [],
            "risk": self.risk.lines(),
            "budget": list(map(str, self.steps)),
            "assumes": [one for one in self.assumptions if one not in found],
        }
        return [
            ("" if i else name, line)
            for name, lines in parts.items()
            for i, line in enumerate(lines)
        ]

    def numbers(self) -> list[tuple[str, str, str]]:
        """Names, values and meanings of the parameters of the guarantee."""
        secrecy = "private" if self.relation == ADD_OR_REMOVE else "public"
        neighbours = f"{self.relation}, number of records {secrecy}"
        secret = "REPRODUCIBLE" if self.seeded else "secret"
        pure = pure_epsilon_of(self.event if self.released is None else self.released)
        shown = f"{pure * (1 + 5e-6):.6g}"  # rounded up
        known = [("or epsilon", shown, MEANINGS["pure"])] if 0.0 < pure < math.inf else []
        in_zcdp = ("rho (zCDP)", f"{self.rho:.6g}", MEANINGS["rho"])
        return [
            ("epsilon", f"{self.epsilon:g}", MEANINGS["epsilon"]),
            ("delta", f"{self.delta:g}", MEANINGS["delta" if self.delta > 0 else "no delta"]),
            *([*known, in_zcdp] if self.delta > 0 else []),
            ("neighbours", neighbours, "data sets that differ like this can hardly be told apart"),
            ("noise", secret, "random_state was set" if self.seeded else "no seed was set"),
        ]

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

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "PrivacyReport":
        """The report of which `to_dict` returned the fields.

        Parameters
        ----------
        fields : dict
            Also after it was written as JSON.

        Returns
        -------
        report : PrivacyReport

        Raises
        ------
        TypeError, ValueError, KeyError
            If it is not such a dict.
        """
        events = {"event": event_of(fields["event"])}
        if fields["released"] is not None:
            events["released"] = event_of(fields["released"])
        steps = tuple(
            ReleasedStep(**{**step, "share": math.nan if step["share"] is None else step["share"]})
            for step in fields["steps"]
        )
        rho = math.inf if fields["rho"] is None else fields["rho"]
        assumptions = tuple(fields["assumptions"])
        return cls(**{**fields, **events, "rho": rho, "assumptions": assumptions, "steps": steps})

    def to_json(self, basic: Mapping[str, Any] | None = None) -> str:
        """The fields as a JSON object, and ``deployment``, an entry of the public registry.

        Parameters
        ----------
        basic : dict or None, default=None
            What the registry asks about the publication: "name", "data_curators",
            "intended_use" and so on. None leaves this section out.

        Returns
        -------
        text : str
            Sections and fields of ``deployment`` are those of the Differential Privacy Deployments
            Registry (arXiv 2509.13509).
        """
        entry = {} if basic is None else {"basic": dict(basic)}
        return json.dumps({**self.to_dict(), "deployment": {**entry, **deployment(self)}}, indent=2)

    def __str__(self) -> str:
        words = [f"{name:<11} {line}" for name, line in self.rows()]
        numbers = [f"{name:<11} {value}  ({what})" for name, value, what in self.numbers()]
        return "\n".join((*words, *numbers))

    def _repr_html_(self) -> str:
        numbers = html_table("", self.numbers())
        return html_table("Differential privacy", self.rows()) + folded("In numbers", numbers)
