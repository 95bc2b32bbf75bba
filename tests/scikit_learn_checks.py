"""scikit-learn's checks: one model of a family runs all, others what their own code decides."""

import pytest
from sklearn.utils import estimator_checks

# A family shares the code that converts types and layouts of X, and every new one compiles kernels.
_LAYOUTS = ("check_estimators_dtypes", "check_estimator_sparse", "readonly_memmap")


def scikit_learn_checks(*models, others=()):
    """Run a test with all checks of the models, and with those of the others but for layouts."""
    mark = estimator_checks.parametrize_with_checks([*models, *others])
    cases = [
        (model, check)
        for model, check in mark.args[1]
        # Needs another process: tests/test_estimators.py
        if "check_array_api_input" not in repr(check)
        and (model in models or not any(name in repr(check) for name in _LAYOUTS))
    ]
    return pytest.mark.parametrize(mark.args[0], cases, **mark.kwargs)
