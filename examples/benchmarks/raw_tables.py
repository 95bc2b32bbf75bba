"""Raw tables to private models: accuracy and R^2 on Adult and on California housing.

    python examples/benchmarks/raw_tables.py --data-dir DIR [--seeds 10]

DIR holds adult-train.csv.gz and adult-test.csv.gz, the files of UCI, and cal_housing.data.gz, that
of StatLib. Without it there is nothing to measure.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from skdpsco import (
    PrivateLogisticRegression,
    PrivateRidge,
    Schema,
    TableEncoder,
    make_private_pipeline,
)

NUMBERS = {"age": [17, 90], "education_num": [1, 16], "hours": [1, 99]}
CATEGORIES = {
    "workclass": """
        Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc State-gov
        Without-pay
    """,
    "education": """
        10th 11th 12th 1st-4th 5th-6th 7th-8th 9th Assoc-acdm Assoc-voc Bachelors Doctorate
        HS-grad Masters Preschool Prof-school Some-college
    """,
    "marital": """
        Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent Never-married
        Separated Widowed
    """,
    "occupation": """
        Adm-clerical Armed-Forces Craft-repair Exec-managerial Farming-fishing
        Handlers-cleaners Machine-op-inspct Other-service Priv-house-serv Prof-specialty
        Protective-serv Sales Tech-support Transport-moving
    """,
    "relationship": """
        Husband Not-in-family Other-relative Own-child Unmarried Wife
    """,
    "race": """
        Amer-Indian-Eskimo Asian-Pac-Islander Black Other White
    """,
    "sex": """
        Female Male
    """,
    "country": """
        Cambodia Canada China Columbia Cuba Dominican-Republic Ecuador El-Salvador England
        France Germany Greece Guatemala Haiti Holand-Netherlands Honduras Hong Hungary India
        Iran Ireland Italy Jamaica Japan Laos Mexico Nicaragua Outlying-US(Guam-USVI-etc)
        Peru Philippines Poland Portugal Puerto-Rico Scotland South Taiwan Thailand
        Trinadad&Tobago United-States Vietnam Yugoslavia
    """,
}
MISSING = ("workclass", "occupation", "country")
COLUMNS = [
    *("age", "workclass", "fnlwgt", "education", "education_num", "marital", "occupation"),
    *("relationship", "race", "sex", "gain", "loss", "hours", "country", "income"),
]
HOUSES = {
    **{"longitude": [-125, -114], "latitude": [32, 42], "age": [0, 52], "rooms": [0, 10_000]},
    **{"bedrooms": [0, 2000], "population": [0, 5000], "households": [0, 2000]},
    **{"income": [0, 15], "value": [0, 500_001]},
}


def adult(directory, gain, loss):
    """Schema, training records and test records."""
    import pandas as pd

    columns = {name: {"bounds": pair} for name, pair in NUMBERS.items()}
    columns |= {"gain": {"bounds": [0, gain]}, "loss": {"bounds": [0, loss]}}
    for name, words in CATEGORIES.items():
        columns[name] = {"categories": words.split(), "missing": name in MISSING}
    schema = Schema({**columns, "income": ["<=50K", ">50K"]}, target="income")
    tables = []
    for part in ("train", "test"):
        file = Path(directory) / f"adult-{part}.csv.gz"
        table = pd.read_csv(file, names=COLUMNS, skipinitialspace=True, na_values="?")
        tables.append(table.assign(income=table["income"].str.rstrip("."))[list(schema.columns)])
    return schema, *tables


def california(directory):
    """Schema, training records and test records."""
    import pandas as pd

    schema = Schema({name: {"bounds": pair} for name, pair in HOUSES.items()}, target="value")
    table = pd.read_csv(Path(directory) / "cal_housing.data.gz", names=list(HOUSES))
    return schema, *train_test_split(table, test_size=0.2, random_state=0)


def scores(model, table, schema):
    """R^2, or accuracy and area under the curve."""
    X, y = table[schema.features], table[schema.target]
    found = [model.score(X, y)]
    if not schema.is_regression:
        found.append(roc_auc_score(y, model.decision_function(X)))
    return found


def compare(name, data, private, plain, seeds):
    schema, train, test = data
    X, y = train[schema.features], train[schema.target]
    fits = [make_private_pipeline(schema, private, epsilon=1.0).fit(X, y) for _ in range(seeds)]
    median = np.median([scores(model, test, schema) for model in fits], axis=0)
    best = scores(make_pipeline(TableEncoder(schema), plain).fit(X, y), test, schema)
    print(f"{name}, {len(X):,} records: {median.round(4)}, not private {np.round(best, 4)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="directory with the data")
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    where, seeds = arguments.data_dir, arguments.seeds
    if where is None:
        print("There is nothing to measure without --data-dir.")
        return
    logistic = LogisticRegression(max_iter=1000)
    for gain, loss in ((10_000, 3000), (99_999, 4356)):
        name = f"Adult, gains up to {gain:,}, losses up to {loss:,}"
        compare(name, adult(where, gain, loss), PrivateLogisticRegression(), logistic, seeds)
    compare("California", california(where), PrivateRidge(), LinearRegression(), seeds)


if __name__ == "__main__":
    main()
