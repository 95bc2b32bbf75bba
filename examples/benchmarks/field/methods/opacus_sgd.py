"""Logistic regression by DP-SGD with Opacus: the training loop of its tutorials.

Opacus has no defaults for a learning rate, batches or epochs: here 1, 256 and 20, and gradients are
clipped at 1. Its accounting is for an added or a removed record. Group privacy for two gives
(2 e, (1 + exp(e)) d) from (e, d), so that it gets half of epsilon.
"""

import math

from field import elsewhere
from field.methods import CLASSIFICATION, Method

BATCH, EPOCHS, RATE = 256, 20, 1.0


def fitted(problem, epsilon, delta):
    """Predictions, in the environment of Opacus."""
    import numpy as np
    import torch
    from opacus import PrivacyEngine

    torch.set_num_threads(1)
    X, X_test = (
        torch.tensor(np.asarray(x.toarray() if hasattr(x, "toarray") else x), dtype=torch.float32)
        for x in (problem.X, problem.X_test)
    )
    records = torch.utils.data.TensorDataset(X, torch.tensor(problem.y))
    model = torch.nn.Linear(X.shape[1], problem.n_classes)
    descent = torch.optim.SGD(model.parameters(), lr=RATE)
    model, descent, batches = PrivacyEngine().make_private_with_epsilon(
        module=model,
        optimizer=descent,
        data_loader=torch.utils.data.DataLoader(records, batch_size=min(BATCH, len(X))),
        epochs=EPOCHS,
        target_epsilon=epsilon / 2.0,
        target_delta=delta / (1.0 + math.exp(epsilon / 2.0)),
        max_grad_norm=1.0,
    )
    for _ in range(EPOCHS):
        for rows, labels in batches:
            descent.zero_grad()
            torch.nn.functional.cross_entropy(model(rows), labels).backward()
            descent.step()
    with torch.no_grad():
        probabilities = torch.softmax(model(X_test), 1).numpy()
    return {"labels": probabilities.argmax(axis=1), "probabilities": probabilities}


def run(problem, budget, rng):
    arguments = problem, budget.epsilon, budget.delta
    return elsewhere.call("opacus", "opacus_sgd", "fitted", *arguments)


METHODS = {"Opacus DP-SGD": Method((*CLASSIFICATION, "worst group"), run, True, "opacus")}
