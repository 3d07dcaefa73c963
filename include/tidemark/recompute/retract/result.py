"""The result of a retraction, as it is written to a file and told to people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidemark.gold.pins import Published, TableResult
from tidemark.printed import counted
from tidemark.recompute.retract.change import ChangedRows, Retraction
from tidemark.storage.result_file import ActResult, RunError


class RetractResult(ActResult):
    """One retraction, or the undo of one, as far as it came.

    `change` is what was planned, None where it did not come to that; `begun`: the pipeline was
    stopped for it. `changed` are the rows of each table's gold that it changes, by the plan: none
    of an undo, which computes nothing before it acts. `tables` are their new pins, `published` the
    windows that differ in gold. `checks` are those that did not pass.
    """

    change: Retraction | None = None
    begun: bool = False
    changed: Mapping[str, ChangedRows] = {}
    tables: Mapping[str, TableResult] = {}
    published: Mapping[str, Published] = {}
    checks: tuple[str, ...] = ()
    data_docs: str | None = None
    seconds: Mapping[str, float] = {}
    took_over: str | None = None
    error: RunError | None = None


def retract_lines(result: RetractResult) -> Iterator[str]:
    """What a retraction would do, or did, for people."""
    change = result.change
    if change is None:
        return
    done = result.begun and result.error is None
    rows = f"{counted(change.rows, 'row')} {change.what}"
    way = "out of bronze, to `retracted`" if change.undoes is None else "back to bronze"
    yield f"{change.pipeline}: {rows} {'went' if done else 'would go'} {way}"
    days = [f"{change.dates[0]}", *([f"{change.dates[-1]}"] if len(change.dates) > 1 else [])]
    yield f"  of {len(change.dates):,} dates: {' to '.join(days)}"
    if change.twins:
        yield (
            f"  {change.twins:,} rejected rows repeat these, and stay rejects: `tidemark rejects "
            f"replay {change.pipeline} --again --of duplicate` takes the first of each key in"
        )
    for name, found in result.changed.items():
        yield f"  {name}: {found.windows:,} rows of gold change"
        yield from (f"    {one}" for one in found.examples)
        if found.windows > len(found.examples):
            yield f"    … and {found.windows - len(found.examples):,} more"
    for table in change.tables:
        yield f"  {table.table}: {'has begun' if done else 'begins'} a new generation"
    yield from (f"  {line}" for line in result.checks)
    if done and change.undoes is None and change.follows is None:
        yield (
            f"to undo it: `tidemark retract {change.pipeline} --undo {change.id} "
            '--reason "…" --apply`'
        )
    elif result.dry_run and result.error is None:
        yield "nothing was changed: --apply does it"
