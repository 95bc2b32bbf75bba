"""The privacy report, and the representations of an estimator that contain it."""

import math
import re

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skdpsco import PrivateGridSearchCV, PrivateLasso, PrivateLogisticL1, PrivateRidge
from skdpsco.preprocessing import PublicBoundsScaler
from skdpsco.privacy import (
    ExponentialMechanismEvent,
    GaussianEvent,
    NoOpEvent,
    RepeatedEvent,
    compose,
    rho_of,
)
from skdpsco.privacy.report import PrivacyReport, ReleasedStep

CAPTION = "Differential privacy</caption>"


def data(n=60, d=3):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, d))
    return X, (X[:, 0] > 0).astype(int)


def a_report(**changes):
    values = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "rho": 0.0125,
        "event": GaussianEvent(2.0),
        "seeded": False,
    }
    return PrivacyReport(**{**values, **changes})


def test_words_come_before_numbers():
    report = a_report(
        assumptions=("features are clipped to ±1", "the 2 labels are public"),
        steps=(
            ReleasedStep("bounds of the features", 21, 0.2, "features are clipped to ±1"),
            ReleasedStep("shares of the classes", 1, math.nan, ""),
        ),
    )
    words = str(report).split("\nepsilon ")[0]
    for said in (
        "odds .* at most 2.72",
        "at worst, .* with probability 1 in 1,000,000",
        r"at most 59.9 %",
        "20.0 % on bo",
    ):
        assert re.search(said, words)
    lines = str(report).splitlines()
    heads = [line[:12].strip() for line in lines if line[0] != " "]
    numbers = ["epsilon", "delta", "rho (zCDP)", "neighbours", "noise"]
    assert heads == ["risk", "budget", "assumes", *numbers]
    assert "assumes     the 2 labels are public" in lines  # bounds are said above


def test_pure_privacy_is_said_where_no_noise_is_gaussian():
    draws = RepeatedEvent(ExponentialMechanismEvent(0.2), 3)
    assert "or epsilon  0.600003  (with delta = 0" in str(a_report(event=draws))
    for event in (GaussianEvent(2.0), compose(draws, GaussianEvent(2.0)), NoOpEvent()):
        assert "or epsilon" not in str(a_report(event=event))
    moments = a_report(event=NoOpEvent(), released=compose(draws, GaussianEvent(2.0)))
    assert "or epsilon" not in str(moments)


def test_seeded_noise_is_conspicuous():
    first = str(a_report(seeded=True)).splitlines()[0]
    assert first.startswith("CAUTION     The noise is REPRODUCIBLE")
    assert "REPRODUCIBLE" not in str(a_report())


def test_html_escapes():
    html = a_report(assumptions=("<script>alert('&')</script>",))._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;" in html


def test_html_has_the_rows_of_the_text():
    report = a_report(assumptions=("one", "two"))
    html = report._repr_html_()
    said = len(report.rows()) + len(report.numbers())
    assert html.count("<tr>") == html.count("</tr>") == said == 11
    words, numbers = html.split("<details>")
    assert words.startswith("<table>")
    assert words.endswith("</table>")
    assert numbers.endswith("</table></details>")
    assert "rho" not in words


@pytest.mark.parametrize("Estimator", [PrivateLasso, PrivateLogisticL1])
def test_report_of_a_fit(Estimator):
    X, y = data()
    model = Estimator(epsilon=2, delta=1e-5, radius=2.0, feature_bound=[1, 2, 3]).fit(X, y)
    report = model.privacy_
    assert (report.epsilon, report.delta, report.seeded) == (2.0, 1e-5, False)
    assert report.relation == "replace-one"
    assert report.rho == rho_of(report.event)
    assert "±b per column, b from 1 to 3" in str(report)
    about_y = "targets are clipped to ±6" if Estimator is PrivateLasso else "(read off y)"
    assert about_y in str(report)
    how = "4 steps" if Estimator is PrivateLasso else "the intercept alone"
    assert f"coefficients by Stagewise: {how}" in str(report)
    if Estimator is PrivateLogisticL1:
        declared = Estimator(classes=[0, 1, 2]).fit(X, y).privacy_.assumptions
        assert "the 3 labels are public (declared)" in declared
    # The table holds only what was public before the fit.
    again = Estimator(epsilon=2, delta=1e-5, radius=2.0, feature_bound=[1, 2, 3]).fit(X[::-1], y)
    assert str(again.privacy_) == str(report)


def test_html_of_an_estimator_contains_the_report_once():
    X, y = data()
    model = PrivateLasso()
    with sklearn.config_context(display="diagram"):
        assert CAPTION not in model._repr_html_()
        assert CAPTION not in model._repr_mimebundle_()["text/html"]
        model.fit(X, y)
        for html in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
            assert html.count(CAPTION) == 1
            assert html.endswith(model.privacy_._repr_html_())
            assert "sk-top-container" in html  # scikit-learn's own


def test_diagrams_of_pipelines_say_which_steps_are_private():
    pytest.importorskip("sklearn.utils._repr_html", reason="scikit-learn 1.6 draws no captions")
    X, y = data()
    model = PrivateRidge(epsilon=2.0, delta=1e-5)
    pipeline = make_pipeline(PublicBoundsScaler(lower=-1, upper=1), StandardScaler(), model)
    search = PrivateGridSearchCV(model, {"alpha": [1.0, 2.0]})
    captions = re.compile(r'caption">([^<]*)<')
    assert captions.findall(pipeline._repr_html_()) == ["data-independent", "private"]
    assert captions.findall(search._repr_html_()) == ["private"]
    only = "covers this step alone; not private: standardscaler (StandardScaler)"
    said = ["data-independent", f"private: epsilon = 2, delta = 1e-05; {only}"]
    assert captions.findall(pipeline.fit(X, y)._repr_html_()) == said
    assert "estimator: PrivateRidge" in search._repr_html_()  # still drawn by scikit-learn


def test_repr_is_that_of_scikit_learn():
    X, y = data()
    model = PrivateLasso(epsilon=0.5)
    expected = "PrivateLasso(epsilon=0.5)"
    assert repr(model) == str(model) == expected
    assert repr(model.fit(X, y)) == expected
    assert PrivateLasso.__repr__ is BaseEstimator.__repr__
    assert model._repr_mimebundle_()["text/plain"] == expected
    with sklearn.config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert list(model._repr_mimebundle_()) == ["text/plain"]
