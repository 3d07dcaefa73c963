"""`tidemark state show`: one screen, JSON, and an exit code for each verdict."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from tests.checkpoint.archives import unpack
from tests.checkpoint.damaged import DATA, copy_of, edit_offsets, remove
from tests.end_to_end.pages import page
from tests.kit.running import Place, clicks
from tidemark.cli.main import app
from tidemark.pipeline.model import Pipeline


def show(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["state", "show", *map(str, arguments)])


def documents(*arguments: str | Path) -> list[dict[str, Any]]:
    return list(json.loads(show(*arguments, "--json").stdout))


def pipeline(folder: Path, monkeypatch: pytest.MonkeyPatch, **limits: int) -> Pipeline:
    """A pipeline whose table's checkpoint is a copy of a real one, with four deltas a partition."""
    place = Place(folder, clicks(advanced={"state": {"limits": limits}}))
    monkeypatch.setenv("TIDEMARK_ROOT", str(folder))
    monkeypatch.setenv("TIDEMARK_PIPELINES", str(place.write_file().parent))
    (table,) = place.pipeline.tables
    shutil.copytree(DATA / "aggregate", place.places.query_checkpoint(table, 1))
    return place.pipeline


def test_a_screen_shows_stores_chains_schemas_and_what_a_start_replays(tmp_path: Path) -> None:
    shown = show(unpack("4.2.0/aggregate-hdfs", tmp_path))
    assert shown.exit_code == 0
    assert len(shown.output.splitlines()) < 25
    for told in (
        "checkpoint: healthy",
        "8 deltas or changelogs to replay, limit 50",
        "0 stateStoreSave",
        "HDFS-backed",
        "state/0/1  1–8",
        "███  ",
        "operator 0, store default: window: struct, key: string → count: long, sum: long",
        "version 8: it reads 0 files of snapshots (0 bytes) and replays 16 deltas or changelogs",
    ):
        assert told in shown.output, told


def test_the_page_shows_what_the_command_prints(tmp_path: Path) -> None:
    printed = show(unpack("4.2.0/aggregate-hdfs-snapshots", tmp_path)).output.splitlines()
    block = page("state.md").split("```\ncheckpoint: healthy\n")[1].split("```")[0]
    assert block.splitlines() == [line.rstrip() for line in printed[2:]]


def test_all_stores_of_a_join_are_shown_with_their_whole_names(tmp_path: Path) -> None:
    shown = show(unpack("4.2.0/join-rocksdb", tmp_path))
    for side in ("left", "right"):
        for store in ("keyToNumValues", "keyWithIndexToValue"):
            assert f"operator 0, store {side}-{store}: field0: string" in shown.output
            assert f"state/0/1/{side}-{store}" in shown.output


