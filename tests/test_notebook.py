"""A pipeline from Python, without a run: what `load` refuses, what `write` writes, what ends a run
before Spark is started."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import tidemark
from tests.kit.running import REPOSITORY, Place, clicks
from tests.operators.contract.folded import SOURCE
from tests.operators.folds.test_seeds import SET, with_fold
from tests.pipeline.test_messages import DELTA, FILE, KAFKA
from tidemark.cli.main import app
from tidemark.errors import (
    EngineMissing,
    LeaseHeld,
    PipelineExists,
    PipelineInvalid,
    PipelineNotFound,
    SampleUnusable,
    SettingsInvalid,
    SourceNotFound,
)
from tidemark.notebook import LoadedPipeline
from tidemark.pipeline.load import load_pipeline, pipeline_from_mapping
from tidemark.storage.lease.lease import hold_lease, this_process

SAMPLES = ("access_log", "ad_clicks", "ad_impressions", "click_through", "site_visits")
HEAVY = {
    *("pyspark", "delta", "deltalake", "duckdb", "pyarrow", "pandas", "numpy", "airflow"),
    *("great_expectations", "confluent_kafka", "asyncio"),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A root with a pipeline, which is found by its name."""
    place = Place(tmp_path)
    place.write_file()
    (tmp_path / "landing").mkdir()
    for name, value in place.variables.items():
        monkeypatch.setenv(name, value)
    return place


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the samples' files, and an empty one of the settings beside it."""
    folder = tmp_path / "pipelines"
    (folder / "folds").mkdir(parents=True)
    (tmp_path / "others" / "folds").mkdir(parents=True)
    for name in SAMPLES:
        shutil.copy(REPOSITORY / "include" / "pipelines" / f"{name}.yaml", folder)
    for to in (folder, tmp_path / "others"):
        shutil.copy(REPOSITORY / "include/pipelines/folds/after_errors.py", to / "folds")
    monkeypatch.setenv("TIDEMARK_ROOT", str(tmp_path))
    monkeypatch.setenv("TIDEMARK_PIPELINES", str(folder))
    return folder


def validated(name: str | Path) -> str:
    return CliRunner().invoke(app, ["validate", str(name)]).output.strip()


def without_places(text: str) -> Iterator[str]:
    for line in text.splitlines()[1:]:
        yield line.strip().partition(": ")[2] if line.startswith("  line ") else line.strip()


@pytest.mark.slow
def test_importing_loading_and_writing_bring_nothing_heavy(samples: Path) -> None:
    steps = (
        "import tidemark",
        "pipeline = tidemark.load('access_log')",
        "tidemark.write(pipeline, 'copy.yaml')",
    )
    told = "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    code = "import json, sys\n" + "".join(f"{step}\n{told}\n" for step in steps)
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=samples
    )
    first, *others = (set(json.loads(line)) for line in ended.stdout.splitlines())
    assert not first & (HEAVY | {"pydantic", "typer"})
    assert [loaded & (HEAVY - {"asyncio"}) for loaded in others] == [set(), set()]


def test_what_is_loaded_lazily_is_listed_for_who_completes_names() -> None:
    assert {"load", "write", "read", "dataset"} <= set(dir(tidemark))
    with pytest.raises(AttributeError, match="has no attribute 'try_'"):
        _ = tidemark.try_


