"""Checkpoints that Spark 3.5, 4.0 and 4.2 made: what is read from them is what the engine itself
said of them, as recorded when they were made (`data/made/VERSION/KIND.json`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.checkpoint.archives import answers, land_listed, names, unpack
from tests.checkpoint.damaged import diagnosis_of, facts_of
from tests.checkpoint.make_checkpoints import KINDS
from tidemark.checkpoint.doctor.findings import CheckpointVerdict
from tidemark.checkpoint.reading.facts import CheckpointFacts, StatefulOperator
from tidemark.checkpoint.reading.source_offsets import UnknownOffset
from tidemark.checkpoint.reading.state_files import Provider
from tidemark.pipeline.instants import instant_text

VERSIONS = {"3.5": (3, 5), "4.0": (4, 0), "4.2": (4, 2)}
STATEFUL = [name for name in names() if answers(name)["operators"]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All committed checkpoints, unpacked; the files of file sources are where they should be."""
    folders = {}
    for name in names():
        folders[name] = unpack(name, tmp_path_factory.mktemp("made") / name.replace("/", "-"))
        land_listed(folders[name])
    return folders


@pytest.fixture
def facts(made: dict[str, Path], name: str) -> CheckpointFacts:
    return facts_of(made[name])


def test_every_kind_was_made_by_every_version_that_knows_it() -> None:
    there = {(name[: len("4.2")], name.partition("/")[2]) for name in names()}
    wanted = {
        (version, kind)
        for version, number in VERSIONS.items()
        for kind, one in KINDS.items()
        if one.since <= number
    }
    assert there == wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_a_query_that_ended_well_has_a_clean_end(made: dict[str, Path], name: str) -> None:
    told = diagnosis_of(made[name])
    # In complete mode no batch applies the last watermark.
    complete = KINDS[name.partition("/")[2]].mode == "complete"
    assert told.verdict is (
        CheckpointVerdict.NO_DATA_BATCH if complete else CheckpointVerdict.CLEAN_END
    )
    assert [one for one in told.findings if "No data" not in one.known][complete:] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_batch_watermark_and_id_are_those_of_the_last_progress(
    facts: CheckpointFacts, name: str
) -> None:
    said = answers(name)
    newest = facts.offsets.entry(facts.offsets.newest)
    assert newest is not None
    assert facts.query_id == said["id"]
    assert facts.offsets.newest == facts.commits.newest == said["batch"]
    assert facts.next_batch == said["batch"] + 1
    if said["watermark"] is not None:
        seconds = said["watermark"].replace(".000Z", "Z")
        assert instant_text(newest.watermark_ms or 0) == seconds


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_each_source_ends_where_the_last_progress_says(facts: CheckpointFacts, name: str) -> None:
    newest = facts.offsets.entry(facts.offsets.newest)
    assert newest is not None
    read = [None if text is None else json.loads(text) for text in newest.sources.values()]
    assert read == answers(name)["ends"]
    assert not [one for one in facts.sources if isinstance(one.offset, UnknownOffset)]


@pytest.mark.slow
@pytest.mark.parametrize("name", STATEFUL)
def test_operators_are_those_of_the_last_progress(facts: CheckpointFacts, name: str) -> None:
    said = answers(name)["operators"]
    # Spark 3.5 writes no metadata of operators, so their names are not known.
    named = not name.startswith("3.")
    read = [(_name(one), len(one.stores)) for one in facts.operators]
    told = [(one["name"] if named else None, one["stores"]) for one in said]
    assert sorted(read, key=str) == sorted(told, key=str)
    partitions = {str(one["partitions"]) for one in said}
    # An aggregate without keys has one partition; Spark 3.5 says so, 4.0 names the setting.
    assert partitions - ({"1"} if "total" in name else set()) <= {
        facts.conf["spark.sql.shuffle.partitions"]
    }


def _name(operator: StatefulOperator) -> str | None:
    return operator.metadata.name if operator.metadata else None


@pytest.mark.slow
@pytest.mark.parametrize("name", STATEFUL)
def test_the_files_show_the_state_store_that_was_set(facts: CheckpointFacts, name: str) -> None:
    providers = {store.provider for operator in facts.operators for store in operator.stores}
    store = name.partition("/")[2]
    wanted = Provider.HDFS_BACKED
    if "rocksdb" in store:
        wanted = Provider.ROCKSDB
    if "changelog" in store or "format2" in store:
        wanted = Provider.ROCKSDB_CHANGELOG
    assert providers == {wanted}


@pytest.mark.parametrize("name", [n for n in STATEFUL if "state_metadata" in answers(n)])
def test_stores_are_those_that_the_reader_of_state_metadata_gives(
    facts: CheckpointFacts, name: str
) -> None:
    said = answers(name)["state_metadata"]
    read = [
        (
            operator.id,
            operator.metadata.name,
            store,
            operator.metadata.partitions,
            facts.commits.batches[0],
            facts.commits.newest,
        )
        for operator in facts.operators
        if operator.metadata
        for store in operator.metadata.stores
    ]
    keys = ("operatorId", "operatorName", "stateStoreName", "numPartitions")
    keys = (*keys, "minBatchId", "maxBatchId")
    assert sorted(read) == sorted(tuple(row[key] for key in keys) for row in said)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in STATEFUL if "statestore" in answers(n)])
def test_the_columns_of_the_state_are_those_that_its_reader_gives(
    facts: CheckpointFacts, name: str
) -> None:
    for operator, said in answers(name)["statestore"].items():
        (read,) = [one for one in facts.operators if one.id == int(operator)]
        if read.metadata is not None and read.metadata.version == 2:
            # Arbitrary state has schemas of version 3, of which only the version is read.
            assert {schema.version for schema in read.schemas.values()} == {3}
        elif "join" in name:
            # The reader puts a side of a join together from its stores.
            assert any(set(said["value"]) <= set(one.value) for one in read.schemas.values())
        else:
            assert [(list(one.key), list(one.value)) for one in read.schemas.values()] == [
                (said["key"], said["value"])
            ]
