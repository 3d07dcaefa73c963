"""Rows of bronze that are retracted: which they are, and the commits that move them.

The life of an act, once its plan is kept and the pipeline is stopped (`streaming/jobs/retract.py`):
1. the rows are appended to `retracted`, with the act, in one commit that is known by its
   transaction;
2. the files of bronze that hold them are written again without them, in one commit, whose note
   says the act. The streams pass over it, as over each that removes rows (`skipChangeCommits`).
An undo appends them to bronze in the same way, and then takes them out of `retracted`. What is
written is counted before it is committed; it passes through Spark's tasks, and not the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
from deltalake import Schema
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.commit_point import commit_point
from tidemark.errors import RetractionRefused, RetractionUnproven
from tidemark.pipeline.expressions.names import KnownName, spark_type
from tidemark.pipeline.expressions.sql import check_condition
from tidemark.pipeline.join_rules import scope_of
from tidemark.pipeline.model import DeltaSource
from tidemark.pipeline.names import folded
from tidemark.pipeline.reasons import DUPLICATE
from tidemark.pipeline.row_key import key_sql
from tidemark.recompute.retract.change import Retraction, acts_since
from tidemark.recompute.retract.record import moved_at
from tidemark.recompute.still_planned import STOPPED, check_no_other_rows
from tidemark.runs.requests import RetractRequest
from tidemark.runs.run import Run
from tidemark.sources.kinds import row_origin
from tidemark.sources.raw_texts import ending_of, raw_text
from tidemark.sources.source import ordering
from tidemark.storage.delta.append import on_this_version
from tidemark.storage.delta.create import TableSpec, ensure_table
from tidemark.storage.delta.dropped_rejects import dropped_text, dropped_to
from tidemark.storage.delta.notes import (
    RETRACTED_AT,
    RETRACTED_BECAUSE,
    RETRACTED_BY,
    RETRACTION,
    IngestNote,
    WidenedNote,
    note_of,
)
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.delta.surviving_commits import surviving_commits
from tidemark.storage.delta.written_files import Leaving, replace_files, rewrite_files
from tidemark.streaming.arrow_rows import frame_of
from tidemark.streaming.ingest.duplicates import horizon_micros
from tidemark.streaming.inputs import counting, not_counting, table_at
from tidemark.streaming.run.append import append, write_rows
from tidemark.streaming.schemas import of_other_types, origin_parts

_FILE = "_file"
_TEXTS = (RETRACTED_BY, RETRACTED_BECAUSE, RETRACTION)
FILE_NAME = "_metadata.file_name"
_MOST_SHOWN = 5
# So many rows, but no more, are held in the driver, so that only what they are in is computed.
_MOST_HELD = 100_000
_UNTOUCHED = "Nothing was changed."


@dataclass(frozen=True)
class Hits:
    """The rows that a condition finds: how many, the first event time (UTC), the dates, the names
    of the files that hold them, how many other rows these have, how many rows were rejected as
    duplicates of them, and, where they are not many, the rows."""

    rows: int
    first: datetime
    dates: tuple[date, ...]
    files: tuple[str, ...] = ()
    staying: int = 0
    twins: int = 0
    held: pa.Table | None = None


def asked_rows(
    spark: SparkSession, run: Run, asked: RetractRequest, version: int
) -> tuple[str, str]:
    """The rows that are asked for: in words for people, and as a condition. RetractionRefused where
    it is no condition on bronze's rows, or names no file or run."""
    if asked.where is not None:
        if fault := where_fault(spark, run, asked.where, version):
            raise RetractionRefused(f"{fault} {_UNTOUCHED}")
        return f"where {asked.where}", asked.where
    if asked.file is not None:
        file = _file(spark, run, asked.file, version)
        return f"of the file {file}", f"{_FILE} = {literal(file)}"
    assert asked.of_run is not None
    batches = ", ".join(map(str, _batches(run, asked.of_run)))
    return f"of the run {asked.of_run}", f"_batch IN ({batches})"


