"""Moments and models whose number of records is private: their plans, and what is refused.

What neighbours change in every release is in audit/test_size_leaks.py.
"""

import itertools
import warnings

import numpy as np
import pytest
from cases import costs_nothing, each
from scipy import sparse
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, cross_val_score

from skdpsco import (
    Ledger,
    PrivacyWarning,
    PrivateGridSearchCV,
    PrivateHuberRegressor,
    PrivateLasso,
    PrivateLinearClassifier,
    PrivateLinearRegressor,
    PrivateLogisticL1,
    PrivateLogisticRegression,
    PrivateMoments,
    PrivateRidge,
    RowBlocks,
)
from skdpsco.base import linear_model
from skdpsco.data import pieces
from skdpsco.data.design import as_design
from skdpsco.data.pieces import one_record, replace_one, sum_error
from skdpsco.inspection import plan, privacy_report
from skdpsco.losses import Logistic, Multinomial
from skdpsco.mechanisms.samplers import GRID_LIMIT, deviation_on, to_grid
from skdpsco.moments import release
from skdpsco.penalties import L2
from skdpsco.privacy import (
    AddedPoissonSampledGaussianEvent,
    Budget,
    GaussianEvent,
    epsilon_of,
    rho_of,
)
from skdpsco.privacy.events import leaves
from skdpsco.privacy.relations import ADD_OR_REMOVE, replacements, unit_relation
from skdpsco.scaling import record_count
from skdpsco.scaling.record_count import RECORD_COUNT, plan_count
from skdpsco.solvers import (
    SGD,
    Allowance,
    CompositeProblem,
    Problem,
    Remainder,
    row_check,
)
from skdpsco.solvers.l1 import screening
from skdpsco.solvers.l1.screening import plan_screen, select_coordinates
from skdpsco.solvers.penalized import gradient_descent
from skdpsco.solvers.penalized.gradient_descent import Coordinates, noisy_gradient

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (400, 2))
Y = X @ [0.5, -0.3] + 0.1
LABELS = (Y > 0.2).astype(int)
ADDED = {"relation": ADD_OR_REMOVE}
OPTIONS = {"feature_bound": 1.0, "target_bound": 1.0, **ADDED}


@pytest.fixture
def exact(monkeypatch):
    """A count without noise."""
    monkeypatch.setattr(record_count, "gaussian_mechanism", lambda rng, values, grid: grid)


@pytest.mark.usefixtures("as_they_are")
@pytest.mark.parametrize(
    "model",
    [
        PrivateRidge(**ADDED),
        *(PrivateLinearRegressor(radius=1.0, p=p, **ADDED) for p in (1.0, 1.5, np.inf)),
        *(
            PrivateLasso(radius=1.0, solver=solver, **ADDED)
            for solver in ("stagewise", "frank-wolfe", "noisy-frank-wolfe")
        ),
    ],
)
def test_without_noise_models_are_those_of_the_records(model):
    offset = 0.0 if isinstance(model, PrivateLasso) else 0.1
    model.set_params(epsilon=1e5, target_bound=1.0, fit_intercept=offset > 0.0)
    model.fit(X, Y - 0.1 + offset)
    assert model.coef_ == pytest.approx([0.5, -0.3], abs=0.05)
    assert model.intercept_ == pytest.approx(offset, abs=0.05)
    if isinstance(model, PrivateRidge):  # several targets are one release of moments
        several = model.fit(X, np.column_stack([Y, -Y]))
        assert several.privacy_.relation == ADD_OR_REMOVE
        assert several.coef_[0] == pytest.approx([0.5, -0.3], abs=0.05)


def test_without_noise_classes_are_those_of_the_records():
    options = {"epsilon": 1e6, "C": 0.1, "classes": [0, 1]}
    model = PrivateLogisticRegression(**options, **ADDED).fit(X, LABELS)
    assert model.coef_ == pytest.approx(LogisticRegression(C=0.1).fit(X, LABELS).coef_, abs=0.02)


