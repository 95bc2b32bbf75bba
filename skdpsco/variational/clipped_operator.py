"""Operators of single records: clipped to their bounds, and tried on public records."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from skdpsco.constraints.norms import conjugate
from skdpsco.data.record_functions import Data, numbers_or_nan, real_numbers
from skdpsco.solvers.saddle.geometry import Block, Geometry, finite_lp_norm
from skdpsco.solvers.saddle.problem import in_chunks
from skdpsco.variational.games import BilinearGame, QuadraticGame
from skdpsco.variational.maximal_loss import MaximalLoss

__all__ = ["Clipped", "check_operator"]

N_PROBES = 32  # pairs of points at which monotonicity is tried


def _units(rows: np.ndarray, order: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows divided by their largest entries, these entries, and norms that cannot overflow."""
    top = np.abs(rows).max(axis=1)
    unit = rows / np.where(top > 0.0, top, 1.0)[:, None]
    return unit, top, np.linalg.norm(unit, ord=order, axis=1)


def _shorten(rows: np.ndarray, order: float, most: float) -> np.ndarray:
    """Scale rows down to norms of at most ``most``."""
    unit, top, length = _units(rows, order)
    return unit * np.minimum(top, most / np.maximum(length, 1.0))[:, None]


def _dual_norms(rows: np.ndarray, block: Block) -> np.ndarray:
    """Norms of rows in the dual of the block's space."""
    _, top, length = _units(rows, conjugate(block.p))
    return top * length


def _within_block(rows: np.ndarray, block: Block) -> np.ndarray:
    """Rows clipped to the norms that the block declares; rows that are not finite become 0."""
    rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
    rows = _shorten(rows, conjugate(block.p), block.lipschitz)
    return rows if block.sensitivity is None else _shorten(rows, 2.0, 0.5 * block.sensitivity)


def _game(function: Any, blocks: tuple[Block, ...]) -> Any:
    """A faster game like ``function`` that itself keeps records within ``blocks``, or None.

    Only the class and its parameters decide, since a subclass may return anything and attributes
    may have been changed.
    """
    game: Any = None
    if type(function) in (BilinearGame, QuadraticGame) and len(blocks) == 2:
        game = type(function)(blocks[0].size, blocks[1].size, function.bound)
    elif type(function) is MaximalLoss:
        game = MaximalLoss(
            function.losses,
            function.n_features,
            function.radius,
            n_targets=function.n_targets,
            target_bound=function.target_bound,
            weight_bounds=function.weight_bounds if function.n_arrays == 3 else None,
        )
    return game if game is not None and game.blocks == blocks else None


@dataclass(eq=False, repr=False)
class Clipped:
    """A user's operator, with every record clipped to its bounds whatever it returns."""

    function: Any
    blocks: tuple[Block, ...]
    saddle: bool
    smoothness: Any
    monotone: bool

    def __post_init__(self) -> None:
        function = self.function
        self.geometry: Geometry = Geometry(self.blocks)
        self.second_smoothness: Any = getattr(function, "second_smoothness", None)
        has_value = hasattr(function, "value")
        self.value_bound: Any = getattr(function, "value_bound", None) if has_value else None
        self.game: Any = _game(function, self.blocks)

    def records(self, z: np.ndarray, data: Data) -> np.ndarray:
        """The user's operator on records whose errors may be shown: public ones or the first."""
        return real_numbers("operator", self._at(z), data, z.shape, self.monotone)

    def try_record(self, z: np.ndarray, record: Data) -> None:
        """Check the shapes and types of the operator and its payoffs on one record.

        Raises
        ------
        ValueError
            If a shape or type is wrong. Errors of the user's functions pass through.
        """
        twice = tuple(np.concatenate([array, array]) for array in record)
        self.records(z, twice)  # reveals functions that expect a single record
        if self.value_bound is not None:
            real_numbers("value", partial(self.value, z), twice)

    def total(self, z: np.ndarray, data: Data) -> np.ndarray:
        """Sum of the operator over all records."""
        if self.game is not None:
            return self.game.total(z, data)
        total = np.zeros(self.geometry.size)
        for chunk in in_chunks(data):
            G = numbers_or_nan("operator", self._at(z), chunk, total.shape, self.monotone)
            for block, part in zip(self.blocks, self.geometry.parts, strict=True):
                total[part] += _within_block(G[:, part], block).sum(axis=0)
        return total

    def value(self, z: np.ndarray, *data: np.ndarray) -> np.ndarray:
        """The user's payoffs of the records, unclipped."""
        return self.function.value(z.copy(), *data)

    def _at(self, z: np.ndarray) -> Any:
        """The user's operator at a read-only point."""
        return lambda *data: self.function(z.copy(), *data)


