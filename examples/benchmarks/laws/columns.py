"""Laws of features: whether columns are raw, far, heavy-tailed, sparse, many or alike."""

import numpy as np
import robustness
from scipy import sparse

from laws.law import ADDED, FEW, REPLACED, WIDE, Cells, of_columns


def own(rng):
    """A generator of what is the same however many records are drawn."""
    return rng.spawn(1)[0]


def signal(X, rng):
    """Predictions of a planted model in which columns weigh alike, of deviation 2."""
    if not sparse.issparse(X):
        X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    return robustness.signal(X, own(rng))


def planted(X, rng):
    return X, signal(X, rng)


def indicators(rng, n, d, low=0.05, high=0.5):
    return (rng.random((n, d)) < own(rng).uniform(low, high, d)).astype(float)


# ------------------------------------------------------------------------------ ordinary columns


@of_columns()
def uniform_20(rng, n):
    """Shares, percentages and scores that somebody has scaled to [0, 1]."""
    return planted(robustness.uniform(rng, n=n), rng)


@of_columns(WIDE)
def uniform_200(rng, n):
    """Many sensors or pixels in [0, 1]."""
    return planted(robustness.uniform(rng, 200, n=n), rng)


@of_columns()
def normal_20(rng, n):
    """Measurements in standard units."""
    return planted(rng.normal(size=(n, 20)), rng)


@of_columns()
def normal_100(rng, n):
    """A hundred standardised measurements, such as a panel of laboratory values."""
    return planted(rng.normal(size=(n, 100)), rng)


@of_columns(WIDE)
def normal_200(rng, n):
    """Features of a public embedding."""
    return planted(rng.normal(size=(n, 200)), rng)


@of_columns()
def correlated(rng, n):
    """Answers of a questionnaire that all measure one trait, and a constant column."""
    return planted(robustness.correlated(rng, n=n), rng)


@of_columns(WIDE)
def factors_5_of_300(rng, n):
    """Spectra, or items of long questionnaires: all columns follow from five numbers."""
    spread = own(rng).normal(size=(5, 300))
    X = np.clip(rng.normal(size=(n, 5)) @ spread / 6.0, -1.0, 1.0)
    return X, robustness.signal(X, own(rng))


@of_columns()
def one_hot(rng, n):
    """Categories as indicators, some frequent and some not, such as jobs and regions."""
    return planted(robustness.one_hot(rng, n=n), rng)


@of_columns(WIDE)
def categories_of_50(rng, n):
    """Long lists of categories as indicators, such as countries, diagnoses or products."""
    return planted(robustness.one_hot(rng, 8, 50, n=n), rng)


@of_columns(WIDE)
def few_5_of_300(rng, n):
    """Screens, such as genes or many candidate questions, of which five columns count."""
    X = rng.normal(size=(n, 300))
    return X, signal(X[:, own(rng).choice(300, 5, replace=False)], rng)


@of_columns(WIDE)
def few_of_heavy_tails(rng, n):
    """Expression levels or turnovers with heavy tails, of which five count."""
    X = rng.standard_t(3.0, (n, 200))
    return X, robustness.signal(X[:, own(rng).choice(200, 5, replace=False)], own(rng))


# ------------------------------------------------------------------------------ positions and units


@of_columns()
def strip(rng, n):
    """Rates near their limit, such as .85 to .95 of a target met, or purities."""
    return planted(robustness.uniform(rng, 20, 0.85, 0.95, n=n), rng)


@of_columns()
def hundredth(rng, n):
    """Columns that fill a hundredth of a bound that somebody chose generously."""
    return planted(0.01 * rng.normal(size=(n, 20)), rng)


@of_columns()
def longest_row(rng, n):
    """A table that was divided by the norm of its longest row, as papers ask for."""
    Z = np.exp(rng.normal(size=(n, 12)))
    X = Z / np.sqrt((Z**2).sum(axis=1).max())
    return X, signal(np.minimum(Z, 8.0), rng)


