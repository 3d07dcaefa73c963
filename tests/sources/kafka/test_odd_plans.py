"""What planning and connecting meet seldom."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidemark.errors import SettingsInvalid
from tidemark.sources.kafka.client import KafkaCluster, TopicState, consumer_of
from tidemark.sources.kafka.losses import told
from tidemark.sources.kafka.offsets import TopicOffset, ranges
from tidemark.sources.kafka.planning import moves, plan_next, steps
from tidemark.sources.notes import accepted_loss
from tidemark.sources.planned_source import Position
from tidemark.sources.source import LossAcceptance

SECRET = "c2VjcmV0"


def test_messages_that_were_cut_off_are_read_when_as_many_came_anew() -> None:
    """The plan is that of the last batch, offset by offset, and is no batch to the engine."""
    before = {"a": TopicOffset("id", {0: 0}, {0: 3})}
    position = Position(4, before)
    (lost,) = plan_next(position, {"a": TopicState("id", {0: 0}, {0: 0})}, [], False).lost
    acceptance = LossAcceptance("gone", "me", datetime(2026, 7, 1, tzinfo=UTC))
    accepted = [accepted_loss(told(lost, "then"), acceptance, lost)]
    written = {"a": TopicState("id", {0: 0}, {0: 3})}
    plan = plan_next(position, written, accepted, False)
    assert plan.lost == ()
    assert moves(position, plan.offset)
    between, again = steps(plan.offset, None, before)
    assert ranges(between) == []
    assert between != before
    assert again == before
    # The run may end between the two.
    assert plan_next(Position(5, between), written, accepted, False).offset == again
    assert not moves(Position(6, again), plan_next(Position(6, again), written, [], False).offset)


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
