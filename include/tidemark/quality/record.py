"""`ops/quality`: a row for each check and run, and one for each check that somebody overrode.

Written without a JVM, append-only. A validation that says what the one before it said adds nothing;
one that says something else (the check was mended) has rows of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, write_deltalake

from tidemark.commit_point import commit_point
from tidemark.quality.verdicts import CheckVerdict
from tidemark.runs.acceptance import CheckOverride
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.delta.ops import COUNT, TEXT, TIME, ensure_ops_table, ops_columns, ops_rows
from tidemark.storage.delta.ops_place import OpsPlace
from tidemark.storage.delta.place import TablePlace

_FIELDS = [
    *ops_columns(TEXT, "pipeline", "run"),
    *ops_columns(TIME, "started_at", "time"),
    *ops_columns(TEXT, "validation", "table", "check", "severity"),
    *ops_columns(pa.bool_(), "passed"),
    *ops_columns(TEXT, "observed"),
    *ops_columns(COUNT, "rows", "unexpected"),
    *ops_columns(TEXT, "examples", "data_docs", "accepted", "accepted_by"),
    *ops_columns(pa.map_(TEXT, COUNT), "versions"),
]
SCHEMA = pa.schema(_FIELDS)
_DESCRIPTION = "What the checks of the pipeline said of each run"


class JudgedRun(Protocol):
    """Whose verdicts they are: the result of a run, or of a backfill. `started_at` is in UTC."""

    @property
    def pipeline(self) -> str: ...
    @property
    def run_id(self) -> str: ...
    @property
    def started_at(self) -> datetime: ...


@commit_point(
    "verdicts recorded",
    after_a_kill="before: the next validation records them; after: what says the same is not "
    "added again",
)
def record_verdicts(
    quality: OpsPlace,
    run: JudgedRun,
    time: datetime,
    verdicts: Sequence[CheckVerdict],
    data_docs: str | None = None,
    accepted: CheckOverride | None = None,
    versions: Mapping[str, int] | None = None,
) -> None:
    """Append a row for each verdict, in one commit, unless the newest ones of the run are the same.
    `time` is in UTC.

    `accepted` says why and by whom these failed checks were overridden, `versions` up to which
    ones of bronze and rejects the rows of the source are judged with these.
    """
    if not verdicts:
        return
    table = ensure_ops_table(quality, SCHEMA, _DESCRIPTION)
    named = {"pipeline": run.pipeline, "run": run.run_id, "started_at": run.started_at}
    written = [_row(verdict) for verdict in verdicts]
    reason, by = (accepted.reason, accepted.by) if accepted else (None, None)
    said = json.dumps(
        [{"accepted": reason, "started": str(run.started_at)}, *written], sort_keys=True
    )
    validation = hashlib.sha256(said.encode()).hexdigest()[:16]
    last = _newest(table, run, accepted is not None)
    if accepted is not None and last:
        # One of before the newest validation overrides nothing of it.
        validated = _newest(table, run, accepted=False)
        last = [row for row in last if not validated or row["time"] >= validated[0]["time"]]
    if any(row["validation"] == validation for row in last):
        return
    same = {"time": time, "validation": validation, "data_docs": data_docs}
    same |= {"accepted": reason, "accepted_by": by, "versions": versions or None}
    rows = [named | same | row for row in written]
    write_deltalake(table, ops_rows(table, SCHEMA, rows), mode="append")


def last_failures(quality: TablePlace, run: JudgedRun) -> tuple[CheckVerdict, ...]:
    """The checks that kept a run from being published when it was validated last; none where it
    was not, or kept all of them."""
    table = quality.open()
    if table is None:
        return ()
    return tuple(
        _verdict(row)
        for row in _newest(table, run, accepted=False)
        if not row["passed"] and row["severity"] == "fail"
    )


def _newest(table: DeltaTable, run: JudgedRun, accepted: bool) -> list[dict[str, Any]]:
    """The rows of a run's newest validation, or of its newest override."""
    is_override = ds.field("accepted").is_valid()
    own = (
        (ds.field("pipeline") == run.pipeline)
        & (ds.field("run") == run.run_id)
        & (ds.field("started_at") == pa.scalar(run.started_at, TIME))
        & (is_override if accepted else ~is_override)
    )
    # Files of other runs are left out by their statistics, and not opened.
    escaped = run.run_id.replace("'", "''")
    its = dataset_of(table, f"pipeline = '{run.pipeline}' AND run = '{escaped}'")
    rows = its.to_table(filter=own).to_pylist()
    last = max((row["time"] for row in rows), default=None)
    return [row for row in rows if row["time"] == last]


def _row(verdict: CheckVerdict) -> dict[str, Any]:
    values = verdict.model_dump()
    return values | {"examples": json.dumps(values["examples"], ensure_ascii=False)}


def _verdict(row: Mapping[str, Any]) -> CheckVerdict:
    values = {name: row[name] for name in CheckVerdict.model_fields}
    return CheckVerdict.model_validate(values | {"examples": json.loads(row["examples"])})
