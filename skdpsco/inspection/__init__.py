"""What a pipeline costs, audits of what it claims, and plots of utility against privacy."""

from ._audit import AuditResult, audit
from .displays import PrivacyUtilityDisplay, RadiusPathDisplay
from .group_display import GroupLossDisplay
from .pipeline_report import (
    PipelineReport,
    StepReport,
    check_private_steps,
    not_private_steps,
    privacy_report,
    private_steps,
)

__all__ = [
    "AuditResult",
    "GroupLossDisplay",
    "PipelineReport",
    "PrivacyUtilityDisplay",
    "RadiusPathDisplay",
    "StepReport",
    "audit",
    "check_private_steps",
    "not_private_steps",
    "privacy_report",
    "private_steps",
]
