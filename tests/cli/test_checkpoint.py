"""`tidemark checkpoint`: one screen, JSON, an exit code for each verdict, and what is refused."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import Result
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from typer.testing import CliRunner

from tests.checkpoint.damaged import DATA, copy_of, move_source_files, remove
from tests.kit.permissions import thread_obeying_permissions
from tests.kit.running import Place
from tests.storage.leases import leave, left_by_another
from tests.storage.test_fence import ONE
from tidemark.cli.checkpoint.show import show_diagnoses
from tidemark.cli.checkpoint.targets import find_targets
from tidemark.cli.main import app
from tidemark.ledger.ledger import INGEST, STREAM, LedgerLine, write_ledger
from tidemark.runs import losses

COMMAND = [sys.executable, "-c", "from tidemark.cli.main import app; app(prog_name='tidemark')"]


def checkpoint(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["checkpoint", *map(str, arguments)])


def documents(*arguments: str | Path) -> list[dict[str, Any]]:
    shown = checkpoint(*arguments, "--json")
    return list(json.loads(shown.stdout))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A pipeline that has run: its checkpoints are copies of real ones."""
    place = Place(tmp_path)
    folder = place.write_file().parent
    monkeypatch.setenv("TIDEMARK_ROOT", str(tmp_path))
    monkeypatch.setenv("TIDEMARK_PIPELINES", str(folder))
    return place


def put(place: Place, name: str, uri: str) -> Path:
    return Path(shutil.copytree(DATA / name, uri))


@pytest.mark.parametrize("path", [DATA / "aggregate", (DATA / "aggregate").as_uri()])
def test_inspect_shows_a_checkpoint_on_one_screen(path: str | Path) -> None:
    shown = checkpoint("inspect", path)
    assert shown.exit_code == 0
    assert len(shown.output.splitlines()) < 40
    for told in (
        "2b9c0e48-0538-4cab-a248-9462ccd93317",
        "0 to 3",
        "2026-11-19T11:35:00Z; 2 days, 9:17:28 before the last batch's time",
        "before version 3 of table",
        "stateStoreSave",
        "HDFS-backed",
        "█",
    ):
        assert told in shown.output


def test_inspect_in_json_holds_the_same() -> None:
    (told,) = documents("inspect", DATA / "aggregate")
    assert told["query_id"] == "2b9c0e48-0538-4cab-a248-9462ccd93317"
    assert told["batches"] == {"offsets": [0, 3, 4], "commits": [0, 3, 4]}
    assert told["watermark"] == "2026-11-19T11:35:00Z"
    assert told["watermark_ms"] < told["batch_time_ms"]
    (operator,) = told["operators"]
    assert (operator["partitions"], operator["newest_versions"]) == (2, [4, 4])
    assert told["sections"]["state"]["files"] == 8


def clean(folder: Path) -> Path:
    return copy_of("aggregate", folder)


def new(folder: Path) -> Path:
    path = copy_of("aggregate", folder)
    for name in ("offsets", "commits", "state"):
        shutil.rmtree(path / name)
    return path


def due(folder: Path) -> Path:
    return copy_of("complete_mode", folder)


def killed(folder: Path) -> Path:
    path = copy_of("files_killed", folder)
    move_source_files(path, folder / "landing")
    return path


def unknown(folder: Path) -> Path:
    path = copy_of("aggregate", folder)
    remove(path / "offsets/3")
    (path / "offsets/3").write_text("v9\n{}\n{}")
    return path


def damaged(folder: Path) -> Path:
    path = copy_of("aggregate", folder)
    remove(path / "state/0/1/2.delta")
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "code", "verdict"),
    [
        (clean, 0, "clean end"),
        (new, 10, "new"),
        (due, 11, "no-data batch due"),
        (killed, 12, "killed in batch 1"),
        (unknown, 13, "unknown"),
        (damaged, 14, "damaged"),
    ],
)
def test_each_verdict_has_an_exit_code(tmp_path: Path, make: Any, code: int, verdict: str) -> None:
    path = make(tmp_path)
    shown = checkpoint("doctor", path)
    assert shown.exit_code == code, shown.output
    assert f"{path}: {verdict}\n" in shown.output
    (told,) = documents("doctor", path)
    assert verdict.startswith(told["verdict"])


def test_a_finding_says_what_is_known_what_follows_and_what_to_do(tmp_path: Path) -> None:
    shown = checkpoint("doctor", damaged(tmp_path)).output
    for told in (
        "damage · state cannot be rebuilt",
        "partition 1, store default cannot be built",
        "CANNOT_READ_DELTA_FILE_NOT_EXISTS",
        "data at risk",
        "Restore the files from a backup",
        "state/0/1/2.delta",
    ):
        assert told in shown


def test_the_doctor_changes_nothing(tmp_path: Path) -> None:
    path = damaged(tmp_path)
    before = {file: file.stat().st_mtime_ns for file in path.rglob("*")}
    checkpoint("doctor", path)
    checkpoint("inspect", path)
    assert {file: file.stat().st_mtime_ns for file in path.rglob("*")} == before


