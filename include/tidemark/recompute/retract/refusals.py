"""Why rows are not retracted, or not brought back: what can be told without Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import datetime

import pyarrow.dataset as ds

from tidemark.errors import (
    RetractionRefused,
    RetractionUnproven,
    TidemarkError,
    UnpublishedChanges,
)
from tidemark.gold.other_readers import if_no_more, other_readers
from tidemark.gold.retention import table_frozen_before_ms
from tidemark.gold.state import gold_state, is_published
from tidemark.operators.kinds import operator_of
from tidemark.pipeline.instants import instant_of
from tidemark.recompute.backfill_range import pending_changes
from tidemark.recompute.retract.change import RetractedTable, acts_since, read_retraction
from tidemark.runs.contract.recorded import begun_from
from tidemark.runs.found import found_tables
from tidemark.runs.generations import generations
from tidemark.runs.run import Run, TableRun
from tidemark.runs.unfinished_act import ActKind, PipelineAct, unfinished_act
from tidemark.sources.notes import source_notes
from tidemark.storage.delta.appended import first_append
from tidemark.storage.delta.dataset import dataset_of

_UNTOUCHED = "Nothing was changed."


def started_tables(run: Run) -> tuple[RetractedTable, ...]:
    """The tables that have gold or a query, and so begin a generation. UnpublishedChanges where
    gold does not stand for all of bronze yet: an act would show what nobody has judged."""
    if (case := run.ingest_checkpoint().restart_case()) != "clean end":
        raise _unpublished(run, f"the checkpoint of its ingest is not at a clean end ({case})")
    found = []
    for one in found_tables(run.pipeline, run.warehouse):
        gold = one.gold.table
        if gold is None or not is_published(gold):
            raise _unpublished(run, f"{one.name} was not published yet")
        found.append(
            RetractedTable(
                table=one.name,
                gold=gold.version(),
                newest_generation=generations(run.warehouse, one.name)[-1],
            )
        )
        if why := _why_unpublished(run.table(one.name)):
            raise _unpublished(run, f"{one.name}: {why}")
    return tuple(found)


def _why_unpublished(table: TableRun) -> str | None:
    waiting = pending_changes(table.changes.existing(), table.state.changes).num_rows
    if waiting:
        return f"{waiting:,} changed windows wait for their publish"
    last, version = table.checkpoint.last_batch("commits"), table.bronze.existing().version()
    if last is None:
        seed = begun_from(table.name, table.warehouse)
        first = 0 if seed is None else seed.bronze + 1
    elif (case := table.checkpoint.restart_case()) != "clean end":
        return f"the checkpoint of its query is not at a clean end ({case})"
    else:
        first = table.checkpoint.delta_version(last)
    if first_append(table.bronze, first, version) is None:
        return None
    return f"it has read bronze up to version {first - 1} of {version}"


def _unpublished(run: Run, why: str) -> UnpublishedChanges:
    name = run.pipeline.name
    return UnpublishedChanges(
        f"Gold of {name} does not stand for all of its bronze yet: {why}. {_UNTOUCHED} Run the "
        f"pipeline (`tidemark run {name}`), or publish what is held; then repeat this."
    )


def check_no_other_readers(run: Run, rest: str) -> None:
    """RetractionRefused where gold of other pipelines shows rows of this bronze too."""
    if readers := other_readers(run.warehouse):
        names = ", ".join(one.name for one in readers)
        raise RetractionRefused(
            f"Tables of other pipelines join with this bronze ({names}), and what their gold shows "
            f"{rest} {if_no_more(run.warehouse, readers)}"
        )


def check_followed_as_then(run: Run, act: str) -> None:
    """RetractionRefused where the source changed rows behind an act, and the pipeline's file does
    not follow them by the same key any more: what it changed of the act's rows is not told then."""
    key = run.pipeline.source.followed_key
    for later in acts_since(run.warehouse, act):
        if later.follows is None or later.key == key:
            continue
        was = "a key that was not noted" if later.key is None else f"the key {', '.join(later.key)}"
        now = f"follows by {', '.join(key)}" if key else "follows no changes"
        raise RetractionRefused(
            f"The act {later.id} followed what the source changed since the retraction {act}, by "
            f"{was}, and the pipeline's file {now} by now: whether the source changed or deleted "
            f"these rows is not told. {_UNTOUCHED} Set `changes` and `key` as they were, or write "
            "the rows again in the source."
        )


