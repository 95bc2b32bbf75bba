"""What users are told before a fit about parameters with which it cannot be accurate."""

import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skdpsco import (
    PrivateAdditiveClassifier,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateMinimaxClassifier,
    PrivateMinimaxRegressor,
    PrivateMoments,
    PrivateMonotoneGLM,
    PrivateRidge,
    Schema,
    UtilityWarning,
)
from skdpsco._random import collected_advice, warn_utility
from skdpsco.base.advice import PublicNumbers, advice_on
from skdpsco.inspection import plan
from skdpsco.preprocessing import PrivateSplineTransformer
from skdpsco.privacy import Budget
from skdpsco.scaling.target import least_n_mu

BOUNDED = Schema({name: {"bounds": [-1, 1]} for name in "abcd"})
FINE = PublicNumbers(1000, 20, Budget(1.0, 1e-6).mu, 1.0, 1e-6)


def said(model, X, y, **options):
    """The utility warnings of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, **options)
    assert {w.filename for w in caught} <= {__file__}
    return [str(w.message) for w in caught if w.category is UtilityWarning]


def test_numbers_that_would_do_do():
    few = FINE._replace(n_samples=50, epsilon=0.3, mu=Budget(0.3, 1e-6).mu)
    (line,) = advice_on(few)
    assert "50 records say about" in line
    records, epsilon = re.search(r"(\d+) records would do, or epsilon=([\d.]+)\.", line).groups()
    assert advice_on(few._replace(n_samples=int(records))) == ()
    assert advice_on(few._replace(n_samples=int(records) - 1)) != ()
    enough = float(epsilon)
    assert advice_on(few._replace(epsilon=enough, mu=Budget(enough, 1e-6).mu)) == ()
    less = 0.9 * enough
    assert advice_on(few._replace(epsilon=less, mu=Budget(less, 1e-6).mu)) != ()


def test_each_number_has_its_own_sentence():
    assert advice_on(FINE) == ()
    assert advice_on(FINE._replace(n_features=10**9, n_samples=1000)) == ()  # few may matter
    (line,) = advice_on(FINE._replace(delta=1.1e-4))
    assert "at most 1 / (10 n), 0.0001" in line
    assert advice_on(FINE._replace(delta=1e-4)) == ()
    (line,) = advice_on(FINE._replace(reach=1e-5))
    assert "a radius 100000 times as large" in line
    assert advice_on(FINE._replace(reach=0.01)) == ()
    (line,) = advice_on(FINE._replace(n_samples=50, least_n_mu=least_n_mu()))
    assert "scale of the target" in line
    enough = int(re.search(r"Without it (\d+) records would do", line).group(1))
    for n, found in ((enough, True), (enough - 1, False)):
        assert (advice_on(FINE._replace(n_samples=n, least_n_mu=least_n_mu())) == ()) == found
    assert len(advice_on(FINE._replace(mu=1e-3, delta=0.1, reach=1e-5))) == 3


def test_threads_keep_their_own_advice():
    """Candidates of a search may be rehearsed in threads, at the same time."""
    both, here = Barrier(2), warnings.showwarning

    def rehearsed(text):
        with collected_advice() as advice:
            both.wait(10)
            warn_utility(text)
            warn_utility(text)
            both.wait(10)
        return advice

    with warnings.catch_warnings(), ThreadPoolExecutor(2) as pool:
        warnings.simplefilter("error")
        assert list(pool.map(rehearsed, ("a", "b"))) == [["a"], ["b"]]
    assert warnings.showwarning is here
    with pytest.warns(UtilityWarning, match="c"):
        warn_utility("c")


@pytest.mark.parametrize(
    ("model", "finds"),
    [
        (PrivateRidge(), True),
        (PrivateRidge(solver="sgd"), False),
        (PrivateRidge(solver="sgd", feature_bound=1), True),
        (PrivateLasso(radius=3.0), False),
        (PrivateLasso(radius=3.0, feature_bound=1.0), True),
        (PrivateMoments(), True),
        (PrivateMoments(row_norm=3.0), False),
        (PrivateMoments(row_norm=3.0, feature_bound=1.0), True),
    ],
)
def test_bounds_that_are_not_found_are_said_to_be_1(model, finds):
    """With raw columns such fits see signs alone; the warning does not depend on the columns."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 4))
    for units in (1.0, 1000.0):
        lines = said(model, X * units, X[:, 0])
        assert [("'auto' means 1" in line) for line in lines] == [True] * (not finds)


@pytest.mark.parametrize(
    ("model", "declared"),
    [
        (PrivateRidge(target_bound=1.0), {"feature_bound": 1.0}),
        (PrivateRidge(target_bound=1.0, feature_bound=None), {"feature_bound": 1.0}),
        (PrivateLogisticRegression(classes=[False, True]), {"feature_bound": 1.0}),
        (PrivateAdditiveClassifier(classes=[False, True]), {"schema": BOUNDED}),
    ],
)
def test_too_few_records_for_bounds_are_said_to_be_so(model, declared):
    """The number in the advice would do, one less would not, and it does not depend on values."""
    n, (classifies, d) = 100, (hasattr(model, "classes"), len(BOUNDED.features))
    X = pd.DataFrame(np.random.default_rng(0).uniform(-1, 1, (n, d)), columns=BOUNDED.features)
    y = np.arange(n) % 2 == 0 if classifies else np.linspace(-1.0, 1.0, n)
    (line,) = said(model, X, y)
    assert "100 records are too few" in line
    assert f"Declare {'the ranges' if 'schema' in declared else 'feature_bound'}" in line
    assert said(model, 1000.0 * X, y) == [line]
    assert said(clone(model).set_params(**declared), X, y) == []
    added = clone(model).set_params(relation="add-or-remove-one")
    assert said(added, X, y) == []  # their number is private
    enough, epsilon = re.search(r"(\d+) records would do, or epsilon=([\d.]+)\.", line).groups()
    assert plan(model, int(enough), d).warnings == ()
    assert "too few" in plan(model, int(enough) - 1, d).warnings[0]
    assert plan(clone(model).set_params(epsilon=float(epsilon)), n, d).warnings == ()


