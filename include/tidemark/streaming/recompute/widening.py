"""Wider types of bronze's columns: all of it is written again, in one commit.

Its rows stay, and their values are what they were: that is proved before anything is written. The
tables' streams pass over the commit, as over each that removes rows (`skipChangeCommits`), but none
goes on with columns of another type (DELTA_SCHEMA_CHANGED_WITH_VERSION, class DeltaSource); so each
table begins a generation with it. Killed before the commit, nothing has changed; after it, a
repeated migration finds the types that it wants.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Schema
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tidemark.commit_point import commit_point
from tidemark.errors import LedgerUnbalanced, MigrationRefused
from tidemark.gold.other_readers import if_no_more, other_readers
from tidemark.pipeline.column_types import is_wider
from tidemark.pipeline.expressions.sql import columns_read
from tidemark.pipeline.model import Pipeline, Source
from tidemark.runs.run import Run
from tidemark.storage.delta.notes import WidenedNote
from tidemark.storage.delta.written_files import WrittenFile, replace_files
from tidemark.streaming.derive import FAILED, derived
from tidemark.streaming.inputs import table_at
from tidemark.streaming.planned_columns import plan_bronze
from tidemark.streaming.recompute.windows_of import with_all_columns
from tidemark.streaming.run.append import write_rows
from tidemark.streaming.schemas import of_other_types

_UNTOUCHED = "Nothing was written: bronze and gold are as they were."


@dataclass(frozen=True)
class Widening:
    """Columns of bronze that become wider, at a version of it: by name the type that each has and
    the one that it gets. `rows`, `files` and `bytes` are those that are written again."""

    version: int
    columns: Mapping[str, tuple[str, str]]
    rows: int
    files: int
    bytes: int

    @property
    def label(self) -> str:
        """For people."""
        columns = ", ".join(f"{name}: {old} → {new}" for name, (old, new) in self.columns.items())
        return (
            f"bronze: {columns}: {self.rows:,} rows in {self.files:,} files "
            f"({self.bytes / 1e6:,.1f} MB) are written again, their values as they are"
        )


def plan_widening(spark: SparkSession, run: Run) -> Widening | None:
    """What the pipeline's file wants wider than bronze has it; None where nothing is.

    Reads bronze, and writes nothing. Raises MigrationRefused where a column would not be wider, or
    a value of it, or of what is derived from it, would be another; and where tables of other
    pipelines join with this bronze, whose queries would not go on.
    """
    bronze = run.warehouse.bronze.existing()
    planned = plan_bronze(spark, run.pipeline)
    columns = _to_widen(bronze, planned)
    if not columns:
        return None
    source = run.pipeline.source
    of_source = [name for name in columns if name in source.columns]
    follows = _derived_from(source, of_source)
    for name, (old, new) in columns.items():
        if not is_wider(new, old) or (name in source.derive and name not in follows):
            derived_from = " It is derived." if name in source.derive else ""
            raise MigrationRefused(
                f"Bronze of {run.pipeline.name} holds {name} as {old}, and by the pipeline's file "
                f"it would be {new}, which is no column of the file that became wider."
                f"{derived_from} {_UNTOUCHED} Put the former type back, or read the field, or "
                "derive it, under another name."
            )
    if readers := other_readers(run.warehouse):
        names = ", ".join(one.name for one in readers)
        raise MigrationRefused(
            f"Bronze of {run.pipeline.name} cannot get wider columns while tables of other "
            f"pipelines join with it ({names}): their queries do not go on with another type. "
            f"{_UNTOUCHED} Read the field under another column's name as well. "
            f"{if_no_more(run.warehouse, readers)}"
        )
    rows = table_at(spark, run.warehouse.bronze, bronze.version())
    _check_values(rows, planned, columns, run.pipeline)
    files = pa.table(bronze.get_add_actions(flatten=True))
    return Widening(
        bronze.version(),
        columns,
        rows=int(pc.sum(files["num_records"]).as_py() or 0),
        files=files.num_rows,
        bytes=int(pc.sum(files["size_bytes"]).as_py() or 0),
    )


def widened(spark: SparkSession, bronze: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Bronze's rows as they are once its columns have the types of the pipeline's file."""
    others = of_other_types(bronze.schema, plan_bronze(spark, pipeline))
    return bronze.withColumns(others) if others else bronze