def check_followed_as_begun(run: Run) -> None:
    """RetractionRefused where what the source changed is being followed, and the pipeline's file
    does not follow by the same key any more: other rows would be read than the act is about, and
    nothing would ever finish it. Asked before a run reads anything. RetractionUnproven where it has
    not all of the act's tables."""
    unfinished, key = unfinished_act(run.warehouse), run.pipeline.source.followed_key
    if unfinished is None or unfinished.kind is not ActKind.FOLLOWING:
        return
    change = read_retraction(unfinished.folder(run.warehouse))
    begun = change.key
    if key and begun in (key, None):
        check_tables_are_there(run, unfinished, change.tables, RetractionUnproven)
        return
    was = "a key that was not noted" if begun is None else f"the key {', '.join(begun)}"
    now = f"follows by {', '.join(key)}" if key else "follows no changes"
    raise RetractionRefused(
        f"What the source changed is being followed by {was}, and the pipeline's file {now} by "
        "now: so this cannot be finished. Nothing was read. Put `changes` and `key` back, run the "
        "pipeline, and change the file then."
    )


def check_tables_are_there(
    run: Run, act: PipelineAct, tables: Iterable[RetractedTable], error: type[TidemarkError]
) -> None:
    """Raises `error` where a table of an act that was begun is not in the pipeline's file any more:
    it could begin no generation, or would go as a former one, and nobody was told so."""
    if gone := [one.table for one in tables if one.table not in run.pipeline.tables]:
        name = run.pipeline.name
        raise error(
            f"The file of {name} has no table {', '.join(gone)}, and had it when the {act.kind} "
            f"{act.id} was planned. This try changed nothing. Put it back until that is finished. "
            f"{act.ways_out(name)}"
        )


def changed_up_to(run: Run) -> int:
    """The newest batch whose rows the source may have changed since, by what runs followed; -1:
    nothing was. Where a former version did not note behind which batch it was, it may be any."""
    noted = source_notes(run.ingest_checkpoint()).followed
    # A rewind forgets what is noted, and an erasure the plans.
    plans = () if noted else acts_since(run.warehouse, "")
    acts = (noted, *(one.follows for one in plans))
    found = (sys.maxsize if one.after is None else one.after for one in acts if one is not None)
    return max(found, default=-1)


def check_not_frozen(run: Run, first: datetime) -> None:
    """RetractionRefused where a row of this event time, in UTC, may be in what is frozen (`keep`):
    its other rows may be gone, so that gold would stay as it is."""
    faults = [_frozen(run, name, first) for name in run.pipeline.tables]
    if found := next((fault for fault in faults if fault), None):
        raise RetractionRefused(found)


def frozen_rows(run: Run) -> dict[str, int]:
    """How many rows of gold are of windows that are frozen (`keep`), by table, where some are:
    bronze may not have what they were computed from."""
    found: dict[str, int] = {}
    for name in run.pipeline.tables:
        since, gold = _frozen_before(run, name), run.warehouse.gold(name).open()
        if since is not None and gold is not None:
            rows = dataset_of(gold).count_rows(ds.field("window_start") < since)
            found |= {name: rows} if rows else {}
    return found


def _frozen_before(run: Run, name: str) -> datetime | None:
    operator, gold = operator_of(run.pipeline, name), run.warehouse.gold(name).open()
    bronze = run.warehouse.bronze.open()
    if gold is None or bronze is None:
        return None
    closed = gold_state(gold, operator.inputs).close_ms
    frozen = table_frozen_before_ms(run.pipeline, run.warehouse, name, operator, bronze, closed)
    return None if frozen is None else instant_of(frozen)


def _frozen(run: Run, name: str, first: datetime) -> str | None:
    operator, gold = operator_of(run.pipeline, name), run.warehouse.gold(name).open()
    since = _frozen_before(run, name)
    if since is None or gold is None:
        return None
    shown = (ds.field("window_start") < since) & (ds.field("window_end") > first)
    if operator.first_start_touching(first) >= since and not dataset_of(gold).count_rows(shown):
        return None
    return (
        f"The first of these rows ({first:%Y-%m-%dT%H:%M:%SZ}) may be in windows of {name} of "
        f"{run.pipeline.name} that start before {since:%Y-%m-%dT%H:%M:%SZ}, which are frozen "
        "(`keep`): other rows of theirs may be gone, and gold would stay as it is. "
        f"{_UNTOUCHED} Name later rows only."
    )
