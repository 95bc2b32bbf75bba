"""Many small cases of a law in one test; fits with a seed, and fits that are refused."""

import functools
import inspect
import traceback

import pytest
from sklearn.base import clone

from skdpsco import Ledger, PrivacyWarning
from skdpsco.base.private_estimator import fitted_names


def each(names, cases):
    """`pytest.mark.parametrize` in one test, for cases that take less time than pytest for a test.

    All cases run, and those that fail are printed with what they raise. The test ends with the
    error of the first of them.
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    cases = [(case,) if len(names) == 1 else tuple(case) for case in cases]
    assert cases
    assert {len(case) for case in cases} == {len(names)}

    def decorate(test):
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(**fixtures):
            errors = []
            for case in cases:
                try:
                    test(**fixtures, **dict(zip(names, case, strict=True)))
                except (Exception, pytest.fail.Exception) as error:
                    print(*names, "=", *case)
                    traceback.print_exc()
                    errors.append(error)
            if errors:
                raise errors[0]

        others = [given for name, given in signature.parameters.items() if name not in names]
        run.__signature__ = signature.replace(parameters=others)
        return run

    return decorate


def fit(model, *data):
    """A fit with the same noise every time."""
    with pytest.warns(PrivacyWarning, match="random_state"):
        return model.set_params(random_state=0).fit(*data)


def costs_nothing(model, match, *data, error=(ValueError, TypeError), **fit_params):
    """The fit is refused before its charge, and keeps nothing; returns what is said."""
    ledger = Ledger(100.0, 1e-4, relation=getattr(model, "relation", "replace-one"))
    model = clone(model).set_params(ledger=ledger)
    with pytest.raises(error, match=match) as caught:
        model.fit(*data, **fit_params)
    assert ledger.charges() == []
    assert fitted_names(model) == []
    return str(caught.value)
