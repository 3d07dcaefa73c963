"""The doctor on real checkpoints, whole and damaged.

What it says of the engine was seen in runs of Spark 4.2 or read in its source; these tests hold
the doctor to it, they do not run Spark.
"""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.checkpoint.archives import checksum_of, unpack
from tests.checkpoint.damaged import (
    DATA,
    NOW,
    copy_of,
    diagnosis_of,
    edit_offsets,
    facts_of,
    finding_of,
    kinds,
    move_source_files,
    remove,
    twin,
    write,
)
from tests.checkpoint.damages import DAMAGES, DATA_BATCH
from tidemark.checkpoint.doctor.findings import CheckpointVerdict, FindingKind, Severity
from tidemark.checkpoint.doctor.judge import QueryFacts, judge_checkpoint

RIGHT = "2b9c0e48-0538-4cab-a248-9462ccd93317"


@pytest.fixture
def aggregate(tmp_path: Path) -> Path:
    return copy_of("aggregate", tmp_path)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A checkpoint of a file source that was killed in batch 1; the source's files are there."""
    folder = copy_of("files_killed", tmp_path)
    move_source_files(folder, tmp_path / "landing")
    return folder


def test_a_query_that_ended_well_has_a_clean_end_and_nothing_to_say(aggregate: Path) -> None:
    told = diagnosis_of(aggregate)
    assert (told.verdict, told.batch, told.findings) == (CheckpointVerdict.CLEAN_END, 4, ())
    assert told.sentence == "Batch 3 is done; the next one is batch 4, with new offsets."


def test_a_query_that_was_killed_runs_its_batch_again(killed: Path) -> None:
    told = diagnosis_of(killed)
    assert (told.verdict, told.batch) == (CheckpointVerdict.KILLED, 1)
    assert kinds(told) == {FindingKind.REPEATED_BATCH}
    assert "same offsets" in finding_of(told, FindingKind.REPEATED_BATCH).engine


def test_a_folder_with_nothing_but_an_identity_is_new(aggregate: Path) -> None:
    for name in ("offsets", "commits", "state"):
        shutil.rmtree(aggregate / name)
    told = diagnosis_of(aggregate)
    assert (told.verdict, told.batch, told.findings) == (CheckpointVerdict.NEW, 0, ())


def test_a_query_killed_in_its_first_batch_needs_no_state(aggregate: Path) -> None:
    for path in [*aggregate.glob("offsets/[1-3]"), *aggregate.glob("commits/[0-3]")]:
        remove(path)
    shutil.rmtree(aggregate / "state")
    told = diagnosis_of(aggregate)
    assert (told.verdict, told.batch) == (CheckpointVerdict.KILLED, 0)


def test_a_watermark_that_no_batch_applied_makes_a_no_data_batch_due() -> None:
    told = diagnosis_of(DATA / "complete_mode")
    assert (told.verdict, told.batch) == (CheckpointVerdict.NO_DATA_BATCH, 2)
    found = finding_of(told, FindingKind.NO_DATA_BATCH)
    assert found.files == ("commits/1", "offsets/1")
    assert "not in complete mode, which the files do not tell" in found.engine


def test_in_complete_mode_no_such_batch_is_due_where_the_mode_is_known() -> None:
    told = diagnosis_of(DATA / "complete_mode", QueryFacts(output_mode="complete"))
    assert told.verdict is CheckpointVerdict.CLEAN_END
    update = diagnosis_of(DATA / "complete_mode", QueryFacts(output_mode="update"))
    assert update.verdict is CheckpointVerdict.NO_DATA_BATCH


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("offsets/3", "`Incomplete log file`"),
        ("commits/3", "`Incomplete log file in the offset commit log`"),
    ],
)
def test_an_empty_newest_file_is_damage_in_the_engines_words(
    aggregate: Path, name: str, engine: str
) -> None:
    write(aggregate / name, b"")
    told = diagnosis_of(aggregate)
    found = finding_of(told, FindingKind.LOG_FILE)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert told.batch is None
    assert found.known == f"{name} is empty."
    assert engine in found.engine
    assert found.files == (name,)


