"""Run a job by spark-submit to its end, and read the result that it wrote."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from tidemark.cli.console import print_documents, print_lines
from tidemark.cli.exit_codes import failure_exit_code
from tidemark.cli.spark_log import has_own_configuration, log_beside, logging_to
from tidemark.cli.submit import job_environment, submit, submit_command
from tidemark.errors import FAILED, RETRY, ResultUnreadable, StorageUnavailable
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.masters import without_loopback
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.requests import EngineRequest, JobRequest, PipelineRequest, check_may_ask
from tidemark.storage.result_file import Result, read_result

Variables = Callable[[Mapping[str, str]], Mapping[str, str]]
# Of Spark's log, where a job ends without a result.
_LAST_LINES = 12
_STATE = "What was committed stays and is not done again; the next run goes on from there."


def run_job(
    kind: type[Result],
    request: EngineRequest | PipelineRequest,
    settings: Settings,
    master: str,
    variables: Variables = lambda found: {},
    log: Path | None = None,
) -> Result:
    """The result that the job wrote where the request says; typer.Exit, which is told, where it
    wrote none. Its log is by default beside the result."""
    assert request.result is not None
    uri = request.result
    before = result_there(kind, uri, settings)
    ended = job_ended(request, settings, master, log or log_beside(uri), variables)
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
    run_id: str,
    lease: str | None = None,
    **asked: Any,
) -> Result:
    """`run_job` of a job whose result lies with the pipeline's tables. `lease` is what it takes
    the pipeline's lease for: where that cannot be had, no job is started."""
    if lease:
        # delta-rs, which the other commands do without.
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
    variables: Variables = lambda found: {},
) -> JobEnd:
    """Run a job to its end, and nothing of what it wrote is looked at.

    `variables` are what changes of the environment that it would have. Spark's own log goes to
    the file `log`, unless somebody has told Spark where.
    """
    check_may_ask(request, settings)
    environment = job_environment(os.environ)
    environment |= variables(environment)
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
