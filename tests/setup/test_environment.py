from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from setup.environment import environment_file
from setup.java import Java
from setup.layout import Layout

JAVA = Java("/opt/it's java", "17.0.1", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")


def sourced(file: Path, env: dict[str, str]) -> dict[str, str]:
    """What the environment is after a POSIX shell has sourced the file."""
    script = '. "$0" && env -0'
    ended = subprocess.run(
        ["/bin/sh", "-eu", "-c", script, str(file)], env=env, capture_output=True, check=True
    )
    pairs = (item.partition("=")[::2] for item in ended.stdout.decode().split("\0") if item)
    return dict(pairs)


@pytest.fixture
def file(layout: Layout, tmp_path: Path) -> Path:
    path = tmp_path / "env"
    path.write_text(environment_file(layout, JAVA, "/x/a.jsa"))
    return path


def test_a_shell_that_sources_the_file_has_all_that_a_run_needs(file: Path, layout: Layout) -> None:
    env = sourced(file, {"PATH": "/usr/bin:/bin"})
    assert env["JAVA_HOME"] == "/opt/it's java"
    assert env["SPARK_HOME"] == str(layout.spark_home)
    assert env["SPARK_DIST_CLASSPATH"] == f"{layout.jars}/*"
    assert env["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert env["SPARK_LAUNCHER_OPTS"] == JAVA.flags
    assert env["PYSPARK_PYTHON"] == env["PYSPARK_DRIVER_PYTHON"] == str(layout.python)
    assert env["PATH"] == f"{layout.venv}/bin:/opt/it's java/bin:/usr/bin:/bin"
    assert env["TIDEMARK_SETTINGS"] == f"{layout.root}/include/settings.yaml"
    assert env["SPARK_SUBMIT_OPTS"].startswith(f"{JAVA.flags} -XX:SharedArchiveFile=/x/a.jsa ")


def test_the_file_has_only_export_lines_and_comments(file: Path) -> None:
    lines = file.read_text().splitlines()
    assert all(line.startswith(("export ", "#")) for line in lines)


def test_a_setting_of_the_user_stays(file: Path) -> None:
    env = sourced(file, {"PATH": "/usr/bin:/bin", "TIDEMARK_SETTINGS": "/mine.yaml"})
    assert env["TIDEMARK_SETTINGS"] == "/mine.yaml"


def test_another_spark_and_java_of_the_user_are_not_used(file: Path, layout: Layout) -> None:
    env = sourced(file, {"PATH": "/usr/bin:/bin", "SPARK_HOME": "/opt/spark-3", "JAVA_HOME": "/8"})
    assert env["SPARK_HOME"] == str(layout.spark_home)
    assert env["JAVA_HOME"] == JAVA.home


def test_without_an_archive_only_the_flags_are_there(layout: Layout, tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_text(environment_file(layout, JAVA, None))
    assert sourced(path, {"PATH": "/usr/bin:/bin"})["SPARK_SUBMIT_OPTS"] == JAVA.flags


@pytest.mark.slow
def test_spark_maps_the_archive_that_set_up_made(installed: Layout) -> None:
    """`-Xshare:on` makes the JVM end when it does not take the archive of the environment."""
    env = sourced(installed.env_file, dict(os.environ))
    if "SharedArchiveFile" not in env["SPARK_SUBMIT_OPTS"]:
        pytest.skip("no archive could be made on this machine")
    env["SPARK_SUBMIT_OPTS"] += " -Xshare:on"
    submit = [f"{env['SPARK_HOME']}/bin/spark-submit", "--version"]
    taken = subprocess.run(submit, env=env, capture_output=True, text=True, check=False)
    assert taken.returncode == 0, taken.stderr
    refused = subprocess.run(
        submit, env=env | {"SPARK_DIST_CLASSPATH": "/other/*"}, capture_output=True, check=False
    )
    assert refused.returncode != 0
