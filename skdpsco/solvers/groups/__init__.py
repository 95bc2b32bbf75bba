"""Solvers for groups of records."""
