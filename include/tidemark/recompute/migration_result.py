"""The result of a migration, as it is written to a file and told to people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Literal

from tidemark.gold.compared import Compared
from tidemark.gold.pins import Published
from tidemark.storage.result_file import Facts, RunError


class MigrationResult(Facts):
    """One migration of a table, as far as it came.

    `changes` is a line for each difference between the table as it is and the pipeline's file,
    `widened` one for columns of bronze that get a wider type;
    `found` compares gold before with what it is to be, null where it did not come to that.
    `generation` and `gold` (its version) are null where nothing was committed; `published` tells
    the windows that are new or have other values. `checks` is a line for each check that did not
    pass; `data_docs` is where the pages of expectations begin. `seconds` are those of its stages.
    """

    format: Literal[1] = 1
    pipeline: str
    table: str
    run_id: str
    dry_run: bool
    outcome: Literal["succeeded", "failed"]
    started_at: datetime
    ended_at: datetime
    changes: tuple[str, ...] = ()
    widened: str | None = None
    bronze: int | None = None
    found: Compared | None = None
    former_generation: int | None = None
    generation: int | None = None
    gold: int | None = None
    published: Published | None = None
    checks: tuple[str, ...] = ()
    data_docs: str | None = None
    seconds: Mapping[str, float] = {}
    took_over: str | None = None
    error: RunError | None = None


def migration_lines(result: MigrationResult) -> Iterator[str]:
    """What a migration found and did, for people; nothing of one that failed."""
    if result.error:
        return
    yield from result.changes
    if result.widened:
        yield result.widened
    found = result.found
    if found is not None:
        yield (
            f"{result.table}: {found.rows:,} windows from bronze at version {result.bronze}: "
            f"{found.open:,} open, {found.same:,} closed with the values that they had, "
            f"{found.corrected:,} corrected, {found.first_seen:,} closed that gold did not have"
        )
        for example in found.examples:
            yield f"  corrected: {example}"
        if found.failing:
            yield f"  {found.failing:,} windows of which a measure fails, and which gold lacks"
        if found.frozen:
            yield f"  {found.frozen:,} frozen windows stay: bronze may have lost rows of theirs"
        if found.gone:
            yield f"  {found.gone:,} windows go: nothing computes them any more"
    yield from result.checks
    if result.data_docs:
        yield f"Data Docs: {result.data_docs}"
    if result.dry_run:
        yield from _duration(result.seconds)
        yield "dry run: nothing was written"
    elif result.generation is not None:
        yield (
            f"generation {result.generation} takes the place of {result.former_generation}: gold "
            f"is at version {result.gold}"
        )
    else:
        yield "nothing to migrate: the table is as the pipeline's file has it"


def _duration(seconds: Mapping[str, float]) -> Iterator[str]:
    """The migration itself does what a dry run does, and one commit of gold."""
    if "compute" in seconds:
        rest = sum(took for stage, took in seconds.items() if stage not in ("session", "compute"))
        yield (
            f"the windows took {seconds['compute']:,.1f} s to compute, which needs no lease, and "
            f"what comes after that {rest:,.1f} s: the migration takes as long, and commits gold"
        )
