"""Privacy accounting: what was released, what it costs, and what may still be spent.

Two datasets are neighbours if they differ by the replacement of one record; the number of
records is public. Nothing here sees data or draws noise. Only the standard library is imported;
optional packages are imported where they are used.
"""

from ._rows import Charge
from .accounting import (
    allows,
    calibrate,
    delta_of,
    epsilon_of,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gdp_of,
    is_gaussian,
    mu_of,
    pure_epsilon_of,
    rho_of,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from .budget import Budget
from .events import (
    ComposedEvent,
    Event,
    ExponentialMechanismEvent,
    GaussianEvent,
    LaplaceNoisyMaxEvent,
    NoOpEvent,
    PureDPEvent,
    RandomStoppingEvent,
    RepeatedEvent,
    SamplerErrorEvent,
    ZCDPEvent,
    compose,
)
from .ledger import BudgetExceededError, Ledger, Remaining, Spent
from .random_stopping import Poisson, Tries, TruncatedNegativeBinomial
from .risk import Risk
from .sampling import AddedPoissonSampledGaussianEvent, PoissonSampledGaussianEvent

__all__ = [
    "AddedPoissonSampledGaussianEvent",
    "Budget",
    "BudgetExceededError",
    "Charge",
    "ComposedEvent",
    "Event",
    "ExponentialMechanismEvent",
    "GaussianEvent",
    "LaplaceNoisyMaxEvent",
    "Ledger",
    "NoOpEvent",
    "Poisson",
    "PoissonSampledGaussianEvent",
    "PureDPEvent",
    "RandomStoppingEvent",
    "Remaining",
    "RepeatedEvent",
    "Risk",
    "SamplerErrorEvent",
    "Spent",
    "Tries",
    "TruncatedNegativeBinomial",
    "ZCDPEvent",
    "allows",
    "calibrate",
    "compose",
    "delta_of",
    "epsilon_of",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gdp_of",
    "is_gaussian",
    "mu_of",
    "pure_epsilon_of",
    "rho_of",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]
