"""What a pipeline costs, audits of what it claims, plots, and what synthetic tables are worth."""

from skdpsco.inspection._cost import private_steps
from skdpsco.inspection._steps import StepReport

from ._audit import AuditResult, audit
from .displays import PrivacyUtilityDisplay, RadiusPathDisplay
from .group_display import GroupLossDisplay
from .model_card import ModelCard, model_card
from .pipeline_json import pipeline_from_json, pipeline_to_json
from .pipeline_report import PipelineReport, check_private_steps, not_private_steps, privacy_report
from .planning import PlannedRelease, PrivacyPlan, epsilon_for, n_for, plan
from .quality_report import QualityReport
from .risk_display import RiskDisplay, epsilon_for_risk
from .shape_display import PairDisplay, ShapeDisplay
from .survival_display import SurvivalDisplay

__all__ = [
    "AuditResult",
    "GroupLossDisplay",
    "ModelCard",
    "PairDisplay",
    "PipelineReport",
    "PlannedRelease",
    "PrivacyPlan",
    "PrivacyUtilityDisplay",
    "QualityReport",
    "RadiusPathDisplay",
    "RiskDisplay",
    "ShapeDisplay",
    "StepReport",
    "SurvivalDisplay",
    "audit",
    "check_private_steps",
    "epsilon_for",
    "epsilon_for_risk",
    "model_card",
    "n_for",
    "not_private_steps",
    "pipeline_from_json",
    "pipeline_to_json",
    "plan",
    "privacy_report",
    "private_steps",
]
