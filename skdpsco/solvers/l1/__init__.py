"""Solvers in an l1 ball or a polytope."""
