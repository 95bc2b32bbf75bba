"""A report in the fields of the Differential Privacy Deployments Registry [1]_.

Names and legal values are those of the registry's schema [2]_. What a fit cannot know, such as who
publishes a model and why, is left out.

References
----------
.. [1] Nanayakkara, Ghazi and Vadhan (2025), "Practitioners' Perspectives on a Differential Privacy
   Deployment Registry", arXiv 2509.13509.
.. [2] https://github.com/opendp/deployments-registry-data
"""

import math
from typing import Any

from .accounting import rho_of
from .events import (
    Event,
    ExponentialMechanismEvent,
    GaussianEvent,
    LaplaceNoisyMaxEvent,
    NoOpEvent,
    PureDPEvent,
    RandomStoppingEvent,
    SamplerErrorEvent,
    ZCDPEvent,
    leaves,
)
from .relations import ADD_OR_REMOVE, WITHIN_GROUPS, records_of_unit
from .sampling import AddedPoissonSampledGaussianEvent, PoissonSampledGaussianEvent

__all__ = ["deployment"]

_OF_SAMPLES = "Gaussian noise on sums over samples"
_MECHANISMS: dict[type, str] = {
    GaussianEvent: "Gaussian noise",
    PoissonSampledGaussianEvent: _OF_SAMPLES,
    AddedPoissonSampledGaussianEvent: _OF_SAMPLES,
    ExponentialMechanismEvent: "exponential mechanism",
    LaplaceNoisyMaxEvent: "report noisy maximum",
    RandomStoppingEvent: "selection with a random number of tries",
    SamplerErrorEvent: "some noise in floating point, whose errors the guarantee includes",
    PureDPEvent: "a mechanism with pure differential privacy",
    ZCDPEvent: "a mechanism with zero-concentrated differential privacy",
}
_SOFTWARE = (
    "Implemented by skdpsco (https://skdpsco.readthedocs.io), whose samplers draw on integer "
    "grids, so that rounding reveals nothing. The time of a fit is not protected."
)
_SEEDED = "Whoever knows the seed can remove the noise. "
_BEFORE = (
    "The steps listed under composition are paid for. What was done to the data before this fit, "
    "or chosen by looking at them, is not covered."
)


def deployment(report: Any) -> dict[str, Any]:
    """The sections of an entry that follow from a `PrivacyReport`."""
    event = report.event if report.released is None else report.released
    k = records_of_unit(report.relation) or 1
    secrecy = "private" if report.relation == ADD_OR_REMOVE else "public"
    parameters = {"epsilon": report.epsilon, "delta": report.delta}
    if report.delta > 0 and math.isfinite(rho_of(event)):
        parameters["rho"] = rho_of(event)
    return {
        "dp_variant": {
            "variant_name": "Approximate DP" if report.delta > 0 else "Pure DP",
            "data_domain": f"Tables of records; the number of records is {secrecy}.",
            "unprotected_quantities": _sentences(report.assumptions),
        },
        "privacy_loss": {
            "privacy_unit": "record" if k == 1 else f"unit of at most {k} records",
            "privacy_unit_details": _ADJACENT.get(report.relation, _REPLACED.format(k)),
            "privacy_parameters": parameters,
            "privacy_parameters_details": " ".join(report.risk.lines()),
        },
        "deployment_model": {
            "model_name": "Central",
            "release_type": "One release",
            "data_source_type": "Static",
            "access_type": "Non-interactive",
        },
        "accounting": {
            "post_processing": "Whatever is computed from the fitted attributes, predictions too.",
            "composition": f"The costs of all steps add up. {_sentences(report.steps)}".strip(),
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": _BEFORE,
            "mechanisms": f"{_mechanisms(event)}. {_SEEDED * report.seeded}{_SOFTWARE}",
        },
    }


_REPLACED = "Adjacent data sets differ in the contents of up to {} of their records."
_ADJACENT = {
    ADD_OR_REMOVE: "Of two adjacent data sets one has one more record than the other.",
    WITHIN_GROUPS: "Adjacent data sets differ in one record, which is in the same groups in both.",
}


def _mechanisms(event: Event) -> str:
    kinds = dict.fromkeys(type(one) for one, _ in leaves(event) if type(one) is not NoOpEvent)
    found = dict.fromkeys(_MECHANISMS.get(kind, kind.__name__) for kind in kinds)
    return ", ".join(found) or "Nothing is released"


def _sentences(lines: Any) -> str:
    return " ".join(f"{line}." for line in lines)
