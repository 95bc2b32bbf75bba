"""
Start from a model of public records
====================================

Two hundred patients of a pilot study agreed that their records be used freely; a thousand others of
the main study did not. Twelve measurements tell three diagnoses apart. A private fit may start from
the model of the pilot study and spend its budget on the difference. The data are
generated, and models are scored on records that no fit has seen.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from skdpsco import PrivateLogisticRegression

EPSILONS, REPETITIONS = [0.1, 0.3, 1.0, 3.0], 3
N_PILOT, N_STUDY, D, CLASSES = 200, 1000, 12, [0, 1, 2]

rng = np.random.default_rng(0)
coef = rng.normal(size=(3, D))
X = rng.uniform(-1.0, 1.0, (N_PILOT + N_STUDY + 5000, D))
y = (X @ coef.T + rng.gumbel(size=(len(X), 3))).argmax(axis=1)
pilot, study = slice(N_PILOT), slice(N_PILOT, N_PILOT + N_STUDY)
new = slice(N_PILOT + N_STUDY, None)


# %%
# ``init`` is any fitted linear model of the same columns and classes. Its records must not be those
# of the private fit.
def score(epsilon, init):
    """Median accuracy of fits to the main study."""
    model = PrivateLogisticRegression(epsilon=epsilon, feature_bound=1.0, classes=CLASSES)
    scores = [
        model.fit(X[study], y[study], init=init).score(X[new], y[new]) for _ in range(REPETITIONS)
    ]
    return np.median(scores)


public = LogisticRegression().fit(X[pilot], y[pilot])
alone = [score(epsilon, None) for epsilon in EPSILONS]
begun = [score(epsilon, public) for epsilon in EPSILONS]
print(f"{'epsilon':>8} {'alone':>6} {'begun at the pilot study':>25}")
for row in zip(EPSILONS, alone, begun, strict=True):
    print("{:>8} {:>6.3f} {:>25.3f}".format(*row))

# %%
# With a small budget the fit returns about the model that it started from; with a large one it
# learns what a thousand records add to two hundred.
figure, ax = plt.subplots(figsize=(5.5, 3.8))
ax.axhline(public.score(X[new], y[new]), color="grey", linewidth=0.8, label="pilot study alone")
whole = LogisticRegression().fit(X[study], y[study])
ax.axhline(whole.score(X[new], y[new]), color="black", linewidth=0.8, label="without privacy")
ax.plot(EPSILONS, begun, "o-", label="main study, begun at the pilot")
ax.plot(EPSILONS, alone, "o-", label="main study, private")
ax.set(xscale="log", xlabel="ε", ylabel="accuracy on new records")
ax.legend()
figure.tight_layout()
plt.show()