@of_columns()
def years(rng, n):
    """Years of events, 2000 +- 10, and nothing else."""
    return planted(np.round(2000.0 + 10.0 * rng.normal(size=(n, 10))), rng)


@of_columns()
def altitudes(rng, n):
    """Readings of instruments with a large offset, 10,000 +- 40."""
    return planted(10_000.0 + 40.0 * rng.normal(size=(n, 10)), rng)


@of_columns()
def years_among_others(rng, n):
    """Two years and a reading of 10,000 +- 40 among ordinary columns."""
    X = rng.normal(size=(n, 12))
    X[:, 6:9] = rng.random((n, 3))
    X[:, :2] = np.round(2000.0 + 10.0 * X[:, :2])
    X[:, 2] = 10_000.0 + 40.0 * X[:, 2]
    return planted(X, rng)


@of_columns()
def date_among_small(rng, n):
    """A date, in days since 1970, among small numbers and indicators, as in files of cases."""
    date = np.round(18_000.0 + 250.0 * rng.random((n, 1)) ** 0.5)
    numbers = rng.poisson(own(rng).uniform(0.5, 4.0, 6), (n, 6))
    return planted(np.column_stack([date, numbers, indicators(rng, n, 8)]), rng)


@of_columns()
def far_units(rng, n):
    """Times in seconds or identifiers of positions: 10^6 with deviations from 1 to 10^4."""
    return planted(1e6 + rng.normal(size=(n, 20)) * 10.0 ** np.linspace(0.0, 4.0, 20), rng)


@of_columns()
def physical(rng, n):
    """Weather and machines: kelvin, hectopascal, latitudes, volts, and shares."""
    centre = np.array([290.0, 1013.0, 48.0, 230.0, 50.0, 400.0] + [0.0] * 7)
    width = np.array([8.0, 9.0, 1.0, 3.0, 0.05, 12.0, 1.0, 5.0, 0.1, 20.0, 1.0, 2.0, 0.5])
    return planted(centre + width * rng.normal(size=(n, 13)), rng)


@of_columns()
def missing_as_zero(rng, n):
    """Years of birth in which 0 stands for a missing one, in one of 100 records of a column."""
    X = np.round(1970.0 + 15.0 * rng.normal(size=(n, 12)))
    z = signal(X, rng)
    X[rng.random(n) < 0.01, 0] = 0.0
    return X, z


@of_columns()
def units(rng, n):
    """Tables of many units: twelve indicators and eight columns of scales 10^-3 to 10^5."""
    numbers = rng.normal(size=(n, 8)) * 10.0 ** own(rng).uniform(-3.0, 5.0, 8)
    return planted(np.column_stack([indicators(rng, n, 12), numbers]), rng)


@of_columns()
def age_among_indicators(rng, n):
    """A census: age and years of education beside indicators of 40 categories."""
    age = np.clip(np.round(42.0 + 14.0 * rng.normal(size=n)), 17.0, 90.0)
    education = np.clip(np.round(10.0 + 2.5 * rng.normal(size=n)), 1.0, 16.0)
    X = np.column_stack([age, education, robustness.one_hot(rng, 5, 8, n=n)])
    return X, 0.7 * signal(X[:, :2], rng) + 0.7 * signal(X[:, 2:], rng)


@of_columns()
def income_among_scaled(rng, n):
    """Incomes that somebody forgot to standardise with the other 30 columns."""
    logarithm = rng.normal(size=n)
    X = np.column_stack([30_000.0 * np.exp(0.5 * logarithm), rng.normal(size=(n, 30))])
    return X, 0.5 * signal(X[:, :1], rng) + 0.85 * signal(X[:, 1:], rng)


# ------------------------------------------------------------------------------ tails and zeros


@of_columns()
def exponential(rng, n):
    """Waiting times, durations and distances, on one side of 0."""
    return planted(rng.exponential(own(rng).uniform(0.5, 50.0, 12), (n, 12)), rng)


