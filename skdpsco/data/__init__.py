"""Records as kernels read them: arrays, sparse matrices, blocks, and sums over them."""

from .row_blocks import RowBlocks

__all__ = ["RowBlocks"]
