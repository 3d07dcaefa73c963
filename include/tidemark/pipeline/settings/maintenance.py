"""The settings of maintenance: when it is done, and for how long what is kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, ConfigDict, model_validator

from tidemark.pipeline.checked import checked
from tidemark.pipeline.durations import PositiveDuration, duration_text
from tidemark.pipeline.schedules import check_schedule

_DAY = timedelta(days=1)
# Delta's log tells which files a table no longer has for so long
# (`delta.deletedFileRetentionDuration`, its default).
_LONGEST = timedelta(days=7)


class Maintenance(BaseModel):
    """`schedule`: that of the Dags `PIPELINE__maintenance`, in UTC.

    `retention`: data files that a table no longer has are kept for so long, so that readers, and
    queries that were behind, find them. `log_retention`: entries of a table's log; `ops_retention`:
    rows of `ops/`; `result_retention`: result files, and Spark's logs beside them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schedule: Annotated[str, checked(check_schedule)] = "@daily"
    retention: PositiveDuration = _LONGEST
    log_retention: PositiveDuration = timedelta(days=30)
    ops_retention: PositiveDuration = timedelta(days=90)
    result_retention: PositiveDuration = timedelta(days=30)

    @model_validator(mode="after")
    def _in_bounds(self) -> Maintenance:
        if not _DAY <= self.retention <= _LONGEST:
            raise ValueError(
                f"retention is {duration_text(self.retention)}; allowed: from 1 day, for readers "
                "that are at work, to 7 days, for so long Delta's log tells of removed files"
            )
        if self.log_retention < self.retention:
            raise ValueError("log_retention is shorter than retention, whose files it tells of")
        for name in ("ops_retention", "result_retention"):
            if getattr(self, name) < _DAY:
                raise ValueError(f"{name} is shorter than 1 day")
        return self
