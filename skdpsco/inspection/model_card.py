"""A page about a fitted model for those who decide whether it may be published."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

import sklearn
from sklearn.exceptions import NotFittedError

from skdpsco._versions import __version__
from skdpsco.base.private_estimator import with_public_params
from skdpsco.privacy.report import html_table

from ._steps import PRIVATE, StepReport
from .pipeline_report import REPORT_HEAD, RHO, privacy_report

__all__ = ["ModelCard", "model_card"]

UNCOVERED = (
    "other releases from the same records: a ledger adds them up",
    "parameters that were chosen by looking at the records, and steps that are not listed",
    "scores, plots and errors of the records that the model was fitted to",
    "how long the fit took",
)


@dataclass(frozen=True)
class ModelCard:
    """What a model is and what it reveals, as Markdown or HTML. `model_card` makes it.

    Parameters
    ----------
    title : str
    sections : tuple of (str, tuple of str)
        Headings, each with its lines.
    rows : tuple of tuple of str
        The table of the steps, without its head.
    """

    title: str
    sections: tuple[tuple[str, tuple[str, ...]], ...]
    rows: tuple[tuple[str, ...], ...]

    def to_markdown(self) -> str:
        """The card as Markdown.

        Returns
        -------
        text : str
        """
        parts = [f"# {self.title}"]
        for head, lines in self.sections:
            parts += [f"## {head}", "\n".join(f"- {line}" for line in lines)]
        table = [REPORT_HEAD, ("---",) * len(REPORT_HEAD), *self.rows]
        cells = ([cell.replace("|", r"\|") for cell in row] for row in table)
        numbers = "\n".join(f"| {' | '.join(row)} |" for row in cells)
        return "\n\n".join([*parts, "## In numbers", numbers, f"{RHO}\n"])

    def to_html(self) -> str:
        """The card as a part of a page in HTML.

        Returns
        -------
        html : str
        """
        parts = [f"<h2>{escape(self.title)}</h2>"]
        for head, lines in self.sections:
            items = "".join(f"<li>{escape(line)}</li>" for line in lines)
            parts.append(f"<h3>{escape(head)}</h3><ul>{items}</ul>")
        table = html_table("In numbers", self.rows, REPORT_HEAD)
        return "".join([*parts, table, f"<p>{escape(RHO)}</p>"])

    def __str__(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        return self.to_html()


def model_card(
    estimator: Any,
    *,
    name: str | None = None,
    intended_use: str | None = None,
    data: str | None = None,
    record_wise: Iterable[Any] = (),
    X: Any = None,
) -> ModelCard:
    """Describe a fitted estimator or pipeline, and what it reveals about one record.

    The card holds parameters, except for seeds and ledgers, and what reports say; no coefficients.
    It costs nothing.

    Parameters
    ----------
    estimator : estimator
        Fitted, with at least one private step.
    name : str or None, default=None
        Title; None is the name of the class.
    intended_use, data : str or None, default=None
        What the model is for, and which records it was fitted to, in your own words.
    record_wise : list of str or object, default=()
        As for `privacy_report`.
    X : array-like or None, default=None
        As for `privacy_report`.

    Returns
    -------
    card : ModelCard

    Raises
    ------
    NotFittedError
        If a private step is not fitted, or there is none.
    TypeError, ValueError
        If `privacy_report` raises them.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpsco import PrivateRidge
    >>> from skdpsco.inspection import model_card
    >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    >>> model = PrivateRidge(target_bound=1.0).fit(X, X[:, 0])
    >>> print(model_card(model, name="A line").to_markdown()[:18])
    # A line
    <BLANKLINE>
    ## Model
    """
    report = privacy_report(estimator, record_wise=record_wise, X=X)
    private = [step for step in report.steps if step.status == PRIVATE]
    if not private or any(step.report is None for step in private):
        raise NotFittedError(
            "estimator must be fitted, with at least one private step, before it has a card."
        )
    described = " ".join(repr(with_public_params(estimator)).split())
    sections = {
        "Model": [described, f"skdpsco {__version__}, scikit-learn {sklearn.__version__}"],
        "Use": [intended_use] if intended_use else [],
        "Data": [data] if data else [],
        "What it reveals about one record": report.lines(),
        "Where the budget went": _said(private, "steps"),
        "What must be public or true": _said(private, "assumptions"),
        "What is not covered": list(UNCOVERED),
    }
    told = tuple((head, tuple(lines)) for head, lines in sections.items() if lines)
    return ModelCard(name or type(estimator).__name__, told, tuple(report.rows()))


def _said(steps: Iterable[StepReport], field: str) -> list[str]:
    """Lines of the reports of all steps, each with the name of its step."""
    return [
        f"{step.name}: {line}" if step.name else str(line)
        for step in steps
        for line in getattr(step.report, field)
    ]
