"""Logistic regression by DP-SGD with Opacus: the training loop of its tutorials.

Opacus has no defaults for a learning rate, batches or epochs: here 1, 256 and 20, and gradients are
clipped at 1. Its accountant knows added and removed records only. So it is given the smallest
multiplier of noise with which its Poisson samples protect a replaced record, from Renyi orders.
"""

import math

from field import elsewhere
from field.methods import CLASSIFICATION, Method


def fitted(problem, noise, batch, epochs, rate):
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
    descent = torch.optim.SGD(model.parameters(), lr=rate)
    model, descent, batches = PrivacyEngine().make_private(
        module=model,
        optimizer=descent,
        data_loader=torch.utils.data.DataLoader(records, batch_size=batch),
        noise_multiplier=noise,
        max_grad_norm=1.0,
    )
    for _ in range(epochs):
        for rows, labels in batches:
            descent.zero_grad()
            torch.nn.functional.cross_entropy(model(rows), labels).backward()
            descent.step()
    with torch.no_grad():
        probabilities = torch.softmax(model(X_test), 1).numpy()
    return {"labels": probabilities.argmax(axis=1), "probabilities": probabilities}


def run(problem, budget, rng, batch=256, epochs=20, rate=1.0):
    # The environment of Opacus does not have them.
    from skdpsco.privacy import NoOpEvent, PoissonSampledGaussianEvent
    from skdpsco.solvers.penalized.sgd import with_least_noise

    batch = min(batch, len(problem.y) // 2)
    batches = math.ceil(len(problem.y) / batch)  # a record is in each with probability 1 / batches
    steps = epochs * batches
    enough = PoissonSampledGaussianEvent(math.sqrt(2.0 * steps / budget.rho), 1.0 / batches)
    noise = with_least_noise(budget, NoOpEvent(), enough, steps, "rdp").noise_multiplier
    return elsewhere.call("opacus", "opacus_sgd", "fitted", problem, noise, batch, epochs, rate)


METHODS = {
    "Opacus DP-SGD": Method(
        (*CLASSIFICATION, "worst group"),
        run,
        environment="opacus",
        settings=({"batch": 1024}, {"batch": 1024, "rate": 4.0}, {"batch": 1024, "rate": 0.25}),
    )
}
