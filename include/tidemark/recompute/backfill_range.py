"""Which windows a backfill may compute again: decided from what gold and `changes` hold."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from tidemark.errors import BackfillRefused, UnpublishedChanges
from tidemark.gold.row_values import latest
from tidemark.operators.operator import Operator, listed
from tidemark.operators.repaired import BACKFILL
from tidemark.operators.row_range import RowRange
from tidemark.pipeline.instants import epoch_ms, instant_of, instant_text
from tidemark.storage.delta.history import FAILURE, VERSION, changes_between, schema_of
from tidemark.storage.duckdb_in_utc import arrow_of, duckdb_in_utc

_UNTOUCHED = "Nothing was written."


def backfill_range(
    operator: Operator,
    start: datetime,
    end: datetime,
    close_ms: int,
    frozen_before_ms: int | None,
) -> RowRange:
    """The windows that start in [start, end).

    BackfillRefused where one of them is still open by its start, or frozen, or where there is
    none. All that can lie in the range count, also those without a row.
    """
    windows = operator.starting_in(start, end)
    if windows is None:
        raise BackfillRefused(
            f"No window starts from {_text(start)} up to {_text(end)}: --to has to be later than "
            f"--from, by a window's slide at least. {_UNTOUCHED}"
        )
    _check_closed(operator, windows, start, close_ms)
    if frozen_before_ms is not None:
        _check_kept(operator, windows, frozen_before_ms)
    return windows.ending_by(instant_of(close_ms))


def _check_closed(operator: Operator, windows: RowRange, start: datetime, close_ms: int) -> None:
    first_open = operator.first_open_start(close_ms)
    if windows.last_start < first_open:
        return
    allowed = (
        f"The largest range that starts there is --from {_text(start)} --to {_text(first_open)}."
        if windows.first_start < first_open
        else "All of the range is open."
    )
    raise BackfillRefused(
        f"The range holds windows that are still open: gold is closed up to "
        f"{instant_text(close_ms)}, so those that start from {_text(first_open)} on are open. The "
        f"stream still changes those. {allowed} {_UNTOUCHED}"
    )


def _check_kept(operator: Operator, windows: RowRange, frozen_before_ms: int) -> None:
    first_kept = operator.first_kept_start(frozen_before_ms)
    if windows.first_start >= first_kept:
        return
    raise BackfillRefused(
        f"The range holds frozen windows: those that start before "
        f"{instant_text(frozen_before_ms)} are older than `keep`, and bronze may have dropped "
        f"rows of theirs. The earliest start allowed is --from {_text(first_kept)}. {_UNTOUCHED}"
    )


def check_whole(hanging: tuple[datetime, datetime] | None, windows: RowRange) -> None:
    """BackfillRefused where rows that start outside of the range share input rows with what differs
    in it (`BronzeRows.hanging_with`): gold would count these twice, or nowhere."""
    if hanging is None:
        return
    first, last = hanging
    if windows.first_start <= first and last <= windows.last_start:
        return
    second = timedelta(seconds=1)
    start, end = min(first, windows.first_start), max(last, windows.last_start) + second
    raise BackfillRefused(
        "What differs in the range hangs together with what starts outside of it, in gold or by "
        "bronze: the range alone would bring rows of bronze into gold twice, or take them out. "
        f"{_UNTOUCHED} Take at least --from {_text(start.replace(microsecond=0))} "
        f"--to {_text(end.replace(microsecond=0))}."
    )


def pending_changes(changes: DeltaTable, published: int) -> pa.Table:
    """The rows of `changes` after the version that gold published, with their `_commit_version`."""
    found = changes_between(changes, published, changes.version())
    schema = schema_of(changes).append(pa.field(VERSION, pa.int64()))
    # The change feed has strings as Arrow views, which neither pyarrow nor Spark compares.
    return found.select(schema.names).cast(schema)


def check_pending(pending: pa.Table, table_name: str) -> None:
    """UnpublishedChanges where a run's windows wait in `changes` for their publish.

    A publish takes along all of `changes` up to a version, so one of a backfill would publish
    what a held run left for its validation; and one that passed them by would be overtaken by
    its own rows later, when the run's late rows have counted as published. Rows that a killed
    backfill left are no hindrance: the next publish is meant to take them.
    """
    others = pending.filter(pc.not_equal(pending.column("cause"), pa.scalar(BACKFILL)))
    if not others.num_rows:
        return
    runs = sorted({str(run) for run in others.column("run").unique().to_pylist()})
    raise UnpublishedChanges(
        f"{others.num_rows:,} changed windows of {table_name} wait for their publish (run "
        f"{', '.join(runs[:5])}{' …' if len(runs) > 5 else ''}), and a backfill would publish "
        f"them as well. {_UNTOUCHED} Publish that run (`tidemark publish`), or run the pipeline "
        "again; then repeat the backfill."
    )


def last_pending(pending: pa.Table, operator: Operator) -> pa.Table:
    """Of windows that wait in `changes`, the newest value of each."""
    columns = [*operator.identity, *operator.values, FAILURE]
    with duckdb_in_utc() as connection:
        connection.register("changes", pending)
        connection.execute(latest(operator))
        rows = connection.sql(f"SELECT {listed(columns)} FROM latest")
        return arrow_of(rows, pending.select(columns).schema)


def _text(instant: datetime) -> str:
    return instant_text(epoch_ms(instant))
