"""A pipeline's folder gets its file's new name with all that says the former one; killed anywhere,
a repetition does the rest; what would not be exact is refused, and changes nothing."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from typer.testing import CliRunner

from tests.kit.killed import Killed, killed
from tests.kit.running import Place, clicks
from tests.runs.pipelines import TABLE, bronze, checked, ended, windows_of
from tests.storage.s3 import copy_to_store, s3_server
from tests.storage.test_ops_place import share
from tests.streaming.audits import nothing_written
from tidemark.cli.main import app
from tidemark.errors import LeaseLost, RenameRefused, RenameUnfinished
from tidemark.gold.other_readers import OtherReader, forget_reader, note_reader, other_readers
from tidemark.operators.joins.joins import input_name
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.contract.contract import contract_of, read_contract, write_contract
from tidemark.runs.results.result import RunResult
from tidemark.runs.unfinished_act import (
    ActKind,
    PipelineAct,
    check_no_unfinished_act,
    release_after,
    stop_for,
    unfinished_act,
)
from tidemark.storage.files import FileInTheWay
from tidemark.storage.lease.lease import hold_lease, read_lease, this_process
from tidemark.storage.result_file import write_result
from tidemark.storage.warehouse import Warehouse
from tidemark.upkeep.maintenance.readers import readers
from tidemark.upkeep.renaming import plan_rename, rename

NAME = "visits"
POINTS = (
    "pipeline stopped for an act",
    "folder of a pipeline renamed",
    "table made",
    "rows of ops renamed",
    "contract recorded",
    "reader of another bronze noted",
    "reader of another bronze forgotten",
    "pipeline released after an act",
)
KILLS: list[tuple[str, Literal["before", "after"]]] = [
    (point, when) for point in POINTS for when in ("before", "after")
]
killed_anywhere = pytest.mark.parametrize(
    ("point", "when"),
    [pytest.param(*kill, marks=() if "folder" in kill[0] else pytest.mark.slow) for kill in KILLS],
)


def written(root: Path) -> Place:
    """What a pipeline left whose lease is free, and whose table joins with `views`; its file has
    another name since."""
    place = Place(root)
    windows_of(place)
    bronze(place, datetime(2026, 7, 1, 10, tzinfo=UTC))
    for number in range(12):
        ended(place, f"run-{number}")
    checked(place, datetime(2026, 7, 1, tzinfo=UTC), 7)
    counted = CommitProperties(
        app_transactions=[Transaction("clicks/query", 5), Transaction("query", 3)]
    )
    runs = DeltaTable(place.places.runs)
    write_deltalake(
        runs, runs.to_pyarrow_table().slice(0, 0), mode="append", commit_properties=counted
    )
    for query in ("ingest", "per_10m"):
        contract = contract_of(place.pipeline, query, place.settings)
        write_contract(place.places.contract(query, 1), contract, {})
    with hold_lease(place.places.lease, this_process("run", "stream"), {}):
        pass
    note_reader(
        Warehouse.of("views", place.settings),
        OtherReader(pipeline="clicks", table="per_10m", from_ms=5),
    )
    (root / "landing").mkdir()
    replace(place, name=NAME).write_file()
    return place


def do(place: Place) -> None:
    now = datetime(2026, 7, 2, tzinfo=UTC)
    rename(plan_rename("clicks", NAME, place.settings), place.settings, now, "Ada", "better")


def said(place: Place) -> dict[str, Any]:
    """All that has a pipeline's name and is no history."""
    renamed = replace(place, name=NAME)
    rows = {
        name: sorted(
            (json.dumps(row, default=str) for row in place.table(uri).to_pylist()), key=str
        )
        for name in ("runs", "upkeep")
        if (uri := getattr(renamed.places, name))
    }
    runs = DeltaTable(renamed.places.runs)
    counted = {one: runs.transaction_version(one) for one in (f"{NAME}/query", "query")}
    contracts = [
        read_contract(renamed.places.contract(query, 1), {}) for query in ("ingest", "per_10m")
    ]
    readers = other_readers(Warehouse.of("views", place.settings))
    return {**rows, "counted": counted, "contracts": contracts, "readers": readers}


def command(place: Place, *words: str, **more: str) -> tuple[int, str]:
    asked = CliRunner().invoke(app, ["rename", *words], env={**place.variables, **more})
    return asked.exit_code, " ".join(asked.output.split()) + str(asked.exception or "")


