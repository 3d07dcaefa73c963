"""The columns of a pipeline's tables, as Spark types them: planned once, then kept in a file.

Planning takes most of a second of a small run, and comes to the same until the pipeline's file,
Spark or Tidemark is another. The file holds nothing else and may be removed at any time.

Then it is asked whether each column has a type that tables can keep. `validate` tells most of it
from the file alone (`pipeline/expressions/kept_types.py`), but not what comes out of functions
whose types only Spark knows. And Java reads each regular expression here that is written out, of
which `validate` tells the grammar.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyspark
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidemark.commit_point import commit_point
from tidemark.errors import PipelineInvalid
from tidemark.operators.keys import does_count, with_columns_of
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import BRONZE
from tidemark.pipeline.column_types import same_field
from tidemark.pipeline.expressions.sql import patterns_of
from tidemark.pipeline.model import Pipeline
from tidemark.runs.kept_columns import (
    PLANNED_FROM,
    fingerprint,
    is_planned_from,
    kept_columns,
)
from tidemark.runs.run import Run
from tidemark.sources.kinds import row_origin
from tidemark.storage.files import write_bytes
from tidemark.streaming.derive import derived
from tidemark.streaming.inputs import counted_rows, with_event_time
from tidemark.streaming.operators.kinds import streamed_operator
from tidemark.streaming.schemas import (
    bronze_schema,
    changes_schema,
    gold_schema,
    rejects_schema,
    source_schema,
)

_KEPT = (
    *(T.BooleanType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType),
    *(T.DoubleType, T.DecimalType, T.DateType, T.TimestampType, T.BinaryType),
)
_MOST_SHOWN = 5


def check_kept_types(
    pipeline: Pipeline, bronze: T.StructType, aggregated: Mapping[str, T.StructType]
) -> None:
    """PipelineInvalid names each expression whose type no table can keep."""
    wrong = [
        *_unkept("source.derive", pipeline.source.derive, bronze),
        *(
            fault
            for name, table in pipeline.tables.items()
            for fault in _unkept(f"tables.{name}.measures", table.measures, aggregated[name])
        ),
    ]
    _raise(pipeline, wrong)


def check_patterns(spark: SparkSession, pipeline: Pipeline) -> None:
    """PipelineInvalid names each regular expression that Java cannot read."""
    jvm: Any = spark.sparkContext._jvm
    wrong = []
    for place, sql in _expressions(pipeline):
        for pattern in patterns_of(sql):
            try:
                jvm.java.util.regex.Pattern.compile(pattern)
            except IllegalArgumentException as error:
                reason = str(error).partition("\n")[0]
                wrong.append(
                    f"{place}: `{sql}`: Java cannot read the pattern '{pattern}': {reason}"
                )
    _raise(pipeline, wrong)


def check_conditions(pipeline: Pipeline, rows: DataFrame) -> None:
    """PipelineInvalid names each rule whose condition is no boolean. `rows` are those of bronze."""
    types = {
        rule: rows.select(F.expr(rule.condition)).schema[0].dataType
        for rule in pipeline.source.rules
    }
    wrong = [
        f"source.rules.{rule.name}: `{rule.condition}`: is of Spark's type {kind.simpleString()}, "
        "and no condition: it should be true or false for a row"
        for rule, kind in types.items()
        if not isinstance(kind, T.BooleanType)
    ]
    _raise(pipeline, wrong)


def _expressions(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    for name, sql in pipeline.source.derive.items():
        yield f"source.derive.{name}", sql
    for rule in pipeline.source.rules:
        yield f"source.rules.{rule.name}", rule.condition
    for table_name, table in pipeline.tables.items():
        for name, sql in table.measures.items():
            yield f"tables.{table_name}.measures.{name}", sql


def _unkept(place: str, expressions: Mapping[str, str], columns: T.StructType) -> Iterator[str]:
    for name, sql in expressions.items():
        if reason := why_unkept(columns[name].dataType):
            yield f"{place}.{name}: `{sql}`: {reason}"


def why_unkept(kind: T.DataType) -> str | None:
    """Why no table can keep values of a type of Spark's; None where all can."""
    if isinstance(kind, T.ArrayType):
        return why_unkept(kind.elementType)
    if isinstance(kind, T.MapType):
        return why_unkept(kind.keyType) or why_unkept(kind.valueType)
    if isinstance(kind, T.StructType):
        if twice := same_field(kind.names):
            one, other = twice
            return f"has a struct with the fields `{one}` and `{other}`, which are one to Spark"
        return next((why for field in kind if (why := why_unkept(field.dataType))), None)
    if isinstance(kind, T.NullType):
        return "has a part without a type; give it one, as in `cast(null as string)`"
    if isinstance(kind, T.StringType) and kind == T.StringType():
        return None
    if isinstance(kind, _KEPT):
        return None
    return f"is of Spark's type {kind.simpleString()}, which no table can keep; cast it to another"


