"""QualityReport: distances between tables, and scores of models of synthetic records."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skdpsco.inspection import QualityReport

RNG = np.random.default_rng(0)
N = 2000
X = RNG.normal(size=N)
TABLE = pd.DataFrame(
    {
        "x": np.where(RNG.random(N) < 0.3, 0.0, X),
        "kind": pd.Series(RNG.choice(["a<b", "c", None], N), dtype=object),
        "few": RNG.integers(0, 3, N),
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 5, N), unit="D"),
        "late": RNG.random(N) < 1 / (1 + np.exp(-3 * X)),
    }
)
SHUFFLED = pd.DataFrame({name: RNG.permutation(TABLE[name]) for name in TABLE})


def report(real=TABLE, synthetic=TABLE, **params):
    return QualityReport.from_tables(real, synthetic, random_state=0, **params)


def test_distances_of_known_tables():
    same = report()
    assert same.by_pair.max() == 0.0
    assert 0.01 < same.by_chance < 0.1
    real = pd.DataFrame({"u": ["a", "a", "b", "b"], "v": [1, 2, 1, 2]})
    synthetic = pd.DataFrame({"v": [1, 1, 3, 1], "u": ["a", "b", "c", None]})
    found = report(real, synthetic)
    assert found.by_pair.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert found.shares["u"][0] == ["a", "b", "other", "missing"]
    assert [s.tolist() for s in found.shares["u"][1:]] == [[0.5, 0.5, 0, 0], [0.25] * 4]
    # Numbers are cut where the real ones are; a heap and missing numbers are parts of their own.
    lost = TABLE.assign(x=np.where(np.arange(N) < N / 2, np.nan, TABLE["x"]))
    labels, shares, others = report(synthetic=lost).shares["x"]
    assert shares.max() == pytest.approx((TABLE["x"] == 0.0).mean())
    assert (labels[-1], others[-1]) == ("missing", 0.5)


def test_pairs_see_what_single_columns_do_not():
    found = report(synthetic=SHUFFLED)
    assert np.diag(found.by_pair).max() == 0.0
    x, late = 0, 4
    assert found.by_pair[x, late] == found.by_pair.max() > 0.2
    assert "(those by x and late)." in str(found)


@pytest.mark.parametrize(
    ("target", "name"), [("late", "AUC"), ("few", "accuracy"), ("x", "R²"), ("kind", "accuracy")]
)
def test_scores_of_models(target, name):
    good, bad = report(target=target), report(synthetic=SHUFFLED, target=target)
    assert good.score_name == bad.score_name == name
    assert good.real_score == bad.real_score
    if target == "late":
        assert good.score > 0.85
        assert good.real_score > 0.7
        assert abs(bad.score - 0.5) < 0.1
    assert f"have {name} {good.score:.3f} on real records" in str(good)


def test_repr_escapes_what_tables_hold():
    html = report(target="late")._repr_html_()
    assert "a&lt;b" in html
    assert "a<b" not in html
    assert html.count("<svg") == html.count("</svg>") == TABLE.shape[1]


def test_frames_of_polars():
    names = ["x", "few", "late"]
    frame = pl.DataFrame({name: TABLE[name].tolist() for name in names})
    assert (report(frame, frame).by_pair == report(TABLE[names], TABLE[names]).by_pair).all()
    assert report(frame, SHUFFLED).by_pair[0, 2] > 0.2


def test_dates_are_cut_like_numbers():
    days = np.datetime64("2020-01-01") + np.arange(N)
    real = pd.DataFrame({"seen": pd.Series(days).astype("datetime64[ns]")})
    synthetic = pl.DataFrame({"seen": np.where(np.arange(N) < N / 2, days[0], days)})
    found = report(real, synthetic)
    labels, shares, others = found.shares["seen"]
    assert labels[:2] == ["from -inf", "from 2020-05-04"]
    assert labels[-1] == "missing"
    assert shares[:16] == pytest.approx([1 / 16] * 16, abs=0.001)
    assert others[0] == 0.5
    words = report(real.astype(str), synthetic)
    assert words.by_pair == found.by_pair == pytest.approx(0.4375, abs=0.001)
    assert report(real[:9], synthetic[-9:]).shares["seen"][0][0] == "2020-01-01"


@pytest.mark.parametrize(
    ("real", "synthetic", "target", "error", "message"),
    [
        (TABLE.to_numpy(), TABLE, None, TypeError, "real must be a data frame"),
        (TABLE, TABLE[["x"]], None, ValueError, "lacks .'kind'"),
        (TABLE[:1], TABLE, None, ValueError, "at least two records"),
        (TABLE, TABLE, "z", ValueError, "target must be a column of real"),
        (TABLE[["x"]], TABLE, "x", ValueError, "only column"),
        (TABLE, TABLE.assign(late=True), "late", ValueError, "two values"),
    ],
)
def test_bad_tables(real, synthetic, target, error, message):
    with pytest.raises(error, match=message):
        report(real, synthetic, target=target)
