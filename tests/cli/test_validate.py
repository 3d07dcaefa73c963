"""`tidemark validate`, by what it prints and how it exits."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.kit.running import REPOSITORY, Place, clicks
from tests.kit.shipped import FILES
from tidemark.cli.main import app

SITE_VISITS = REPOSITORY / "include" / "pipelines" / "site_visits.yaml"
SETTINGS = "root: .\npipelines: pipelines\n"
BAD = """\
source:
  files: landing/*.json
  columns: {at: timestamp, key: string}
  event_time: {column: att}
watermark: {delay: 10 minutes}
tables:
  per_10m:
    window: {length: 10 minutes, slide: 20 minutes}
    group_by: [key]
    measures: {events: count(*)}
"""


def tidemark(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with settings, and a pipelines' folder without a file, to work in."""
    for name in ("ROOT", "PIPELINES", "SETTINGS"):
        monkeypatch.delenv(f"TIDEMARK_{name}", raising=False)
    (tmp_path / "include" / "pipelines").mkdir(parents=True)
    (tmp_path / "include" / "settings.yaml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def add_good(project: Path, name: str) -> Path:
    return Place(project / "include", clicks(), name).write_file()


def add_bad(project: Path, name: str = "bad") -> Path:
    file = project / "include" / "pipelines" / f"{name}.yaml"
    file.write_text(BAD)
    return file


def test_each_good_file_of_the_folder_has_a_line(project: Path) -> None:
    add_good(project, "clicks")
    add_good(project, "views")
    ended = tidemark("validate")
    assert ended.output == "clicks: good (tables: per_10m)\nviews: good (tables: per_10m)\n"
    assert ended.exit_code == 0


def test_a_table_that_a_measure_has_computed_from_bronze_is_told(project: Path) -> None:
    (table,) = clicks()["tables"].values()
    users = table | {"measures": {"events": "count(*)", "users": "count(distinct key)"}}
    tables = {"plain": table, "users": users, "said": users | {"stream": "recompute"}}
    Place(project / "include", clicks(tables=tables)).write_file()
    assert tidemark("validate").output.splitlines() == [
        "clicks: good (tables: plain, users, said)",
        "  users: computed from bronze in each run (`stream: recompute`), as `users` keeps all "
        "values of a window",
    ]


def test_a_bad_file_has_all_its_problems_told_and_keeps_no_other_from_being_checked(
    project: Path,
) -> None:
    add_good(project, "views")
    file = add_bad(project)
    ended = tidemark("validate")
    lines = ended.output.splitlines()
    assert lines[0] == f"{file}: 2 problems"
    assert lines[1].startswith("  line 4, column 24: source.event_time.column: `att`")
    assert lines[1].endswith("Did you mean `at`?")
    assert lines[2].startswith("  line 8, column ")
    assert "slide" in lines[2]
    assert lines[3:] == [
        "views: good (tables: per_10m)",
        "1 of 2 pipelines cannot be used.",
    ]
    assert ended.exit_code == 1


def test_the_samples_are_good(project: Path) -> None:
    ended = tidemark("validate", *FILES)
    assert ended.exit_code == 0
    assert ended.output.count(": good (tables: ") == len(FILES)


def test_only_the_named_pipelines_are_checked(project: Path) -> None:
    add_bad(project)
    add_good(project, "clicks")
    assert tidemark("validate", "clicks").exit_code == 0
    assert tidemark("validate", "clicks", "bad").exit_code == 1


def test_a_file_named_by_its_path_needs_no_settings(project: Path) -> None:
    file = add_good(project, "clicks")
    (project / "include" / "settings.yaml").unlink()
    assert tidemark("validate", file).output == "clicks: good (tables: per_10m)\n"
    missing = tidemark("validate", "clicks")
    assert missing.exit_code == 1
    assert missing.stderr.startswith("SettingsInvalid: ")
    assert "root: is missing" in missing.stderr


def test_a_name_that_is_not_there_is_told_with_the_nearest(project: Path) -> None:
    add_good(project, "clicks")
    ended = tidemark("validate", "click")
    assert "There is no pipeline `click`" in ended.output
    assert "Did you mean `clicks`?" in ended.output
    assert ended.exit_code == 1


def test_a_folder_that_holds_no_pipeline_is_said_and_is_no_error(project: Path) -> None:
    folder = project / "include" / "pipelines"
    ended = tidemark("validate")
    assert ended.output == (
        f"Nothing to check: the pipelines' folder {folder} holds no pipeline file.\n"
    )
    assert ended.exit_code == 0
    folder.rmdir()
    assert f"{folder} does not exist." in tidemark("validate").output


def test_another_settings_file_names_another_folder(project: Path) -> None:
    add_bad(project)
    (project / "other").mkdir()
    Place(project / "other", clicks(), "views").write_file()
    (project / "other" / "settings.yaml").write_text(SETTINGS)
    ended = tidemark("validate", "--settings", project / "other" / "settings.yaml")
    assert ended.output == "views: good (tables: per_10m)\n"


def test_a_misspelt_setting_is_told_with_the_nearest(project: Path) -> None:
    (project / "include" / "settings.yaml").write_text("rooot: x\n")
    ended = tidemark("validate")
    assert ended.stderr.startswith("SettingsInvalid: ")
    assert "Did you mean `root`?" in ended.stderr
    assert ended.exit_code == 1


@pytest.mark.slow
def test_validate_loads_no_engine(project: Path) -> None:
    add_good(project, "clicks")
    code = (
        "import json, sys\n"
        "from tidemark.cli.main import app\n"
        "app(['validate'], standalone_mode=False)\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=project
    )
    good, loaded = ended.stdout.splitlines()
    assert good == "clicks: good (tables: per_10m)"
    engines = {"pyspark", "deltalake", "duckdb", "pyarrow", "pandas", "airflow"}
    assert not engines & set(json.loads(loaded))


def test_what_the_settings_do_not_grant_is_bad_and_the_line_that_grants_it_makes_it_good(
    project: Path,
) -> None:
    place = "file:///srv/landing/in/*.json"
    source = {**clicks()["source"], "files": place}
    Place(project / "include", clicks(source=source), "clicks").write_file()
    refused = tidemark("validate")
    assert refused.exit_code == 1
    assert "lies outside of the root" in refused.output
    line = re.search("`(sources: .*?)`", refused.output.replace("\n", " "))
    assert line is not None
    with (project / "include" / "settings.yaml").open("a") as settings:
        settings.write(f"{line[1]}\n")
    assert tidemark("validate").output.startswith("clicks: good")


@pytest.mark.slow
def test_a_fold_that_every_run_would_refuse_is_bad(project: Path) -> None:
    pipelines = project / "include" / "pipelines"
    shutil.copytree(SITE_VISITS.parent / "folds", pipelines / "folds")
    shutil.copy(SITE_VISITS, pipelines)
    assert tidemark("validate").exit_code == 0
    fold = pipelines / "folds" / "after_errors.py"
    fold.write_text(fold.read_text().replace("def start(self) -> Visit:", "def start(self):"))
    refused = tidemark("validate")
    assert refused.exit_code == 1
    assert refused.output.startswith("site_visits: tables.after_errors.fold.python: ")
    assert "`start` says that it returns nothing" in refused.output
