"""`tidemark checkpoint rewind`, `repair` and `restore`: plan, and with `--apply` act."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import typer

from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.housekeeping.housekeep import check_no_pipeline
from tidemark.checkpoint.rewind.apply import apply_plan, finish, unfinished
from tidemark.checkpoint.rewind.change import CheckpointChange
from tidemark.checkpoint.rewind.named import restore_command, usual_backup
from tidemark.checkpoint.rewind.plan import ChangePlan, plan_rewind
from tidemark.checkpoint.rewind.read import CheckpointSnapshot, list_checkpoint, read_for_rewind
from tidemark.checkpoint.rewind.repair import plan_repair
from tidemark.checkpoint.rewind.restore import apply_restore, plan_restore
from tidemark.checkpoint.rewind.sinks import Sink, kind_and_place
from tidemark.cli.checkpoint.take_back_report import (
    Act,
    plan_as_json,
    print_outcome,
    print_plan,
    print_restore,
    restore_as_json,
)
from tidemark.cli.checkpoint.targets import CheckpointTarget, place_or_pipeline, reached
from tidemark.cli.console import print_documents, report_console
from tidemark.cli.options import absolute
from tidemark.errors import FAILED, SUCCESS, RewindRefused
from tidemark.storage.file_place import FilePlace


@dataclass(frozen=True)
class TakeBackRequest:
    """What all of these commands are asked with."""

    place: str | None
    sink: str | None
    backup: str | None
    stopped: bool
    apply: bool
    json: bool
    settings: Path | None


def rewind_place(asked: TakeBackRequest, batch: int) -> int:
    """Take a checkpoint back to the end of a batch; the exit code."""

    def plan(found: CheckpointSnapshot, sink: Sink | None, now: datetime) -> ChangePlan:
        facts = read_for_rewind(found, batch)
        query_id = found.facts.query_id
        known = query_id if isinstance(query_id, str) else None
        planned = sink.plan(known, batch) if sink is not None and known is not None else None
        return plan_rewind(facts, planned, now, asked.stopped)

    return _act(asked, plan, last_batch=batch)


def repair_place(asked: TakeBackRequest) -> int:
    """Repair a checkpoint; the exit code."""

    def plan(found: CheckpointSnapshot, sink: Sink | None, now: datetime) -> ChangePlan:
        return plan_repair(found, sink, now, asked.stopped)

    return _act(asked, plan, last_batch=None)


def restore_place(asked: TakeBackRequest) -> int:
    """Bring a checkpoint and its sink back from a backup; the exit code."""
    backup = reached(absolute(asked.backup or "").rstrip("/"), asked.settings)
    checkpoint = absolute(asked.place).rstrip("/") if asked.place else None
    plan = plan_restore(backup, datetime.now(UTC), asked.stopped, checkpoint, _sink(asked))
    console = report_console()
    if not asked.json:
        print_restore(console, plan, asked.apply)
    if applied := asked.apply and not plan.refused:
        apply_restore(plan, backup)
    if asked.json:
        print_documents([restore_as_json(plan, applied)])
    elif applied:
        console.print("all was brought back")
    return FAILED if plan.refused else SUCCESS


def _act(
    asked: TakeBackRequest,
    plan_of: Callable[[CheckpointSnapshot, Sink | None, datetime], ChangePlan],
    last_batch: int | None,
) -> int:
    place, sink, now = _place(asked), _sink(asked), datetime.now(UTC)
    named = absolute(asked.backup).rstrip("/") if asked.backup else None
    begun = unfinished(place, sink, named)
    if begun is None:
        plan, mark = plan_of(list_checkpoint(place), sink, now), None
        backup = FilePlace(named or usual_backup(place.uri, now), place.options)
    else:
        plan, mark = begun
        backup = FilePlace(mark.backup, place.options)
        _check_same(plan.change, last_batch, place, backup)
    act = Act(backup.uri, begun is not None)
    if not asked.json:
        print_plan(report_console(), plan, act)
    if asked.apply and not plan.refused and not plan.nothing:
        change = plan.change
        left = finish(change, place, mark, now) if mark else apply_plan(plan, place, backup, now)
        act = replace(act, verdict=judge_checkpoint(left.facts, now))
    if asked.json:
        print_documents([plan_as_json(plan, act)])
    else:
        print_outcome(report_console(), plan, act)
    return FAILED if plan.refused else SUCCESS


def _check_same(
    change: CheckpointChange, last_batch: int | None, place: FilePlace, backup: FilePlace
) -> None:
    if last_batch is not None and change.last_batch != last_batch:
        raise RewindRefused(
            f"{place.uri} was to be {change.title}, and that was not finished. Finish it by "
            f"--to-batch {change.last_batch}, or bring back what was: "
            f"`{restore_command(change, backup.uri)}`. Nothing was changed."
        )


def _place(asked: TakeBackRequest) -> FilePlace:
    found = place_or_pipeline(asked.place or "", asked.settings)
    if not isinstance(found, CheckpointTarget):
        raise typer.BadParameter(
            f"{found[0].name} is a pipeline, whose checkpoints go with its tables. Give the path "
            "or URI of a checkpoint of another query."
        )
    check_no_pipeline(found.place)
    return found.place


def _sink(asked: TakeBackRequest) -> Sink | None:
    if asked.sink is None:
        return None
    try:
        kind, place = kind_and_place(asked.sink)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--sink") from error
    return Sink(kind, reached(absolute(place).rstrip("/"), asked.settings) if place else None)
