"""From what was planned and what the topics hold now: what the next batch reads, and what is lost.

No question to the cluster, no file: data in, data out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidemark.pipeline.reasons import CUT_OFF, DELETED, EXPIRED, REPLACED
from tidemark.sources.kafka.client import TopicState
from tidemark.sources.kafka.offsets import (
    Offset,
    OffsetRange,
    TopicOffset,
    offset_of,
    ranges,
    without,
)
from tidemark.sources.notes import AcceptedLoss, Followed, FollowedOffsets
from tidemark.sources.planned_source import Position

_NOTE = "the note of what an act follows"


@dataclass(frozen=True)
class KafkaGap:
    """A range that is gone, of which topic (by its id), and the batch that would have read it.
    `was_planned`: that batch is pending, with this range in it."""

    range: OffsetRange
    id: str
    batch: int
    was_planned: bool
    reason: str
    # What is kept now: the first offset, or the end.
    kept: int | None = None


@dataclass(frozen=True)
class Plan:
    """The offset up to which the next batches read, and what of it is gone. Only a plan without
    losses is carried out."""

    offset: Offset
    lost: tuple[KafkaGap, ...]


def pending(position: Position[Offset]) -> list[OffsetRange]:
    """What the batch that runs again reads."""
    return ranges(position.offset) if position.is_pending and position.offset else []


def plan_next(
    position: Position[Offset],
    states: Mapping[str, TopicState],
    accepted: Sequence[AcceptedLoss],
    by_pattern: bool,
) -> Plan:
    """What comes after `position`, an offset that was read before: `states` are the topics that
    the pipeline reads now. Topics that it is told by name begin at what is kept of them, those of
    a pattern, which came later than the first run, at 0; so do partitions that were added."""
    assert position.offset is not None
    lost = [*_lost_of_pending(position, states), *_lost_with_topics(position, states)]
    offset: dict[str, TopicOffset] = {}
    for name, state in states.items():
        begin = _begin(name, state, position, accepted, by_pattern)
        lost += _lost_of_next(name, state, position, begin)
        kept = {
            partition: min(max(first, state.first[partition]), state.end[partition])
            for partition, first in begin.items()
        }
        offset[name] = TopicOffset(state.id, kept, state.end)
    return Plan(offset, tuple(left for one in lost for left in _not_accepted(one, accepted)))


def first_offset(
    states: Mapping[str, TopicState], begin: Mapping[str, Mapping[int, int]]
) -> Offset:
    """Of the first batch: from `begin`, which is not behind the end, to the end."""
    return {name: TopicOffset(one.id, begin[name], one.end) for name, one in states.items()}


def moves(position: Position[Offset], planned: Offset) -> bool:
    """Does the plan read something, or take note of another topic or partition?"""
    before = position.offset
    if position.batch < 0 or before is None:
        return True
    return _ends(before) != _ends(planned) or bool(ranges(planned))


def followed_offset(position: Position[Offset], act: Followed | None, now: Offset) -> Offset | None:
    """What an act follows and no batch has read, less what is not kept any more: `now` is the plan
    by what the topic holds."""
    if not isinstance(act, FollowedOffsets) or position.batch not in (act.after, act.after + 1):
        return None
    if is_read(position, act):
        return None
    planned = offset_of(act.offset, _NOTE)
    return {name: _kept(one, now.get(name)) for name, one in planned.items()}


def _kept(planned: TopicOffset, now: TopicOffset | None) -> TopicOffset:
    if now is None or now.id != planned.id:
        return planned
    begin = {
        partition: min(max(first, now.begin.get(partition, 0)), planned.next[partition])
        for partition, first in planned.begin.items()
    }
    return replace(planned, begin=begin)


def is_read(position: Position[Offset], act: Followed) -> bool:
    """Has a batch read what an act follows? Offsets that were cut off and written anew come again,
    so the last batch may end where the act does, and be the one before it."""
    assert isinstance(act, FollowedOffsets)
    if position.offset is None or position.batch <= act.after:
        return False
    return _ends(position.offset) == _ends(offset_of(act.offset, _NOTE))


def steps(planned: Offset, most: int | None, before: Offset | None = None) -> list[Offset]:
    """A plan in batches of at most so many offsets, taken from all partitions in proportion.

    Of messages that were cut off and written anew one may equal the offset `before`, at which the
    engine stands: it would take that one and all steps up to it for read, so they are told apart.
    """
    found: list[Offset] = []
    left = planned
    while most is not None and sum(one.number for one in ranges(left)) > most:
        step, left = first_step(left, most)
        found.append(step)
    return [_told_apart(one, before) for one in [*found, left]]


def first_step(planned: Offset, most: int) -> tuple[Offset, Offset]:
    """The first so many offsets of a plan, taken from all partitions in proportion, and the rest.
    Where it has no more, the rest is empty."""
    unread = ranges(planned)
    if sum(one.number for one in unread) <= most:
        step = planned
    else:
        step = _up_to(planned, _shares(unread, most))
    return step, {name: replace(one, begin=step[name].next) for name, one in planned.items()}


def _begin(
    name: str,
    state: TopicState,
    position: Position[Offset],
    accepted: Sequence[AcceptedLoss],
    by_pattern: bool,
) -> dict[int, int]:
    """By partition, where the next batch begins."""
    assert position.offset is not None
    before = position.offset.get(name)
    if before is None and (back := _accepted_ends(name, state, accepted)):
        return {partition: back.get(partition, 0) for partition in state.end}
    if before is None and not by_pattern:
        return dict(state.first)
    if before is None or is_another(before, state):
        return dict.fromkeys(state.end, 0)
    begin = {partition: before.next.get(partition, 0) for partition in state.end}
    for one in accepted:
        part = OffsetRange.of(one.part)
        batch = position.batch if one.was_planned else position.batch + 1
        if (one.reason, one.id, one.batch) != (CUT_OFF, state.id, batch) or part.last is None:
            continue
        # What was cut off is written anew, under the same offsets.
        if part.topic == name and begin.get(part.partition) == part.last + 1:
            begin[part.partition] = part.first
    return begin


def _accepted_ends(
    name: str, state: TopicState, accepted: Sequence[AcceptedLoss]
) -> dict[int, int]:
    """By partition, up to where a topic was read that was accepted as deleted and is there again,
    the same by its id: nothing of it is read twice."""
    parts = [
        OffsetRange.of(one.part)
        for one in accepted
        if state.id and (one.reason, one.id) == (DELETED, state.id)
    ]
    ends = sorted(
        (one.partition, one.first) for one in parts if one.topic == name and one.last is None
    )
    return dict(ends)


def is_another(before: TopicOffset, state: TopicState) -> bool:
    """Another topic of the same name: by its id; without ids, by having fewer partitions, or by
    ending before what was read."""
    if before.id and state.id:
        return before.id != state.id
    return any(state.end.get(partition, -1) < end for partition, end in before.next.items())


def _lost_of_pending(
    position: Position[Offset], states: Mapping[str, TopicState]
) -> Iterator[KafkaGap]:
    """Of the batch that runs again."""
    for one in pending(position):
        assert position.offset is not None
        assert one.last is not None
        before, state = position.offset[one.topic], states.get(one.topic)
        if state is None or is_another(before, state):
            reason = DELETED if state is None else REPLACED
            yield KafkaGap(one, before.id, position.batch, True, reason)
            continue
        first, end = state.first[one.partition], state.end[one.partition]
        expired = replace(one, last=min(one.last, first - 1))
        if expired.number > 0:
            yield KafkaGap(expired, before.id, position.batch, True, EXPIRED, first)
        cut_off = replace(one, first=max(one.first, end))
        if cut_off.number > 0:
            yield KafkaGap(cut_off, before.id, position.batch, True, CUT_OFF, end)


def _lost_with_topics(
    position: Position[Offset], states: Mapping[str, TopicState]
) -> Iterator[KafkaGap]:
    """What came to a topic after it was read, and went with it."""
    assert position.offset is not None
    for name, before in position.offset.items():
        state = states.get(name)
        if state is None or is_another(before, state):
            reason = DELETED if state is None else REPLACED
            for partition, end in sorted(before.next.items()):
                rest = OffsetRange(name, partition, end, None)
                yield KafkaGap(rest, before.id, position.batch + 1, False, reason)


def _lost_of_next(
    name: str, state: TopicState, position: Position[Offset], begin: Mapping[int, int]
) -> Iterator[KafkaGap]:
    """What the next batch would begin with, and is not kept, or was cut off."""
    again = {(one.topic, one.partition): one for one in pending(position)}
    for partition, first in sorted(begin.items()):
        kept, end = state.first[partition], state.end[partition]
        if first < kept:
            gone = OffsetRange(name, partition, first, kept - 1)
            yield KafkaGap(gone, state.id, position.batch + 1, False, EXPIRED, kept)
        # What the batch that runs again misses is the verdict of that one.
        runs_again = again.get((name, partition))
        last = first - 1 if runs_again is None else min(first, runs_again.first) - 1
        if end <= last:
            gone = OffsetRange(name, partition, end, last)
            yield KafkaGap(gone, state.id, position.batch + 1, False, CUT_OFF, end)


def _not_accepted(lost: KafkaGap, accepted: Sequence[AcceptedLoss]) -> list[KafkaGap]:
    left = [lost.range]
    for one in accepted:
        # Messages that were accepted before a batch was planned are others than it reads.
        of_it = (lost.id, lost.batch, lost.was_planned)
        if (one.id, one.batch, one.was_planned) == of_it:
            gone = OffsetRange.of(one.part)
            left = [rest for part in left for rest in _left(part, gone)]
    return [replace(lost, range=one) for one in left]


def _left(whole: OffsetRange, gone: OffsetRange) -> list[OffsetRange]:
    if whole.last is None:
        return [] if whole == gone else [whole]
    return without(whole, gone)


def _told_apart(step: Offset, before: Offset | None) -> Offset:
    if not step or step != before:
        return step
    name = min(step)
    return {**step, name: replace(step[name], again=not step[name].again)}


def _ends(offset: Offset) -> dict[str, tuple[str, Mapping[int, int]]]:
    return {name: (one.id, one.next) for name, one in offset.items()}


def _shares(unread: Sequence[OffsetRange], most: int) -> dict[tuple[str, int], int]:
    """So many offsets of each partition, together `most`."""
    total = sum(one.number for one in unread)
    shares = {(one.topic, one.partition): most * one.number // total for one in unread}
    for place in list(shares)[: most - sum(shares.values())]:
        shares[place] += 1
    return shares


def _up_to(offset: Offset, taken: Mapping[tuple[str, int], int]) -> Offset:
    return {
        name: replace(
            one,
            next={
                partition: first + taken.get((name, partition), 0)
                for partition, first in one.begin.items()
            },
        )
        for name, one in offset.items()
    }