@pytest.mark.parametrize("name", ["offsets/3", "offsets/2", "commits/3"])
@pytest.mark.parametrize("keep", [0.01, 0.5])
def test_a_cut_file_that_a_start_reads_is_damage(aggregate: Path, name: str, keep: float) -> None:
    path = aggregate / name
    data = path.read_bytes()
    write(path, data[: max(4, int(len(data) * keep))])
    told = diagnosis_of(aggregate)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert finding_of(told, FindingKind.LOG_FILE).files == (name,)


@pytest.mark.parametrize("name", ["offsets/1", "commits/2"])
def test_an_unusable_older_file_is_a_warning(aggregate: Path, name: str) -> None:
    write(aggregate / name, b"")
    told = diagnosis_of(aggregate)
    assert told.verdict is CheckpointVerdict.CLEAN_END
    assert finding_of(told, FindingKind.LOG_FILE).severity is Severity.WARNING


def test_an_empty_last_commit_may_be_moved_away(aggregate: Path) -> None:
    write(aggregate / "commits/3", b"")
    assert "runs batch 3 again" in finding_of(diagnosis_of(aggregate), FindingKind.LOG_FILE).advice
    remove(aggregate / "commits/3")
    assert diagnosis_of(aggregate).verdict is CheckpointVerdict.KILLED


def test_an_empty_offset_file_of_a_batch_that_never_ended_may_be_moved_away(killed: Path) -> None:
    write(killed / "offsets/1", b"")
    told = diagnosis_of(killed)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert "moved away the engine plans" in finding_of(told, FindingKind.LOG_FILE).advice
    remove(killed / "offsets/1")
    assert diagnosis_of(killed).verdict is CheckpointVerdict.CLEAN_END


def test_an_empty_offset_file_of_a_batch_that_wrote_state_is_not_just_moved_away(
    tmp_path: Path,
) -> None:
    damage = DAMAGES["offsets-last-of-killed-empty"]
    folder = unpack(damage.base, tmp_path)
    damage.act(folder)
    advice = finding_of(diagnosis_of(folder), FindingKind.LOG_FILE).advice
    assert (
        f"`tidemark checkpoint repair` takes the query back to the end of batch {DATA_BATCH - 1}"
        in advice
    )
    assert f"Do not just move offsets/{DATA_BATCH} away" in advice
    remove(folder / f"offsets/{DATA_BATCH}")
    told = diagnosis_of(folder)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert FindingKind.STATE_AHEAD in kinds(told)


def test_an_empty_offset_file_of_a_first_batch_that_wrote_state_needs_a_new_folder(
    aggregate: Path,
) -> None:
    for path in [*aggregate.glob("offsets/[1-3]"), *aggregate.glob("commits/[0-3]")]:
        remove(path)
    write(aggregate / "offsets/0", b"")
    advice = finding_of(diagnosis_of(aggregate), FindingKind.LOG_FILE).advice
    assert "start the query in a new folder" in advice


def test_a_log_of_a_newer_format_is_unknown_not_damaged(aggregate: Path) -> None:
    write(aggregate / "offsets/3", b"v3\n{}\n{}")
    told = diagnosis_of(aggregate)
    assert told.verdict is CheckpointVerdict.UNKNOWN
    assert "v3" in finding_of(told, FindingKind.UNKNOWN_FORMAT).known


