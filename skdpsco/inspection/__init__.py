"""What a pipeline costs, and plots of utility against privacy."""

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
    "GroupLossDisplay",
    "PipelineReport",
    "PrivacyUtilityDisplay",
    "RadiusPathDisplay",
    "StepReport",
    "check_private_steps",
    "not_private_steps",
    "privacy_report",
    "private_steps",
]