def test_many_findings_are_bounded_on_the_screen_and_whole_in_json(tmp_path: Path) -> None:
    path = copy_of("files_compacted", tmp_path)
    for number in (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11):
        remove(path / f"sources/0/{number}")
        (path / f"sources/0/{number}").write_bytes(b"")
    shown = checkpoint("doctor", path)
    assert "more findings; --json tells all" in shown.output
    (told,) = documents("doctor", path)
    assert len(told["findings"]) > 10


def code_of_checkpoints() -> int:
    """The doctor's exit code, without what it says of tables, of which there are none here."""
    return show_diagnoses(replace(find_targets("clicks", None), losses=()), in_json=False)


def test_a_pipeline_has_a_checkpoint_for_its_source_and_one_for_each_table(place: Place) -> None:
    put(place, "files_killed", place.places.ingest_checkpoint)
    move_source_files(Path(place.places.ingest_checkpoint), place.root / "landing")
    put(place, "aggregate", place.places.query_checkpoint("per_10m", 1))
    assert code_of_checkpoints() == 12
    shown = checkpoint("doctor", "clicks")
    assert "ingest: killed in batch 1\n" in shown.output
    assert "per_10m, generation 1: clean end\n" in shown.output
    # There are no tables beside them.
    assert "tables and checkpoints together: damaged\n" in shown.output
    assert shown.exit_code == 14
    together = documents("doctor", "clicks")[-1]
    assert {one["name"] for one in together["losses"]} == {"bronze", "rejects", "changes"}
    assert [one["name"] for one in documents("inspect", "clicks")] == [
        "ingest",
        "per_10m, generation 1",
    ]


def test_what_does_not_fit_while_a_run_begins_is_no_loss(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(place, "aggregate", place.places.ingest_checkpoint)
    put(place, "aggregate", place.places.query_checkpoint("per_10m", 1))
    assert find_targets("clicks", None).losses
    real = losses.found_tables

    def between(*asked: Any) -> Any:
        leave(place.places.lease, left_by_another())
        return real(*asked)

    monkeypatch.setattr(losses, "found_tables", between)
    assert find_targets("clicks", None).losses == ()


def test_a_generation_that_gold_does_not_name_does_not_decide_the_exit_code(place: Place) -> None:
    shutil.copytree(DATA / "aggregate", place.places.ingest_checkpoint)
    put(place, "aggregate", place.places.query_checkpoint("per_10m", 2))
    old = put(place, "aggregate", place.places.query_checkpoint("per_10m", 1))
    remove(old / "state/0/0/1.delta")
    gold = place.places.gold("per_10m")
    named = CommitProperties(app_transactions=[Transaction("generation", 2)])
    write_deltalake(gold, ONE, commit_properties=named)
    shown = checkpoint("doctor", "clicks")
    assert code_of_checkpoints() == 0
    assert "per_10m, generation 1: damaged (not in use)" in shown.output
    assert "per_10m, generation 2: clean end\n" in shown.output


def account(place: Place, query: str, table: str | None = None, hour: int = 10) -> None:
    """A line of the ledger for a batch of a query."""
    kind = STREAM if table else INGEST
    line = LedgerLine(kind, query, 0, table=table, batch=0, read=1, accepted=1)
    write_ledger(
        place.warehouse.ledger, place.name, "run", 0, [line], datetime(2026, 7, 1, hour, tzinfo=UTC)
    )


@pytest.mark.slow
@pytest.mark.parametrize("published", [True, False])
def test_the_checkpoint_of_another_query_than_the_ledger_knows_is_damaged(
    place: Place, published: bool
) -> None:
    own = json.loads((DATA / "aggregate" / "metadata").read_text())["id"]
    put(place, "aggregate", place.places.ingest_checkpoint)
    put(place, "aggregate", place.places.query_checkpoint("per_10m", 1))
    noted = [Transaction("generation", 1), Transaction("changes", 3 if published else -1)]
    gold = place.places.gold("per_10m")
    write_deltalake(gold, ONE, commit_properties=CommitProperties(app_transactions=noted))
    account(place, own)
    account(place, "later", hour=12)
    account(place, "newest", "per_10m", hour=13)
    account(place, "older", "per_10m", hour=11)
    shown = checkpoint("doctor", "clicks")
    assert "ingest: clean end\n" in shown.output
    if not published:
        # The tables may be newer than the ledger, which other pipelines share.
        assert code_of_checkpoints() == 0
        return
    assert code_of_checkpoints() == 14
    told = " ".join(shown.output.split())
    assert f"`metadata` holds the id {own}, but the query that was asked for is newest." in told


def test_a_pipeline_that_never_ran_is_new(place: Place) -> None:
    shown = checkpoint("doctor", "clicks")
    assert shown.exit_code == 10
    assert "ingest: new\nNo query has started here yet.\n" in shown.output
    assert "ingest: no query has started yet" in checkpoint("inspect", "clicks").output


def test_the_watermark_of_a_pipeline_is_compared_with_its_newest_event(place: Place) -> None:
    put(place, "aggregate", place.places.query_checkpoint("per_10m", 1))
    newest = datetime(2026, 11, 19, 11, 45, tzinfo=UTC)
    rows = pa.table({"at": pa.array([newest, datetime(2026, 11, 1, tzinfo=UTC)])})
    write_deltalake(place.places.bronze, rows)
    assert "; 0:10:00 before the newest event" in checkpoint("inspect", "clicks").output
    DeltaTable(place.places.bronze).delete("at = '2026-11-19T11:45:00Z'")
    told = {one["name"]: one for one in documents("inspect", "clicks")}
    assert told["per_10m, generation 1"]["sources"][0]["behind"] == 0
    shown = checkpoint("doctor", "clicks")
    assert "18 days, 11:35:00 after the newest event" in shown.output


def test_a_folder_that_has_a_pipelines_name_is_given_with_a_slash(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place.root)
    put(place, "aggregate", str(place.root / "clicks"))
    assert "ingest: new" in checkpoint("doctor", "clicks").output
    for given in ("./clicks", "clicks/"):
        assert f"{place.root}/clicks: clean end" in checkpoint("doctor", given).output


def test_a_path_needs_no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("TIDEMARK_ROOT", "TIDEMARK_PIPELINES", "TIDEMARK_SETTINGS"):
        monkeypatch.delenv(name, raising=False)
    copy_of("aggregate", tmp_path)
    assert checkpoint("doctor", "aggregate").exit_code == 0
    assert checkpoint("doctor", "./aggregate/").exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("none/at/all", "does not exist"),
        ("empty/", "is empty: no query has started here"),
        ("./file", "is a file, and a checkpoint is a folder"),
        ("./table", "is a Delta table, not a checkpoint"),
        ("./above", "is no checkpoint, but holds some"),
    ],
)
@pytest.mark.parametrize("command", ["inspect", "doctor"])
def test_a_place_that_holds_no_checkpoint_gets_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, given: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    write_deltalake("table", ONE)
    copy_of("aggregate", tmp_path / "above/checkpoints")
    shown = checkpoint(command, given)
    assert shown.exit_code == 1
    assert shown.stdout == ""
    assert shown.stderr.startswith("NotACheckpoint: ")
    assert said in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


