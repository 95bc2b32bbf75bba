"""Plant privacy bugs one at a time in a copy, and list those that no test finds: `make mutants`.

Each bug names the test files that should find it, so that a bug costs seconds and not the whole
suite. An argument picks the bugs whose file or name contains it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LIMIT = 900  # seconds, after which a bug counts as found: it made a test run for ever


class Bug(NamedTuple):
    """``old`` becomes ``new`` in ``file``, of the package; ``tests`` should find it.

    "audit/search" stands for tests/audit/test_search.py.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str


BUGS = [
    # Mechanisms and grids
    Bug("rounding of a Gaussian grid is free", "mechanisms/samplers.py",
        "rounding = 2 * GRID_ROUNDING", "rounding = 0 * GRID_ROUNDING", "mechanism_grids"),
    Bug("rounding of an exponential grid is free", "mechanisms/samplers.py",
        "epsilon0 * 2**SCALE_BITS - 4 * GRID_ROUNDING", "epsilon0 * 2**SCALE_BITS",
        "mechanism_grids"),
    Bug("an exponential grid spends twice epsilon0", "mechanisms/samplers.py",
        "epsilon0 * 2**SCALE_BITS - 4", "2 * epsilon0 * 2**SCALE_BITS - 4", "mechanism_grids"),
    Bug("large statistics are clamped", "mechanisms/samplers.py",
        "magnitude / (GRID_LIMIT // 2)", "0.0 * magnitude", "mechanism_grids"),
    Bug("a rounding error does not grow with n", "mechanisms/samplers.py",
        "n_terms * bound * (1 + 2.0**-40)", "bound * (1 + 2.0**-40)", "summation_error"),
    Bug("the Gaussian mechanism adds nothing", "mechanisms/samplers.py",
        "to_grid(values[j], grid) + discrete_gaussian(rng, SCALE_BITS)", "to_grid(values[j], grid)",
        "mechanisms"),
    Bug("one draw of noise for all coordinates", "mechanisms/samplers.py",
        "    for j in range(values.shape[0]):\n        values[j] = (to_grid(values[j], grid) + "
        "discrete_gaussian(rng, SCALE_BITS)) * grid",
        "    noise = discrete_gaussian(rng, SCALE_BITS)\n    for j in range(values.shape[0]):\n"
        "        values[j] = (to_grid(values[j], grid) + noise) * grid", "mechanisms"),
    Bug("zero counts twice in a discrete Laplace draw", "mechanisms/samplers.py",
        "if y > 0:  # otherwise", "if y >= 0:  # otherwise", "mechanisms"),
    Bug("a discrete Gaussian draw accepts too much", "mechanisms/samplers.py",
        "bernoulli_exp(rng, low * low, 2 * bits + 1)",
        "bernoulli_exp(rng, low * low, 2 * bits + 2)",
        "mechanisms"),
    Bug("an exponential draw is twice as sharp", "mechanisms/samplers.py",
        "bernoulli_exp(rng, best - scores[k], bits)",
        "bernoulli_exp(rng, 2 * (best - scores[k]), bits)", "mechanisms"),
    Bug("all but the first score have no Laplace noise", "mechanisms/samplers.py",
        "noisy = scores[k] + discrete_laplace(rng, bits)", "noisy = scores[k]", "mechanisms"),
    Bug("the scale of generalised Gaussian noise is halved", "mechanisms/generalised_gaussian.py",
        "sensitivity * math.sqrt((order - 1.0)", "0.5 * sensitivity * math.sqrt((order - 1.0)",
        "generalised_gaussian"),
    Bug("noise is keyed by zeros", "_random.py",
        'int.from_bytes(urandom(16), "little")', "0", "random"),
    Bug("a fixed seed is not reported", "_random.py",
        "np.random.Generator(np.random.PCG64(seed)), True",
        "np.random.Generator(np.random.PCG64(seed)), False", "random"),
    # Sums over records
    Bug("replacing a record counts as removing it", "data/pieces.py",
        "moved = 2.0 * bound if", "moved = bound if", "mechanism_grids"),
    Bug("rounding is counted for one of two data sets", "data/pieces.py",
        "moved + 2.0 * math.sqrt(parts)", "moved + 1.0 * math.sqrt(parts)",
        "mechanism_grids"),
    Bug("a query is read twice, and not compared", "data/record_sums.py",
        "expected=Hidden(found))", "expected=None)", "arrow_streams"),
    Bug("a query may return more rows than before", "data/arrow_blocks.py",
        "stop == self.num_rows and quietly", "False and quietly", "arrow_streams"),
    Bug("records that are read once are not compared", "data/record_sums.py",
        "return values_of(self._each(read_pair))", "return (part.read() for part in self._parts)",
        "arrow_streams"),
    Bug("rounding of several sums counts once", "data/pieces.py",
        "2.0 * math.sqrt(parts) *", "2.0 *", "mechanism_grids"),
    Bug("the tree of a sum adds no rounding", "data/pieces.py",
        "min(n_samples, PIECE_ROWS) + TREE", "min(n_samples, PIECE_ROWS) // 2", "summation_error"),
    Bug("features are clipped from above only", "_clipping.py",
        "return max(-b, min(b, x))", "return min(b, x)", "design record_stream"),
    Bug("the norm of a record is not clipped", "_clipping.py",
        "size = math.sqrt(total) * norm", "size = math.sqrt(total)", "clipping"),
    # Accounting
    Bug("the exponential mechanism costs half", "privacy/accounting.py",
        "ExponentialMechanismEvent: lambda event: event.epsilon0**2 / 8",
        "ExponentialMechanismEvent: lambda event: event.epsilon0**2 / 16", "accountant"),
    Bug("pure DP costs a quarter", "privacy/accounting.py",
        "PureDPEvent: lambda event: event.epsilon0**2 / 2",
        "PureDPEvent: lambda event: event.epsilon0**2 / 8", "accountant"),
    Bug("noisy max with Laplace noise costs as the exponential mechanism",
        "privacy/accounting.py", "LaplaceNoisyMaxEvent: lambda event: event.epsilon0**2 / 2",
        "LaplaceNoisyMaxEvent: lambda event: event.epsilon0**2 / 8", "accountant"),
    Bug("the curve of bounded range is too low", "privacy/_gdp.py",
        "target = 2 / (1 + math.exp(epsilon0 / 2))", "target = 2 / (1 + math.exp(epsilon0 / 4))",
        "accountant"),
    Bug("more tries cost nothing", "privacy/random_stopping.py",
        "math.log(tries.mean) + b * _tilt(tries, rho, b)", "b * _tilt(tries, rho, b)",
        "random_stopping"),
    Bug("tries cost as if their shape were 0", "privacy/random_stopping.py",
        "return (1 + self.shape) * self._relief(delta)", "return self._relief(delta)",
        "random_stopping"),
    Bug("the number of Poisson tries does not depend on the best one", "privacy/random_stopping.py",
        "return self.mean * delta", "return 0.0 * delta", "random_stopping"),
    # The fit path
    Bug("a ledger is not charged", "base/private_estimator.py",
        "        ledger.charge(event, name, parameters, relation)\n", "        pass\n",
        "ledger_estimators"),
    Bug("the charge comes after the noise", "base/private_estimator.py",
        '            ledger.charge(event, name, parameters, relation)\n'
        '        except BudgetExceededError as error:\n'
        '            calls = callers()\n'
        '            if calls.hides_errors:\n'
        '                warn_utility(BUDGET_ENDED.format(calls.wrapper, error), stacklevel, calls)\n'  # noqa: E501
        '            raise\n'
        '    release = Release(rng, seeded, assumptions)\n'
        '    with np.errstate(all="ignore"):  # a warning about underflow would reveal data\n'
        '        yield release\n',
        '            pass\n'
        '        except BudgetExceededError as error:\n'
        '            calls = callers()\n'
        '            if calls.hides_errors:\n'
        '                warn_utility(BUDGET_ENDED.format(calls.wrapper, error), stacklevel, calls)\n'  # noqa: E501
        '            raise\n'
        '    release = Release(rng, seeded, assumptions)\n'
        '    with np.errstate(all="ignore"):  # a warning about underflow would reveal data\n'
        '        yield release\n'
        '    if ledger is not None:\n'
        '        ledger.charge(event, name, parameters, relation)\n',
        "ledger_estimators"),
    Bug("a plan may cost more than it may spend", "base/private_estimator.py",
        "    check_cost(plan.event, available)\n", "", "solvers_of_solvers fit_path"),
    Bug("underflow of NumPy warns in a fit", "base/private_estimator.py",
        'with np.errstate(all="ignore"):  # a warning', "with np.errstate():  # a warning",
        "canaries fit_path"),
    Bug("reports do not say that a seed was fixed", "base/private_estimator.py",
        "seeded=seeded,", "seeded=False,", "report"),
    Bug("seeds are in the history of a ledger", "base/private_estimator.py",
        'HIDDEN = "ledger", "random_state"', 'HIDDEN = ("ledger",)', "ledger_estimators"),
    Bug("a failed fit forgets nothing", "base/private_estimator.py",
        "        draft = copy(self)\n        _forget(draft)\n", "        draft = self\n",
        "fit_path"),
    # What only one record has
    Bug("declared classes are those that occur", "base/labels.py",
        "return unique, index", "return np.unique(y), np.searchsorted(np.unique(y), y)",
        "audit/domain_inference"),
    Bug("plain arrays may hold NaN", "_validation.py",
        "return bool(np.isfinite(total) and np.isfinite(y.sum()))", "return True",
        "audit/nan_injection"),
    Bug("knots tell a private number of records", "preprocessing/splines.py",
        "ratio_of(n, available.mu, d, added)", "ratio_of(n, available.mu, d, False)",
        "audit/size_leaks"),
    # Transformers
    Bug("the scaler's sensitivity is halved", "preprocessing/scaler.py",
        "2.0 * math.sqrt(n_features)", "math.sqrt(n_features)", "preprocessing_private"),
    Bug("the scaler's squares cost nothing", "preprocessing/scaler.py",
        "sums[d:] *= SQUARES", "sums[d:] *= 1.0", "preprocessing_private"),
    Bug("the scaler finds ranges for nothing", "preprocessing/scaler.py",
        "compose(*(one.event for one in (*stages, plan)))", "plan.event",
        "planned_noise"),
    Bug("ranges of raw columns leave all of the budget", "preprocessing/raw_ranges.py",
        "left_after(left, centring.event)", "left", "planned_noise preprocessing_private"),
    Bug("the selector's sensitivity is halved", "preprocessing/selector.py",
        "change = 2.0 * width", "change = 1.0 * width", "audit/preprocessing"),
    Bug("every draw of the selector spends the whole budget", "preprocessing/selector.py",
        "(rho - rho_of(spent)) / n_selected)", "(rho - rho_of(spent)))", "preprocessing_private"),
    Bug("the selector finds ranges for nothing", "preprocessing/selector.py",
        "compose(*(stage.event for stage in stages), plan.event)", "plan.event",
        "planned_noise"),
    Bug("the selector charges one draw of many", "preprocessing/selector.py",
        "RepeatedEvent(ExponentialMechanismEvent(epsilon0), n_selected)",
        "ExponentialMechanismEvent(epsilon0)", "preprocessing_private planned_noise"),
    Bug("the clipper's scores of a centre change by half", "preprocessing/clipper.py",
        "exponential_grid(2.0, epsilon0", "exponential_grid(1.0, epsilon0",
        "audit/preprocessing"),
    # Stages
    Bug("the centre of features: sensitivity of a removal", "scaling/conditioning.py",
        "change=slack if added else 2.0 * slack", "change=slack",
        "audit/conditioning_noise"),
    Bug("squares of features: a sign's worth too little", "scaling/conditioning.py",
        "change=square if added else math.sqrt(2.0) * square", "change=square / 2",
        "audit/conditioning_noise"),
    Bug("the centre of features: rounding of long rows is that of their differences",
        "scaling/conditioning.py", "one_record(n, added, 2.0**8,", "one_record(n, added, 2.0**-8,",
        "audit/conditioning_noise"),
    Bug("the worst of two costs: only rho is compared", "privacy/spending.py",
        " and mu <= gdp_of(cost) < math.inf", "", "remaining_budget"),
    Bug("the worst of two costs: pure privacy is not compared", "privacy/spending.py",
        " if pure_epsilon_of(cost) >= pure", "", "remaining_budget"),
    Bug("Gaussian noise counts as pure", "privacy/accounting.py",
        "if any(type(leaf) not in _PURE for leaf, _ in found):",
        "found = [(leaf, count) for leaf, count in found if type(leaf) in _PURE]\n    if False:",
        "accountant"),
    Bug("delta=0: epsilon is not compared", "privacy/accounting.py",
        "return pure_epsilon_of(for_units(event, k)) <= budget.epsilon",
        "return pure_epsilon_of(for_units(event, k)) <= 2 * budget.epsilon", "pure_privacy"),
    Bug("delta=0: a release is made whatever it costs", "base/private_estimator.py",
        "if budget.delta == 0 and not allows(budget, event):", "if False:", "pure_privacy"),
    Bug("delta=0: a unit has the epsilon0 of one record", "privacy/accounting.py",
        "epsilon0=max_records_per_unit * draw.epsilon0", "epsilon0=draw.epsilon0", "pure_privacy"),
    Bug("delta=0: a ledger enters the epsilon of one record", "privacy/ledger.py",
        "n_replacements * pure_epsilon_of(event)", "pure_epsilon_of(event)", "pure_privacy"),
    Bug("bounds by levels: sensitivity halved", "scaling/feature_bounds.py",
        '"levels": one_record(n, added, slack)', '"levels": one_record(n, added, slack / 2)',
        "audit/levels_noise"),
    Bug("bounds by levels: three rounds cost as one", "scaling/feature_bounds.py",
        "(share - 3.0 * part) / rounds, rounds)", "(share - 3.0 * part) / rounds, 1)",
        "audit/levels_noise"),
    Bug("bounds by levels: differences keep their length", "scaling/feature_bounds.py",
        "1.0 / np.maximum(norms, c)", "np.full(len(norms), 1.0 / c)", "audit/levels_noise"),
    Bug("bounds by levels: a record fills one column", "scaling/feature_bounds.py",
        '"filled": math.sqrt(d)', '"filled": 1.0', "audit/levels_noise"),
    Bug("bounds by levels: a record is beyond one bound", "scaling/feature_bounds.py",
        '"beyond": math.sqrt(d)', '"beyond": 1.0', "audit/levels_noise"),
    Bug("bounds by levels: the norms of two rounds are free", "scaling/feature_bounds.py",
        "(part / n_norms, n_norms)", "(part / n_norms, tuning.n_norms)", "audit/levels_noise"),
    Bug("bounds by levels: sums have no noise", "scaling/feature_bounds.py",
        'gaussian_mechanism(rng, shifts, grids["levels"])',
        'gaussian_mechanism(rng, shifts.copy(), grids["levels"])', "audit/levels_noise"),
    Bug("calibration: sensitivity halved", "scaling/calibration.py",
        "change = math.sqrt(2.0) if added else 2.0",
        "change = 1.0", "audit/calibration_noise"),
    Bug("calibration: a long score is half a record", "scaling/calibration.py",
        'gaussian_grid(1.0, multiplier["spread"]', 'gaussian_grid(0.5, multiplier["spread"]',
        "audit/calibration_noise"),
    Bug("calibration: a record moves one of two sums", "scaling/calibration.py",
        "added, 1.0, math.sqrt(2.0), parts=2", "added, 1.0, 0.7, parts=2",
        "audit/calibration_noise"),
    Bug("calibration: a record moves one class", "scaling/calibration.py",
        "1.0 if added else math.sqrt(2.0)  #", "1.0  #", "audit/calibration_noise"),
    Bug("the centre of features: norms of numbers that were rounded", "scaling/conditioning.py",
        "read_only(clipped(X.data, X.bounds[X.indices]))",
        "read_only(np.float32(clipped(X.data, X.bounds[X.indices])))",
        "audit/conditioning_noise"),
    Bug("the centre of features: its second step is that of half a record",
        "scaling/conditioning.py", '"residual": mean,', '"residual": mean / 2.0,',
        "audit/conditioning_noise"),
    Bug("columns far from 0: sensitivity halved", "scaling/narrowing.py",
        "math.sqrt(2.0 * n_columns)", "math.sqrt(0.5 * n_columns)", "audit/narrowing_noise"),
    Bug("columns far from 0: all rounds cost as one", "scaling/narrowing.py",
        "(share / tuning.n_rounds, tuning.n_rounds)", "(share, 1)", "audit/narrowing_noise"),
    Bug("columns far from 0: later rounds have no noise", "scaling/narrowing.py",
        "gaussian_mechanism(rng, counts, self",
        "gaussian_mechanism(rng, counts if t == 0 else counts.copy(), self",
        "audit/narrowing_noise"),
    Bug("columns far from 0: counts see values that were not clipped", "scaling/narrowing.py",
        "clip(X.values[i, j], X.bounds[j]) * unit[j]", "X.values[i, j] * unit[j]", "narrowing"),
    Bug("columns far from 0: intervals are free", "scaling/conditioning.py",
        "compose(search.event, plan.event)", "plan.event", "planned_noise"),
    # Solvers
    Bug("selection: the descent spends twice", "solvers/l1/stagewise.py",
        "Allowance(0.5 * self.mu**2)", "Allowance(self.mu**2)", "planned_noise"),
    Bug("columns: values are not clipped", "data/record_sums.py",
        "some = columns_of(X, 0, n_records, given)", "some = X.values[:, given] / X.bounds[given]",
        "design"),
    Bug("screening: halved", "solvers/l1/screening.py",
        "release(rng, gradient, one_record(n, added, size)",
        "release(rng, gradient, one_record(n, added, size / 2)", "screen"),
    Bug("paths: scores of vertices move by half", "solvers/l1/vertex_path.py",
        "width = exponential_grid(2.0 * change", "width = exponential_grid(change", "frank_wolfe"),
    Bug("paths: the stopping rule is free", "solvers/l1/vertex_path.py",
        "        of_stop = ExponentialMechanismEvent(epsilon_stop)\n", "",
        "planned_noise"),
    Bug("noisy Frank-Wolfe: every step spends the whole budget", "solvers/l1/frank_wolfe.py",
        "math.sqrt(n_iter) / mu, D", "1.0 / mu, D", "planned_noise"),
    Bug("phased ERM: halved", "solvers/lp_ball/noisy_step.py",
        "replace_one(n_records, longest, factor * longest)",
        "replace_one(n_records, longest, factor * longest / 2)", "audit/phased_erm_noise"),
    Bug("trees: halved", "solvers/lp_ball/tree_bounds.py",
        "return 2.0 * (norm + summation", "return 1.0 * (norm + summation",
        "audit/tree_neighbours"),
    Bug("scales of columns: sensitivity halved", "scaling/column_scales.py",
        "problem.added, 1.0, change=1.0)", "problem.added, 1.0, change=0.5)",
        "audit/coordinate_descent_noise"),
    Bug("coordinate descent: halved", "solvers/penalized/coordinate_descent.py",
        "return 2.0 * bound + 2.0 * summation", "return bound + 2.0 * summation",
        "audit/coordinate_descent_noise"),
    Bug("coordinate descent: passes are charged, not steps",
        "solvers/penalized/coordinate_descent.py",
        "RepeatedEvent(GaussianEvent(multiplier), n_passes * D)",
        "RepeatedEvent(GaussianEvent(multiplier), n_passes)", "planned_noise"),
    Bug("gradient descent: halved", "solvers/penalized/gradient_descent.py",
        "problem.added, rounded, factor * bound, 2)",
        "problem.added, rounded, factor * bound / 2, 2)",
        "audit/gradient_noise"),
    Bug("groups: a record leaves no group", "solvers/groups/descent.py",
        "changed = min(2 * r, k)", "changed = min(r, k)", "audit/group_dro"),
    Bug("groups: a record has one loss", "solvers/groups/descent.py",
        "replace_one(n, 1.0, math.sqrt(changed)", "replace_one(n, 1.0, 1.0", "audit/group_dro"),
    Bug("links: halved", "solvers/groups/monotone_glm.py",
        "problem.n_features, self.slope)", "problem.n_features, 0.5 * self.slope)",
        "audit/monotone_glm"),
    Bug("saddle points: a block's sensitivity is that of a removal", "solvers/saddle/geometry.py",
        "return 2.0 * self.lipschitz_l2 if", "return self.lipschitz_l2 if", "mirror_prox"),
    Bug("synthesis: cells change by one", "solvers/synthesis/measure_project.py",
        "CELLS, math.sqrt(2.0)", "CELLS, 1.0", "audit/measure_project_noise"),
    Bug("synthesis: bins are counted at one level", "synthesis/learned_bins.py",
        "math.sqrt(2.0 * len(merged) * TREE_LEVELS)", "math.sqrt(2.0 * len(merged))",
        "learned_bins"),
    Bug("synthesis: merged bins ignore constraints", "synthesis/bins.py",
        "{0, *self.forced, self.fine.n_intervals}", "{0, self.fine.n_intervals}",
        "synthetic_constraints"),
    Bug("additive: a replaced record moves one count", "additive/densities.py",
        "n_columns * (1.0 if self.added else 2.0)", "n_columns * 1.0",
        "audit/miscalibration"),
    Bug("additive: counts without noise decide about a closer look", "additive/densities.py",
        "numbers, trees, weights, rest, rng", "numbers, trees, cells[:, 2:], rest, rng",
        "audit/miscalibration"),
    Bug("additive: products of a record are not shortened", "additive/pairs.py",
        "residuals /= np.maximum(np.sqrt(np.square(residuals).sum(axis=1)), largest)[:, None]",
        "residuals /= 1.0", "additive"),
    Bug("standard errors: products of gradients, half their sensitivity", "solvers/newton_step.py",
        'grid("products", moved,', 'grid("products", 0.5 * moved,', "standard_errors"),
    Bug("survival: variance of risks, half its sensitivity", "solvers/newton_step.py",
        'grid("risk", replace_one(n, 2.0 * slack, 2.0 * slack), 2)',
        'grid("risk", replace_one(n, slack, slack), 2)', "standard_errors"),
    Bug("survival: a replaced person changes one cell", "survival/_counts.py",
        "else math.sqrt(2.0)  #", "else 1.0  #", "survival"),
    Bug("survival: a replaced person enters nowhere", "survival/_counts.py",
        "sensitivity = 2.0 if", "sensitivity = math.sqrt(2.0) if", "survival"),
    Bug("survival: an event is counted among the censored, too", "survival/_counts.py",
        "-signed[signed < 0.0]", "np.abs(signed)", "survival"),
    Bug("survival: who is seen after the horizon has the event", "survival/_records.py",
        "event &= time <= times[-1]", "event &= time >= 0.0", "survival"),
    Bug("splines: densities may spend what ranges have spent", "preprocessing/splines.py",
        "available, events = left_after(available, bounds.event), [bounds.event]",
        "events = [bounds.event]", "planning"),
    Bug("synthesis: measured queries halved", "solvers/synthesis/select_measure.py",
        "gaussian_grid(2.0 + 2.0 * rounding", "gaussian_grid(1.0 + 2.0 * rounding",
        "audit/select_measure_noise"),
    Bug("synthesis: draws of queries halved", "solvers/synthesis/multiplicative_weights.py",
        "change = 2.0 * width", "change = 1.0 * width",
        "audit/synthesis_choices"),
    # Moments that are released once, units of several records, weights
    Bug("moments once: the matrix halved", "moments/release.py",
        "MOST_RECORDS_ADDED, added, square, change)",
        "MOST_RECORDS_ADDED, added, square, change / 2)", "audit/private_moments_noise"),
    Bug("moments once: the ones are free", "moments/release.py",
        "square = (1.0 + MATRIX.one) *", "square = 1.0 *", "audit/private_moments_noise"),
    Bug("moments once: a long row counts half", "moments/release.py",
        'gaussian_grid(1.0, multiplier["norm"]', 'gaussian_grid(0.5, multiplier["norm"]',
        "audit/private_moments_noise"),
    Bug("moments once: rows keep their length", "moments/table_sums.py",
        "1.0 / max(math.sqrt(_sum_of_squares(row)), c)", "1.0 / c",
        "audit/private_moments_noise"),
    Bug("what follows from moments seems to cost nothing beside other fits", "inspection/_steps.py",
        "report.event if report.released is None else report.released", "report.event",
        "private_moments"),
    Bug("targets: several of a record count as one", "scaling/target.py",
        "gaussian_grid(float(n_targets), multiplier", "gaussian_grid(1.0, multiplier", "target"),
    Bug("targets: counts of a search cost what one does", "scaling/target.py",
        "RepeatedEvent(GaussianEvent(multiplier), TARGET.n_counts)", "GaussianEvent(multiplier)",
        "target"),
    Bug("searches: a count is steered by without its noise", "scaling/quantiles.py",
        "gaussian_mechanism(rng, count, plan.grid)\n        odds = 2.0 * TRUST * (count[0]",
        "gaussian_mechanism(rng, count, plan.grid)\n        odds = 2.0 * TRUST * (above[k]",
        "quantiles"),
    Bug("units: k records cost k times as much", "privacy/accounting.py",
        "ZCDPEvent(max_records_per_unit**2 * rho)", "ZCDPEvent(max_records_per_unit * rho)",
        "units"),
    Bug("units: a budget is spent on one record", "privacy/budget.py",
        "_rho(self.epsilon, self.delta) / self.max_records_per_unit**2",
        "_rho(self.epsilon, self.delta)", "units"),
    Bug("units: a ledger enters what one record costs", "privacy/ledger.py",
        "n_replacements**2 * rho_of(event)", "rho_of(event)", "units"),
    Bug("units: a draw has the words of the noise", "data/units.py",
        "SeedSequence(seed, spawn_key=(1,))", "SeedSequence(seed)", "units_in_fits"),
    Bug("units: rows are in the order of units", "data/units.py",
        "return rng.permutation(rows.ravel())", "return rows.ravel()", "units"),
    Bug("units: the exact curve is that of one record", "base/private_estimator.py",
        "alone = self.ledger is None and budget.max_records_per_unit == 1",
        "alone = self.ledger is None", "units_in_fits"),
    Bug("units: fits draw from parts of a ledger", "base/private_estimator.py",
        'getattr(ledger, "is_part", False)', "False", "units_in_fits"),
    Bug("units: fits of a search draw from its parts", "model_selection/_allotment.py",
        '== "max_records_per_unit" and value is not None', '== "max_records_per_unit" and False',
        "units_in_fits"),
    Bug("each of several targets may spend the budget", "linear_model/_several_targets.py",
        "budget.rho * shares / shares.sum()", "budget.rho * shares", "several_targets"),
    Bug("weights beyond their bound count", "_validation.py",
        "np.minimum(weights, largest) / largest", "weights / largest", "weights"),
    Bug("a query does not clip", "moments/query.py",
        "f\"CASE WHEN x{j} BETWEEN -{b} AND {b} \"",
        "f\"CASE WHEN x{j} BETWEEN -{most} AND {most} \"", "moments_query"),
    Bug("the sums of a query may be of more records", "moments/query.py",
        "if whole[0] != n:", "if whole[0] < n:", "moments_query"),
    Bug("rows of a query are longer than their norm", "moments/query.py",
        "/ (c * c)", "/ c", "moments_query"),
    # Records that are added or removed, weights of classes of worst cases
    Bug("a count of records has half its noise", "scaling/record_count.py",
        'gaussian_grid(1.0, multiplier["count"]', 'gaussian_grid(0.5, multiplier["count"]',
        "added_records"),
    Bug("an added record moves a sum by half its bound", "data/pieces.py",
        "replace_one(MOST_RECORDS_ADDED, bound, bound if",
        "replace_one(MOST_RECORDS_ADDED, bound, bound / 2 if",
        "added_records"),
    Bug("replaced records are charged as added ones in samples", "solvers/penalized/sgd.py",
        "AddedPoissonSampledGaussianEvent if problem.added else PoissonSampledGaussianEvent",
        "AddedPoissonSampledGaussianEvent", "sgd"),
    Bug("a private number decides how many steps samples have", "solvers/penalized/sgd.py",
        "STOCHASTIC.passes if problem.added else passes(ratio)", "passes(ratio)",
        "added_records"),
    Bug("a fit to a private number of records is planned from the number itself",
        "scaling/record_count.py", "gaussian_mechanism(rng, count, self.grid)\n", "pass\n",
        "added_records planned_noise"),
    Bug("weights of classes multiply before the clip", "variational/loss_tasks.py",
        "np.clip(class_weights, 0.0, 1.0)", "np.asarray(class_weights) * 2.0",
        "weights_of_worst_cases audit/maximal_loss_neighbours"),
    # Search
    Bug("scores of all candidates cost as one", "model_selection/_selection.py",
        "sensitivity = math.sqrt(len(sums)) * replace_one(n_validation, half)",
        "sensitivity = replace_one(n_validation, half)", "audit/search"),
    Bug("the winner's scores move by half", "model_selection/_selection.py",
        "change = 2.0 * replace_one(n_validation, half)",
        "change = replace_one(n_validation, half)", "audit/search"),
    Bug("a metric in single precision is free", "solvers/penalized/metric.py",
        "added, is_single(problem))", "added, False)", "tiles"),
    Bug("rounding of runs in single precision is free", "solvers/penalized/second_moments.py",
        "SINGLE_ERROR = 2.0 *", "SINGLE_ERROR = 0.0 *", "tiles"),
    Bug("a metric is that of a removal", "solvers/penalized/second_moments.py",
        "change = 1.0 if added else math.sqrt(2.0)", "change = 1.0",
        "audit/gradient_noise"),
]  # fmt: skip


