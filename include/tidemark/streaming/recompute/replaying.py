"""Rejects judged anew by what a batch of ingest is judged by, and written where commits find them.

The lines are judged in Spark's tasks (`recompute/replay/rejudged.py`), so that no number of rejects
is too large; what is derived, the rules, jumps and duplicates follow by the same function as in
ingest. All that is compared with bronze is compared with it as it is now: a reject that repeats a
row of its own batch repeats it still.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from tidemark.errors import ReplayRefused, ReplayUnproven, UnpublishedChanges
from tidemark.judge.rules import rules_of
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.model import KafkaSource
from tidemark.pipeline.reasons import NO_FAULTS, OF_PARTS, REASONS, TOO_LARGE
from tidemark.recompute.plans import new_act_id
from tidemark.recompute.replay.change import Replay
from tidemark.recompute.replay.mended import check_mended, mended_records
from tidemark.recompute.replay.rejudged import (
    IS_TEXT,
    LINE_NUMBER,
    RECORD,
    REJECT_FILE,
    REJECT_ID,
    UNJUDGED,
    Rejudging,
)
from tidemark.recompute.replay.result import NOT_JUDGED, Outcomes, Staying
from tidemark.recompute.retract.refusals import changed_up_to
from tidemark.runs.acceptance import this_user
from tidemark.runs.contract.check import admit
from tidemark.runs.erased_again import erased_again
from tidemark.runs.losses import check_losses
from tidemark.runs.requests import ReplayRequest
from tidemark.runs.run import Run
from tidemark.runs.tables_fit import why_tables_do_not_fit
from tidemark.sources.kinds import row_origin
from tidemark.sources.source import ELEMENT, Reading
from tidemark.storage.delta.create import TableSpec, ensure_table
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.dropped_rejects import dropped_text
from tidemark.storage.delta.notes import (
    MENDED,
    REPLAY,
    REPLAYED_AT,
    REPLAYED_BECAUSE,
    REPLAYED_BY,
)
from tidemark.storage.delta.place import TablePlace
from tidemark.streaming.arrow_rows import frame_beside_plan
from tidemark.streaming.derive import derived
from tidemark.streaming.ingest.batch import Batch
from tidemark.streaming.ingest.batch_rows import accepted_rows
from tidemark.streaming.ingest.spark_rows import judged_rows
from tidemark.streaming.inputs import table_at
from tidemark.streaming.recompute.retraction import FILE_NAME, in_files
from tidemark.streaming.run.append import WrittenRows, write_rows
from tidemark.streaming.schemas import source_schema
from tidemark.streaming.sources.streams import streamed_source

# The number of a batch that no row of bronze is of.
_NO_BATCH = -1
# Up to this many rows are written as one file for each date.
_ONE_FILE_ROWS = 200_000
_SHOWN = 3
_MOST_FAULTS = 20
_UNTOUCHED = "Nothing was changed."
_TEXTS = (MENDED, REPLAYED_BY, REPLAYED_BECAUSE, REPLAY)
_CARRIED = T.StructType().add(REJECT_ID, "string").add(REJECT_FILE, "string")
_CARRIED = _CARRIED.add(LINE_NUMBER, "long")
_VERDICT = T.StructType().add("_reason", "string").add("_detail", "string")


@dataclass
class Rejudged:
    """Rejects, as of version `rejects` of their table, with the verdicts on them: `accepted` has
    bronze's columns and what is carried of each. Call `release` in the end."""

    batch: Batch
    bronze: int
    rejects: int
    judged: Outcomes
    accepted: DataFrame
    kept: list[DataFrame] = field(default_factory=list)

    def release(self) -> None:
        """Give back what is held of them."""
        for rows in self.kept:
            rows.unpersist()


def check_may_replay(run: Run, of: str | None = None) -> None:
    """ReplayRefused, or what else keeps rejects from being judged, those of the reason `of` where
    one is named: nothing is looked at then."""
    check_losses(run.pipeline, run.warehouse)
    admit(run.pipeline, run.settings)
    name, source = run.pipeline.name, run.pipeline.source
    if source.followed_key:
        raise ReplayRefused(
            f"Bronze of {name} follows {source.label}, and what was rejected may be another row "
            f"there by now. {_UNTOUCHED} Mend it in the source; the next run follows."
        )
    rejects = run.warehouse.rejects.open()
    if rejects is None or run.warehouse.bronze.open() is None:
        raise ReplayRefused(f"{name} has not run yet. {_UNTOUCHED}")
    if (case := run.ingest_checkpoint().restart_case()) != "clean end":
        raise UnpublishedChanges(
            f"The checkpoint of the ingest of {name} is not at a clean end ({case}): its last "
            f"batch is judged again, and would be by other rows. {_UNTOUCHED} Run the pipeline "
            f"(`tidemark run {name}`), then repeat this."
        )
    if because := why_tables_do_not_fit(run):
        raise ReplayRefused(
            f"{because[0].upper()}{because[1:]}, and rejects are judged by what a run has planned. "
            f"{_UNTOUCHED} Run the pipeline (`tidemark run {name}`), then repeat this."
        )
    if "id" not in {one.name for one in rejects.schema().fields}:
        raise ReplayRefused(
            f"No reject of {name} has an id: all are of a version before 0.2. {_UNTOUCHED}"
        )
    if of is not None:
        _check_reason(run, rejects, of)


