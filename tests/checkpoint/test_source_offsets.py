"""An offset is told by its shape: the JSON that each source's offset class writes."""

from __future__ import annotations

from typing import Any

import pytest

from tidemark.checkpoint.reading.log_formats import (
    NotTheFormat,
    UnknownFormat,
    parse_commit,
    parse_offsets,
)
from tidemark.checkpoint.reading.source_offsets import (
    CountOffset,
    DeltaOffset,
    FileOffset,
    KafkaOffset,
    PlannedTopics,
    PlannedVersions,
    RateOffset,
    SourceOffset,
    UnknownOffset,
    source_offset,
)
from tidemark.sources.delta.offsets import Offset
from tidemark.sources.kafka.offsets import TopicOffset, offset_text

TWO = {0: (("a",), ("b",))}
DELTA = '{"sourceVersion":1,"reservoirId":"t","reservoirVersion":3,"index":-1,'


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ('{"logOffset":7}', FileOffset(7)),
        (f'{DELTA}"isStartingVersion":false}}', DeltaOffset("t", 3, -1, False)),
        (f'{DELTA}"isInitialSnapshot":true}}', DeltaOffset("t", 3, -1, True)),
        ('{"clicks":{"0":12,"1":-2}}', KafkaOffset({"clicks": {0: 12, 1: -2}})),
        ('{"a":{"0":1},"b":{"0":2}}', KafkaOffset({"a": {0: 1}, "b": {0: 2}})),
        (
            '{"a": {"id": "x1", "from": {"0": 0, "1": 5}, "next": {"0": 3, "1": 5}}}',
            PlannedTopics({"a": "x1"}, {"a": {0: 3, 1: 5}}),
        ),
        (
            offset_text({"a": TopicOffset("x1", {0: 0}, {0: 3}, again=True)}),
            PlannedTopics({"a": "x1"}, {"a": {0: 3}}),
        ),
        ('{"a": {"id": "", "from": {}}}', UnknownOffset('{"a": {"id": "", "from": {}}}')),
        ('{"id": "t", "snapshot": null, "from": 3, "next": 7}', PlannedVersions("t", 7)),
        (Offset("t", 3, 7, mark="9c2").text, PlannedVersions("t", 7)),
        (Offset("t", 3, 3, 2, None, 4, 8, "act").text, PlannedVersions("t", 3)),
        ("42", CountOffset(42)),
        ("-1", CountOffset(-1)),
        ('{"offset":3,"timestamp":1000}', RateOffset('{"offset":3,"timestamp":1000}')),
        (
            '{"0":{"value":5,"runTimeMs":1000}}',
            RateOffset('{"0":{"value":5,"runTimeMs":1000}}'),
        ),
        ('{"shards":[1,2]}', UnknownOffset('{"shards":[1,2]}')),
        ("{}", UnknownOffset("{}")),
        ('{"logOffset":', UnknownOffset('{"logOffset":')),
        ("true", UnknownOffset("true")),
    ],
)
def test_an_offset_is_told_by_its_shape(text: str, offset: SourceOffset) -> None:
    assert source_offset(text) == offset


def test_where_partitions_stand_is_told_one_by_one_up_to_six_of_them() -> None:
    few, many = KafkaOffset({"a": {1: 7, 0: 1200}}), KafkaOffset({"a": dict.fromkeys(range(7), 2)})
    assert few.summary == "a: partition 0 before offset 1,200, partition 1 before offset 7"
    assert many.summary == "a: 7 partitions, sum of offsets 14"
    planned = PlannedTopics({"a": "x1", "b": ""}, {"a": {0: 3}, "b": {0: 1}})
    assert planned.summary == (
        "a (id x1): partition 0 before offset 3; b (id not known): partition 0 before offset 1"
    )
    assert PlannedVersions("t", 7).summary == "before version 7 of table t"


def test_offsets_by_source_id_keep_the_names_and_kinds_of_the_sources() -> None:
    """OffsetMap, version 2 of the offset log (Spark 4.1 or later)."""
    info = '{"sourceId":"clicks","providerName":"rate","apiVersion":"v2"}'
    metadata = (
        '{"batchWatermarkMs":5,"batchTimestampMs":9,"conf":{"a":"b"},'
        f'"sourceMetadataInfo":{{"clicks":{info}}}}}'
    )
    entry = parse_offsets(3, f'v2\n{metadata}\nclicks:{{"logOffset":1}}\nviews:-'.encode())
    assert entry.version == 2
    assert entry.sources == {"clicks": '{"logOffset":1}', "views": None}
    assert entry.providers == {"clicks": "rate"}
    assert (entry.watermark_ms, entry.batch_time_ms, entry.conf) == (5, 9, {"a": "b"})


@pytest.mark.parametrize(
    ("text", "watermark", "ids"),
    [
        ("v1", 0, {}),
        ("v1\n{}", 0, {}),
        ('v1\n{"nextBatchWatermarkMs":7}', 7, {}),
        ('v2\n{"nextBatchWatermarkMs":7,"stateUniqueIds":{"0":[["a"],["b"]]}}', 7, TWO),
        (
            'v3\n{"nextBatchWatermarkMs":7,"stateUniqueIds":{"0":[["a"],["b"]]},'
            '"sinkMetadataMap":{"sink":{"sinkName":"sink"}}}',
            7,
            TWO,
        ),
    ],
)
def test_a_commit_tells_the_watermark_and_the_ids_of_state_files(
    text: str, watermark: int, ids: dict[int, Any]
) -> None:
    """CommitMetadata, CommitMetadataV2 and V3."""
    commit = parse_commit(0, text.encode())
    assert (commit.next_watermark_ms, commit.state_ids) == (watermark, ids)


def test_offsets_without_metadata_are_those_of_spark_2_0() -> None:
    entry = parse_offsets(0, b"v1\n\n12\n-")
    assert (entry.watermark_ms, entry.batch_time_ms) == (None, None)
    assert entry.sources == {"0": "12", "1": None}


@pytest.mark.parametrize("text", ["v2\n{}\nno colon", "v1", 'v1\n{"conf":3}', "v1\n[]"])
def test_offsets_that_the_engine_does_not_write_are_refused(text: str) -> None:
    with pytest.raises(NotTheFormat):
        parse_offsets(0, text.encode())


@pytest.mark.parametrize("text", ["v3\n{}", "v0\n{}", "x\n{}", "vx\n{}", "\n{}"])
def test_a_version_that_is_not_known_is_not_guessed(text: str) -> None:
    with pytest.raises(UnknownFormat):
        parse_offsets(0, text.encode())
