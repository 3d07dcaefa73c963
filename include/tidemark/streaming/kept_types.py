"""Does each column have a type that tables can keep? Asked when Spark has typed them all, before a
table or a checkpoint is made.

`validate` tells most of it from the file alone (`pipeline/expressions/kept_types.py`), but not what
comes out of functions whose types only Spark knows. And Java reads each regular expression here
that is written out, of which `validate` tells the grammar.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tidemark.errors import PipelineInvalid
from tidemark.pipeline.column_types import same_field
from tidemark.pipeline.expressions.sql import patterns_of
from tidemark.pipeline.model import Pipeline

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


def _expressions(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    for name, sql in pipeline.source.derive.items():
        yield f"source.derive.{name}", sql
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
