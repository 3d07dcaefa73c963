"""Topics that lose messages before they are read, or are made anew: the run stops, says what is
lost, and goes on when that is accepted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.kit.kafka import (
    add_partitions,
    configure_topic,
    delete_records,
    delete_topic,
    make_topic,
    new_name,
    wait_expired,
)
from tests.kit.kafka import produce as produced
from tests.kit.killed import Killed, killed
from tests.kit.running import Place, clicks, run_warm, succeed
from tests.sources.contract.test_every_kind import fail_at
from tests.sources.contract.worlds import Topics
from tidemark.checkpoint.log import Checkpoint
from tidemark.errors import InputLost, SourceNotFound
from tidemark.ledger.rebuild import Ledgered, rebuilt_lines
from tidemark.runs.preflight import NothingNew, run_preflight
from tidemark.runs.results.result import RunResult
from tidemark.runs.run import Run
from tidemark.runs.status.lag_text import lag_text
from tidemark.runs.status.pipeline_status import pipeline_status
from tidemark.runs.status.state import PipelineState
from tidemark.runs.without_spark import run_without_spark
from tidemark.sources.kafka import client
from tidemark.sources.lag import source_lag
from tidemark.sources.notes import source_notes
from tidemark.sources.source import Lag
from tidemark.upkeep.accept_changes import accept_changes, lost_input

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker.broker import Broker

VALUE = '{{"at": "2026-07-01T10:00:00Z", "key": "{}", "amount": 1}}'
KILLS: list[tuple[Literal["before", "after"], str]] = [
    ("before", "source noted"),
    ("after", "source noted"),
]


@pytest.fixture
def place(broker: Broker, tmp_path: Path) -> Place:
    """A pipeline over a topic of one partition that has three messages."""
    Topics.broker = broker
    made = topics_place(tmp_path, broker, {"topic": make_topic(broker, new_name("lost"))})
    write(made, broker, "abc")
    return made


def topics_place(root: Path, broker: Broker, kafka: dict[str, Any]) -> Place:
    common = {name: value for name, value in clicks()["source"].items() if name != "files"}
    source = {"kafka": {"connection": "broker", **kafka}, **common}
    plain = {"servers": broker.servers, "security_protocol": "PLAINTEXT"}
    return Place(root, clicks(source=source), connections={"broker": plain})


def topic_of(place: Place) -> str:
    return str(place.content["source"]["kafka"]["topic"])


def write(place: Place, broker: Broker, keys: Sequence[str], topic: str = "") -> None:
    produced(broker, topic or topic_of(place), [VALUE.format(key) for key in keys], partition=0)


def run_of(place: Place) -> Run:
    return place.run("look")


def stopped(spark: SparkSession, place: Place) -> str:
    """The message of a run that stops at lost input, before it writes anything."""
    before = [place.bronze().num_rows, place.rejects().num_rows]
    error = run_warm(spark, place, "stopped").error
    assert error is not None
    assert error.type == "InputLost", error
    assert not error.retry_can_help
    assert [place.bronze().num_rows, place.rejects().num_rows] == before
    with pytest.raises(InputLost):
        run_of(place).source.check(run_of(place).ingest_checkpoint())
    return error.message


def accept(place: Place) -> None:
    accept_changes(place.pipeline, place.settings, "accept", "it is gone", "me")
    assert not lost_input(place.pipeline, place.settings)


def accepted(place: Place) -> list[tuple[int, str]]:
    return sorted((one["_offset"], one["key"]) for one in place.bronze().to_pylist())


def lost_rows(place: Place) -> list[tuple[int, str]]:
    """Offset and reason of the rejects."""
    return sorted((one["_offset"], one["reason"]) for one in place.rejects().to_pylist())


def is_right(spark: SparkSession, place: Place) -> None:
    """Gold is what bronze says, and a run finds nothing more."""
    gold = {one["key"]: one["events"] for one in place.gold().to_pylist()}
    keys = [one["key"] for one in place.bronze().to_pylist()]
    assert gold == {key: keys.count(key) for key in keys}
    assert isinstance(run_preflight(run_of(place)), NothingNew)


def test_messages_that_expired_before_they_were_read_stop_the_run_until_accepted(
    spark: SparkSession, broker: Broker, place: Place
) -> None:
    succeed(spark, place, "one")
    write(place, broker, "defg")
    delete_records(broker, topic_of(place), {0: 5})
    lag = source_lag(place.pipeline, place.settings)
    assert isinstance(lag, Lag)
    assert (lag.messages, lag.lost) == (4, 1)
    assert "some is gone or changed: the next run stops" in lag_text(lag)
    status = pipeline_status(place.pipeline, place.settings, datetime.now(UTC))
    assert status.state is PipelineState.STOPPED
    assert "`tidemark accept clicks` tells what it is" in status.next_step
    without = run_without_spark(run_of(place), datetime.now(UTC), place.places.result("look"))
    assert isinstance(without, RunResult)
    assert without.without_spark == "the run stops at what the source lost"
    message = stopped(spark, place)
    assert "2 offsets of partition 0" in message
    assert without.error is not None
    assert (without.error.type, without.error.message) == ("InputLost", message)
    assert "(3 to 4) expired before being read: the oldest that is kept is 5" in message
    assert "was last read at 2" in message
    assert "tidemark accept clicks" in message
    accept(place)
    # More expires before the next run: that was not accepted.
    delete_records(broker, topic_of(place), {0: 6})
    assert "1 offset of partition 0" in stopped(spark, place)
    accept(place)
    rows = succeed(spark, place, "two").rows
    assert (rows.read, rows.accepted, rows.rejected) == (3, 1, {"expired": 2})
    assert accepted(place) == [(0, "a"), (1, "b"), (2, "c"), (6, "g")]
    assert lost_rows(place) == [(3, "expired"), (5, "expired")]
    detail = place.rejects().to_pylist()[0]["detail"]
    assert detail.endswith("Accepted by me: it is gone")
    is_right(spark, place)


@pytest.mark.parametrize("more", [2, pytest.param(7, marks=pytest.mark.long)])
def test_a_topic_made_anew_with_fewer_or_more_messages_is_told_and_read_from_its_beginning(
    spark: SparkSession, broker: Broker, place: Place, more: int
) -> None:
    succeed(spark, place, "one")
    delete_topic(broker, topic_of(place))
    error = run_warm(spark, place, "deleted").error
    assert error is not None
    assert (error.type, error.retry_can_help) == ("SourceNotFound", True)
    make_topic(broker, topic_of(place))
    write(place, broker, "uvwxyzr"[:more])
    message = stopped(spark, place)
    assert "from offset 3 on went with the topic of id" in message
    assert "another topic of that name stands there now" in message
    accept(place)
    rows = succeed(spark, place, "two").rows
    assert (rows.accepted, rows.rejected) == (more, {"replaced": 1})
    assert accepted(place) == sorted([(0, "a"), (1, "b"), (2, "c"), *enumerate("uvwxyzr"[:more])])
    assert lost_rows(place) == [(3, "replaced")]
    is_right(spark, place)


@pytest.mark.long
def test_of_a_planned_batch_whose_topic_was_made_anew_nothing_is_read_from_the_other(
    spark: SparkSession, broker: Broker, place: Place
) -> None:
    """It has as many messages, at the same offsets."""
    world = Topics(place.root)
    world.place = place
    fail_at(spark, world, ("accepted rows", "before"))
    delete_topic(broker, topic_of(place))
    make_topic(broker, topic_of(place))
    write(place, broker, "xyz")
    assert "planned and not read" in stopped(spark, place)
    accept(place)
    rows = succeed(spark, place, "two").rows
    assert (rows.accepted, rows.rejected) == (3, {"replaced": 2})
    assert accepted(place) == [(0, "x"), (1, "y"), (2, "z")]
    assert lost_rows(place) == [(0, "replaced"), (3, "replaced")]
    is_right(spark, place)


@pytest.mark.long
def test_messages_that_retention_took_stop_the_run_until_accepted_and_the_ledger_adds_up(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    short = {"retention_ms": 200, "segment_ms": 100}
    topic = make_topic(broker, new_name("retained"), 2, retention_ms=-1)
    place = topics_place(tmp_path, broker, {"topic": topic})
    write(place, broker, "ab")
    succeed(spark, place, "one")
    write(place, broker, "cd")
    configure_topic(broker, topic, **short)
    wait_expired(broker, topic, {0: 4})
    configure_topic(broker, topic, retention_ms=-1)
    assert "(2 to 3) expired before being read" in stopped(spark, place)
    write(place, broker, "e")
    accept(place)
    rows = succeed(spark, place, "two").rows
    assert (rows.read, rows.accepted, rows.rejected) == (2, 1, {"expired": 1})
    assert accepted(place) == [(0, "a"), (1, "b"), (4, "e")]
    assert lost_rows(place) == [(2, "expired")]
    adds_up(place)
    is_right(spark, place)


@pytest.mark.long
def test_a_topic_made_anew_with_fewer_partitions_is_another(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = make_topic(broker, new_name("fewer"), 3)
    place = topics_place(tmp_path, broker, {"topic": topic})
    for partition in range(3):
        produced(broker, topic, [VALUE.format(partition)], partition=partition)
    succeed(spark, place, "one")
    produced(broker, topic, [VALUE.format("unread")], partition=2)
    delete_topic(broker, topic)
    make_topic(broker, topic, 1)
    write(place, broker, "xyz")
    message = stopped(spark, place)
    assert "partition 2" in message
    assert "from offset 1 on went with the topic of id" in message
    accept(place)
    rows = succeed(spark, place, "two").rows
    assert (rows.accepted, rows.rejected) == (3, {"replaced": 3})
    adds_up(place)
    is_right(spark, place)


@pytest.mark.long
def test_another_topic_in_the_file_is_refused_and_nothing_is_read_of_it(
    spark: SparkSession, broker: Broker, place: Place
) -> None:
    succeed(spark, place, "one")
    other = make_topic(broker, new_name("other"))
    write(place, broker, "xyz", other)
    changed = topics_place(place.root, broker, {"topic": other})
    error = run_warm(spark, changed, "changed").error
    assert error is not None
    assert not error.retry_can_help
    assert "not read yet would be left out" in error.message
    assert accepted(place) == [(0, "a"), (1, "b"), (2, "c")]
    write(place, broker, "d")
    assert succeed(spark, place, "two").rows.read == 1
    is_right(spark, place)


@pytest.mark.long
def test_of_a_broker_without_ids_a_topic_made_anew_is_known_by_its_end(
    spark: SparkSession, broker: Broker, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that already has as many messages as were read is not known for another."""
    original = client._Described
    monkeypatch.setattr(client, "_Described", lambda _, partitions: original("", partitions))
    succeed(spark, place, "one")
    delete_topic(broker, topic_of(place))
    make_topic(broker, topic_of(place))
    write(place, broker, "uv")
    assert "went with the topic of id (none)" in stopped(spark, place)
    accept(place)
    rows = succeed(spark, place, "two").rows
    assert (rows.accepted, rows.rejected) == (2, {"replaced": 1})
    adds_up(place)
    is_right(spark, place)


