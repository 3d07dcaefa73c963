"""What a pipeline is, as frozen models: the content of one file in `include/pipelines`.

The models check each value by itself. What two values say together (a key that is not a
column, a measure over an unknown column) is checked in `rules.py`, so that all problems of
a file come out at once, with their places. Build a Pipeline with `load_pipeline` or
`pipeline_from_mapping`; both check everything.
"""

from __future__ import annotations

import codecs
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SerializeAsAny,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue, SkipJsonSchema
from pydantic_core import CoreSchema

from tidemark.pipeline import delta_columns, event_time_formats, kafka_columns, names, schedules
from tidemark.pipeline.checked import checked
from tidemark.pipeline.checks import Check, SourceCheck
from tidemark.pipeline.column_types import parse_type
from tidemark.pipeline.durations import Duration, PositiveDuration, duration_text
from tidemark.pipeline.expressions.sql import keeps_no_bound, names_read
from tidemark.pipeline.fold_code import split_python
from tidemark.pipeline.fold_types import emitted_type
from tidemark.pipeline.reasons import REASONS
from tidemark.pipeline.settings.spark import OF_A_PROCESS, as_text, of_the_process
from tidemark.pipeline.settings.state import StateStore
from tidemark.pipeline.source_files import has_pattern, plain_name, split_files


def _field_path(said: object) -> object:
    if isinstance(said, str):
        said = said.split(".")
    if isinstance(said, (list, tuple)) and (not said or "" in said):
        raise ValueError("leads nowhere: a name is empty. Names that hold dots are a list: `[a.b]`")
    return said


def _check_rule_name(name: str) -> None:
    if names.find_control_character(name) or name != name.strip():
        raise ValueError("cannot name a rule: it is printed, on one line and without blanks around")
    if name.casefold() in REASONS:
        raise ValueError("is a reason that rejects have without a rule; choose another name")


def _check_kafka_column(name: str) -> None:
    if name not in kafka_columns.TYPES:
        names.check_column_name(name)


def _check_encoding(name: str) -> None:
    try:
        # Codecs of bytes, such as zlib, are none.
        "".encode(name)
        codecs.getincrementaldecoder(name)
    except LookupError:
        raise ValueError(f"`{name}` is no encoding of text that is known here") from None


ColumnName = Annotated[str, checked(names.check_column_name)]
KafkaColumnName = Annotated[str, checked(_check_kafka_column)]
TopicName = Annotated[str, checked(kafka_columns.check_topic)]
TableName = Annotated[str, checked(names.check_folder_name, "table")]
LookupName = Annotated[str, checked(names.check_folder_name, "lookup")]
ViewName = Annotated[str, checked(names.check_folder_name, "view")]
Expression = Annotated[str, Field(min_length=1, description="A Spark SQL expression")]
_Texts = Annotated[tuple[str, ...], Field(strict=False)]
_FieldPath = Annotated[
    _Texts,
    BeforeValidator(_field_path),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
# Kafka's own numbers have 32 and 64 bits.
_Partition = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Offset = Annotated[int, Field(ge=0, le=2**63 - 1)]
# Which of them a file may change is a rule of files (`rules.py`): a contract may hold others.
SparkSettings = dict[str, Annotated[str, BeforeValidator(as_text)]]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, serialize_by_alias=True)


class _TextOrMapping(_Model):
    """A mapping that a file may say as text, too."""

    text_examples: ClassVar[tuple[str, ...]]

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        mapping = handler.resolve_ref_schema(handler(core))
        text = {"type": "string", "examples": list(cls.text_examples)}
        return {"anyOf": [text, mapping], "description": mapping.get("description", "")}


class Column(_TextOrMapping):
    """A column of the source: `long not null`, or a mapping with type, nullable, description."""

    text_examples = ("string", "long not null", "decimal(10,2)")

    type: str = Field(description="A Spark type: long, string, decimal(10,2), array<int> …")
    nullable: bool = Field(default=True, description="May a row lack it, or hold null?")
    field: _FieldPath | None = Field(
        default=None,
        description="The source's field, where it has another name: `Amount (EUR)`. Dots lead into "
        "objects, `payload.user.id`; names with dots are a list, `[Sepal.Length]`",
    )
    nulls: _Texts | None = Field(
        default=None, description="Texts that are null here, instead of the source's `nulls`"
    )
    trim: bool = Field(
        default=False, description="Is its text without the blanks, tabs and line ends around it?"
    )
    from_text: bool = Field(
        default=False, description="Is text a number or boolean where it reads like one of JSON?"
    )
    description: str | None = Field(default=None, description="Becomes the column's comment")

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        spec: object = {"type": value} if isinstance(value, str) else value
        if not isinstance(spec, dict) or not isinstance(spec.get("type"), str):
            return spec
        parsed = parse_type(spec["type"])
        if not parsed.nullable and spec.get("nullable") is True:
            raise ValueError("says both `not null` and `nullable: true`")
        nullable = spec.get("nullable", True) if parsed.nullable else False
        return {**spec, "type": parsed.type, "nullable": nullable}

    @model_validator(mode="after")
    def _of_texts(self) -> Self:
        if re.match("(array|map|struct)<", self.type) and (self.nulls or self.trim):
            raise ValueError(f"is {self.type}: `nulls` and `trim` are for columns of one value")
        others = "(array|map|struct|string|date|timestamp|binary)"
        if self.from_text and re.match(others, self.type):
            raise ValueError(f"is {self.type}: `from_text` is for numbers and booleans")
        return self

    def path(self, name: str) -> tuple[str, ...]:
        """The names that lead to its field, of the column of this name."""
        return self.field or (name,)


class EventTime(_Model):
    """Where a row's event time stands, and how it is written."""

    column: str = Field(description="A column of type timestamp")
    format: Annotated[str, checked(event_time_formats.check_format)] = Field(
        default="iso8601",
        description="iso8601, rfc_1123, epoch_seconds, epoch_millis, epoch_micros, or a Spark "
        "datetime pattern such as `dd/MMM/yyyy:HH:mm:ss Z`",
    )
    zone: Annotated[str, checked(event_time_formats.check_zone)] | None = Field(
        default=None,
        description="The zone of text that has none, as in Europe/Vienna or UTC; without it "
        "such text is rejected",
    )
    max_future: Duration = Field(
        default=timedelta(0),
        description="How far after its batch's time an event may lie; default: the watermark's "
        "delay",
    )
    max_jump: PositiveDuration | None = Field(
        default=None,
        description="How far after the next row of its batch the newest one or two may lie that "
        "are newer than all before; three confirm each other. Without it any jump is taken",
    )
    accept_early_close: bool = Field(
        default=False,
        description="Allows max_future above the watermark's delay, so that an accepted event "
        "can close windows early",
    )

    @model_validator(mode="after")
    def _zone_has_an_effect(self) -> Self:
        if self.zone is not None and self.format in event_time_formats.EPOCHS:
            raise ValueError(f"zone has no effect with {self.format}: epochs count from UTC")
        if self.zone is not None and self.format == event_time_formats.RFC_1123:
            raise ValueError(f"zone has no effect with {self.format}: its text tells the zone")
        return self


