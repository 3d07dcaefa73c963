"""Which rows an erasure takes out: of bronze and of what was retracted those that the condition
hits; of rejects, and of those that were replayed, those of which a text, as it was read or as it
was mended, gives such a row by today's columns, or holds a text that was named. The rows that stay
in their files are written beside them.

They pass through Spark's tasks, and not the driver; of rejects the driver holds ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.errors import ErasureRefused, ErasureUnproven
from tidemark.pipeline.expressions.sql import columns_read
from tidemark.pipeline.names import folded
from tidemark.recompute.erase.change import BRONZE, REJECTS, REPLAYED, RETRACTED, ErasedRows
from tidemark.recompute.erase.record import erased_place
from tidemark.recompute.replay.rejudged import REJECT_FILE, REJECT_ID
from tidemark.runs.requests import EraseRequest
from tidemark.runs.run import Run
from tidemark.storage.delta.notes import MENDED
from tidemark.streaming.arrow_rows import frame_of
from tidemark.streaming.derive import FAILED
from tidemark.streaming.inputs import counting, table_at
from tidemark.streaming.recompute.replaying import rows_of_rejects
from tidemark.streaming.recompute.retraction import (
    FILE_NAME,
    Hits,
    bronze_at,
    found_rows,
    in_files,
    staying_rows,
    where_fault,
)
from tidemark.streaming.run.append import write_rows

_UNTOUCHED = "Nothing was changed."
_HIT = "_hit"
_MOST_NAMED = 1_000


@dataclass(frozen=True)
class FoundRows:
    """Rows of a table that go: how many, of which of its files, and the rows that stay in these."""

    table: str
    version: int
    rows: int
    files: tuple[str, ...]
    staying_number: int
    staying: DataFrame
    dates: tuple[date, ...] | None = None


@dataclass(frozen=True)
class ToErase:
    """All that goes. `bronze`: of bronze, None where none of its rows does; `held` its rows, None
    where they are too many; of `unread` rejects the condition cannot be asked, or of one of their
    texts; `sources` are the source's files whose rows go, as far as a thousand of them."""

    tables: tuple[FoundRows, ...]
    bronze: Hits | None
    held: pa.Table | None
    unread: int
    sources: tuple[str, ...] = ()


def to_erase(
    spark: SparkSession, run: Run, asked: EraseRequest, version: int, now: datetime
) -> ToErase:
    """Find them; nothing is written. ErasureRefused where it is no condition, where none is found,
    or where it cannot be asked of some rejects and no text is named by which they are found."""
    assert asked.where is not None
    if fault := where_fault(spark, run, asked.where, version):
        raise ErasureRefused(f"{fault} {_UNTOUCHED}")
    hits = found_rows(spark, run, asked.where, version)
    rows = bronze_at(spark, run, version)
    found = [FoundRows(BRONZE, version, 0, (), 0, rows.limit(0))]
    names: set[str] = set()
    if hits is not None:
        names.update(_sources(counting(rows, asked.where)))
        staying = staying_rows(rows, asked.where, hits.dates, hits.files)
        number = hits.staying
        found = [FoundRows(BRONZE, version, hits.rows, hits.files, number, staying, hits.dates)]
    unread = 0
    for table in (RETRACTED, REJECTS, REPLAYED):
        opened = erased_place(run.warehouse, table).open()
        if opened is None:
            continue
        held = table_at(spark, erased_place(run.warehouse, table), opened.version())
        if table == RETRACTED:
            marked = _of_retracted(held, rows, asked.where)
        else:
            marked, number = _of_rejects(held, rows, run, asked, now)
            unread += number
        names.update(_sources(marked.where(_HIT)))
        found.append(_found(held, marked, table, opened.version()))
    going = sum(one.rows for one in found)
    if unread and not asked.texts:
        raise ErasureRefused(
            f"{unread:,} rejects of {run.pipeline.name} give no row by today's file that the "
            f"condition can be asked of, so nobody can say whether it hits them. {_UNTOUCHED} Say "
            "by which text those are found that are to go (--text, once or several times): the "
            "name or number as it stands in a record, say. To mend one before (`tidemark rejects "
            "replay`) does not spare it: the text that was read is asked too."
        )
    if not going:
        raise ErasureRefused(
            f"No row of {run.pipeline.name} is one that the condition hits, in bronze, rejects or "
            f"what was retracted. {_UNTOUCHED}"
        )
    shown = tuple(sorted(names)[:_MOST_NAMED])
    of_bronze = rows.limit(0).toArrow() if hits is None else hits.held
    # Bronze and rejects also where none goes; the others only where some do.
    tables = tuple(one for one in found if one.rows or one.table in (BRONZE, REJECTS))
    return ToErase(tables, hits, of_bronze, unread, shown)


