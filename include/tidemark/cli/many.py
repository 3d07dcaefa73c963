"""`tidemark run` of several pipelines: each as it runs alone, with as few starts of Spark as their
settings allow.

1. Of each: look whether there is anything for Spark to do. Where there is nothing, it is validated
   and published here, as a lone run is.
2. The others go together into one job, or into one for each group that has a JVM of its own; it
   validates and publishes each of them under its lease, unless they are to be held.
3. Read the result file of each, and print one table.
An error of one is told with it, and keeps no other from running.
"""

from __future__ import annotations

import shlex
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from tidemark.cli.console import ReportTable, report_console, report_table
from tidemark.cli.exit_codes import failure_exit_code
from tidemark.cli.gate import tell_verdicts
from tidemark.cli.job import job_ended, result_there
from tidemark.cli.report import advice
from tidemark.cli.spark_log import log_beside
from tidemark.cli.without_pandas import leave_pandas_out_of_a_run
from tidemark.errors import FAILED, RETRY, SUCCESS, TidemarkError
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.load import find_pipeline, pipeline_files
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings.masters import check_master
from tidemark.pipeline.settings.settings import Settings
from tidemark.runs.acceptance import this_user
from tidemark.runs.requests import ManyRequest
from tidemark.runs.results.result import RunResult
from tidemark.runs.together import JobGroup, groups_of
from tidemark.storage.result_file import RunError
from tidemark.storage.root import check_root

if TYPE_CHECKING:
    from tidemark.runs.preflight import SparkNeeded


@dataclass(frozen=True)
class Many:
    """What is asked for all of them; times are in UTC. `settings_file` is the one that was named,
    if one was."""

    settings: Settings
    settings_file: Path | None
    run_id: str
    started: datetime
    scheduled_time: datetime | None
    hold: bool
    master: str
    by: str = field(default_factory=this_user)

    @property
    def stands_for(self) -> datetime:
        """The time that the runs stand for."""
        return self.scheduled_time or self.started

    def result(self, pipeline: str) -> str:
        """Where the result of a pipeline goes."""
        return Places(self.settings.root, pipeline).result(self.run_id)


def run_many(many: Many, asked: Sequence[str], only_due: bool) -> None:
    """Run them once, and print what happened; typer.Exit where not all went well."""
    check_master(many.settings, many.master, "--master")
    check_root(many.settings)
    named, ended = load_each(asked, many.settings)
    leave_pandas_out_of_a_run(*named.values())
    needing: list[Pipeline] = []
    for one in _due(named.values(), many) if only_due else named.values():
        looked = _without_spark(one, many)
        if isinstance(looked, Ended):
            ended.append(looked)
        else:
            print(f"{one.name}: Spark is needed: {looked.because}", file=sys.stderr)
            needing.append(one)
    by = {one.name: by for by, one in named.items()}
    for group in groups_of(needing, many.settings):
        ended += _ended_together(group, by, many)
    if not ended:
        print(f"None of {len(asked)} pipelines is due.")
        return
    ended.sort(key=lambda one: one.name)
    print_ended(ended, many.result("PIPELINE"))
    if many.hold:
        _tell_how_to_publish(ended, by, many)
    if code := exit_code_of(ended):
        raise typer.Exit(code)


def in_folder(folder: Path) -> list[str]:
    """The paths of its pipeline files. BadParameter where there are none."""
    found = [str(path) for path in pipeline_files(folder)]
    if not found:
        raise typer.BadParameter(f"the folder {folder} holds no pipeline file")
    return found


def load_each(asked: Iterable[str], settings: Settings) -> tuple[dict[str, Pipeline], list[Ended]]:
    """The pipelines that can be used, by how they were named: by name or by path; and those that
    cannot, with the reason. BadParameter where two of them have the same tables."""
    named: dict[str, Pipeline] = {}
    invalid: list[Ended] = []
    for by in asked:
        try:
            pipeline = find_pipeline(by, settings)
        except TidemarkError as error:
            invalid.append(Ended(Path(by).stem, error=RunError.of(error), without="invalid"))
            continue
        if other := next((one for one, of in named.items() if of.name == pipeline.name), None):
            raise typer.BadParameter(
                f"{other} and {by} have the same name, and so the same tables: leave one out"
            )
        named[by] = pipeline
    return named, invalid


def _due(pipelines: Iterable[Pipeline], many: Many) -> list[Pipeline]:
    # delta-rs and Arrow, from here on.
    from tidemark.runs.due import is_due

    now, clock = many.stands_for, many.started
    return [one for one in pipelines if is_due(one, many.settings, now, clock)]


