"""`tidemark checkpoint rewind`, `repair` and `restore`, for people and as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from rich.console import Console

from tidemark.checkpoint.doctor.findings import Diagnosis, examples
from tidemark.cli.checkpoint.doctor_report import verdict_text
from tidemark.cli.console import print_documents, report_table
from tidemark.pipeline.instants import instant_text
from tidemark.upkeep.rewind.change import CheckpointChange
from tidemark.upkeep.rewind.plan import ChangePlan
from tidemark.upkeep.rewind.restore import RestorePlan

_SHOWN = 10


@dataclass(frozen=True)
class Act:
    """Where the backup is or would be, whether the plan was carried out, and the verdict."""

    backup: str
    applied: bool
    verdict: Diagnosis


def print_plan(console: Console, plan: ChangePlan, act: Act, in_json: bool) -> None:
    """Print what would be done, or was, and what has to be known."""
    if in_json:
        print_documents([_as_json(plan, act)])
        return
    change = plan.change
    console.print(f"\n{change.uri}: {_headline(plan, act)}", soft_wrap=True)
    if plan.refused:
        _list(console, "refused", plan.refused)
        _list(console, "to know", plan.notes)
        return
    if plan.nothing:
        return
    table = report_table("files of", ">files", ">bytes", "first ones")
    for kind, names in _by_kind(change.removed).items():
        size = sum(change.listed.get(name, 0) for name in names)
        shown_first = [name for name in names if not name.endswith(".crc")][:2]
        table.add_row(kind, f"{len(names):,}", f"{size:,}", ", ".join(shown_first))
    console.print("gone:" if act.applied else "goes:")
    console.print(table)
    if change.written:
        console.print(f"written: {', '.join(change.written)}", soft_wrap=True)
    _list(console, "to know", plan.notes)
    size = sum(change.listed.values())
    kept = "all as it was" if act.applied else f"{len(change.listed):,} files, {size:,} bytes"
    console.print(f"backup: {act.backup} ({kept})", soft_wrap=True)
    console.print(f"verdict afterwards: {verdict_text(act.verdict)}", soft_wrap=True)
    if plan.watermark_ms:
        console.print(f"watermark afterwards: {instant_text(plan.watermark_ms)}")
    if act.applied:
        console.print(
            f"to undo it: tidemark checkpoint restore {act.backup} --apply", soft_wrap=True
        )
    else:
        console.print("nothing was changed: --apply does it")


def print_restore(console: Console, plan: RestorePlan, apply: bool, in_json: bool) -> None:
    """Print what a restore would do, or did."""
    change, applied = plan.change, apply and not plan.refused
    if in_json:
        first, count = examples(plan.going)
        print_documents(
            [
                {
                    "uri": change.uri,
                    "backup": plan.backup,
                    "applied": applied,
                    "refused": plan.refused,
                    "files": len(change.listed),
                    "going": first,
                    "going_files": count,
                    "table": asdict(change.table) if change.table else None,
                }
            ]
        )
        return
    console.print(f"\n{change.uri}: the backup was made before it was {change.title}")
    if plan.refused:
        _list(console, "refused", plan.refused)
        return
    did = "were" if applied else "would be"
    console.print(
        f"{len(change.listed):,} files {did} brought back, and {len(plan.going):,} that were not "
        f"there then {did} removed",
        soft_wrap=True,
    )
    if change.table is not None:
        console.print(
            f"the table {change.table.uri} {did} what it was at version {change.table.seen}, with "
            f"the query's transaction at {change.table.batch_seen}",
            soft_wrap=True,
        )
    if not applied:
        console.print("nothing was changed: --apply does it")


def _headline(plan: ChangePlan, act: Act) -> str:
    if plan.refused:
        return f"not {plan.change.title}"
    if plan.nothing:
        return "nothing has to be done"
    return plan.change.title if act.applied else f"would be {plan.change.title}"


def _list(console: Console, head: str, sentences: Iterable[str]) -> None:
    every = tuple(sentences)
    for sentence in every[:_SHOWN]:
        console.print(f"{head}: {sentence}", soft_wrap=True)
    if len(every) > _SHOWN:
        console.print(f"{head}: and {len(every) - _SHOWN} more; --json tells all")


def _by_kind(names: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for name in names:
        found[name.partition("/")[0]].append(name)
    return found


def _as_json(plan: ChangePlan, act: Act) -> dict[str, object]:
    change: CheckpointChange = plan.change
    first, count = examples(change.removed)
    return {
        "uri": change.uri,
        "change": change.title,
        "last_batch": change.last_batch,
        "refused": plan.refused,
        "nothing_to_do": plan.nothing,
        "applied": act.applied,
        "backup": act.backup,
        "notes": plan.notes,
        "removed_files": count,
        "removed_bytes": sum(change.listed.get(name, 0) for name in change.removed),
        "removed": first,
        "written": sorted(change.written),
        "table": asdict(change.table) if change.table else None,
        "sink_log": asdict(change.sink_log) if change.sink_log else None,
        "verdict": str(act.verdict.verdict),
        "next_batch": act.verdict.batch,
        "watermark": instant_text(plan.watermark_ms),
    }
