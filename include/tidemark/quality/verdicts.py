"""What checks say, and what a validation says of itself in its result file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from tidemark.pipeline.checks import Check, Gaps, Severity
from tidemark.pipeline.durations import duration_text
from tidemark.storage.result_file import Facts, RunError

# Of bad rows, as evidence: never more, and no value is longer.
MOST_EXAMPLES = 10
_LONGEST_VALUE = 200
_SHOWN = 3


class CheckVerdict(Facts):
    """What one check said of one run.

    `table` is None where the check is of the source or the ledger. `rows` were looked at, and
    `unexpected` of them are bad (None: the check is not told row by row). `observed` is the figure
    that was held to the check, or why nobody could tell. `examples` are bad rows, cut.
    """

    table: str | None
    check: str
    severity: Severity
    passed: bool
    observed: str
    rows: int
    unexpected: int | None = None
    examples: tuple[dict[str, Any], ...] = ()


class ValidationResult(Facts):
    """A validation of a run, as it is written to a file and told to people.

    `data_docs` is where the pages of its expectations begin, None where none ran.
    """

    format: Literal[1] = 1
    pipeline: str
    run_id: str
    outcome: Literal["passed", "failed"]
    verdicts: tuple[CheckVerdict, ...] = Field(default=())
    data_docs: str | None = None
    started_at: datetime
    ended_at: datetime
    error: RunError | None = None


def failures(verdicts: Sequence[CheckVerdict]) -> tuple[CheckVerdict, ...]:
    """Those that keep a run from being published."""
    return tuple(one for one in verdicts if not one.passed and one.severity == "fail")


def warnings(verdicts: Sequence[CheckVerdict]) -> tuple[CheckVerdict, ...]:
    """Those that are only told."""
    return tuple(one for one in verdicts if not one.passed and one.severity == "warn")


def check_name(check: Check) -> str:
    """What a check of a table asks, on one line; an expectation as Python writes it."""
    asked, where = check.asked, f" where {check.where}" if check.where else ""
    if isinstance(asked, str):
        return f"{asked}{where}"
    if isinstance(asked, Gaps):
        since = f" since {asked.since:%Y-%m-%dT%H:%M:%SZ}" if asked.since else ""
        by = f" by {', '.join(asked.by)}" if asked.by else ""
        every = f" every {duration_text(asked.every)}" if asked.every else ""
        return f"gaps{every}{since}{by}{where}"
    ((name, arguments),) = asked.items()
    arguments_text = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return f"{name}({arguments_text}){where}"


def verdict_line(verdict: CheckVerdict) -> str:
    """A verdict for people, on one line; examples are left out."""
    return f"{verdict_name(verdict)}: {verdict.observed}"


def verdict_name(verdict: CheckVerdict) -> str:
    """What was checked."""
    return f"{verdict.table}: {verdict.check}" if verdict.table else verdict.check


def bad_row_lines(verdict: CheckVerdict) -> list[str]:
    """The first bad rows, a line each."""
    shown = [f"  {_row(example)}" for example in verdict.examples[:_SHOWN]]
    more = (verdict.unexpected or 0) - len(shown)
    return [*shown, f"  … and {more:,} more"] if shown and more > 0 else shown


def short(value: Any) -> Any:
    """A value as JSON has it, which has no NaN and no infinity, cut where it is long."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def example(row: Mapping[str, Any]) -> dict[str, Any]:
    """A bad row, cut."""
    return {name: short(value) for name, value in row.items()}


def _row(example: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in example.items())
