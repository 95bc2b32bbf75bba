"""Pages about code of one's own: what they quote is in the examples, and what they show runs."""

import itertools
import math
import re
import runpy
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from cases import costs_nothing
from numpy.testing import assert_allclose
from own_solver import OneGradient

from skdpsco import PrivateLinearClassifier, PrivateLinearRegressor, losses
from skdpsco._kernels import njit
from skdpsco.losses import Absolute, Huber, Logistic, derivative, derivatives, value
from skdpsco.losses.check import check_loss

ROOT = Path(__file__).parents[1]
PAGES = ("extending", "own-sets", "own-estimator")
BLOCKS = {
    page: re.findall(
        r"```python\n(.*?)```",
        (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )
    for page in PAGES
}


def source(name):
    """An example without the marks of its cells."""
    text = (ROOT / "examples" / name).read_text(encoding="utf-8")
    return text.replace("# %%\n", "")


def test_quotations():
    assert BLOCKS["extending"][0] in source("own_loss.py")


def run_block(page, k):
    """Names that the code of a page defines."""
    names = {"__name__": "extending"}  # dataclasses look their module up
    exec(compile(BLOCKS[page][k], f"{page}.md", "exec"), names)
    return names


def test_the_constraint_of_the_page():
    names = run_block("own-sets", 0)
    assert np.linalg.norm(names["coef"] - names["published"]) <= 2.0 * (1.0 + 1e-9)
    right = np.mean(np.sign(names["X"] @ names["coef"]) == names["y"])
    assert right > 0.9
    (charge,) = names["ledger"].charges()
    assert charge.rho <= names["budget"].rho * (1.0 + 1e-9)


def test_the_penalty_of_the_page():
    names = run_block("own-sets", 1)
    assert_allclose(names["coef"], [0.46, 0.0, 0.26, 0.0, 0.0], atol=0.05)
    assert (names["coef"] >= 0.0).all()
    (charge,) = names["ledger"].charges()
    assert charge.rho <= names["budget"].rho * (1.0 + 1e-9)


def largest_change(statistic, shape, n_classes):
    """Largest l2 distance between the statistics of neighbours, over records at the corners."""
    corners = [np.array(c) for c in itertools.product((-1.0, 1.0), repeat=shape[1])]
    records = [(x, k) for x in corners for k in range(n_classes)]
    X, index = np.zeros(shape), np.zeros(shape[0], dtype=int)
    sums = []
    for x, k in records:
        X[0], index[0] = x, k
        sums.append(statistic(X, index).ravel())
    return max(np.linalg.norm(a - b) for a, b in itertools.combinations(sums, 2))


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_estimator_of_the_page(d, page_estimator):
    names = page_estimator
    sensitivities = []
    grid_of = names["gaussian_grid"]
    names["gaussian_grid"] = lambda *a: sensitivities.append(a[0]) or grid_of(*a)
    names["plan_centroids"](4, d, 2, 0.3)
    names["gaussian_grid"] = grid_of

    def statistic(X, index):
        return np.eye(2)[index].T @ np.column_stack([X, np.ones(len(X))])

    largest = largest_change(statistic, (4, d), 2)
    assert largest <= sensitivities[0] <= largest * (1.0 + 1e-9)


@pytest.fixture(scope="module")
def page_estimator():
    return run_block("own-estimator", 0)


def test_what_the_estimator_of_the_page_releases(page_estimator):
    names = page_estimator
    model, X, y = names["model"], names["X"], names["y"]
    assert model.score(X, y) > 0.9
    (charge,) = names["ledger"].charges()
    assert charge.rho == model.privacy_.rho
    assert model.privacy_.epsilon == 0.5
    model.set_params(ledger=None, epsilon=1e4)
    for bad, labels in ((X, ["maybe"] * len(X)), (np.full_like(X, np.nan), y)):
        before = model.centroids_
        with pytest.raises(ValueError, match=r"y |X "):
            model.fit(bad, labels)
        assert model.centroids_ is before


def test_the_transformer_of_the_page(capsys):
    names = run_block("own-estimator", 1)
    centring, X = names["pipeline"][0], names["X"]
    assert_allclose(centring.mean_, X.mean(axis=0), atol=0.05)
    assert_allclose(centring.transform(X), X - centring.mean_)
    report = str(names["privacy_report"](names["pipeline"]))
    assert "PrivateCentring" in report
    assert "NOT private" not in report


@pytest.mark.parametrize("name", ["own_loss", "own_solver"])
def test_examples(name, capsys):
    runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
    assert "epsilon" in capsys.readouterr().out


class Linear(NamedTuple):
    """A user's loss."""

    slope: float


@derivative.register(Linear)
def _(loss, z, y):
    return loss.slope


@njit
def slope_of(loss, z):
    return derivative(loss, z, 1.0)


def test_machine_code_for_own_losses_is_not_cached():
    """It would outlive an edit of its kernel, and a process without its module could read none."""
    assert slope_of(Linear(3.0), 0.0) == 3.0
    assert slope_of(Logistic(), 0.0) == -0.5
    cached = str(slope_of._cache._cache_file._load_index().keys())
    assert "Logistic" in cached
    assert "Linear" not in cached


def defined(name="Cell", scale=1.0, field="cost", lipschitz=1.0, smoothness=0.25):
    """A logistic loss, times ``scale``, as if its cell were run once more."""
    Loss = NamedTuple(name, [(field, float)])
    Loss.n_outputs = 1
    Loss.lipschitz = lambda self, prediction_bound=math.inf, target_bound=1.0: lipschitz
    Loss.smoothness = lambda self: smoothness

    @value.register(Loss)
    def _(loss, z, y):
        return scale * (max(-y * z, 0.0) + math.log1p(math.exp(-abs(z))))

    @derivative.register(Loss)
    def _(loss, z, y):
        e = math.exp(-abs(z))
        return -scale * y * (e if y * z > 0.0 else 1.0) / (1.0 + e)

    return Loss


def test_a_class_that_is_defined_anew_is_compiled_anew():
    """Numba tells NamedTuples apart by their names and fields alone."""
    first, second = defined()(2.0), defined(scale=0.5)(2.0)
    for loss, slope in ((first, -0.5), (second, -0.25), (first, -0.5)):
        assert slope_of(loss, 0.0) == slope
        check_loss(loss, (-1.0, 1.0))


def test_a_class_with_a_name_of_the_library():
    mine = defined("Huber", field="delta")(0.5)
    assert slope_of(mine, 1.0) == -1.0 / (1.0 + math.e)
    assert slope_of(Huber(0.5), 1.0) == 0.0
    assert slope_of(Huber(0.5), 3.0) == 0.5

    class Hinge(Absolute):  # shares the kernels of its parent
        pass

    check_loss(Hinge())
    assert slope_of(Hinge(), 5.0) == 1.0
    assert slope_of(losses.Hinge(), 5.0) == 0.0


def test_old_machine_code_is_refused():
    Loss = defined("Edited")
    Loss.smoothness = lambda self: np.int64(1)
    check_loss(Loss(1.0), (-1.0, 1.0))
    value.register(Loss)(lambda loss, z, y: 0.2 * math.sqrt(1.0 + z * z))
    derivative.register(Loss)(lambda loss, z, y: 0.2 * z / math.sqrt(1.0 + z * z))
    with pytest.raises(ValueError, match=r"Edited: the derivative .* when compiled.*class anew"):
        check_loss(Loss(1.0), (-1.0, 1.0))


def test_derivatives_of_all_records_are_compared():
    Loss = defined("Own")

    @derivatives.register(Loss)
    def _(loss, Z, y, out):
        for i in range(out.shape[0]):
            out[i, 0] = -y[i] * (1.0 if y[i] * Z[i, 0] < 3.0 else 0.0)

    with pytest.raises(ValueError, match=r"Own\w*: the derivative .* when compiled"):
        check_loss(Loss(1.0), (-1.0, 1.0))


X, Y = np.random.default_rng(0).uniform(-1, 1, (40, 3)), np.arange(40) % 2


def refused(loss, match, y=Y):
    """An error before the charge."""
    costs_nothing(PrivateLinearClassifier(loss=loss), match, X, y)


def test_what_numba_cannot_compile_costs_nothing():
    for kernel in (
        lambda loss, z, y: math.tanh(float(str(z))),  # Numba writes something else
        lambda loss, z, y: __import__("math").tanh(z),
    ):
        Loss = defined("Foreign")
        value.register(Loss)(lambda loss, z, y: abs(z) + math.log1p(math.exp(-2.0 * abs(z))))
        derivative.register(Loss)(kernel)
        Loss.smoothness = lambda self: 1.0
        refused(Loss(1.0), "Foreign.*Numba cannot compile or run `derivative`")
    refused(defined("Keeps")({"a": 1.0}), "Keeps.*Numba cannot compile or run `derivative`")


def test_the_solver_of_the_page_survives_nan():
    """What a loss is at targets that nobody probed."""
    Loss = defined("Undefined")
    value.register(Loss)(lambda loss, z, y: math.sqrt(1.0 + (z - y) ** 2))
    derivative.register(Loss)(
        lambda loss, z, y: math.nan if y == 0.37 else (z - y) / math.sqrt(1.0 + (z - y) ** 2)
    )
    Loss.smoothness = lambda self: 1.0
    model = PrivateLinearRegressor(
        epsilon=1e9, loss=Loss(1.0), radius=1.0, target_bound=1.0, solver=OneGradient()
    )
    model.fit(np.ones((4, 1)), np.full(4, 0.37))
    # As if the derivative were large. Noise turns the direction by about 1e-5.
    assert_allclose(model.coef_, [-(0.5**0.5)], rtol=1e-3)
