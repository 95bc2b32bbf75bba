"""What a whole pipeline costs, and which of its steps are not private."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from typing import Any

from skdpsco.base.private_estimator import OTHER_STEPS, needs_units
from skdpsco.preprocessing import TableEncoder
from skdpsco.privacy import Event, Risk, compose, epsilon_of, rho_of
from skdpsco.privacy._checks import abridged, library
from skdpsco.privacy.relations import REPLACE_ONE, weakest
from skdpsco.privacy.report import SEEDED, html_table

from ._cost import private_steps
from ._steps import NOT_PRIVATE, PRIVATE, StepReport, Walk, about, check_record_wise, joined

__all__ = [
    "REPORT_HEAD",
    "RHO",
    "PipelineReport",
    "check_private_steps",
    "frame_with",
    "not_private_steps",
    "paragraphs",
    "privacy_report",
    "text_table",
]

RHO = (
    "(rho is the cost in zero-concentrated differential privacy, zCDP: the costs of steps add up.)"
)
REPORT_HEAD = ("step", "estimator", "status", "epsilon", "delta", "rho (zCDP)", "note")


@dataclass(frozen=True)
class PipelineReport:
    """The guarantee of an estimator with several steps; it prints in words and as a table.

    Parameters
    ----------
    steps : tuple of StepReport
    """

    steps: tuple[StepReport, ...]

    @property
    def private(self) -> bool:
        """Whether every step is private or data-independent."""
        return all(step.status != NOT_PRIVATE for step in self.steps)

    @property
    def rho(self) -> float | None:
        """Sum of the costs, in zero-concentrated DP.

        None if a step is not private, or if its cost is not known in these units.
        """
        if not self.private or any(step.event is None for step in self._costs()):
            return None
        return rho_of(self._known())

    @property
    def delta(self) -> float | None:
        """The largest delta of the steps; None if a step is not private."""
        return self._total()[1]

    @property
    def epsilon(self) -> float | None:
        """Epsilon of everything, at `delta`; None if a step is not private."""
        return self._total()[0]

    @property
    def relation(self) -> str | None:
        """Which data sets are neighbours: the weakest of the steps; None if one is not private."""
        return weakest(step.relation or "" for step in self._costs()) if self.private else None

    def _costs(self) -> list[StepReport]:
        return [step for step in self.steps if step.status == PRIVATE]

    def _known(self) -> Event:
        return compose(*(step.event for step in self._costs() if step.event is not None))

    def _total(self) -> tuple[float | None, float | None]:
        """Epsilon and delta."""
        if not self.private:
            return None, None
        costs = self._costs()
        if len(costs) == 1:
            return costs[0].epsilon, costs[0].delta
        # zCDP adds up, or pure epsilons; other costs are added by basic composition.
        delta = max((step.delta or 0.0 for step in costs if step.event is not None), default=0.0)
        epsilon = epsilon_of(self._known(), delta)
        others = [step for step in costs if step.event is None]
        epsilon += sum(step.epsilon or 0.0 for step in others)
        return epsilon, min(delta + sum(step.delta or 0.0 for step in others), 1.0)

    @property
    def note(self) -> str:
        """What weakens the guarantee, seeds or neighbours within groups; empty if nothing does."""
        seeded = "SEEDED" if any("SEEDED" in step.note for step in self._costs()) else ""
        return joined(seeded, about(self.relation))

    @property
    def risk(self) -> Risk | None:
        """What an attacker can find out about one record; None if a step is not private."""
        epsilon, delta = self._total()
        if epsilon is None or delta is None or epsilon == delta == 0.0:
            return None  # nothing is private, or nothing is learnt
        known = all(step.event is not None for step in self._costs())
        return Risk(epsilon, delta, self._known() if known else None, self.relation or REPLACE_ONE)

    def lines(self) -> list[str]:
        """The table in words."""
        if not self.private:
            wrong = [one.name or one.estimator for one in self.steps if one.status == NOT_PRIVATE]
            return [f"NOT private: {', '.join(wrong)}. There is no guarantee for the whole."]
        risk = self.risk
        if risk is None:
            return ["No step learns from the data."]
        return [SEEDED] * ("SEEDED" in self.note) + risk.lines()

    def rows(self) -> list[tuple[str, ...]]:
        """Cells of the table, without its head."""
        epsilon, delta = self._total()
        status = PRIVATE if self.private else NOT_PRIVATE
        total = StepReport("total", "", status, epsilon, delta, self.rho, self.note)
        return [_cells(step) for step in (*self.steps, total)]

    def __str__(self) -> str:
        return "\n".join([*self.lines(), RHO, "", text_table(REPORT_HEAD, self.rows())])

    def _repr_html_(self) -> str:
        table = html_table("Differential privacy", self.rows(), REPORT_HEAD)
        return f"{paragraphs(self.lines())}{table}{paragraphs([RHO])}"

    def to_frame(self) -> Any:
        """The steps as a pandas DataFrame, a row for each.

        Raises
        ------
        ImportError
            Without pandas.
        """
        columns = ["name", "estimator", "status", "epsilon", "delta", "rho", "note", "relation"]
        return frame_with(self.steps, columns, "PipelineReport.to_frame()")


def frame_with(rows: Iterable[Any], columns: list[str], who: str) -> Any:
    """Attributes of objects as a pandas DataFrame, a row for each object."""
    pd = library("pandas", f"{who} needs pandas: pip install pandas.")
    return pd.DataFrame([[getattr(row, name) for name in columns] for row in rows], columns=columns)


def text_table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Lines of text with aligned columns."""
    table = [head, *rows]
    widths = [max(len(row[j]) for row in table) for j in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    )