class Unique(_Model):
    """Which rows repeat one that was accepted before; they are rejected as duplicates."""

    by: str = Field(description="The id: a column or a derived name")
    within: PositiveDuration = Field(
        description="Rows of one id repeat each other when their event times are at most this "
        "far apart, before or after"
    )


class RowRule(_Model):
    """A rule for rows: those for which its condition is true are rejected by its name, or accepted
    and counted under it."""

    name: Annotated[str, Field(min_length=1, max_length=100), checked(_check_rule_name)] = Field(
        description="What rejects have as their reason, or counts are told by"
    )
    reject: Expression | None = None
    count: Expression | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.reject is None) == (self.count is None):
            raise ValueError("needs exactly one of reject, count")
        return self

    @property
    def condition(self) -> str:
        return str(self.count if self.reject is None else self.reject)

    @property
    def label(self) -> str:
        """For people."""
        act = "count" if self.reject is None else "reject"
        return f"{self.name} ({act}: {self.condition})"


class When(_Model):
    """Which records of the source are this pipeline's, by the text of one of their fields."""

    field: _FieldPath = Field(
        description="The source's field; dots lead into objects, names with dots are a list"
    )
    texts: _Texts = Field(
        alias="in",
        min_length=1,
        description='What it holds then: [click, view]; of a number or boolean its text, ["1"]',
    )

    @property
    def label(self) -> str:
        """For people."""
        return f"{'.'.join(self.field)} in {', '.join(map(repr, self.texts))}"


class Source(_Model, ABC):
    """What an accepted row looks like; where rows come from is for each kind to add."""

    when: When | None = Field(
        default=None,
        description="Which records are this pipeline's; the others are counted, and no rejects. "
        "Without it all are",
    )
    explode: _FieldPath | None = Field(
        default=None,
        description="A field that is an array: each of its elements becomes a row, in which it "
        "stands in the array's place",
    )
    columns: dict[ColumnName, Column] = Field(min_length=1)
    event_time: EventTime
    unique: Unique | None = Field(
        default=None,
        description="Rejects rows that repeat an accepted one; without it every row counts",
    )
    derive: dict[ColumnName, Expression] = Field(
        default_factory=dict,
        description="Columns computed row by row before bronze, from the source's columns and "
        "from those derived above",
    )
    rules: Annotated[tuple[RowRule, ...], Field(strict=False)] = Field(
        default=(),
        description="Conditions on rows, over columns and derived ones, asked in this order: "
        "`reject` those for which one is true, or `count` them. Null is not true",
    )
    unknown_fields: Literal["keep", "ignore", "reject"] = Field(
        default="keep", description="Fields that are no column: kept in _extra, ignored, rejected"
    )
    nulls: _Texts = Field(
        default=(), description="Texts that are null, of each column of one value: [NA, nil]"
    )
    checks: Annotated[tuple[SourceCheck, ...], Field(strict=False)] = Field(
        default=(), description="What a run's rows have to fulfil before it is published"
    )

    # Columns that bronze always has of this kind, and that expressions may name, with their types.
    place_types: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @model_validator(mode="after")
    def _of_fields_of_their_own(self) -> Self:
        paths = {name: column.path(name) for name, column in self.columns.items()}
        # The first column of each path.
        owners = {path: name for name, path in reversed(paths.items())}
        for name, path in paths.items():
            for length in range(1, len(path) + 1):
                owner = owners.get(path[:length], name)
                if owner != name:
                    shared = ".".join(path[:length])
                    raise ValueError(
                        f"`{owner}` and `{name}` are both read from the field `{shared}`: read it "
                        "once, and `derive` the other column from it"
                    )
        return self

    @model_validator(mode="after")
    def _when_is_no_unknown_field(self) -> Self:
        if self.when is not None and self.unknown_fields == "reject":
            path = self.when.field
            taken = [column.path(name) for name, column in self.columns.items()]
            if not any(path[: len(one)] == one for one in taken):
                raise ValueError(
                    f"`when` asks for the field `{'.'.join(path)}`, which is no column, and "
                    "`unknown_fields: reject` rejects each row that has it: declare a column"
                )
        return self

    @property
    @abstractmethod
    def label(self) -> str:
        """Where rows come from, as the file says it."""

    @property
    def followed_key(self) -> tuple[str, ...]:
        """The columns by which rows of bronze are found that the source changed; none: it only
        grows."""
        return ()

    @property
    def named_place(self) -> str | None:
        """The place that the file names, below the root or a URI; None where it names none."""
        return None


class CsvFormat(_Model):
    """How CSV files are written."""

    delimiter: str = Field(
        default=",", min_length=1, max_length=1, description="What stands between two fields"
    )
    header: bool = Field(
        default=True,
        description="Does the first record name the fields? false: they are the columns, in their "
        "order",
    )
    quote: str = Field(
        default='"', max_length=1, description='What a field may stand between; "": nothing does'
    )
    escape: str = Field(
        default="",
        max_length=1,
        description="What stands before a quote within quotes; without it the quote is doubled",
    )
    encoding: Annotated[str, checked(_check_encoding)] = Field(
        default="utf-8", description="utf-8, utf-16, iso-8859-1, windows-1252 …"
    )
    nulls: _Texts = Field(
        default=("",), description="Texts that are null where they stand without quotes"
    )
    decimal: Literal[".", ","] = Field(default=".", description="The point of numbers")
    comment: str = Field(
        default="", max_length=1, description="A line that begins with it is no record"
    )

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        signs = [self.delimiter, self.quote, self.escape, self.comment]
        used = [one for one in signs if one]
        if len(set(used)) < len(used):
            raise ValueError("delimiter, quote, escape and comment have to differ")
        if any(one in "\r\n" or not one.isascii() for one in used):
            raise ValueError("delimiter, quote, escape and comment are ASCII, and no end of a line")
        if self.decimal == self.delimiter:
            raise ValueError("the point of numbers is the delimiter")
        return self


class CsvFormatOptions(_Model):
    """Files of comma-separated values, and how they are written."""

    csv: CsvFormat


FileFormat = Literal["json_lines", "json_document", "csv", "parquet", "avro"]


