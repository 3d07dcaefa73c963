"""The results of several pipelines, for people: a line of each, and below them what went wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tidemark.cli.console import ReportTable, report_console, report_table
from tidemark.cli.exit_codes import failure_exit_code
from tidemark.cli.report import advice
from tidemark.errors import FAILED, RETRY, SUCCESS
from tidemark.runs.results.result import RunResult
from tidemark.storage.result_file import RunError


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
