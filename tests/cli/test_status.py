"""`tidemark status`: the screens, the JSON, and the exit codes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.end_to_end.pages import page
from tests.kit.running import Place, clicks
from tests.kit.windows import at
from tests.runs.pipelines import BEGAN, bronze, ended, housekept, windows_of
from tests.storage.leases import leave, left_by_another
from tidemark.cli.exit_codes import STATES
from tidemark.cli.main import app
from tidemark.cli.status_report import print_pipeline, print_status_overview
from tidemark.errors import RunFailed, TableMismatch
from tidemark.gold.pins import Late
from tidemark.pipeline.durations import span_text
from tidemark.runs.status.drift import NewField, SourceDrift, WrongColumn
from tidemark.runs.status.pipeline_status import PipelineStatus
from tidemark.runs.status.recorded_status import all_statuses
from tidemark.runs.status.state import PipelineState

NOW = BEGAN + timedelta(minutes=94)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pipelines in several states; `clicks` is well."""
    root = tmp_path_factory.mktemp("status")
    places = {
        name: Place(root, name=name) for name in ("clicks", "held", "killed", "new", "stopped")
    }
    (root / "landing").mkdir()
    for place in places.values():
        place.write_file()
    well = places["clicks"]
    windows_of(well)
    bronze(well, at(10, 50))
    ended(well, error=RunFailed("The query clicks failed.\nMore."))
    ended(well, "next", BEGAN + timedelta(minutes=10), late=Late())
    housekept(well, at(12), ingest=0, per_10m=4_000)
    windows_of(places["held"])
    ended(places["held"], held=True)
    ended(places["killed"])
    leave(places["killed"].places.lease, left_by_another())
    ended(places["stopped"], error=TableMismatch("The table gold does not fit:\n  a: int"))
    broken = Place(root, clicks(watermrk={"delay": "1 minute"}), name="broken")
    broken.write_file()
    return root


@pytest.fixture(scope="module")
def statuses(root: Path) -> dict[str, PipelineStatus]:
    return {one.name: one for one in all_statuses(Place(root).settings, NOW)}


def tidemark(root: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["status", *arguments], env=Place(root).variables)