class FilesSource(Source):
    """Where rows come from and what an accepted row looks like."""

    files: Annotated[str, checked(split_files)] = Field(
        description="Files below the root, or an absolute URI that the settings list under "
        "`sources`: FOLDER/NAME-PATTERN, or FOLDER/**/NAME-PATTERN for all folders below"
    )
    format: FileFormat | CsvFormatOptions | None = Field(
        default=None,
        description="What is in them; without it .csv, .tsv, .parquet and .avro are what they "
        "say, all others JSON lines",
    )

    @model_validator(mode="after")
    def _fields_are_values(self) -> Self:
        # A pattern may end as `*.csv*`.
        name = plain_name(self.files.rstrip("*.")).lower()
        named = self.format is None and name.endswith((".csv", ".tsv"))
        if self.format != "csv" and not isinstance(self.format, CsvFormatOptions) and not named:
            return self
        paths = [(name, column.path(name)) for name, column in self.columns.items()]
        asked = [] if self.when is None else [("when", self.when.field)]
        for name, path in [*paths, *asked]:
            if len(path) > 1:
                raise ValueError(
                    f"`{name}` has a field within others, and fields of CSV have none within them: "
                    f"a name that holds dots is written as a list, `field: [{'.'.join(path)}]`"
                )
        has_header = not isinstance(self.format, CsvFormatOptions) or self.format.csv.header
        for _, path in asked:
            if not has_header and path not in dict(paths).values():
                raise ValueError(
                    f"`when` asks for the field `{path[0]}`, which is no column, and files without "
                    "a header have no other fields: declare a column"
                )
        if self.explode is not None:
            raise ValueError("`explode` takes an array apart, and a field of CSV is one value")
        for name, column in self.columns.items():
            if re.match("(array|map|struct)<", column.type):
                raise ValueError(
                    f"`{name}` is {column.type}, and a field of CSV is one value: declare it as "
                    "string, and take it apart in `derive`"
                )
        return self

    @property
    def label(self) -> str:
        return self.files

    @property
    def named_place(self) -> str:
        return self.files


_KafkaKey = Annotated[tuple[KafkaColumnName, ...], Field(min_length=2, strict=False)]


class KafkaTopics(_Model):
    """Which topics of which cluster, and how they are read."""

    topic: TopicName | None = Field(default=None, description="One topic")
    topics: Annotated[tuple[TopicName, ...], Field(strict=False)] = Field(
        default=(), description="Several topics"
    )
    pattern: Annotated[str, checked(kafka_columns.check_pattern)] | None = Field(
        default=None,
        description="All topics whose whole name matches this regular expression, those that come "
        "later too",
    )
    connection: str = Field(description="Its name among the settings' `connections`")
    starting: Annotated[
        str | dict[TopicName, dict[_Partition, _Offset]],
        checked(kafka_columns.check_starting),
        BeforeValidator(kafka_columns.with_numbers),
    ] = Field(
        default="earliest",
        description="Where the first run begins: earliest, latest, a time (2026-07-01T00:00:00Z), "
        "or an offset for each partition of each topic. New partitions are read from their "
        "beginning",
    )
    isolation: Literal["read_committed", "read_uncommitted"] = Field(
        default="read_committed",
        description="read_uncommitted takes messages of transactions that were aborted, too",
    )
    offsets_without_record: Literal["count", "refuse"] = Field(
        default="count",
        description="Offsets that no message has: compaction and transactions leave them. refuse: "
        "a run stops at one",
    )
    max_message_bytes: int = Field(
        default=16 * 1024 * 1024, ge=1, description="Larger messages are rejected"
    )
    changes: Literal["upsert", "debezium"] | None = Field(
        default=None,
        description="A message is the newest state of the row that its key names, and one without "
        "a value deletes that row (upsert); or it is a change event of Debezium",
    )
    key: KafkaColumnName | _KafkaKey | None = Field(
        default=None,
        description="With `changes`: the column that tells rows apart, as the message's key has "
        "it; or several that do together",
    )

    @model_validator(mode="after")
    def _names_topics_once(self) -> Self:
        said = [name for name in ("topic", "topics", "pattern") if getattr(self, name)]
        if len(said) != 1:
            raise ValueError("says one of `topic`, `topics` and `pattern`")
        if len(set(self.topics)) < len(self.topics):
            raise ValueError("names a topic twice")
        if isinstance(self.starting, dict) and self.pattern:
            raise ValueError("`starting` cannot name offsets of a pattern's topics")
        if isinstance(self.starting, dict) and set(self.starting) != set(self.named):
            raise ValueError("`starting` has to name the offsets of the topics that are read")
        if (self.changes is None) != (self.key is None):
            raise ValueError("`changes` and `key` go together")
        if self.changes and self.topic is None:
            raise ValueError("`changes` goes with one `topic`: its offsets say what is newer")
        return self

    @property
    def named(self) -> tuple[str, ...]:
        """The topics; none where they are told by a pattern."""
        return (self.topic,) if self.topic else self.topics

    @property
    def label(self) -> str:
        return self.pattern or ", ".join(self.named)