def paragraphs(lines: Iterable[str]) -> str:
    """Lines as HTML."""
    return "".join(f"<p>{escape(line)}</p>" for line in lines)


def _cells(step: StepReport) -> tuple[str, ...]:
    numbers = ("" if x is None else f"{x:.6g}" for x in (step.epsilon, step.delta, step.rho))
    return step.name or "-", step.estimator, step.status, *numbers, step.note


def privacy_report(
    estimator: Any, *, record_wise: Iterable[Any] = (), X: Any = None
) -> PipelineReport:
    """Say what an estimator costs, step by step, and which steps are not private.

    It understands pipelines, column transformers, voting and searches of scikit-learn, nested in
    any way, fitted or not. A step is

    - "private" if it is an estimator of `skdpsco`, or has a `PrivacyReport` as ``privacy_``;
    - "data-independent" if it is known to treat every record by itself and to learn nothing;
    - "NOT private" otherwise. Then the total is, too.

    Costs add up in zero-concentrated DP, and epsilon is given at the largest delta of the steps.

    Parameters
    ----------
    estimator : estimator
    record_wise : list of str or object, default=()
        Transformers that you vouch for: names of steps as the report shows them, instances, or
        functions that steps are given. You declare that neither their result for a record nor the
        type of their output depends on the other records.
    X : array-like, sparse matrix, frame, RowBlocks or None, default=None
        The records, of which only the layout is used: whether they are sparse, and dtypes of
        columns.

    Returns
    -------
    report : PipelineReport

    Raises
    ------
    TypeError
        If ``estimator`` is not an estimator, or ``record_wise`` not a list of names and objects.
    ValueError
        If ``record_wise`` contains something that is not a part of ``estimator`` or that has a
        cost, or a budget is out of range.

    See Also
    --------
    Ledger : What a data set may spend, and has spent.
    skdpsco.inspection.check_private_steps : An error for steps that are not private.

    Notes
    -----
    Each private step is counted once, with its latest fit; a `Ledger` adds up repeated fits. A
    `ColumnTransformer` that counts zeros, to choose sparse output, is not private, and nor is a
    `Pipeline` whose ``memory`` holds a private step. See :doc:`/threat-model`.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import Normalizer, StandardScaler
    >>> from skdpsco import PrivateLogisticL1
    >>> from skdpsco.inspection import privacy_report
    >>> privacy_report(make_pipeline(Normalizer(), PrivateLogisticL1(epsilon=1.0))).epsilon
    1.0
    >>> report = privacy_report(make_pipeline(StandardScaler(), PrivateLogisticL1()))
    >>> report.private
    False
    >>> report.steps[0].note
    'learns from the data, without noise; use PrivateStandardScaler or PublicBoundsScaler'
    """
    walk = _walk(estimator, record_wise, fitted=True, X=X)
    _check_used([walk])
    return PipelineReport(tuple(walk.rows))