def test_json_holds_every_partition_and_the_same_numbers(tmp_path: Path) -> None:
    (told,) = documents(unpack("4.2.0/aggregate-hdfs-snapshots", tmp_path))
    (store,) = told["stores"]
    assert told["verdict"] == store["verdict"] == "healthy"
    assert (told["version"], store["provider"], store["longest"]) == (8, "HDFS-backed", 2)
    assert [one["versions"] for one in store["partitions"]] == [[[1, 8]]] * 2
    assert {one["snapshot_version"] for one in store["partitions"]} == {6}
    assert told["replayed"]["files"] == sum(one["replayed"]["files"] for one in store["partitions"])
    assert store["key"] == ["window: struct", "key: string"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "code", "verdict"), [(4, 0, "healthy"), (3, 10, "due"), (1, 11, "overdue")]
)
def test_the_exit_code_is_the_verdict_by_the_pipelines_own_limits(
    limit: int, code: int, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = pipeline(tmp_path, monkeypatch, max_changes=limit).name
    shown = show(name)
    assert shown.exit_code == code
    assert f", generation 1: {verdict}" in shown.output
    assert "ingest: no query has started yet" in shown.output
    assert ("▶" in shown.output) == (code > 0)
    ingest, table = documents(name)
    assert (ingest["name"], "verdict" in ingest, table["verdict"]) == ("ingest", False, verdict)


def test_the_limits_hold_for_every_query_of_the_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = pipeline(tmp_path, monkeypatch, max_changes=3).name
    shutil.copytree(DATA / "aggregate", tmp_path / name / "checkpoints/ingest")
    assert [told["verdict"] for told in documents(name)] == ["due", "due"]


def test_a_generation_that_gold_does_not_name_is_shown_and_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = pipeline(tmp_path, monkeypatch)
    (table,) = found.tables
    folder = tmp_path / found.name / "checkpoints" / table
    shutil.copytree(folder / "1", folder / "2")
    remove(folder / "2/state/0/0/2.delta")
    shown = show(found.name)
    assert "generation 2: cannot be rebuilt (not in use)" in shown.output
    assert shown.exit_code == 0


def test_state_that_cannot_be_rebuilt_names_the_file_and_exits_with_the_doctors_code(
    tmp_path: Path,
) -> None:
    folder = copy_of("aggregate", tmp_path)
    remove(folder / "state/0/1/2.delta")
    shown = show(folder)
    assert shown.exit_code == 14
    assert "state/0/1/2.delta is missing" in shown.output
    assert "the next start loads" not in shown.output
    assert CliRunner().invoke(app, ["checkpoint", "doctor", str(folder)]).exit_code == 14


def test_another_state_store_is_unknown(tmp_path: Path) -> None:
    folder = copy_of("aggregate", tmp_path)
    edit_offsets(folder, 3, conf={"spark.sql.streaming.stateStore.providerClass": "a.b.Mine"})
    shown = show(folder)
    assert shown.exit_code == 13
    assert "a.b.Mine" in shown.output


def test_a_query_without_state_is_healthy(tmp_path: Path) -> None:
    shown = show(copy_of("files_compacted", tmp_path))
    assert (shown.exit_code, "keeps no state yet" in shown.output) == (0, True)


def test_a_place_that_is_no_checkpoint_is_an_error(tmp_path: Path) -> None:
    shown = show(f"{tmp_path}/")
    assert (shown.exit_code, shown.stdout) == (1, "")


@pytest.mark.slow
def test_a_path_is_shown_without_spark_delta_or_airflow(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom tidemark.cli.main import app\n"
        "try:\n    app(prog_name='tidemark')\nfinally:\n"
        "    print([n for n in ('pyspark', 'deltalake', 'airflow', 'pyarrow') "
        "if n in sys.modules], file=sys.stderr)"
    )
    folder = copy_of("aggregate", tmp_path)
    ran = subprocess.run(
        [sys.executable, "-c", code, "state", "show", str(folder)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stderr.strip() == "[]"


def compact(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["state", "compact", *arguments])


@pytest.mark.parametrize(("limit", "written"), [(3, 2), (4, 0)])
def test_what_would_be_compacted_is_shown_and_nothing_is_changed(
    limit: int, written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = pipeline(tmp_path, monkeypatch, max_changes=limit).name
    before = sorted(tmp_path.rglob("*"))
    shown = compact(name)
    assert shown.exit_code == 0, shown.output
    told = f"{written} snapshots would be written" if written else "nothing to compact"
    assert told in shown.output
    assert "no query has started yet" in shown.output
    ingest, table = json.loads(compact(name, "--json").stdout)
    assert (ingest["snapshots"], table["snapshots"], table["longest"]) == (0, written, 4)
    assert json.loads(compact(name, "--all", "--json").stdout)[1]["snapshots"] == 2
    assert sorted(tmp_path.rglob("*")) == before


def test_where_compaction_is_refused_the_plan_says_why_and_exits_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = pipeline(tmp_path, monkeypatch, max_changes=2)
    (table,) = found.tables
    remove(tmp_path / found.name / "checkpoints" / table / "1/commits/3")
    shown = compact(found.name)
    assert shown.exit_code == 1
    assert "CompactionRefused" in shown.output
    assert "planned and not committed" in shown.output


def test_with_nothing_due_no_spark_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    shown = compact(pipeline(tmp_path, monkeypatch).name, "--apply")
    assert (shown.exit_code, "nothing to compact" in shown.output) == (0, True)
