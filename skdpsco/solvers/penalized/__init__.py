"""Solvers of problems with a penalty."""