def test_the_last_but_one_offset_file_is_needed_and_an_older_one_is_not(aggregate: Path) -> None:
    remove(aggregate / "offsets/1")
    older = diagnosis_of(aggregate)
    assert older.verdict is CheckpointVerdict.CLEAN_END
    assert finding_of(older, FindingKind.GAP).severity is Severity.WARNING
    shutil.copytree(DATA / "aggregate", aggregate, dirs_exist_ok=True)
    remove(aggregate / "offsets/2")
    told = diagnosis_of(aggregate)
    found = finding_of(told, FindingKind.GAP)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert "`batch 2 doesn't exist`" in found.engine
    assert found.files == ("offsets/2",)


def test_files_that_the_engine_removed_at_the_old_end_are_no_gap(aggregate: Path) -> None:
    for name in ("offsets/0", "offsets/1", "commits/0", "commits/1"):
        remove(aggregate / name)
    assert diagnosis_of(aggregate).findings == ()


def test_a_stray_file_with_a_huge_number_is_taken_as_the_engine_takes_it(aggregate: Path) -> None:
    for log in ("offsets", "commits"):
        shutil.copy(aggregate / log / "3", aggregate / log / "20261121120000")
    told = diagnosis_of(aggregate)
    assert told.verdict is CheckpointVerdict.DAMAGED
    gap, *old = [one for one in told.findings if one.kind is FindingKind.GAP]
    assert gap.files == ("offsets/20261121119999",)
    assert [one.files[0] for one in old] == ["offsets/4", "commits/4"]
    assert [one.count for one in old] == [20261121120000 - 5, 20261121120000 - 4]


def test_a_gap_among_old_commits_is_a_warning(aggregate: Path) -> None:
    remove(aggregate / "commits/1")
    told = diagnosis_of(aggregate)
    assert told.verdict is CheckpointVerdict.CLEAN_END
    assert finding_of(told, FindingKind.GAP).files == ("commits/1",)


def test_a_missing_last_commit_makes_the_batch_run_again(aggregate: Path) -> None:
    remove(aggregate / "commits/3")
    told = diagnosis_of(aggregate)
    assert (told.verdict, told.batch, kinds(told)) == (
        CheckpointVerdict.KILLED,
        3,
        {FindingKind.REPEATED_BATCH},
    )


def test_commits_that_trail_by_more_than_one_are_told(aggregate: Path) -> None:
    remove(aggregate / "commits/3")
    remove(aggregate / "commits/2")
    told = diagnosis_of(aggregate)
    assert (told.verdict, told.batch) == (CheckpointVerdict.KILLED, 3)
    assert finding_of(told, FindingKind.GAP).files == ("commits/2",)


def test_a_commit_without_its_offset_is_damage_and_not_called_two_writers(aggregate: Path) -> None:
    remove(aggregate / "offsets/3")
    told = diagnosis_of(aggregate)
    found = finding_of(told, FindingKind.COMMIT_WITHOUT_OFFSET)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert kinds(told) == {FindingKind.COMMIT_WITHOUT_OFFSET}
    assert "CONCURRENT_STREAM_LOG_UPDATE" in found.engine
    assert found.files == ("offsets/3",)


def test_without_any_offsets_the_commits_are_damage(aggregate: Path) -> None:
    shutil.rmtree(aggregate / "offsets")
    told = diagnosis_of(aggregate)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert "begins with batch 0 again" in finding_of(told, FindingKind.COMMIT_WITHOUT_OFFSET).engine


def test_a_missing_identity_is_damage(aggregate: Path) -> None:
    remove(aggregate / "metadata")
    told = diagnosis_of(aggregate)
    found = finding_of(told, FindingKind.METADATA)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert "STREAMING_CHECKPOINT_MISSING_METADATA_FILE" in found.engine