def _check_reason(run: Run, rejects: DeltaTable, of: str) -> None:
    """ReplayRefused where neither a reject nor a rule has it. One that has no rejects any more is
    no mistake: whoever replays them a second time finds none."""
    named = {*REASONS, *(rule.name for rule in run.pipeline.source.rules)}
    reasons = dataset_of(rejects).to_table(["reason"]).column("reason")
    held = sorted(map(str, reasons.unique().to_pylist()))
    if of not in {*named, *held}:
        there = f"There are: {', '.join(held)}." if held else "There are none."
        raise ReplayRefused(
            f"--of {of}: no reject of {run.pipeline.name} has this reason. {_UNTOUCHED} {there}"
        )


def rejudge(spark: SparkSession, run: Run, asked: ReplayRequest, now: datetime) -> Rejudged:
    """Judge rejects as they are mended, or as they were read, at the time `now`, in UTC.
    ReplayRefused where the file that mends them does not fit them."""
    tables = run.warehouse
    bronze, rejects = tables.bronze.existing().version(), tables.rejects.existing().version()
    erased = erased_again(run.pipeline, run.settings, run.warehouse)
    batch, held = replace(_batch(run, now), erased=erased), _held(spark, run, rejects)
    changed = changed_up_to(run)
    if asked.mended is None:
        rows = _as_read(held, asked.of, changed)
    else:
        rows = _mended(held, run, asked.mended, changed)
    lines = _lines(rows, run, batch).persist()
    found = Rejudged(batch, bronze, rejects, Outcomes(accepted=0, staying={}), lines, [lines])
    try:
        if asked.mended is not None:
            check_mended(asked.mended, _not_judged(lines))
        passed = lines.where("_reason IS NULL").drop(*_VERDICT.names)
        judged, _ = judged_rows(spark, batch, passed, Reading((), (), {}), False, found.kept)
        found.accepted = judged.where("_reason IS NULL")
        said = [REJECT_ID, LINE_NUMBER, *_VERDICT.names]
        left = lines.select(said).unionByName(judged.select(said)).where("_reason IS NOT NULL")
        by_reason = left.groupBy("_reason").count().orderBy("_reason").collect()
        staying = {row["_reason"]: row["count"] for row in by_reason}
        found.judged = Outcomes(
            accepted=found.accepted.count(), staying=staying, examples=tuple(_examples(left))
        )
    except BaseException:
        found.release()
        raise
    return found


def rows_of_rejects(rejects: DataFrame, run: Run, now: datetime) -> DataFrame:
    """What the texts of rejects give by today's columns, each text for itself: the one that was
    read, and the one that mended it. `id` as REJECT_ID, and where a text gives a row, bronze's
    columns of it, also where a rule would reject it; the others have a `_reason`. What
    an erasure rejects gives one too."""
    texts = rejects.withColumn("raw_bytes", F.coalesce("raw_bytes", F.col("raw").cast("binary")))
    if MENDED in rejects.columns:
        # It is whole, also where what was read was too large to be.
        whole = {"raw_bytes": F.col(MENDED).cast("binary"), "reason": F.lit(None).cast("string")}
        texts = texts.unionByName(rejects.withColumns(whole))
    texts = texts.where("raw_bytes IS NOT NULL")
    lines = _lines(_as_read(_carried(texts, run), None), run, _batch(run, now))
    return derived(lines, run.pipeline.source)


def _lines(rows: DataFrame, run: Run, batch: Batch) -> DataFrame:
    schema = T.StructType([*source_schema(run.pipeline, batch.origin), *_CARRIED, *_VERDICT])
    source, most = run.pipeline.source, run.settings.max_line_bytes
    if isinstance(source, KafkaSource):
        most = min(most, source.kafka.max_message_bytes)
    arrow = to_arrow_schema(schema, timezone="UTC")
    by = Rejudging(source, batch.rules, batch.time_ms, most, arrow, batch.erased)
    return rows.mapInArrow(by.judged, schema)


