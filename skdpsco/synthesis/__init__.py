"""Answers to queries about a table, and synthetic records."""

from .bins import Bins
from .synthesizer import PrivateSynthesizer

__all__ = ["Bins", "PrivateSynthesizer"]
