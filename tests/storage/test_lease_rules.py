"""Who may take a lease."""

from __future__ import annotations

from typing import Any

import pytest

from tests.storage.leases import ELSEWHERE, GONE, at, holder, left_by_another
from tidemark.storage.lease.rules import LeaseAction, free_for_others_at, judge_lease

RELEASED = {"released": True}
UNFENCED = {"released": True, "fence_due": True}
OTHER_MACHINE = {"machine": ELSEWHERE}
EARLIER_TRY = {"run_id": "mine"}


@pytest.mark.parametrize(
    ("found", "alive", "seconds", "act"),
    [
        (RELEASED, True, 1, LeaseAction.TAKE),
        (RELEASED | OTHER_MACHINE, False, 1, LeaseAction.TAKE),
        (RELEASED | EARLIER_TRY, True, 1, LeaseAction.TAKE),
        (UNFENCED, False, 1, LeaseAction.TAKE_OVER),
        (UNFENCED | OTHER_MACHINE, False, 1, LeaseAction.TAKE_OVER),
        ({}, True, 0, LeaseAction.WAIT),
        ({}, True, 59.9, LeaseAction.WAIT),
        ({}, True, 60, LeaseAction.END_AND_TAKE_OVER),
        ({}, False, 1, LeaseAction.TAKE_OVER),
        ({}, False, 60, LeaseAction.TAKE_OVER),
        (EARLIER_TRY, True, 1, LeaseAction.END_AND_TAKE_OVER),
        (EARLIER_TRY | {"purpose": "backfill"}, True, 1, LeaseAction.WAIT),
        (EARLIER_TRY, False, 1, LeaseAction.TAKE_OVER),
        (OTHER_MACHINE, False, 1, LeaseAction.WAIT),
        (OTHER_MACHINE, False, 60, LeaseAction.WAIT),
        (OTHER_MACHINE, False, 119.9, LeaseAction.WAIT),
        (OTHER_MACHINE, False, 120, LeaseAction.TAKE_OVER),
        (OTHER_MACHINE | EARLIER_TRY, False, 1, LeaseAction.WAIT),
        (OTHER_MACHINE | EARLIER_TRY, False, 120, LeaseAction.TAKE_OVER),
    ],
)
def test_a_lease_is_judged_by_its_file_and_its_processes(
    found: dict[str, Any], alive: bool, seconds: float, act: LeaseAction
) -> None:
    record = left_by_another(**found)
    verdict = judge_lease(record, holder(), [GONE] if alive else [], at(seconds))
    assert verdict.act is act


def test_a_lease_that_nobody_held_is_free() -> None:
    assert judge_lease(None, holder(), [], at(0)).act is LeaseAction.TAKE


def test_the_margin_is_the_owners_lease_length() -> None:
    record = left_by_another(seconds=10, expires_at=at(10), machine=ELSEWHERE)
    assert free_for_others_at(record) == at(20)
    assert judge_lease(record, holder(), [], at(20)).act is LeaseAction.TAKE_OVER
    waiting = judge_lease(record, holder(), [], at(19))
    assert waiting.because == "another host may take it over from 2026-03-01T12:00:20Z on"
