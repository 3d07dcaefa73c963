"""What planning and connecting meet seldom."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.sources.kafka.engine import batches_run
from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import SettingsInvalid
from tidemark.sources.kafka.client import KafkaCluster, TopicState, consumer_of
from tidemark.sources.kafka.losses import told
from tidemark.sources.kafka.offsets import TopicOffset, offset_of, offset_text, ranges
from tidemark.sources.kafka.planning import (
    followed_offset,
    is_read,
    moves,
    plan_next,
    steps,
)
from tidemark.sources.notes import FollowedOffsets, accepted_loss
from tidemark.sources.planned_source import Position
from tidemark.sources.source import LossAcceptance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "c2VjcmV0"


@pytest.mark.parametrize(
    ("begin", "end", "cut_to", "written_to", "most", "told_apart"),
    [
        # The plan is that of the last batch, offset by offset.
        (0, 3, 0, 3, None, 0),
        # The second step is.
        (10, 20, 0, 35, 10, 1),
        (80, 90, 80, 120, 10, 0),
        # None is.
        (10, 20, 5, 35, 10, None),
    ],
)
def test_messages_that_were_cut_off_and_came_anew_are_all_read(
    begin: int, end: int, cut_to: int, written_to: int, most: int | None, told_apart: int | None
) -> None:
    before = {"a": TopicOffset("id", {0: begin}, {0: end})}
    position = Position(4, before)
    (lost,) = plan_next(position, {"a": TopicState("id", {0: 0}, {0: cut_to})}, [], False).lost
    acceptance = LossAcceptance("gone", "me", datetime(2026, 7, 1, tzinfo=UTC))
    accepted = [accepted_loss(told(lost, "then"), acceptance, lost)]
    written = {"a": TopicState("id", {0: 0}, {0: written_to})}
    plan = plan_next(position, written, accepted, False)
    assert plan.lost == ()
    assert moves(position, plan.offset)
    planned = steps(plan.offset, most, before)
    assert [*batches_run(planned, before)] == planned
    parts = [one for step in planned for one in ranges(step)]
    read = [one.first + number for one in parts for number in range(one.number)]
    assert read == [*range(cut_to, written_to)]
    again = [place for place, step in enumerate(planned) if step["a"].again]
    assert again == ([] if told_apart is None else [told_apart])
    last = Position(4 + len(planned), planned[-1])
    assert not moves(last, plan_next(last, written, accepted, False).offset)


def test_an_offset_that_was_told_apart_is_told_apart_from_the_next_one() -> None:
    """A log that is lost a second time is written anew to the same end."""
    first = {"a": TopicOffset("id", {0: 0}, {0: 3})}
    (second,) = steps(first, None, first)
    assert offset_of(offset_text(second), "here") == second != first
    for before in (first, second):
        (third,) = steps(first, None, before)
        assert [*batches_run([third], before)] == [third]
    assert steps({}, None, {}) == [{}]


def test_the_engine_runs_a_batch_for_a_step_that_was_told_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    from tidemark.streaming.sources.planned import planned_stream

    log = Checkpoint(str(tmp_path / "log"), {})
    before = {"a": TopicOffset("id", {0: 10}, {0: 20})}
    anew = steps({"a": TopicOffset("id", {0: 0}, {0: 35})}, 10, before)
    same = steps(anew[-1], None, anew[-1])
    for planned in ([before], anew, same):
        stream = planned_stream(spark, [json.loads(offset_text(one)) for one in planned])
        writer = stream.writeStream.option("checkpointLocation", log.uri)
        writer.foreachBatch(lambda *_: None).trigger(availableNow=True).start().awaitTermination()
    texts = [log.offsets(batch).sources[0] or "" for batch in log.batches("commits")]
    assert [offset_of(one, "here") for one in texts] == [before, *anew, *same]


def test_an_act_over_messages_that_came_anew_is_read_by_one_batch() -> None:
    offset = {"a": TopicOffset("id", {0: 5}, {0: 9})}
    act = FollowedOffsets(offset=offset_text(offset), after=2, act="a")
    assert followed_offset(Position(2, offset), act, offset) == offset
    (step,) = steps(offset, None, offset)
    assert [*batches_run([step], offset)] == [step]
    assert is_read(Position(3, step), act)
    assert followed_offset(Position(3, step), act, offset) is None


def test_an_offset_of_a_former_version_is_told_apart_from_nothing() -> None:
    text = '{"a": {"id": "id", "from": {"0": 0}, "next": {"0": 3}}}'
    found = offset_of(text, "here")
    assert found == {"a": TopicOffset("id", {0: 0}, {0: 3}, again=False)}
    assert offset_text(found) == text


@pytest.mark.parametrize(
    "options",
    [
        {"no.such.option": SECRET},
        {"socket.timeout.ms": SECRET},
        {
            "security.protocol": "SSL",
            "ssl.key.pem": f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----",
        },
    ],
)
def test_options_that_librdkafka_does_not_take_are_told_without_their_values(
    options: dict[str, str],
) -> None:
    given = {"bootstrap.servers": "127.0.0.1:1", **options}
    for make in (lambda: KafkaCluster("events", given, ""), lambda: consumer_of(given, print)):
        with pytest.raises(SettingsInvalid, match="librdkafka does not take the options") as found:
            make()
        assert SECRET not in str(found.value)
        assert found.value.__cause__ is None
