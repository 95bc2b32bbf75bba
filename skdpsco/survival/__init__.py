"""Private models of times to an event."""

from ._counts import LifeTable, SurvivalCounts
from .kaplan_meier import PrivateKaplanMeier
from .regressor import PrivateSurvivalRegressor

__all__ = ["LifeTable", "PrivateKaplanMeier", "PrivateSurvivalRegressor", "SurvivalCounts"]
