"""`tidemark rejects`: the rows that a pipeline rejected, by reason, with their text and place; and
those that come to bronze after all, by a job of Spark's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.cli.console import (
    facts_table,
    print_documents,
    report_console,
    report_table,
    shortened,
)
from tidemark.cli.help import Group
from tidemark.cli.job import end_with, run_with_tables
from tidemark.cli.options import (
    Apply,
    Master,
    PipelineName,
    ResultInJson,
    SettingsFile,
    absolute,
    asked_pipeline,
    asks,
)
from tidemark.pipeline.settings.masters import check_master
from tidemark.runs.has_run import check_has_run
from tidemark.runs.requests import NO_REASON_TO_REPLAY, ReplayRequest
from tidemark.storage.lease.files import time_text

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from tidemark.page.rejects import ReasonOfRejects, Reject

rejects = typer.Typer(
    cls=Group,
    help="The rejects of a pipeline: rows that it did not accept, and why.",
    no_args_is_help=True,
)

Reason = Annotated[
    str | None,
    typer.Option(metavar="REASON", show_default=False, help="Only those of one reason."),
]
# In a table; `show` and `export` have all of it.
_LONGEST = 160
_NONE = "–"


@rejects.command("list")
def list_rejects(
    pipeline: PipelineName,
    reason: Reason = None,
    last: Annotated[
        int, typer.Option(metavar="N", min=0, max=1_000_000_000, help="The newest ones shown.")
    ] = 20,
    json: Annotated[bool, typer.Option("--json", help="JSON instead of tables.")] = False,
    settings: SettingsFile = None,
) -> None:
    """List how many there are of each reason, and the newest ones."""
    # delta-rs, Arrow and DuckDB, which the other commands do without.
    from itertools import islice

    from tidemark.page.rejects import newest_rejects, reasons_of
    from tidemark.storage.delta.dropped_rejects import dropped_text, dropped_to

    table = _table(pipeline, settings)
    by_reason, gone = reasons_of(table), dropped_text(table)
    _check_reason(reason, [one.reason for one in by_reason], gone)
    newest = list(islice(newest_rejects(table, reason), last))
    if json:
        reasons = [{"reason": one.reason, "rejects": one.rejects} for one in by_reason]
        told = {"reasons": reasons, "newest": [one.facts() for one in newest]}
        print_documents([{**told, "dropped_to": dropped_to(table) if gone else None}])
        return
    print_rejects(by_reason, newest, gone)


@rejects.command("show")
def show_reject(
    pipeline: PipelineName,
    reject: Annotated[str, typer.Argument(metavar="ID", help="The id of a reject.")],
    json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
    settings: SettingsFile = None,
) -> None:
    """Show one reject: why, where it is in the source, and its text as it was read."""
    from tidemark.page.rejects import rejects_of_id
    from tidemark.storage.delta.dropped_rejects import dropped_text

    table = _table(pipeline, settings)
    found = rejects_of_id(table, reject)
    if not found:
        gone = f" {told}" if (told := dropped_text(table)) else ""
        raise typer.BadParameter(
            f"No reject of {pipeline} has the id {reject}.{gone} `tidemark rejects list "
            f"{pipeline}` names those of the newest ones, and `export` has all.",
            param_hint="ID",
        )
    if json:
        print_documents([one.facts() for one in found])
        return
    for one in found:
        print_reject(one)


@rejects.command()
def export(
    pipeline: PipelineName,
    reason: Reason = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default=False, help="A new file; stdout without it."),
    ] = None,
    settings: SettingsFile = None,
) -> None:
    """Write the rejects as JSON lines: id, reason, detail, event time, place, and the raw text."""
    from tidemark.page.rejects import newest_rejects, reasons_of
    from tidemark.storage.delta.dropped_rejects import dropped_text

    table = _table(pipeline, settings)
    gone = dropped_text(table)
    _check_reason(reason, [one.reason for one in reasons_of(table)], gone)
    lines = (one.line() for one in newest_rejects(table, reason))
    if out is None:
        for line in lines:
            print(line)
        return
    try:
        number = _write_new(out, lines)
    except FileExistsError:
        raise typer.BadParameter(
            f"{out} is there already, and nothing was written to it.", param_hint="--out"
        ) from None
    print(f"{number:,} rejects written to {out}")
    if gone:
        print(gone)


def _write_new(out: Path, lines: Iterable[str]) -> int:
    """Write a file that is there as a whole or not at all; how many lines it has."""
    number = 0
    # Of a name of its own: somebody else may export to the same file.
    part = out.with_name(f"{out.name}.{token_hex(4)}.part")
    try:
        # By itself: what reads the rejects may raise an OSError too.
        part.touch(exist_ok=False)
    except OSError as error:
        told = f"{out} cannot be written: {error.strerror}. Name another file."
        raise typer.BadParameter(told, param_hint="--out") from None
    try:
        if out.exists():
            raise FileExistsError
        with part.open("w", encoding="utf-8") as file:
            for line in lines:
                file.write(f"{line}\n")
                number += 1
        # A rename alone would replace one that has come meanwhile.
        out.touch(exist_ok=False)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return number


@rejects.command()
@asks(ReplayRequest, "dry_run")
def replay(
    request: ReplayRequest,
    apply: Apply = False,
    in_json: ResultInJson = False,
    master: Master = "local[*]",
) -> None:
    """Judge rejects anew, mended or as they were read, and bring those to bronze that pass.

    Each keeps where it came from and goes from `rejects` to the table `replayed`, with who did it
    and why; gold follows with the next run. Without `--apply` it is judged and shown, and nothing
    is written; with `--apply` alone a replay that was begun is finished. Exits with 0 when all went
    well, 1 when it is refused or something must be mended first, 75 when running again can help.
    """
    # delta-rs, which the other commands do without.
    from tidemark.recompute.replay.result import ReplayResult, replay_lines

    found, loaded = asked_pipeline(request.pipeline, request.settings)
    if request.finishes and not apply:
        raise typer.BadParameter("name rejects: --from or --again")
    if apply and not request.finishes and not (request.reason or "").strip():
        raise typer.BadParameter(NO_REASON_TO_REPLAY)
    check_master(loaded, master, "--master")
    lease, mended = "replay" if apply else None, request.mended and absolute(request.mended)
    outcome = run_with_tables(
        ReplayResult,
        request,
        found,
        loaded,
        master,
        lease,
        dry_run=not apply,
        mended=mended,
    )
    end_with(outcome, replay_lines(outcome), in_json)


def print_rejects(
    by_reason: Sequence[ReasonOfRejects], newest: Sequence[Reject], gone: str | None = None
) -> None:
    """A table of the reasons, and one of some rejects, their texts shortened; `gone` says which
    rejects are there no more."""
    console = report_console()
    if gone or not by_reason:
        console.print(gone or "No row is rejected.")
    if not by_reason:
        return
    reasons = report_table("reason", ">rejects", "first read", "last read")
    for one in by_reason:
        times = time_text(one.first_read), time_text(one.last_read)
        reasons.add_row(one.reason, f"{one.rejects:,}", *times)
    console.print(reasons)
    if newest:
        console.print()
        rows = report_table("id", "reason", "~detail", "place", "raw")
        for reject in newest:
            detail, raw = reject.detail or "", reject.raw or ""
            texts = shortened(detail, _LONGEST), _place_text(reject.place), shortened(raw, _LONGEST)
            rows.add_row(reject.id or _NONE, reject.reason, *texts)
        console.print(rows)


def print_reject(reject: Reject) -> None:
    """All of one reject: its facts, and below them its text as it was read."""
    times = {"event time": reject.event_time, "read at": reject.read_at}
    facts = {
        "id": reject.id or _NONE,
        "reason": reject.reason,
        "detail": reject.detail or _NONE,
        "place": _place_text(reject.place),
        **{name: _NONE if at is None else time_text(at) for name, at in times.items()},
    }
    if reject.raw_bytes is not None:
        facts["raw bytes"] = reject.raw_bytes.hex(" ")
    console = report_console()
    console.print(facts_table(facts))
    if reject.raw is not None:
        console.print(reject.raw)


def _table(pipeline: str, settings: Path | None) -> DeltaTable:
    from tidemark.storage.warehouse import Warehouse

    found, loaded = asked_pipeline(pipeline, settings)
    check_has_run(found, loaded, "show")
    return Warehouse.of(found.name, loaded).rejects.existing()


def _check_reason(reason: str | None, known: list[str], gone: str | None) -> None:
    if reason is not None and reason not in known:
        there = f"There are: {', '.join(known)}." if known else "There are none."
        there += f" {gone}" if gone else ""
        raise typer.BadParameter(
            f"No reject has the reason {reason!r}. {there}", param_hint="--reason"
        )


def _place_text(place: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in place.items())
