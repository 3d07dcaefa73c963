"""Judge each line once: accepted, or rejected with a reason and a detail.

`judge_lines` is a pure function from lines to judged rows. It uses nothing but the line, the
batch's own time and the pipeline, so a batch that runs again judges the same.

How a line is read. Spark's `from_json` stops after the first value and passes over what
follows (`{"a":1}{"a":2}` is one row to it), so the line is set into an array whose last item
must be found again, as the second. That costs twice the parse, and a flat line does without: its
only `{` comes first and its only `}` last, so nothing can follow the object. Declared columns are
parsed with their types: a quoted number is no long, a number is no string. Only rows that look
wrong are parsed a second time, as variants, to say what was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from tidemark.pipeline.durations import duration_text
from tidemark.pipeline.model import Column, EventTime, Pipeline, Source
from tidemark.sources.files.batch_files import MALFORMED
from tidemark.streaming.ingest.column_values import is_misread, parsed_as, read_value
from tidemark.streaming.ingest.event_time import EPOCH_TYPE, event_time_of, is_epoch

MISSING_FIELD = "missing field"
WRONG_TYPE = "wrong type"
UNKNOWN_FIELD = "unknown field"
TOO_OLD = "too old"
FUTURE = "future"

# Mark of the envelope's names. A line that holds it could imitate them, and is rejected.
MARK = "_5f3a9c"
_ROWS, _END, _CORRUPT = f"rows{MARK}", f"end{MARK}", f"corrupt{MARK}"
_STRICT_JSON = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_PARSER = {**_STRICT_JSON, "columnNameOfCorruptRecord": _CORRUPT}
_SURROGATE_PAIR = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_BATCH_MS = "_batch_ms"
_MILLISECOND = timedelta(milliseconds=1)
_SHOWN = 120
# The engine's watermark starts at 1970-01-01, so it would drop an earlier row as late.
_EARLIEST = "1970-01-01 00:00:00"


@dataclass(frozen=True)
class Rules:
    """A pipeline's rules as columns of Spark, the same for each of its batches.

    They are some two thousand calls into the JVM: most of a second in a process that has just
    started.
    """

    source: Source
    flat: SparkColumn
    is_flat: SparkColumn
    line: SparkColumn
    keys: SparkColumn
    as_declared: SparkColumn
    values: Sequence[SparkColumn]
    verdict: SparkColumn
    derived: Mapping[str, SparkColumn]


def rules_of(pipeline: Pipeline) -> Rules:
    """Build the rules; this needs a session, and no table or file."""
    source = pipeline.source
    return Rules(
        source=source,
        flat=F.when(_looks_flat(source), _parsed_flat(source)),
        is_flat=F.coalesce(
            F.col(f"_flat.{_CORRUPT}").isNull() & F.col("_flat").isNotNull(), F.lit(False)
        ),
        line=F.when(~F.col("_is_flat"), _parsed(source)),
        keys=F.when(_is_complete(source), _names(source.columns)).otherwise(_keys()),
        as_declared=F.coalesce(F.col("_keys") == _names(source.columns), F.lit(False)),
        values=[*_values(source.columns, source.event_time), _extra(source).alias("_extra")],
        verdict=_verdict(pipeline),
        derived={name: F.when(_accepted(), F.expr(sql)) for name, sql in source.derive.items()},
    )


def judge_lines(lines: DataFrame, rules: Rules, batch_time_ms: int) -> DataFrame:
    """Add each line's verdict to it.

    `lines` has `_value` (the line) and may have more columns, which are kept. The result has,
    besides them, every declared and derived column, `_extra` (JSON of unknown fields, or
    null), `_event_date` (date, UTC), `_reason` (null: accepted) and `_detail`. The columns of a
    rejected row hold what could be read of it.
    """
    source = rules.source
    kept = [F.col(f"`{name}`") for name in lines.columns]
    time = F.lit(batch_time_ms).cast("bigint").alias(_BATCH_MS)
    rows = lines.select(*kept, time, rules.flat.alias("_flat"))
    rows = rows.withColumn("_is_flat", rules.is_flat)
    rows = rows.withColumns({"_line": rules.line, "_keys": rules.keys})
    rows = rows.withColumn("_as_declared", rules.as_declared)
    typed = rows.select("*", *rules.values)
    rows = typed.withColumn("_verdict", rules.verdict)
    for name, column in rules.derived.items():
        rows = rows.withColumn(name, column)
    return rows.select(
        *kept,
        *[F.col(f"`{name}`") for name in (*source.columns, *source.derive)],
        "_extra",
        F.to_date(F.col(f"`{source.event_time.column}`")).alias("_event_date"),
        F.col("_verdict.reason").alias("_reason"),
        F.col("_verdict.detail").alias("_detail"),
    )


def _accepted() -> SparkColumn:
    """Derived columns are null for rejected rows, whose input may be null."""
    return F.col("_verdict.reason").isNull()


def _envelope() -> SparkColumn:
    return F.concat(F.lit(f'{{"{_ROWS}":['), F.col("_value"), F.lit(f',{{"{_END}":1}}]}}'))


def _looks_flat(source: Source) -> SparkColumn:
    """Can the line be one object without another in it, and nothing after it?"""
    if any(_is_nested(column) for column in source.columns.values()):
        return F.lit(False)
    # `contains` is by far the engine's quickest search; a part of bytes is cut without counting
    # characters.
    value = F.col("_value")
    inside = F.substring(value.cast("binary"), F.lit(2), F.octet_length(value) - 2)
    braces = value.startswith("{") & value.endswith("}")
    return braces & ~F.contains(inside, F.lit(b"{")) & ~F.contains(inside, F.lit(b"}"))


def _is_complete(source: Source) -> SparkColumn:
    """Surely holds each declared column once and nothing else, so that its keys need no parse.

    None of n columns is null, so there are n different fields, and n - 1 commas leave no room
    for one more, or for one that stands twice.
    """
    value = F.col("_value")
    commas = F.octet_length(value) - F.octet_length(F.replace(value, F.lit(","), F.lit("")))
    found = [F.col("_flat")[name].isNotNull() for name in source.columns]
    enough = reduce(lambda left, right: left & right, found)
    return F.col("_is_flat") & (commas == len(source.columns) - 1) & enough


def _parsed_flat(source: Source) -> SparkColumn:
    return F.from_json("_value", f"struct<{_fields(source)},{_CORRUPT}:string>", _PARSER)


def _parsed(source: Source) -> SparkColumn:
    row = f"struct<{_fields(source)},{_END}:int>"
    return F.from_json(_envelope(), f"struct<{_ROWS}:array<{row}>,{_CORRUPT}:string>", _PARSER)


def _fields(source: Source) -> str:
    return ",".join(
        f"`{name}`:{_json_type(name, column, source.event_time)}"
        for name, column in source.columns.items()
    )


def _json_type(name: str, column: Column, event_time: EventTime) -> str:
    """The type a column is parsed with, which `_value` reads its value from."""
    if name == event_time.column and is_epoch(event_time):
        return EPOCH_TYPE
    return "string" if column.type == "string" else parsed_as(_kind(column))


def _kind(column: Column) -> T.DataType:
    return T.DataType.fromDDL(column.type)


def _row() -> SparkColumn:
    return F.get(F.col(f"_line.{_ROWS}"), F.lit(0))


def _raw(name: str) -> SparkColumn:
    """What the line holds for a column, as it was parsed."""
    return F.when(F.col("_is_flat"), F.col("_flat")[name]).otherwise(_row()[name])


def _is_nested(column: Column) -> bool:
    return column.type.partition("<")[0] in ("struct", "array", "map")


def _keys() -> SparkColumn:
    return F.json_object_keys("_value")


def _values(columns: dict[str, Column], event_time: EventTime) -> list[SparkColumn]:
    return [_value(name, column, event_time).alias(name) for name, column in columns.items()]


def _value(name: str, column: Column, event_time: EventTime) -> SparkColumn:
    parsed = _raw(name)
    if name == event_time.column:
        return event_time_of(parsed, event_time)
    if column.type == "string":
        # Nested, not joined by OR: Spark hoists what stands in several first conditions and
        # would then parse every line a second time.
        certain = parsed.isNull() | _is_quoted(name)
        others = F.when(_surely_text(name), parsed).otherwise(F.when(_is_text(name), parsed))
        return F.when(certain, parsed).otherwise(others)
    return read_value(parsed, _kind(column))


def _is_quoted(name: str) -> SparkColumn:
    """True where a quote surely begins the value of a field of a flat line.

    Without an escape each quote begins a text or ends one. The key's first cannot end one: what
    follows would be no JSON. So it is the field's name, and its value follows: the only one, where
    no field stands twice.
    """
    value, key = F.col("_value"), f'"{name}"'
    follows = value.contains(f'{key}:"') | value.contains(f'{key}: "')
    return F.col("_is_flat") & _keys_are_unique() & ~_has_escape() & follows


def _has_escape() -> SparkColumn:
    return F.col("_value").contains("\\")


def _surely_text(name: str) -> SparkColumn:
    """False for the few lines in which a string column may hold something else.

    Spark reads a number, a boolean or an object into a string column too, and changes it
    (1.50 becomes 1.5). Where the key stands once and a quote follows, it is text for certain;
    but a key with an escape in it could be the same key, beside one of a nested object, or one
    that merely ends like it (`\\"key"`).
    Without regular expressions, which would make each line a Java string first.
    """
    value, key = F.col("_value"), f'"{name}"'
    first = F.instr(value, key)
    followed = (F.instr(value, f'{key}:"') == first) | (F.instr(value, f'{key}: "') == first)
    once = _locate(key, first + len(key)) == 0
    nested = _locate("{", F.instr(value, "{") + 1) > 0
    may_hide = value.contains(r"\u") & (nested | value.contains(f"\\{key}"))
    return (first > 0) & followed & once & ~may_hide


def _locate(text: str, start: SparkColumn) -> SparkColumn:
    """Where the text stands in the line at or after a position, counted from 1; else 0."""
    return F.call_function("locate", F.lit(text), F.col("_value"), start)


def _is_text(name: str) -> SparkColumn:
    return F.schema_of_variant(_variant(name)) == "STRING"


def _variants() -> SparkColumn:
    schema = f"struct<{_ROWS}:array<map<string,variant>>>"
    return F.get(F.from_json(_envelope(), schema, _STRICT_JSON)[_ROWS], F.lit(0))


def _variant(name: str) -> SparkColumn:
    return _variants()[F.lit(name)]


def _verdict(pipeline: Pipeline) -> SparkColumn:
    """The first of the reasons that applies, as struct<reason, detail>; null: accepted."""
    source = pipeline.source
    times = _outside(pipeline)
    checks = [
        _malformed(),
        (_variants().isNull(), MALFORMED, F.lit("a field stands twice in a nested object")),
        *[
            _missing(name)
            for name, column in source.columns.items()
            if not _optional(name, column, source.event_time)
        ],
        *[_wrong_type(name, column) for name, column in source.columns.items()],
        *([_unknown_field(source.columns)] if source.unknown_fields == "reject" else []),
        *times,
        # What Spark could not read is never accepted, even where no check above says why.
        (F.col(f"_line.{_CORRUPT}").isNotNull(), MALFORMED, F.lit("does not fit the columns")),
    ]
    # Most rows are good: a few cheap questions keep them from the long chain.
    return F.when(_suspect(source, [check[0] for check in times]), _first(checks))


def _suspect(source: Source, times: list[SparkColumn]) -> SparkColumn:
    """True for every row that has a reason, and for few others."""
    time = source.event_time
    required = [
        name for name, column in source.columns.items() if not _optional(name, column, time)
    ]
    questions = [
        ~_well_formed(),
        F.col(f"_line.{_CORRUPT}").isNotNull(),
        *[F.col(f"`{name}`").isNull() for name in required],
        *[
            F.col(f"`{name}`").isNull() & _raw(name).isNotNull()
            for name in source.columns
            if name not in required
        ],
        *[
            is_misread(_raw(name), _kind(column))
            for name, column in source.columns.items()
            if _is_nested(column)
        ],
        *([F.col("_extra").isNull() & _has_unknown(source)] * (source.unknown_fields == "keep")),
        *([_unknown_field(source.columns)[0]] if source.unknown_fields == "reject" else []),
        *times,
    ]
    return reduce(lambda left, right: left | right, questions)


def _optional(name: str, column: Column, event_time: EventTime) -> bool:
    return column.nullable and name != event_time.column


def _first(checks: list[tuple[SparkColumn, str, SparkColumn]]) -> SparkColumn:
    first, *others = checks
    chain = F.when(first[0], _verdict_of(first))
    return reduce(lambda chain, check: chain.when(check[0], _verdict_of(check)), others, chain)


def _verdict_of(check: tuple[SparkColumn, str, SparkColumn]) -> SparkColumn:
    return F.struct(F.lit(check[1]).alias("reason"), check[2].alias("detail"))


def _whole() -> SparkColumn:
    rows = F.col(f"_line.{_ROWS}")
    alone = (F.size(rows) == 2) & _row().isNotNull() & F.get(rows, F.lit(1))[_END].isNotNull()
    return F.col("_is_flat") | alone


def _keys_are_unique() -> SparkColumn:
    # Most lines hold the declared columns in their order: that costs less to see.
    return F.col("_as_declared") | (F.size("_keys") == F.size(F.array_distinct("_keys")))


def _well_formed() -> SparkColumn:
    value = F.col("_value")
    one_object = _whole() & F.col("_keys").isNotNull() & _keys_are_unique()
    good = F.is_valid_utf8(value) & one_object & ~_has_lone_surrogate() & ~value.contains(MARK)
    return F.coalesce(good, F.lit(False))


def _has_lone_surrogate() -> SparkColumn:
    r"""True for a `\ud800` without its other half: no character, so no text can hold it."""
    value = F.col("_value")
    unescaped = F.regexp_replace(value, r"\\\\", "")
    alone = F.regexp_replace(unescaped, _SURROGATE_PAIR, "").rlike(r"\\u[dD][89a-fA-F]")
    return _has_escape() & (value.contains(r"\ud") | value.contains(r"\uD")) & alone


def _malformed() -> tuple[SparkColumn, str, SparkColumn]:
    detail = (
        F.when(~F.is_valid_utf8("_value"), F.lit("not valid UTF-8"))
        .when(F.col("_value").rlike(r"^\s*\z"), F.lit("blank line"))
        .when(F.col("_value").startswith("\ufeff"), F.lit("begins with a byte order mark (BOM)"))
        .when(F.col("_value").contains(MARK), F.lit(f"holds {MARK}, which is kept for Tidemark"))
        .when(_whole() & _has_lone_surrogate(), F.lit("holds half of a surrogate pair"))
        .when(~_keys_are_unique() & _whole(), F.lit("a field stands twice in the object"))
        .otherwise(F.lit("not exactly one JSON object"))
    )
    return ~_well_formed(), MALFORMED, detail


def _missing(name: str) -> tuple[SparkColumn, str, SparkColumn]:
    absent = ~F.array_contains("_keys", name)
    # A value of a wrong type is null in the parsed row as well, so ask the line itself.
    empty = _raw(name).isNull() & (absent | _holds_null(name))
    detail = F.when(absent, F.lit(f"{name} is missing")).otherwise(F.lit(f"{name} is null"))
    return empty, MISSING_FIELD, detail


def _holds_null(name: str) -> SparkColumn:
    return F.schema_of_variant(_variant(name)) == "VOID"


def _wrong_type(name: str, column: Column) -> tuple[SparkColumn, str, SparkColumn]:
    unread = F.col(f"`{name}`").isNull() & F.array_contains("_keys", name)
    wrong = unread & ~F.coalesce(_holds_null(name), F.lit(False))
    if _is_nested(column):
        # A nested value is wrong as a whole when any part of it was not read.
        partial = F.col(f"_line.{_CORRUPT}").isNotNull() & _nested_is_partial(name, column)
        wrong = wrong | partial | is_misread(_raw(name), _kind(column))
    found = F.substring(F.to_json(_variant(name)), 1, _SHOWN)
    detail = F.concat(F.lit(f"{name} should be {column.type}, found "), found)
    return wrong, WRONG_TYPE, detail


def _nested_is_partial(name: str, column: Column) -> SparkColumn:
    """True when the value alone, without the row's other columns, is not of its type."""
    text = F.concat(F.lit('{"value":'), F.to_json(_variant(name)), F.lit("}"))
    schema = f"struct<value:{parsed_as(_kind(column))},{_CORRUPT}:string>"
    options = {**_STRICT_JSON, "columnNameOfCorruptRecord": _CORRUPT}
    return F.from_json(text, schema, options)[_CORRUPT].isNotNull()


