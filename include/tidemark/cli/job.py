"""Run a job by the installed spark-submit to its end, and read the result that it wrote."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from tidemark.cli.console import print_documents, print_lines
from tidemark.cli.exit_codes import failure_exit_code
from tidemark.cli.spark_log import has_own_configuration, log_beside, logging_to
from tidemark.errors import FAILED, RETRY, EngineMissing, ResultUnreadable, StorageUnavailable
from tidemark.pipeline.instants import manual_run_id
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.jvm import jvm_variables
from tidemark.pipeline.settings.masters import without_loopback
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.requests import EngineRequest, JobRequest, PipelineRequest, check_may_ask
from tidemark.storage.result_file import Result, read_result

# Of Spark's log, where a job ends without a result.
_LAST_LINES = 12
_STATE = "What was committed stays and is not done again; the next run goes on from there."


def run_job(
    kind: type[Result],
    request: EngineRequest | PipelineRequest,
    settings: Settings,
    master: str,
    input_bytes: int = 0,
    log: Path | None = None,
) -> Result:
    """The result that the job wrote where the request says; typer.Exit, which is told, where it
    wrote none. Its log is by default beside the result."""
    assert request.result is not None
    uri = request.result
    before = result_there(kind, uri, settings)
    ended = job_ended(request, settings, master, log or log_beside(uri), input_bytes)
    outcome = result_there(kind, uri, settings)
    if outcome is None or outcome == before:
        raise typer.Exit(ended.told_without(f"the job wrote no result to {uri}"))
    return outcome


def run_with_tables(
    kind: type[Result],
    request: PipelineRequest,
    pipeline: Pipeline,
    settings: Settings,
    master: str,
    lease: str | None = None,
    id_of: str = "manual",
    **asked: Any,
) -> Result:
    """`run_job` of a job whose result lies with the pipeline's tables. `lease` is what it takes
    the pipeline's lease for: where that cannot be had, no job is started. `id_of` begins its run
    id."""
    run_id = manual_run_id(datetime.now(UTC), id_of)
    if lease:
        from tidemark.runs.pipeline_lease import check_lease

        check_lease(pipeline, settings, run_id, lease)
    asked |= {"run_id": run_id, "result": Places(settings.root, pipeline.name).result(run_id)}
    return run_job(kind, request.model_copy(update=asked), settings, master)


def end_with(outcome: Any, lines: Iterable[str], in_json: bool = False) -> None:
    """Print a job's result; typer.Exit where the job failed."""
    if in_json:
        print_documents([outcome.model_dump(mode="json", by_alias=True)])
    else:
        print_lines(lines)
    if outcome.error:
        raise typer.Exit(failure_exit_code(outcome.error))


def job_ended(
    request: JobRequest,
    settings: Settings,
    master: str,
    log: Path,
    input_bytes: int = 0,
) -> JobEnd:
    """Run a job to its end, and nothing of what it wrote is looked at.

    `input_bytes` is how much there is to read. Spark's own log goes to the file `log`, unless
    somebody has told Spark where.
    """
    check_may_ask(request, settings)
    environment = job_environment(os.environ)
    environment |= jvm_variables(environment, input_bytes)
    environment = without_loopback(environment, master)
    own = has_own_configuration(environment)
    if not own:
        environment |= logging_to(log, environment)
        print(f"Spark's own log: {log}", file=sys.stderr)
    command = submit_command(environment, master, request.arguments(), request.job)
    status = submit(command, environment) if own else _logged(command, environment, log)
    return JobEnd(status, environment.get("JAVA_HOME", "the PATH"), None if own else log)


def _logged(command: Sequence[str], environment: Mapping[str, str], log: Path) -> int:
    """Run the job to its end, with what the JVM and Python's workers have on stderr in the log;
    its exit status. StorageUnavailable where there can be no log, nor the result beside it."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        errors = log.open("ab")
    except OSError as error:
        raise StorageUnavailable(
            f"{log} could not be written: {error.strerror}. Nothing was started."
        ) from error
    with errors:
        return submit(command, environment, errors.fileno())


def result_there(kind: type[Result], uri: str, settings: Settings) -> Result | None:
    """The result file; None where there is none, or none that can be read.

    Before the job starts it may be that of a run with the same id, or the same `--result`.
    """
    with suppress(ResultUnreadable):
        return read_result(kind, uri, settings.storage_options)
    return None


@dataclass(frozen=True)
class JobEnd:
    """How spark-submit ended: its exit status, negative for a signal; which Java it had, and the
    file of Spark's log, where that was for us to say."""

    status: int
    java: str
    log: Path | None

    @property
    def was_killed(self) -> bool:
        """A killed JVM ends so, whether the signal met it or the shell that started it."""
        return self.status < 0 or self.status > 128

    @property
    def exit_code(self) -> int:
        """That of a command whose job wrote no result."""
        return RETRY if self.was_killed or self.status == RETRY else FAILED

    def told_without(self, lacking: str) -> int:
        """Tell of a job that ended before it could write a result, with what it said last; the
        exit code."""
        if self.was_killed:
            advice = "It was killed, or memory ran out: run it again."
        elif self.status == RETRY:
            # The job itself ends so where its result cannot be written: a full disk, say.
            advice = (
                "What kept the result from being written stands there: mend that, then run it "
                "again."
            )
        else:
            advice = f"Java was that of {self.java}; Spark 4.2 runs on Java 17, 21 and 25."
        if self.log:
            with self.log.open(encoding="utf-8", errors="replace") as lines:
                print("".join(deque(lines, _LAST_LINES)).rstrip("\n"), file=sys.stderr)
        print(
            f"spark-submit ended with exit status {self.status}, and {lacking}. {_STATE} "
            f"What it said last is above. {advice}",
            file=sys.stderr,
        )
        return self.exit_code


# Long enough for Spark to end well, short enough for a person who waits.
_SECONDS_TO_END = 10.0
_STDERR = 2
_INCLUDE = Path(__file__).resolve().parents[2]


def job_environment(variables: Mapping[str, str], include: Path = _INCLUDE) -> dict[str, str]:
    """The job's environment variables. EngineMissing where pyspark or Java is not there.

    In a repository that was set up, the variables of `.tidemark/env` are used without being
    sourced; those that are set already win.
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
