"""The result of an erasure, as it is written to a file and told to people: numbers, no values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidemark.gold.pins import Published, TableResult
from tidemark.printed import counted
from tidemark.storage.result_file import ActResult, RunError

_SHOWN = 10


class EraseResult(ActResult):
    """One erasure, as far as it came.

    `erasure` is its id, None where it did not come to a plan, or where only to let runs go on was
    left; `begun`: the pipeline was stopped for it. `rows` are those that go, by table, `unread` the
    rejects that the condition cannot be asked of and that stay, `windows` the rows of each table's
    gold that change, by the plan. `again` are the columns by whose values such rows are rejected
    when they come again. `goes` are the files that go of those that were there when it was planned,
    by folder, and `stays` says what lies elsewhere, and what to do; `sources` are files of it, as
    far as a thousand. `tables` are the tables' new pins, `published` the windows that differ in
    gold, `checks` those that did not pass.
    """

    erasure: str | None = None
    begun: bool = False
    rows: Mapping[str, int] = {}
    unread: int = 0
    windows: Mapping[str, int] = {}
    again: tuple[str, ...] = ()
    goes: Mapping[str, int] = {}
    stays: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    tables: Mapping[str, TableResult] = {}
    published: Mapping[str, Published] = {}
    checks: tuple[str, ...] = ()
    seconds: Mapping[str, float] = {}
    took_over: str | None = None
    error: RunError | None = None


def erase_lines(result: EraseResult) -> Iterator[str]:
    """What an erasure would do, or did, for people."""
    if not result.rows:
        if result.begun and result.error is None:
            yield f"{result.pipeline}: what was begun is finished"
        return
    done = result.begun and result.error is None
    yield f"{result.pipeline}: {'erased' if done else 'would be erased'}"
    for table, rows in result.rows.items():
        yield f"  {counted(rows, 'row')} of {table}"
    if result.unread:
        yield (
            f"  left: {counted(result.unread, 'reject')} with none of the texts, of which today's "
            "file makes no row that the condition can be asked of"
        )
    for name, rows in result.windows.items():
        yield f"  {name}: {counted(rows, 'changed row')} of gold; it begins a new generation"
    if result.again:
        columns = ", ".join(result.again)
        yield f"  rejected when they come again: rows with the same {columns}, by keyed digests"
    if not done:
        yield "with all that held them, and there is no way back; of the files that are there now:"
        for name, files in result.goes.items():
            yield f"  {counted(files, 'file')} of {name}"
    yield from (f"  {line}" for line in result.checks)
    yield "what this command does not touch:"
    yield from (f"  {line}" for line in result.stays)
    for file in result.sources[:_SHOWN]:
        yield f"    {file}"
    if len(result.sources) > _SHOWN:
        yield f"    … and {len(result.sources) - _SHOWN:,} more, which --json tells"
    if result.dry_run and result.error is None:
        yield "nothing was changed: --apply does it"
