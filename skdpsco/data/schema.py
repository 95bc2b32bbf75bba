"""What is public about a table, declared once: columns, target, groups, and whose a record is."""

import json
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from skdpsco._typing import Self
from skdpsco._validation import both_lacks
from skdpsco.data.columns import CATEGORY, KEYS, NUMBER, declared_column, read_declaration
from skdpsco.data.frames import open_frame, read_quietly
from skdpsco.privacy._checks import abridged, library

__all__ = ["Schema"]


class Schema:
    """What is public about a table, declared once and used everywhere.

    Parameters
    ----------
    columns : dict of str to declaration
        The columns by name, in the order of features. A declaration is "boolean", a list of
        categories, or a dict with the keys of one kind of column:

        - ``"bounds": [low, high]`` for numbers, which are clipped to them. Optional are
          ``"integer": True``, ``"unit": "years"`` for readers, and ``"fill"``, the number that
          replaces a missing one, by default the middle. Two dates, such as ``"2024-01-31"``,
          declare a column of dates, which are read as days (``date.toordinal``).
        - ``"categories": [...]``, distinct numbers or strings.
        - ``"boolean": True``.

        ``"missing": True`` says that values may be missing. A list, such as ``"missing": [-9]``,
        names codes that also mean a missing value.
    target : str or None, default=None
        The column that models predict. It can hold neither dates nor missing values.
    groups : str or None, default=None
        The column that holds the group of a record, for `PrivateGroupDRO` and scores by group.
    person : str or None, default=None
        A column that identifies persons. Do not declare it in ``columns``. Estimators then need
        ``max_records_per_unit``. See :doc:`/persons`.
    source : str, default=""
        Where the declaration comes from, for readers.

    Attributes
    ----------
    columns : dict of str to Column
    features : list of str
        The columns that are neither target nor groups.

    Raises
    ------
    TypeError
        If a declaration or a name has the wrong type.
    ValueError
        If a declaration is not legal, or a name is not that of a column.

    See Also
    --------
    TableEncoder : Turns a table into features.
    make_private_pipeline : From a table to a model.
    Bins : How numbers become categories.

    Notes
    -----
    Everything in a schema is public: take it from a code book, not from the records that are to be
    protected. Estimators take it in place of bounds, categories or classes, such as
    ``feature_bound=schema``, and look up columns by name. See :doc:`/tables`.

    Examples
    --------
    >>> from skdpsco import Schema
    >>> schema = Schema(
    ...     {
    ...         "age": {"bounds": [18, 90], "integer": True, "unit": "years"},
    ...         "city": {"categories": ["Bern", "Oslo"], "missing": True},
    ...         "member": "boolean",
    ...         "ill": ["no", "yes"],
    ...     },
    ...     target="ill",
    ... )
    >>> schema
    Schema(number: 1, category: 2, boolean: 1; target='ill')
    >>> schema.features
    ['age', 'city', 'member']
    """

    def __init__(
        self,
        columns: Mapping[str, Any],
        *,
        target: str | None = None,
        groups: str | None = None,
        person: str | None = None,
        source: str = "",
    ) -> None:
        if not isinstance(columns, Mapping):
            raise TypeError(
                "columns must be a dict that declares each column by its name, got "
                f"{type(columns).__name__}. (Schema.from_public reads one off public records.)"
            )
        if not columns:
            raise ValueError("columns must have at least one entry.")
        for name in columns:
            if not isinstance(name, str):
                raise TypeError(f"columns must have strings as names, got {name!r}.")
        if not isinstance(source, str):
            raise TypeError(f"source must be a string, got {abridged(source)}.")
        self.columns: dict[str, Any] = {
            name: declared_column(name, given) for name, given in columns.items()
        }
        self.target: str | None = target
        self.groups: str | None = groups
        self.person: str | None = person
        self.source = source
        for role, given in (("target", target), ("groups", groups)):
            if given is not None and not (isinstance(given, str) and given in self.columns):
                raise ValueError(
                    f"{role} must be one of {list(self.columns)}, got {abridged(given)}."
                )
        if target is not None and self.columns[target].missing:
            raise ValueError(f"target {target!r} must not be declared with missing values.")
        if target is not None and self.columns[target].dates:
            raise ValueError(f"target {target!r} must not be a column of dates.")
        if groups is not None and self.columns[groups].kind == NUMBER:
            raise ValueError(f"groups {groups!r} must be a column of categories or booleans.")
        if person is not None and (not isinstance(person, str) or person in self.columns):
            raise ValueError(
                f"person must be the name of a column that is not declared in columns, got "
                f"{abridged(person)}."
            )
        names = self.feature_names_out()
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"columns would become several features of the names {twice}.")

    @property
    def features(self) -> list[str]:
        """The columns that are neither target nor groups."""
        return [name for name in self.columns if name not in (self.target, self.groups)]

    @property
    def is_regression(self) -> bool:
        """Whether the target holds numbers within bounds."""
        return self.target is not None and self.columns[self.target].kind == NUMBER

    def feature_names_out(self) -> list[str]:
        """Return the names of the features that a table becomes, in their order.

        Returns
        -------
        names : list of str
            Such as age, age_missing and city_Bern.
        """
        return [out for name in self.features for out in self.columns[name].names_out()]

    @classmethod
    def from_dict(cls, declaration: Any) -> Self:
        """Read a dict of the arguments of `Schema`, such as `to_dict` returns.

        Parameters
        ----------
        declaration : dict
            It has the key ``"columns"`` and, if needed, ``"target"``, ``"groups"``, ``"person"``
            and ``"source"``.

        Returns
        -------
        schema : Schema

        Raises
        ------
        TypeError
            If it is not a dict.
        ValueError
            If it lacks "columns", has other keys, or declares something that is not legal.
        """
        keys = ("columns", "target", "groups", "person", "source")
        if not isinstance(declaration, Mapping):
            raise TypeError(f"A schema must be a dict, got {type(declaration).__name__}.")
        if "columns" not in declaration or not set(declaration) <= set(keys):
            raise ValueError(
                f"A schema must have the key 'columns', and no keys besides {keys}; got "
                f"{list(declaration)}."
            )
        return cls(**declaration)

    @classmethod
    def from_file(cls, path: Any) -> Self:
        """Read a code book: a JSON or YAML file with the keys that `from_dict` takes.

        Parameters
        ----------
        path : str or path
            The name ends in .json, .yaml or .yml.

        Returns
        -------
        schema : Schema

        Raises
        ------
        ImportError
            If it is a YAML file, and PyYAML is not installed.
        TypeError, ValueError
            If the name has another ending, or the file does not hold a legal schema.
        """
        if not isinstance(path, (str, PathLike)):
            raise TypeError(f"path must be a string or a path, got {type(path).__name__}.")
        file = Path(fspath(path))
        if file.suffix == ".json":
            return cls.from_dict(json.loads(file.read_text(encoding="utf-8")))
        if file.suffix not in (".yaml", ".yml"):
            raise ValueError(f"path must end in .json, .yaml or .yml, got {file.name!r}.")
        yaml = library(
            "yaml",
            "A schema in YAML needs PyYAML, which is not installed: pip install pyyaml, or write "
            "the schema in JSON.",
        )
        try:
            declaration = yaml.safe_load(file.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise ValueError(f"path must hold YAML, but {file.name!r} does not: {error}") from error
        return cls.from_dict(declaration)

    @classmethod
    def from_public(
        cls,
        frame: Any,
        *,
        target: Any = None,
        groups: Any = None,
        person: Any = None,
        categories: Any = (),
    ) -> Self:
        """Infer a schema from a public sample of records, and say so in its repr.

        Bounds are the smallest and the largest number or date of a column, and categories are the
        strings that occur, or the numbers of a column with a categorical dtype. Never pass the
        records that are to be protected: a schema is not private.

        Parameters
        ----------
        frame : data frame
            Public records, of pandas, polars or Arrow.
        target, groups, person : str or None, default=None
            As for `Schema`.
        categories : list of str, default=()
            Names of columns of numbers that are categories.

        Returns
        -------
        schema : Schema

        Raises
        ------
        TypeError
            If it is not a frame, or a column holds neither numbers, dates, booleans nor strings.
        ValueError
            If a column of numbers has fewer than two different ones, or a column of strings has
            none.
        """
        opened = open_frame("frame", frame)
        names = [name for name in opened.columns if name != person]
        if unknown := [name for name in categories if name not in names]:
            raise ValueError(f"categories must name columns of the frame, which lacks {unknown}.")
        columns = {
            name: read_quietly(read_declaration, opened[name], name in categories) for name in names
        }
        wrong = [name for name, declared in columns.items() if declared is None]
        if wrong:
            raise ValueError(
                f"columns {wrong} of the frame have no bounds or categories that can be read off: "
                "each needs two different numbers or dates, or booleans, or strings. Declare them, "
                "or drop them."
            )
        source = f"a public sample of {len(opened)} records"
        return cls(columns, target=target, groups=groups, person=person, source=source)

    def to_dict(self) -> Any:
        """Return the schema as a dict, from which `from_dict` makes an equal one.

        Returns
        -------
        declaration : dict
            It holds types that JSON and YAML know.
        """
        columns = {name: column.to_dict() for name, column in self.columns.items()}
        roles = {key: getattr(self, key) for key in ("target", "groups", "person", "source")}
        return {"columns": columns, **{key: value for key, value in roles.items() if value}}

    def to_json(self) -> Any:
        """Return the schema in JSON, as `from_file` reads it.

        Returns
        -------
        text : str
            The dict that `to_dict` returns, in JSON.
        """
        return json.dumps(self.to_dict(), indent=1)

    def validate(self, frame: Any) -> Any:
        """Check that a frame fits: its columns, their dtypes, and their values.

        Encoders do not need it: they clip, and treat undeclared values as they document. It finds
        mistakes before encoding hides them.

        Parameters
        ----------
        frame : data frame
            Records, of pandas, polars or Arrow. The columns of target, groups and persons may be
            absent.

        Raises
        ------
        TypeError
            If it is not a frame, or the dtype of a column cannot hold what is declared.
        ValueError
            If columns are absent or not declared, if numbers are beyond their bounds or not whole,
            if a value is not among the categories, or if values are missing although that is not
            declared. The message names all columns with such values, and shows no value.

        Notes
        -----
        The outcome tells something about the records, and is not covered by any guarantee: it is
        only for people who may see the records.
        """
        opened = self.opened(frame)
        present = [name for name in self.columns if name in opened.columns]
        faults = [
            f"{name!r} {fault}"
            for name in present
            for fault in read_quietly(list, self.columns[name].faults(opened[name]))
        ]
        if faults:
            raise ValueError(f"The frame does not fit the schema. Column {'; '.join(faults)}.")

    def opened(self, X: Any) -> Any:
        """Open X as a frame of narwhals, and check its columns and their dtypes.

        Parameters
        ----------
        X : data frame
            Records, of pandas, polars or Arrow.

        Returns
        -------
        frame : narwhals.DataFrame
            The same records.

        Raises
        ------
        TypeError
            If X is not a frame, or the dtype of a column cannot hold what is declared.
        ValueError
            If columns are absent, or are not declared.
        """
        frame = open_frame("X", X)
        known = [*self.columns, self.person]
        absent = [name for name in self.features if name not in frame.columns]
        other = [name for name in frame.columns if name not in known]
        if absent or other:
            raise ValueError(
                "X must have the columns of the schema and no others; "
                f"{both_lacks(absent, 'the schema does not declare', other)}."
            )
        columns = [self.columns[name] for name in self.columns if name in frame.columns]
        wrong = [unfit for column in columns if (unfit := column.unfit(frame[column.name]))]
        if wrong:
            raise TypeError(f"X does not fit the schema: {'; '.join(wrong)}.")
        return frame

    def encode(self, X: Any, sparse_output: bool = False) -> Any:
        """Encode records as features in [-1, 1], as `TableEncoder` describes it.

        Parameters
        ----------
        X : data frame
            Records, of pandas, polars or Arrow.
        sparse_output : bool, default=False
            Whether the features are a CSR matrix.

        Returns
        -------
        X_out : ndarray or CSR matrix of shape (n_samples, n_features_out), float64
            One row for every record, in their order.

        Raises
        ------
        TypeError, ValueError
            As for `opened`; never because of a value.
        """
        frame = self.opened(X)
        return read_quietly(self._encoded, frame, sparse_output)

    def _encoded(self, frame: Any, sparse_output: bool) -> Any:
        start, slots = 0, []
        for name in self.features:
            column = self.columns[name]
            slots += [(start + where, values) for where, values in column.slots(frame[name])]
            start += len(column.names_out())
        n = len(frame)
        if sparse_output:
            indices = np.stack([np.broadcast_to(where, n) for where, _ in slots], axis=1)
            data = np.stack([values for _, values in slots], axis=1)
            ends = np.arange(n + 1) * len(slots)
            out = sparse.csr_matrix((data.ravel(), indices.ravel(), ends), shape=(n, start))
            out.eliminate_zeros()
            return out
        out, rows = np.zeros((n, start)), np.arange(n)
        for where, values in slots:
            out[rows, where] = values
        return out

    def declared(self, parameter: str) -> Any:
        """What the schema declares for a parameter of an estimator.

        Parameters
        ----------
        parameter : str
            "lower", "upper", "feature_bound", "categories", "classes", "target_bound" or "groups".

        Returns
        -------
        value : dict, list or float
            A dict by column for the first four; the others concern the target and the groups.

        Raises
        ------
        ValueError
            If the parameter concerns the target or groups, and none of this kind are declared.
        """
        if parameter == "categories":
            discrete = [column for column in self.columns.values() if column.kind != NUMBER]
            return {c.name: c.levels() for c in discrete}
        bounds = {c.name: c.bounds for c in self.columns.values() if c.kind != CATEGORY}
        if parameter in ("lower", "upper"):
            return {name: pair[parameter == "upper"] for name, pair in bounds.items()}
        if parameter in ("feature_bound", "bound"):
            return {name: max(map(abs, pair)) for name, pair in bounds.items()}
        if parameter == "groups":
            if self.groups is None:
                raise ValueError("groups: the schema declares no groups.")
            return self.columns[self.groups].values()
        if parameter not in ("classes", "target_bound"):
            raise ValueError(f"{parameter} must not be a schema, which does not declare it.")
        needed = "categories" if parameter == "classes" else "bounds"
        if self.target is None or self.is_regression != (needed == "bounds"):
            raise ValueError(f"{parameter}: the schema declares no target with {needed}.")
        target = self.columns[self.target]
        return target.values() if parameter == "classes" else max(map(abs, target.bounds))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        nouns = [column.noun for column in self.columns.values()]
        counts = [f"{noun}: {nouns.count(noun)}" for noun in (*KEYS, "date") if noun in nouns]
        given = {key: getattr(self, key) for key in ("target", "groups", "person")}
        roles = [f"{key}={name!r}" for key, name in given.items() if name is not None]
        source = f"read off {self.source}" if self.source else ""
        parts = (", ".join(counts), ", ".join(roles), source)
        return f"Schema({'; '.join(filter(None, parts))})"
