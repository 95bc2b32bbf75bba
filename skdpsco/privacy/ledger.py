"""What a data set has spent and may still spend, across estimators, notebooks and processes."""

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, NamedTuple

from ._checks import check_partition
from ._history import (
    brief,
    csv_of,
    frame_of,
    plain,
    plot_charges,
    readable,
    rows_of,
)
from ._rows import (
    SCHEMA,
    Account,
    Balance,
    Charge,
    accounts,
    charges_of,
    close_partition,
    epsilon_of_total,
    n_charges_of,
    open_partition,
    read_account,
    read_part,
    register,
    write,
)
from ._store import IN_MEMORY, Store, absolute, check_dataset, is_database
from .accounting import pure_epsilon_of, rho_of, zcdp_delta
from .budget import Budget, check_unit
from .events import Event
from .relations import (
    REPLACE_ONE,
    WITHIN_GROUPS,
    check_relation,
    records_of_unit,
    replacements,
    unit_relation,
    weakest,
)
from .report import MEANINGS, html_table
from .spending import rho_limit

__all__ = ["BudgetExceededError", "Ledger", "Remaining", "Spent"]

_GLANCE = 0.2  # seconds that a repr waits for others who use the file
_COLUMNS = ["time", "estimator", "parameters", "event", "rho", "epsilon", "part", "relation"]
_SUM_ROUNDING = 1e-10  # tolerance of sums, rounded up; calibrated costs leave 1e-9 free
_SHORT_OF_RHO = (
    "{who} costs rho={cost:.6g}, and the ledger of {budget.name!r} (epsilon={budget.epsilon:g}, "
    "delta={budget.delta:g}) has rho={left.rho:.6g} left: one more release of "
    "epsilon={left.epsilon:.4g} at that delta. (rho is a cost in zero-concentrated differential "
    "privacy: costs add up.) Nothing was charged or released."
)
_SHORT_OF_EPSILON = (
    "{who} costs epsilon={cost:.6g}, and the ledger of {budget.name!r} (epsilon="
    "{budget.epsilon:g}, delta=0) has epsilon={left.epsilon:.4g} left. (With delta=0 Gaussian "
    "noise, and what is known in zero-concentrated differential privacy only, costs inf.) Nothing "
    "was charged or released."
)


class BudgetExceededError(RuntimeError):
    """A charge would exceed the budget of a ledger. Nothing was charged, and nothing released."""


class Spent(NamedTuple):
    """What was charged to a ledger: all of it together is (epsilon, delta)-DP, and rho-zCDP."""

    epsilon: float
    delta: float
    rho: float


class Remaining(NamedTuple):
    """What a ledger has left: one more release with (epsilon, delta), or with rho."""

    epsilon: float
    delta: float
    rho: float


