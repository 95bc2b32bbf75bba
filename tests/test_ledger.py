"""The ledger in memory: its arithmetic, its parts, what it refuses and what it shows."""

import copy
import math
import pickle
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pytest
from cases import each
from sklearn.base import clone

from skdpsco import PrivateLasso
from skdpsco.privacy import (
    BudgetExceededError,
    ComposedEvent,
    Event,
    ExponentialMechanismEvent,
    GaussianEvent,
    LaplaceNoisyMaxEvent,
    Ledger,
    NoOpEvent,
    PureDPEvent,
    RepeatedEvent,
    ZCDPEvent,
    rho_of,
    zcdp_delta,
    zcdp_rho,
)

BUDGETS = [(1.0, 1e-6), (0.1, 1e-9), (8.0, 1e-3), (0.01, 1e-12), (50.0, 0.1)]
budgets = pytest.mark.parametrize("budget", BUDGETS)
NAN, INF = float("nan"), float("inf")
ADD = "add-or-remove-one"


def small(ledger, share=0.01):
    """An event that costs this share of the budget."""
    return ZCDPEvent(share * ledger.rho)


# --- sums


@budgets
@pytest.mark.parametrize("k", [1, 2, 3, 7, 10, 49, 100])
def test_k_releases_of_one_kth_each(budget, k):
    ledger = Ledger(*budget)
    for _ in range(k):
        ledger.charge(ZCDPEvent(ledger.rho / k))
    assert ledger.remaining().rho <= 1e-12 * ledger.rho
    with pytest.raises(BudgetExceededError):
        ledger.charge(small(ledger, 1e-9))
    assert len(ledger.charges()) == k


def test_what_rounding_allows_is_private():
    # The limit of a sum is a little above rho; the guarantee must hold there too.
    for epsilon in (*np.logspace(-6, 3, 37), 3.5481338923357604):
        for delta in (1e-100, 1e-12, 1e-6, 1e-3, 0.1, 0.5, 0.9, 0.999):
            ledger = Ledger(epsilon, delta)
            assert zcdp_delta(ledger._limit, epsilon) <= delta
            if delta < 0.99:  # otherwise the calibration may have needed its slack for itself
                assert ledger._limit > ledger.rho * (1 + 0.9e-10)


def test_no_charge_is_too_small_to_count():
    # Added to what is spent, this charge alone would be rounded away.
    ledger = Ledger(1.0, 1e-6)
    ledger.charge(small(ledger, 0.9))
    tiny = ZCDPEvent(1e-19 * ledger.rho)
    left = [ledger.remaining().rho]
    for _ in range(10):
        ledger.charge(tiny)
        left.append(ledger.remaining().rho)
    assert (np.diff(left) < 0).all()


@budgets
def test_sums_are_never_below_the_exact_sum(budget):
    ledger = Ledger(*budget)
    rng = np.random.default_rng(0)
    for cost in ledger.rho / 1000 * rng.lognormal(-1, 2, 300).clip(0, 3):
        ledger.charge(ZCDPEvent(cost))
    exact = math.fsum(charge.rho for charge in ledger.charges())
    left = ledger.remaining().rho
    assert left <= ledger.rho - exact
    assert left == pytest.approx(ledger.rho - exact, abs=1e-12 * ledger.rho)


@budgets
@pytest.mark.parametrize("share", [None, 1e-9, 0.1, 1 / 3, 0.999, 1 - 1e-7])
def test_what_remains_is_accepted_and_leaves_nothing(budget, share):
    ledger = Ledger(*budget)
    if share is not None:
        ledger.charge(small(ledger, share))
    before = ledger.remaining()
    assert before.delta == ledger.delta
    assert before.rho == pytest.approx((1 - (share or 0)) * ledger.rho, rel=1e-6)
    if share is None:
        assert before.epsilon == pytest.approx(ledger.epsilon, rel=1e-6)
    if before.epsilon == 0:  # delta alone would allow more than what remains
        assert zcdp_rho(1e-9, before.delta) > before.rho
        return
    ledger.charge(ZCDPEvent(zcdp_rho(before.epsilon, before.delta)))
    after = ledger.remaining()
    assert after.rho <= 1e-8 * before.rho
    assert after.epsilon < 1e-3 * ledger.epsilon


def test_message_of_an_exceeded_budget():
    ledger = Ledger(1.0, 1e-6, dataset="census")
    ledger.charge(small(ledger, 0.5))
    with pytest.raises(BudgetExceededError) as caught:
        ledger.charge(small(ledger, 0.75), "Mean")
    epsilon = ledger.remaining().epsilon
    for part in ("Mean costs rho=0.018", "'census' (epsilon=1, delta=1e-06)", "rho=0.0121",
                 f"one more release of epsilon={epsilon:.4g}"):  # fmt: skip
        assert part in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


# --- events


@dataclass(frozen=True)
class Unknown(Event):
    pass


@dataclass(frozen=True)
class Cheaper(GaussianEvent):
    pass


