"""Start the job by spark-submit: that of the installed pyspark, in the environment it needs.

In a repository that was set up, the variables of `.tidemark/env` are used without being
sourced; those that are set already win.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tidemark.errors import EngineMissing

# Long enough for Spark to end well, short enough for a person who waits.
_SECONDS_TO_END = 10.0
_STDERR = 2
_INCLUDE = Path(__file__).resolve().parents[2]


def job_environment(variables: Mapping[str, str], include: Path = _INCLUDE) -> dict[str, str]:
    """The job's environment variables. EngineMissing where pyspark or Java is not there.

    `include` is the folder that holds the package: that of a repository, or an environment's.
    """
    home = _spark_home(include)
    environment = {**_set_up_variables(include), **variables}
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    # The driver is this interpreter and its pyspark, whatever else the machine has.
    environment |= {"SPARK_HOME": str(home), "PYSPARK_DRIVER_PYTHON": sys.executable}
    _check_java(environment, include)
    return environment


def submit_command(
    environment: Mapping[str, str], master: str, arguments: Sequence[str], job: str
) -> list[str]:
    """spark-submit of a job's file, which is found without importing it."""
    spec = importlib.util.find_spec(job)
    assert spec is not None
    assert spec.origin is not None
    program = str(Path(environment["SPARK_HOME"], "bin", "spark-submit"))
    return [program, "--master", master, spec.origin, *arguments]


def submit(command: Sequence[str], environment: Mapping[str, str], errors: int = _STDERR) -> int:
    """Run a command to its end; its exit status, negative for a signal.

    It gets a process group of its own: the JVM and Python's driver. Whatever stops this process
    first ends all of the group. Its stdout goes to this one's stderr, its stderr to the file
    descriptor `errors`.
    """
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        # Spark's launcher puts all that Python's driver says on stdout; ours has the report.
        stdout=_STDERR,
        stderr=errors,
        start_new_session=True,
    )
    try:
        return process.wait()
    finally:
        if process.returncode is None:
            _end_group(process)


def variables_of(file: Path) -> dict[str, str]:
    """What a file of `export NAME=VALUE` lines sets, as a POSIX shell reads it."""
    names = set(re.findall(r"^export (\w+)=", file.read_text(encoding="utf-8"), re.MULTILINE))
    printed = subprocess.run(
        ["sh", "-c", '. "$1" && env -0', "sh", str(file)],
        capture_output=True, text=True, check=False,
        env={"PATH": os.environ.get("PATH", os.defpath)},
    )  # fmt: skip
    if printed.returncode:
        raise EngineMissing(
            f"{file} cannot be read by a shell: {printed.stderr.strip()} Nothing was started. "
            "Remove it and run `make setup`."
        )
    pairs = (entry.partition("=") for entry in printed.stdout.split("\0") if entry)
    return {name: value for name, _, value in pairs if name in names}


def _set_up_variables(include: Path) -> dict[str, str]:
    """What set-up wrote for this repository; nothing for an installed wheel.

    Not its TIDEMARK_SETTINGS: the settings are found as they are for every command.
    """
    file = include.parent / ".tidemark" / "env"
    if not file.is_file():
        return {}
    return {n: value for n, value in variables_of(file).items() if not n.startswith("TIDEMARK_")}


def _spark_home(include: Path) -> Path:
    spec = importlib.util.find_spec("pyspark")
    origin = spec.origin if spec else None
    # pyspark-client alone has the package, and no engine.
    if origin and (home := Path(origin).parent).joinpath("bin", "spark-submit").is_file():
        return home
    advice = _what_to_do(include, "Install it: pip install 'tidemark-streaming[spark]'.")
    raise EngineMissing(
        f"pyspark is not installed for {sys.executable}. Nothing was started. {advice}"
    )


def _check_java(environment: Mapping[str, str], include: Path) -> None:
    """Raise EngineMissing where Spark's scripts would find no Java: they look in JAVA_HOME, and
    on the PATH only where that is not set."""
    if home := environment.get("JAVA_HOME"):
        if os.access(Path(home, "bin", "java"), os.X_OK):
            return
        state = f"JAVA_HOME is {home}, where no bin/java is"
    elif shutil.which("java", path=environment.get("PATH", os.defpath)):
        return
    else:
        state = "JAVA_HOME is not set, and no java is on the PATH"
    advice = "Install Java 17, 21 or 25, and name its folder in JAVA_HOME."
    raise EngineMissing(
        f"Spark needs Java, and none was found: {state}. Nothing was started. "
        f"{_what_to_do(include, advice)}"
    )


def _what_to_do(include: Path, elsewhere: str) -> str:
    """In the repository, set-up brings all that is missing."""
    repository = include.parent
    if (repository / "Makefile").is_file() and include.name == "include":
        return f"In {repository}: `make setup`, then `. .tidemark/env`."
    return elsewhere


def _end_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_END)
    finally:
        # The JVM may be gone while Python's driver is not.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