def where_fault(spark: SparkSession, run: Run, where: str, version: int) -> str | None:
    """Why it is no condition on bronze's rows; None: it is one."""
    scope = scope_of(run.pipeline)
    rows = bronze_at(spark, run, version)
    for field in rows.schema:
        known = KnownName(field.name, spark_type(field.dataType.simpleString()))
        scope.setdefault(folded(field.name), known)
    faults = check_condition(where, scope)
    if not faults:
        kind = rows.select(F.expr(where)).schema[0].dataType
        if isinstance(kind, T.BooleanType):
            return None
        said = f"is of Spark's type {kind.simpleString()}, and no condition"
    else:
        said = "; ".join(fault.message for fault in faults)
    return f"--where `{where}`: {said}."


def _file(spark: SparkSession, run: Run, name: str, version: int) -> str:
    rows = bronze_at(spark, run, version)
    if _FILE not in rows.columns:
        raise RetractionRefused(
            f"The rows of {run.pipeline.name} come from no files, so none can be named. Name them "
            f"by --where, or by --run. {_UNTOUCHED}"
        )
    ending = F.col(_FILE).endswith(name)
    found = sorted(row[0] for row in rows.where(ending).select(_FILE).distinct().collect())
    if name in found or len(found) == 1:
        return name if name in found else str(found[0])
    shown = ", ".join(found[:_MOST_SHOWN]) + (" …" if len(found) > _MOST_SHOWN else "")
    why = f"{len(found)} files end so: {shown}" if found else "no row is of a file that ends so"
    raise RetractionRefused(f"--file {name}: {why}. {_UNTOUCHED}")


def _batches(run: Run, of_run: str) -> list[int]:
    commits = list(surviving_commits(run.warehouse.bronze.existing().history()))
    ingested = [note for one in commits if isinstance(note := note_of(one), IngestNote)]
    found = sorted({note.batch for note in ingested if note.run == of_run})
    if found:
        # Of a log that maintenance cut within the run, its oldest ingest commit is one of the run.
        oldest = ingested[-1]
        if oldest.run == of_run and oldest.batch and commits[-1]["version"]:
            raise RetractionRefused(
                f"--run {of_run}: bronze's log no longer tells where this run began: it goes back "
                f"to batch {oldest.batch}, and batches before that may be of the same run. "
                f"{_UNTOUCHED} Name `_batch` by --where."
            )
        return found
    unnamed = any(note.run is None for note in ingested)
    older = (
        " Commits of a former version do not say it: name `_batch` by --where." if unnamed else ""
    )
    raise RetractionRefused(
        f"--run {of_run}: bronze's log knows no batch with rows of such a run.{older} {_UNTOUCHED}"
    )


def literal(text: str) -> str:
    """A text in Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def bronze_at(spark: SparkSession, run: Run, version: int) -> DataFrame:
    """Bronze's rows as they were at a version."""
    return table_at(spark, run.warehouse.bronze, version)


def hits_of(spark: SparkSession, run: Run, what: str, condition: str, version: int) -> Hits:
    """RetractionRefused where no row fulfils the condition, or rows were rejected as duplicates of
    such a one that cannot be judged again: they would have to come forward."""
    hits = found_rows(spark, run, condition, version)
    if hits is None:
        raise RetractionRefused(
            f"No row of bronze of {run.pipeline.name} is one {what}. {_UNTOUCHED}"
        )
    rows = _of_dates(bronze_at(spark, run, version), hits.dates)
    return replace(hits, twins=_twins(spark, run, counting(rows, condition)))


def found_rows(spark: SparkSession, run: Run, condition: str, version: int) -> Hits | None:
    """The rows of bronze that fulfil a condition, without their duplicates; None for none."""
    rows = bronze_at(spark, run, version)
    hits = _counted(counting(rows, condition), run)
    if hits is None:
        return None
    rows = _of_dates(rows, hits.dates)
    held = counting(rows, condition).toArrow() if hits.rows <= _MOST_HELD else None
    staying = in_files(rows, hits.files).count() - hits.rows
    return replace(hits, staying=staying, held=held)


def staying_rows(
    rows: DataFrame, condition: str, dates: Sequence[date], files: tuple[str, ...]
) -> DataFrame:
    """Of bronze, the other rows in the files that hold these."""
    return not_counting(in_files(_of_dates(rows, dates), files), condition)


