"""Topics of Kafka as a pipeline's source, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import (
    InputLost,
    InputNeeded,
    LedgerUnbalanced,
    SourceChanging,
    SourceNotFound,
    SourceRefused,
)
from tidemark.pipeline.difference import FROM_NOW, ChangeVerdict, Difference
from tidemark.pipeline.instants import epoch_ms, instant_text, known_instant
from tidemark.pipeline.kafka_columns import OFFSET, PARTITION, TOPIC, starting_time
from tidemark.pipeline.model import FirstMessages, KafkaSource, KafkaTopics, Pipeline
from tidemark.pipeline.places import INGEST
from tidemark.pipeline.settings.connections import client_options, connection_of, registry_of
from tidemark.sources.kafka import losses, planning
from tidemark.sources.kafka.client import KafkaCluster, TopicState, consumer_of
from tidemark.sources.kafka.offsets import (
    Offset,
    OffsetRange,
    TopicOffset,
    offset_of,
    offset_text,
    ranges,
    without,
)
from tidemark.sources.kafka.planning import Plan
from tidemark.sources.notes import (
    Followed,
    FollowedOffsets,
    OfBatch,
    SourceNotes,
    source_notes,
)
from tidemark.sources.planned_source import Begin, FollowedChange, FollowedSourceHandle, Position
from tidemark.sources.source import (
    FirstRows,
    Lag,
    LostInput,
    OriginColumn,
    PartUnreadable,
    PartVerdict,
    Reading,
    Slice,
)

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

    from tidemark.sources.kafka.changes import NewestMessages, RowKeys
    from tidemark.sources.kafka.slices import KafkaSlice
    from tidemark.sources.kafka.values import Schemas

_SECONDS = 5.0
# With `changes`: so many are read by the first batch, and by an act after it, at most.
_MOST_AT_FIRST, _MOST_FOLLOWED = 10_000_000, 1_000_000
Starting = str | dict[str, dict[int, int]]
# A guess, for `unread_bytes`.
_BYTES_OF_A_MESSAGE = 500


def oldest_message_ms(options: Mapping[str, str], unread: Sequence[OffsetRange]) -> int | None:
    """The earliest of the partitions' first messages, in milliseconds since 1970, UTC; None where
    there is none, or none came in five seconds."""
    from confluent_kafka import TopicPartition

    if not unread:
        return None
    heard: list[KafkaError] = []
    consumer = consumer_of({**options, "queued.min.messages": "1"}, heard.append)
    waiting = {(one.topic, one.partition) for one in unread}
    found: list[int] = []
    try:
        consumer.assign([TopicPartition(one.topic, one.partition, one.first) for one in unread])
        began = monotonic()
        while waiting and monotonic() - began < _SECONDS:
            message = consumer.poll(0.2)
            if message is None or (message.topic(), message.partition()) not in waiting:
                continue
            waiting.discard((message.topic(), message.partition()))
            consumer.pause([TopicPartition(message.topic(), message.partition())])
            if message.error() is None and message.timestamp()[0]:
                found.append(message.timestamp()[1])
    finally:
        consumer.close()
    return min(found, default=None)


@dataclass(frozen=True)
class KafkaSourceHandle(FollowedSourceHandle[Offset]):
    """A part is a range of offsets of one partition (`OffsetRange`)."""

    origin = (
        OriginColumn(TOPIC, "string", "The message's topic"),
        OriginColumn(PARTITION, "integer", "Its partition"),
        OriginColumn(OFFSET, "long", "Its offset there"),
    )

    @property
    def kafka(self) -> KafkaTopics:
        """What the pipeline's file says of them."""
        assert isinstance(self.pipeline.source, KafkaSource)
        return self.pipeline.source.kafka

    @property
    def client(self) -> Mapping[str, str]:
        """How librdkafka reaches the cluster; secret. Raises SettingsInvalid."""
        return client_options(connection_of(self.settings.connections, self.kafka.connection))

    def cluster(self) -> KafkaCluster:
        """The cluster, to be asked."""
        return KafkaCluster(self.kafka.connection, self.client, self.kafka.isolation)

    def check(self, ingest: Checkpoint) -> None:
        """Raises SourceRefused and SourceUnavailable too, where the cluster cannot be asked."""
        self._check_nothing_lost(ingest)

    @staticmethod
    def offset_of(text: str, place: str) -> Offset:
        return offset_of(text, place)

    @property
    def is_from_now_on(self) -> bool:
        return self.kafka.starting == "latest"

    def end(self) -> Begin:
        states = self._states(self.cluster(), None)
        begins = {f"{name}/{n}": end for name, one in states.items() for n, end in one.end.items()}
        return Begin(begins, {name: one.id for name, one in states.items()})

    def noted_offset(self, notes: SourceNotes) -> Offset:
        begins: dict[str, dict[int, int]] = {}
        for place, begin in notes.begins.items():
            name, _, number = place.partition("/")
            begins.setdefault(name, {})[int(number)] = begin
        return {name: TopicOffset(notes.ids[name], one, one) for name, one in begins.items()}

    def losses(self, ingest: Checkpoint) -> Sequence[tuple[LostInput, OfBatch]]:
        since = _last_planned(ingest)
        return [(losses.told(one, since), one) for one in self._plan(ingest)[1].lost]

    def read_to(self, ingest: Checkpoint, batch: int) -> Mapping[str, int]:
        """A part is TOPIC/PARTITION."""
        offset = self.batch_offset(ingest, batch)
        return {f"{name}/{n}": end for name, one in offset.items() for n, end in one.next.items()}

    def steps(self, ingest: Checkpoint) -> list[Offset]:
        position, plan = self._check_nothing_lost(ingest)
        most = self.pipeline.advanced.max_messages_per_batch
        if self._row_keys is not None and position.batch >= 0:
            act = source_notes(ingest).followed
            followed = planning.followed_offset(position, act, plan.offset)
            return [] if followed is None else planning.steps(followed, None, position.offset)
        if not planning.moves(position, plan.offset):
            return []
        if self._row_keys is not None:
            return [planning.first_step(plan.offset, most or _MOST_AT_FIRST)[0]]
        return planning.steps(plan.offset, most, position.offset)

    def to_follow(self, ingest: Checkpoint) -> Callable[[str], FollowedChange] | None:
        """All that came since the first batch: any message may be of a row that was read."""
        if self._row_keys is None:
            return None
        position, plan = self._check_nothing_lost(ingest)
        if position.batch < 0 or position.is_pending:
            return None
        if not planning.moves(position, plan.offset):
            return None
        most = self.pipeline.advanced.max_messages_per_batch or _MOST_FOLLOWED
        offset, _ = planning.first_step(plan.offset, most)
        return partial(self._change, offset, position.batch)

    def _change(self, offset: Offset, after: int, act: str) -> FollowedChange:
        """Raises as `newest_messages` and as `Slice.lines`. Schemas are asked for anew: the batch
        keeps those that it reads by."""
        read, schemas = ranges(offset), dict[str, str | None]()
        while True:
            try:
                keys = self._newest(read, schemas, with_keys=True).keys
                break
            except InputNeeded as error:
                schemas |= self._asked_for(error.needed)
        offsets = ", ".join(f"{one.partition}: {one.first}-{one.last}" for one in read)
        return FollowedChange(
            FollowedOffsets(offset=offset_text(offset), after=after, act=act),
            f"messages of {self.kafka.label} ({offsets or 'none'})",
            "Where this stays so, let a pipeline of a new name read the topic.",
            gone=tuple(keys),
            were_read=False,
            parts={key: partition for key, (partition, _) in keys.items()},
        )

    def has_followed(self, ingest: Checkpoint, followed: Followed) -> bool:
        position = self.position(ingest)
        return not position.is_pending and planning.is_read(position, followed)

    def unread(self, ingest: Checkpoint) -> str | None:
        position, plan = self._check_nothing_lost(ingest)
        if position.batch < 0:
            return "no offset of Kafka was read yet"
        if not planning.moves(position, plan.offset):
            return None
        number = sum(one.number for one in ranges(plan.offset))
        return f"{number:,} offsets of Kafka are new"

    def unread_bytes(self, ingest: Checkpoint) -> int:
        planned = self._plan(ingest)[1].offset
        return sum(one.number for one in ranges(planned)) * _BYTES_OF_A_MESSAGE

    def lag(self, ingest: Checkpoint) -> Lag | None:
        position, plan = self._plan(ingest)
        unread = ranges(plan.offset) + planning.pending(position)
        number = sum(one.number for one in unread) + sum(one.range.number for one in plan.lost)
        oldest = oldest_message_ms(self.client, ranges(plan.offset) or planning.pending(position))
        return Lag(number, known_instant(oldest), len(plan.lost))

    def left(
        self, ingest: Checkpoint, batch: int, since: str
    ) -> tuple[tuple[str, ...], tuple[PartVerdict, ...]]:
        self.confirm(ingest, batch)
        verdicts = [one.verdict(since) for one in source_notes(ingest).lost if one.batch == batch]
        return tuple(map(str, self._left(ingest, batch))), tuple(verdicts)

    def confirm(self, ingest: Checkpoint, batch: int) -> None:
        """By the topics' ids; where there are none, by their offsets."""
        offset = self.batch_offset(ingest, batch)
        read = sorted({one.topic for one in self._left(ingest, batch)})
        if not read:
            return
        cluster = self.cluster()
        now = cluster.ids(read)
        if all(now[name] == offset[name].id and now[name] for name in read):
            return
        self._check_nothing_lost(ingest)

    def slices(self, ingest: Checkpoint, batch: int, reading: Reading) -> Sequence[Slice]:
        from tidemark.sources.kafka.slices import in_slices

        read = [*map(OffsetRange.of, reading.read)]
        schemas: Schemas = {}
        if self._slice().as_lines.ask_registry:
            from tidemark.sources.kafka.registry import kept_schemas

            kept = kept_schemas(ingest, self._registry(ingest, batch))
            schemas = kept.of_batch(ingest.offsets(batch).batch_time_ms)
        newest = None if self._row_keys is None else self._newest(read, schemas)
        return [
            self._slice(*together, schemas=schemas, newest=newest and newest.only(together))
            for together in in_slices(read)
        ]

    def provide(self, ingest: Checkpoint, batch: int, needed: Sequence[str]) -> None:
        """Schemas by their ids."""
        from tidemark.sources.kafka.registry import keep_schemas, kept_schemas

        found = self._asked_for(needed)
        kept = kept_schemas(ingest, self._registry(ingest, batch))
        asked_ms = ingest.offsets(batch).batch_time_ms
        there = {one: text for one, text in found.items() if text is not None}
        update = {
            "schemas": {**kept.schemas, **there},
            "missing": {**kept.missing, **dict.fromkeys(found.keys() - there.keys(), asked_ms)},
        }
        keep_schemas(ingest, kept.model_copy(update=update))

    def _registry(self, ingest: Checkpoint, batch: int) -> str:
        """Which registry has the schemas of a batch: its address, and the ids of the batch's
        topics, for another one may stand there once the cluster is another."""
        connection = connection_of(self.settings.connections, self.kafka.connection)
        registry = connection.schema_registry
        ids = {one.id for one in self.batch_offset(ingest, batch).values()}
        return " ".join(["" if registry is None else registry.url, *sorted(ids)])

    def _asked_for(self, needed: Sequence[str]) -> dict[str, str | None]:
        """What the registry has of these ids. Where messages change rows, SourceRefused where one
        is not there: a verdict on its message would say that of the row."""
        from tidemark.sources.kafka.registry import asked_for

        name = self.kafka.connection
        found = asked_for(registry_of(self.settings.connections, name), name, needed)
        if self._row_keys and (missing := [one for one, text in found.items() if text is None]):
            raise SourceRefused(
                f"The schema registry of the connection `{name}` has no schema of the id "
                f"{', '.join(missing)}, which messages of {self.kafka.label} name: so it is not "
                "told which rows they change. Nothing was read. Register it again under this id; "
                "or let a pipeline of a new name read the topic from behind these messages "
                "(source.kafka.starting)."
            )
        return found

    def offsets_read(self, reading: Reading, lines: int) -> int | None:
        """Raises LedgerUnbalanced too where the pipeline says that each of them has a message."""
        offsets = sum(OffsetRange.of(part).number for part in reading.read)
        gaps = offsets - lines
        if gaps < 0 or (gaps and self.kafka.offsets_without_record == "refuse"):
            raise LedgerUnbalanced(
                f"{lines:,} messages were read at {offsets:,} offsets ({', '.join(reading.read)}), "
                "and the pipeline says that each offset has one (offsets_without_record: refuse). "
                "Nothing of the batch was committed. Is the topic compacted, or written in "
                "transactions? Then set offsets_without_record to count."
            )
        return offsets

    def left_out(
        self,
        ingest: Checkpoint,
        batch: int,
        reading: Reading,
        unreadable: Mapping[str, str],
        repeated: bool,
    ) -> Reading:
        """No part is left out by itself: what is gone has to be accepted."""
        self._check_nothing_lost(ingest)
        causes = "; ".join(f"{part}: {cause}" for part, cause in unreadable.items())
        raise InputLost(
            f"Messages of a planned batch cannot be read: {causes}. Nothing of the batch was "
            "committed. Run again: if they are gone, the run says what was lost."
        )

    def origin_of(self, part: str) -> Mapping[str, Any]:
        one = OffsetRange.of(part)
        return {TOPIC: one.topic, PARTITION: one.partition, OFFSET: one.first}

    def first_rows(self, most: int, copies: Path) -> FirstRows:
        """From where the pipeline begins; one that begins with what is yet to come, from what is
        there."""
        from tidemark.sources.kafka.first_messages import ends_behind, first_messages

        cluster = self.cluster()
        states = self._states(cluster, None)
        starting = "earliest" if self.kafka.starting == "latest" else self.kafka.starting
        planned = planning.first_offset(states, self._first_begin(cluster, states, starting))
        messages = first_messages(planned, most, self._slice)
        begin = {name: dict(one.begin) for name, one in planned.items()}
        kafka = self.kafka.model_dump(
            mode="json", exclude={"topic", "topics", "pattern", "starting"}, exclude_unset=True
        )
        one, *more = names = sorted(states)
        named = {"topics": names} if more else {"topic": one}
        source = {
            "first_messages": ends_behind(planned, messages),
            "below": str(copies.parent),
            **self.pipeline.source.model_dump(include={"format", "key_format"}, exclude_unset=True),
            "kafka": {**kafka, **named, "starting": begin},
        }
        partitions = len({(one.topic(), one.partition()) for one in messages})
        return FirstRows(source, len(messages), partitions, "message", "partition")

    @classmethod
    def changes(cls, old: Pipeline, new: Pipeline) -> Iterator[Difference]:
        yield from topic_changes(old, new)

    def _slice(
        self,
        *ranges: OffsetRange,
        schemas: Schemas = MappingProxyType({}),
        newest: NewestMessages | None = None,
    ) -> KafkaSlice:
        from tidemark.sources.kafka.messages import as_lines
        from tidemark.sources.kafka.slices import KafkaSlice

        options = {**self.client, "isolation.level": self.kafka.isolation}
        lines = as_lines(self.pipeline, self.kafka.max_message_bytes, schemas, newest)
        return KafkaSlice(ranges, self.kafka.connection, options, lines)

    @property
    def _row_keys(self) -> RowKeys | None:
        from tidemark.sources.kafka.changes import RowKeys

        assert isinstance(self.pipeline.source, KafkaSource)
        return RowKeys.of(self.pipeline.source)

    def _newest(
        self, read: Sequence[OffsetRange], schemas: Schemas, with_keys: bool = False
    ) -> NewestMessages:
        """Which messages of these ranges count. SourceChanging where some are gone by now; and as
        `newest_messages`."""
        from tidemark.sources.kafka.changes import newest_messages
        from tidemark.sources.kafka.slices import in_slices

        keys = self._slice(schemas=schemas).as_lines.row_keys
        assert keys is not None
        pieces = (self._slice(*together).messages() for together in in_slices(read))
        try:
            return newest_messages(chain.from_iterable(pieces), keys, with_keys)
        except PartUnreadable as error:
            raise SourceChanging(
                f"{error.part} of the connection `{self.kafka.connection}`: {error.cause}. Nothing "
                "of it was read. The next try says what was lost."
            ) from error

    def _check_nothing_lost(self, ingest: Checkpoint) -> tuple[Position[Offset], Plan]:
        position, plan = self._plan(ingest)
        if plan.lost:
            raise losses.input_lost(self.pipeline.name, plan.lost, _last_planned(ingest))
        return position, plan

    def _plan(self, ingest: Checkpoint) -> tuple[Position[Offset], Plan]:
        position = self.position(ingest)
        cluster = self.cluster()
        states = self._states(cluster, position.offset)
        if position.offset is None:
            begin = self._first_begin(cluster, states, self.kafka.starting)
            return position, Plan(planning.first_offset(states, begin), ())
        accepted = source_notes(ingest).lost
        return position, planning.plan_next(
            position, states, accepted, by_pattern=self.kafka.pattern is not None
        )

    def _states(self, cluster: KafkaCluster, read: Offset | None) -> dict[str, TopicState]:
        pattern = self.kafka.pattern
        names = self.kafka.named
        if pattern is not None:
            names = (*(found := cluster.topics(pattern)), *_not_listed(cluster, read or {}, found))
        if not names and read is None:
            raise SourceNotFound(
                f"No topic of the connection `{self.kafka.connection}` has a name that matches "
                f"{pattern}. Nothing was read. Make one, or correct source.kafka.pattern."
            )
        return self._as_tried(cluster.states(names))

    def _as_tried(self, states: dict[str, TopicState]) -> dict[str, TopicState]:
        """Where only the first messages are read, the topics end behind these."""
        source = self.pipeline.source
        if not isinstance(source, FirstMessages):
            return states
        return {
            name: replace(one, end={n: source.first_messages[name].get(n, 0) for n in one.end})
            for name, one in states.items()
        }

    def _first_begin(
        self, cluster: KafkaCluster, states: Mapping[str, TopicState], starting: Starting
    ) -> dict[str, dict[int, int]]:
        """Where the first batch begins, by what the pipeline's file says of it."""
        if isinstance(starting, dict):
            return {name: _begins_at(name, one, starting[name]) for name, one in states.items()}
        if starting == "earliest":
            return {name: dict(one.first) for name, one in states.items()}
        if starting == "latest":
            return {name: dict(one.end) for name, one in states.items()}
        places = [(name, number) for name, one in states.items() for number in one.end]
        since = cluster.since(places, epoch_ms(starting_time(starting)))
        return {
            name: {
                number: end if (found := since[name, number]) is None else found
                for number, end in one.end.items()
            }
            for name, one in states.items()
        }

    def _left(self, ingest: Checkpoint, batch: int) -> list[OffsetRange]:
        """What was planned and is not accepted as lost."""
        offset = self.batch_offset(ingest, batch)
        left = ranges(offset)
        for one in source_notes(ingest).lost:
            gone = OffsetRange.of(one.part)
            if one.batch == batch and one.was_planned and offset[gone.topic].id == one.id:
                left = [rest for part in left for rest in without(part, gone)]
        return left


