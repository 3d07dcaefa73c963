"""What `inspect` says of a checkpoint: a bounded summary, as JSON and for the screen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from tidemark.checkpoint.doctor.watermark import watermark_ms
from tidemark.checkpoint.reading.facts import (
    CheckpointFacts,
    CheckpointSource,
    StatefulOperator,
    Unreadable,
)
from tidemark.checkpoint.reading.source_offsets import DeltaOffset
from tidemark.pipeline.instants import instant_text

JsonObject = dict[str, object]


@dataclass(frozen=True)
class SourceLine:
    """A source: its offset as text, and how many lists of files its folder holds.

    `behind`: the versions of its Delta table that no batch has taken; None where not known.
    """

    id: str
    kind: str
    offset: str | None
    initial: str | None
    lists: int
    compacted: int
    behind: int | None


@dataclass(frozen=True)
class OperatorLine:
    """A stateful operator. Versions are those that its stores' files reach, lowest and highest."""

    id: int
    name: str | None
    partitions: int
    stores: tuple[str, ...]
    provider: str
    newest_versions: tuple[int, int]
    columns: Mapping[str, str]
    files: int
    size: int


@dataclass(frozen=True)
class Overview:
    """A checkpoint on one screen. Times are milliseconds since 1970, UTC; None for none."""

    uri: str
    query_id: str | None
    batches: Mapping[str, tuple[int, int, int] | None]
    next_batch: int
    watermark_ms: int | None
    batch_time_ms: int | None
    newest_event_ms: int | None
    conf: Mapping[str, str]
    sources: tuple[SourceLine, ...]
    operators: tuple[OperatorLine, ...]
    sections: Mapping[str, Mapping[str, int]]

    def as_json(self) -> JsonObject:
        """The summary, with times as text beside the numbers."""
        text = {
            name: None if value is None else instant_text(value)
            for name, value in (
                ("watermark", self.watermark_ms),
                ("batch_time", self.batch_time_ms),
                ("newest_event", self.newest_event_ms),
            )
        }
        return asdict(self) | text


def overview(
    facts: CheckpointFacts, newest_event_ms: int | None, newest_version: int | None = None
) -> Overview:
    """The summary of a checkpoint that was read, with what is known of the table it reads."""
    newest = facts.offsets.entry(facts.offsets.newest)
    query_id = facts.query_id
    return Overview(
        facts.uri,
        None if isinstance(query_id, Unreadable) else query_id,
        {log.name: _range(log.batches) for log in (facts.offsets, facts.commits)},
        facts.next_batch,
        watermark_ms(facts) or None,
        newest.batch_time_ms if newest else None,
        newest_event_ms,
        facts.conf,
        tuple(_source(source, newest_version) for source in facts.sources),
        tuple(_operator(operator) for operator in facts.operators),
        {kind: {"files": one.files, "bytes": one.size} for kind, one in facts.sections.items()},
    )


def _range(batches: tuple[int, ...]) -> tuple[int, int, int] | None:
    """The oldest and the newest batch, and how many have a file."""
    return (batches[0], batches[-1], len(batches)) if batches else None


def _source(source: CheckpointSource, newest_version: int | None) -> SourceLine:
    lists = source.file_list
    return SourceLine(
        source.id,
        source.kind,
        source.offset.summary if source.offset else None,
        source.initial,
        len(lists.lists) if lists else 0,
        len(lists.compacted) if lists else 0,
        _behind(source, newest_version),
    )


def _behind(source: CheckpointSource, newest_version: int | None) -> int | None:
    if newest_version is None or not isinstance(source.offset, DeltaOffset):
        return None
    return max(0, newest_version + 1 - source.offset.version)


def _operator(operator: StatefulOperator) -> OperatorLine:
    files = [f for store in operator.stores for found in store.files.values() for f in found]
    newest = [store.newest for store in operator.stores]
    shared = sum(sum(store.shared.values()) for store in operator.stores)
    return OperatorLine(
        operator.id,
        operator.metadata.name if operator.metadata else None,
        len(operator.partitions),
        operator.store_names,
        ", ".join(sorted({str(store.provider) for store in operator.stores})),
        (min(newest, default=0), max(newest, default=0)),
        {
            name: f"{', '.join(schema.key)} → {', '.join(schema.value)}"
            for name, schema in operator.schemas.items()
            if schema.key
        },
        len(files) + sum(len(store.shared) for store in operator.stores),
        sum(file.size for file in files) + shared,
    )
