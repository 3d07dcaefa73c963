"""Each damage of the doctor's matrix is repaired where that can be done without loss, and the
engine goes on rightly then; where it cannot, the repair is refused and says why."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.checkpoint.archives import answers
from tests.checkpoint.damage_table import answers as recorded
from tests.checkpoint.damage_table import doctors_half
from tests.checkpoint.damaged import edit_offsets, remove, write
from tests.checkpoint.damages import DAMAGES
from tests.checkpoint.restarts import restart
from tests.checkpoint.rewind.queries import Query, command, done, told, undo
from tests.checkpoint.rewind.sinks import BASE, LAST, WithSinks, append, bytes_of, with_sinks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The batch to whose end the checkpoint goes back; what came after is read again.
BACK = {
    "offsets-last-missing": 6,
    "offsets-last-empty": 6,
    "offsets-last-cut": 6,
    "offsets-last-of-killed-empty": 5,
    "offsets-before-missing": 5,
    "offsets-before-empty": 5,
    "delta-missing": 3,
    "delta-empty": 3,
    "delta-cut": 3,
    "delta-checksum": 3,
    "delta-last-missing": 6,
    "zip-missing": 6,
    "zip-cut": 6,
    "zip-empty": 6,
    "changelog-missing": 6,
    "changelog-cut": 6,
    "changelog-empty": 6,
    "list-last-missing": 5,
    "list-last-empty": 5,
    "list-last-cut": 5,
    "list-old-missing": 1,
    "killed-list-missing": 5,
    "two-writers": 6,
    "clock-back": 6,
    "watermark-ahead": 6,
}
IN_PLACE = {
    "commit-last-empty",
    "commit-last-cut",
    "checksum-commit",
    "snapshot-empty",
    "snapshot-cut",
    "state-ahead-snapshot",
    "state-ahead-delta",
    "leftovers",
}
# By the Delta table that the query writes.
BY_TABLE = {
    "metadata-missing",
    "metadata-empty",
    "metadata-cut",
    "checksum-metadata",
    "checksum-alone",
}
REFUSED = {
    "offsets-all-missing": "The folder `offsets` is empty or gone",
    "offsets-format": "a newer engine may have written it",
    "partition-missing": "the state of 1 is missing: state/0/1",
    "state-missing": "there is no folder `state`",
    "schema-cut": "state/0/0/_metadata/schema is cut off",
    "snapshot-and-delta-missing": "1.delta missing",
    "sst-missing": "files that RocksDB snapshots need are missing",
    "sst-cut": "files that RocksDB snapshots need are missing or of another size",
    "lists-missing": "A start needs 0 to 3",
    "killed-source-gone": "1 of the 1 files that have to be read again are gone",
}
NOTHING = DAMAGES.keys() - BACK.keys() - IN_PLACE - BY_TABLE - REFUSED.keys() - {"metadata-other"}
LONG_AGO = (datetime.now(UTC) - timedelta(days=1)).timestamp()


def damaged(name: str, folder: Path) -> Path:
    """A damaged checkpoint on which nothing runs."""
    doctors_half(DAMAGES[name], folder)
    for path in (folder / "checkpoint").rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO))
    return folder / "checkpoint"


def backed_up(folder: Path) -> tuple[str, Path]:
    return "--backup", folder / "backup"


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BACK, *sorted(IN_PLACE)])
def test_what_can_be_repaired_is_and_comes_back_from_its_backup(name: str, tmp_path: Path) -> None:
    checkpoint = damaged(name, tmp_path)
    before = bytes_of(checkpoint)
    found = done("repair", checkpoint, "--sink", "other", *backed_up(tmp_path))
    went = f"repaired, and taken back to the end of batch {BACK.get(name)}"
    assert found["change"] == (went if name in BACK else "repaired")
    assert command("doctor", checkpoint).exit_code in (0, 10, 11, 12)
    assert told("repair", checkpoint, "--sink", "other")["nothing_to_do"]
    done(*undo(tmp_path / "backup", checkpoint))
    assert bytes_of(checkpoint) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_repaired_is_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    checkpoint = damaged(name, tmp_path)
    before = bytes_of(checkpoint)
    result = command("repair", checkpoint, "--sink", "other", "--apply")
    assert result.exit_code == 1
    assert REFUSED[name] in result.output
    assert bytes_of(checkpoint) == before


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(NOTHING))
def test_where_a_query_may_start_nothing_is_repaired(name: str, tmp_path: Path) -> None:
    assert told("repair", damaged(name, tmp_path), "--sink", "other")["nothing_to_do"]
    assert recorded()[name]["verdict"] not in ("damaged", "unknown")


@pytest.mark.long
def test_the_engine_goes_on_rightly_from_each_repaired_checkpoint(
    spark: SparkSession, tmp_path: Path
) -> None:
    wrong = {}
    for name in (*BACK, *sorted(IN_PLACE)):
        checkpoint = damaged(name, tmp_path / name)
        done("repair", checkpoint, "--sink", "other", *backed_up(tmp_path / name))
        found = restart(spark, checkpoint, DAMAGES[name].base.partition("/")[2])
        if (found.ends, found.result) != ("goes on", "right"):
            wrong[name] = found
    assert wrong == {}


def test_the_engine_goes_on_after_a_repair_and_not_on_one_that_was_not_finished(
    spark: SparkSession, tmp_path: Path
) -> None:
    from tests.kit.killed import killed

    name = "offsets-last-empty"
    checkpoint = damaged(name, tmp_path)
    kind = DAMAGES[name].base.partition("/")[2]
    repair = ("repair", checkpoint, "--sink", "other", *backed_up(tmp_path))
    with killed("after", "checkpoint taken back"):
        command(*repair, "--apply")
    found = restart(spark, checkpoint, kind)
    assert (found.ends, found.said) == ("stops", "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION")
    assert command(*repair, "--apply").exit_code == 0
    found = restart(spark, checkpoint, kind)
    assert (found.ends, found.result) == ("goes on", "right")


@pytest.fixture
def made(tmp_path: Path) -> WithSinks:
    return with_sinks(tmp_path / "query")


def without_logs(made: WithSinks, first: int) -> None:
    """Remove offsets and commits from a batch on, as by `rm -rf offsets/7 commits/7`."""
    for batch in range(first, LAST + 1):
        for log in ("offsets", "commits"):
            remove(made.checkpoint / log / str(batch))


@pytest.mark.parametrize("kind", ["delta", "files"])
@pytest.mark.parametrize("state", [True, False])
def test_a_sink_with_batches_that_the_logs_have_lost_goes_back_with_the_state(
    made: WithSinks, kind: str, state: bool
) -> None:
    without_logs(made, 6)
    if not state:
        # As it would be by hand; then the sink alone tells of these batches.
        for path in made.checkpoint.glob("state/0/*/[78].delta"):
            remove(path)
    done("repair", made.checkpoint, "--sink", made.sink(kind))
    if kind == "delta":
        assert (made.rows(), made.transaction()) == (list(range(6)), 5)
    else:
        log = (made.out / "_spark_metadata").iterdir()
        assert {path.name for path in log} == {str(batch) for batch in range(6)}
    assert not [*made.checkpoint.glob("state/0/*/[78].delta")]
    assert command("doctor", made.checkpoint).exit_code == 0
    assert told("repair", made.checkpoint, "--sink", made.sink(kind))["nothing_to_do"]


def test_checksums_of_logs_that_were_removed_by_hand_are_no_sign_of_a_query(
    made: WithSinks,
) -> None:
    for log in ("offsets", "commits"):
        (made.checkpoint / log / str(LAST)).unlink()
    before, backup = bytes_of(made.checkpoint), made.folder / "backup"
    assert f"offsets/.{LAST}.crc" in before
    done("repair", made.checkpoint, "--sink", made.sink("delta"), "--backup", backup)
    assert (made.rows(), made.transaction()) == (list(range(LAST)), LAST - 1)
    done(*undo(backup, made.checkpoint, made.sink("delta")))
    # The stop mark had that name, and took its checksum along.
    del before[f"offsets/.{LAST}.crc"]
    assert bytes_of(made.checkpoint) == before
    assert made.rows() == [*range(LAST + 1)]


def test_state_of_batches_that_the_logs_have_lost_stays_until_the_sink_is_said(
    made: WithSinks,
) -> None:
    without_logs(made, 6)
    before = bytes_of(made.checkpoint)
    result = command("repair", made.checkpoint, "--apply")
    assert result.exit_code == 1
    assert "--sink delta:URI" in result.output
    (finding,) = json.loads(command("doctor", made.checkpoint, "--json").stdout)[0]["findings"]
    assert "`tidemark checkpoint repair` with its `--sink`" in finding["advice"]
    wrong = command("repair", made.checkpoint, "--sink", f"files:{made.folder / 'input'}")
    assert wrong.exit_code == 1
    assert "no file sink of Spark's has written there" in wrong.output
    assert bytes_of(made.checkpoint) == before


def test_a_sink_with_batches_of_which_no_log_is_left_is_refused(made: WithSinks) -> None:
    without_logs(made, 1)
    remove(made.checkpoint / "commits/0")
    shutil.rmtree(made.checkpoint / "state")
    result = command("repair", made.checkpoint, "--sink", made.sink("delta"), "--apply")
    assert result.exit_code == 1
    assert "The sink has batches up to 7, and the last one planned is 0" in result.output


@pytest.mark.parametrize("kind", ["delta", "files"])
def test_a_sink_with_batches_of_logs_that_are_all_gone_is_told(made: WithSinks, kind: str) -> None:
    for folder in ("offsets", "commits", "state", "sources"):
        shutil.rmtree(made.checkpoint / folder)
    result = command("repair", made.checkpoint, "--sink", made.sink(kind), "--apply")
    assert result.exit_code == 1
    assert "The sink has batches up to 7, and none is planned" in result.output


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BY_TABLE))
def test_a_lost_id_is_what_the_delta_table_knows(name: str, made: WithSinks) -> None:
    before = json.loads((made.checkpoint / "metadata").read_text())
    DAMAGES[name].act(made.checkpoint)
    without = command("repair", made.checkpoint, "--sink", "other", "--apply")
    assert without.exit_code == 1
    assert "--sink delta:URI" in without.output
    found = done("repair", made.checkpoint, "--sink", made.sink("delta"))
    assert found["written"] == ["metadata"]
    assert json.loads((made.checkpoint / "metadata").read_text()) == before
    assert command("doctor", made.checkpoint).exit_code == 0


def test_an_id_that_the_table_does_not_know_is_told_and_not_replaced(made: WithSinks) -> None:
    own, table, other = made.query_id, made.sink("delta"), made.folder / "elsewhere"
    append(other, LAST, "another query")
    before = bytes_of(made.checkpoint)
    for place, says in (
        (other, f"{own}, and the log of {other} names the newest batches of others: another query"),
        (made.folder / "nothing", "There is no Delta table"),
    ):
        result = command("repair", made.checkpoint, "--sink", f"delta:{place}", "--apply")
        assert result.exit_code == 1
        assert says in result.output
        assert bytes_of(made.checkpoint) == before
    DAMAGES["metadata-other"].act(made.checkpoint)
    result = command("repair", made.checkpoint, "--sink", table, "--apply")
    assert result.exit_code == 1
    assert "move it away and give this command again" in result.output
    remove(made.checkpoint / "metadata")
    done("repair", made.checkpoint, "--sink", table)
    assert own in (made.checkpoint / "metadata").read_text()


@pytest.mark.parametrize("table", ["of another query", "not yet there"])
def test_a_query_that_was_killed_in_its_first_batch_keeps_its_id(
    made: WithSinks, table: str
) -> None:
    without_logs(made, 1)
    remove(made.checkpoint / "commits/0")
    for path in (
        *made.checkpoint.glob("state/0/*/[0-9].*"),
        *made.checkpoint.glob("sources/0/[1-9]"),
    ):
        remove(path)
    place = made.folder / "elsewhere"
    if table == "of another query":
        append(place, 0, "another query")
    assert told("repair", made.checkpoint, "--sink", f"delta:{place}")["nothing_to_do"]


def test_an_id_is_not_guessed(made: WithSinks) -> None:
    remove(made.checkpoint / "metadata")
    append(made.table, LAST, "another query")
    result = command("repair", made.checkpoint, "--sink", made.sink("delta"), "--apply")
    assert result.exit_code == 1
    assert "2 fit to the checkpoint's batches 7" in result.output
    assert not (made.checkpoint / "metadata").exists()


def test_a_lost_id_and_lost_offsets_are_repaired_together(made: WithSinks) -> None:
    remove(made.checkpoint / "metadata")
    remove(made.checkpoint / f"offsets/{LAST}")
    done("repair", made.checkpoint, "--sink", made.sink("delta"))
    assert made.transaction() == 6
    assert made.rows() == list(range(7))
    assert answers(BASE)["id"] in (made.checkpoint / "metadata").read_text()


def test_a_watermark_far_ahead_is_taken_back_with_a_word_on_the_row_that_moved_it(
    made: WithSinks,
) -> None:
    ahead = 4_102_444_800_000
    write(made.checkpoint / "commits/4", f'v1\n{{"nextBatchWatermarkMs":{ahead}}}'.encode())
    for batch in (5, 6, 7):
        edit_offsets(made.checkpoint, batch, batchWatermarkMs=ahead)
        write(
            made.checkpoint / f"commits/{batch}",
            f'v1\n{{"nextBatchWatermarkMs":{ahead}}}'.encode(),
        )
    plan = told("repair", made.checkpoint, "--sink", made.sink("delta"))
    assert plan["last_batch"] == 3
    assert "Batch 4 moved the watermark to 2100-01-01T00:00:00Z" in plan["notes"][0]


def test_where_all_logs_have_a_watermark_far_ahead_that_is_refused(made: WithSinks) -> None:
    ahead = 4_102_444_800_000
    for batch in range(LAST + 1):
        edit_offsets(made.checkpoint, batch, batchWatermarkMs=ahead)
    result = command("repair", made.checkpoint, "--sink", made.sink("delta"))
    assert result.exit_code == 1
    assert "No batch in the logs from which a query could go on is older" in result.output


@pytest.mark.long
@pytest.mark.parametrize("sink", ["delta", "parquet"])
def test_a_poisoned_query_goes_on_as_if_the_row_had_never_come(
    spark: SparkSession, tmp_path: Path, sink: str
) -> None:
    from tests.checkpoint.rewind.test_rewound_runs import STORES

    query = Query(spark, tmp_path / "poisoned", STORES["hdfs"], sink)
    query.land(0, 1, 2, 3)
    file = query.folder / "input/2.json"
    whole, time = file.read_text(), file.stat().st_mtime
    row: dict[str, Any] = {"at": "2199-01-01T00:00:00", "key": "k", "amount": 1}
    file.write_text(whole + json.dumps(row) + "\n")
    os.utime(file, (time, time))
    query.run()
    query.land(4)
    query.run()
    done("repair", query.checkpoint, "--sink", query.said)
    assert query.batches()[-1] == 1
    file.write_text(whole)
    os.utime(file, (time, time))
    query.run()
    wanted = Query(spark, tmp_path / "wanted", STORES["hdfs"], sink)
    wanted.land(*range(5))
    wanted.run()
    assert query.table() == wanted.table()