@pytest.fixture
def obeying_permissions() -> Iterator[ThreadPoolExecutor]:
    with thread_obeying_permissions() as thread:
        yield thread


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["aggregate", "aggregate/state/0/1"])
def test_a_folder_without_permission_gets_one_sentence(
    tmp_path: Path, obeying_permissions: ThreadPoolExecutor, closed: str
) -> None:
    folder = copy_of("aggregate", tmp_path)
    (tmp_path / closed).chmod(0)
    try:
        ended = obeying_permissions.submit(
            subprocess.run,
            [*COMMAND, "checkpoint", "doctor", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        ).result()
    finally:
        (tmp_path / closed).chmod(0o700)
    assert ended.returncode in (1, 75)
    assert ended.stdout == ""
    assert "ermission denied" in ended.stderr
    assert str(tmp_path / closed) in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.slow
def test_the_command_loads_neither_spark_nor_delta_for_a_path(tmp_path: Path) -> None:
    """As where pyspark and Java are not installed: the modules cannot be imported."""
    barred = ("pyspark", "py4j", "delta", "deltalake", "pyarrow", "pandas", "duckdb")
    code = (
        f"import sys\nfor name in {barred!r}: sys.modules[name] = None\n"
        "from tidemark.cli.main import app\napp(prog_name='tidemark')"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, "checkpoint", "doctor", str(DATA / "aggregate")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "include"), "PATH": "", "HOME": "/"},
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "clean end" in ended.stdout


@pytest.mark.slow
def test_a_checkpoint_of_many_files_is_judged_in_seconds(tmp_path: Path) -> None:
    folder = copy_of("aggregate", tmp_path)
    delta = (folder / "state/0/1/4.delta").read_bytes()
    shutil.rmtree(folder / "state/0")
    for partition in range(40):
        store = folder / "state/0" / str(partition)
        store.mkdir(parents=True)
        for version in range(1, 251):
            (store / f"{version}.delta").write_bytes(delta)
    for log in ("offsets", "commits"):
        for batch in range(4, 250):
            shutil.copy(folder / log / "3", folder / log / str(batch))
    began = time.monotonic()
    shown = checkpoint("doctor", folder)
    assert shown.exit_code == 0, shown.output
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(("link", "to"), [("offsets/0", "0"), ("up", "..")])
def test_a_link_that_leads_back_to_itself_is_damage_and_no_case_for_a_retry(
    tmp_path: Path, link: str, to: str
) -> None:
    folder = copy_of("files_killed", tmp_path)
    (folder / link).unlink(missing_ok=True)
    (folder / link).symlink_to(to)
    shown = checkpoint("doctor", folder)
    assert (shown.exit_code, shown.output.count("\n")) == (1, 1), shown.output
    assert "a link leads back to itself" in shown.output