def test_all_that_says_its_name_says_the_new_one(tmp_path: Path) -> None:
    place = written(tmp_path / "root")
    before = place.table(place.places.runs)
    with nothing_written(place.root):
        code, told = command(place, "clicks", NAME)
    assert code == 0
    assert "Nothing was changed" in told
    code, told = command(place, "clicks", NAME, "--apply", "--by", "Ada", "--reason", "better")
    assert code == 0, told
    assert f"The bronze of views is kept for per_10m of {NAME} from then on" in told
    assert not Path(place.places.folder).exists()
    renamed = replace(place, name=NAME)
    after = renamed.table(renamed.places.runs)
    assert after.schema == before.schema
    others = [one for one in before.column_names if one != "pipeline"]
    assert after.select(others).sort_by("run") == before.select(others).sort_by("run")
    (act,) = (
        one for one in renamed.table(renamed.places.upkeep).to_pylist() if one["kind"] == "rename"
    )
    assert (act["pipeline"], act["verdict"], act["by"]) == (NAME, "was clicks", "Ada")
    found = said(place)
    assert found["counted"] == {f"{NAME}/query": 5, "query": 3}
    assert {one.pipeline.name for one in found["contracts"]} == {NAME}
    assert found["readers"] == (OtherReader(pipeline=NAME, table="per_10m", from_ms=5),)
    assert unfinished_act(renamed.warehouse) is None
    lease = read_lease(renamed.places.lease, {})
    assert lease is not None
    assert (lease.number, lease.released, lease.purpose) == (2, True, "rename")
    # And back again, behind which it counts on as well.
    file = renamed.write_file()
    file.rename(file.with_stem("clicks"))
    assert command(place, NAME, "clicks", "--apply")[0] == 0
    assert place.table(place.places.runs).sort_by("run") == before.sort_by("run")
    assert DeltaTable(place.places.runs).transaction_version("clicks/query") == 5


@killed_anywhere
def test_killed_anywhere_a_repetition_does_the_rest(
    tmp_path: Path, point: str, when: Literal["before", "after"]
) -> None:
    twin, place = written(tmp_path / "twin"), written(tmp_path / "root")
    for one in (twin, place):
        if point == "table made":
            shutil.rmtree(one.places.upkeep)
    time = 3 if point == "rows of ops renamed" else 1
    with killed(when, point, time), pytest.raises(Killed):
        do(place)
    is_moved = not Path(place.places.folder).exists()
    now = replace(place, name=NAME if is_moved else "clicks")
    is_done = (point, when) == ("pipeline released after an act", "after")
    is_begun = unfinished_act(now.warehouse) is not None
    assert is_begun != (is_done or (point, when) == (POINTS[0], "before"))
    if is_begun:
        with pytest.raises(RenameUnfinished, match=f"tidemark rename clicks {NAME} --apply"):
            check_no_unfinished_act(now.warehouse)
    if not is_done:
        code, told = command(place, "clicks", NAME)
        assert code == 0
        assert ("which was begun" in told) == is_begun
        do(place)
    do(twin)
    runs = said(place)
    expected = said(twin)
    for name in ("counted", "readers", "runs"):
        assert without_times(runs[name]) == without_times(expected[name])
    assert {one.pipeline.name for one in runs["contracts"]} == {NAME}
    assert sum('"rename"' in one for one in runs["upkeep"]) == 1
    assert unfinished_act(replace(place, name=NAME).warehouse) is None
    assert not Path(place.places.folder).exists()


def without_times(found: Any) -> Any:
    if not isinstance(found, list):
        return found
    rows = [json.loads(one) for one in found]
    return [{name: of for name, of in row.items() if name != "written_at"} for row in rows]


@killed_anywhere
def test_killed_anywhere_its_table_reads_the_bronze_that_it_joins_with(
    tmp_path: Path, point: str, when: Literal["before", "after"]
) -> None:
    """Else maintenance of the other pipeline removes what it has yet to read."""
    place = written(tmp_path / "root")
    views = Place(place.root, name="views")
    bronze(views, datetime(2026, 7, 1, 10, tzinfo=UTC))
    published = CommitProperties(app_transactions=[Transaction(input_name("views"), 0)])
    gold = DeltaTable(place.places.gold("per_10m"))
    none = gold.to_pyarrow_table().slice(0, 0)
    write_deltalake(gold, none, mode="append", commit_properties=published)
    if point == "table made":
        shutil.rmtree(place.places.upkeep)
    with killed(when, point), pytest.raises(Killed):
        do(place)
    query, _ = readers(views.pipeline, views.settings)[views.places.bronze]
    name = "clicks" if Path(place.places.folder).exists() else NAME
    assert query.who == f"the query of per_10m of {name}"