def not_private_steps(
    estimator: Any, *, record_wise: Iterable[Any] = (), X: Any = None
) -> list[StepReport]:
    """The steps that a fit of a clone of ``estimator`` would make "NOT private".

    Parameters
    ----------
    estimator : estimator
        As for `privacy_report`; fitted attributes are ignored.
    record_wise : iterable
        As for `privacy_report`.
    X : array-like or None, default=None
        As for `privacy_report`.

    Returns
    -------
    steps : list of StepReport
        Empty if there are none.

    Raises
    ------
    ValueError, TypeError
        If `privacy_report` raises them.
    """
    walk = _walk(estimator, record_wise, fitted=False, X=X)
    _check_used([walk])
    return _not_private(walk)


def check_private_steps(
    *estimators: Any, record_wise: Iterable[Any] = (), X: Any = None, named_groups: bool = False
) -> None:
    """Refuse an estimator that has a step that is not private, or that has no private step.

    Parameters
    ----------
    *estimators : estimator
        Every entry of ``record_wise`` must be a part of one of them.
    record_wise : iterable
        As for `not_private_steps`.
    X : array-like or None, default=None
        As for `not_private_steps`.
    named_groups : bool, default=False
        Whether fits are given the names of the columns that hold groups. These must not be columns
        of what a private step returns.

    Raises
    ------
    ValueError, TypeError
        If an estimator has a step that is not private, or has no private step; or if
        ``record_wise`` contains something that is not a part of any.
    """
    record_wise = check_record_wise(record_wise)
    walks = [
        _walk(estimator, record_wise, fitted=False, X=X, named_groups=named_groups)
        for estimator in estimators
    ]
    for estimator, walk in zip(estimators, walks, strict=True):
        wrong = _not_private(walk)
        if wrong:
            names = "; ".join(f"{step.name or step.estimator}: {step.note}" for step in wrong)
            raise ValueError(f"estimator must be private in every step. Not private: {names}.")
        if not private_steps(estimator):
            raise ValueError(f"estimator must have a private step, got {abridged(estimator)}.")
    _check_used(walks)


def _other_steps(pipeline: Any, X: Any) -> dict[str, str]:
    """The steps that a fit of a pipeline to X makes "NOT private", with the reasons."""
    walk = _walk(pipeline, getattr(pipeline, "record_wise", ()), fitted=False, X=X)
    found = {
        f"{row.name} ({row.estimator})" if row.name else row.estimator: row.note
        for row in _not_private(walk)
    }
    of_records = any(
        step.max_records_per_unit is None and step._budget().max_records_per_unit == 1
        for _, step in private_steps(pipeline)
    )
    for name, step in pipeline.get_params(deep=True).items():
        if of_records and isinstance(step, TableEncoder) and step.schema.person is not None:
            found[f"{name} ({type(step).__name__})"] = needs_units(step.schema.person)
    return found


OTHER_STEPS.append(_other_steps)


def _walk(
    estimator: Any, record_wise: Iterable[Any], fitted: bool, X: Any, named_groups: bool = False
) -> Walk:
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise TypeError(
            f"estimator must be an instance of an estimator, got {abridged(estimator)}."
        )
    params = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    walk = Walk(record_wise, fitted, params, X, named_groups)
    walk.visit("", estimator)
    return walk


def _not_private(walk: Walk) -> list[StepReport]:
    return [row for row in walk.rows if row.status == NOT_PRIVATE]


def _check_used(walks: list[Walk]) -> None:
    """Refuse entries of ``record_wise`` that are parts of none of the estimators."""
    first, *others = walks
    unused = [
        item
        for item in first.unused
        if all(any(item is one for one in walk.unused) for walk in others)
    ]
    if unused:
        names = dict.fromkeys(name for walk in walks for name in walk.names if name)
        raise ValueError(
            f"record_wise contains {unused}, which are no parts of the estimator. The names "
            f"of its steps are {list(names)}."
        )