def retracted_rows(spark: SparkSession, run: Run, act: str) -> Hits:
    """Those of an act. RetractionRefused where it has none any more, or where a row of the same
    `unique` key was accepted since."""
    place = run.warehouse.retracted
    table = place.open()
    rows = None if table is None else _of_act(spark, place, table.version(), act)
    hits = None if rows is None else _counted(rows, run)
    if rows is None or hits is None:
        raise RetractionRefused(
            f"{place.uri} holds no row that the retraction {act} took out of bronze: it was taken "
            f"back already, or there was none of this id. {_UNTOUCHED}"
        )
    source = run.pipeline.source
    if source.unique is not None:
        near = horizon_micros(source.unique)
        _check_not_accepted_since(spark, run, rows, [source.unique.by], near)
    if isinstance(source, DeltaSource) and source.followed_key:
        _check_not_accepted_since(spark, run, rows, source.followed_key, None)
        _check_not_changed_since(run, rows, act)
    return replace(hits, files=())


def _of_act(spark: SparkSession, place: TablePlace, version: int, act: str) -> DataFrame:
    return table_at(spark, place, version).where(F.col(RETRACTION) == act)


def _counted(rows: DataFrame, run: Run) -> Hits | None:
    time = F.unix_micros(F.col(f"`{run.pipeline.source.event_time.column}`"))
    by = rows.groupBy("_event_date", F.col(FILE_NAME).alias("_name"))
    found = by.agg(F.count("*").alias("n"), F.min(time).alias("first")).collect()
    if not found:
        return None
    first = datetime.fromtimestamp(0, UTC) + timedelta(
        microseconds=min(row["first"] for row in found)
    )
    return Hits(
        rows=sum(row["n"] for row in found),
        first=first,
        dates=tuple(sorted({row["_event_date"] for row in found})),
        files=tuple(sorted({row["_name"] for row in found})),
    )


def _of_dates(rows: DataFrame, dates: Sequence[date]) -> DataFrame:
    """The rows of bronze of these dates, which files of other dates are not opened for."""
    return rows.where(F.col("_event_date").isin(*dates))


def _twins(spark: SparkSession, run: Run, found: DataFrame) -> int:
    """How many rows were rejected as duplicates of these: they name the accepted row that they
    repeat by where it comes from and its time."""
    if run.pipeline.source.unique is None:
        return 0
    place = run.warehouse.rejects
    held = place.existing()
    gone = dropped_to(held)
    if gone >= 0 and not found.where(F.col("_batch") <= gone).isEmpty():
        raise RetractionRefused(
            f"{dropped_text(held)} Rows that repeat these, and that came in as many batches, may "
            "have been among them: without these rows they would be the first of their `unique` "
            f"key, and nobody can replay them. {_UNTOUCHED} Leave rows of these batches out "
            "(--where), or go back to before they were read: `tidemark rewind`."
        )
    rejects = table_at(spark, place, held.version())
    rejected = rejects.where(F.col("reason") == DUPLICATE)
    time = F.col(f"h.`{run.pipeline.source.event_time.column}`")
    same = [time.eqNullSafe(F.col("r.repeats.event_time"))]
    for name, column in origin_parts(ordering(row_origin(run.pipeline))).items():
        same.append(F.col(f"h.`{column}`").eqNullSafe(F.col(f"r.repeats.{name}")))
    repeating = rejected.alias("r").join(found.alias("h"), same, "left_semi")
    unnamed, twins = rejected.where("repeats IS NULL").count(), repeating.count()
    file = F.col(_FILE) if _FILE in rejects.columns else F.lit(None).cast("string")
    files = {ending_of(one): one for (one,) in repeating.select(file).distinct().toLocalIterator()}
    forms = (raw_text(run.pipeline.source, one).why_not_whole for one in files.values())
    why = next((one for one in forms if one), None)
    if unnamed or why:
        which = (
            f"{unnamed:,} rows were rejected as duplicates by a version that did not say of which "
            "row"
            if unnamed
            else f"{twins:,} rows were rejected as duplicates of these, and what rejects keep of "
            f"them cannot be judged again: {why}"
        )
        raise RetractionRefused(
            f"{which} ({place.uri}). Without these rows they would be the first of their `unique` "
            f"key, and nobody reads them again. {_UNTOUCHED} Leave such rows out (--where), or go "
            "back to before they were read: `tidemark rewind`."
        )
    return twins