def _sources(rows: DataFrame) -> Iterator[str]:
    if "_file" in rows.columns:
        named = rows.select("_file").where("_file IS NOT NULL").distinct().limit(_MOST_NAMED)
        yield from (one for (one,) in named.collect())


def _of_retracted(held: DataFrame, bronze: DataFrame, where: str) -> DataFrame:
    """Its rows, with which of them go; it may lack columns that bronze got since."""
    lacking = _lacking(held, bronze)
    is_hit = F.coalesce(F.bit_count(F.expr(where)) == 1, F.lit(False))
    marked = held.withColumns({**lacking, REJECT_FILE: F.col(FILE_NAME), _HIT: is_hit})
    return marked.drop(*lacking)


def _lacking(rows: DataFrame, bronze: DataFrame) -> dict[str, Column]:
    """Columns that bronze has and the rows have not, as nulls."""
    there = {folded(name) for name in rows.columns}
    return {
        field.name: F.lit(None).cast(field.dataType)
        for field in bronze.schema
        if folded(field.name) not in there
    }


def _of_rejects(
    held: DataFrame, bronze: DataFrame, run: Run, asked: EraseRequest, now: datetime
) -> tuple[DataFrame, int]:
    """Rejects, with which of them go, and of how many others the condition cannot be asked."""
    assert asked.where is not None
    named = held.withColumn(REJECT_FILE, F.col(FILE_NAME))
    texts = [F.coalesce(F.col("raw_bytes").cast("string"), F.col("raw")), F.col("detail")]
    texts += [F.col(MENDED)] if MENDED in held.columns else []
    holding = reduce(
        lambda one, other: one | other,
        (F.coalesce(of.contains(text), F.lit(False)) for of in texts for text in asked.texts),
        F.lit(False),
    )
    marked = named.withColumn("_named", holding)
    given = rows_of_rejects(marked.where("NOT _named"), run, now)
    lacking = _lacking(given, bronze)
    given = given.withColumns(lacking) if lacking else given
    untold = F.col("_reason").isNotNull()
    if columns_read(asked.where, run.pipeline.source.derive):
        # Where one failed all derived columns are null, and a condition on one hits nobody.
        untold |= F.col(FAILED).isNotNull()
    if columns_read(asked.where, lacking):
        # What a text would have in a column that is out of the file, today's columns do not tell.
        untold = F.lit(True)
    key = [F.col(REJECT_ID), F.col("_batch").alias("_of_batch")]
    found = counting(given.where(~untold), asked.where).select(*key).distinct().toArrow()
    ids = F.broadcast(frame_of(held.sparkSession, found).withColumn("_given", F.lit(True)))
    left = given.where(untold).select(*key).join(ids, [REJECT_ID, "_of_batch"], "left_anti")
    # One without an id is of a version before 0.2, and has one text.
    one = F.coalesce(F.col(REJECT_ID), F.monotonically_increasing_id().cast("string"))
    unread = left.select(one, "_of_batch").distinct().count()
    same = (F.col("id") == F.col(REJECT_ID)) & (F.col("_batch") == F.col("_of_batch"))
    joined = marked.join(ids, same, "left").drop(REJECT_ID, "_of_batch")
    is_hit = F.col("_named") | F.coalesce("_given", F.lit(False))
    return joined.withColumn(_HIT, is_hit).drop("_named", "_given"), unread


def _found(held: DataFrame, marked: DataFrame, table: str, version: int) -> FoundRows:
    by = marked.groupBy(REJECT_FILE).agg(F.count("*").alias("n"), F.count_if(_HIT).alias("hits"))
    touched = by.where("hits > 0").collect()
    files = tuple(sorted(row[REJECT_FILE] for row in touched))
    going = sum(row["hits"] for row in touched)
    others = sum(row["n"] for row in touched) - going
    staying = in_files(marked, files, REJECT_FILE).where(f"NOT {_HIT}")
    return FoundRows(table, version, going, files, others, staying.select(held.columns))


def written(found: ToErase, run: Run, act: str) -> tuple[ErasedRows, ...]:
    """What the act commits, once the rows that stay are written below the tables. ErasureUnproven
    where these are not what was found."""
    return tuple(_written(one, run, act) for one in found.tables)


def _written(one: FoundRows, run: Run, act: str) -> ErasedRows:
    place = erased_place(run.warehouse, one.table)
    files = tuple(write_rows(one.staying, place, act).files) if one.staying_number else ()
    if (number := sum(file.rows for file in files)) != one.staying_number:
        raise ErasureUnproven(
            f"{number:,} rows of {place.uri} would stay of files that have {one.staying_number:,} "
            "to keep. None of it was committed, and the pipeline goes on. Report this as a defect."
        )
    return ErasedRows(
        table=one.table,
        version=one.version,
        rows=one.rows,
        leaving=one.files,
        dates=one.dates,
        staying=files,
    )
