"""The job's environment, and the processes of a command that is submitted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from setup.environment import environment_file
from setup.java import Java
from setup.layout import Layout
from tests.kit.running import Place
from tidemark.cli.job import job_environment, submit, submit_command, variables_of
from tidemark.errors import EngineMissing
from tidemark.storage.processes import mark_of


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository's folder that is not set up, as the one that holds the package."""
    repository = tmp_path / "repo"
    (repository / "include").mkdir(parents=True)
    (repository / "Makefile").touch()
    return repository


@pytest.fixture
def java(tmp_path: Path) -> Java:
    """A folder with a program where Java's is."""
    program = tmp_path / "java home" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    return Java(str(program.parents[1]), "17.0.1", "-XX:+UseSerialGC")


@pytest.fixture
def set_up(repository: Path, java: Java) -> Layout:
    layout = Layout(repository)
    layout.env_file.parent.mkdir()
    layout.env_file.write_text(environment_file(layout, java, "/x/a.jsa"))
    return layout


def test_what_set_up_wrote_is_used_without_being_sourced(set_up: Layout, java: Java) -> None:
    environment = job_environment({"PATH": "/usr/bin:/bin"}, set_up.root / "include")
    assert environment["JAVA_HOME"] == java.home
    assert environment["SPARK_DIST_CLASSPATH"] == f"{set_up.jars}/*"
    assert environment["SPARK_SUBMIT_OPTS"].startswith("-XX:+UseSerialGC -XX:SharedArchiveFile=")
    assert environment["PYSPARK_PYTHON"] == str(set_up.python)


def test_variables_that_are_set_already_win(set_up: Layout) -> None:
    environment = job_environment(
        {"PATH": "/usr/bin:/bin", "SPARK_SUBMIT_OPTS": "-Xmx8g"}, set_up.root / "include"
    )
    assert environment["SPARK_SUBMIT_OPTS"] == "-Xmx8g"
    assert environment["PATH"] == "/usr/bin:/bin"


def test_the_settings_that_set_up_names_do_not_hide_those_of_the_working_folder(
    set_up: Layout,
) -> None:
    assert "TIDEMARK_SETTINGS" in variables_of(set_up.env_file)
    assert "TIDEMARK_SETTINGS" not in job_environment(
        {"PATH": "/usr/bin:/bin"}, set_up.root / "include"
    )


def test_a_set_up_file_that_no_shell_can_read_is_told(set_up: Layout) -> None:
    set_up.env_file.write_text("export JAVA_HOME='/opt\n")
    with pytest.raises(EngineMissing, match=r"env cannot be read by a shell: .*Remove it and run"):
        job_environment({"PATH": "/usr/bin:/bin"}, set_up.root / "include")


def test_the_driver_is_this_python_with_its_own_spark(set_up: Layout, java: Java) -> None:
    import pyspark

    elsewhere = {"SPARK_HOME": "/opt/spark-3.5", "PYSPARK_DRIVER_PYTHON": "jupyter"}
    environment = job_environment({"PATH": "/usr/bin:/bin", **elsewhere}, set_up.root / "include")
    home = Path(pyspark.__file__).parent
    assert environment["SPARK_HOME"] == str(home)
    assert environment["PYSPARK_DRIVER_PYTHON"] == sys.executable
    program, *rest = submit_command(
        environment, "local[2]", ["--pipeline", "clicks"], "tidemark.streaming.jobs.stream"
    )
    assert program == str(home / "bin" / "spark-submit")
    assert rest[:2] == ["--master", "local[2]"]
    assert rest[2].endswith("tidemark/streaming/jobs/stream.py")
    assert rest[3:] == ["--pipeline", "clicks"]


def test_missing_java_is_told_with_what_to_do_in_the_repository(repository: Path) -> None:
    with pytest.raises(EngineMissing) as raised:
        job_environment({"PATH": "/nowhere"}, repository / "include")
    assert str(raised.value) == (
        "Spark needs Java, and none was found: JAVA_HOME is not set, and no java is on the PATH. "
        f"Nothing was started. In {repository}: `make setup`, then `. .tidemark/env`."
    )