@of_columns()
def student_2(rng, n):
    """Returns and errors of measurement, of Student's law with two degrees of freedom."""
    X = rng.standard_t(2.0, (n, 10))
    return X, robustness.signal(np.clip(X, -8.0, 8.0), own(rng))


@of_columns()
def student_3(rng, n):
    """Returns of investments, of Student's law with three degrees of freedom."""
    X = rng.standard_t(3.0, (n, 20))
    return X, robustness.signal(X, own(rng))


@of_columns()
def pareto(rng, n):
    """Sizes of towns, firms and files, of Pareto's law with exponent 2.5."""
    X = 1.0 + rng.pareto(2.5, (n, 10))
    return X, robustness.signal(X, own(rng))


@of_columns()
def logarithms(rng, n):
    """Incomes and doses, log-normal, where doubling one has the same effect everywhere."""
    logarithm = rng.normal(size=(n, 10))
    return np.exp(logarithm), signal(logarithm, rng)


@of_columns()
def saturating(rng, n):
    """Effects that saturate, of columns of Student's law with two degrees of freedom."""
    X = rng.standard_t(2.0, (n, 10))
    return X, signal(np.tanh(X), rng)


@of_columns()
def cauchy(rng, n):
    """Ratios of two measurements, of Cauchy's law, whose effect is logarithmic."""
    X = rng.standard_cauchy((n, 8))
    return X, signal(np.sign(X) * np.log1p(np.abs(X)), rng)


@of_columns()
def delays(rng, n):
    """Minutes late, mostly few and sometimes hundreds, which the target follows, beside others."""
    late = 4.0 * rng.normal(size=n) + (rng.random(n) < 0.4) * 10.0 * np.exp(
        1.3 * rng.normal(size=n)
    )
    X = np.column_stack([late, rng.normal(size=(n, 9))])
    return X, signal(X[:, 1:], rng) + 0.1 * late


@of_columns()
def counts(rng, n):
    """Visits, purchases or claims per year, with means from .5 to 6."""
    return planted(rng.poisson(own(rng).uniform(0.5, 6.0, 20), (n, 20)).astype(float), rng)


@of_columns()
def counts_sparse(rng, n):
    """Rare events in a sparse matrix, with means from .1 to 3."""
    X = rng.poisson(own(rng).uniform(0.1, 3.0, 20), (n, 20)).astype(float)
    return sparse.csr_matrix(X), signal(X, rng)


@of_columns()
def answers(rng, n):
    """Answers from 1 to 5."""
    level = 3.0 + own(rng).normal(size=15) + rng.normal(size=(n, 15))
    return planted(np.clip(np.round(level), 1.0, 5.0), rng)


@of_columns()
def zero_one_eight(rng, n):
    """Codes with a special value: 0, 1 and, for one record in twenty, 8."""
    return planted(rng.choice([0.0, 1.0, 8.0], (n, 10), p=[0.55, 0.4, 0.05]), rng)


@of_columns()
def amounts(rng, n):
    """Amounts of money of which 70 % are 0 and the others log-normal."""
    X = np.where(rng.random((n, 12)) < 0.7, 0.0, np.exp(4.0 + rng.normal(size=(n, 12))))
    return X, signal(np.minimum(X, 1000.0), rng)


@of_columns()
def rare_amounts(rng, n):
    """Capital gains: six amounts of which 90 % are 0, beside years and ten indicators."""
    X = np.where(rng.random((n, 6)) < 0.9, 0.0, np.exp(7.0 + rng.normal(size=(n, 6))))
    ages = np.round(45.0 + 15.0 * rng.normal(size=(n, 2)))
    X = np.column_stack([X, ages, indicators(rng, n, 10)])
    return X, signal(np.minimum(X, 20_000.0), rng)


@of_columns()
def rare_indicators(rng, n):
    """Thirty rare diagnoses, each of one record in 250, beside ten ordinary columns."""
    rare = indicators(rng, n, 30, 0.003, 0.005)
    numbers = rng.normal(size=(n, 10))
    return np.column_stack([rare, numbers]), signal(numbers, rng) + 0.5 * rare.sum(axis=1)


