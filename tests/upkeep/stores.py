"""Checkpoints that are kept: what goes is removed as far as wanted, and what stays is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.housekeeping.housekeep import carry_out_housekeeping
from tidemark.checkpoint.housekeeping.plan import HousekeepingPlan
from tidemark.checkpoint.housekeeping.plan_housekeeping import Keep, plan_housekeeping
from tidemark.checkpoint.housekeeping.stock import CheckpointStock, take_stock
from tidemark.checkpoint.reading.rebuild import Rebuild, plan_rebuild
from tidemark.storage.file_place import FilePlace

# Long after any checkpoint that a test makes, so that leftovers are old.
NOW = datetime(2100, 1, 1, tzinfo=UTC)


class Stopped(Exception):
    """The process died here."""


def plan_of(folder: Path, keep: int, now: datetime = NOW) -> HousekeepingPlan:
    taken = take_stock(FilePlace(str(folder)), keep)
    return plan_housekeeping(taken, judge_checkpoint(taken.facts, now), Keep(keep), now)


def keep_only(folder: Path, keep: int) -> HousekeepingPlan:
    """Plan, and carry it out to its end."""
    plan = plan_of(folder, keep)
    carry_out_housekeeping(plan, FilePlace(plan.uri))
    return plan


def keep_in_part(folder: Path, keep: int, removed: int) -> None:
    """Plan, and die after so many files were removed."""
    for name in list(plan_of(folder, keep).going)[:removed]:
        (folder / name).unlink()


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def builds(folder: Path, keep: int) -> dict[str, Rebuild]:
    """By store and version, what each kept version is built from."""
    return dict(_builds(take_stock(FilePlace(str(folder)), keep), keep))


def _builds(stock: CheckpointStock, keep: int) -> Iterator[tuple[str, Rebuild]]:
    last = stock.facts.commits.newest
    assert last is not None
    for store in stock.layout.stores.values():
        for version in range(max(last - keep + 1, 1), last + 2):
            yield f"{store.id.folder} {version}", plan_rebuild(store, version)