def _names_of(key: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else key or ()


ValueFormat = Literal["json", "text", "avro", "protobuf", "json_schema"]
# Of these a value in the source and the one in bronze are one text.
_TYPES_OF_KEYS = ("string", "int", "long")


def _check_followed(source: Source, follows: str) -> None:
    """ValueError where rows of bronze could not be found by their key of rows that change."""
    if len(set(source.followed_key)) < len(source.followed_key):
        raise ValueError(f"the key of `{follows}` names a column twice")
    for key in source.followed_key:
        column = source.columns.get(key)
        if column is None or column.nullable or column.type not in _TYPES_OF_KEYS:
            raise ValueError(
                f"`{key}`, the key of `{follows}`, has to be a column of type "
                f"{', '.join(_TYPES_OF_KEYS)}, and `not null`"
            )
        if column.trim or column.from_text:
            raise ValueError(
                f"`{key}`, the key, has to be a column as the source has it: without `trim` or "
                "`from_text`"
            )
    if source.unique is not None:
        raise ValueError(f"`{follows}` has its `key`, and goes with no `unique`")
    if source.when is not None or source.explode is not None:
        raise ValueError(
            f"`{follows}` finds a row of bronze for a row of the source, and goes with no `when` "
            "or `explode`"
        )


class KafkaSource(Source):
    """Messages of topics, whose values are one JSON object each, or come to one."""

    columns: dict[KafkaColumnName, Column] = Field(
        min_length=1,
        description="Fields of the value, and of the message: `_key: string`, "
        f"`_kafka_time: timestamp`, `_headers: {kafka_columns.HEADERS_TYPE}`",
    )
    kafka: KafkaTopics
    format: ValueFormat = Field(
        default="json",
        description="What values are: json; text, whose one field is `value`; avro, protobuf and "
        "json_schema as serializers of the connection's schema registry write them",
    )
    key_format: ValueFormat = Field(
        default="text",
        description="What keys are: text; or of any type, and with fields (`{field: _key.id}`), "
        "as json, avro, protobuf or json_schema",
    )

    place_types = MappingProxyType(kafka_columns.PLACE_TYPES)

    @model_validator(mode="after")
    def _columns_of_the_message(self) -> Self:
        with_fields = set() if self.key_format == "text" else {kafka_columns.KEY}
        own = kafka_columns.TYPES.keys()
        firsts = {name: column.path(name)[0] for name, column in self.columns.items()}
        if with_fields - set(firsts.values()) and self.kafka.changes != "debezium":
            raise ValueError("key_format: no column is made of `_key`")
        kafka_columns.check_types(
            {name: one.type for name, one in self.columns.items() if name in own - with_fields}
        )
        for name, column in self.columns.items():
            of_message = {firsts[name], name} & own
            if of_message - with_fields and column.path(name) != (name,):
                raise ValueError(f"`{name}`: what is the message's own is declared without a field")
        time = self.event_time
        if time.column == kafka_columns.TIME and (time.format != "iso8601" or time.zone):
            raise ValueError(f"event_time: {kafka_columns.TIME} needs no format and no zone")
        if self.kafka.changes:
            self._check_changes(self.kafka.changes)
        return self

    def _check_changes(self, changes: str) -> None:
        _check_followed(self, f"changes: {changes}")
        if self.format in ("text", "protobuf") or self.key_format == "protobuf":
            raise ValueError(
                f"`changes: {changes}` takes values of the formats json, avro and json_schema, and "
                "keys of these or of text"
            )
        for key in self.followed_key:
            path = self.columns[key].path(key)
            if changes == "upsert" and path[0] != kafka_columns.KEY:
                raise ValueError(
                    f"`{key}`, the key of `changes: upsert`, has to come of the message's key, "
                    "which a message without a value has too: `_key`, or with `key_format: json` "
                    "a `field` of it, as in `{type: long not null, field: _key.id}`"
                )
            if changes == "debezium" and (len(path) > 1 or path[0] in kafka_columns.TYPES):
                raise ValueError(
                    f"`{key}`, the key of `changes: debezium`, has to be a field of the row "
                    "itself, which Debezium's keys have too"
                )

    @property
    def label(self) -> str:
        return f"kafka: {self.kafka.label}"

    @property
    def followed_key(self) -> tuple[str, ...]:
        return _names_of(self.kafka.key)


_DeltaKey = Annotated[tuple[ColumnName, ...], Field(min_length=2, strict=False)]


class DeltaTableSource(_Model):
    """Which table, and how it is read."""

    table: str = Field(
        min_length=1,
        description="The folder of a Delta table, below the root, or an absolute URI that the "
        "settings list under `sources`",
    )
    starting: Literal["earliest", "latest"] | Annotated[int, Field(ge=0)] = Field(
        default="earliest",
        description="Where the first run begins: earliest, latest, or with a version of the table",
    )
    changes: Literal["stop", "skip", "follow"] = Field(
        default="stop",
        description="What becomes of a version that deletes or changes rows: stop there until it "
        "is accepted, skip it with a reject that tells so, or follow it: rows that went leave "
        "bronze, and new ones come",
    )
    key: ColumnName | _DeltaKey | None = Field(
        default=None,
        description="With `changes: follow`: the column whose value no other row of the table has; "
        "or several whose values none has together",
    )


class DeltaSource(Source):
    """Rows that others append to a Delta table."""

    delta: DeltaTableSource

    place_types = MappingProxyType(delta_columns.PLACE_TYPES)

    @model_validator(mode="after")
    def _can_be_followed(self) -> Self:
        if (self.delta.changes == "follow") != (self.delta.key is not None):
            raise ValueError("`changes: follow` and `key` go together, under `delta`")
        if self.delta.key is None:
            return self
        _check_followed(self, "changes: follow")
        for key in self.followed_key:
            if len(self.columns[key].path(key)) > 1:
                raise ValueError(
                    f"`{key}`, the key, has to be a column of the table, and no `field` within "
                    "another"
                )
        if self.delta.starting != "earliest":
            raise ValueError("`changes: follow` begins with what the table holds: no `starting`")
        return self

    @property
    def label(self) -> str:
        return f"delta: {self.delta.table}"

    @property
    def followed_key(self) -> tuple[str, ...]:
        return _names_of(self.delta.key)

    @property
    def named_place(self) -> str:
        return self.delta.table


class FirstMessages(KafkaSource):
    """What `tidemark try` reads of topics, below the root of the trial alone: of each partition
    what lies before an offset."""

    below: str
    first_messages: Annotated[
        dict[TopicName, dict[int, int]], BeforeValidator(kafka_columns.with_numbers)
    ]


class FirstTableRows(DeltaSource):
    """What `tidemark try` reads of a table, below the root of the trial alone: so many rows of each
    of these files, which are named as parts of the source."""

    below: str
    first_table_rows: dict[str, int]


# The kinds of sources, each by a key that it has.
SOURCE_KINDS: dict[str, type[Source]] = {
    "files": FilesSource,
    "kafka": KafkaSource,
    "delta": DeltaSource,
    "first_messages": FirstMessages,
    "first_table_rows": FirstTableRows,
}
AnySource = FilesSource | KafkaSource | DeltaSource


def source_kind(content: object) -> type[Source]:
    """The kind of a source, by its key; files where it has none, so that this key is asked for. Of
    several keys the one of a kind within another kind, else the first."""
    keys = content if isinstance(content, dict) else {}
    found = [SOURCE_KINDS[key] for key in keys if key in SOURCE_KINDS]
    return max(found, key=lambda kind: len(kind.__mro__), default=FilesSource)


def _of_its_kind(kind_of: Callable[[object], type[BaseModel]], kinds: Any) -> BeforeValidator:
    """Makes a mapping a model of the kind that it is of; a schema has all these kinds."""

    def validated(value: object, info: ValidationInfo) -> object:
        if not isinstance(value, dict):
            return value
        if info.mode == "json":
            # Strict models read more from JSON than from values: a time, a tuple.
            return kind_of(value).model_validate_json(json.dumps(value))
        return kind_of(value).model_validate(value)

    return BeforeValidator(validated, json_schema_input_type=kinds)


_SourceOfItsKind = Annotated[SerializeAsAny[Source], _of_its_kind(source_kind, AnySource)]


class Watermark(_Model):
    """How long windows wait for late rows, and for rows at all."""

    delay: PositiveDuration = Field(
        description="How far the watermark stays behind the newest event time"
    )
    seal_after_idle: PositiveDuration | None = Field(
        default=None,
        description="Closes the last windows of a source that brought no row for this long; "
        "without it they stay open until newer rows come",
    )


class Window(_Model):
    """Event-time windows; with a slide shorter than the length a row is in several."""

    length: PositiveDuration
    slide: PositiveDuration = Field(
        default=timedelta(0), description="From one window's start to the next; default: length"
    )
    offset: Duration = Field(
        default=timedelta(0),
        description="How long after multiples of the slide since 1970-01-01 UTC windows start: "
        "30 minutes, for hours of India",
    )

    @model_validator(mode="after")
    def _slide_fits(self) -> Self:
        if "slide" not in self.model_fields_set:
            object.__setattr__(self, "slide", self.length)
        if self.slide > self.length:
            raise ValueError("slide is longer than length: rows between windows would be lost")
        if self.offset >= self.slide:
            raise ValueError("offset is not shorter than the slide: say what is left of it")
        return self


# How the comment of gold's `rows` begins, where some of bronze's count.
COUNTED = "where "


# What a view's rows have beside gold's columns, where it has `top`.
RANK = "rank"


class Top(_Model):
    """The first rows of each window, in the order of a column; the keys decide between equals."""

    n: int = Field(ge=1, le=2**31 - 1, description="How many rows of each window")
    by: ColumnName = Field(description="A column of gold: a measure, `rows`, a key")
    order: Literal["descending", "ascending"] = Field(
        default="descending", description="Which values come first; null comes last in either"
    )


class View(_Model):
    """Those rows of a table's gold that a report shows, in a Delta table of their own."""

    description: str | None = Field(default=None, description="Becomes the view's comment")
    having: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="Which rows of gold: `flights >= 10`; a row for which it is null is none",
    )
    top: Top | None = Field(
        default=None, description="How many of these rows of each window; they get a `rank`"
    )

    @model_validator(mode="after")
    def _leaves_something_out(self) -> Self:
        if self.having is None and self.top is None:
            raise ValueError("says `having`, `top` or both: else it is gold")
        return self