def _batch(run: Run, now: datetime) -> Batch:
    return Batch(
        run.pipeline,
        rules_of(run.pipeline),
        streamed_source(run.source),
        run.ingest_checkpoint(),
        run.warehouse.bronze,
        run.warehouse.rejects,
        _NO_BATCH,
        epoch_ms(now),
        run.settings.max_line_bytes,
    )


def _held(spark: SparkSession, run: Run, version: int) -> DataFrame:
    """The rejects, with the file of their table that each is in. None that was replayed before:
    the table may have been put back from a backup since."""
    rows = table_at(spark, run.warehouse.rejects, version)
    rows = _carried(rows.withColumn(REJECT_FILE, F.col(FILE_NAME)), run)
    if (replayed := run.warehouse.replayed.open()) is None:
        return rows
    done = table_at(spark, run.warehouse.replayed, replayed.version())
    keys = done.select(F.col("id").alias(REJECT_ID), "_batch")
    return rows.join(keys, [REJECT_ID, "_batch"], "left_anti")


def _carried(rejects: DataFrame, run: Run) -> DataFrame:
    names = [one.name for one in row_origin(run.pipeline)]
    columns = ("reason", "raw", "raw_bytes", *names, "_batch", "_batch_time", REJECT_FILE)
    return rejects.select(F.col("id").alias(REJECT_ID), *columns)


def _as_read(held: DataFrame, reason: str | None, changed: int | None = None) -> DataFrame:
    """All rejects, or those of one reason, in the columns that are judged; `changed` as
    `_never_judged`."""
    rows = held if reason is None else held.where(F.col("reason") == reason)
    raw = F.coalesce(F.col("raw_bytes"), F.col("raw").cast("binary"))
    why = F.when(F.col(REJECT_ID).isNull(), "an earlier version rejected it, without an id")
    why = _never_judged(rows, why, changed).when(
        F.col("reason") == TOO_LARGE, "only its beginning is kept; replay it mended, as a whole"
    )
    why = why.when(raw.isNull(), "it has no text")
    number = F.lit(None).cast("long").alias(LINE_NUMBER)
    columns = [raw.alias(RECORD), F.lit(True).alias(IS_TEXT), why.alias(UNJUDGED), number]
    return rows.select("*", *columns).drop("reason", "raw", "raw_bytes")


def _never_judged(rows: DataFrame, why: Column, changed: int | None) -> Column:
    """Also not mended: it is no row of its own, or may be another one in the source by now: up to
    the batch `changed`. None: that is not asked."""
    of_part = F.col("reason").isin(*sorted(OF_PARTS))
    why = why.when(of_part, "it stands for a whole part of the source")
    if changed is not None:
        replaced = F.col("reason").isin(*sorted(NO_FAULTS))
        why = why.when(replaced, "the source has replaced or deleted it").when(
            F.col("_batch") <= F.lit(changed),
            "what the source changed since was followed, and it may be another row there by now",
        )
    if ELEMENT.name not in rows.columns:
        return why
    said = "it is a whole record, of which `explode` makes rows; land it anew"
    return why.when(F.col(ELEMENT.name).isNull(), said)


def _mended(held: DataFrame, run: Run, place: str, changed: int) -> DataFrame:
    """The rejects that a file mends, in the columns that are judged; `changed` as
    `_never_judged`."""
    mended = frame_beside_plan(
        held.sparkSession, mended_records(place, run.settings.storage_options)
    )
    rows = held.join(mended, REJECT_ID)
    check_mended(place, _strangers(mended, held, run))
    twice = rows.groupBy(LINE_NUMBER, REJECT_ID).count().where("count > 1")
    check_mended(
        place,
        [
            f"line {line:,}: the record of the id {name} was read in {count} batches, and a mended "
            "one cannot stand for several"
            for line, name, count in twice.orderBy(LINE_NUMBER).limit(_MOST_FAULTS).collect()
        ],
    )
    why = _never_judged(rows, F.when(F.lit(False), ""), changed)
    return rows.withColumn(UNJUDGED, why).drop("reason", "raw", "raw_bytes")


def _strangers(mended: DataFrame, held: DataFrame, run: Run) -> Iterator[str]:
    """The lines whose ids are of no reject; which of them were replayed before."""
    unknown = mended.join(held, REJECT_ID, "left_anti").orderBy(LINE_NUMBER)
    found = unknown.select(LINE_NUMBER, REJECT_ID).limit(_MOST_FAULTS).collect()
    replayed = run.warehouse.replayed.open() if found else None
    acts: dict[str, str] = {}
    if replayed is not None:
        ids = ds.field("id").isin([name for _, name in found])
        rows = dataset_of(replayed).to_table(["id", REPLAY], filter=ids)
        acts = {str(row["id"]): str(row[REPLAY]) for row in rows.to_pylist()}
    gone = dropped_text(run.warehouse.rejects.existing())
    none = f"is none of the rejects. {gone}" if gone else "is none of the rejects"
    for line, name in found:
        said = f"was replayed before ({acts[name]})" if name in acts else none
        yield f"line {line:,}: the id {name} {said}"