def _raise(pipeline: Pipeline, wrong: list[str]) -> None:
    if not wrong:
        return
    shown = "\n".join(f"  {fault}" for fault in wrong[:_MOST_SHOWN])
    more = f"\n  … and {len(wrong) - _MOST_SHOWN} more" if len(wrong) > _MOST_SHOWN else ""
    raise PipelineInvalid(
        f"The pipeline `{pipeline.name}` cannot run as its file is:\n{shown}{more}\n"
        "This run read and wrote nothing. Mend the file, then run it again."
    )


@dataclass(frozen=True)
class PlannedColumns:
    """Bronze's columns, and by table what it aggregates to: window, keys, measures, rows."""

    bronze: StructType
    aggregated: Mapping[str, StructType]


def planned_columns(spark: SparkSession, run: Run) -> PlannedColumns:
    """From the file where it is of this pipeline and these versions; else planned and written."""
    place, options = run.places.planned_columns, run.settings.storage_options
    kept = kept_columns(place, options)
    if is_planned_from(kept, run.pipeline) and kept.get("spark") == pyspark.__version__:
        return PlannedColumns(
            StructType.fromJson(kept["bronze"]),
            {name: StructType.fromJson(columns) for name, columns in kept["aggregated"].items()},
        )
    columns = plan_columns(spark, run.pipeline)
    _keep(place, columns, run.pipeline, options)
    return columns


def plan_bronze(spark: SparkSession, pipeline: Pipeline) -> StructType:
    """Bronze's columns, as Spark types what is derived."""
    origin = row_origin(pipeline)
    rows = spark.createDataFrame([], source_schema(pipeline, origin))
    return bronze_schema(pipeline, derived(rows, pipeline.source).schema, origin)


def plan_columns(spark: SparkSession, pipeline: Pipeline) -> PlannedColumns:
    """Plan them; PipelineInvalid where no table can keep a column, a pattern or a condition is
    none, or a `where` is no condition that DuckDB can tell too."""
    check_patterns(spark, pipeline)
    bronze = plan_bronze(spark, pipeline)
    rows = spark.createDataFrame([], bronze)
    check_conditions(pipeline, rows)
    accepted = with_event_time(rows, pipeline)
    others = of_partners(spark, pipeline)
    aggregated = {}
    for name, table in pipeline.tables.items():
        operator = operator_of(pipeline, name)
        known = to_arrow_schema(bronze, timezone="UTC")
        does_count(with_columns_of(known, operator.lookups), table.where)
        inputs = {BRONZE: counted_rows(accepted, operator, planned=True), **others}
        aggregated[name] = streamed_operator(operator).columns(inputs)
    check_kept_types(pipeline, bronze, aggregated)
    return PlannedColumns(bronze, aggregated)


def of_partners(spark: SparkSession, pipeline: Pipeline) -> dict[str, DataFrame]:
    """No rows of other pipelines' bronze, with their columns, by the names of inputs."""
    found = {}
    for name in pipeline.partners:
        partner = pipeline.partner(name)
        rows = spark.createDataFrame([], plan_bronze(spark, partner))
        found[f"{BRONZE}/{name}"] = with_event_time(rows, partner)
    return found


@commit_point(
    "columns planned",
    after_a_kill="before: the next run plans them again; after: it finds them",
)
def _keep(
    place: str, columns: PlannedColumns, pipeline: Pipeline, options: Mapping[str, str]
) -> None:
    kept = {
        PLANNED_FROM: fingerprint(pipeline),
        "spark": pyspark.__version__,
        "bronze": columns.bronze.jsonValue(),
        "aggregated": {name: schema.jsonValue() for name, schema in columns.aggregated.items()},
        # What tells whether the tables fit where there is no Spark to ask.
        "rejects": rejects_schema(row_origin(pipeline)).jsonValue(),
        "changes": {
            name: changes_schema(schema).jsonValue() for name, schema in columns.aggregated.items()
        },
        "gold": {
            name: gold_schema(schema, {}).jsonValue() for name, schema in columns.aggregated.items()
        },
    }
    write_bytes(place, json.dumps(kept).encode(), options)