def test_the_identity_is_compared_with_the_one_that_is_given(aggregate: Path) -> None:
    assert (
        diagnosis_of(aggregate, QueryFacts(query_ids=("older", RIGHT))).verdict
        is CheckpointVerdict.CLEAN_END
    )
    told = diagnosis_of(aggregate, QueryFacts(query_ids=("older", "another")))
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert RIGHT in finding_of(told, FindingKind.OTHER_QUERY).known


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"batchTimestampMs": 1}, "its time is before that batch's"),
        ({"batchWatermarkMs": 1}, "its watermark is below the one that this batch left"),
        (
            {"conf": {"spark.sql.shuffle.partitions": "7"}},
            "the fixed configuration changes: spark.sql.shuffle.partitions",
        ),
    ],
)
def test_what_one_writer_never_does_is_a_trace_of_two(
    aggregate: Path, changes: dict[str, object], said: str
) -> None:
    edit_offsets(aggregate, 3, **changes)
    (found, *_) = [
        one for one in diagnosis_of(aggregate).findings if one.kind is FindingKind.TWO_WRITERS
    ]
    assert found.files == ("offsets/2", "offsets/3")
    assert said in found.known


def test_a_source_that_goes_back_is_a_trace_of_two_writers(aggregate: Path) -> None:
    path = aggregate / "offsets/3"
    version, metadata, source = path.read_text().split("\n")
    back = json.dumps(json.loads(source) | {"reservoirVersion": 1})
    write(path, "\n".join([version, metadata, back]).encode())
    assert (
        "source 0 goes back" in finding_of(diagnosis_of(aggregate), FindingKind.TWO_WRITERS).known
    )


@pytest.mark.parametrize("version", [1, 3, 4])
def test_a_missing_delta_is_named_with_operator_partition_and_store(
    aggregate: Path, version: int
) -> None:
    remove(aggregate / f"state/0/1/{version}.delta")
    told = diagnosis_of(aggregate)
    found = finding_of(told, FindingKind.STATE)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert "Version 4 of operator 0, partition 1, store default cannot be built" in found.known
    assert found.files == (f"state/0/1/{version}.delta",)
    assert "CANNOT_READ_DELTA_FILE_NOT_EXISTS" in found.engine


def test_an_empty_delta_is_damage_in_the_engines_words(aggregate: Path) -> None:
    write(aggregate / "state/0/0/2.delta", b"")
    found = finding_of(diagnosis_of(aggregate), FindingKind.STATE)
    assert found.files == ("state/0/0/2.delta",)
    assert "UNCATEGORIZED" in found.engine


@pytest.mark.parametrize("keep", [3, 21, -1, -21])
def test_a_cut_delta_is_damage_also_without_a_checksum(aggregate: Path, keep: int) -> None:
    path = aggregate / "state/0/0/2.delta"
    write(path, path.read_bytes()[:keep])
    told = diagnosis_of(aggregate)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert finding_of(told, FindingKind.STATE).files == ("state/0/0/2.delta",)


def test_of_another_compression_no_end_is_known(aggregate: Path) -> None:
    for batch in range(4):
        edit_offsets(aggregate, batch, conf={"spark.sql.shuffle.partitions": "2"})
    path = aggregate / "state/0/0/2.delta"
    write(path, path.read_bytes()[:-1])
    assert diagnosis_of(aggregate).verdict is CheckpointVerdict.CLEAN_END


def test_whether_a_query_with_a_watermark_has_lost_its_state_is_unknown(aggregate: Path) -> None:
    shutil.rmtree(aggregate / "state")
    told = diagnosis_of(aggregate)
    assert told.verdict is CheckpointVerdict.UNKNOWN
    assert "no folder `state`" in finding_of(told, FindingKind.STATE).known


def test_a_batch_that_was_killed_needs_only_the_state_before_it(aggregate: Path) -> None:
    remove(aggregate / "commits/3")
    remove(aggregate / "state/0/1/4.delta")
    assert diagnosis_of(aggregate).verdict is CheckpointVerdict.KILLED
    remove(aggregate / "state/0/1/3.delta")
    assert diagnosis_of(aggregate).verdict is CheckpointVerdict.DAMAGED