def test_a_java_home_without_java_is_told_by_its_name(repository: Path) -> None:
    (repository / "Makefile").unlink()  # an installed wheel has none
    with pytest.raises(EngineMissing) as raised:
        job_environment({"PATH": "/usr/bin:/bin", "JAVA_HOME": "/opt/gone"}, repository / "include")
    assert str(raised.value) == (
        "Spark needs Java, and none was found: JAVA_HOME is /opt/gone, where no bin/java is. "
        "Nothing was started. Install Java 17, 21 or 25, and name its folder in JAVA_HOME."
    )


def test_missing_pyspark_is_told_with_what_to_do(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "Makefile").unlink()
    monkeypatch.setitem(sys.modules, "pyspark", None)  # what Python finds, finds nothing
    with pytest.raises(EngineMissing) as raised:
        job_environment({"PATH": "/usr/bin:/bin"}, repository / "include")
    assert str(raised.value) == (
        f"pyspark is not installed for {sys.executable}. Nothing was started. "
        "Install it: pip install 'tidemark-streaming[spark]'."
    )


def test_pyspark_without_an_engine_counts_as_missing(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "pyspark").mkdir()
    (repository / "pyspark" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(str(repository))
    with pytest.raises(EngineMissing, match="pyspark is not installed"):
        job_environment({"PATH": "/usr/bin:/bin"}, repository / "include")


def test_the_exit_status_is_the_commands_own() -> None:
    assert submit(["sh", "-c", "exit 75"], {}) == 75
    assert submit(["sh", "-c", "kill -9 $$"], {}) == -9


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_that_the_command_started(tmp_path: Path, sent: signal.Signals) -> None:
    """Also what does not heed SIGTERM, once the first process has ended."""
    child = tmp_path / "child"
    stubborn = f"trap '' TERM; echo $$ > {child}.new; mv {child}.new {child}; sleep 100; sleep 100"
    first = f'(sh -c "{stubborn.replace("$", chr(92) + "$")}") & wait'
    code = (
        "import signal, sys\n"
        # As in a terminal, also where whoever started the tests has them ignored (nohup, `&`).
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "from tidemark.cli.root import stopped_by_signals\n"
        "from tidemark.cli.job import submit\n"
        "with stopped_by_signals():\n"
        "    submit(['sh', '-c', sys.argv[1]], {'PATH': '/usr/bin:/bin'})"
    )
    process = subprocess.Popen([sys.executable, "-c", code, first], stderr=subprocess.DEVNULL)
    until = time.monotonic() + 30
    while not child.exists() and time.monotonic() < until:
        time.sleep(0.01)
    pid = int(child.read_text())
    process.send_signal(sent)
    assert process.wait(8) != 0  # SIGTERM is heeded: SIGKILL follows after ten seconds
    # It was signalled before the command ended, and may take a moment to end.
    until = time.monotonic() + 5
    while (living := mark_of(pid)) and time.monotonic() < until:
        time.sleep(0.02)
    assert living is None


# In the place of Spark's own: leaves what reaches it, as bytes.
_SUBMIT = """\
#!{python}
import json, os, pathlib, sys
seen = [os.environ.get("LC_ALL"), [os.fsencode(one).hex() for one in sys.argv]]
pathlib.Path({seen!r}).write_text(json.dumps(seen))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "variables",
    # Without its mode for these two, Python takes text by the locale, as by one of ISO 8859-1.
    [{"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}],
    ids=["C", "POSIX", "by the locale"],
)
def test_what_an_act_is_asked_reaches_its_job_as_utf8_whatever_the_locale(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    """As from a crontab that sets LC_ALL: the JVM made `Zo?? M??ller` of a name."""
    place = Place(tmp_path / "place")
    place.write_file()
    Path(place.places.checkpoints).mkdir(parents=True)
    spark, seen = tmp_path / "path" / "pyspark", tmp_path / "seen.json"
    (spark / "bin").mkdir(parents=True)
    (spark / "__init__.py").touch()
    program = spark / "bin" / "spark-submit"
    program.write_text(_SUBMIT.format(python=sys.executable, seen=str(seen)))
    program.chmod(0o755)
    where = "key = 'Zoë Müller'"
    own = {name: of for name, of in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    own["PYTHONPATH"] = os.pathsep.join([str(spark.parent), *sys.path])
    subprocess.run(
        [sys.executable, "-m", "tidemark", "erase", "clicks", "--where", where],
        env=own | place.variables | variables, check=False, capture_output=True,
    )  # fmt: skip
    locale, arguments = json.loads(seen.read_text())
    assert locale == "C.UTF-8"
    assert where.encode().hex() in arguments
