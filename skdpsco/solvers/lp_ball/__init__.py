"""Solvers in l_p balls, most of which read every record once."""
