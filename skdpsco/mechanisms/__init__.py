"""Exact samplers on integer grids, and the grids that calibrate them."""
