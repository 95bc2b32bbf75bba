"""Model cards: what they say, and what they do not."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

import skdpsco
from skdpsco import Ledger, PrivateLogisticRegression, PrivateMoments, PrivateRidge
from skdpsco.inspection import model_card, privacy_report
from skdpsco.preprocessing import PrivateStandardScaler

rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, (500, 3))
Y = X[:, 0]
MODEL = PrivateRidge(epsilon=0.5, target_bound=2.0).fit(X, Y)


def test_a_card_says_what_reports_say():
    pipeline = make_pipeline(Normalizer(), PrivateStandardScaler(epsilon=0.4), clone(MODEL))
    report = privacy_report(pipeline.fit(X, Y))
    card = model_card(pipeline, name="Pay | A", intended_use="Teaching.", data="A survey.")
    text = card.to_markdown()
    assert text == str(card)
    assert text.startswith(
        "# Pay | A\n\n## Model\n\n- Pipeline(steps=[('normalizer', Normalizer())"
    )
    for line in ("Teaching.", "A survey.", *report.lines()):
        assert f"\n- {line}\n" in text
    assert f"skdpsco {skdpsco.__version__}" in text
    for name, step in pipeline.steps[1:]:
        for line in (*step.privacy_.steps, *step.privacy_.assumptions):
            assert f"\n- {name}: {line}\n" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == len(report.steps) + 3
    assert {row.count("|") for row in rows} == {len(report.rows()[0]) + 1}
    assert f"| {report.epsilon:.6g} |" in rows[-1]
    assert len(text.split()) < 400


def test_a_single_model_has_a_card_without_what_is_not_told():
    text = model_card(MODEL).to_markdown()
    assert text.startswith("# PrivateRidge\n")
    assert "## Use" not in text
    assert "## Data" not in text
    for line in (*MODEL.privacy_.steps, *MODEL.privacy_.assumptions):
        assert f"\n- {line}\n" in text
    assert "changes the odds" in text


def test_html_has_the_same_lines_and_escapes():
    card = model_card(MODEL, name="<b>&", intended_use="<script>")
    html = card.to_html()
    assert html == card._repr_html_()
    assert "<script>" not in html
    assert html.startswith("<h2>&lt;b&gt;&amp;</h2>")
    assert html.count("<li>") == sum(len(lines) for _, lines in card.sections)
    assert html.count("<tr>") == html.count("</tr>") == len(card.rows) + 1


@pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")
def test_seeds_and_ledgers_stay_behind():
    ledger = Ledger(9.0, 1e-5, dataset="kept (secret), here (north")
    for seed in (4711, np.random.RandomState(4711)):
        made = PrivateRidge(random_state=seed, ledger=ledger, target_bound=2.0)
        pipeline = make_pipeline(PrivateStandardScaler(random_state=seed), made)
        text = model_card(pipeline.fit(X, Y)).to_markdown()
        assert "4711" not in text
        assert "MT19937" not in text
        assert "secret" not in text
        assert "spent" not in text
        assert "random_state=...), random_state" not in text
        assert "target_bound=2.0" in text
        assert "The noise is REPRODUCIBLE" in text
    assert "REPRODUCIBLE" not in model_card(MODEL).to_markdown()


def test_nothing_but_public_numbers_is_shown_where_all_bounds_are_declared():
    made = PrivateRidge(target_bound=2.0, feature_bound=1.0, n_iter=3)
    fits = [clone(made).fit(X, Y), clone(made).fit(-(X[::-1] ** 3), Y**2)]
    texts = [model_card(model).to_markdown() for model in fits]
    assert texts[0] == texts[1]
    assert not np.allclose(fits[0].coef_, fits[1].coef_)


def test_a_pipeline_that_is_not_private_says_so_first():
    text = model_card(make_pipeline(StandardScaler(), clone(MODEL)).fit(X, Y)).to_markdown()
    assert "\n- NOT private: standardscaler. There is no guarantee for the whole.\n" in text
    assert "changes the odds" not in text


def test_steps_inside_others_are_described():
    columns = ColumnTransformer([("a", PrivateStandardScaler(), [0, 1])], sparse_threshold=0)
    pipeline = make_pipeline(columns, PrivateLogisticRegression(classes=[False, True]))
    text = model_card(pipeline.fit(X, Y > 0.0)).to_markdown()
    scaler = pipeline[0].named_transformers_["a"]
    for line in scaler.privacy_.assumptions:
        assert f"\n- columntransformer__a: {line}\n" in text


def test_post_processing_has_the_risk_of_its_release():
    moments = PrivateMoments(epsilon=0.5, target_bound=2.0).fit(X, Y)
    model = PrivateRidge().fit(moments.moments_)
    assert model.privacy_.risk == moments.privacy_.risk
    for line in moments.privacy_.risk.lines():
        assert line in model_card(model).to_markdown()


def test_what_cannot_have_a_card():
    for one in (PrivateRidge(), make_pipeline(PrivateStandardScaler().fit(X), PrivateRidge())):
        with pytest.raises(NotFittedError, match="estimator must be fitted"):
            model_card(one)
    with pytest.raises(NotFittedError, match="at least one private step"):
        model_card(Normalizer().fit(X))
    with pytest.raises(TypeError, match="estimator must be an instance"):
        model_card(PrivateRidge)
    own = make_pipeline(FunctionTransformer(np.tanh), clone(MODEL)).fit(X, Y)
    assert "NOT private" in model_card(make_pipeline(FunctionTransformer(abs), MODEL)).to_markdown()
    assert "NOT private" not in model_card(own, record_wise=[np.tanh]).to_markdown()