@pytest.mark.parametrize("rho", [1e-3, 0.5, 40.0])
def test_a_count_costs_what_is_charged(rho):
    counted = plan_count(Allowance(rho))
    lost = 0.5 / deviation_on(counted.grid) ** 2  # by one more record, in zCDP
    assert 0.999 * rho_of(counted.event) <= lost <= rho_of(counted.event)
    assert rho_of(counted.event) == pytest.approx(RECORD_COUNT.share * rho)


@pytest.mark.parametrize("make", [PrivateHuberRegressor, PrivateLasso, PrivateLinearClassifier])
def test_fits_enter_a_ledger_and_say_what_is_private(make):
    y = LABELS if make is PrivateLinearClassifier else Y
    ledger = Ledger(1.0, 1e-6, relation=ADD_OR_REMOVE)
    report = make(epsilon=0.9, ledger=ledger, **ADDED).fit(X, y).privacy_
    assert ledger.charges()[0].rho == pytest.approx(report.rho)
    assert report.relation == ledger.weakest_relation() == ADD_OR_REMOVE
    assert "number of records private" in str(report)
    assert "2.0 % on number of records: about" in str(report)
    assert plan(make(epsilon=0.9, ledger=ledger, **ADDED), 1000, 2).event == report.event


def test_the_number_is_noisy_and_all_else_follows_from_it(monkeypatch):
    """Fits to other numbers of records with the same count make the same plan."""
    counts = {plan_count(Allowance(0.02)).release(400, np.random.default_rng(k)) for k in range(5)}
    assert len(counts) > 1
    assert plan_count(Allowance(1e-6)).release(1, np.random.default_rng(1)) >= 1
    monkeypatch.setattr(record_count.CountPlan, "release", lambda self, n, rng: 350)
    seen = []
    prepared = PrivateRidge._prepared

    def watched(self, task, n_samples, available):
        made = prepared(self, task, n_samples, available)
        seen.append((n_samples, made.event, made.last))
        return made

    monkeypatch.setattr(PrivateRidge, "_prepared", watched)
    for rows in (slice(300), slice(400)):
        PrivateRidge(**ADDED).fit(X[rows], Y[rows])
    assert len(seen) == 2 * (len(RECORD_COUNT.sizes) + 1)
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]
    assert [n for n, *_ in seen[: len(seen) // 2]] == [*RECORD_COUNT.sizes, 350]


@pytest.mark.usefixtures("exact")
def test_a_count_without_a_plan_is_replaced_by_one_that_was_rehearsed(monkeypatch):
    prepared, tried = PrivateRidge._prepared, []

    def failing(self, task, n_samples, available):
        tried.append(n_samples)
        if n_samples == 400:
            raise ValueError("There is no plan.")
        return prepared(self, task, n_samples, available)

    monkeypatch.setattr(PrivateRidge, "_prepared", failing)
    PrivateRidge(**ADDED).fit(X, Y)
    assert tried[-2:] == [400, 256]


def test_what_has_no_plan_fails_before_the_charge():
    model = PrivateRidge(epsilon=2e-4, n_iter=10000, **ADDED)
    costs_nothing(model, "Cannot split the budget for", np.zeros((2, 400)), Y[:2])


OF_BALLS = {"solver": "anytime-mirror-descent", "radius": 1.0}
REFUSED = [
    (PrivateLogisticRegression(solver=SGD(batch_size=9.0), **ADDED), "batch_size must be 'auto'"),
    (PrivateLinearClassifier(solver="phased-erm", **ADDED), "'replace-one' for PhasedERM"),
    (PrivateLinearRegressor(row_norm=1.0, **ADDED), "ProjectedDescent needs row_norm=None"),
    (PrivateRidge(solver="coordinate-descent", **ADDED), "'replace-one' for CoordinateDescent"),
    (PrivateLogisticL1(**OF_BALLS, **ADDED), "'replace-one' for AnytimeMirrorDescent"),
    (PrivateRidge(standard_errors=True, **ADDED), "standard_errors must be False"),
    (PrivateGridSearchCV(PrivateRidge(**ADDED), {"alpha": [1.0, 2.0]}), "in a search"),
    (PrivateRidge(relation="remove"), "'relation' parameter"),
    (
        PrivateMoments(**{**OPTIONS, "feature_bound": None}),
        "must be declared with relation='add-or-remove-o",
    ),
    (
        PrivateMoments(**{**OPTIONS, "target_bound": None}),
        "must be declared with relation='add-or-remove-o",
    ),
]


@each(("model", "match"), REFUSED)
@pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")
def test_what_is_refused(model, match):
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(ValueError, match=match):
        model.set_params(ledger=ledger).fit(X, LABELS)
    assert ledger.charges() == []


def test_more_that_is_refused(monkeypatch):
    public = PrivateRidge(epsilon=100.0).fit(X, Y)
    with pytest.raises(ValueError, match="init must be None for regressions"):
        PrivateRidge(**ADDED).fit(X, Y, init=public)
    public = PrivateLogisticRegression(epsilon=100.0, classes=[0, 1]).fit(X, LABELS)
    model = PrivateLogisticRegression(epsilon=1.0, classes=[0, 1], **ADDED)
    assert model.fit(X, LABELS, init=public).score(X, LABELS) > 0.9
    monkeypatch.setattr(record_count, "MOST_RECORDS_ADDED", 300)
    with pytest.raises(ValueError, match="at most 300 records with relation="):
        PrivateRidge(**ADDED).fit(X, Y)


def test_splits_by_numbers_of_records_are_not_covered():
    # One record less, and other records are in other folds.
    _, (first, _) = KFold(2).split(X)
    _, (second, _) = KFold(2).split(X[1:])
    assert len(set(first) ^ set(second + 1)) > 1
    model = PrivateLogisticRegression(classes=[0, 1], ledger=Ledger(9.0, 1e-5, **ADDED), **ADDED)
    with pytest.warns(PrivacyWarning, match="others are in other parts"):
        cross_val_score(model, X, LABELS, cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        model.fit(X, LABELS)


@pytest.mark.usefixtures("as_they_are")
@pytest.mark.usefixtures("exact")
def test_blocks_and_sparse_records():
    options = {"epsilon": 1e6, "target_bound": 1.0, "n_iter": 5, **ADDED}
    model = PrivateRidge(**options).fit(X, Y)
    blocks = RowBlocks.from_arrays(X, Y, block_size=150)
    assert PrivateRidge(**options).fit(blocks).coef_ == pytest.approx(model.coef_, abs=1e-3)
    rows = sparse.csr_matrix(X)
    assert PrivateRidge(**options).fit(rows, Y).coef_ == pytest.approx(model.coef_, abs=1e-3)


def test_sensitivities_of_sums(monkeypatch):
    assert one_record(100, False, 2.0) == replace_one(100, 2.0)
    assert one_record(100, True, 2.0) == one_record(7, True, 2.0)
    assert 2.0 < one_record(7, True, 2.0) < 2.1  # as much as the record says, and rounding
    error = sum_error(pieces.MOST_RECORDS_ADDED, 2.0, 2)
    assert one_record(7, True, 2.0, 3.0, 2, 4) == 3.0 + 4.0 * error
    assert error < 0.01
    assert linear_model.MOST_RECORDS_ADDED >= max(RECORD_COUNT.sizes)


# --- moments


def test_without_noise_moments_are_those_of_the_records():
    with pytest.warns(UserWarning, match="reproducible"):
        moments = PrivateMoments(epsilon=1e6, random_state=0, **OPTIONS).fit(X, Y)
    released = moments.moments_
    assert abs(released.n_samples - 400) <= 2
    table = np.column_stack([X, Y])
    assert moments.mean_ == pytest.approx(table.mean(axis=0), abs=0.01)
    assert moments.covariance_ == pytest.approx(np.cov(table.T, bias=True), abs=0.02)
    model, truth = PrivateRidge(alpha=2.0).fit(moments), Ridge(alpha=2.0).fit(X, Y)
    assert model.coef_ == pytest.approx(truth.coef_, abs=0.02)
    assert model.intercept_ == pytest.approx(truth.intercept_, abs=0.02)


@pytest.mark.filterwarnings("error")  # an advice would follow from the number of records
def test_the_number_of_records_is_noisy_and_nothing_else_tells_it():
    fits = [PrivateMoments(epsilon=0.5, **OPTIONS).fit(X[:n], Y[:n]) for n in (1, 7, *[400] * 5)]
    assert len({fit.moments_.n_samples for fit in fits[2:]}) > 1
    few = PrivateMoments(epsilon=0.01, **OPTIONS).fit(X[:1], Y[:1]).moments_.n_samples
    assert few >= 1
    assert type(few) is int
    assert len({fit.privacy_.event for fit in fits}) == 1


@pytest.mark.filterwarnings("ignore::skdpsco.UtilityWarning")
def test_a_ledger_for_added_records_is_charged():
    ledger = Ledger(1.0, 1e-6, relation=ADD_OR_REMOVE)
    moments = PrivateMoments(epsilon=0.9, ledger=ledger, **OPTIONS).fit(X, Y)
    PrivateRidge(ledger=ledger).fit(moments)
    first, second = ledger.charges()
    assert first.relation == second.relation == ledger.weakest_relation() == ADD_OR_REMOVE
    assert first.rho == pytest.approx(moments.privacy_.rho)
    assert second.rho == 0.0
    assert "number of records private" in str(moments.privacy_)
    assert any(line.startswith("there are at most") for line in moments.privacy_.assumptions)
    with pytest.raises(ValueError, match="PrivateMoments is for 'replace-one' neighbours"):
        PrivateMoments(epsilon=0.1, ledger=ledger).fit(X, Y)
    assert len(ledger.charges()) == 2


def test_a_replacement_is_a_record_added_and_one_removed():
    assert replacements("replace-one", by=ADD_OR_REMOVE) == 2
    assert replacements(unit_relation(3), by=ADD_OR_REMOVE) == 6
    ledger = Ledger(3.0, 1e-6)
    moments = PrivateMoments(epsilon=0.5, ledger=ledger, **OPTIONS).fit(X, Y)
    assert ledger.charges()[0].rho == pytest.approx(4.0 * moments.privacy_.rho)
    report = privacy_report(moments)
    assert report.relation == "replace-one"
    assert report.rho == pytest.approx(4.0 * moments.privacy_.rho)
    assert "own guarantee is for 'add-or-remove-one'" in str(report)
    assert privacy_report(PrivateMoments(**OPTIONS)).relation == "replace-one"


@pytest.mark.parametrize("mu", [1e-3, 0.2, 30.0])
def test_the_grid_holds_as_many_records_as_are_said(mu):
    planned = release.plan_matrix(None, 3, mu, True, None)
    most = release.most_records(planned)
    assert most * mu > 1e7 or most == release.MOST_RECORDS_ADDED
    assert abs(to_grid(2.0 * 1.15 * most, planned.matrix_grid)) < GRID_LIMIT // 2
    deviation = deviation_on(planned.matrix_grid)
    assert 1.15 / mu < deviation < 1.02 * 1.15 / mu  # half of it per record: no other noise


def test_moments_are_added_if_both_numbers_are_private():
    one, other = (PrivateMoments(epsilon=1.0, **OPTIONS).fit(X[a], Y[a])
                  for a in (slice(200), slice(200, None)))  # fmt: skip
    both = one + other
    assert both.n_samples == one.moments_.n_samples + other.moments_.n_samples
    assert both.privacy_.relation == ADD_OR_REMOVE
    public = PrivateMoments(epsilon=1.0, feature_bound=1.0, target_bound=1.0).fit(X, Y)
    with pytest.raises(ValueError, match="both are for 'add-or-remove-one'"):
        one + public


# --- samples


def test_what_samples_cost_follows_from_no_number_of_records():
    model = PrivateLogisticRegression(solver="sgd", classes=[0, 1], **ADDED)
    report = model.fit(X, LABELS).privacy_
    assert report.event == model.fit(X[:3], LABELS[:3]).privacy_.event
    assert plan(model, 10**5, 2).event == report.event
    events = list(leaves(report.event))
    ((sampling, count),) = [
        (e, k) for e, k in events if type(e) is AddedPoissonSampledGaussianEvent
    ]
    assert (sampling.sampling_probability, count) == (pytest.approx(0.05), model.n_iter_)
    assert 0.99 < epsilon_of(report.event, 1e-6) <= 1.0
    # Where charges add up, and where units are found first, batches hold all records.
    ledger = Ledger(1.0, 1e-6, **ADDED)
    model.set_params(ledger=ledger, epsilon=0.9).fit(X, LABELS)
    assert model.privacy_.rho == pytest.approx(model._budget().rho)
    ridge = PrivateRidge(solver="sgd", **ADDED).fit(X, Y)
    assert ridge.privacy_.rho == pytest.approx(ridge._budget().rho)


def test_samples_of_records_whose_number_is_not_the_count(monkeypatch):
    """A record is in a sample whatever was counted, and sums are divided by the count."""
    options = {"solver": "sgd", "epsilon": 100.0, "classes": [0, 1], "C": 0.01, **ADDED}
    for counted in (200, 800):
        monkeypatch.setattr(
            record_count.CountPlan, "release", lambda self, n, rng, count=counted: count
        )
        model = PrivateLogisticRegression(**options)
        coef = np.mean([model.fit(X, LABELS).coef_ for _ in range(5)], axis=0)  # deviation 0.01
        truth = LogisticRegression(C=0.01).fit(X, LABELS)
        assert coef == pytest.approx(truth.coef_, abs=0.05)
        assert f"about {counted}" in str(model.privacy_)


@pytest.mark.parametrize("loss", [Logistic(), Multinomial(3)])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_record_moves_the_sum_of_a_sample_by_what_is_charged(loss, is_sparse, monkeypatch):
    """Brute force: all records that may be added, to samples that hold them."""
    sums = []
    monkeypatch.setattr(
        gradient_descent, "gaussian_mechanism", lambda rng, out, grid: sums.append((out + 0, grid))
    )
    D = 3 * loss.n_outputs
    problem = CompositeProblem(
        loss, None, 9, 3, True, penalty=L2(0.1), unit=(1.0, 1.0, 0.0), sparse=is_sparse, added=True
    )
    planned = SGD().plan(problem, Remainder(Budget(1.0, 1e-6), GaussianEvent(50.0)))
    coordinates = Coordinates(np.array([0.5, 1.0, 1.0]), 0.7, 3.0)
    targets = (-1.0, 1.0) if loss.n_outputs == 1 else (0.0, 1.0, 2.0)
    largest = 0.0
    for x in itertools.product((-9.0, 0.3), (0.0, 1.0)):
        for t, point in itertools.product(targets, (np.zeros(D), np.linspace(-3.0, 3.0, D))):
            rows, y = np.array([x, (0.5, -0.2), (0.1, 0.9)]), np.array([t, 1.0, 1.0])
            for some in (slice(None), slice(1, None)):
                matrix = sparse.csr_matrix(rows) if is_sparse else rows
                design = as_design(matrix[some], np.ones(2), True)
                grid = planned.grid * coordinates.clip
                noisy_gradient(problem, coordinates, design, y[some], point, grid, None)
            (one, grid), (other, _) = sums[-2:]
            moved = np.linalg.norm(one - other) / deviation_on(grid)
            largest = max(largest, moved * planned.sampling.noise_multiplier)
    assert 0.8 < largest <= 1.0


@pytest.mark.parametrize("loss", [Logistic(), Multinomial(3)])
def test_what_a_record_adds_where_sparse_coordinates_are_selected(loss, monkeypatch):
    """Sums of derivatives, then of gradients, with a record and without it."""
    d, K, seen = 4, loss.n_outputs, []

    def record(rng, values, sensitivity, noise_multiplier, magnitude):
        seen.append((values.copy(), sensitivity))
        if len(seen) > 2:
            values[:] = seen[len(seen) - 3][0]  # what was released with the record
        return 1.0

    monkeypatch.setattr(screening, "release", record)
    problem = Problem(loss, None, 9, d + 1, True, sparse=True, added=True)
    planned, _ = plan_screen(problem, 1.0)
    largest = 0.0
    for target in (-1.0, 1.0) if K == 1 else (0.0, 1.0, 2.0):
        rows = np.vstack([9.0 * np.eye(d)[:1], RNG.uniform(-2, 2, (5, d))])
        y = np.array([target, *(RNG.integers(K, size=5) if K > 1 else np.ones(5))])
        seen.clear()
        for some in (slice(None), slice(1, None)):
            design = as_design(sparse.csr_matrix(rows[some]), np.ones(d), True)
            select_coordinates(planned, problem, design, y[some], None)
        for (one, sensitivity), (other, same) in zip(seen[:2], seen[2:], strict=True):
            assert sensitivity == same
            largest = max(largest, np.linalg.norm(one - other) / sensitivity)
    assert 0.4 < largest <= 1.0


@pytest.mark.usefixtures("as_they_are")
@each("kernel", ["add_gradients", "predict_all", "norms_of"])
@each("table", [np.asarray, sparse.csr_matrix])
def test_a_machine_whose_numbers_depend_on_the_row_is_refused(monkeypatch, kernel, table):
    """Planted: the last row of tables of an odd length is computed in another way."""
    original = getattr(row_check, kernel)

    def of_another_machine(X, *arguments):
        total = original(X, *arguments)
        out = arguments[5][0] if kernel == "add_gradients" else arguments[-1]
        n = len(arguments[0]) if "gradient" in kernel else len(out)
        if n % 2:
            out[(n - 1) % len(out)] *= 1.0 + 2.0**-52
        return total

    X = np.random.default_rng(0).uniform(-1.0, 1.0, (300, 4))
    ledger = Ledger(10.0, 1e-6, relation=ADD_OR_REMOVE)
    # Without conditioning, which stores records in an order that `norms_of` does not read.
    model = PrivateLogisticRegression(
        epsilon=1.0, feature_bound=1.0, classes=[0, 1], relation=ADD_OR_REMOVE,
        ledger=ledger,
    )  # fmt: skip
    y = (X[:, 0] > 0).astype(int)
    model.fit(table(X), y)
    spent = ledger.spent()
    with monkeypatch.context() as planted:
        planted.setattr(row_check, "_passed", set())
        planted.setattr(row_check, kernel, of_another_machine)
        with pytest.raises(RuntimeError, match="the row in which it stands"):
            model.fit(table(X), y)
    assert ledger.spent() == spent


def test_rows_are_checked_in_the_precision_of_every_number_of_records(monkeypatch):
    """Planted where records are few: these are read in single precision, others in double."""
    original, X = row_check.add_gradients, np.random.default_rng(0).uniform(-1.0, 1.0, (300, 4))

    def of_another_machine(design, *arguments):
        total = original(design, *arguments)
        if design.values.dtype == np.float32 and len(arguments[0]) % 2:
            arguments[5][0][(len(arguments[0]) - 1) % len(arguments[5][0])] += 2.0**-20
        return total

    monkeypatch.setattr(row_check, "_passed", set())
    monkeypatch.setattr(row_check, "add_gradients", of_another_machine)
    model = PrivateRidge(target_bound=1.0, relation=ADD_OR_REMOVE)
    with pytest.raises(RuntimeError, match="the row in which it stands"):
        model.fit(X, X[:, 0])


def test_bounds_of_many_columns_are_found():
    """Plans for the largest number of records exist, whatever the number of columns is."""
    X = 1000.0 + np.random.default_rng(0).normal(size=(2000, 30))
    model = PrivateRidge(
        epsilon=10.0, feature_bound=None, target_bound=1.0, relation=ADD_OR_REMOVE
    ).fit(X, X[:, 0] - 1000.0)
    assert (model.feature_bound_ >= 1000.0).all()