def widen(spark: SparkSession, run: Run, plan: Widening) -> None:
    """Write bronze again, behind the run's fence. StorageUnavailable where it got another commit
    since the plan; nothing is changed then."""
    place = run.warehouse.bronze
    bronze = place.at_version(plan.version)
    rows = widened(spark, table_at(spark, place, plan.version), run.pipeline)
    written = write_rows(rows, place, "widened")
    if written.number != plan.rows:
        raise LedgerUnbalanced(
            f"Bronze has {plan.rows:,} rows, and {written.number:,} were written again. None of "
            f"them was committed. {_UNTOUCHED} Report this as a defect."
        )
    place.fence()
    _commit(bronze, written.files, plan)


@commit_point(
    "bronze with wider columns",
    after_a_kill="before: nothing has changed; after: a repeated migration finds bronze as it "
    "wants it, and runs wait for it",
)
def _commit(bronze: DeltaTable, files: Sequence[WrittenFile], plan: Widening) -> None:
    schema = json.loads(bronze.schema().to_json())
    for field in schema["fields"]:
        if field["name"] in plan.columns:
            field["type"] = plan.columns[field["name"]][1]
    note = WidenedNote(columns=tuple(plan.columns))
    replace_files(bronze, files, Schema.from_json(json.dumps(schema)), "wider columns", note)


def _to_widen(bronze: DeltaTable, planned: StructType) -> dict[str, tuple[str, str]]:
    has, wanted = (
        {field["name"]: field["type"] for field in json.loads(schema)["fields"]}
        for schema in (bronze.schema().to_json(), planned.json())
    )
    return {
        name: (str(kind), str(wanted[name]))
        for name, kind in has.items()
        if name in wanted and kind != wanted[name]
    }


def _check_values(
    rows: DataFrame,
    planned: StructType,
    columns: Mapping[str, tuple[str, str]],
    pipeline: Pipeline,
) -> None:
    """MigrationRefused where a value would be another."""
    asked = dict(_changed(rows, planned, list(columns)))
    wide = widened(rows.sparkSession, rows, pipeline)
    of_source = [name for name in columns if name in pipeline.source.columns]
    names = _derived_from(pipeline.source, of_source)
    if names:
        read = with_all_columns(rows.sparkSession, wide, pipeline)
        olds = {f"_old_{n}": F.col(f"`{name}`") for n, name in enumerate(names)}
        read = read.withColumns(olds).drop(*pipeline.source.derive)
        again = derived(read, pipeline.source)
        for n, name in enumerate(names):
            old, new = F.col(f"_old_{n}"), F.col(f"`{name}`")
            # What a row had before the expression stood in the file is null.
            other = old.isNotNull() & (F.col(FAILED).isNotNull() | ~old.eqNullSafe(new))
            _refuse(again.where(other).select(old.cast("string")), name, columns)
    for name, other in asked.items():
        _refuse(rows.where(other).select(F.col(f"`{name}`").cast("string")), name, columns)


def _changed(
    rows: DataFrame, planned: StructType, names: Sequence[str]
) -> Iterator[tuple[str, Column]]:
    """Of each column, in which rows its value does not come back from the wider type."""
    for name in names:
        value = F.col(f"`{name}`")
        there = value.try_cast(planned[name].dataType)
        yield name, ~there.try_cast(rows.schema[name].dataType).eqNullSafe(value)


def _derived_from(source: Source, names: Sequence[str]) -> list[str]:
    """The derived columns that read one of these, or one that does."""
    found = list(names)
    for name, sql in source.derive.items():
        if columns_read(sql, found):
            found.append(name)
    return found[len(names) :]


def _refuse(other: DataFrame, name: str, columns: Mapping[str, tuple[str, str]]) -> None:
    example = other.head()
    if example is None:
        return
    change = " → ".join(columns[name]) if name in columns else "derived anew"
    raise MigrationRefused(
        f"Bronze holds values of {name} that would be others ({change}), such as {example[0]}. "
        f"{_UNTOUCHED} Put the former type back, or read the field under another column's name."
    )
