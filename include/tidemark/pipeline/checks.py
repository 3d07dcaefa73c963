"""Checks of a pipeline file: what `fail` and `warn` can hold, as frozen models.

Each model checks its value by itself; names and types are checked in `check_rules.py`.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from tidemark.pipeline.durations import PositiveDuration
from tidemark.pipeline.instants import utc_instant

Severity = Literal["fail", "warn"]
_ALLOWED = (
    "an expression per row, as in `impressions > 0`, one expectation with its arguments, as in "
    "`{ExpectColumnMaxToBeBetween: {column: impressions, max_value: 100000}}`, or "
    "`{gaps: {every: 1 hour}}`"
)


class _CheckModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def _names_one(self, *names: str) -> Self:
        if sum(getattr(self, name) is not None for name in names) != 1:
            raise ValueError(f"needs exactly one of {', '.join(names)}")
        return self


def _instant(value: object) -> object:
    # YAML has a type of its own for a time without quotes.
    value = value.isoformat() if isinstance(value, date) else value
    return utc_instant(value) if isinstance(value, str) else value


_Instant = Annotated[datetime, BeforeValidator(_instant, json_schema_input_type=str)]


class Gaps(_CheckModel):
    """In which closed stretches of time gold has no row."""

    every: PositiveDuration | None = Field(
        default=None,
        description="How long a stretch is: the windows' slide, or a multiple; without it each "
        "window is one",
    )
    since: _Instant | None = Field(
        default=None,
        description="Where the first one begins: 2026-07-01T00:00:00Z. Without it, with the first "
        "window that gold has",
    )
    by: Annotated[tuple[str, ...], Field(strict=False)] = Field(
        default=(),
        description="Keys of the table: each combination that gold has needs a row in each stretch",
    )


class TableRule(_CheckModel):
    """One rule about a whole table."""

    gaps: Gaps


def _row_or_rule(value: object) -> object:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, dict) and len(value) == 1:
        ((name, arguments),) = value.items()
        if name in TableRule.model_fields:
            return TableRule.model_validate(value)
        if isinstance(name, str) and isinstance(arguments, dict):
            return value
    raise ValueError(f"should be {_ALLOWED}")


RowOrRule = Annotated[
    str | TableRule | dict[str, dict[str, Any]],
    BeforeValidator(
        _row_or_rule,
        json_schema_input_type=Annotated[str, Field(min_length=1)]
        | TableRule
        | Annotated[dict[str, dict[str, Any]], Field(min_length=1, max_length=1)],
    ),
]


class _FailOrWarn(_CheckModel):
    fail: Any = None
    warn: Any = None

    @property
    def severity(self) -> Severity:
        return "warn" if self.fail is None else "fail"

    @model_validator(mode="after")
    def _one(self) -> Self:
        return self._names_one("fail", "warn")


class Check(_FailOrWarn):
    """A check of a table's changed rows: `fail` keeps the run from being published, `warn` does
    not. With `where` it looks at no other rows than those for which that is true."""

    fail: RowOrRule | None = Field(default=None, description=_ALLOWED)
    warn: RowOrRule | None = Field(default=None, description=_ALLOWED)
    where: str | None = Field(
        default=None, min_length=1, description="Which rows are looked at, as in `rows > 10`"
    )

    @property
    def asked(self) -> str | Gaps | dict[str, dict[str, Any]]:
        """A condition on each row, a rule, or one expectation with its arguments."""
        asked = self.warn if self.fail is None else self.fail
        assert asked is not None
        return asked.gaps if isinstance(asked, TableRule) else asked


class RejectedShare(_CheckModel):
    """How many of a run's rows may be rejected."""

    at_most: float = Field(ge=0, le=1, description="A share: 0.05 is five of a hundred rows")


class RowsPerRun(_CheckModel):
    """How many rows a run may read, beside the mean of the last runs that read any."""

    last_runs: int = Field(default=10, ge=1)
    at_least: float | None = Field(default=None, ge=0, description="As a share of the mean")
    at_most: float | None = Field(default=None, gt=0, description="As a multiple of the mean")

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.at_least is None and self.at_most is None:
            raise ValueError("needs at_least or at_most")
        return self


class Freshness(_CheckModel):
    """How far the newest event may lie before the time that a run stands for."""

    at_most: PositiveDuration


class SourceRule(_CheckModel):
    """One rule about a run's source."""

    rejected_share: RejectedShare | None = None
    rows_per_run: RowsPerRun | None = None
    freshness: Freshness | None = None

    @property
    def one(self) -> RejectedShare | RowsPerRun | Freshness:
        found = self.rejected_share or self.rows_per_run or self.freshness
        assert found is not None
        return found

    @model_validator(mode="after")
    def _one(self) -> Self:
        return self._names_one("rejected_share", "rows_per_run", "freshness")


class SourceCheck(_FailOrWarn):
    """A check of what a run read: `fail` keeps the run from being published, `warn` does not."""

    fail: SourceRule | None = None
    warn: SourceRule | None = None

    @property
    def asked(self) -> RejectedShare | RowsPerRun | Freshness:
        rule = self.warn if self.fail is None else self.fail
        assert rule is not None
        return rule.one
