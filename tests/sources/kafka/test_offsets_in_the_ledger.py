"""What was read of a topic is held against its offsets, in the ledger and in what a run prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from tests.kit.kafka import delete_records, make_topic, new_name, produce_transaction
from tests.kit.running import Place, query, succeed
from tests.sources.kafka.test_lost_topics import accept, topic_of, topics_place, write
from tidemark.checkpoint.log import Checkpoint
from tidemark.cli.main import app
from tidemark.cli.report import offsets_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from broker.broker import Broker

LINES = """
    SELECT batch, offsets, without_record, rejected_parts, read, accepted, rejected, difference
    FROM lines WHERE kind = 'ingest' ORDER BY batch
"""


def ledger(place: Place, command: str) -> str:
    return CliRunner().invoke(app, ["ledger", command, "clicks"], env=place.variables).output


def test_offsets_without_a_record_and_lost_ones_are_in_the_ledger_and_in_a_rebuilt_one(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    place = topics_place(tmp_path, broker, {"topic": make_topic(broker, new_name("counted"))})
    place.write_file()
    # Each transaction ends with a marker, which has an offset; aborted messages have theirs too.
    produce_transaction(broker, topic_of(place), [_value("x")] * 4, abort=True)
    produce_transaction(broker, topic_of(place), [_value("a"), _value("b"), "not JSON"])
    first = succeed(spark, place, "one").rows
    assert (first.read, first.offsets, first.without_record) == (3, 9, 6)
    assert offsets_text(first) == "offsets read: 9, 6 of them without a record"
    write(place, broker, "cde")
    delete_records(broker, topic_of(place), {0: 11})
    accept(place)
    succeed(spark, place, "two")
    lines = [(0, 9, 6, 0, 3, 2, 1, 0), (1, 1, 0, 1, 2, 1, 1, 0)]
    assert query(LINES, lines=place.table(place.places.ledger)) == lines
    shown = ledger(place, "show")
    total = "10 offsets - 6 without a record + 1 lost = 5 read = 3 accepted + 2 rejected"
    assert total in shown
    assert "9 offsets - 6 without a record = 3 read = 2 accepted + 1 rejected" in shown
    assert "written" in ledger(place, "rebuild")
    assert query(LINES, lines=place.table(place.places.ledger)) == lines
    doctor = CliRunner().invoke(app, ["checkpoint", "doctor", "clicks"], env=place.variables)
    topic_id = Checkpoint(place.places.ingest_checkpoint, {}).offsets(1).sources[0]
    assert "partition 0 before offset 12" in doctor.output
    assert str(topic_id).split('"')[5] in doctor.output
    assert "The source has nothing that was not read." in doctor.output


def _value(key: str) -> str:
    return f'{{"at": "2026-07-01T10:00:00Z", "key": "{key}", "amount": 1}}'
