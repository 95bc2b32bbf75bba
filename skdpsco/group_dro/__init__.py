"""Models for the worst group, and scores by group."""

from .group_dro import PrivateGroupDRO
from .metrics import group_report, worst_group_score, worst_group_scorer

__all__ = ["PrivateGroupDRO", "group_report", "worst_group_score", "worst_group_scorer"]
