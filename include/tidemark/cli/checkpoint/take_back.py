"""`tidemark checkpoint rewind`, `repair` and `restore`: plan, and with `--apply` act."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import typer
from rich.console import Console

from tidemark.checkpoint.doctor.findings import Diagnosis, examples
from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.housekeeping.housekeep import check_no_pipeline
from tidemark.checkpoint.rewind.apply import apply_plan, finish, unfinished
from tidemark.checkpoint.rewind.change import CheckpointChange
from tidemark.checkpoint.rewind.named import restore_command, usual_backup
from tidemark.checkpoint.rewind.plan import ChangePlan, plan_rewind
from tidemark.checkpoint.rewind.read import CheckpointSnapshot, list_checkpoint, read_for_rewind
from tidemark.checkpoint.rewind.repair import plan_repair
from tidemark.checkpoint.rewind.restore import RestorePlan, apply_restore, plan_restore
from tidemark.checkpoint.rewind.sinks import Sink, kind_and_place
from tidemark.cli.checkpoint.doctor_report import verdict_text
from tidemark.cli.checkpoint.targets import CheckpointTarget, place_or_pipeline, reached
from tidemark.cli.console import print_documents, report_console, report_table
from tidemark.cli.options import absolute
from tidemark.errors import FAILED, SUCCESS, RewindRefused
from tidemark.pipeline.instants import instant_text
from tidemark.pipeline.settings.storage_options import is_local
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

    @cached_property
    def options(self) -> Mapping[str, str]:
        """The settings' storage options where one of the places is not on this machine: by these
        all are reached, for files go from one to another."""
        sink = (self.sink or "").partition(":")[2]
        places = (absolute(place) for place in (self.place, self.backup, sink) if place)
        away = next((place for place in places if not is_local(place)), None)
        return {} if away is None else reached(away, self.settings).options


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
    backup = FilePlace(absolute(asked.backup or "").rstrip("/"), asked.options)
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
    return FilePlace(found.place.uri, asked.options)


def _sink(asked: TakeBackRequest) -> Sink | None:
    if asked.sink is None:
        return None
    try:
        kind, place = kind_and_place(asked.sink)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--sink") from error
    return Sink(kind, FilePlace(absolute(place).rstrip("/"), asked.options) if place else None)


_SHOWN = 10


@dataclass(frozen=True)
class Act:
    """Where the backup is or would be, whether the change was begun before, and, once it is done,
    the verdict on what is there then."""

    backup: str
    begun: bool
    verdict: Diagnosis | None = None


def print_plan(console: Console, plan: ChangePlan, act: Act) -> None:
    """Print what would be done, before anything is, and what has to be known."""
    change = plan.change
    console.print(f"\n{change.uri}: {_headline(plan, act)}")
    if plan.nothing:
        return
    if plan.refused:
        _list(console, "refused", plan.refused)
    if not plan.refused or act.begun:
        _print_change(console, change, act)
    _list(console, "to know", plan.notes)


def _print_change(console: Console, change: CheckpointChange, act: Act) -> None:
    table = report_table("files of", ">files", ">bytes", "~first ones")
    by_kind: dict[str, list[str]] = defaultdict(list)
    for name in change.removed:
        by_kind[name.partition("/")[0]].append(name)
    for kind, names in by_kind.items():
        size = sum(change.listed.get(name, 0) for name in names)
        shown_first = [name for name in names if not name.endswith(".crc")][:2]
        table.add_row(kind, f"{len(names):,}", f"{size:,}", ", ".join(shown_first))
    console.print("goes:")
    console.print(table)
    if change.written:
        console.print(f"written: {', '.join(change.written)}")
    if act.begun:
        _print_sink(console, change, "goes back")
    size = sum(change.listed.values())
    console.print(f"backup: {act.backup} ({len(change.listed):,} files, {size:,} bytes)")


def print_outcome(console: Console, plan: ChangePlan, act: Act) -> None:
    """Print how a planned change ended, or that it was not begun."""
    verdict = act.verdict or plan.diagnosis
    if plan.refused or plan.nothing:
        return
    if verdict is not None:
        console.print(f"verdict afterwards: {verdict_text(verdict)}")
    if plan.watermark_ms:
        console.print(f"watermark afterwards: {instant_text(plan.watermark_ms)}")
    if act.verdict is not None:
        console.print(f"done: {plan.change.title}")
        undo = restore_command(plan.change, act.backup)
        console.print(f"to undo it: `{undo}`")
    else:
        console.print(f"nothing was changed: --apply {'finishes' if act.begun else 'does'} it")


def print_restore(console: Console, plan: RestorePlan, apply: bool) -> None:
    """Print what a restore would do, before it is done."""
    change = plan.change
    console.print(f"\n{change.uri}: the backup was made before it was {change.title}")
    if plan.refused:
        _list(console, "refused", plan.refused)
    console.print(
        f"{len(change.listed):,} files would be brought back, and {len(plan.going):,} that were "
        "not there then would be removed",
    )
    if plan.table_stays and change.table is not None:
        console.print(f"the table {change.table.uri} was not taken back, and stays as it is")
    else:
        _print_sink(console, change, "comes back")
    if not apply and not plan.refused:
        console.print("nothing was changed: --apply does it")


def _print_sink(console: Console, change: CheckpointChange, goes: str) -> None:
    if (table := change.table) is not None:
        version, batch = (
            (table.version, table.batch) if goes == "goes back" else (table.seen, table.batch_seen)
        )
        console.print(
            f"the table {table.uri} {goes} to what it was at version {version}, with the query's "
            f"transaction at {batch}",
        )
    if (log := change.sink_log) is not None:
        files = log.removed if goes == "goes back" else log.listed
        console.print(f"the folder {log.uri} {goes} by {len(files):,} files")


def _headline(plan: ChangePlan, act: Act) -> str:
    if act.begun:
        return f"it was to be {plan.change.title}, which was begun and not finished"
    if plan.refused:
        return f"not {plan.change.title}"
    return "nothing has to be done" if plan.nothing else f"to be {plan.change.title}"


def _list(console: Console, head: str, sentences: Iterable[str]) -> None:
    every = tuple(sentences)
    for sentence in every[:_SHOWN]:
        console.print(f"{head}: {sentence}")
    if len(every) > _SHOWN:
        console.print(f"{head}: and {len(every) - _SHOWN} more; --json tells all")


def plan_as_json(plan: ChangePlan, act: Act) -> dict[str, object]:
    """The document of a rewind or a repair."""
    change = plan.change
    verdict = act.verdict or plan.diagnosis
    first, count = examples(change.removed)
    return {
        "uri": change.uri,
        "change": change.title,
        "last_batch": change.last_batch,
        "refused": plan.refused,
        "nothing_to_do": plan.nothing,
        "begun_before": act.begun,
        "applied": act.verdict is not None,
        "backup": act.backup,
        "notes": plan.notes,
        "removed_files": count,
        "removed_bytes": sum(change.listed.get(name, 0) for name in change.removed),
        "removed": first,
        "written": sorted(change.written),
        "table": asdict(change.table) if change.table else None,
        "sink_log": asdict(change.sink_log) if change.sink_log else None,
        "verdict": str(verdict.verdict) if verdict else None,
        "next_batch": verdict.batch if verdict else None,
        "watermark": instant_text(plan.watermark_ms),
    }


def restore_as_json(plan: RestorePlan, applied: bool) -> dict[str, object]:
    """The document of a restore."""
    change = plan.change
    first, count = examples(plan.going)
    return {
        "uri": change.uri,
        "backup": plan.backup,
        "applied": applied,
        "refused": plan.refused,
        "files": len(change.listed),
        "going": first,
        "going_files": count,
        "table": asdict(change.table) if change.table and not plan.table_stays else None,
        "sink_log": asdict(change.sink_log) if change.sink_log else None,
    }