def _without_spark(one: Pipeline, many: Many) -> Ended | SparkNeeded:
    from tidemark.quality.gate import at_once
    from tidemark.runs.preflight import SparkNeeded
    from tidemark.runs.run import Run
    from tidemark.runs.without_spark import run_without_spark

    settings, uri = many.settings, many.result(one.name)
    run = Run(one, settings, many.run_id, epoch_ms(many.stands_for), by=many.by)
    try:
        then = None if many.hold else at_once(tell_verdicts)
        outcome = run_without_spark(run, datetime.now(UTC), uri, then)
    except Exception as error:  # noqa: BLE001  whatever it is, the others are run
        if not isinstance(error, TidemarkError):
            traceback.print_exception(error)
        return Ended(one.name, error=RunError.of(error))
    return outcome if isinstance(outcome, SparkNeeded) else Ended(one.name, outcome)


def _ended_together(group: JobGroup, by: Mapping[str, str], many: Many) -> list[Ended]:
    """How the pipelines of a group ended, by one job for all of them."""
    names = [one.name for one in group.pipelines]
    request = ManyRequest(
        pipelines=tuple(by[name] for name in names),
        settings=many.settings_file,
        run_id=many.run_id,
        hold=many.hold,
        scheduled_time=many.scheduled_time,
        by=many.by,
    )
    before = _results(names, many)
    log = log_beside(many.result(names[0]))
    try:
        job = job_ended(request, many.settings, many.master, log, group.input_bytes)
    except TidemarkError as error:
        return [Ended(name, error=RunError.of(error)) for name in names]
    found = {name: of for name, of in _results(names, many).items() if of != before[name]}
    lacking = [name for name in names if found.get(name) is None]
    code = job.told_without(f"wrote no result of {', '.join(lacking)}") if lacking else 0
    return [
        Ended(name, code=code) if name in lacking else Ended(name, found[name]) for name in names
    ]


def _results(names: Iterable[str], many: Many) -> Mapping[str, RunResult | None]:
    return {name: result_there(RunResult, many.result(name), many.settings) for name in names}


def _tell_how_to_publish(ended: Iterable[Ended], by: Mapping[str, str], many: Many) -> None:
    settings = ["--settings", str(many.settings_file)] if many.settings_file else []
    print("To publish what is held:")
    for one in ended:
        if one.outcome == "held":
            result = ["--result", many.result(one.name)]
            print(f"  {shlex.join(['tidemark', 'publish', by[one.name], *result, *settings])}")


@dataclass(frozen=True)
class Ended:
    """How the run of one pipeline ended: its result; without one, whether its file is invalid or it
    was not run, and why. `code` is its exit code where that was told before."""

    name: str
    result: RunResult | None = None
    error: RunError | None = None
    without: Literal["invalid", "not run"] = "not run"
    code: int = SUCCESS

    @property
    def failure(self) -> RunError | None:
        """What went wrong."""
        return self.error or (self.result.error if self.result else None)

    @property
    def exit_code(self) -> int:
        """The exit code of a run of it alone."""
        return failure_exit_code(self.failure) if self.failure else self.code

    @property
    def outcome(self) -> str:
        """How far it came, in a word or two."""
        if self.result is None:
            return self.without
        if self.failure:
            return "failed"
        return "held" if self.result.held else "published"


def exit_code_of(ended: Iterable[Ended]) -> int:
    """1 where one of them must be mended first, else 75 where running again can help."""
    codes = {one.exit_code for one in ended}
    return next((code for code in (FAILED, RETRY) if code in codes), SUCCESS)


def print_ended(ended: Sequence[Ended], results: str) -> None:
    """Print a table to stdout, with where the result files are, and the errors to stderr."""
    console = report_console()
    console.print()
    console.print(ended_table(ended))
    console.print(f"result files: {results}")
    for one in ended:
        if error := one.failure:
            print(f"\n{one.name}: {error.type}: {error.message}\n{advice(error)}", file=sys.stderr)


def ended_table(ended: Iterable[Ended]) -> ReportTable:
    """A line of each: what came of it, rows, windows and seconds."""
    numbers = (">rows\nread", ">rejected", ">windows\npublished", ">seconds")
    table = report_table("pipeline", "outcome", *numbers)
    for one in ended:
        table.add_row(one.name, one.outcome, *(_numbers(one.result) if one.result else ()))
    return table


def _numbers(result: RunResult) -> list[str]:
    rows, published = result.rows, [one.published_windows for one in result.tables.values()]
    windows = sum(count for count in published if count is not None)
    return [
        f"{rows.read:,}",
        f"{sum(rows.rejected.values()):,}",
        f"{windows:,}" if any(count is not None for count in published) else "",
        f"{sum(result.seconds.values()):.1f}",
    ]