def test_a_pipeline_is_found_by_its_name_and_by_its_file_and_is_frozen(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = place.root / "pipelines" / "clicks.yaml"
    monkeypatch.chdir(place.root)
    found = tidemark.load("clicks")
    assert found == tidemark.load("pipelines/clicks.yaml") == tidemark.load(file)
    assert (found.name, found.model, found.settings) == ("clicks", place.pipeline, place.settings)
    assert repr(found) == f"<pipeline clicks: tables per_10m; {file}>"
    with pytest.raises(FrozenInstanceError):
        found.model = place.pipeline  # type: ignore[misc]


def test_settings_are_those_of_the_file_that_is_given(place: Place, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("lease_seconds: 7\n")
    assert tidemark.load("clicks", settings=tmp_path / "other.yaml").settings.lease_seconds == 7
    with pytest.raises(SettingsInvalid, match="There is no settings file"):
        tidemark.load("clicks", settings=str(tmp_path / "none.yaml"))


@pytest.mark.parametrize(
    "content",
    [
        {"tables": {}},
        clicks(watermark={"delay": "soon"}, tables={"per_10m": {"window": {"lenght": "1 hour"}}}),
        clicks(source=clicks()["source"] | {"files": "/srv/landing/*.json"}),
        clicks(tables={"per_10m": {"measures": {"a": "sum(amont)", "b": "nope(1)"}}}),
    ],
)
def test_a_bad_file_raises_all_that_validate_says_of_it(
    place: Place, content: dict[str, Any]
) -> None:
    place.content = content
    file = place.write_file()
    with pytest.raises(PipelineInvalid) as refused:
        tidemark.load("clicks")
    assert str(refused.value) == validated("clicks")
    # Written from Python it is the same, but for its lines; and the file stays.
    if str(refused.value).count("\n"):
        before = file.read_bytes()
        with pytest.raises(PipelineInvalid) as not_written:
            tidemark.write(content, file, replace=True)
        assert str(not_written.value).startswith(f"{file}, which was not written: ")
        said = (sorted(without_places(str(one.value))) for one in (refused, not_written))
        assert len({tuple(one) for one in said}) == 1
        assert file.read_bytes() == before


@pytest.mark.slow
def test_a_fold_that_every_run_would_refuse_is_refused_as_validate_refuses_it(place: Place) -> None:
    with_fold(place.root / "pipelines", SOURCE)
    assert tidemark.load("clicks").model.tables.keys() == {"thirds"}
    with_fold(place.root / "again", SET)
    with pytest.raises(PipelineInvalid, match="the order of a set") as refused:
        tidemark.load(place.root / "again" / "clicks.yaml")
    assert str(refused.value) == validated(place.root / "again" / "clicks.yaml")


def test_what_the_settings_do_not_allow_is_refused_before_any_of_it_is_run(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_fold(
        place.root / "pipelines", SOURCE.replace("class Thirds", "raise SystemExit\nclass Thirds")
    )
    monkeypatch.setenv("TIDEMARK_ALLOW_PYTHON", "false")
    with pytest.raises(PipelineInvalid, match="`allow_python: true`"):
        tidemark.load("clicks")


def test_a_name_that_is_not_there_is_told_with_the_nearest(place: Place) -> None:
    with pytest.raises(PipelineNotFound, match="Did you mean `clicks`"):
        tidemark.load("click")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_that_is_written_and_loaded_again_is_the_same(samples: Path, name: str) -> None:
    found = tidemark.load(name)
    again = tidemark.load(tidemark.write(found, samples / f"{name}.yaml", replace=True))
    assert again == found
    assert again.model.model_dump_json() == found.model.model_dump_json()
    assert tidemark.write(again, samples / f"{name}.yaml") == again.file
    # As the dict that it says, and beside the same files elsewhere.
    tidemark.write(found.model.content(), samples / f"{name}.yaml")
    for partner in found.model.partners:
        tidemark.write(tidemark.load(partner), samples.parent / "others" / f"{partner}.yaml")
    elsewhere = tidemark.write(found.model, samples.parent / "others" / f"{name}.yaml")
    assert tidemark.load(elsewhere) == found


# What YAML reads as something else where it has no quotes.
SPECIAL = ["yes", "0x1f", "12:30", "1e3", "~", "a: b", "- a", "a #b", "'", '"', "{", "\t", "\n"]
TEXTS = st.text(min_size=1, max_size=30) | st.sampled_from(SPECIAL)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.sampled_from([FILE, KAFKA, DELTA]), TEXTS, TEXTS, st.integers(1, 10**6))
def test_whatever_texts_a_pipeline_has_its_file_says_them(
    tmp_path_factory: pytest.TempPathFactory, file: str, text: str, other: str, seconds: int
) -> None:
    written = tmp_path_factory.getbasetemp() / "texts" / "orders.yaml"
    written.parent.mkdir(exist_ok=True)
    content = yaml.safe_load(file.replace(", starting: X", ""))
    content |= {"description": text, "watermark": {"delay": f"{seconds} seconds"}}
    quoted = other.replace("\\", "\\\\").replace("'", "\\'")
    content["source"]["derive"]["dear"] = f"carrier = '{quoted}'"
    try:
        found = pipeline_from_mapping("orders", content)
    except PipelineInvalid:
        return  # what is no text of SQL
    for one in (content, found):
        assert load_pipeline(tidemark.write(one, written, replace=True)) == found


def test_a_limit_that_follows_the_delay_goes_on_following_it(place: Place) -> None:
    file = tidemark.write(tidemark.load("clicks"), place.root / "pipelines" / "views.yaml")
    assert "max_future" not in file.read_text()
    file.write_text(file.read_text().replace("10 minutes", "20 minutes"))
    assert tidemark.load("views").model.source.event_time.max_future == timedelta(minutes=20)


def test_a_file_is_written_once_and_replaced_only_where_that_is_asked(place: Place) -> None:
    file = place.root / "pipelines" / "views.yaml"
    assert tidemark.write(clicks(), file) == file
    written = file.read_text()
    assert tidemark.write(clicks(), file) == file
    with pytest.raises(PipelineExists, match="says something else"):
        tidemark.write(clicks(owner="web"), file)
    assert file.read_text() == written
    tidemark.write(clicks(owner="web"), file, replace=True)
    assert tidemark.load("views").model.owner == "web"


def test_what_is_no_file_of_a_pipeline_is_not_written(place: Place) -> None:
    folder = place.root / "pipelines"
    loops: dict[str, Any] = {}
    loops["loop"] = loops
    before = sorted(folder.iterdir())
    for content, name, said in (
        (clicks(), "views", "is no NAME.yaml in a folder"),
        (clicks(), "none/views.yaml", "is no NAME.yaml in a folder"),
        (clicks(), "clicks.yml", "shares its name, and so its tables, with clicks.yaml"),
        (clicks(), "a b.yaml", "a b"),
        (clicks(watermark={"delay": timedelta(1)}), "views.yaml", "timedelta is not JSON"),
        (loops, "views.yaml", "Circular reference"),
        (clicks(description="\ud800"), "views.yaml", "has half a character"),
        (clicks(description="x" * 300_000), "views.yaml", "too large"),
    ):
        with pytest.raises(PipelineInvalid, match="was not written") as refused:
            tidemark.write(content, folder / name)
        assert said in str(refused.value)
    assert sorted(folder.iterdir()) == before


def test_a_pipeline_is_not_written_where_its_folds_or_joins_would_be_others(samples: Path) -> None:
    others = samples.parent / "others"
    found = {name: tidemark.load(name) for name in SAMPLES}
    with (others / "folds" / "after_errors.py").open("a") as code:
        code.write("\nX = 1\n")
    with pytest.raises(PipelineInvalid, match="would mean something else"):
        tidemark.write(found["site_visits"], others / "site_visits.yaml")
    partner = found["ad_clicks"].model.content() | {"watermark": {"delay": "1 hour"}}
    with pytest.raises(PipelineInvalid, match="ad_clicks"):
        tidemark.write(found["click_through"], others / "click_through.yaml")
    tidemark.write(partner, others / "ad_clicks.yaml")
    with pytest.raises(PipelineInvalid, match="would mean something else"):
        tidemark.write(found["click_through"], others / "click_through.yaml")
    assert sorted(path.name for path in others.iterdir()) == ["ad_clicks.yaml", "folds"]


def test_a_file_or_settings_that_changed_since_are_told_and_nothing_runs(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tidemark.load("clicks")
    tidemark.write(clicks(watermark={"delay": "1 hour"}), found.file, replace=True)
    for call in (found.run, found.try_):
        with pytest.raises(PipelineInvalid, match=r"clicks\.yaml, .* changed .* Nothing was run"):
            call()
    found = tidemark.load("clicks")
    monkeypatch.setenv("TIDEMARK_LEASE_SECONDS", "7")
    for call in (found.run, found.try_):
        with pytest.raises(PipelineInvalid, match="settings and TIDEMARK_"):
            call()
    assert not Path(place.places.results).exists()


def test_a_trial_without_a_row_is_told_before_anything_runs(place: Place) -> None:
    with pytest.raises(SampleUnusable, match="clicks has no row to try"):
        tidemark.load("clicks").try_()
    with pytest.raises(ValueError, match="rows is 0"):
        tidemark.load("clicks").try_(0)


@pytest.mark.slow
def test_a_run_that_stops_raises_the_error_that_its_result_names(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    found = tidemark.load("clicks")
    with (
        hold_lease(place.places.lease, this_process("other", "test"), {}),
        pytest.raises(LeaseHeld, match="other") as held,
    ):
        found.run()
    (place.root / "landing").rmdir()
    with pytest.raises(SourceNotFound, match="landing does not exist") as gone:
        found.run()
    for error in (held.value, gone.value):
        message, last = str(error).rsplit("\n", 1)
        run_id = last.removeprefix("It was the run ").removesuffix(" of clicks.")
        stored = json.loads(Path(place.places.result(run_id)).read_text())["error"]
        assert (stored["class"], stored["message"]) == (type(error).__name__, message)
        assert stored["retry_can_help"] is error.retry_can_help is True
    said = capfd.readouterr()
    assert "SourceNotFound: " in said.err
    assert not said.out


@pytest.mark.slow
def test_a_run_without_a_result_raises_what_the_command_said(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.land("1.json", [{"at": "2026-01-01T10:01:00Z", "key": "a", "amount": 1}])
    monkeypatch.setenv("JAVA_HOME", "/no/java")
    before = dict(os.environ)
    found = tidemark.load("clicks")
    for call in (found.run, found.try_):
        with pytest.raises(EngineMissing) as missing:
            call()
        first, last = str(missing.value).splitlines()
        assert first.startswith("Spark needs Java, and none was found: JAVA_HOME is /no/java")
        assert last == ("`tidemark run clicks` ended with exit status 1, and without a result.")
    assert dict(os.environ) == before


def test_a_loaded_pipeline_is_equal_to_no_other(place: Place) -> None:
    found = tidemark.load("clicks")
    tidemark.write(clicks(owner="web"), found.file, replace=True)
    assert found != tidemark.load("clicks")
    assert isinstance(found, LoadedPipeline)