class Table(_Model, ABC):
    """What the tables of a pipeline have in common, whichever operator makes their rows."""

    description: str | None = Field(default=None, description="Becomes the table's comment")
    where: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="Which rows of bronze count for the table: `not cancelled and amount > 0`. "
        "Null does not; without it all count",
    )
    group_by: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(), description="Columns or derived names; null is a key like any other"
    )
    measures: dict[ColumnName, Expression] = Field(
        default_factory=dict,
        description="Aggregates by name: count(*), sum(bytes) …; outside of an aggregate a name is "
        "the measure above that has it: share: errors / requests",
    )
    output_mode: Literal["update", "append", "complete"] = Field(
        default="update",
        description="What the query emits: update: windows that changed; append: windows once "
        "they close; complete: all windows, so that its state grows for ever",
    )
    stream: Literal["engine", "recompute"] = Field(
        default="engine",
        description="Who computes the rows: engine: the query, which keeps all that is open in its "
        "state; recompute: each run from bronze, in append mode what closes, in update mode what "
        "new rows touch, and the query keeps no state. Recompute by itself where a measure keeps "
        "all values of a window: DISTINCT, mode, collect_list …",
    )
    accept_unbounded_state: bool = Field(
        default=False,
        description="Allows `output_mode: complete`, whose state is never evicted",
    )
    checks: Annotated[tuple[Check, ...], Field(strict=False)] = Field(
        default=(), description="What each changed row has to fulfil before a run is published"
    )
    views: dict[ViewName, View] = Field(
        default_factory=dict,
        description="Rows of gold that a report shows, each view in a Delta table of its own",
    )
    renamed_from: dict[ColumnName, ColumnName] = Field(
        default_factory=dict,
        description="What keys and measures were called in the generation before, by their names; "
        "read when the table is migrated",
    )

    @model_validator(mode="after")
    def _renamed_columns_are_there(self) -> Self:
        named = {*self.keys, *self.measures}
        if missing := sorted(set(self.renamed_from) - named):
            raise ValueError(f"renamed_from: {missing[0]} is no key and no measure")
        former = list(self.renamed_from.values())
        if twice := sorted({name for name in former if former.count(name) > 1}):
            raise ValueError(f"renamed_from: {twice[0]} cannot become two columns")
        taken = {name for name in named if name not in self.renamed_from}
        if both := sorted(taken & set(former)):
            raise ValueError(f"renamed_from: {both[0]} is still a column of the table")
        return self

    @model_validator(mode="after")
    def _from_bronze_without_bound(self) -> Self:
        # Not as if the file said it: without the measure it is the engine's again.
        if "stream" not in self.model_fields_set and self.unbounded is not None:
            object.__setattr__(self, "stream", "recompute")
        return self

    # Modes that this kind cannot have, each with the reason.
    impossible_modes: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @field_validator("output_mode", mode="before")
    @classmethod
    def _possible_mode(cls, value: object) -> object:
        if isinstance(value, str) and (why := cls.impossible_modes.get(value)):
            raise ValueError(f"is not possible for {why}")
        return value

    # The only state store that the engine has for this kind; None where it leaves the choice.
    state_store: ClassVar[StateStore | None] = None

    @property
    def keys(self) -> tuple[str, ...]:
        """What gold calls the keys: that of a lookup, `airlines.name`, is `airlines_name`. No other
        name has a dot."""
        return tuple(key.replace(".", "_") for key in self.group_by)

    @property
    @abstractmethod
    def rows_are(self) -> str:
        """What a row of the table is made of, for people."""

    @property
    def comments(self) -> dict[str, str]:
        """What columns of gold say of themselves: where a contract is gone, these tell of it."""
        counted = {} if self.where is None else {"rows": f"{COUNTED}{self.where}"}
        return {**self.measures, **counted}

    @property
    def unbounded(self) -> str | None:
        """The first measure that keeps all values of a window; None where each is bounded."""
        return next((name for name, sql in self.measures.items() if keeps_no_bound(sql)), None)

    @property
    def recomputes(self) -> bool:
        """Is all of it computed from bronze, and nothing emitted by its query?"""
        return self.stream == "recompute"

    @property
    def recomputes_open(self) -> bool:
        """Is what is open computed from bronze, too, as new rows touch it?"""
        return self.recomputes and self.output_mode == "update"

    @property
    def columns_told(self) -> dict[str, str]:
        """What a row says beside its start and its keys, for people: each with what makes it."""
        return dict(self.measures)

    @property
    def names_expectations(self) -> bool:
        """Do its checks need Great Expectations?"""
        return any(isinstance(check.asked, dict) for check in self.checks)


class WindowTable(Table):
    """One windowed aggregate of the source."""

    window: Window

    @property
    def rows_are(self) -> str:
        length, slide = duration_text(self.window.length), duration_text(self.window.slide)
        every = length if length == slide else f"{length}, every {slide}"
        offset = self.window.offset
        return f"{every}, offset {duration_text(offset)}" if offset else every


Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]