def test_what_else_is_wrong_comes_with_the_bounds():
    (line,) = plan(PrivateRidge(), 100, 4).warnings
    assert re.search("scale of the target .* clipped to .* unless you declare feature_bound", line)
    assert "clipped" not in plan(PrivateRidge(feature_bound=1.0), 100, 4).warnings[0]


def test_clipping_is_said_beside_other_advice():
    large, clipped = plan(PrivateLasso(radius=1.0, target_bound=1.0, delta=0.01), 3000, 4).warnings
    assert "delta=0.01 is large" in large
    assert "clipped to [-1, 1]" in clipped


@pytest.mark.parametrize("unknown", ["auto", None])
def test_moments_say_which_bounds_are_not_found(unknown):
    model = PrivateMoments(feature_bound=unknown, target_bound=1.0)
    (line,) = plan(model, 150, 4).warnings
    assert "finds no bounds of features: 150 records are too few" in line
    enough = int(re.search(r"(\d+) records would do", line).group(1))
    assert plan(model, enough, 4).warnings == ()
    (line,) = plan(PrivateMoments(feature_bound=1.0), enough - 1, 4).warnings
    assert "Declare target_bound" in line
    assert f"{enough} records would do" in line
    assert plan(PrivateMoments(feature_bound=1.0), enough, 4).warnings == ()


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(
    "model", [PrivateRidge(target_bound=1.0), PrivateMoments(target_bound=1.0), PrivateMoments()]
)
def test_an_epsilon_that_would_do_does(model, k):
    """Where units are counted in zCDP, and where all searches are in the Gaussian curve."""
    X, n = np.random.default_rng(0).normal(size=(99, 3)), 99
    units = {"max_records_per_unit": k} if k > 1 else {}
    for epsilon in (0.3, 1.0):
        few = clone(model).set_params(epsilon=epsilon, **units)
        given = {"units": np.arange(n) // k} if k > 1 else {}
        (line,) = said(few, X, X[:, 0], **given)
        enough = re.search(r"records would do, or epsilon=([\d.]+)\.", line).group(1)
        lines = said(few.set_params(epsilon=float(enough)), X, X[:, 0], **given)
        assert [line[:20] == one[:20] for one in lines] == [False] * len(lines)


CLASSES = {"classes": [0, 1]}
MODELS = [
    (PrivateRidge, {}),
    (PrivateLasso, {}),
    (PrivateLogisticRegression, CLASSES),
    (PrivateLogisticL1, CLASSES),
    (PrivateMonotoneGLM, {}),
    (PrivateLinearClassifier, CLASSES),
    (PrivateMinimaxClassifier, CLASSES),
]


@pytest.mark.parametrize(("make", "params"), MODELS)
def test_fits_warn_once_and_whatever_the_data(make, params):
    """Fits to few records warn, those to enough records do not, and values make no difference."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 4))
    y = (X[:, 0] > 0).astype(int)
    assert said(make(**params), X, y) == []
    texts = [said(make(epsilon=0.02, **params), A, y) for A in (X, 0.0 * X)]
    assert texts[0] == texts[1]
    assert [("600 records" in text) for text in texts[0]] == [True]


def test_a_scale_that_is_not_found_is_said_once():
    X = np.random.default_rng(0).uniform(-1, 1, (200, 4))
    y = 250_000.0 + 80_000.0 * X[:, 0]
    for make in (PrivateRidge, PrivateLinearRegressor, PrivateMinimaxRegressor):
        found = said(make(epsilon=0.3), X, y)
        assert ["scale of the target" in text for text in found] == [True]
        assert found == said(make(epsilon=0.3), X, 0.0 * y)
        assert not any("scale" in text for text in said(make(target_bound=4e5), X, y))
        assert not any("scale" in text for text in said(make(epsilon=1.0), X, y))


@pytest.mark.parametrize("delta", [1e-6, 0])
def test_a_scale_that_is_not_sought_is_not_missed(delta):
    """The ball of `PrivateLasso` bounds its targets, too."""
    solver = "stagewise" if delta else "frank-wolfe"
    model = PrivateLasso(radius=2.0, feature_bound=1.0, solver=solver, epsilon=0.1, delta=delta)
    (line,) = plan(model, 50, 30).warnings
    assert line.startswith("The noise will be larger than what 50 records say about 30 features")


def test_splines_say_how_many_records_would_do():
    X = np.random.default_rng(0).uniform(-1, 1, (175, 2))
    (line,) = said(PrivateSplineTransformer(), X, None)
    enough = int(re.search(r"(\d+) records would do", line).group(1))
    assert enough > 175
    assert said(PrivateSplineTransformer(), np.resize(X, (enough, 2)), None) == []