def _unknown_field(columns: dict[str, Column]) -> tuple[SparkColumn, str, SparkColumn]:
    unknown = F.array_except("_keys", _names(columns))
    detail = F.concat(F.lit("unknown: "), F.substring(F.array_join(unknown, ", "), 1, _SHOWN))
    return F.size(unknown) > 0, UNKNOWN_FIELD, detail


def _names(columns: dict[str, Column]) -> SparkColumn:
    return F.array(*[F.lit(name) for name in columns])


def _outside(pipeline: Pipeline) -> list[tuple[SparkColumn, str, SparkColumn]]:
    """The checks of an event time that was read: what lies outside of the times accepted."""
    time = pipeline.source.event_time
    early, future = _too_early(time.column), _future(time)
    if pipeline.keep is None:
        return [early, future]
    return [early, _too_old(time.column, pipeline.keep), future]


def _too_early(name: str) -> tuple[SparkColumn, str, SparkColumn]:
    early = F.col(f"`{name}`") < F.lit(_EARLIEST).cast("timestamp")
    detail = F.lit(f"{name} is before 1970-01-01, where the engine's watermark begins")
    return early, WRONG_TYPE, detail


def _too_old(name: str, keep: timedelta) -> tuple[SparkColumn, str, SparkColumn]:
    # What is before 1970 has its own reason; a limit there might be no timestamp at all.
    limit_ms = F.greatest(F.col(_BATCH_MS) - keep // _MILLISECOND, F.lit(0).cast("bigint"))
    value = F.col(f"`{name}`")
    allowed = f", more than {duration_text(keep)} before the batch's time"
    detail = F.concat(F.lit(f"{name} is "), value.cast("string"), F.lit(allowed))
    return value < F.timestamp_millis(limit_ms), TOO_OLD, detail


def _future(event_time: EventTime) -> tuple[SparkColumn, str, SparkColumn]:
    limit_ms = F.col(_BATCH_MS) + event_time.max_future // _MILLISECOND
    value = F.col(f"`{event_time.column}`")
    # No time of the batch in it: that of another run would make it another detail.
    allowed = f", more than {duration_text(event_time.max_future)} after the batch's time"
    detail = F.concat(F.lit(f"{event_time.column} is "), value.cast("string"), F.lit(allowed))
    return value > F.timestamp_millis(limit_ms), FUTURE, detail


def _extra(source: Source) -> SparkColumn:
    if source.unknown_fields != "keep":
        return F.lit(None).cast("string")
    names = _names(source.columns)
    unknown = F.map_filter(_variants(), lambda key, _: ~F.array_contains(names, key))
    return F.when(_has_unknown(source), F.to_json(unknown))


def _has_unknown(source: Source) -> SparkColumn:
    unknown = F.array_except("_keys", _names(source.columns))
    return ~F.col("_as_declared") & (F.size(unknown) > 0)