class CalendarWindow(_Model):
    """Days, weeks, months, quarters or years of a time zone."""

    calendar: Literal["day", "week", "month", "quarter", "year"] = Field(
        default="day", description="What a window is, from midnight to midnight of the zone"
    )
    length: Literal["1 day"] | None = Field(
        default=None, description="Beside a zone another way to say `calendar: day`"
    )
    zone: Annotated[str, checked(event_time_formats.check_zone)] = Field(
        description="As in Europe/Vienna, of the IANA database"
    )
    starts: Weekday = Field(default="monday", description="The first day of a week")

    @model_validator(mode="after")
    def _says_one_length(self) -> Self:
        if self.length is not None and self.calendar != "day":
            raise ValueError("says one of `calendar` and `length`")
        if self.starts != "monday" and self.calendar != "week":
            raise ValueError("`starts` is the first day of `calendar: week`")
        return self


# No window of a calendar is longer: a clock is set back by less than a day.
LONGEST_DAYS = {"day": 2, "week": 8, "month": 32, "quarter": 93, "year": 367}
# Gold's column of such a table: the first day of the window, there.
LOCAL_DATE = "local_date"


class CalendarTable(Table):
    """One aggregate of the source over days, weeks, months, quarters or years of a zone."""

    window: CalendarWindow
    output_mode: Literal["update", "append"] = Field(
        default="update",
        description="What gold shows: update: windows from their first row on; append: a window "
        "once, when it is closed",
    )
    stream: Literal["recompute"] = Field(
        default="recompute",
        description="recompute: each run computes from bronze what new rows touch, or what closes. "
        "Spark's streams know no windows whose lengths differ",
    )

    @property
    def rows_are(self) -> str:
        week = f", from {self.window.starts}" if self.window.calendar == "week" else ""
        return f"{self.window.calendar}s of {self.window.zone}{week}"


class GappedTable(Table, ABC):
    """A table over stretches of a key's rows: those that lie no further apart than a gap, whatever
    the length of all of them."""

    # Why it needs keys.
    needs_keys: ClassVar[str]

    @model_validator(mode="after")
    def _has_keys(self) -> Self:
        if not self.group_by:
            raise ValueError(self.needs_keys)
        return self

    @property
    @abstractmethod
    def gap(self) -> timedelta:
        """How far apart two rows of a stretch lie at most."""


class Session(_Model):
    """Rows of a key that lie no further apart than a gap, whatever the length of all of them."""

    session: PositiveDuration = Field(
        description="The gap: rows of a key that lie at most this far apart are one session"
    )


class SessionTable(GappedTable):
    """One aggregate over the sessions of each key."""

    window: Session
    output_mode: Literal["append", "complete"] = Field(
        default="append",
        description="What the query emits: append: a session once, when the watermark has passed "
        "its end; complete: all sessions, so that its state grows for ever",
    )

    impossible_modes = MappingProxyType(
        {"update": "sessions: Spark emits them in append or complete mode only"}
    )

    needs_keys = "sessions need `group_by`: Spark computes none over a stream as a whole"

    @property
    def gap(self) -> timedelta:
        return self.window.session

    @property
    def rows_are(self) -> str:
        return f"sessions, gap {duration_text(self.window.session)}"


# State and what a late row touches grow with it; and times of the years that there are stay times.
LONGEST_RANGE = timedelta(days=3_650)


class Range(_TextOrMapping):
    """From how long before a row's time to how long after it the other row's time may lie."""

    text_examples = ("1 hour", "30 minutes")

    before: Duration = timedelta(0)
    after: Duration = timedelta(0)

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        return {"after": value} if isinstance(value, str | timedelta) else value

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if not self.before and not self.after:
            raise ValueError("must be longer than zero, before or after")
        if max(self.before, self.after) > LONGEST_RANGE:
            raise ValueError(f"is longer than {duration_text(LONGEST_RANGE)}")
        return self

    def __str__(self) -> str:
        parts = [
            f"{duration_text(length)} {side}"
            for side, length in (("before", self.before), ("after", self.after))
            if length
        ]
        return ", ".join(parts)


def _equal_columns(value: object) -> object:
    """Columns of one name on both sides as the mapping that they are short for."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not all(isinstance(key, str) for key in listed):
        return value
    if len(set(listed)) < len(listed):
        raise ValueError("names a column twice")
    return {key: key for key in listed}


_EqualColumns = Annotated[
    dict[ColumnName, ColumnName], Field(min_length=1), BeforeValidator(_equal_columns)
]


class Join(_Model):
    """Which rows of another pipeline's bronze match a row of this one's."""

    other: str = Field(alias="with", description="The other pipeline, by its name")
    on: _EqualColumns = Field(
        description="Columns that are equal: their names where both pipelines call them so, or a "
        "mapping of this pipeline's name to the other's. Null equals nothing",
    )
    within: Range = Field(
        description="How long after this row's time the other row's may lie, or a mapping of "
        "`before` and `after`",
    )
    type: Literal["inner", "left"] = Field(
        default="inner",
        description="inner: rows that match; left: also this pipeline's rows that match none",
    )


class JoinTable(WindowTable):
    """One windowed aggregate of the source's rows with the matching ones of another pipeline."""

    join: Join
    output_mode: Literal["append"] = Field(
        default="append",
        description="What the query emits: windows once they close, which is all that Spark can do "
        "behind a left join",
    )

    impossible_modes = MappingProxyType(
        {
            "update": "joins: behind a left join Spark emits in append mode only (LeftOuter join … "
            "is not supported in Update output mode), and Tidemark does the same behind an inner "
            "one",
            "complete": "joins: Spark joins streams in append mode only, or in update mode where "
            "the join is an inner one",
        }
    )

    @property
    def rows_are(self) -> str:
        return f"{super().rows_are}, joined with {self.join.other} within {self.join.within}"


class Partner(_Model):
    """What a pipeline's joins have to know of the other pipeline: filled in from its file."""

    source: _SourceOfItsKind
    watermark: Watermark


class Fold(_Model):
    """A Python class that folds a key's rows in the order of their event times."""

    python: Annotated[str, checked(split_python)] = Field(
        description="FILE:Class; the file lies below the folder of the pipelines' files"
    )
    timeout: PositiveDuration = Field(
        description="Rows of a key that lie at most this far apart are one episode; after it the "
        "state starts anew"
    )
    order_by: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(),
        description="Columns by which rows of one event time are ordered, before all others",
    )
    emits: dict[ColumnName, Annotated[str, AfterValidator(emitted_type)]] = Field(
        min_length=1, description="What an output has, as columns with their types"
    )