def passes(tests: str, copy: Path) -> bool:
    """Whether the tests pass in the copy."""
    paths = (Path("tests", name) for name in tests.split())
    files = [str(path.with_name(f"test_{path.name}.py")) for path in paths]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    try:
        options = {"cwd": copy, "env": environment, "capture_output": True, "timeout": LIMIT}
        code = subprocess.run([*command, *files], check=False, **options).returncode
    except subprocess.TimeoutExpired:
        return False
    if code not in (0, 1, 2):  # 2: an error while tests are collected
        raise RuntimeError(f"pytest ended with {code} for {tests}.")
    return code == 0


def is_found(bug: Bug, copy: Path) -> bool:
    """Whether a test fails with the bug."""
    path = copy / "skdpsco" / bug.file
    source = path.read_text("utf-8")
    path.write_text(source.replace(bug.old, bug.new), "utf-8")
    try:
        return not passes(bug.tests, copy)
    finally:
        path.write_text(source, "utf-8")


def main() -> None:
    """Plant every bug that was asked for, and exit with the number of survivors."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    bugs = [bug for bug in BUGS if wanted in bug.file or wanted in bug.name]
    texts = {bug: (ROOT / "skdpsco" / bug.file).read_text("utf-8").count(bug.old) for bug in bugs}
    if moved := [f"{bug.file}: {bug.name}" for bug in bugs if texts[bug] != 1]:
        sys.exit("\n".join(["The code has changed where these bugs are planted:", *moved]))
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("skdpsco", "tests", "examples", "docs"):
            shutil.copytree(ROOT / name, copy / name)
        for name in ("pyproject.toml", "README.md", "Makefile"):
            shutil.copy(ROOT / name, copy)
        for tests in sorted({bug.tests for bug in bugs}):
            if not passes(tests, copy):
                sys.exit(f"These tests fail without a bug: {tests}")
        for bug in bugs:
            start = time.monotonic()
            found = is_found(bug, copy)
            survivors += not found
            verdict = "found" if found else "SURVIVED"
            seconds = time.monotonic() - start
            print(f"{verdict:9}{seconds:5.0f} s  {bug.file}: {bug.name}", flush=True)
    print(f"{len(bugs) - survivors} of {len(bugs)} planted bugs were found.")
    sys.exit(min(survivors, 100))


if __name__ == "__main__":
    main()