def screen(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed, without the spaces at the ends of its lines."""
    lines = capsys.readouterr().out.splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def on_the_page(command: str) -> str:
    """What docs/status.md shows under a command."""
    (shown,) = re.findall(rf"```\n\$ {command}\n(.*?)```", page("status.md"), re.DOTALL)
    return str(shown)


@pytest.mark.slow
def test_all_pipelines_are_on_one_screen(
    statuses: dict[str, PipelineStatus], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = [statuses[name] for name in ("clicks", "held", "killed", "new", "stopped")]
    print_status_overview(shown, "/pipelines", NOW)
    assert screen(capsys) == on_the_page("tidemark status")


def test_a_pipeline_is_shown_with_its_tables_and_runs(
    statuses: dict[str, PipelineStatus], capsys: pytest.CaptureFixture[str]
) -> None:
    print_pipeline(statuses["clicks"])
    assert screen(capsys) == on_the_page("tidemark status clicks")


def test_the_error_of_the_last_run_is_shown_whole(root: Path) -> None:
    shown = tidemark(root, "stopped")
    assert shown.exit_code == STATES[PipelineState.STOPPED]
    assert shown.output.endswith("run: TableMismatch: The table gold does not fit:\n  a: int\n")


def test_a_broken_file_is_a_line_of_the_screen_and_told_whole_when_it_is_asked_for(
    root: Path,
) -> None:
    file, code = root / "pipelines" / "broken.yaml", STATES[PipelineState.INVALID]
    overview, alone = tidemark(root), tidemark(root, "broken")
    assert (overview.exit_code, alone.exit_code) == (code, code)
    assert f"\nbroken: Mend {file}: watermrk: is not a known key" in overview.output
    assert f"\n{file}: 1 problem\n" in alone.output


def test_json_is_a_list_with_times_in_utc(root: Path) -> None:
    (told,) = json.loads(tidemark(root, "clicks", "--json").stdout)
    assert (told["name"], told["state"], told["state_bytes"]) == ("clicks", "well", 4_000)
    assert told["watermark"] == "2026-07-01T10:40:00+00:00"
    assert told["seconds_behind_newest_event"] == 600
    assert told["seconds_behind_scheduled_time"] == 5_400
    assert [run["outcome"] for run in told["runs"]] == ["succeeded", "failed"]
    assert told["runs"][0]["tables"]["per_10m"]["windows_published"] == 3
    names = [one["name"] for one in json.loads(tidemark(root, "--json").stdout)]
    assert names == ["broken", "clicks", "held", "killed", "new", "stopped"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pipeline", "state"),
    [
        ("clicks", PipelineState.WELL),
        ("new", PipelineState.NEW),
        ("held", PipelineState.HELD),
        ("killed", PipelineState.KILLED),
        ("stopped", PipelineState.STOPPED),
    ],
)
def test_the_exit_code_is_that_of_the_state(
    root: Path, pipeline: str, state: PipelineState
) -> None:
    assert tidemark(root, pipeline).exit_code == STATES[state]


def test_the_states_that_need_somebody_have_codes_of_their_own_and_grow_worse() -> None:
    codes = [STATES[state] for state in PipelineState]
    assert codes == sorted(codes)
    assert [code for code in codes if code] == list(range(19, 27))


def test_the_page_has_the_code_of_each_state() -> None:
    table = re.findall(r"^\| ([a-z ]+) \| (\d+) \|", page("status.md"), re.MULTILINE)
    assert table == [(state.value, str(STATES[state])) for state in PipelineState]


def test_a_pipeline_that_has_not_run_is_a_sentence(root: Path) -> None:
    assert tidemark(root, "new").output == (
        "new: not run yet\nTo do: It has not run yet: `tidemark run new` runs it.\n"
    )


def test_a_folder_without_a_pipeline_is_a_sentence(tmp_path: Path) -> None:
    shown = tidemark(tmp_path)
    told = f"There is no pipeline yet: {tmp_path}/pipelines holds no pipeline file.\n"
    assert (shown.exit_code, shown.output) == (0, told)


def test_a_pipeline_that_nobody_knows_is_an_error(root: Path) -> None:
    shown = tidemark(root, "click")
    assert shown.exit_code == 1
    assert shown.stderr.startswith("PipelineNotFound: There is no pipeline `click`")


@pytest.mark.slow
def test_asking_changes_nothing(root: Path) -> None:
    before = {file: file.stat().st_mtime_ns for file in root.rglob("*")}
    tidemark(root)
    tidemark(root, "clicks")
    assert {file: file.stat().st_mtime_ns for file in root.rglob("*")} == before


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(seconds=0.2), "0 s"),
        (timedelta(seconds=-5), "0 s"),
        (timedelta(seconds=61), "1 min 1 s"),
        (timedelta(hours=2), "2 h"),
        (timedelta(days=3, seconds=59), "3 d 59 s"),
    ],
)
def test_a_length_of_time_is_told_in_its_two_largest_units(span: timedelta, text: str) -> None:
    assert span_text(span) == text


def test_what_the_source_has_come_to_is_told_with_the_line_that_makes_a_column(
    statuses: dict[str, PipelineStatus], capsys: pytest.CaptureFixture[str]
) -> None:
    since = at(12)
    fields = (
        NewField("coupon", 0.34, since, "string"),
        NewField("Amount (EUR)", 0.2, since, "double"),
        NewField("Order no", 0.2, since, "decimal(38,0)"),
        NewField("items", 0.1, since, None),
    )
    wrong = (WrongColumn("amount", 0.482, "amount should be long, found 12.5"),)
    print_pipeline(replace(statuses["clicks"], drift=SourceDrift(1_000, fields, wrong)))
    assert (
        capsys.readouterr().out.partition("\nFields")[2]
        == """ that no column takes, kept in _extra:

field         of the rows  since                 below source.columns
────────────────────────────────────────────────────────────────────────────────────────────────
coupon              34.0%  2026-07-01T12:00:00Z  coupon: string
Amount (EUR)        20.0%  2026-07-01T12:00:00Z  …: {field: ["Amount (EUR)"], type: double}
Order no            20.0%  2026-07-01T12:00:00Z  …: {field: ["Order no"], type: "decimal(38,0)"}
items               10.0%  2026-07-01T12:00:00Z  several kinds, or no values

Columns whose values are of another type, so that rows are rejected:

column  of the rows  newest
──────────────────────────────────────────────────────
amount        48.2%  amount should be long, found 12.5
since: among the 1,000 rows of the newest batches
"""
    )