EVENTS = [
    NoOpEvent(),
    GaussianEvent(20.0),
    ExponentialMechanismEvent(0.1),
    PureDPEvent(0.05),
    LaplaceNoisyMaxEvent(0.05),
    ZCDPEvent(1e-3),
    RepeatedEvent(GaussianEvent(100.0), 30),
    ComposedEvent((GaussianEvent(30.0), RepeatedEvent(PureDPEvent(0.01), 5))),
]


@each("event", EVENTS)
def test_charge_of_an_event(event):
    ledger = Ledger(1.0, 1e-6)
    ledger.charge(event, "Thing", {"radius": 2.0})
    (charge,) = ledger.charges()
    assert charge.rho == rho_of(event)
    assert (charge.estimator, charge.parameters, charge.part) == ("Thing", {"radius": 2.0}, None)
    assert charge.event == repr(event)
    assert ledger.remaining().rho == pytest.approx(ledger.rho - rho_of(event), rel=1e-12)


def test_nothing_can_always_be_released():
    ledger = Ledger(1.0, 1e-6)
    for _ in range(3):
        ledger.charge(ZCDPEvent(ledger.rho / 3))
    before = ledger.remaining()
    ledger.charge(NoOpEvent())
    ledger.charge(RepeatedEvent(GaussianEvent(1e-9), 0))
    assert ledger.remaining() == before
    assert len(ledger.charges()) == 5


@each(
    "event",
    [GaussianEvent(1e-100), PureDPEvent(1e100), ZCDPEvent(1e100)]
    + [RepeatedEvent(GaussianEvent(1.0), 10**power) for power in (10, 300, 400)],
)
def test_huge_charges(event):
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(BudgetExceededError, match="costs rho="):
        ledger.charge(event)
    assert ledger.charges() == []


def invalid(rho):
    """An event that no constructor would make, as a forged pickle might."""
    event = ZCDPEvent(1.0)
    object.__setattr__(event, "rho", rho)
    return event


@pytest.mark.parametrize("rho", [NAN, INF, -1.0])
def test_forged_events(rho):
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises((BudgetExceededError, ValueError)):
        ledger.charge(invalid(rho))
    assert ledger.remaining().rho == ledger.rho


@each(
    ("arguments", "error", "match"),
    [
        ((Unknown(),), TypeError, "No charge is known .* Unknown"),
        ((Cheaper(10.0),), TypeError, "No charge is known .* Cheaper"),
        ((ComposedEvent((Cheaper(10.0),)),), TypeError, "No charge is known .* Cheaper"),
        ((None,), TypeError, "event must be an instance of Event"),
        ((0.1,), TypeError, "event must be an instance of Event"),
        ((NoOpEvent(), 3), TypeError, "estimator must be a str, got 3"),
        ((NoOpEvent(), "", [1]), TypeError, r"parameters must be a mapping or None, got \[1\]"),
        ((NoOpEvent(), "", None, "nearby"), ValueError, "relation must be one of"),
        ((NoOpEvent(), "", None, None), ValueError, "relation must be one of"),
        ((NoOpEvent(), "", None, ["replace-one"]), ValueError, "relation must be one of"),
    ],
)
def test_charges_that_are_refused(arguments, error, match):
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(error, match=match):
        ledger.charge(*arguments)
    assert ledger.charges() == []


# --- constructor


@each(
    ("changed", "error", "match"),
    [
        *(({"epsilon": v}, ValueError, r"epsilon .* \(0, inf\)") for v in (0, -1, NAN, INF)),
        *(({"epsilon": v}, TypeError, r"epsilon .* \(0, inf\)") for v in (True, "1", None, [1])),
        *(({"delta": v}, ValueError, r"delta .* \[0, 1\)") for v in (1, -0.1, NAN, INF)),
        *(({"delta": v}, TypeError, r"delta .* \[0, 1\)") for v in (True, "1", None)),
        *(({"dataset": v}, TypeError, "dataset must be a str") for v in (None, 3, b"a", ["a"])),
        *(({"dataset": v}, ValueError, "dataset must be a name") for v in ("", "\ud800")),
        ({"dataset": "cafe\u0301"}, ValueError, "dataset must be composed"),
        *(({"path": v}, TypeError, "path must be a str or path-like") for v in (3, True, ["a"])),
        ({"path": "a\0b"}, ValueError, "path must not contain null characters"),
        *(
            ({"relation": v}, ValueError, "relation must be one of")
            for v in ("x", None, 3, "replace-one within groups")
        ),
    ],
)
def test_bad_parameters(changed, error, match):
    with pytest.raises(error, match=match):
        Ledger(**{"epsilon": 1.0, "delta": 1e-6, **changed})


