"""scikit-learn's checks: one model of a family runs all, others those that their code decides."""

import contextlib
import functools
import inspect
import traceback
import unittest

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
    """Run a test with all checks of the models, and the selected checks of the others."""
    return with_cases(cases_of(models, others, refused))


def cases_of(models, others=(), refused=(), marks=()):
    """A model and some of its checks, for each case of a test.

    The checks of a model are one test, since most take less time than pytest for a test. All of
    them run, whichever fail. ``refused`` are pairs of a model and the name of a check whose
    parameters it rightly refuses.
    """
    mark = estimator_checks.parametrize_with_checks([*models, *others])
    weighted = any(hasattr(model, "class_weight") for model in models)  # by code of the family
    checks = {}
    for model, check in mark.args[1]:
        name = repr(check)
        if "check_array_api_input" in name:
            continue  # it needs another process: tests/test_estimators.py
        other = model not in models
        if other and any(layout in name for layout in _LAYOUTS):
            continue
        own = any(part in name for part in _OWN)
        own &= "class_weight" not in name or not weighted
        rightly = any(model is one and check_name in name for one, check_name in refused)
        _, some = checks.setdefault((id(model), other and not own), (model, []))
        some.append((check, rightly))
    named, slow = mark.kwargs["ids"], [pytest.mark.slow]
    return [
        pytest.param(model, some, id=named(model), marks=[*marks, *slow * repeated])
        for (_, repeated), (model, some) in checks.items()
    ]


def with_cases(cases):
    """Run a test of a model and a check with all checks of each case."""
    named = estimator_checks.parametrize_with_checks([]).kwargs["ids"]

    def decorate(test):
        @functools.wraps(test)
        def run(estimator, checks):
            failed = [named(one[0]) for one in checks if not _passes(test, estimator, *one)]
            assert failed == []

        run.__signature__ = inspect.signature(run, follow_wrapped=False)
        return pytest.mark.parametrize(("estimator", "checks"), cases)(run)

    return decorate


def _passes(test, estimator, check, refused):
    """Whether a model passes a check, or rightly refuses it; the error is printed if not."""
    try:
        with pytest.raises(ValueError, match="n_iter") if refused else contextlib.nullcontext():
            test(estimator, check)
    except unittest.SkipTest:  # a package is missing
        return True
    except (Exception, pytest.fail.Exception):
        traceback.print_exc()
        return False
    return True
