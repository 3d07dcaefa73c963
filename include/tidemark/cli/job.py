"""Run a job by spark-submit to its end, and read the result that it wrote."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import typer

from tidemark.cli.spark_log import has_own_configuration, log_beside, logging_to
from tidemark.cli.submit import job_environment, submit, submit_command
from tidemark.errors import FAILED, RETRY, ResultUnreadable, StorageUnavailable
from tidemark.pipeline.settings.masters import without_loopback
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.requests import JobRequest, check_may_ask
from tidemark.storage.result_file import Result, read_result

# Of Spark's log, where a job ends without a result.
_LAST_LINES = 12
_STATE = "What was committed stays and is not done again; the next run goes on from there."


def run_job(
    kind: type[Result],
    request: JobRequest,
    settings: Settings,
    master: str,
    variables: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda found: {},
    log: Path | None = None,
) -> Result:
    """The result that the job wrote where the request says; typer.Exit, which is told, where it
    wrote none.

    `variables` are what changes of the environment that it would have. Spark's own log goes to
    the file `log`, by default one beside the result, unless somebody has told Spark where.
    """
    assert request.result is not None
    check_may_ask(request, settings)
    uri, environment = request.result, job_environment(os.environ)
    environment |= variables(environment)
    environment = without_loopback(environment, master)
    own = has_own_configuration(environment)
    log = log or log_beside(uri)
    if not own:
        environment |= logging_to(log, environment)
        print(f"Spark's own log: {log}", file=sys.stderr)
    before = _result(kind, uri, settings)
    command = submit_command(environment, master, request.arguments(), request.job)
    status = submit(command, environment) if own else _logged(command, environment, log)
    outcome = _result(kind, uri, settings)
    if outcome is None or outcome == before:
        raise _without_result(uri, status, environment, None if own else log)
    return outcome


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


def _result(kind: type[Result], uri: str, settings: Settings) -> Result | None:
    """The result file; None where there is none, or none that can be read.

    Before the job starts it may be that of a run with the same id, or the same `--result`.
    """
    with suppress(ResultUnreadable):
        return read_result(kind, uri, settings.storage_options)
    return None


def _without_result(
    uri: str, status: int, environment: Mapping[str, str], log: Path | None
) -> typer.Exit:
    """Tell of a job that ended before it could write its result."""
    # A killed JVM ends so, whether the signal met it or the shell that started it.
    killed = status < 0 or status > 128
    java = environment.get("JAVA_HOME", "the PATH")
    if killed:
        advice = "It was killed, or memory ran out: run it again."
    elif status == RETRY:
        # The job itself ends so where its result cannot be written: a full disk, say.
        advice = (
            "What kept the result from being written stands there: mend that, then run it again."
        )
    else:
        advice = f"Java was that of {java}; Spark 4.2 runs on Java 17, 21 and 25."
    if log:
        with log.open(encoding="utf-8", errors="replace") as lines:
            print("".join(deque(lines, _LAST_LINES)).rstrip("\n"), file=sys.stderr)
    print(
        f"spark-submit ended with exit status {status}, and the job wrote no result to {uri}. "
        f"{_STATE} What it said last is above. {advice}",
        file=sys.stderr,
    )
    return typer.Exit(RETRY if killed or status == RETRY else FAILED)