class FoldTable(GappedTable):
    """What a fold of each key's rows puts out."""

    # Timers are in it alone.
    state_store: ClassVar[StateStore | None] = "rocksdb"

    fold: Fold
    measures: dict[ColumnName, Expression] = Field(
        default_factory=dict, max_length=0, description="None: a fold has `emits`"
    )
    output_mode: Literal["append"] = Field(
        default="append", description="append: an output once no row in time can change it"
    )
    # The class's module and those beside it that it imports, each by its path below the pipelines'
    # folder. Loading a file reads them; the file does not say them.
    code: SkipJsonSchema[dict[str, str]] = Field(default_factory=dict)

    @field_validator("measures", mode="before")
    @classmethod
    def _has_no_measures(cls, value: object) -> object:
        if value:
            raise ValueError("are not for folds: what the class puts out stands in `fold.emits`")
        return value

    impossible_modes = MappingProxyType(
        dict.fromkeys(
            ("update", "complete"),
            "folds: an output is emitted once, when the watermark has passed the row that made it; "
            "choose append, or leave it out",
        )
    )

    needs_keys = "folds need `group_by`: Spark keeps state by key"

    @property
    def gap(self) -> timedelta:
        return self.fold.timeout

    @property
    def columns_told(self) -> dict[str, str]:
        return {"number": "its place in the episode", **self.fold.emits}

    @property
    def rows_are(self) -> str:
        return f"outputs of {self.fold.python}, episodes {duration_text(self.gap)} apart"


AnyTable = WindowTable | CalendarTable | SessionTable | JoinTable | FoldTable

# The kinds of tables that have a key which no other has; the others are told by their `window`.
TABLE_KINDS: dict[str, type[Table]] = {"join": JoinTable, "fold": FoldTable}
# Those whose `window` has such a key.
WINDOW_KINDS: dict[str, type[Table]] = {
    "session": SessionTable,
    "calendar": CalendarTable,
    "zone": CalendarTable,
}


def table_kind(content: object) -> type[Table]:
    """The kind of a table, by what its file says of it; windows where it says nothing that another
    kind has, so that these are asked for."""
    keys = content if isinstance(content, dict) else {}
    for key in keys:
        if key in TABLE_KINDS:
            return TABLE_KINDS[key]
    window = keys.get("window")
    said = window if isinstance(window, dict) else {}
    return next((WINDOW_KINDS[key] for key in said if key in WINDOW_KINDS), WindowTable)


# How names of files end that have one JSON object in each line, and how all of lookups do.
JSON_LINES_FILES = (".json", ".jsonl", ".ndjson")
LOOKUP_FILES = (".csv", ".parquet", *JSON_LINES_FILES)


class Lookup(_Model):
    """A table that others keep, such as one of names or prices: tables of the pipeline have its
    columns beside bronze's, of each row those that its keys find."""

    table: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="The folder of a Delta table, below the root, or an absolute URI that the "
        "settings list under `sources`",
    )
    file: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="Or a file there, which is read as its name ends: .csv, .parquet; .json, "
        ".jsonl and .ndjson have one object in each line",
    )
    on: _EqualColumns = Field(
        description="Columns that are equal: their names where both sides call them so, or a "
        "mapping of the source's name to the lookup's. Null equals nothing",
    )
    columns: dict[ColumnName, str] = Field(
        min_length=1, description="Those that are named, with their types: `name: string`"
    )
    as_of: Annotated[tuple[str, ...], Field(strict=False, max_length=2)] = Field(
        default=(),
        description="The column from whose time on a row holds, and that up to whose time: each "
        "event finds the row of its own time. Without the second a row holds up to the next one of "
        "its keys. Without both there is one row for each key",
    )
    on_missing: Literal["leave_out"] | None = Field(
        default=None,
        description="What becomes of a row whose keys find none: null columns, or leave_out: it "
        "does not count for the table",
    )

    @field_validator("as_of", mode="before")
    @classmethod
    def _one_column(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @field_validator("columns")
    @classmethod
    def _of_one_value(cls, value: dict[str, str]) -> dict[str, str]:
        found = {}
        for name, text in value.items():
            parsed = parse_type(text)
            if not parsed.nullable:
                raise ValueError(f"`{name}` is `not null`; it is null where keys find no row")
            if re.match("(array|map|struct)<", parsed.type):
                raise ValueError(f"`{name}` is {parsed.type}; lookups have columns of one value")
            found[name] = parsed.type
        return found

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.table is None) == (self.file is None):
            raise ValueError("needs exactly one of table, file")
        if self.file is not None and not self.file.lower().endswith(LOOKUP_FILES):
            raise ValueError(f"`file` is read as its name ends, in {' or '.join(LOOKUP_FILES)}")
        if self.file is not None and has_pattern(self.file):
            raise ValueError("`file` is one file: its name has a character of patterns")
        if len(set(map(names.folded, self.columns))) < len(self.columns):
            raise ValueError("`columns` has two names that are one to Spark")
        for name in self.as_of:
            if self.columns.get(name) not in ("date", "timestamp"):
                raise ValueError(
                    f"`as_of` names `{name}`, which is no date or timestamp of columns"
                )
        if len(set(self.as_of)) < len(self.as_of):
            raise ValueError("`as_of` names a column twice")
        return self

    @property
    def place(self) -> str:
        """Where it lies, below the root or a URI."""
        return str(self.file if self.table is None else self.table)

    def column(self, name: str) -> str | None:
        """The column that Spark finds by a name."""
        return next((one for one in self.columns if names.same_column(name, one)), None)


class StateLimits(_Model):
    """How much of a query's state a start may have to replay before a compaction is due; from
    twice a limit on it is overdue. A compaction writes a new snapshot of each partition."""

    max_changes: int = Field(
        default=50,
        ge=1,
        description="Deltas or changelogs after the newest snapshot, in each partition of a store; "
        "a query that runs for long has a snapshot every 10 "
        "(`spark.sql.streaming.stateStore.minDeltasForSnapshot`)",
    )
    max_bytes: int = Field(
        default=64 * 1024 * 1024,
        ge=1,
        description="Their bytes, in each partition of a store, where they are more than the "
        "snapshot's",
    )
    max_files: int = Field(
        default=10_000,
        ge=1,
        description="Deltas or changelogs of a query in all: 200 partitions with 50 each",
    )


class State(_Model):
    """The state stores of the tables' queries."""

    store: StateStore | None = Field(
        default=None,
        description="Where a query keeps its state while a batch runs: memory, on the JVM's heap, "
        "or rocksdb, on the local disk, for state that the heap does not hold; default: memory. "
        "A checkpoint keeps the one that it began with",
    )
    limits: StateLimits = StateLimits()


class Advanced(_Model):
    """Overrides of defaults that are good for most pipelines."""

    max_files_per_batch: int | None = Field(default=None, ge=1)
    max_bytes_per_batch: int | None = Field(
        default=None,
        ge=1,
        description="Of files, or of a table's files, as they lie; one that is larger is a batch",
    )
    max_messages_per_batch: int | None = Field(
        default=None, ge=1, description="Of a Kafka source, over all partitions"
    )
    shuffle_partitions: int | None = Field(default=None, ge=1)
    keep_batches: int | None = Field(
        default=None,
        ge=1,
        description="How many committed batches of each query its checkpoint can go back to; the "
        "engine keeps 100 (`spark.sql.streaming.minBatchesToRetain`), and the larger number counts",
    )
    state: State = State()
    spark: SparkSettings = Field(default_factory=dict, description="Further settings of Spark")


