"""Budgets that are spent twice: compare drawn noise with its charge, for every solver and stage.

`noise_children` runs them, and whole fits of every public estimator.

All kernels run in plain Python there, so that no draw of noise goes unseen.
"""

import inspect
import json
import os
import pkgutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import skdpsco
from skdpsco.additive.densities import DENSITIES
from skdpsco.mechanisms import samplers
from skdpsco.mechanisms.generalised_gaussian import generalised_gaussian_scale
from skdpsco.scaling.narrowing import NARROWING

SCRIPT = Path(__file__).with_name("noise_children.py")

# What the draws of a run cost together, over what is charged, where that is not 1: a record is in
# one of so many disjoint parts, and pays for the draws on its own.
PARTS = {
    "MirrorProx, batches": 5 / 2,  # calls in all, and on a batch
    "RecursiveRegularisation": 3,
    "AcceleratedRecursive": 2,
    "PhasedSGD": 3,
    "TreeFrankWolfe, gaussian": 6,
    "TreeFrankWolfe, generalised": 6,
    # Half of rho on the training part, half on the validation part, half on the fit of the best;
    # what is granted to a fit leaves room for rounding.
    "search": 1.5 - 1e-9,
    "PrivateGridSearchCV, winner": 1.5 - 1e-9,
    "PrivateRidge, several": 1 - 1e-9,
    "several": 1 - 1e-9,
    "init of several": 1 - 1e-9,
    "added to bent components": 1 - DENSITIES.closer,  # no column lies in few cells
    "PrivateMoments, units": 1 / 9,  # what is charged is for three records at once
}
# Draws of vertices, on each of which a record bears by another weight: their proofs add that up.
WEIGHED = {
    "GameSolver, draws",
    "MirrorDescent",
    "BiasReducedMirrorDescent",
    "BoostedMirrorDescent",
    "TreeFrankWolfe, exponential",
}
# A sample's draws cost less than their noise alone would: those are compared one by one.
SAMPLED = {"SGD"}
# How often columns far from 0 are searched for, of four rounds that are charged.
ROUNDS = {"PrivateRidge, raw": 1, "PrivateRidge, far": 3}
# Plans that are made again in a run, since they need to know what is released or drawn first.
PLANNED_AGAIN = {
    "GameSolver, counts": "shares of classes",
    "GameSolver, draws": "shares of classes",
    "BiasReducedMirrorDescent": "coins, that decide the levels",
}


@pytest.fixture(scope="module")
def everything():
    """By name of the case."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        stdout=subprocess.PIPE,
        check=True,
        timeout=300,
    )
    return {case["name"]: case for case in map(json.loads, done.stdout.splitlines())}


@pytest.fixture(scope="module")
def observed(everything):
    """All cases except those that are wrong on purpose."""
    return {name: case for name, case in everything.items() if not name.startswith("control")}


@pytest.fixture(scope="module")
def modules():
    return [import_module(m.name) for m in pkgutil.walk_packages(skdpsco.__path__, "skdpsco.")]


def test_every_solver_is_observed(observed, modules):
    solvers = {
        kind.__name__
        for module in modules
        for kind in vars(module).values()
        if inspect.isclass(kind) and kind.__module__ == module.__name__
        if inspect.isfunction(vars(kind).get("plan")) and inspect.isfunction(vars(kind).get("run"))
    }
    protocols = {"Solver", "SolverLike"}
    assert solvers - {case["solver"] for case in observed.values()} == protocols


def test_every_module_that_calibrates_noise_is_observed(observed, modules):
    """Stages before a solver, transformers, searches and synthesis as well."""
    calibrations = {
        samplers.gaussian_grid, samplers.exponential_grid, samplers.release,
        generalised_gaussian_scale,
    }  # fmt: skip
    calibrating = {
        module.__name__
        for module in modules
        if not module.__name__.startswith("skdpsco.mechanisms")
        if any(inspect.isfunction(f) and f in calibrations for f in vars(module).values())
    }
    assert calibrating == {name for case in observed.values() for name in case["modules"]}


def test_noise_is_drawn_by_what_is_logged(modules):
    """Nothing outside of `skdpsco.mechanisms` draws from a discrete law itself."""
    laws = {samplers.bernoulli_exp, samplers.discrete_laplace, samplers.discrete_gaussian}
    drawing = {
        module.__name__
        for module in modules
        if any(inspect.isfunction(f) and f in laws for f in vars(module).values())
    }
    assert drawing == {"skdpsco.mechanisms.samplers"}


def test_noise_that_is_drawn_costs_what_is_charged(observed):
    """With the rounds of a search that ends early, which are charged and not made."""
    special = {*WEIGHED, *SAMPLED}
    assert special | set(PARTS) | set(PLANNED_AGAIN) | set(ROUNDS) <= set(observed)
    ratios = {
        name: (
            case["drawn"]
            + sum((NARROWING.n_rounds - made) * 0.5 / z**2 for z, made in case["rounds"])
        )
        / case["charged"]
        for name, case in observed.items()
    }
    expected = {name: PARTS.get(name, 1.0) for name in observed if name not in special}
    assert {name: ratios[name] for name in expected} == pytest.approx(expected, rel=1e-10)
    assert {name: [made for _, made in observed[name]["rounds"]] for name in ROUNDS} == {
        name: [made] for name, made in ROUNDS.items()
    }


def test_releases_are_those_of_the_event(observed):
    """One by one, where the event tells them apart."""
    for name in ("FrankWolfe", "FrankWolfe, laplace", "SelectMeasure"):
        case = observed[name]
        assert sorted(case["counts"]) == sorted(case["planned"]), name
    (*_, (noise, count)) = observed["SGD"]["planned"]
    assert dict(observed["SGD"]["counts"])[noise] == count


def test_a_run_uses_the_noise_of_its_plan(observed):
    """Grids may follow from releases; multipliers, which decide privacy, are planned."""
    assert {name for name, case in observed.items() if case["not_planned"]} == set(PLANNED_AGAIN)


def test_what_these_tests_would_see(everything):
    """These tests would see less noise than is charged for, and a release outside of the plan."""
    little, late = everything["control, too little"], everything["control, too late"]
    assert little["drawn"] == pytest.approx(4.0 * little["charged"])
    assert late["drawn"] > late["charged"] * (1.0 + 1e-6)
    assert late["not_planned"] == [100.0]


def test_draws_are_seen(observed):
    assert all(case["n_drawn"] > 0 for case in observed.values())