def _not_listed(cluster: KafkaCluster, read: Offset, listed: Sequence[str]) -> list[str]:
    """Topics that were read and are there, though they are not listed: a broker that has just been
    started may not know of them yet. Raises SourceRefused where its user may not."""
    found: list[str] = []
    for name in sorted(read.keys() - set(listed)):
        with suppress(SourceNotFound):
            found += cluster.ids([name])
    return found


def _begins_at(name: str, state: TopicState, given: Mapping[int, int]) -> dict[int, int]:
    """The offsets that the file names. Raises SourceNotFound where the topic has others."""
    if wrong := sorted(set(given) ^ set(state.end)):
        raise SourceNotFound(
            f"source.kafka.starting and topic `{name}` differ in their partitions: {wrong}. "
            "Nothing was read. Name an offset for each partition that the topic has."
        )
    for partition, offset in sorted(given.items()):
        first, end = state.first[partition], state.end[partition]
        if not first <= offset <= end:
            raise SourceNotFound(
                f"source.kafka.starting begins partition {partition} of topic `{name}` at offset "
                f"{offset}, and it has the offsets {first} to {end}. Nothing was read. Correct it."
            )
    return dict(given)


def _last_planned(ingest: Checkpoint) -> str:
    last = ingest.last_batch("offsets")
    return "" if last is None else instant_text(ingest.offsets(last).batch_time_ms)


