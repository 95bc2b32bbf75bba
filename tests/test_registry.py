"""Reports have the fields of the Differential Privacy Deployments Registry."""

import json

import numpy as np
import pytest

from skdpsco import (
    Ledger,
    PrivateGroupDRO,
    PrivateLasso,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivateRidge,
)
from skdpsco.privacy import GaussianEvent, SamplerErrorEvent, compose, rho_of
from skdpsco.privacy.report import PrivacyReport

# The fields of an entry, by sections: types, or the values that are legal. They are those of
# schemas/deployments-schema.yaml in github.com/opendp/deployments-registry-data, of 15 July 2026.
SCHEMA = {
    "basic": {
        "name": str,
        "data_curators": list,
        "intended_use": str,
        "data_product_type": {
            "Summary statistics",
            "Machine learning model",
            "Dataset",
            "Synthetic data",
            "Interactive API",
            "SQL queries",
        },
        "data_product_region": str,
        "description": str,
        "publication_date": str,
        "data_product_sector": {
            "Technology",
            "Healthcare",
            "Education",
            "Government",
            "Energy",
            "Finance",
        },
    },
    "dp_variant": {
        "variant_name": {"Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"},
        "data_domain": str,
        "unprotected_quantities": str,
    },
    "privacy_loss": {
        "privacy_unit": str,
        "privacy_unit_details": str,
        "privacy_parameters": {"epsilon": float, "delta": float, "rho": float},
        "privacy_parameters_details": str,
    },
    "deployment_model": {
        "model_name": {"Local", "Central", "Shuffle", "Federated", "Varies"},
        "model_name_details": str,
        "actors": str,
        "release_type": {"One release", "Many releases"},
        "release_type_details": str,
        "data_source_type": {"Static", "Dynamic"},
        "data_source_type_details": str,
        "access_type": {"Interactive", "Non-interactive"},
        "access_type_details": str,
    },
    "accounting": {"post_processing": str, "composition": str},
    "implementation": {
        "preprocessing_and_hyperparameter_tuning": str,
        "mechanisms": str,
        "justification": str,
    },
    "administrative": {"sources": str, "notes": str, "registry_authors": list},
}
BASIC = {
    "name": "Model of incomes",
    "data_curators": ["An institute"],
    "description": "A linear model.",
    "intended_use": "Teaching",
    "data_product_type": "Machine learning model",
    "data_product_region": "Europe",
    "publication_date": "2026-01-01",
}


def faults(found, legal, path="deployment"):
    """Where an entry does not keep to the schema."""
    if isinstance(legal, dict):
        if not isinstance(found, dict):
            return [path]
        unknown = [f"{path}/{name}" for name in found if name not in legal]
        known = [name for name in found if name in legal]
        return unknown + [
            fault for name in known for fault in faults(found[name], legal[name], f"{path}/{name}")
        ]
    ok = found in legal if isinstance(legal, set) else isinstance(found, legal)
    return [] if ok else [path]


def entry(report, **options):
    return json.loads(report.to_json(**options))["deployment"]


rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, (300, 3))
Y = X[:, 0]
GROUPS = {"sensitive_features": np.arange(300) % 2}
MOMENTS = PrivateMoments(target_bound=2.0).fit(X, Y)
FITS = {
    "regression": lambda: PrivateRidge(target_bound=2.0).fit(X, Y),
    "draws": lambda: PrivateLasso(target_bound=2.0, ledger=Ledger(1.0, 1e-6)).fit(X, Y),
    "added": lambda: PrivateRidge(target_bound=2.0, relation="add-or-remove-one").fit(X, Y),
    "units": lambda: PrivateRidge(target_bound=2.0, max_records_per_unit=2).fit(
        X, Y, units=np.arange(300) // 2
    ),
    "samples": lambda: PrivateLogisticRegression(solver="sgd").fit(X, Y > 0.0),
    "groups": lambda: PrivateGroupDRO(group_membership="public").fit(X, Y > 0.0, **GROUPS),
    "moments": lambda: MOMENTS,
    "post-processing": lambda: PrivateRidge().fit(MOMENTS.moments_),
}


@pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning", "ignore::skdpsco.PrivacyWarning")
@pytest.mark.parametrize("name", FITS)
def test_reports_keep_to_the_schema(name):
    report = FITS[name]().privacy_
    found = entry(report, basic=BASIC)
    assert faults(found, SCHEMA) == []
    assert found["basic"] == BASIC
    assert list(entry(report)) == [section for section in found if section != "basic"]
    assert all(text != "" for section in found.values() for text in section.values())
    numbers = found["privacy_loss"]["privacy_parameters"]
    assert (numbers["epsilon"], numbers["delta"]) == (report.epsilon, report.delta)
    assert numbers["rho"] == rho_of(report.released or report.event) > 0.0
    unit = "unit of at most 2 records" if name == "units" else "record"
    assert found["privacy_loss"]["privacy_unit"] == unit
    said = found["privacy_loss"]["privacy_unit_details"]
    assert ("one more record" in said) == (name == "added")
    assert ("same groups" in said) == (name == "groups")
    secret = "number of records is private" in found["dp_variant"]["data_domain"]
    assert secret == (name == "added")
    mechanisms = found["implementation"]["mechanisms"]
    assert ("Gaussian noise" in mechanisms) == (name != "units")
    assert ("samples" in mechanisms) == (name == "samples")


def test_what_an_entry_says_of_noise():
    event = compose(GaussianEvent(3.0), SamplerErrorEvent(1e-12, 1e-14))
    report = PrivacyReport(1.0, 1e-6, rho_of(event), event, True)
    found = entry(report)
    assert faults(found, SCHEMA) == []
    assert "rho" not in found["privacy_loss"]["privacy_parameters"]
    assert "Event" not in found["implementation"]["mechanisms"]
    assert "Whoever knows the seed" in found["implementation"]["mechanisms"]
    assert "knows the seed" not in entry(FITS["moments"]().privacy_)["implementation"]["mechanisms"]
