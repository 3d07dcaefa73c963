"""The result of a rewind of a pipeline, as it is written to a file and told to people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidemark.gold.compared import Compared
from tidemark.gold.pins import Published, TableResult
from tidemark.printed import counted
from tidemark.recompute.rewind.change import LeftOut, PipelineChange, Reader, TableBack
from tidemark.storage.result_file import ActResult, RunError


class LeftReader(Reader):
    """One that could not begin a new generation: why."""

    why: str

    @property
    def command(self) -> str:
        return f"tidemark migrate {self.pipeline} --rebuild {self.table}"


class RewindResult(ActResult):
    """One rewind of a pipeline, as far as it came.

    `change` is what was planned, null where it did not come to that; `refused` why it was not done.
    `found` compares what each table was then with what was computed from bronze, and `tables` are
    its new pins. `changed` are the windows of each that differ by it. `left`: tables of other
    pipelines that could not begin anew.
    """

    change: PipelineChange | None = None
    notes: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    backup: str | None = None
    found: Mapping[str, Compared] = {}
    tables: Mapping[str, TableResult] = {}
    changed: Mapping[str, Published] = {}
    left: tuple[LeftReader, ...] = ()
    seconds: Mapping[str, float] = {}
    took_over: str | None = None
    error: RunError | None = None


def rewind_lines(result: RewindResult) -> Iterator[str]:
    """What a rewind would do, or did, for people."""
    change = result.change
    if change is None:
        return
    done = result.backup is not None
    yield f"{change.pipeline}: {'back' if done else 'would go back'} to {change.to}"
    yield from (f"refused: {reason}" for reason in result.refused)
    if result.refused:
        return
    yield f"  undone: {counted(len(change.undone), 'run')}{_names(change.undone)}"
    for name, back in (("bronze", change.bronze), ("rejects", change.rejects)):
        if back.seen != back.version:
            yield f"  {name}: from version {back.seen} to what it was at version {back.version}"
    yield f"  ingest: the next batch is {change.ingest.batch + 1}"
    yield from map(_left_out, change.without)
    if change.reason:
        yield f"  why: {change.reason} ({change.by})"
    for gold in change.golds:
        yield f"  {gold.table}: {_gold_back(gold.back)}a new generation"
    yield from (f"  to know: {note}" for note in result.notes)
    for name, found in result.found.items():
        yield (
            f"  {name}: {found.rows:,} windows computed from bronze: {found.open:,} open, "
            f"{found.same:,} closed as they were then, {found.corrected:,} corrected"
        )
    for one in result.left:
        yield f"  left: {one.table} of {one.pipeline} has begun no new generation: {one.why}"
    if done:
        yield f"backup: {result.backup}"
        yield f"to undo it: `tidemark rewind {change.pipeline} --undo {change.id} --apply`"
    elif result.dry_run:
        yield "nothing was changed: --apply does it"


def _left_out(one: LeftOut) -> str:
    then = (
        "it lies there, and the next run passes it over, with a reject"
        if one.is_there
        else "it is gone; what comes under its name is read"
    )
    return (
        f"  without {one.file}: {counted(one.accepted, 'row')} accepted and {one.rejected:,} "
        f"rejected do not come back; {then}"
    )


def _gold_back(back: TableBack | None) -> str:
    if back is None or back.seen == back.version:
        return ""
    return f"gold from version {back.seen} to what it was at version {back.version}, then "


def _names(runs: tuple[str, ...]) -> str:
    if not runs:
        return ""
    return f" ({runs[0]})" if len(runs) == 1 else f" ({runs[0]} to {runs[-1]})"
