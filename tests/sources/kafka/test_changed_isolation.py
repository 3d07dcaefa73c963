"""A pipeline over topics that is asked to read another isolation from now on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.kafka import make_topic, new_name, produce_transaction
from tests.kit.running import Place, run_warm, succeed
from tests.sources.kafka.test_lost_topics import VALUE, accepted, is_right, topics_place, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker.broker import Broker

LEVELS = ("read_committed", "read_uncommitted")


def reading(place: Place, isolation: str) -> Place:
    source: dict[str, Any] = place.content["source"]
    kafka = source["kafka"] | {"isolation": isolation}
    content = {**place.content, "source": source | {"kafka": kafka}}
    return Place(place.root, content, connections=place.connections)


@pytest.mark.long
@pytest.mark.parametrize(("was", "asked"), [LEVELS, LEVELS[::-1]])
def test_a_run_with_another_isolation_is_refused_and_the_former_one_goes_on(
    spark: SparkSession, broker: Broker, tmp_path: Path, was: str, asked: str
) -> None:
    topic = make_topic(broker, new_name("isolated"))
    place = reading(topics_place(tmp_path, broker, {"topic": topic}), was)
    write(place, broker, "ab")
    succeed(spark, place, "one")
    produce_transaction(broker, topic, [VALUE.format("c")], partition=0, abort=True)
    write(place, broker, "d")
    error = run_warm(spark, reading(place, asked), "refused").error
    assert error is not None
    assert (error.type, error.retry_can_help) == ("PipelineChanged", False)
    assert f"source.kafka.isolation: {was} → {asked}: not allowed" in error.message
    assert "Messages of aborted transactions would be in bronze" in error.message
    assert "Nothing was written" in error.message
    assert accepted(place) == [(0, "a"), (1, "b")]
    succeed(spark, place, "two")
    aborted = [(2, "c")] if was == "read_uncommitted" else []
    assert accepted(place) == [(0, "a"), (1, "b"), *aborted, (4, "d")]
    is_right(spark, place)
