"""scikit-learn's checks: one model of a family runs all, others what their own code decides."""

import pytest
from sklearn.utils import estimator_checks

# A family shares the code that converts types and layouts of X, and every new one compiles kernels.
_LAYOUTS = ("check_estimators_dtypes", "check_estimator_sparse", "readonly_memmap")
# What depends on a model's parameters, targets, loss and solver. The other checks are about what a
# family inherits, as how X is read and predictions are made: `make slow` runs them for all models.
_OWN = (
    "class_weight", "classifier", "cloneable", "idempotent", "init", "mixin", "param", "regressor",
    "repr", "tag", "transform", "_y",
)  # fmt: skip


def scikit_learn_checks(*models, others=(), refused=()):
    """Run a test with all checks of the models, and with those of the others as said above.

    ``refused`` are pairs of a model and the name of a check whose parameters it rightly refuses.
    """
    mark = estimator_checks.parametrize_with_checks([*models, *others])
    weighted = any(hasattr(model, "class_weight") for model in models)  # by code of the family
    cases = []
    for model, check in mark.args[1]:
        name = repr(check)
        if "check_array_api_input" in name:
            continue  # it needs another process: tests/test_estimators.py
        other = model not in models
        if other and any(layout in name for layout in _LAYOUTS):
            continue
        own = any(part in name for part in _OWN)
        own &= "class_weight" not in name or not weighted
        repeated = other and not own
        marks = [pytest.mark.slow] * repeated
        if any(model is one and check_name in name for one, check_name in refused):
            marks.append(pytest.mark.xfail(raises=ValueError, strict=True))
        cases.append(pytest.param(model, check, marks=marks))
    return pytest.mark.parametrize(mark.args[0], cases, **mark.kwargs)