def test_a_snapshot_makes_the_deltas_before_it_needless(aggregate: Path) -> None:
    """Only names and sizes count here, so a delta stands for the snapshot."""
    for partition in ("0", "1"):
        folder = aggregate / "state/0" / partition
        shutil.copy(folder / "3.delta", folder / "3.snapshot")
        for version in (1, 2, 3):
            remove(folder / f"{version}.delta")
    assert diagnosis_of(aggregate).verdict is CheckpointVerdict.CLEAN_END
    remove(aggregate / "state/0/0/4.delta")
    found = finding_of(diagnosis_of(aggregate), FindingKind.STATE)
    assert "from 3.snapshot" in found.known


def test_an_empty_snapshot_may_be_moved_away_where_the_deltas_are_there(aggregate: Path) -> None:
    (aggregate / "state/0/0/3.snapshot").write_bytes(b"")
    told = diagnosis_of(aggregate)
    found = finding_of(told, FindingKind.STATE)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert "from an empty store and the 4 changes after it" in found.advice
    (aggregate / "state/0/0/3.snapshot").unlink()
    assert diagnosis_of(aggregate).verdict is CheckpointVerdict.CLEAN_END


def test_an_empty_snapshot_without_its_deltas_is_lost_state(aggregate: Path) -> None:
    (aggregate / "state/0/0/3.snapshot").write_bytes(b"")
    remove(aggregate / "state/0/0/1.delta")
    assert "the state is lost" in finding_of(diagnosis_of(aggregate), FindingKind.STATE).advice


@pytest.mark.parametrize("partition", ["0", "1"])
def test_a_partition_whose_folder_is_gone_is_damage(aggregate: Path, partition: str) -> None:
    shutil.rmtree(aggregate / "state/0" / partition)
    told = diagnosis_of(aggregate)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert finding_of(told, FindingKind.STATE).files == (f"state/0/{partition}",)


def test_an_operator_without_keys_has_one_partition_whatever_is_recorded(aggregate: Path) -> None:
    shutil.rmtree(aggregate / "state/0/1")
    keyless = b"\0\2v1" + b"".join(
        len(text).to_bytes(2, "big") + text
        for text in (b'{"fields":[]}', b'{"fields":[{"name":"count","type":"long"}]}')
    )
    write(aggregate / "state/0/0/_metadata/schema", keyless)
    assert diagnosis_of(aggregate).verdict is CheckpointVerdict.CLEAN_END


@pytest.mark.parametrize("name", ["9.snapshot", "6.delta"])
def test_state_that_this_log_cannot_have_written_is_damage(aggregate: Path, name: str) -> None:
    folder = aggregate / "state/0/0"
    shutil.copy(folder / "4.delta", folder / name)
    told = diagnosis_of(aggregate)
    found = finding_of(told, FindingKind.STATE_AHEAD)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert "Wrong sums without an error" in found.at_risk
    assert found.files == (f"state/0/0/{name}",)


def test_the_state_of_a_batch_that_was_killed_is_not_ahead(aggregate: Path) -> None:
    remove(aggregate / "commits/3")
    assert FindingKind.STATE_AHEAD not in kinds(diagnosis_of(aggregate))


def test_the_state_of_many_partitions_is_one_finding_with_five_examples(aggregate: Path) -> None:
    for partition in range(2, 40):
        shutil.copytree(aggregate / "state/0/1", aggregate / "state/0" / str(partition))
    for batch in range(4):
        edit_offsets(aggregate, batch, conf={"spark.sql.shuffle.partitions": "40"})
    assert diagnosis_of(aggregate).verdict is CheckpointVerdict.CLEAN_END
    for partition in range(40):
        remove(aggregate / "state/0" / str(partition) / "2.delta")
    found = finding_of(diagnosis_of(aggregate), FindingKind.STATE)
    assert "40 stores" in found.known
    assert (len(found.files), found.count) == (5, 40)


