"""Solvers for saddle-point problems and variational inequalities."""
