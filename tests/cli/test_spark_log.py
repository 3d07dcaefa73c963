"""Where Spark's own log goes, and who has told it that already."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tidemark.cli.spark_log import has_own_configuration, log_beside, logging_to


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_the_log_lies_beside_a_result_of_this_machine(scheme: str) -> None:
    assert log_beside(f"{scheme}/w/clicks/results/a.json") == Path("/w/clicks/results/a.spark.log")


def test_the_log_of_a_job_whose_result_goes_to_a_store_is_a_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    log = log_beside("s3://bucket/clicks/results/a.json")
    assert log.parent.parent == tmp_path
    assert log.name == "job.spark.log"


def test_a_place_with_spaces_and_quotes_is_one_option() -> None:
    told = logging_to(Path('/my "own"/a.spark.log'), {})["SPARK_SUBMIT_OPTS"]
    assert shlex.split(told)[1:] == ['-Dtidemark.spark.log=/my "own"/a.spark.log']


@pytest.mark.parametrize("name", ["SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"])
def test_an_option_of_the_jvm_that_names_log4j_is_a_configuration(name: str) -> None:
    assert has_own_configuration({name: "-Xmx1g -Dlog4j.configurationFile=/x"})
    assert not has_own_configuration({name: "-Xmx1g"})


def test_a_file_in_sparks_folder_of_configuration_is_one_and_its_template_is_none(
    tmp_path: Path,
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "log4j2.properties.template").touch()
    environments = {"SPARK_HOME": str(tmp_path)}, {"SPARK_CONF_DIR": str(tmp_path / "conf")}
    assert [has_own_configuration(one) for one in environments] == [False, False]
    (tmp_path / "conf" / "log4j2.properties").touch()
    assert [has_own_configuration(one) for one in environments] == [True, True]
