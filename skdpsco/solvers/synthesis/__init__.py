"""Solvers for queries about tables."""