class Ledger:
    """Privacy budget of one data set, charged by every estimator that is given it.

    Pass it as ``ledger=`` to any private estimator, which charges it before noise is drawn. A fit
    that would exceed the budget raises `BudgetExceededError`. Copies of an estimator charge the
    same ledger. Costs are counted, and added up, in zero-concentrated differential privacy, or with
    delta=0 in pure epsilons. All fits together are (epsilon, delta)-differentially private, even if
    results of earlier ones decide about later ones.

    Parameters
    ----------
    epsilon, delta : float
        Budget of all charges together; epsilon > 0, delta in [0, 1). With delta=0 only releases
        without Gaussian noise are admitted.
    path : str or path-like or None, default=None
        An SQLite file, which is created if it does not exist; processes on one machine may share
        it. (Do not use a network file system.) None keeps the ledger in the memory of this process.
    dataset : str, default="data"
        Name of the data set. One file holds the ledgers of any number of data sets.
    relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Which data sets are neighbours, as the ``relation`` of the estimators. See
        :doc:`/neighbours`.
    max_records_per_unit : int, default=1
        Largest number of records of a unit, such as a person. The budget protects all of them at
        once, which needs more noise if there are several. See :doc:`/persons`.

    Raises
    ------
    ValueError, TypeError
        If a parameter is out of range, the file is damaged, newer than this version or not a
        ledger, or it holds another budget or relation for ``dataset``. Nothing is overwritten then.
    OSError
        If the file cannot be read and written.

    See Also
    --------
    Budget : An epsilon and a delta.
    skdpsco.inspection.privacy_report : What a pipeline costs.

    Notes
    -----
    How to use it: :doc:`/ledger`. Proof: :doc:`/proofs/ledger`.

    References
    ----------
    Bun, Steinke. Concentrated Differential Privacy: Simplifications, Extensions, and Lower Bounds.
    TCC 2016.

    Feldman, Zrnic. Individual Privacy Accounting via a Rényi Filter. NeurIPS 2021.

    Examples
    --------
    >>> from skdpsco.privacy import GaussianEvent, Ledger
    >>> ledger = Ledger(epsilon=1.0, delta=1e-6)
    >>> ledger.charge(GaussianEvent(noise_multiplier=10.0), "a noisy count")
    >>> f"{ledger.remaining().epsilon:.2f}"
    '0.88'
    """

    epsilon: float
    delta: float
    rho: float
    path: str | None
    dataset: str
    relation: str
    max_records_per_unit: int

    def __init__(
        self,
        epsilon: float,
        delta: float,
        path: Any = None,
        dataset: str = "data",
        relation: str = "replace-one",
        max_records_per_unit: int = 1,
    ) -> None:
        k = check_unit(max_records_per_unit)
        if k > 1 and relation not in (REPLACE_ONE, unit_relation(k)):
            raise ValueError(
                f"max_records_per_unit must be 1 with relation={relation!r}, got {k}; units need "
                f"{REPLACE_ONE!r}."
            )
        self._attach(epsilon, delta, path, dataset, relation if k == 1 else unit_relation(k), None)
        self._store.run(self._register, create=True, thoroughly=True)

    def _attach(self, epsilon, delta, path, dataset, relation, part) -> None:
        """Become the ledger with these parameters, without looking at the file."""
        budget = Budget(epsilon, delta)
        check_dataset(dataset)
        check_relation(relation)
        path = None if path is None else absolute(path)
        self.epsilon, self.delta, self.rho = budget.epsilon, budget.delta, rho_limit(budget)
        whole = self.rho if self.delta > 0 else self.epsilon
        limit = whole * (1 + _SUM_ROUNDING)
        beyond = self.delta > 0 and zcdp_delta(limit, self.epsilon) > self.delta
        self._limit = whole if beyond else limit
        self.path, self.dataset, self.relation = path, dataset, relation
        self.max_records_per_unit = records_of_unit(relation) or 1
        self._store = Store(path)
        self._part = part

    @classmethod
    def open(cls, path: Any, dataset: str = "data") -> "Ledger":
        """Open the ledger of ``dataset`` in an existing file, whatever its budget.

        Parameters
        ----------
        path : str or path-like
        dataset : str, default="data"

        Returns
        -------
        ledger : Ledger

        Raises
        ------
        ValueError, TypeError, OSError
            If the constructor would raise these, or there is no such file or data set.
        """
        path = absolute(path)
        check_dataset(dataset)
        if not os.path.exists(path):
            raise FileNotFoundError(f"There is no ledger {path!r}.")
        known = {a.name: a for a in Store(path).run(accounts, thoroughly=True)}
        if dataset not in known:
            raise ValueError(
                f"dataset must be one of {sorted(known)}, which {path!r} holds; got {dataset!r}."
            )
        _, epsilon, delta, relation = known[dataset]
        return _attached(epsilon, delta, path, dataset, relation, None)

    def charge(
        self,
        event: Event,
        estimator: str = "",
        parameters: Mapping[str, Any] | None = None,
        relation: str = "replace-one",
    ) -> None:
        """Charge for a release that is about to be made; the charge is durable on return.

        Parameters
        ----------
        event : Event
            What will be released.
        estimator : str, default=""
            Who releases it.
        parameters : mapping of str or None, default=None
            Public parameters for the history, which shortens them.
        relation : str, default="replace-one"
            The neighbouring relation for which ``event`` is stated. It must be that of the ledger,
            or imply it: a ledger for units of k records is charged k^2 times the rho of an event
            for one record, and (2 k)^2 times that of an event for "add-or-remove-one"; with delta=0
            k and 2 k times its epsilon. A ledger for "replace-one" also takes "replace-one within
            groups", which weakens the guarantee of the whole ledger.

        Raises
        ------
        BudgetExceededError
            If the budget does not suffice. Nothing is charged then.
        ValueError
            If ``relation`` does not suit that of the ledger, or if the file is damaged.
        TypeError
            If no charge is known for the event.
        OSError
            If the file cannot be written. Do not release anything then.
        """
        if not isinstance(estimator, str):
            raise TypeError(f"estimator must be a str, got {estimator!r}.")
        if relation != WITHIN_GROUPS:
            check_relation(relation)
        weakens = relation == WITHIN_GROUPS and self.relation == REPLACE_ONE
        counted = relation if weakens else self.relation
        n_replacements = replacements(counted, by=relation)
        if n_replacements is None:
            raise ValueError(
                f"The guarantee of {estimator or 'this release'} is for {relation!r} "
                f"neighbours, and the ledger of {self.dataset!r} is for {self.relation!r} "
                "neighbours. Nothing was charged or released. Use a ledger for the neighbours of "
                "the guarantee, or an estimator whose parameter relation is that of the ledger."
            )
        if not isinstance(parameters, Mapping | None):
            raise TypeError(f"parameters must be a mapping or None, got {brief(parameters)}.")
        try:
            if self.delta == 0:
                cost = n_replacements * pure_epsilon_of(event)
            else:
                cost = n_replacements**2 * rho_of(event)
        except OverflowError:
            cost = math.inf
        shown = {brief(name): plain(value) for name, value in (parameters or {}).items()}
        now = datetime.now(timezone.utc).isoformat(timespec="microseconds")
        entry = Charge(now, brief(estimator), shown, brief(event, 1000), cost, None, counted)
        self._store.run(lambda connection: self._record(connection, entry))

    def spent(self) -> Spent:
        """What all charges so far cost together.

        Returns
        -------
        spent : Spent
            ``rho``, the sum of the charges, and ``epsilon``, the guarantee of all of them together
            at the ledger's ``delta``. (Usually less than the sum of their epsilons.) With delta=0
            ``epsilon`` is the sum, and ``rho`` what it implies.
        """
        return self._spent(self._store.run(self._charged))

    def remaining(self) -> Remaining:
        """What may still be spent.

        Returns
        -------
        remaining : Remaining
            ``rho``, and ``epsilon`` of one more release at the ledger's ``delta``. With delta=0,
            ``rho`` is always 0.
        """
        return self._left(self._store.run(self._charged))

    def weakest_relation(self) -> str:
        """``relation``, or "replace-one within groups" once something was charged for it.

        Everything that was charged is (epsilon, delta)-differentially private for such neighbours.
        """
        return weakest((charge.relation for charge in self.charges()), self.relation)

    def charges(self) -> list[Charge]:
        """All charges so far, the oldest first."""
        return self._store.run(lambda c: charges_of(c, self.dataset))

    def history(self) -> Any:
        """All charges so far as a pandas DataFrame to read.

        Returns
        -------
        history : DataFrame
            One row per charge, the oldest first. The columns are time, estimator, parameters (in a
            line of at most 80 characters), rho (of this charge; its epsilon if the ledger's delta
            is 0), epsilon (of all charges up to this one, at the ledger's delta), part (None for
            charges on all data) and relation.

        Raises
        ------
        ImportError
            If pandas is not installed; `charges` does not need it.
        """
        rows = rows_of(self.charges(), self.delta)
        return frame_of([readable(row) for row in rows], [c for c in _COLUMNS if c != "event"])

    def to_frame(self) -> Any:
        """Everything that `charges` returns, as a pandas DataFrame for programs.

        Returns
        -------
        frame : DataFrame
            The rows and columns of `history`, with the event of every charge, and with its
            parameters as a dict.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        return frame_of(rows_of(self.charges(), self.delta), _COLUMNS)

    def export(self, path: Any) -> None:
        """Write the charges to a file, for archives, spreadsheets or auditors.

        Parameters
        ----------
        path : str or path-like
            A name that ends in ".csv", for the columns of `to_frame`, or in ".json", for what
            `to_json` returns. An existing file is replaced.

        Raises
        ------
        ValueError
            If the name has another ending, or is that of a ledger, under any link.
        OSError
            If the file cannot be written.
        """
        path = absolute(path)
        kind = os.path.splitext(path)[1].lower()
        if kind not in (".csv", ".json"):
            raise ValueError(f"path must end in .csv or .json, got {path!r}.")
        if is_database(path):
            raise ValueError(f"path must not be that of a ledger or database, got {path!r}.")
        if kind == ".json":
            text = self.to_json()
        else:
            text = csv_of(rows_of(self.charges(), self.delta), _COLUMNS)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)

    def to_json(self) -> str:
        """The whole ledger as JSON, for archives or auditors; its relation is the weakest one."""
        name = self.dataset
        spent, charges = self._store.run(lambda c: (self._charged(c), charges_of(c, name)))
        content = {
            "schema": SCHEMA,
            "dataset": name,
            "relation": weakest((charge.relation for charge in charges), self.relation),
            **{name: getattr(self, name) for name in ("epsilon", "delta", "rho")},
            "spent": self._spent(spent)._asdict(),
            "remaining": self._left(spent)._asdict(),
            "charges": [charge._asdict() for charge in charges],
        }
        return json.dumps(content, indent=2)

    @contextmanager
    def parallel(self, partition: int | Sequence[Sequence[int]]) -> Iterator[list["Ledger"]]:
        """Ledgers for disjoint parts of the data, which together cost as much as the costliest.

        The partition must not depend on the data. Divide the record numbers at random or by
        position, but not by the values of a column, since a replaced record could then change its
        part. (Relations in which records may be absent are excluded, as they change the numbers.)
        If the ledger is for units, divide records that were drawn, as by `draw_records`: all parts
        together must hold at most ``max_records_per_unit`` of a unit. Fits that draw records
        themselves are refused, since they would draw as many from every part.

        Parameters
        ----------
        partition : sequence of sequences of int, or int
            The record numbers of each part, which must be disjoint. Or the number of parts, in
            which case you must ensure that they are disjoint.

        Yields
        ------
        parts : list of Ledger
            One ledger per part. They accept no charges after the block.

        Raises
        ------
        ValueError, TypeError
            If parts overlap, if this ledger is itself a part, or if records may be absent by its
            relation.

        Examples
        --------
        >>> from skdpsco.privacy import GaussianEvent, Ledger
        >>> ledger = Ledger(epsilon=1.0, delta=1e-6)
        >>> with ledger.parallel([range(0, 50), range(50, 100)]) as parts:
        ...     for part in parts:
        ...         part.charge(GaussianEvent(noise_multiplier=10.0))
        >>> f"{ledger.remaining().epsilon:.2f}"
        '0.88'
        """
        if self._part is not None:
            raise ValueError("A part of the data cannot be partitioned again.")
        if records_of_unit(self.relation) is None:
            raise ValueError(f"relation must be 'replace-one' for parts, got {self.relation!r}.")
        n_parts = check_partition(partition)
        number = self._store.run(lambda c: self._open_partition(c, n_parts))
        try:
            yield [_same_store(self, (number, k)) for k in range(n_parts)]
        finally:
            self._store.run(lambda c: close_partition(c, self.dataset, number))

    @property
    def is_part(self) -> bool:
        """Whether this ledger is for a part of the data, made by `parallel`."""
        return self._part is not None

    def plot(self, ax: Any = None, unit: str = "epsilon") -> Any:
        """Plot the charges one after the other, and the budget. This needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
        unit : {"epsilon", "rho"}, default="epsilon"
            "epsilon" shows by how much every charge raised the epsilon of all charges together, at
            the ledger's delta; of two equal charges the later one looks smaller. "rho" shows the
            costs that add up; there are none with delta=0.

        Returns
        -------
        ax : matplotlib Axes

        Raises
        ------
        ValueError
            If ``unit`` is neither of these.
        TypeError
            If ``ax`` is not an Axes.
        ImportError
            If matplotlib is not installed.
        """
        return plot_charges(self, ax, unit)

    # What the store runs

    def _register(self, connection: Any) -> None:
        register(connection, self._account())
        self._balance(connection)

    def _record(self, connection: Any, entry: Charge) -> None:
        balance = self._balance(connection).after(entry.rho)
        if not (entry.rho >= 0 and balance.spent <= self._limit):
            left, cost = self._left(self._charged(connection)), entry.rho
            words = _SHORT_OF_RHO if self.delta > 0 else _SHORT_OF_EPSILON
            who, budget = entry.estimator or "This release", self._account()
            raise BudgetExceededError(words.format(who=who, cost=cost, budget=budget, left=left))
        write(connection, self._account(), self._part, balance, entry)

    def _open_partition(self, connection: Any, n_parts: int) -> int:
        self._balance(connection)
        return open_partition(connection, self.dataset, n_parts)

    def _account(self) -> Account:
        return Account(self.dataset, self.epsilon, self.delta, self.relation)

    def _balance(self, connection: Any) -> Balance:
        """The balance: spent in total, by the costliest part of our partition, and by our part."""
        found = read_account(connection, self.dataset)
        if found is None:
            raise ValueError(f"The ledger {self.path!r} holds no data set {self.dataset!r}.")
        account, spent = found
        if account != self._account():
            _, epsilon, delta, relation = account
            raise ValueError(
                f"The ledger {self.path!r} holds another budget for dataset={self.dataset!r}: "
                f"epsilon={epsilon!r}, delta={delta!r}, relation={relation!r}. Use these, as "
                "Ledger.open does, or another name."
            )
        if self._part is None:
            return Balance(spent)
        balance = read_part(connection, self.dataset, spent, self._part)
        if balance is None:
            raise ValueError("The block of Ledger.parallel that this part belongs to has ended.")
        return balance

    def _charged(self, connection: Any) -> float:
        """The cost that counts here: for everything, or for what concerns the records of a part."""
        spent, dearest, own = self._balance(connection)
        return (spent - dearest) + own

    def _spent(self, cost: float) -> Spent:
        epsilon = min(epsilon_of_total(cost, self.delta), self.epsilon)
        return Spent(epsilon, self.delta, cost if self.delta > 0 else 0.5 * epsilon * epsilon)

    def _left(self, spent: float) -> Remaining:
        if self.delta == 0:
            return Remaining(max(self.epsilon - spent, 0.0), 0.0, 0.0)
        rho = max(self.rho - spent, 0.0)
        try:
            return Remaining(Budget.from_rho(rho, self.delta).epsilon, self.delta, rho)
        except ValueError:  # too small for any epsilon
            return Remaining(0.0, self.delta, rho)

    def __copy__(self) -> "Ledger":
        return self  # a copy would spend the budget again

    def __deepcopy__(self, memo: dict[int, Any]) -> "Ledger":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            raise TypeError(IN_MEMORY)
        parameters = (self.epsilon, self.delta, self.path, self.dataset, self.relation, self._part)
        return _attached, parameters

    def __eq__(self, other: object) -> bool:
        """Whether two objects stand for one ledger: the same part of a data set in one file."""
        if self is other or not isinstance(other, Ledger):
            return self is other
        return self.path is not None and self._place() == other._place()

    def __hash__(self) -> int:
        return id(self) if self.path is None else hash(self._place())

    def _place(self) -> tuple:
        path = None if self.path is None else os.path.realpath(self.path)
        return path, self.dataset, self._part

    def _look(self) -> tuple[float, int, str] | None:
        """The balance, the number of charges and the weakest relation, unless that takes long."""

        def look(connection: Any) -> tuple[float, int, str]:
            n_charges, n_within = n_charges_of(connection, self.dataset)
            relation = WITHIN_GROUPS if n_within else self.relation
            return self._charged(connection), n_charges, relation

        try:
            return self._store.run(look, patience=_GLANCE)
        except (ValueError, OSError, TypeError):  # damaged, in use, missing, of another process
            return None

    def __repr__(self) -> str:
        path = "" if self.path is None else f", path={self.path!r}"
        found = self._look()
        weakest_relation = self.relation if found is None else found[2]
        relation = "" if weakest_relation == "replace-one" else f", relation={weakest_relation!r}"
        part = "" if self._part is None else f", part {self._part[0]}:{self._part[1]}"
        state = "; its file cannot be read now"
        if found is not None:
            spent, left = (
                f"epsilon={one.epsilon:.4g}" + f" (rho={one.rho:.4g})" * (self.delta > 0)
                for one in (self._spent(found[0]), self._left(found[0]))
            )
            state = f"; spent {spent}, left {left}"
        return (
            f"Ledger(epsilon={self.epsilon:g}, delta={self.delta:g}{path}, "
            f"dataset={self.dataset!r}{relation}{part}{state})"
        )

    def _repr_html_(self) -> str:
        found = self._look()
        amounts: list[tuple[str, Any]] = [("budget", self)]
        notes = [("neighbours", self.relation)]
        if found is None:
            notes.append(("state", "The ledger cannot be read now."))
        else:
            spent, n_charges, relation = found
            amounts += [("spent", self._spent(spent)), ("left", self._left(spent))]
            if relation != self.relation:
                notes[0] = ("neighbours", f"{relation}: weakened by a charge from {self.relation}")
            notes.append(("charges", str(n_charges)))
        if self.path is not None:
            notes.append(("file", self.path))
        rows = [
            ("", f"epsilon at delta={self.delta:g}", "rho (zCDP)"),
            *((name, f"{a.epsilon:.4g}", f"{a.rho:.4g}") for name, a in amounts),
        ]
        if self.delta > 0:
            notes.insert(1, ("rho", MEANINGS["rho"]))
        shown: list[tuple[str, ...]] = [row if self.delta > 0 else row[:2] for row in rows]
        return html_table(f"Privacy budget of {self.dataset!r}", [*shown, *notes])


def _same_store(ledger: Ledger, part: tuple) -> Ledger:
    mine = object.__new__(Ledger)
    vars(mine).update(vars(ledger), _part=part)
    return mine


def _attached(*parameters: Any) -> Ledger:
    """Unpickle without opening the file, so that a model can be loaded if the file is missing."""
    ledger = object.__new__(Ledger)
    ledger._attach(*parameters)
    return ledger
