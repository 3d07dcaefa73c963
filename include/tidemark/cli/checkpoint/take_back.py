"""`tidemark checkpoint rewind`, `repair` and `restore`: plan, and with `--apply` act."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import typer

from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.cli.checkpoint.take_back_report import Act, print_plan, print_restore
from tidemark.cli.checkpoint.targets import CheckpointTarget, place_or_pipeline, reached
from tidemark.cli.console import report_console
from tidemark.cli.options import absolute
from tidemark.errors import FAILED, SUCCESS, RewindRefused
from tidemark.storage.file_place import FilePlace
from tidemark.upkeep.housekeep import pipeline_of
from tidemark.upkeep.rewind.apply import apply_plan, finish, unfinished
from tidemark.upkeep.rewind.plan import ChangePlan, plan_rewind
from tidemark.upkeep.rewind.read import Listed, list_checkpoint, read_for_rewind
from tidemark.upkeep.rewind.repair import plan_repair
from tidemark.upkeep.rewind.restore import apply_restore, plan_restore
from tidemark.upkeep.rewind.sinks import Sink, kind_and_place

_STAMP = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True)
class Asked:
    """What all of these commands are asked with."""

    place: str
    sink: str | None
    backup: str | None
    stopped: bool
    apply: bool
    json: bool
    settings: Path | None


def rewind_place(asked: Asked, batch: int) -> int:
    """Take a checkpoint back to the end of a batch; the exit code."""

    def plan(found: Listed, sink: Sink | None, now: datetime) -> ChangePlan:
        facts = read_for_rewind(found, batch)
        query_id = found.facts.query_id
        known = query_id if isinstance(query_id, str) else None
        planned = sink.plan(known, batch) if sink is not None and known is not None else None
        return plan_rewind(facts, planned, now, asked.stopped)

    return _act(asked, plan, last_batch=batch)


def repair_place(asked: Asked) -> int:
    """Repair a checkpoint; the exit code."""

    def plan(found: Listed, sink: Sink | None, now: datetime) -> ChangePlan:
        return plan_repair(found, sink, now, asked.stopped)

    return _act(asked, plan, last_batch=None)


def restore_place(asked: Asked) -> int:
    """Bring a checkpoint and its sink back from a backup; the exit code."""
    backup = reached(absolute(asked.place).rstrip("/"), asked.settings)
    plan = plan_restore(backup, datetime.now(UTC), asked.stopped)
    if asked.apply and not plan.refused:
        apply_restore(plan, backup)
    print_restore(report_console(), plan, asked.apply, asked.json)
    return FAILED if plan.refused else SUCCESS


def _act(
    asked: Asked,
    plan_of: Callable[[Listed, Sink | None, datetime], ChangePlan],
    last_batch: int | None,
) -> int:
    place = _place(asked)
    now = datetime.now(UTC)
    if (begun := unfinished(place)) is not None and asked.apply:
        change, mark = begun
        if last_batch is not None and change.last_batch != last_batch:
            raise RewindRefused(
                f"{place.uri} was to be {change.title}, and that was not finished. Finish it by "
                f"--to-batch {change.last_batch}, or bring back what was: `tidemark checkpoint "
                f"restore {mark.backup} --apply`. Nothing was changed."
            )
        left = finish(change, place, mark, now)
        act = Act(mark.backup, True, judge_checkpoint(left.facts, now))
        print_plan(report_console(), ChangePlan(change, act.verdict, 0), act, asked.json)
        return SUCCESS
    plan = plan_of(list_checkpoint(place), _sink(asked), now)
    backup = FilePlace(
        absolute(asked.backup) if asked.backup else f"{place.uri}.before-{now:{_STAMP}}",
        place.options,
    )
    applied = asked.apply and not plan.refused and not plan.nothing
    if applied:
        left = apply_plan(plan, place, backup, now)
        act = Act(backup.uri, True, judge_checkpoint(left.facts, now))
    else:
        act = Act(backup.uri, False, plan.diagnosis)
    print_plan(report_console(), plan, act, asked.json)
    return FAILED if plan.refused else SUCCESS


def _place(asked: Asked) -> FilePlace:
    found = place_or_pipeline(asked.place, asked.settings)
    if not isinstance(found, CheckpointTarget):
        raise typer.BadParameter(
            f"{found[0].name} is a pipeline, whose checkpoints go with its tables. Give the path "
            "or URI of a checkpoint of another query."
        )
    if (pipeline := pipeline_of(found.place)) is not None:
        raise RewindRefused(
            f"{found.place.uri} belongs to the pipeline {pipeline}: its checkpoints go with its "
            "tables, which would not fit any more. Nothing was changed. `tidemark checkpoint "
            f"doctor {pipeline}` says how it stands."
        )
    return found.place


def _sink(asked: Asked) -> Sink | None:
    if asked.sink is None:
        return None
    try:
        kind, place = kind_and_place(asked.sink)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--sink") from error
    return Sink(kind, reached(absolute(place).rstrip("/"), asked.settings) if place else None)