@pytest.mark.slow
def test_what_would_not_be_exact_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    place = written(tmp_path / "root")
    folder, file = Path(place.places.folder), place.root / "pipelines" / f"{NAME}.yaml"

    def refused(words: str, *names: str, code: int = 1, **more: str) -> None:
        with nothing_written(place.root):
            for apply in ((), ("--apply",)):
                found, told = command(place, *(names or ("clicks", NAME)), *apply, **more)
                if (found, words in told) != (code, True):
                    raise AssertionError((found, told, words))

    refused("is no folder that a pipeline has written", "landing", NAME)
    refused("is no folder that a pipeline has written", "nobody", NAME)
    refused("Nothing was changed", "../root", NAME)
    refused("Nothing was changed", "clicks", "Clicks")
    refused("Give clicks's file this name first", "clicks", "other")
    refused("is there: visits would begin anew", NAME, NAME)
    of_former = place.write_file()
    refused("would begin anew under this name")
    of_former.unlink()
    (place.root / NAME).mkdir()
    refused("visits is there already")
    (place.root / NAME).rmdir()
    with hold_lease(place.places.lease, this_process("run", "stream"), {}):
        refused("holds the lease of clicks", code=75)
    for kind in (ActKind.REWIND, ActKind.RETRACTION, ActKind.REPLAY, ActKind.ERASURE):
        stop_for(place.warehouse, PipelineAct(kind, "20260701T000000Z"))
        refused(f"A {kind} of clicks was begun and not finished")
        release_after(place.warehouse)
    stop_for(place.warehouse, PipelineAct(ActKind.RENAME, "clicks:else:now"))
    refused("tidemark rename clicks else --apply")
    release_after(place.warehouse)
    joined = OtherReader(pipeline="views", table="both")
    note_reader(place.warehouse, joined)
    refused("If both of views is no more, remove " + place.places.other_readers)
    forget_reader(place.warehouse, joined)

    source = {**clicks()["source"], "files": "clicks/per_10m/gold/*.json"}
    other = Place(place.root, clicks(source=source), "views").write_file()
    refused("views reads")
    other.write_text(other.read_text().replace("10 minutes", "1 month"))
    refused("is invalid, so that nobody can tell what it reads")
    other.unlink()
    lookup = {"rates": {"table": "clicks/per_10m/gold", "on": "key", "columns": {"x": "string"}}}
    table = {**clicks()["tables"]["per_10m"], "measures": {"x": "max(rates.x)"}}
    looking = clicks(lookup=lookup, tables={"per_10m": table})
    replace(place, name=NAME, content=looking).write_file()
    refused("visits reads")
    replace(place, name=NAME).write_file()

    (folder / "landed").mkdir()
    (folder / "landed" / "1.json").write_text("{}")
    refused("landed/1.json is nothing that Tidemark made, and this renames what is in")
    shutil.rmtree(folder / "landed")
    (folder / "results").symlink_to(place.root / "pipelines")
    refused("is reached by a link")
    (folder / "results").unlink()
    of_fold = folder / "checkpoints/per_10m/1/state/0/_metadata/v2/0"
    of_fold.parent.mkdir(parents=True)
    of_fold.write_text("v2")
    refused("stream: recompute")
    shutil.rmtree(folder / "checkpoints/per_10m/1/state")
    offsets = folder / "checkpoints/per_10m/1/offsets"
    offsets.mkdir()
    (offsets / "0").write_text('v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n{}')
    refused("left a batch of per_10m unfinished")
    shutil.rmtree(offsets)
    share(place.root, 1, "clicks")
    refused("before pipelines had tables of their own")
    shutil.rmtree(place.root / "ops")
    share(place.root, 1, NAME)
    refused("Take another name")
    shutil.rmtree(place.root / "ops")
    contract = Path(place.places.contract("per_10m", 1))
    kept = contract.read_bytes()
    contract.write_bytes(kept.replace(b'"tidemark": "0', b'"tidemark": "9'))
    refused("by a newer release")
    contract.write_bytes(kept)
    broken = file.read_text()
    file.write_text("source: 1\n")
    refused("visits.yaml")
    file.write_text(broken)
    listed = {"TIDEMARK_ACTS": '{"rename": ["ann"]}'}
    with nothing_written(place.root):
        code, told = command(place, "clicks", NAME, "--apply", **listed)
        assert code == 1
        assert "who may do this (`rename`)" in told
    assert command(place, "clicks", NAME, "--apply")[0] == 0