def lookups_named(
    lookups: Mapping[str, Lookup],
    group_by: Iterable[str],
    where: str | None,
    measures: Mapping[str, str],
) -> dict[str, Lookup]:
    """Those that keys and expressions name columns of, each with these columns alone."""
    expressions = [*measures.values(), *([where] if where else [])]
    named = [tuple(key.split(".")) for key in group_by]
    named += [parts for text in expressions for parts in names_read(text)]
    found = {}
    for name, lookup in lookups.items():
        read = {
            column
            for parts in named
            if len(parts) > 1 and names.same_column(parts[0], name)
            if (column := lookup.column(parts[1]))
        }
        if read:
            kept = {one: kind for one, kind in lookup.columns.items() if one in read}
            found[name] = lookup.model_copy(update={"columns": kept})
    return found


class Pipeline(_Model):
    """One source, one bronze table, one or more aggregates."""

    name: Annotated[str, checked(names.check_folder_name, "pipeline")] = Field(
        description="The file's name without its ending"
    )
    description: str | None = None
    owner: str | None = Field(default=None, description="Airflow's owner of the Dag")
    schedule: Annotated[str, checked(schedules.check_schedule)] | None = Field(
        default=None, description="Five cron fields or a preset such as @hourly; none: by hand"
    )
    source: _SourceOfItsKind
    watermark: Watermark
    keep: PositiveDuration | None = Field(
        default=None,
        description="How long rows are kept, by event time before the batch's time: older rows "
        "are rejected as too old, older windows are frozen; without it they are kept for ever",
    )
    keep_rejects: PositiveDuration | None = Field(
        default=None,
        description="How long rejects are kept, from when they were read: maintenance drops older "
        "ones, for good; without it they are kept for ever",
    )
    tables: dict[
        TableName, Annotated[SerializeAsAny[Table], _of_its_kind(table_kind, AnyTable)]
    ] = Field(min_length=1)
    lookup: dict[LookupName, Lookup] = Field(
        default_factory=dict,
        description="Tables that others keep, by the names under which the tables' `where`, "
        "`group_by` and measures have their columns: airlines.name",
    )
    advanced: Advanced = Advanced()
    # Not in the file: what its joins take from the files of other pipelines, by their names.
    partners: dict[str, Partner] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _limits_of_the_source(self) -> Self:
        if self.keep_rejects and self.source.followed_key:
            raise ValueError(
                "`keep_rejects` goes with no source whose changes are followed: runs would stop at "
                "a change of a row whose reject is gone, which is in no table then. Leave one of "
                "them out"
            )
        if self.keep and self.source.followed_key:
            changes = "follow"
            if isinstance(self.source, KafkaSource) and self.source.kafka.changes:
                changes = self.source.kafka.changes
            raise ValueError(
                f"`keep` goes with no `changes: {changes}`: runs would stop at a change of a row "
                "that `keep` has removed or whose window is frozen, or count it twice. Leave one "
                "of them out"
            )
        if self.advanced.max_bytes_per_batch is None:
            return self
        if isinstance(self.source, KafkaSource):
            raise ValueError(
                "`advanced.max_bytes_per_batch`: offsets of Kafka do not tell bytes; say "
                "`max_messages_per_batch`"
            )
        if isinstance(self.source, FilesSource) and self.advanced.max_files_per_batch is not None:
            raise ValueError(
                "`advanced`: of `max_files_per_batch` and `max_bytes_per_batch` the engine takes "
                "one"
            )
        return self

    @model_validator(mode="after")
    def _with_lookups_is_recomputed(self) -> Self:
        """A query that has read a row never learns that its lookup says something else now."""
        for name, table in self.tables.items():
            if "stream" not in table.model_fields_set and self.lookups_of(name):
                object.__setattr__(table, "stream", "recompute")
        return self

    def lookups_of(self, table: str) -> dict[str, Lookup]:
        """The lookups that a table names columns of, as `lookups_named` has them."""
        if not self.lookup:
            return {}
        of = self.tables[table]
        return lookups_named(self.lookup, of.group_by, of.where, of.measures)

    def content(self) -> dict[str, Any]:
        """What its file says, as plain values: nothing that stands in other files."""
        content = self.model_dump(mode="json", exclude={"name", "partners"}, exclude_unset=True)
        for table in content["tables"].values():
            table.pop("code", None)
        return content

    def without_checks(self) -> Pipeline:
        """The pipeline without its checks and views: all that queries and tables follow from."""
        source = self.source.model_copy(update={"checks": ()})
        return self.model_copy(update={"source": source, "tables": self._with_checks({})})

    def partner(self, name: str) -> Pipeline:
        """The other pipeline of a join, as far as it is known here: its source and watermark."""
        known = self.partners[name]
        table = WindowTable(window=Window(length=timedelta(hours=1)))
        tables: dict[str, Table] = {"none": table}
        return Pipeline(name=name, source=known.source, watermark=known.watermark, tables=tables)

    def as_partner(self) -> Partner:
        """What joins with this pipeline have to know of it."""
        source = self.source.model_copy(update={"checks": ()})
        return Partner(source=source, watermark=self.watermark)

    def with_checks_of(self, other: Pipeline) -> Pipeline:
        """The pipeline with the checks that another content of its file has, and without views."""
        source = self.source.model_copy(update={"checks": other.source.checks})
        checks = {name: table.checks for name, table in other.tables.items()}
        return self.model_copy(update={"source": source, "tables": self._with_checks(checks)})

    def with_process_of(self, other: Pipeline) -> Pipeline:
        """The pipeline with the settings of Spark's process that another content of its file has:
        no query knows of them, and pipelines share a process by them."""
        own = {of: said for of, said in self.advanced.spark.items() if of not in OF_A_PROCESS}
        spark = own | of_the_process(other.advanced.spark)
        return self.model_copy(
            update={"advanced": self.advanced.model_copy(update={"spark": spark})}
        )

    def _with_checks(self, checks: Mapping[str, tuple[Check, ...]]) -> dict[str, Table]:
        return {
            name: table.model_copy(update={"checks": checks.get(name, ()), "views": {}})
            for name, table in self.tables.items()
        }

    @model_validator(mode="after")
    def _max_future_is_the_delay(self) -> Self:
        event_time = self.source.event_time
        if "max_future" not in event_time.model_fields_set:
            filled: dict[str, Any] = {"max_future": self.watermark.delay}
            event_time = event_time.model_copy(update=filled)
            # What a file does not say goes on following the delay when the file is written.
            event_time.model_fields_set.discard("max_future")
            source = self.source.model_copy(update={"event_time": event_time})
            object.__setattr__(self, "source", source)
        return self
