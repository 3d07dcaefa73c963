"""The result of a backfill, as it is written to a file and told to people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from tidemark.gold.pins import Published
from tidemark.recompute.differences import Differences, difference_lines
from tidemark.storage.result_file import Facts, RunError

_TITLES = {
    "different": "windows with another value",
    "only_in_gold": "windows that go, because bronze has no row of them",
    "only_in_bronze": "windows that come, because gold lacks them",
}


class BackfillResult(Facts):
    """One backfill of a table, as far as it came.

    `window_from` and `window_to` are the range as it was asked for. `found` compares gold before
    with bronze. `appended` windows went to `changes`; fewer than `found` where an earlier try had
    appended them. `published_windows` changed in gold, at version `gold`; both are null where
    nothing was published: in a dry run, or because nothing differed. `published` tells the range of
    windows that changed in gold by this run id, also where an earlier try committed them. `checks`
    is a line for each check that did not pass; `data_docs` is where the pages of expectations
    begin.
    """

    format: Literal[1] = 1
    pipeline: str
    table: str
    run_id: str
    dry_run: bool
    outcome: Literal["succeeded", "failed"]
    window_from: datetime
    window_to: datetime
    started_at: datetime
    ended_at: datetime
    bronze: int | None = None
    found: Differences = Differences()
    appended: int = 0
    changes: int | None = None
    gold: int | None = None
    published_windows: int | None = None
    published: Published | None = None
    checks: tuple[str, ...] = ()
    data_docs: str | None = None
    took_over: str | None = None
    error: RunError | None = None


def backfill_lines(result: BackfillResult) -> Iterator[str]:
    """What a backfill found and did, for people; nothing of one that failed."""
    if result.error:
        return
    found = result.found
    yield (
        f"{result.table}: {found.bronze_windows:,} windows computed from {found.bronze_rows:,} "
        f"assignments of bronze: {found.equal:,} equal in gold, {found.windows:,} windows differ"
    )
    if found.failing:
        yield f"  in neither: {found.failing:,} windows of which a measure fails"
    yield from difference_lines(found, _TITLES, arrow=True)
    yield from result.checks
    if result.data_docs:
        yield f"Data Docs: {result.data_docs}"
    if result.dry_run:
        yield "dry run: nothing was written"
    elif result.published_windows is None:
        yield "nothing to publish: gold stays as it is"
    else:
        yield (f"{result.published_windows:,} windows published, gold is at version {result.gold}")