def test_a_state_store_that_is_not_known_is_not_judged(aggregate: Path) -> None:
    for batch in range(4):
        conf = {"spark.sql.streaming.stateStore.providerClass": "com.example.Provider"}
        edit_offsets(aggregate, batch, conf=conf)
    remove(aggregate / "state/0/0/2.delta")
    told = diagnosis_of(aggregate)
    assert told.verdict is CheckpointVerdict.UNKNOWN
    assert "com.example.Provider" in finding_of(told, FindingKind.UNKNOWN_FORMAT).known


def test_a_cut_operator_file_is_a_warning(aggregate: Path) -> None:
    write(aggregate / "state/0/_metadata/metadata", b'v1\n{"operatorIn')
    told = diagnosis_of(aggregate)
    assert told.verdict is CheckpointVerdict.CLEAN_END
    assert finding_of(told, FindingKind.STATE_METADATA).files == ("state/0/_metadata/metadata",)


def test_a_cut_schema_stops_a_start_and_one_of_a_newer_version_is_unknown(aggregate: Path) -> None:
    path = aggregate / "state/0/0/_metadata/schema"
    write(path, path.read_bytes()[:20])
    told = diagnosis_of(aggregate)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert "EOFException" in finding_of(told, FindingKind.STATE_METADATA).engine
    write(path, b"\0\2v9")
    assert diagnosis_of(aggregate).verdict is CheckpointVerdict.UNKNOWN


@pytest.mark.parametrize(
    ("name", "folders", "gone"),
    [
        ("4.2.0/chained-hdfs", "state/0", ("state/0",)),
        ("3.5.6/chained-hdfs", "state/0", ("state/0",)),
        ("4.2.0/aggregate-hdfs", "state/0/[01]", ("state/0/0",)),
        ("4.2.0/aggregate-rocksdb", "state/0/[01]", ("state/0/0",)),
        ("4.2.0/total-hdfs", "state/0/0", ("state/0/0",)),
        (
            "4.2.0/join-hdfs",
            "state/0/*/left-keyToNumValues",
            ("state/0/0/left-keyToNumValues", "state/0/1/left-keyToNumValues"),
        ),
    ],
)
def test_state_whose_folder_is_gone_for_all_partitions_is_damage(
    tmp_path: Path, name: str, folders: str, gone: tuple[str, ...]
) -> None:
    folder = unpack(name, tmp_path)
    for one in folder.glob(folders):
        shutil.rmtree(one)
    told = diagnosis_of(folder)
    assert told.verdict is CheckpointVerdict.DAMAGED
    found = [one for one in told.findings if one.kind is FindingKind.STATE]
    assert [one.files for one in found] == [gone]


@pytest.mark.parametrize("name", ["commits/3", "offsets/2", "metadata", "state/0/0/3.delta"])
def test_a_needed_file_that_does_not_match_its_checksum_is_damage(
    aggregate: Path, name: str
) -> None:
    path = aggregate / name
    data = path.read_bytes()
    # A change that none but the checksum tells.
    path.write_bytes(b" " + data if "state" in name else data + b" ")
    told = diagnosis_of(aggregate)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert finding_of(told, FindingKind.CHECKSUM).files == (name,)
    twin(path).unlink()
    assert diagnosis_of(aggregate).verdict is CheckpointVerdict.CLEAN_END


@pytest.mark.parametrize(
    ("kind", "name", "needed"),
    [
        ("aggregate", "state/0/_metadata/metadata", False),
        ("aggregate", "state/0/0/_metadata/schema", True),
        ("files_compacted", "sources/0/8", False),
        ("files_compacted", "sources/0/9.compact", True),
        ("files_compacted", "sources/0/10", True),
    ],
)
def test_a_wrong_checksum_of_a_file_that_no_start_reads_is_a_warning(
    tmp_path: Path, kind: str, name: str, needed: bool
) -> None:
    folder = copy_of(kind, tmp_path)
    whole = diagnosis_of(folder).verdict
    path = folder / name
    twin(path).write_bytes(checksum_of(path.read_bytes() + b" "))
    told = diagnosis_of(folder)
    found = finding_of(told, FindingKind.CHECKSUM)
    assert found.files == (name,)
    assert found.severity is (Severity.DAMAGE if needed else Severity.WARNING)
    assert told.verdict is (CheckpointVerdict.DAMAGED if needed else whole)