def test_a_run_that_is_held_is_published_first(tmp_path: Path) -> None:
    place = written(tmp_path / "root")
    now = datetime(2026, 7, 1, tzinfo=UTC)
    held = RunResult(
        pipeline="clicks",
        run_id="held",
        outcome="succeeded",
        held=True,
        scheduled_at=now,
        started_at=now,
        ended_at=now,
        tables={"per_10m": TABLE},
    )
    write_result(place.places.result("held"), held, {})
    code, told = command(place, "clicks", NAME, "--apply")
    assert code == 1
    assert "`tidemark publish clicks`" in told
    shutil.rmtree(place.places.results)
    assert command(place, "clicks", NAME)[0] == 0


def test_a_run_that_was_killed_is_finished_first(tmp_path: Path) -> None:
    place = written(tmp_path / "root")
    (lease,) = Path(place.places.lease).iterdir()
    left = json.loads(lease.read_text()) | {"released": False, "purpose": "stream"}
    left["processes"] = [{**left["processes"][0], "pid": 2**22 - 3}]
    lease.write_text(json.dumps(left))
    code, told = command(place, "clicks", NAME, "--apply")
    assert code == 1
    assert "was killed" in told
    assert "`tidemark run clicks`" in told
    # A rename that was killed is taken up.
    lease.write_text(json.dumps(left | {"purpose": "rename"}))
    assert command(place, "clicks", NAME, "--apply")[0] == 0
    assert not Path(place.places.folder).exists()


@pytest.mark.slow
def test_no_folder_of_a_bucket_gets_another_name(tmp_path: Path) -> None:
    place = written(tmp_path / "root")
    with s3_server() as options:
        copy_to_store(place.root, "s3://lake/root", options)
        pipelines = str(place.root / "pipelines")
        settings = Settings(root="s3://lake/root", pipelines=pipelines, storage_options=options)
        with pytest.raises(RenameRefused, match="is in an object store"):
            plan_rename("clicks", NAME, settings)


def test_where_the_folder_cannot_be_moved_the_pipeline_goes_on_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = written(tmp_path / "root")

    def in_the_way(uri: str, to: str) -> None:
        raise FileInTheWay(f"{to} is there")

    monkeypatch.setattr("tidemark.upkeep.renaming.rename_folder", in_the_way)
    with pytest.raises(RenameRefused, match="Nothing was changed"):
        do(place)
    assert unfinished_act(place.warehouse) is None
    (reader,) = other_readers(Warehouse.of("views", place.settings))
    assert reader.pipeline == "clicks"
    lease = read_lease(place.places.lease, {})
    assert lease is not None
    assert lease.released
    monkeypatch.undo()
    do(place)


def test_a_lease_goes_along_and_is_renewed_there(tmp_path: Path) -> None:
    here, there = tmp_path / "one" / "lease", tmp_path / "two" / "lease"
    with hold_lease(str(here), this_process("run", "rename"), {}, seconds=0.3) as lease:
        lease.go_along(lambda: here.parent.rename(there.parent), str(there))
        first = read_lease(str(there), {})
        assert first is not None
        until = first.expires_at
        while read_lease(str(there), {}).expires_at == until:  # type: ignore[union-attr]
            pass
        lease.check()
        assert not here.parent.exists()
    left = read_lease(str(there), {})
    assert left is not None
    assert left.released


def test_a_lease_that_is_lost_goes_nowhere(tmp_path: Path) -> None:
    here = tmp_path / "lease"

    def lost() -> None:
        with hold_lease(str(here), this_process("run", "x"), {}, on_lapse=lambda _: None) as lease:
            shutil.rmtree(here)
            lease.go_along(lambda: pytest.fail("moved"), str(tmp_path / "there"))

    with pytest.raises(LeaseLost):
        lost()