def _check_not_accepted_since(
    spark: SparkSession, run: Run, rows: DataFrame, by: Sequence[str], within_us: int | None
) -> None:
    """`within_us`: how far event times may be apart, in microseconds; None: as far as they will."""
    time = f"`{run.pipeline.source.event_time.column}`"
    bronze = bronze_at(spark, run, run.warehouse.bronze.existing().version())
    apart = F.abs(F.unix_micros(F.col(f"r.{time}")) - F.unix_micros(F.col(f"b.{time}")))
    same = [F.col(f"r.`{one}`") == F.col(f"b.`{one}`") for one in by]
    near = [] if within_us is None else [apart <= within_us]
    twins = rows.alias("r").join(bronze.alias("b"), [*same, *near], "left_semi").count()
    if twins:
        raise RetractionRefused(
            f"{twins:,} of these rows have the same {', '.join(by)} as rows that were accepted "
            f"since: both would be in bronze. {_UNTOUCHED} Retract those first."
        )


def key_of_bronze(key: Sequence[str]) -> str:
    """The text of a row's key, as `row_key.key_text` has it, in Spark SQL on bronze's columns."""
    return key_sql([f"CAST(`{one}` AS STRING)" for one in key])


def _check_not_changed_since(run: Run, rows: DataFrame, act: str) -> None:
    """Of a source that is followed: what it changed of these rows since, no act of its own took out
    of bronze, which did not have them."""
    changes = acts_since(run.warehouse, act)
    missing = sorted({one for change in changes for one in change.missing})
    key = F.expr(key_of_bronze(run.pipeline.source.followed_key))
    found = rows.where(key.isin(missing)).count() if missing else 0
    if found:
        raise RetractionRefused(
            f"The source has changed {found:,} of these rows since, or has them no more. "
            f"{_UNTOUCHED} Bronze is to have what the table holds: change it there, and the next "
            "run follows."
        )


def in_files(rows: DataFrame, files: tuple[str, ...], by: str = FILE_NAME) -> DataFrame:
    """The rows of these files; by their names, so that more of them are no harm."""
    named = pa.table({"_name": pa.array(files, pa.string())})
    names = frame_of(rows.sparkSession, named)
    return rows.join(F.broadcast(names), F.col(by) == F.col("_name"), "left_semi")


def move(spark: SparkSession, run: Run, change: Retraction) -> None:
    """Both commits of the act; one that was made already is not made again. RetractionUnproven
    where what would be committed is not what was planned: it is not committed then."""
    if moved_at(run.warehouse.bronze, change) is None:
        act = f"the retraction {change.id}"
        check_no_other_rows(run.warehouse.bronze, change.bronze, act, RetractionUnproven)
    if change.undoes is None:
        _fit_columns(spark, run)
        _copy(spark, run, change)
        if moved_at(run.warehouse.bronze, change) is None:
            _take_out(spark, run, change)
    else:
        _bring_back(spark, run, change, change.undoes)
        _forget(run.warehouse.retracted, change, change.undoes)


def _fit_columns(spark: SparkSession, run: Run) -> None:
    """Make `retracted`, with the columns that bronze has now: those that became wider since the
    last act are made wider here too."""
    place, bronze = run.warehouse.retracted, run.warehouse.bronze.existing()
    schema = bronze_at(spark, run, bronze.version()).schema
    texts = [T.StructField(name, T.StringType()) for name in _TEXTS]
    wanted = T.StructType([*schema.fields, T.StructField(RETRACTED_AT, T.TimestampType()), *texts])
    table = place.open()
    if table is not None:
        rows = table_at(spark, place, table.version())
        narrow = of_other_types(rows.schema, wanted)
        if narrow:
            _widen(rows.withColumns(narrow), place, tuple(narrow))
    spec = TableSpec(
        wanted.json(), (RETRACTION,), f"Rows that were taken out of bronze of {run.pipeline.name}",
        may_add=None,
    )  # fmt: skip
    ensure_table(place, spec)