def check_operator(operator: Any, geometry: Geometry, probes: Data) -> None:
    """Try an operator on public records.

    Raises
    ------
    ValueError
        If its mean is not monotone, if a record exceeds the bounds of a block, or if a record's row
        depends on other records. If it is declared monotone, also if a single record's operator is
        not monotone, would be clipped, or moves by more than its smoothness.
    """
    rng = np.random.default_rng(0)  # points to try, not noise
    start = geometry.start()

    def somewhere() -> np.ndarray:
        far = geometry.prox(rng.standard_normal(geometry.size), start, 10.0 ** rng.uniform(-3, 1))
        return geometry.point(start, far * rng.uniform())

    for _ in range(N_PROBES):
        z, other = somewhere(), somewhere()
        G, H = operator.records(z, probes), operator.records(other, probes)
        halves = [slice(0, 1)] if len(G) == 1 else [slice(0, 1), slice(1, None)]
        apart = np.vstack([operator.records(z, tuple(a[half] for a in probes)) for half in halves])
        if not np.allclose(apart, G, rtol=1e-6, atol=1e-12 * np.abs(G).max(), equal_nan=True):
            raise ValueError(
                "operator must return for each record a row that depends on this record alone: on "
                "the probes, a record alone has a different row than among others."
            )
        for k, (block, part) in enumerate(zip(geometry.blocks, geometry.parts, strict=True)):
            largest = float(_dual_norms(G[:, part], block).max())
            if not largest <= block.lipschitz * (1.0 + 1e-9):
                raise ValueError(
                    f"operator exceeds the lipschitz bound of block {k} on the probes: "
                    f"{largest:.6g} > {block.lipschitz:.6g}."
                )
            clipped = _within_block(G[:, part], block)
            if operator.monotone and not np.allclose(clipped, G[:, part], rtol=1e-9, atol=0.0):
                raise ValueError(
                    f"operator exceeds the sensitivity of block {k} on the probes: records would "
                    "be clipped to half of it, after which the operator may not be monotone."
                )
        if operator.monotone and operator.smoothness is not None:
            near = z + 10.0 ** rng.uniform(-4, 0) * (other - z)  # kinks show from nearby only
            _check_smoothness(operator, geometry, G - operator.records(near, probes), z - near)
        # If declared, check every record: a data set may consist of copies of one record.
        moves = G - H if operator.monotone else (G - H).mean(axis=0)[None]
        products = moves @ (z - other)
        if (products < -1e-9 * np.maximum(np.abs(moves) @ np.abs(z - other), 1e-300)).any():
            raise ValueError(
                "operator is not monotone: on the probes, <G(z) - G(z'), z - z'> = "
                f"{products.min():.3g} < 0 for some z and z'."
            )


def _check_smoothness(operator: Any, geometry: Geometry, moves: np.ndarray, u: np.ndarray) -> None:
    """Check that records' operators move by at most their smoothness when the point moves by u."""
    pairs = list(zip(geometry.blocks, geometry.parts, strict=True))
    allowed = operator.smoothness @ [finite_lp_norm(u[part], block.p) for block, part in pairs]
    for k, (block, part) in enumerate(pairs):
        largest = float(_dual_norms(moves[:, part], block).max())
        if not largest <= allowed[k] * (1.0 + 1e-9) + 2.0**-40 * block.lipschitz:
            raise ValueError(
                f"operator exceeds its smoothness on the probes: block {k} moves by {largest:.6g} "
                f"> {allowed[k]:.6g}."
            )
