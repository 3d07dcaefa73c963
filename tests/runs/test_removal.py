"""A pipeline's folder goes with all that others know of it, and never another folder."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

from tests.kit.killed import Killed, killed
from tests.kit.running import Place, clicks
from tests.storage.s3 import copy_to_store, s3_server
from tests.storage.test_ops_place import rows_of, share
from tidemark.cli.main import app
from tidemark.errors import RemovalRefused
from tidemark.gold.other_readers import OtherReader, forget_reader, note_reader, other_readers
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.removal import plan_removal, remove
from tidemark.storage.files import list_files
from tidemark.storage.lease.lease import hold_lease, this_process
from tidemark.storage.warehouse import Warehouse

KILLS: list[tuple[str, Literal["before", "after"]]] = [
    ("part of a removed pipeline", "before"),
    ("part of a removed pipeline", "after"),
]


def written(root: Path) -> Place:
    """What a pipeline left whose lease is free, and whose table joins with `views`."""
    place = Place(root)
    for table in (place.places.bronze, place.places.gold("per_10m"), place.places.runs):
        write_deltalake(table, pa.table({"pipeline": ["clicks"]}))
    with hold_lease(place.places.lease, this_process("run", "stream"), {}):
        pass
    reader = OtherReader(pipeline="clicks", table="per_10m")
    note_reader(Warehouse.of("views", place.settings), reader)
    (root / "clicks" / "status.json").write_text("{}")
    (root / "landing").mkdir()
    (root / "landing" / "1.json").write_text("{}\n")
    return place


def command(place: Place, *words: str) -> tuple[int, str]:
    asked = CliRunner().invoke(app, ["remove", *words], env=place.variables)
    return asked.exit_code, " ".join(asked.output.split()) + str(asked.exception or "")


def test_all_that_it_wrote_goes_and_what_it_read_stays(tmp_path: Path) -> None:
    place = written(tmp_path / "root")
    share(place.root, 2, "clicks", "words")
    code, told = command(place, "clicks")
    assert code == 0
    assert "Nothing was removed" in told
    assert "The bronze of views keeps nothing for per_10m of clicks any more" in told
    assert Path(place.places.bronze).exists()
    assert command(place, "clicks", "--apply")[0] == 0
    assert not any(path.is_file() for path in Path(place.places.folder).rglob("*"))
    assert other_readers(Warehouse.of("views", place.settings)) == ()
    assert (place.root / "landing" / "1.json").exists()
    # What a former version wrote of it into the table of all counts no more; others' rows do.
    assert place.warehouse.ledger.open() is None
    assert rows_of(Warehouse.of("words", place.settings).ledger.open(), "words")


@pytest.mark.slow
@pytest.mark.parametrize("root", ["s3://lake/root", "s3://lake/year=2026"])
def test_in_a_bucket_too(tmp_path: Path, root: str) -> None:
    place = written(tmp_path / "root")
    shutil.rmtree(place.places.lease)
    with s3_server() as options:
        copy_to_store(place.root, root, options)
        settings = Settings(root=root, pipelines="p", storage_options=options)
        with hold_lease(f"{root}/clicks/lease", this_process("run", "stream"), options):
            pass
        remove(plan_removal("clicks", settings), settings, "removing")
        left = {uri.rpartition("/")[2] for uri in list_files(root, options)}
    assert left == {"1.json"}


@pytest.mark.parametrize(("point", "when"), KILLS)
def test_killed_anywhere_a_repetition_removes_the_rest(
    tmp_path: Path, point: str, when: Literal["before", "after"]
) -> None:
    place = written(tmp_path / "root")
    left = set()
    while True:
        plan = plan_removal("clicks", place.settings)
        left.add(tuple(plan.parts))
        with killed(when, point):
            try:
                remove(plan, place.settings, "removing")
            except Killed:
                if when == "before" or not Path(place.places.lease).exists():
                    break
    if Path(place.places.folder).exists() and any(Path(place.places.folder).iterdir()):
        remove(plan_removal("clicks", place.settings), place.settings, "removing")
    assert len(left) > (when == "after")
    assert not any(path.is_file() for path in Path(place.places.folder).rglob("*"))


def test_what_came_behind_the_plan_is_asked_under_the_lease(tmp_path: Path) -> None:
    place = written(tmp_path / "root")
    plan = plan_removal("clicks", place.settings)
    joined = OtherReader(pipeline="views", table="both")
    note_reader(place.warehouse, joined)
    with pytest.raises(RemovalRefused, match="both of views"):
        remove(plan, place.settings, "removing")
    assert Path(place.places.bronze).exists()
    forget_reader(place.warehouse, joined)
    Path(place.places.folder, "planned_columns.json").write_text("{}")
    removed = remove(plan, place.settings, "removing")
    assert removed.parts.keys() - plan.parts.keys() == {"planned_columns.json"}
    assert not any(path.is_file() for path in Path(place.places.folder).rglob("*"))


def test_its_folder_is_gone_so_that_another_pipeline_may_get_the_name(tmp_path: Path) -> None:
    place = written(tmp_path / "root")
    # What a killed writer left, which no listing tells.
    Path(f"{place.places.status}#1").write_text("{}")
    remove(plan_removal("clicks", place.settings), place.settings, "removing")
    assert not Path(place.places.folder).exists()


def test_what_can_be_no_pipeline_is_not_looked_into_for_notes(tmp_path: Path) -> None:
    """`lost+found` of a disk may be read by root alone; here by nobody."""
    place = written(tmp_path / "root")
    inner = place.root / "lost+found" / "bronze.readers" / "clicks.per_10m.json"
    inner.parent.mkdir(parents=True)
    inner.write_text("no note")
    assert [name for name, _ in plan_removal("clicks", place.settings).reads] == ["views"]


def test_what_a_pipeline_may_read_whose_file_is_invalid_stays(tmp_path: Path) -> None:
    place = written(tmp_path / "root")
    source = {**clicks()["source"], "files": "clicks/per_10m/gold/*.json"}
    other = Place(place.root, clicks(source=source), "views").write_file()
    other.write_text(other.read_text().replace("10 minutes", "1 month"))
    with pytest.raises(RemovalRefused) as refused:
        plan_removal("clicks", place.settings)
    assert str(refused.value).startswith(f"{other} is invalid, so that nobody can tell what it")
    assert "Nothing was removed. Correct it (`tidemark validate`)" in str(refused.value)


@pytest.mark.slow
def test_it_is_refused_where_it_would_take_what_somebody_needs(tmp_path: Path) -> None:
    place = written(tmp_path / "root")
    for name in ("landing", "ops", "../root", "nobody"):
        code, told = command(place, name, "--apply")
        assert code == 1
        assert "Nothing was removed" in told
    file = place.write_file()
    assert "its Dag would begin it anew" in command(place, "clicks", "--apply")[1]
    file.unlink()
    listed = place.variables | {"TIDEMARK_ACTS": '{"remove": ["ann"]}'}
    refused = CliRunner().invoke(app, ["remove", "clicks", "--apply"], env=listed)
    assert refused.exit_code == 1
    assert "who may do this" in refused.output
    for folder in ("bronze#1", "landed"):
        landed = place.root / "clicks" / folder / "1.json"
        landed.parent.mkdir()
        landed.write_text("{}\n")
        said = command(place, "clicks", "--apply")[1]
        assert f"{folder}/1.json is nothing that Tidemark made" in said
        if folder != "landed":
            shutil.rmtree(landed.parent)
    landed.rename(Path(place.places.bronze, "1.json"))
    landed.parent.rmdir()
    linked = place.root / "clicks" / "results"
    linked.symlink_to(place.root / "landing")
    assert "results/1.json is reached by a link" in command(place, "clicks", "--apply")[1]
    linked.unlink()
    joined = OtherReader(pipeline="views", table="both")
    note_reader(place.warehouse, joined)
    told = command(place, "clicks", "--apply")[1]
    assert "both of views" in told
    # A note that came back with a backup, say.
    (named,) = re.findall(r"If both of views is no more, remove (\S+\.json)\.", told)
    Path(named).unlink()
    assert command(place, "clicks")[0] == 0
    source = {**clicks()["source"], "files": "clicks/per_10m/gold/*.json"}
    lookup = {"rates": {"table": "clicks/bronze", "on": "key", "columns": {"x": "string"}}}
    table = {**clicks()["tables"]["per_10m"], "measures": {"x": "max(rates.x)"}}
    looking = clicks(lookup=lookup, tables={"per_10m": table})
    for content in (clicks(source=source), looking):
        reading = Place(place.root, content, "views").write_file()
        for words in ((), ("--apply",)):
            code, told = command(place, "clicks", *words)
            assert code == 1
            assert "views reads " in told
            assert "Nothing was removed. Let it read another place" in told
        reading.unlink()
    with hold_lease(place.places.lease, this_process("run", "stream"), {}):
        assert command(place, "clicks", "--apply")[0] == 75
    assert Path(place.places.bronze).exists()
    assert (place.root / "landing" / "1.json").exists()
    assert command(place, "clicks", "--apply")[0] == 0