def _not_judged(lines: DataFrame) -> list[str]:
    found = lines.where(F.col("_reason") == NOT_JUDGED).orderBy(LINE_NUMBER)
    said = found.select(LINE_NUMBER, REJECT_ID, "_detail").limit(_MOST_FAULTS).collect()
    return [f"line {line:,}: of the id {name}: {why}" for line, name, why in said]


def _examples(left: DataFrame) -> Iterator[Staying]:
    """The first of each reason."""
    order = Window.partitionBy("_reason").orderBy(LINE_NUMBER, REJECT_ID)
    first = left.withColumn("_n", F.row_number().over(order)).where(F.col("_n") <= _SHOWN)
    for row in first.orderBy("_reason", "_n").collect():
        yield Staying(
            id=row[REJECT_ID], line=row[LINE_NUMBER], reason=row["_reason"], detail=row["_detail"]
        )


def written_replay(
    spark: SparkSession, run: Run, asked: ReplayRequest, found: Rejudged, now: datetime
) -> Replay:
    """The plan of an act, once all that it commits is written below the tables. ReplayUnproven
    where what is written is not what was judged."""
    tables, few = run.warehouse, found.judged.accepted <= _ONE_FILE_ROWS
    planned = new_act_id(tables, now)
    change = Replay(
        id=planned,
        run_id=f"replay__{planned}",
        pipeline=run.pipeline.name,
        planned_at=now,
        by=asked.by or this_user(),
        reason=(asked.reason or "").strip(),
        what=_what(asked),
        bronze=found.bronze,
        rejects=found.rejects,
        rows=found.judged.accepted,
    )

    def written(rows: DataFrame, place: TablePlace) -> WrittenRows:
        return write_rows(rows.coalesce(1) if few else rows, place, change.id)

    rejects = table_at(spark, tables.rejects, found.rejects)
    _ensure_replayed(run, rejects.schema)
    mended = F.col(RECORD) if asked.mended is not None else F.lit(None).cast("string")
    of_batch = F.col("_batch").alias("_of_batch")
    keys = found.accepted.select(REJECT_ID, of_batch, mended.alias(MENDED))
    same = (F.col("id") == F.col(REJECT_ID)) & (F.col("_batch") == F.col("_of_batch"))
    said = {
        REPLAY: F.lit(change.id),
        REPLAYED_AT: F.lit(change.planned_at),
        REPLAYED_BY: F.lit(change.by),
        REPLAYED_BECAUSE: F.lit(change.reason),
    }
    moved = rejects.join(keys, same).drop(REJECT_ID, "_of_batch").withColumns(said)
    files = tuple(sorted(row[0] for row in found.accepted.select(REJECT_FILE).distinct().collect()))
    touched = in_files(rejects, files)
    left = touched.join(keys, same, "left_anti")
    to_bronze = written(accepted_rows(found.accepted, found.batch), tables.bronze)
    to_replayed, staying = written(moved, tables.replayed), written(left, tables.rejects)
    numbers = (to_bronze.number, to_replayed.number, touched.count() - staying.number)
    if numbers != (change.rows,) * 3:
        raise ReplayUnproven(
            f"Of {change.rows:,} accepted rejects {numbers[0]:,} rows were written for bronze, "
            f"{numbers[1]:,} for `replayed`, and {numbers[2]:,} would leave rejects. None of it "
            "was committed, and the pipeline goes on. Report this as a defect."
        )
    return change.model_copy(
        update={
            "to_bronze": tuple(to_bronze.files),
            "to_replayed": tuple(to_replayed.files),
            "staying": tuple(staying.files),
            "leaving": files,
        }
    )


def _what(asked: ReplayRequest) -> str:
    if asked.mended is not None:
        return f"as {asked.mended} mends them"
    return "judged again" if asked.of is None else f"`{asked.of}` judged again"


def _ensure_replayed(run: Run, of_rejects: T.StructType) -> None:
    texts = [T.StructField(name, T.StringType()) for name in _TEXTS]
    fields = [*of_rejects, T.StructField(REPLAYED_AT, T.TimestampType()), *texts]
    what = f"Rejects of {run.pipeline.name} that came to bronze after all"
    spec = TableSpec(T.StructType(fields).json(), (REPLAY,), what, may_add=None)
    ensure_table(run.warehouse.replayed, spec)
