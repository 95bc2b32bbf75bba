"""Many small cases of a law in one test."""

import functools
import inspect


def each(names, cases):
    """`pytest.mark.parametrize` in one test, for cases that take less time than pytest for a test.

    The first case that fails ends the test, and is printed.
    """
    names = [names] if isinstance(names, str) else names

    def decorate(test):
        signature = inspect.signature(test)

        @functools.wraps(test)
        def run(**fixtures):
            for case in cases:
                values = (case,) if len(names) == 1 else case
                try:
                    test(**fixtures, **dict(zip(names, values, strict=True)))
                except BaseException:
                    print(*names, "=", *values)
                    raise

        others = [given for name, given in signature.parameters.items() if name not in names]
        run.__signature__ = signature.replace(parameters=others)
        return run

    return decorate