def test_leftovers_are_a_note_and_young_ones_a_sign_of_life(aggregate: Path) -> None:
    path = aggregate / "offsets/.4.0f1c2d3e-4a5b-6c7d-8e9f-001122334455.tmp"
    path.write_bytes(b"v1")
    told = diagnosis_of(aggregate)
    assert told.verdict is CheckpointVerdict.CLEAN_END
    assert "may be removed while no query runs" in finding_of(told, FindingKind.LEFTOVERS).advice
    soon = datetime.fromtimestamp(path.stat().st_mtime, UTC) + timedelta(minutes=1)
    young = judge_checkpoint(facts_of(aggregate), soon)
    assert "may be running" in finding_of(young, FindingKind.LEFTOVERS).advice


def test_a_watermark_far_after_the_batch_is_a_warning(aggregate: Path) -> None:
    ahead = int(NOW.timestamp() * 1000)
    write(aggregate / "commits/3", f'v1\n{{"nextBatchWatermarkMs":{ahead}}}'.encode())
    edit_offsets(aggregate, 3, batchWatermarkMs=ahead)
    found = finding_of(diagnosis_of(aggregate), FindingKind.WATERMARK)
    assert found.severity is Severity.WARNING
    assert "2100-01-01T00:00:00Z" in found.known


def test_a_watermark_after_the_newest_event_is_a_warning(aggregate: Path) -> None:
    newest = facts_of(aggregate).offsets.entry(3)
    assert newest is not None
    assert newest.watermark_ms is not None
    good = diagnosis_of(aggregate, QueryFacts(newest_event_ms=newest.watermark_ms + 600_000))
    assert good.findings == ()
    late = diagnosis_of(aggregate, QueryFacts(newest_event_ms=newest.watermark_ms - 1))
    assert "the newest event" in finding_of(late, FindingKind.WATERMARK).known


def test_a_list_of_files_that_a_start_needs_is_damage_when_it_is_missing(tmp_path: Path) -> None:
    folder = copy_of("files_compacted", tmp_path)
    move_source_files(folder, tmp_path / "landing")
    assert diagnosis_of(folder).findings == ()
    remove(folder / "sources/0/3")
    assert diagnosis_of(folder).verdict is CheckpointVerdict.CLEAN_END
    remove(folder / "sources/0/10")
    told = diagnosis_of(folder)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert finding_of(told, FindingKind.SOURCE_LIST).files == ("sources/0/10",)


def test_a_missing_newest_list_is_told_as_rows_that_are_lost_in_silence(tmp_path: Path) -> None:
    folder = copy_of("files_compacted", tmp_path)
    move_source_files(folder, tmp_path / "landing")
    remove(folder / "sources/0/11")
    found = finding_of(diagnosis_of(folder), FindingKind.SOURCE_LIST)
    assert found.files == ("sources/0/11",)
    assert "in silence" in found.engine
    assert "in no batch" in found.at_risk


def test_a_file_source_that_goes_back_in_the_newest_batch_is_damage(tmp_path: Path) -> None:
    folder = copy_of("files_compacted", tmp_path)
    move_source_files(folder, tmp_path / "landing")
    for batch in (10, 11):
        path = folder / f"offsets/{batch}"
        version, metadata, _ = path.read_text().split("\n")
        write(path, "\n".join([version, metadata, '{"logOffset":3}']).encode())
        told = diagnosis_of(folder)
        found = [one for one in told.findings if one.kind is FindingKind.TWO_WRITERS]
        assert [one.severity for one in found] == [Severity.WARNING], batch
    write(path, "\n".join([version, metadata, '{"logOffset":2}']).encode())
    told = diagnosis_of(folder)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert [one.severity for one in told.findings if one.kind is FindingKind.TWO_WRITERS] == [
        Severity.DAMAGE,
        Severity.WARNING,
    ]


