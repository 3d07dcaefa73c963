"""Changes of a source are followed: rows that went leave bronze, rows that came are read by a batch
of their own, and gold has both with one commit of each table.

The life of an act, within a run and under its lease, where the source changed rows and gold stands
for all of bronze:
1. ask the source what it changed (of a table `sources/delta/following.py`, of messages
   `sources/kafka/changes.py`), and find the rows of bronze that went, by their key; compute each
   table without them;
2. keep the plan, of a table with the places of the new rows, and stop the pipeline: nothing else
   runs until 6;
3. note what the ingest's next batch reads together;
4. move the rows that went to `retracted`, as a retraction does (`retraction.py`);
5. ingest: one batch, which reads the new rows;
6. each table begins a generation from bronze, where its checks pass; the ledger gets a line and
   `ops/upkeep` a row, all is looked at again, and the pipeline goes on.
Killed anywhere after 2, the next run finishes what the plan says. Gold is as it was until 6.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import RetractionRefused, RetractionUnproven, UnpublishedChanges
from tidemark.gold.pins import TableResult
from tidemark.gold.views import write_views
from tidemark.pipeline.kafka_columns import PARTITION
from tidemark.pipeline.row_key import key_sql
from tidemark.printed import counted
from tidemark.quality.validate import check_none_failed
from tidemark.quality.verdicts import verdict_line, warnings
from tidemark.recompute.act_row import act_row
from tidemark.recompute.plans import new_act_id
from tidemark.recompute.retract.change import Retraction, read_retraction
from tidemark.recompute.retract.record import (
    account_for,
    act_of,
    keep_change,
    left_to_begin,
    prove,
    record_retraction,
)
from tidemark.recompute.retract.refusals import (
    check_no_other_readers,
    started_tables,
)
from tidemark.runs.acceptance import CheckOverride
from tidemark.runs.generations import RETRACT
from tidemark.runs.recorded_runs import try_to_record_run
from tidemark.runs.results.result import RunResult
from tidemark.runs.run import Run
from tidemark.runs.unfinished_act import release_after, stop_for, unfinished_act
from tidemark.sources.kafka.changes import check_in_one_partition
from tidemark.sources.notes import source_notes, write_source_notes
from tidemark.sources.planned_source import FollowedChange, FollowedSourceHandle
from tidemark.storage.delta.dropped_rejects import dropped_text
from tidemark.storage.delta.place import TablePlace
from tidemark.streaming.arrow_rows import frame_beside_plan
from tidemark.streaming.gate import judge_publish, of_all, record_judged
from tidemark.streaming.inputs import table_at
from tidemark.streaming.progress import Progress
from tidemark.streaming.recompute.computed import Computed, RowsLeftOut, once_gone
from tidemark.streaming.recompute.migration import Migration
from tidemark.streaming.recompute.rebuilt import begin_rebuilt, compute_without, plan_rebuild
from tidemark.streaming.recompute.retraction import (
    Hits,
    bronze_at,
    hits_of,
    key_of_bronze,
    literal,
    move,
)

# Who did it, as `ops` tells.
_BY = "the source"
_MOST_SHOWN = 5
# More rows than these do not go in one act: their keys stand in its plan.
_MOST_GONE = 100_000
_ADVICE = (
    "Bronze has the source's rows by now, and gold is as it was. Mend the check, and run the "
    "pipeline; or publish all the same: `tidemark retract {pipeline} --apply --accept --reason …`."
)


# An act that is begun, and the windows of each table without the rows, where they are known: an act
# that was begun before knows none.
_Begun = tuple[Retraction, Mapping[str, Computed]]


def follow_source(
    spark: SparkSession, run: Run, progress: Progress, now: datetime, read: Callable[[], None]
) -> bool:
    """Follow what the source changed, or finish to; is gold another now? `read` ingests.

    Nothing is done where the source only grew, is not followed, or gold does not stand for all of
    bronze yet: the next run follows then. Raises SourceRefused and RetractionRefused where it
    cannot be followed, and nothing was changed; ChecksFailed where gold stays as it was, and
    RetractionUnproven: the pipeline stays stopped then. `now` is in UTC.
    """
    source, unfinished = run.source, unfinished_act(run.warehouse)
    if not isinstance(source, FollowedSourceHandle):
        return False
    if unfinished is not None:
        begun: _Begun | None = read_retraction(unfinished.folder(run.warehouse)), {}
    else:
        begun = _planned(spark, run, source, progress, now)
    if begun is None:
        return False
    change, computed = begun
    _note(run, change)
    if change.rows:
        with progress.stage("move rows"), progress.tasks_of(spark):
            move(spark, run, change)
    version = run.warehouse.bronze.existing().version()
    known = {name: once_gone(one, version) for name, one in computed.items()}
    computed = {name: one for name, one in known.items() if one is not None}
    with progress.stage("ingest"), progress.tasks_of(spark):
        read()
    finish_following(spark, run, change, progress, computed)
    return bool(change.tables)


def finish_following(
    spark: SparkSession,
    run: Run,
    change: Retraction,
    progress: Progress,
    computed: Mapping[str, Computed],
    accepted: CheckOverride | None = None,
) -> None:
    """The last step, once bronze has the source's rows. RetractionUnproven where it has not;
    ChecksFailed unless somebody has accepted that."""
    _check_read(run, change)
    follows = replace(run, run_id=change.run_id)
    plans = {}
    for name in left_to_begin(change.tables, run.warehouse):
        with progress.stage(f"{name} anew"), progress.tasks_of(spark):
            plans[name] = plan_rebuild(spark, follows, name, computed.get(name))
    _check(follows, change, plans, progress, accepted)
    tables: dict[str, TableResult] = {}
    for name, plan in plans.items():
        with progress.stage(f"generation of {name}"), progress.tasks_of(spark):
            tables[name] = begin_rebuilt(plan, change.planned_at)
    if change.rows:
        account_for(change, run.warehouse, datetime.now(UTC))
    record_retraction(change, run.warehouse)
    prove(change, run.pipeline, run.warehouse)
    release_after(run.warehouse)
    write_views(run.pipeline.tables, run.warehouse)
    try_to_record_run(run.warehouse.runs, _row(run, change, tables, progress), progress.say)
    progress.say(
        f"{change.reason}: {counted(change.rows, 'row')} went out of bronze, and new ones came"
    )


def _planned(
    spark: SparkSession,
    run: Run,
    source: FollowedSourceHandle[Any],
    progress: Progress,
    now: datetime,
) -> _Begun | None:
    """What is to be followed, kept and begun; None where it is nothing, or has to wait."""
    ingest = run.ingest_checkpoint()
    change_of_act = source.to_follow(ingest)
    if change_of_act is None:
        return None
    try:
        tables = started_tables(run)
    except UnpublishedChanges as error:
        progress.say(f"What the source changed waits for the next run: {error}")
        return None
    check_no_other_readers(
        run,
        "of rows that the source changed is not taken back. Nothing was changed. Let those "
        "pipelines read the source themselves.",
    )
    planned, bronze = new_act_id(run.warehouse, now), run.warehouse.bronze.existing()
    with progress.stage("compare"):
        found = change_of_act(planned)
    with progress.stage("find rows"), progress.tasks_of(spark):
        condition, hits, missing = _rows_of(spark, run, found, bronze.version())
    went = hits or Hits(rows=0, first=now, dates=())
    change = Retraction(
        id=planned,
        run_id=f"follow__{planned}",
        pipeline=run.pipeline.name,
        planned_at=now,
        by=_BY,
        reason=f"{found.label} changed rows",
        what=f"of {found.label}",
        condition=condition,
        bronze=bronze.version(),
        rows=went.rows,
        dates=went.dates,
        files=went.files,
        staying=went.staying,
        # Rows that only came are to queries what any rows are that come.
        tables=() if hits is None else tables,
        follows=found.follows,
        key=run.pipeline.source.followed_key,
        missing=missing,
    )
    computed = {}
    for one in change.tables:
        with progress.stage(f"{one.table} without them"), progress.tasks_of(spark):
            left_out = RowsLeftOut(condition, went.held)
            computed[one.table] = compute_without(spark, run, one.table, left_out)
    keep_change(change, run.warehouse, found.new_rows)
    stop_for(run.warehouse, act_of(change))
    return change, computed


def _rows_of(
    spark: SparkSession, run: Run, found: FollowedChange, version: int
) -> tuple[str, Hits | None, tuple[str, ...]]:
    """The rows of bronze that went, by a condition, None where it has none of them; and the keys of
    those that were read and that it does not have. RetractionRefused where bronze does not say
    which they are."""
    key = run.pipeline.source.followed_key
    in_bronze = bronze_at(spark, run, version)
    text = F.expr(key_of_bronze(key)).alias("_key")
    counts = _counts(spark, in_bronze.select(text), (*found.gone, *found.came))
    refused = f"What {found.label} changed cannot be followed: of the key {', '.join(key)} "
    if several := [one for one, number in counts.items() if number > 1]:
        raise _refusal(f"{refused}bronze has several rows", several, found.way_on)
    gone = set(found.gone)
    if strangers := [one for one in found.came if one in counts and one not in gone]:
        what = f"{refused}bronze has rows that the source did not have"
        raise _refusal(what, strangers, found.way_on)
    there = [one for one in found.gone if one in counts]
    missing = tuple(one for one in found.gone if one not in counts) if found.were_read else ()
    if missing:
        _check_rejected(spark, run, missing, refused, found.way_on)
    if len(there) > _MOST_GONE:
        raise RetractionRefused(
            f"{found.label[0].upper()}{found.label[1:]} changed {len(there):,} rows of bronze, and "
            f"at most {_MOST_GONE:,} go in one act. Nothing was changed. Let an act read less "
            "(advanced.max_messages_per_batch)."
        )
    if not there:
        return "false", None, missing
    listed = ", ".join(map(literal, there))
    condition = f"{key_of_bronze(key)} IN ({listed})"
    if found.parts is not None:
        _check_parts(in_bronze.where(condition).select(text, PARTITION), found.parts)
    hits = hits_of(spark, run, f"of {found.label}", condition, version)
    if hits.rows != len(there):
        what = f"{refused}{hits.rows:,} rows of bronze have one of {len(there):,} keys"
        raise _refusal(what, there, found.way_on)
    return condition, hits, missing


def _check_parts(rows: DataFrame, parts: Mapping[str, int]) -> None:
    """SourceRefused where rows come from other partitions than the messages that change them."""
    check_in_one_partition(
        [one["_key"] for one in rows.toLocalIterator() if parts[one["_key"]] != one[PARTITION]]
    )


def _check_rejected(
    spark: SparkSession, run: Run, keys: Sequence[str], refused: str, way_on: str
) -> None:
    """Rows that bronze does not have were rejected, or retracted by a person; nothing else."""
    tables, source = run.warehouse, run.pipeline.source
    fields = [source.columns[name].path(name)[0] for name in source.followed_key]
    rejects = tables.rejects
    raw = table_at(spark, rejects, rejects.existing().version()).select(
        F.expr(key_of_reject(fields)).alias("_key")
    )
    known = _counts(spark, raw, keys)
    retracted: TablePlace = tables.retracted
    if (table := retracted.open()) is not None:
        rows = table_at(spark, retracted, table.version())
        of_row = F.expr(key_of_bronze(source.followed_key)).alias("_key")
        known |= _counts(spark, rows.select(of_row), keys)
    if missing := [one for one in keys if one not in known]:
        gone = dropped_text(rejects.existing())
        way_on = f"{gone} {way_on}" if gone else way_on
        raise _refusal(f"{refused}neither bronze nor rejects have a row", missing, way_on)


def key_of_reject(fields: Sequence[str]) -> str:
    """The text of a rejected row's key, as `row_key.key_text` has it, in Spark SQL on the columns
    of rejects. A line that is no whole JSON has it too, as far as it goes: one with NaN, with bytes
    that are no UTF-8, or that was cut."""
    texts = []
    for name in fields:
        forms = {json.dumps(name), json.dumps(name, ensure_ascii=False)}
        names = "|".join(sorted(map(re.escape, forms)))
        # As rows of a table are written as lines. Quotes within a value are marked there.
        value = rf'(?:{names}): ("[^"\\]*+(?:\\.[^"\\]*+)*"|-?[0-9]+)'
        line = "coalesce(raw, CAST(raw_bytes AS STRING))"
        found = f"""concat('{{"k":', regexp_extract({line}, {literal(value)}, 1), '}}')"""
        place = literal(f"$['{name}']")
        texts.append(f"coalesce(get_json_object(raw, {place}), get_json_object({found}, '$.k'))")
    return key_sql(texts)


def _counts(spark: SparkSession, rows: DataFrame, keys: Sequence[str]) -> dict[str, int]:
    """Which of the keys rows have, and how many rows each has."""
    wanted = pa.table({"_key": pa.array(sorted({*keys}), pa.string())})
    found = rows.join(F.broadcast(frame_beside_plan(spark, wanted)), "_key").groupBy("_key").count()
    return {row["_key"]: row["count"] for row in found.collect()}


def _refusal(what: str, keys: Sequence[str], way_on: str) -> RetractionRefused:
    shown = ", ".join(keys[:_MOST_SHOWN]) + (" …" if len(keys) > _MOST_SHOWN else "")
    return RetractionRefused(
        f"{what}: {shown}. Nothing was changed, and none of what changed them was read. {way_on}"
    )


def _note(run: Run, change: Retraction) -> None:
    ingest = run.ingest_checkpoint()
    notes = source_notes(ingest)
    if notes.followed != change.follows:
        write_source_notes(ingest, notes.model_copy(update={"followed": change.follows}))


def _check_read(run: Run, change: Retraction) -> None:
    source, follows = run.source, change.follows
    assert isinstance(source, FollowedSourceHandle)
    assert follows is not None
    if not source.has_followed(run.ingest_checkpoint(), follows):
        raise RetractionUnproven(
            f"The ingest of {run.pipeline.name} has not read what came with {change.what[3:]}. The "
            f"pipeline stays stopped, and gold is as it was. Run it: `tidemark run "
            f"{run.pipeline.name}` finishes this."
        )


def _check(
    run: Run,
    change: Retraction,
    plans: Mapping[str, Migration],
    progress: Progress,
    accepted: CheckOverride | None,
) -> None:
    """Hold what gold would be to the tables' checks."""
    judged = of_all([judge_publish(run, plan) for plan in plans.values()])
    row = _row(run, change, {}, progress)
    record_judged(run, row, judged, accepted, row.ended_at)
    for warning in warnings(judged.verdicts):
        progress.say(f"warning: {verdict_line(warning)}")
    if accepted is None:
        advice = _ADVICE.format(pipeline=run.pipeline.name)
        check_none_failed(run.pipeline.name, run.run_id, judged.verdicts, advice)


def _row(
    run: Run, change: Retraction, tables: Mapping[str, TableResult], progress: Progress
) -> RunResult:
    """Of `ops/runs`."""
    return act_row(run, RETRACT, change, datetime.now(UTC), progress.seconds, tables)
