"""Of messages that come, expire, are cut off or go with their topic, each is read once or told as
lost: by random histories, without a broker."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.sources.kafka.engine import batches_run
from tidemark.sources.kafka.client import TopicState
from tidemark.sources.kafka.losses import told
from tidemark.sources.kafka.offsets import (
    Offset,
    OffsetRange,
    TopicOffset,
    offset_of,
    offset_text,
    ranges,
)
from tidemark.sources.kafka.planning import first_offset, moves, plan_next, steps
from tidemark.sources.notes import AcceptedLoss, accepted_loss
from tidemark.sources.planned_source import Position
from tidemark.sources.source import LossAcceptance

NOW = datetime(2026, 7, 1, tzinfo=UTC)
NAMES = ("a", "b")


@dataclass
class Partition:
    """Messages by offset; `first` is the oldest that is kept."""

    messages: list[int] = field(default_factory=list)
    first: int = 0


@dataclass
class Model:
    """A cluster, an ingest that reads it by pattern, and what became of each message."""

    topics: dict[str, tuple[str, dict[int, Partition]]] = field(default_factory=dict)
    position: Position = field(default_factory=Position)
    accepted: list[AcceptedLoss] = field(default_factory=list)
    # Topics that are gone, with their messages.
    gone: dict[str, dict[int, Partition]] = field(default_factory=dict)
    read: Counter[int] = field(default_factory=Counter)
    # Of each topic that a batch was planned of: by partition where reading began.
    began: dict[str, dict[int, int]] = field(default_factory=dict)
    ids: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def states(self) -> dict[str, TopicState]:
        return {
            name: TopicState(
                topic,
                {n: one.first for n, one in partitions.items()},
                {n: len(one.messages) for n, one in partitions.items()},
            )
            for name, (topic, partitions) in self.topics.items()
        }

    def make(self, name: str, partitions: int) -> None:
        self.delete(name)
        self.topics[name] = (f"id-{next(self.ids)}", {n: Partition() for n in range(partitions)})

    def delete(self, name: str) -> None:
        if name in self.topics:
            topic, partitions = self.topics.pop(name)
            self.gone[topic] = partitions

    def produce(self, name: str, partition: int, number: int) -> None:
        if found := self._partition(name, partition):
            found.messages += [next(self.ids) for _ in range(number)]

    def expire(self, name: str, partition: int, number: int) -> None:
        if found := self._partition(name, partition):
            found.first = min(len(found.messages), found.first + number)

    def cut_off(self, name: str, partition: int, number: int) -> None:
        """The cluster lost its newest; what was not read of them nobody ever knew."""
        if found := self._partition(name, partition):
            end = max(found.first, len(found.messages) - number)
            del found.messages[end:]

    def run(self, most: int | None, dies: bool) -> None:
        """A run, which accepts what is lost; if it dies, its first batch is planned, not read."""
        states = self.states
        if self.position.offset is None:
            begin = {name: dict(one.first) for name, one in states.items()}
            planned: Offset = first_offset(states, begin)
            self.began = {states[name].id: one for name, one in begin.items()}
        else:
            self.accept()
            again = plan_next(self.position, states, self.accepted, by_pattern=True)
            assert not again.lost, "what was accepted is not lost again"
            planned = again.offset
            for one in planned.values():
                self.began.setdefault(one.id, {})
        if self.position.is_pending:
            assert self.position.offset is not None
            self.take(self.position.offset, self.position.batch)
            self.position = Position(self.position.batch, self.position.offset)
        if not moves(self.position, planned):
            return
        found = steps(planned, most, self.position.offset)
        if self.position.offset is not None:
            assert [*batches_run(found, self.position.offset)] == found, "each step is a batch"
        for step in found:
            kept = offset_of(offset_text(step), "here")
            assert kept == step
            assert most is None or sum(one.number for one in ranges(step)) <= most
            batch = self.position.batch + 1
            if dies:
                self.position = Position(batch, kept, is_pending=True)
                return
            self.take(kept, batch)
            self.position = Position(batch, kept)

    def accept(self) -> None:
        if self.position.offset is None:
            return
        found = plan_next(self.position, self.states, self.accepted, by_pattern=True).lost
        acceptance = LossAcceptance("gone", "me", NOW)
        self.accepted += [accepted_loss(told(one, "then"), acceptance, one) for one in found]

    def take(self, offset: Offset, batch: int) -> None:
        """Read a batch as `KafkaSourceHandle` does: its ranges without those accepted as lost."""
        lost = [
            (one.id, OffsetRange.of(one.part))
            for one in self.accepted
            if one.batch == batch and one.was_planned
        ]
        for one in ranges(offset):
            assert one.last is not None
            topic, partitions = self.topics.get(one.topic, ("", {}))
            for place in range(one.first, one.last + 1):
                if any(_holds(gone, of, one, place, offset) for of, gone in lost):
                    continue
                assert topic == offset[one.topic].id, "another topic is never read for this one"
                partition = partitions[one.partition]
                assert partition.first <= place, "what expired is never read"
                self.read[partition.messages[place]] += 1

    def check(self) -> None:
        """Each message that ever was: read once, or told as lost; or it had expired before the
        first run, or was of a topic that came and went between two."""
        assert all(number == 1 for number in self.read.values())
        everywhere = {**self.gone, **dict(self.topics.values())}
        assert self.position.offset is not None
        for topic, partitions in everywhere.items():
            for number, partition in partitions.items():
                for place, message in enumerate(partition.messages):
                    if message in self.read:
                        continue
                    never_seen = topic not in self.began
                    before = place < self.began.get(topic, {}).get(number, 0)
                    told_lost = self.is_told(topic, number, place)
                    assert never_seen or before or told_lost, (topic, number, place)

    def is_told(self, topic: str, partition: int, place: int) -> bool:
        parts = [(one.id, OffsetRange.of(one.part)) for one in self.accepted]
        return any(
            (of, part.partition) == (topic, partition) and _is_in(part, place) for of, part in parts
        )

    def _partition(self, name: str, partition: int) -> Partition | None:
        return self.topics[name][1].get(partition) if name in self.topics else None


def _holds(gone: OffsetRange, of: str, one: OffsetRange, place: int, offset: Offset) -> bool:
    same = (gone.topic, gone.partition, of) == (one.topic, one.partition, offset[one.topic].id)
    return same and _is_in(gone, place)


def _is_in(part: OffsetRange, place: int) -> bool:
    return part.first <= place and (part.last is None or place <= part.last)


names = st.sampled_from(NAMES)
numbers = st.integers(0, 12)
acts = st.one_of(
    st.tuples(st.just("produce"), names, st.integers(0, 2), numbers),
    st.tuples(st.just("produce"), names, st.integers(0, 2), numbers),
    st.tuples(st.just("expire"), names, st.integers(0, 2), numbers),
    st.tuples(st.just("make"), names, st.integers(1, 3)),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("run"), st.one_of(st.none(), st.integers(1, 9)), st.booleans()),
    st.tuples(st.just("run"), st.one_of(st.none(), st.integers(1, 9)), st.booleans()),
)

cuts = st.one_of(
    st.tuples(st.just("cut_off"), names, st.integers(0, 2), numbers),
    # Before the run, so that messages come anew in between.
    st.just(("accept",)),
)


RUN = ("run", None, False)


@pytest.mark.slow
@settings(max_examples=400)
@example([RUN, ("make", "b", 1), ("produce", "b", 0, 9), ("expire", "b", 0, 4), RUN])
@given(st.lists(acts, max_size=40))
def test_every_message_is_read_once_or_told_as_lost(history: list[tuple[object, ...]]) -> None:
    model = Model()
    model.make("a", 2)
    for name, *arguments in history:
        getattr(model, str(name))(*arguments)
    model.run(None, dies=False)
    left = plan_next(model.position, model.states, model.accepted, by_pattern=True)
    assert not left.lost
    assert not moves(model.position, left.offset)
    model.check()


@pytest.mark.slow
@settings(max_examples=200)
@example(
    [
        ("produce", "a", 0, 10), ("run", 5, False), ("cut_off", "a", 0, 10), ("accept",),
        ("produce", "a", 0, 12), ("run", 5, False),
    ]
)  # fmt: skip
@given(st.lists(st.one_of(acts, cuts), max_size=40))
def test_nothing_is_read_twice_or_from_another_topic_where_the_cluster_loses_its_newest(
    history: list[tuple[object, ...]],
) -> None:
    model = Model()
    model.make("a", 2)
    for name, *arguments in history:
        getattr(model, str(name))(*arguments)
    model.run(None, dies=False)
    assert all(number == 1 for number in model.read.values())


def test_without_ids_a_topic_that_ends_before_what_was_read_is_another() -> None:
    before = {"a": TopicOffset("", {0: 0}, {0: 100})}
    now = {"a": TopicState("", {0: 0}, {0: 30})}
    plan = plan_next(Position(3, before), now, [], by_pattern=False)
    assert [(str(one.range), one.reason, one.batch) for one in plan.lost] == [
        ("a/0/100-", "replaced", 4)
    ]
    assert plan.offset == {"a": TopicOffset("", {0: 0}, {0: 30})}


def test_steps_take_from_all_partitions_in_proportion() -> None:
    planned = {"a": TopicOffset("x", {0: 0, 1: 10}, {0: 90, 1: 20})}
    found = steps(planned, 10)
    assert [dict(one["a"].next) for one in found[:2]] == [{0: 9, 1: 11}, {0: 18, 1: 12}]
    assert len(found) == 10
    assert found[-1]["a"].next == {0: 90, 1: 20}


def test_a_topic_accepted_as_deleted_that_is_there_again_is_read_from_where_it_was() -> None:
    """Its user might not read it for a while: it is the same by its id."""
    state = TopicState("id-a", {0: 0, 1: 0}, {0: 9, 1: 4})
    position = Position(3, {"a": TopicOffset("id-a", {0: 0}, {0: 5})})
    gone = plan_next(position, {}, [], by_pattern=True)
    assert [(str(one.range), one.reason) for one in gone.lost] == [("a/0/5-", "deleted")]
    acceptance = LossAcceptance("it is gone", "me", NOW)
    accepted = [accepted_loss(told(one, ""), acceptance, one) for one in gone.lost]
    without = plan_next(position, {}, accepted, by_pattern=True)
    assert (without.offset, without.lost) == ({}, ())
    for by_pattern in (True, False):
        back = plan_next(Position(4, without.offset), {"a": state}, accepted, by_pattern)
        assert [str(one) for one in ranges(back.offset)] == ["a/0/5-8", "a/1/0-3"]
    # Another of that name is read from its beginning.
    other = TopicState("id-b", state.first, state.end)
    back = plan_next(Position(4, without.offset), {"a": other}, accepted, by_pattern=True)
    assert [str(one) for one in ranges(back.offset)] == ["a/0/0-8", "a/1/0-3"]


@pytest.mark.parametrize(
    ("state", "lost"),
    [
        (TopicState("x", {0: 95}, {0: 120}), [("a/0/90-94", "expired")]),
        (TopicState("x", {0: 0}, {0: 93}), [("a/0/93-119", "cut off")]),
        (
            TopicState("y", {0: 0}, {0: 200}),
            [("a/0/90-119", "replaced"), ("a/0/120-", "replaced")],
        ),
    ],
    ids=["expired", "cut off again", "replaced"],
)
def test_what_was_accepted_before_a_batch_was_planned_is_no_word_on_what_it_reads(
    state: TopicState, lost: list[tuple[str, str]]
) -> None:
    read = Position(0, {"a": TopicOffset("x", {0: 0}, {0: 100})})
    acceptance = LossAcceptance("known", "me", NOW)
    cut_off = plan_next(read, {"a": TopicState("x", {0: 0}, {0: 90})}, [], by_pattern=False)
    accepted = [accepted_loss(told(one, ""), acceptance, one) for one in cut_off.lost]
    written_on = {"a": TopicState("x", {0: 0}, {0: 120})}
    (step,) = steps(plan_next(read, written_on, accepted, by_pattern=False).offset, None)
    again = plan_next(Position(1, step, is_pending=True), {"a": state}, accepted, by_pattern=False)
    assert [(str(one.range), one.reason) for one in again.lost] == lost