def topic_changes(old: Pipeline, new: Pipeline) -> Iterator[Difference]:
    """Each with its verdict and the reason."""
    before, after = old.source, new.source
    assert isinstance(before, KafkaSource)
    assert isinstance(after, KafkaSource)
    was, now = before.kafka, after.kafka
    if (set(was.named), was.pattern) != (set(now.named), now.pattern):
        more = was.pattern is None and now.pattern is None and set(was.named) < set(now.named)
        verdict = ChangeVerdict.SAFE if more else ChangeVerdict.NOT_ALLOWED
        reason = (
            "Topics that are added are read from the first message that is kept"
            if more
            else "Bronze is the record of its topics: messages of those that are named no more "
            "and that were not read yet would be left out"
        )
        yield Difference(INGEST, "source.kafka", before.label, after.label, verdict, reason)
    if was.connection != now.connection:
        reason = (
            "A topic is known by its id: one of another cluster has another id, and runs stop at it"
        )
        yield _change("source.kafka.connection", was.connection, now.connection, reason)
    if was.starting != now.starting:
        reason = "Only the first run asks where to begin"
        yield _change("source.kafka.starting", was.starting, now.starting, reason)
    if was.isolation != now.isolation:
        reason = (
            "Messages of aborted transactions would be in bronze from some offset on, and before "
            "it not; nothing would tell where"
        )
        what, verdict = "source.kafka.isolation", ChangeVerdict.NOT_ALLOWED
        yield Difference(INGEST, what, was.isolation, now.isolation, verdict, reason)
    for name in ("offsets_without_record", "max_message_bytes", "changes", "key"):
        if getattr(was, name) != getattr(now, name):
            yield _change(f"source.kafka.{name}", getattr(was, name), getattr(now, name), FROM_NOW)
    for name in ("format", "key_format"):
        if getattr(before, name) != getattr(after, name):
            yield _change(f"source.{name}", getattr(before, name), getattr(after, name), FROM_NOW)
    limit, other = (one.advanced.max_messages_per_batch for one in (old, new))
    if limit != other:
        yield _change("advanced.max_messages_per_batch", limit, other, FROM_NOW)


def _change(what: str, before: object, after: object, reason: str) -> Difference:
    return Difference(INGEST, what, str(before), str(after), ChangeVerdict.SAFE, reason)