def adds_up(place: Place) -> None:
    """The ledger, also built anew: what was read is in one of both tables."""
    ledger = place.table(place.places.ledger).to_pylist()
    lines = {one["batch"]: one for one in ledger if one["kind"] == "ingest"}
    assert all(one["balanced"] is not False for one in ledger)
    found = [sum(one[name] for one in lines.values()) for name in ("read", "accepted", "rejected")]
    rows = [place.bronze().num_rows, place.rejects().num_rows]
    assert found == [sum(rows), *rows]
    anew = rebuilt_lines(Ledgered(place.pipeline, place.warehouse))
    for one in anew:
        if one.kind == "ingest":
            line = lines[one.batch]
            told = (line["read"], line["accepted"], line["rejected"])
            assert (one.read, one.accepted, one.rejected) == told


@pytest.mark.long
def test_a_topic_made_anew_while_its_batch_is_read_is_found_before_the_commit(
    spark: SparkSession, broker: Broker, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark.streaming.ingest import ingest

    original = ingest.judge_batch

    def judged(*arguments: Any, **named: Any) -> Any:
        found = original(*arguments, **named)
        delete_topic(broker, topic_of(place))
        make_topic(broker, topic_of(place))
        write(place, broker, "xyz")
        return found

    monkeypatch.setattr(ingest, "judge_batch", judged)
    error = run_warm(spark, place, "one").error
    assert error is not None
    assert error.type == "InputLost"
    assert place.bronze().num_rows == 0


@pytest.mark.long
def test_of_a_pattern_a_topic_that_goes_is_told_and_one_that_comes_is_read_from_its_beginning(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    name = new_name("pattern")
    for end in "ab":
        make_topic(broker, f"{name}-{end}")
    place = topics_place(tmp_path, broker, {"pattern": f"{name}-.*"})
    write(place, broker, "a", f"{name}-a")
    write(place, broker, "b", f"{name}-b")
    succeed(spark, place, "one")
    delete_topic(broker, f"{name}-b")
    make_topic(broker, f"{name}-c")
    write(place, broker, "cd", f"{name}-c")
    assert "went with the topic, which was deleted" in stopped(spark, place)
    accept(place)
    rows = succeed(spark, place, "two").rows
    assert (rows.accepted, rows.rejected) == (2, {"deleted": 1})
    add_partitions(broker, f"{name}-c", 2)
    produced(broker, f"{name}-c", ['{"at": "2026-07-01T10:00:00Z", "key": "e"}'], partition=1)
    assert succeed(spark, place, "three").rows.accepted == 1
    is_right(spark, place)
    for end in "ac":
        delete_topic(broker, f"{name}-{end}")
    with pytest.raises(InputLost):
        run_of(place).source.check(run_of(place).ingest_checkpoint())


@pytest.mark.long
def test_an_acceptance_that_was_killed_is_repeated(
    spark: SparkSession, broker: Broker, place: Place
) -> None:
    succeed(spark, place, "one")
    write(place, broker, "de")
    delete_records(broker, topic_of(place), {0: 4})
    for when, step in KILLS:
        with killed(when, step), pytest.raises(Killed):
            accept(place)
    accept(place)
    notes = source_notes(Checkpoint(place.places.ingest_checkpoint, {}))
    assert [one.part for one in notes.lost] == [f"{topic_of(place)}/0/3-3"]
    assert succeed(spark, place, "two").rows.rejected == {"expired": 1}
    assert accepted(place) == [(0, "a"), (1, "b"), (2, "c"), (4, "e")]


def test_a_topic_that_is_not_there_is_told_by_name(broker: Broker, tmp_path: Path) -> None:
    place = topics_place(tmp_path, broker, {"topic": "nothing-there"})
    with pytest.raises(SourceNotFound, match="There is no topic `nothing-there`"):
        run_of(place).source.check(run_of(place).ingest_checkpoint())
