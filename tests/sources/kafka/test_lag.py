"""How far a pipeline is behind its topic, told without a JVM."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.kafka import make_topic, new_name, produce
from tests.kit.running import Place, clicks
from tests.sources.kafka.test_lost_topics import topics_place
from tidemark.runs.status.pipeline_status import pipeline_status
from tidemark.sources.kafka.client import TopicState
from tidemark.sources.lag import NotAsked, source_lag
from tidemark.sources.source import Lag

if TYPE_CHECKING:
    from broker.broker import Broker

TIMES = [1_782_900_000_000 + 60_000 * n for n in range(3)]


@pytest.fixture
def place(broker: Broker, tmp_path: Path) -> Place:
    # The messages are older than a broker keeps them by default.
    topic = make_topic(broker, new_name("lag"), 2, retention_ms=-1)
    produce(broker, topic, [b"{}"] * 3, partition=1, timestamps=[TIMES[1], TIMES[2], TIMES[0]])
    return topics_place(tmp_path, broker, {"topic": topic})


def test_lag_is_the_messages_that_were_not_read_and_when_the_first_of_them_came(
    place: Place,
) -> None:
    first = datetime.fromtimestamp(TIMES[1] / 1000, UTC)
    assert source_lag(place.pipeline, place.settings) == Lag(3, first)
    status = pipeline_status(place.pipeline, place.settings, first)
    assert status.source == Lag(3, first)


def test_a_cluster_that_is_away_leaves_the_status_whole(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemark.sources.kafka.client.DOWN_SECONDS", 0.1)
    away = {"broker": {"servers": "127.0.0.1:1", "security_protocol": "PLAINTEXT"}}
    gone = Place(place.root, place.content, connections=away)
    lag = source_lag(gone.pipeline, gone.settings)
    assert isinstance(lag, NotAsked)
    assert lag.because.startswith("SourceUnavailable: The Kafka cluster of the connection `broker`")


@pytest.mark.parametrize("oldest", [1_793_000_000_000_000, -62_135_596_800_001, 2**63 - 1])
def test_a_message_whose_time_is_in_no_year_that_is_known_is_as_one_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, oldest: int
) -> None:
    """As of a producer that writes microseconds."""
    client = "tidemark.sources.kafka.client.KafkaCluster.states"
    monkeypatch.setattr(client, lambda *_: {"t": TopicState("x", {0: 0}, {0: 20})})
    found = "tidemark.sources.kafka.handle.oldest_message_ms"
    monkeypatch.setattr(found, lambda *_: oldest)
    common = {name: value for name, value in clicks()["source"].items() if name != "files"}
    source = {"kafka": {"topic": "t", "connection": "broker"}, **common}
    nowhere = {"broker": {"servers": "127.0.0.1:1", "security_protocol": "PLAINTEXT"}}
    place = Place(tmp_path, clicks(source=source), connections=nowhere)
    assert source_lag(place.pipeline, place.settings) == Lag(20, None)
