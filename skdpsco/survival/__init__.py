"""Private models of times to an event."""

from ._counts import LifeTable, SurvivalCounts
from .kaplan_meier import PrivateKaplanMeier
from .log_rank import PrivateLogRank
from .regressor import PrivateSurvivalRegressor

__all__ = [
    "LifeTable",
    "PrivateKaplanMeier",
    "PrivateLogRank",
    "PrivateSurvivalRegressor",
    "SurvivalCounts",
]
