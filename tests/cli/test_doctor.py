"""`tidemark doctor`: what it looks at, what it says, and that it leaves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kit.patience import HUNG_SECONDS
from tests.kit.running import REPOSITORY, Place, clicks
from tests.storage.s3 import s3_server
from tidemark.storage.files import list_files

pytestmark = pytest.mark.process


def doctor(*arguments: str, **variables: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tidemark", "doctor", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=os.environ | variables,
        cwd=REPOSITORY,
        timeout=HUNG_SECONDS,
    )
    return done.returncode, done.stdout


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "root", clicks())
    place.write_file()
    return place


def test_a_good_set_up_is_well_and_nothing_is_left_below_the_root(place: Place) -> None:
    code, said = doctor("--master", "local[2]", **place.variables)
    assert code == 0, said
    assert "FAILED" not in said
    for told in (
        "1 in ",
        "one of 8 writers wins, 16 times",
        "master local[2]",
        "one writes a Delta table that the other reads",
    ):
        assert told in said
    assert [found.name for found in place.root.iterdir()] == ["pipelines"]


def test_pipelines_that_are_not_valid_are_named_and_are_no_problem(place: Place) -> None:
    (place.root / "pipelines" / "broken.yaml").write_text("source: 3\n")
    code, said = doctor("--without-spark", **place.variables)
    assert code == 0, said
    assert "not valid: broken" in " ".join(said.split())


def test_a_root_on_this_machine_with_executors_elsewhere_is_told_before_spark_starts(
    place: Place,
) -> None:
    code, said = doctor("--master", "spark://elsewhere:7077", **place.variables)
    assert code == 1, said
    assert "would write to their own disks" in " ".join(said.split())


def test_what_is_found_is_json_where_that_is_asked_for(place: Place) -> None:
    code, said = doctor("--without-spark", "--json", **place.variables)
    assert code == 0
    assert {found["problem"] for found in json.loads(said)} == {None}


def on_store(place: Place, options: Mapping[str, str]) -> dict[str, str]:
    stored = {"TIDEMARK_ROOT": "s3://new/root", "TIDEMARK_STORAGE_OPTIONS": json.dumps(options)}
    return place.variables | stored


def test_a_bucket_is_made_only_when_it_is_asked_for(place: Place) -> None:
    with s3_server() as options:
        variables = on_store(place, options)
        code, said = doctor("--without-spark", **variables)
        assert code == 1, said
        assert "There is no such bucket" in said
        code, said = doctor("--without-spark", "--make-bucket", **variables)
        assert code == 0, said


def test_spark_and_delta_rs_reach_a_store_and_leave_nothing_there(place: Place) -> None:
    with s3_server() as options:
        root = "s3://lake/root"
        variables = on_store(place, options) | {"TIDEMARK_ROOT": root}
        code, said = doctor("--master", "local[1]", **variables)
        assert code == 0, said
        assert "one writes a Delta table that the other reads" in said
        assert not list_files("s3://lake", options)


def test_a_connection_that_airflow_does_not_have_is_told_with_the_command_that_makes_it(
    place: Place, tmp_path: Path
) -> None:
    own = {"AIRFLOW_HOME": str(tmp_path / "airflow")}
    code, said = doctor("--without-spark", "--connection", "no_such", **place.variables, **own)
    assert code == 1, said
    assert "airflow connections add no_such --conn-type spark" in " ".join(said.split())
