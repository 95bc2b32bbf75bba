"""Solvers of saddle points and variational inequalities."""