def test_without_the_compacted_list_the_lists_that_remain_have_a_gap(tmp_path: Path) -> None:
    folder = copy_of("files_compacted", tmp_path)
    move_source_files(folder, tmp_path / "landing")
    remove(folder / "sources/0/9.compact")
    assert finding_of(diagnosis_of(folder), FindingKind.SOURCE_LIST).files == ("sources/0/9",)


def test_without_the_folder_of_lists_the_batch_does_not_exist(killed: Path) -> None:
    shutil.rmtree(killed / "sources")
    told = diagnosis_of(killed)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert finding_of(told, FindingKind.SOURCE_LIST).files == ("sources/0/0", "sources/0/1")


def test_an_empty_list_of_files_is_damage(killed: Path) -> None:
    write(killed / "sources/0/1", b"")
    told = diagnosis_of(killed)
    assert told.verdict is CheckpointVerdict.DAMAGED
    assert finding_of(told, FindingKind.SOURCE_LIST).known == "sources/0/1 is empty."


def test_a_gone_file_is_damage_only_where_a_batch_reads_it_again(tmp_path: Path) -> None:
    folder = copy_of("files_killed", tmp_path)
    first, *batch_1 = move_source_files(folder, tmp_path / "landing")
    first.unlink()
    told = diagnosis_of(folder)
    assert told.verdict is CheckpointVerdict.KILLED
    assert finding_of(told, FindingKind.SOURCE_FILES).severity is Severity.NOTE
    batch_1[0].unlink()
    again = diagnosis_of(folder)
    assert again.verdict is CheckpointVerdict.DAMAGED
    needed = [one for one in again.damage if one.kind is FindingKind.SOURCE_FILES]
    assert [one.files for one in needed] == [(batch_1[0].as_uri(),)]


def test_a_file_that_changed_since_it_was_taken_is_a_warning(tmp_path: Path) -> None:
    folder = copy_of("files_killed", tmp_path)
    first, *_ = move_source_files(folder, tmp_path / "landing")
    os.utime(first)
    found = finding_of(diagnosis_of(folder), FindingKind.SOURCE_FILES)
    assert found.severity is Severity.WARNING
    assert found.files == (first.as_uri(),)


def test_names_that_nobody_knows_are_a_note(aggregate: Path) -> None:
    (aggregate / "state/0/0/1.parquet").write_text("x")
    told = diagnosis_of(aggregate)
    assert told.verdict is CheckpointVerdict.CLEAN_END
    assert finding_of(told, FindingKind.UNKNOWN_FILES).files == ("state/0/0/1.parquet",)


def test_state_of_which_no_file_is_known_is_unknown(aggregate: Path) -> None:
    for path in [p for p in (aggregate / "state").rglob("*.delta*") if p.is_file()]:
        path.rename(path.with_name(path.name.replace(".delta", ".blob")))
    for path in list((aggregate / "state").rglob(".*.crc")):
        path.unlink()
    told = diagnosis_of(aggregate)
    assert told.verdict is CheckpointVerdict.UNKNOWN
    assert "Nor was the state" in finding_of(told, FindingKind.UNKNOWN_FILES).advice


def test_findings_come_worst_first(aggregate: Path) -> None:
    (aggregate / "notes").write_text("x")
    write(aggregate / "commits/1", b"")
    remove(aggregate / "state/0/0/1.delta")
    severities = [one.severity for one in diagnosis_of(aggregate).findings]
    assert severities == [Severity.DAMAGE, Severity.WARNING, Severity.NOTE]