@of_columns()
def outliers(rng, n):
    """Columns that use a hundredth of their bounds, but for one record in a hundred."""
    X = 0.01 * rng.normal(size=(n, 20))
    z = signal(X, rng)
    X[rng.random(n) < 0.01] *= 50.0
    return np.clip(X, -1.0, 1.0), z


@of_columns()
def wrong_numbers(rng, n):
    """Typing errors: three numbers in a thousand are a hundred times too large."""
    X = rng.normal(size=(n, 8))
    z = signal(X, rng)
    X[rng.random(X.shape) < 0.003] *= 100.0
    return X, z


@of_columns()
def wrong_records(rng, n):
    """Three records in a hundred are in another unit, twenty times as large."""
    X = 5.0 + 2.0 * rng.normal(size=(n, 10))
    z = signal(X, rng)
    X[rng.random(n) < 0.03] *= 20.0
    return X, z


# ------------------------------------------------------------------------------ texts


@of_columns(WIDE)
def words(rng, n):
    """Texts as bags of thirty words, zeros and ones, in a sparse matrix."""
    return planted(robustness.words(rng, 1000, n=n), rng)


@of_columns(WIDE)
def tf_idf(rng, n):
    """Texts as rows of tf-idf of norm 1, in a sparse matrix."""
    X = sparse.csr_array(robustness.words(rng, 300, n=n))
    X = X * np.log(n / np.maximum(X.sum(axis=0), 1.0))
    norms = np.sqrt((X * X).sum(axis=1))
    return planted(sparse.csr_matrix(X / np.maximum(norms, 1e-9)[:, None]), rng)


# ------------------------------------------------------------------------------ real sizes


def at(n, epsilons, seeds=24):
    """One size in both relations."""
    return tuple(Cells(n, epsilons, seeds, relation) for relation in (REPLACED, ADDED))


def skewed_factors(rng, n, d, shares, tail):
    """Columns of common factors whose shares of the variance are given, with a long tail."""
    loads = own(rng).normal(size=(len(shares), d)) * np.sqrt(shares)[:, None]
    rest = np.sqrt(max(1.0 - sum(shares), 0.02))
    Z = rng.normal(size=(n, len(shares))) @ loads + rest * rng.normal(size=(n, d))
    return np.sinh(tail * Z) / tail


@of_columns(at(657, (0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 4.0)))
def crime(rng, n):
    """Statistics of communities, as UCI's crime table has them: 657 records of 99 columns."""
    X = skewed_factors(rng, n, 99, [0.24, 0.17, 0.09, 0.08, 0.06, 0.04, 0.03, 0.03], 0.7)
    return X, robustness.signal(X, own(rng))


@of_columns(at(2051, (0.2, 0.3, 0.5, 0.7, 1.0, 2.0, 4.0), 16))
def gas_sensors(rng, n):
    """Drifting, collinear sensors of many scales, as UCI's: 2,051 records of 128 columns."""
    Z = skewed_factors(rng, n, 128, [0.57, 0.12, 0.09, 0.06, 0.04, 0.02, 0.02], 0.8)
    scale = 10.0 ** own(rng).choice([0.3, 0.8, 4.2], 128, p=[0.5, 0.37, 0.13])
    return Z * scale, robustness.signal(Z, own(rng))


@of_columns(FEW)
def small_normal(rng, n):
    """A pilot study: some hundred records of ten standardised columns."""
    return planted(rng.normal(size=(n, 10)), rng)


@of_columns(FEW)
def small_raw(rng, n):
    """A pilot study in raw units: ages, weights, pressures, counts and indicators."""
    centre = np.array([50.0, 75.0, 130.0, 5.0, 25.0])
    width = np.array([15.0, 12.0, 18.0, 1.2, 4.0])
    numbers = centre + width * rng.normal(size=(n, 5))
    visits = rng.poisson(2.0, (n, 1))
    return planted(np.column_stack([numbers, visits, indicators(rng, n, 2, 0.3)]), rng)