def test_repr():
    ledger = Ledger(1, 1e-6)
    start = "Ledger(epsilon=1, delta=1e-06, dataset='data'"
    state = "; spent epsilon=0 (rho=0), left epsilon=1 (rho=0.02436))"
    assert repr(ledger) == start + state
    assert "dataset='data', relation='add-or-remove-one'; spent" in repr(
        Ledger(1, 1e-6, relation=ADD)
    )
    with ledger.parallel(2) as parts:
        assert repr(parts[1]) == f"{start}, part 1:1{state}"
    assert repr(parts[1]) == f"{start}, part 1:1; its file cannot be read now)"


# --- copies


def test_copies_are_the_ledger_itself():
    ledger = Ledger(1.0, 1e-6)
    assert copy.copy(ledger) is ledger
    assert copy.deepcopy([ledger])[0] is ledger
    assert clone(PrivateLasso(ledger=ledger)).ledger is ledger
    assert copy.deepcopy(PrivateLasso(ledger=ledger)).ledger is ledger
    with ledger.parallel(2) as (part, _):
        assert copy.deepcopy(part) is part


def test_a_ledger_in_memory_stays_in_its_process():
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(TypeError, match=r"path='ledger.db'.*set_params\(ledger=None\)"):
        pickle.dumps(PrivateLasso(ledger=ledger))
    with ledger.parallel(2) as parts, pytest.raises(TypeError, match=r"path='ledger.db'"):
        pickle.dumps(parts)


# --- parts


@pytest.mark.parametrize("seed", range(3))
def test_parts_against_a_model(seed):
    """Random charges to a ledger and to parts of three partitions, of which two overlap in time."""
    rng = np.random.default_rng(seed)
    ledger = Ledger(1.0, 1e-6)
    direct, sums, refused = 0.0, [], 0
    for sizes in ((3,), (2, 4)):
        with ExitStack() as stack:
            parts = [stack.enter_context(ledger.parallel(size)) for size in sizes]
            here = [np.zeros(size) for size in sizes]
            sums += here
            for _ in range(40):
                cost = ledger.rho * rng.uniform(0, 0.05)
                i = rng.integers(-1, len(sizes))
                k = rng.integers(sizes[i]) if i >= 0 else 0
                own = here[i][k] if i >= 0 else 0.0
                others = direct + sum(s.max() for s in sums) - (here[i].max() if i >= 0 else 0.0)
                charged = parts[i][k] if i >= 0 else ledger
                left = ledger.rho - others - own
                assert charged.remaining().rho == pytest.approx(left, abs=1e-12)
                if cost > left:
                    refused += 1
                    with pytest.raises(BudgetExceededError):
                        charged.charge(ZCDPEvent(cost))
                    continue
                charged.charge(ZCDPEvent(cost))
                if i >= 0:
                    here[i][k] += cost
                else:
                    direct += cost
        total = direct + sum(s.max() for s in sums)
        assert ledger.remaining().rho == pytest.approx(ledger.rho - total, abs=1e-12)
    assert refused > 0


def test_parts_cost_what_the_costliest_costs():
    ledger = Ledger(1.0, 1e-6)
    with ledger.parallel([range(0, 5), [7, 5], np.arange(8, 10)]) as parts:
        for part in parts:
            part.charge(ZCDPEvent(ledger.rho))
        for part in parts:
            part.charge(NoOpEvent())
            with pytest.raises(BudgetExceededError):
                part.charge(small(ledger))
    assert ledger.remaining().rho == 0.0
    assert [charge.part for charge in ledger.charges()] == ["1:0", "1:1", "1:2"] * 2
    with pytest.raises(BudgetExceededError):
        ledger.charge(small(ledger))


def test_after_the_block_parts_are_closed():
    ledger = Ledger(1.0, 1e-6)
    with ledger.parallel(2) as old:
        pass
    with pytest.raises(KeyError), ledger.parallel(2) as failed:
        raise KeyError
    with ledger.parallel(2):  # another partition does not open them again
        for part in (*old, *failed):
            with pytest.raises(ValueError, match="has ended"):
                part.charge(NoOpEvent())
            with pytest.raises(ValueError, match="has ended"):
                part.remaining()
    assert ledger.charges() == []


@each(
    ("partition", "error", "match"),
    [
        ([[0, 1], [1, 2]], ValueError, "partition must consist of disjoint parts"),
        ([[0, 0]], ValueError, "partition must consist of disjoint parts"),
        ([], ValueError, "partition must have at least one part"),
        (0, ValueError, "partition must have at least one part"),
        (-1, ValueError, "partition must be an int >= 0"),
        (True, TypeError, "partition must be an int"),
        (2.0, TypeError, "partition must be an int"),
        ([[0.5]], TypeError, "record numbers must be an int"),
    ],
)
def test_bad_partitions(partition, error, match):
    ledger = Ledger(1.0, 1e-6)
    with pytest.raises(error, match=match), ledger.parallel(partition):
        pass


def test_no_parts_of_parts():
    with Ledger(1.0, 1e-6).parallel(2) as (part, _):
        with pytest.raises(ValueError, match="cannot be partitioned again"), part.parallel(2):
            pass