@commit_point(
    "retracted rows with wider columns",
    after_a_kill="before: the columns are as they were; after: a repetition finds them wide enough",
)
def _widen(rows: DataFrame, place: TablePlace, columns: tuple[str, ...]) -> None:
    table = place.existing()
    written = write_rows(rows, place, "widened")
    place.fence()
    schema = Schema.from_json(rows.schema.json())
    replace_files(table, written.files, schema, "wider columns", WidenedNote(columns=columns))


@commit_point(
    "rows copied to `retracted`",
    after_a_kill="before: bronze has them alone; after: both have them, no run starts, and a "
    "repetition takes them out of bronze",
)
def _copy(spark: SparkSession, run: Run, change: Retraction) -> None:
    place = run.warehouse.retracted
    if place.existing().transaction_version(change.transaction) is not None:
        return
    rows = _of_dates(bronze_at(spark, run, change.bronze), change.dates)
    found = counting(rows, change.condition)
    said: Mapping[str, Column] = {
        RETRACTION: F.lit(change.id),
        RETRACTED_AT: F.lit(change.planned_at),
        RETRACTED_BY: F.lit(change.by),
        RETRACTED_BECAUSE: F.lit(change.reason),
    }
    _append(found.withColumns({**said}), place, change)


def _append(rows: DataFrame, place: TablePlace, change: Retraction) -> None:
    written = write_rows(rows, place, change.id)
    if written.number != change.rows:
        raise RetractionUnproven(
            f"{written.number:,} rows were written for {place.uri}, and {change.rows:,} are to "
            f"move. None of them was committed. {STOPPED}"
        )
    append(written, place, change.transaction, 0, change.note)


@commit_point(
    "rows taken out of bronze",
    after_a_kill="before: bronze has them yet, no run starts, and a repetition takes them out; "
    "after: a repetition sees the note in bronze's commit",
)
def _take_out(spark: SparkSession, run: Run, change: Retraction) -> None:
    place = run.warehouse.bronze
    table = place.existing()
    rows = bronze_at(spark, run, change.bronze)
    rows = staying_rows(rows, change.condition, change.dates, change.files)
    written = write_rows(rows, place, change.id)
    if written.number != change.staying:
        raise RetractionUnproven(
            f"{written.number:,} rows of {place.uri} would stay of files that have "
            f"{change.staying:,} to keep. None of it was committed. {STOPPED}"
        )
    place.fence()
    what, now = "the rows that stay", datetime.now(UTC)
    leaving = Leaving(change.bronze, change.files, change.rows, change.dates)
    rewrite_files(table, place, leaving, written.files, what, change.note, now)


@commit_point(
    "rows brought back to bronze",
    after_a_kill="before: `retracted` has them alone; after: both have them, no run starts, and a "
    "repetition takes them out of `retracted`",
)
def _bring_back(spark: SparkSession, run: Run, change: Retraction, act: str) -> None:
    place = run.warehouse.bronze
    bronze = place.existing()
    if bronze.transaction_version(change.transaction) is not None:
        return
    retracted = run.warehouse.retracted
    found = _of_act(spark, retracted, retracted.existing().version(), act)
    has = set(found.columns)
    columns = [
        (F.col(f"`{field.name}`") if field.name in has else F.lit(None))
        .cast(field.dataType)
        .alias(field.name)
        for field in bronze_at(spark, run, bronze.version()).schema
    ]
    _append(found.select(columns), place, change)


@commit_point(
    "rows taken out of `retracted`",
    after_a_kill="before: both tables have them, no run starts, and a repetition takes them out; "
    "after: a repetition finds none to take out",
)
def _forget(place: TablePlace, change: Retraction, act: str) -> None:
    place.fence()
    noted = on_this_version(change.note)
    place.existing().delete(f"{RETRACTION} = '{act}'", commit_properties=noted)
