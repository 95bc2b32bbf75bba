"""Records as kernels read them: arrays, sparse matrices, blocks, and sums over them."""

from .design import as_design, columns_of
from .pieces import replace_one
from .record_stream import one_pass
from .record_sums import map_reduce
from .row_blocks import RowBlocks
from .schema import Schema
from .units import draw_records

__all__ = [
    "RowBlocks",
    "Schema",
    "as_design",
    "columns_of",
    "draw_records",
    "map_reduce",
    "one_pass",
    "replace_one",
]
