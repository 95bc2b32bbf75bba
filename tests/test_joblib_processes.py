"""Sums over blocks, searches and parts of pipelines that run in processes of joblib's."""

import joblib
import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from test_blocks import check_sums
from test_model_selection import check_jobs
from test_safe_use import check_workers
from test_search_guards import MODEL, SEARCH, N, X, Y, first_columns

from skdpsco import PrivateGridSearchCV
from skdpsco.model_selection import private_cross_val_score
from skdpsco.preprocessing import PrivateStandardScaler

pytestmark = pytest.mark.filterwarnings("ignore::skdpsco.PrivacyWarning")


class Mapped(TransformerMixin, BaseEstimator):
    """Fails where its records are in a file."""

    def fit(self, X, y=None):
        base = X
        while base is not None:
            if isinstance(base, np.memmap):
                raise OSError("records in shared memory")
            base = getattr(base, "base", None)
        return self

    def transform(self, X):
        return X


def test_sums_searches_and_warnings_in_the_same_processes():
    check_sums("loky", 2)
    check_jobs("loky")
    check_workers("loky")


def test_steps_that_are_fitted_in_other_processes_are_charged_once():
    parts = [(name, PrivateStandardScaler(), [k]) for k, name in enumerate("ab")]
    transformer = ColumnTransformer(parts, sparse_threshold=0, n_jobs=2)
    search = PrivateGridSearchCV(make_pipeline(transformer, MODEL), {}, **SEARCH)
    with joblib.parallel_config(backend="multiprocessing"):
        search.set_params(refit=False).fit(X, Y)
    first, second = (part[1] for part in search.best_estimator_[0].transformers_[:2])
    assert 0.0 < first.privacy_.rho < search.privacy_.rho / 3 + 1e-9
    assert first.ledger is second.ledger is None


def test_records_do_not_get_into_shared_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path))
    wide = np.zeros((N, 4000))  # 2.5 MB, beyond joblib's limit of 1 MB
    wide[:, :3] = X
    first = FunctionTransformer(first_columns)
    inner = FeatureUnion([("a", make_pipeline(Mapped(), first)), ("b", first)], n_jobs=2)
    steps = make_pipeline(Mapped(), inner, MODEL)
    vouched = ["mapped", "featureunion__a__mapped", first_columns]
    with joblib.parallel_config(backend="multiprocessing"):
        PrivateGridSearchCV(steps, {}, record_wise=vouched, **SEARCH).fit(wide, Y)
        steps, options = make_pipeline(Mapped(), first, MODEL), {"record_wise": vouched[::2]}
        PrivateGridSearchCV(steps, {}, n_jobs=2, **options, **SEARCH).fit(wide, Y)
        private_cross_val_score(steps, wide, Y, cv=2, n_jobs=2, **options)
