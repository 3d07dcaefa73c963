"""A run that has nothing for Spark to do: its other steps, and no JVM.

The life of such a run:
1. take the lease, never over from another run: what that one left is for a job to mend;
2. look (`preflight.py`); where Spark is needed, give the lease back and leave all to the job; where
   a job could only say what is known already (`_AS_A_JOB`), fail as it would;
3. write the lines that the ledger lacks, and the pins for publish into the result;
4. publish, for there may be changes that are not published yet, or leave that to a step of its own,
   as a job with `--hold` does.
Killed anywhere, the next run does what is left: each write is one of a job's, and can be repeated.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from tidemark.errors import (
    ClockWrong,
    ErasedUntold,
    InputLost,
    LeaseHeld,
    LeaseLeft,
    LeaseUnreadable,
    RootMissing,
    SourceNotFound,
    SourceRefused,
    SourceUnavailable,
    StorageUnavailable,
    TidemarkError,
)
from tidemark.runs.accounts import account
from tidemark.runs.pins import pins_of, state_before
from tidemark.runs.preflight import NothingNew, SparkNeeded, run_preflight
from tidemark.runs.recorded_runs import record_interrupted_run, try_to_record_run
from tidemark.runs.repair_ops import repair_ops_tables
from tidemark.runs.results.result import RunResult
from tidemark.runs.run import Outcome, Run, run_result
from tidemark.runs.status.recorded_status import record_status
from tidemark.runs.tables_fit import why_tables_do_not_fit
from tidemark.runs.wall_clock import check_clock
from tidemark.storage.delta.place import shared_handles
from tidemark.storage.file_place import one_look
from tidemark.storage.lease.lease import Lease, hold_lease, this_process
from tidemark.storage.result_file import RunError, write_result
from tidemark.storage.root import check_root

_LOG = logging.getLogger(__name__)
# What a run does with what it found, under the lease that it holds; raises where it may not.
Step = Callable[[Run, Outcome, datetime], None]
_NOTHING = (
    "all of the source was read before, each batch is committed and aggregated, and no "
    "window is to be repaired or sealed"
)
# What stops a run, where a job could only say the same.
_AS_A_JOB: dict[type[TidemarkError], str] = {
    LeaseHeld: "the run stops, for another works on the pipeline",
    LeaseUnreadable: "the run stops at a lease that nobody can read",
    ClockWrong: "the run stops at this machine's clock",
    ErasedUntold: "the run stops, for it cannot tell which rows an erasure rejects",
    InputLost: "the run stops at what the source lost",
    SourceNotFound: "the run stops, for its source is not there",
    SourceRefused: "the run stops, for its source does not let it in",
    SourceUnavailable: "the run stops, for its source does not answer",
    StorageUnavailable: "the run stops, for a place cannot be read or written",
}


@shared_handles()
@one_look()
def run_without_spark(
    run: Run, started: datetime, uri: str, then: Mapping[str, Step] | None = None
) -> RunResult | SparkNeeded:
    """The result of a run that had nothing for Spark to do, held unless `then` validates and
    publishes it, or that stops where a job would stop too: as it was written to `uri`.

    Raises what stops it where that cannot be written either, and nothing else: what else is in the
    way of this is in the way of the job too, which reports it. `then` are further steps by their
    names, which the result times; what one raises ends them, and is the result's error.

    All of it is one look: what it writes itself that look sees, and nobody else writes under the
    lease.
    """
    begin = time.monotonic()
    # For the rules of the lease it is the job: what an earlier try left is not held by another.
    holder, settings = this_process(run.run_id, "stream"), run.settings
    try:
        check_root(settings)
        with hold_lease(
            run.places.lease, holder, settings.storage_options, settings.lease_seconds
        ) as lease:
            found = _run(replace(run, fence=lease.check), lease, started, uri, then or {})
    except (RootMissing, StorageUnavailable):
        raise
    except (LeaseHeld, LeaseUnreadable) as error:
        found = _unsure(error) if isinstance(error, LeaseLeft) else error
    except Exception as error:  # noqa: BLE001  whatever it is, the job decides
        return _unsure(error)
    if not isinstance(found, TidemarkError):
        if then and isinstance(found, RunResult):
            record_status(found.pipeline, settings, found.ended_at)
        return found
    outcome = Outcome(without_spark=_AS_A_JOB[type(found)])
    try:
        return _ended(run, outcome, started, _seconds("preflight", begin), uri, RunError.of(found))
    except StorageUnavailable:
        raise found from None


def _run(
    run: Run, lease: Lease, started: datetime, uri: str, then: Mapping[str, Step]
) -> RunResult | SparkNeeded | TidemarkError:
    """Raises nothing either: a lease that an error ends is not given back in order."""
    begin = time.monotonic()
    try:
        found = _looked(run, lease)
        if isinstance(found, NothingNew):
            outcome = _pinned(run, found)
            _finish(run, found)
            seconds, error = _seconds("preflight", begin), None
            for name, step in then.items():
                begin = time.monotonic()
                error = _error_of(step, run, outcome, started)
                seconds |= _seconds(name, begin)
                if error is not None:
                    break
            return _ended(run, outcome, started, seconds, uri, error)
        if isinstance(found, InputLost):
            record_interrupted_run(run.pipeline, run.warehouse)
    except Exception as error:  # noqa: BLE001  whatever it is, the job decides
        return _unsure(error)
    return found


def _ended(
    run: Run,
    outcome: Outcome,
    started: datetime,
    seconds: dict[str, float],
    uri: str,
    error: RunError | None = None,
) -> RunResult:
    """The result of a run that ends here, written and recorded."""
    result = run_result(run, outcome, started, {}, seconds, error)
    write_result(uri, result, run.settings.storage_options)
    try_to_record_run(run.warehouse.runs, result)
    return result


def _seconds(step: str, begin: float) -> dict[str, float]:
    return {step: round(time.monotonic() - begin, 3)}


def _error_of(step: Step, run: Run, outcome: Outcome, started: datetime) -> RunError | None:
    """What keeps the run from being published; None where nothing does."""
    try:
        step(run, outcome, started)
    except Exception as error:  # noqa: BLE001  whatever it is, the result says it
        if not isinstance(error, TidemarkError):
            traceback.print_exception(error)
        return RunError.of(error)
    return None


def _looked(run: Run, lease: Lease) -> NothingNew | SparkNeeded | TidemarkError:
    """What a job could only say as well is returned. A file that changed is for the job to admit
    first: its source may be another."""
    try:
        # One listing, of which all that is asked of it is a part.
        run.ingest_checkpoint().files()
        check_clock(run.pipeline.name, run.ingest_checkpoint(), lease.clocks())
        return run_preflight(run)
    except ClockWrong as wrong:
        return wrong
    except TidemarkError as error:
        if type(error) not in _AS_A_JOB:
            raise
        because = None
        with suppress(StorageUnavailable):
            if run.ingest_checkpoint().query_id() is not None:
                because = why_tables_do_not_fit(run)
        return error if because is None else SparkNeeded(because)


def _unsure(error: Exception) -> SparkNeeded:
    """The first sentence: the job tells the rest, when it meets the same."""
    return SparkNeeded(f"{type(error).__name__}: {str(error).split('. ')[0]}")


def _pinned(run: Run, found: NothingNew) -> Outcome:
    """What publish starts from."""
    outcome = Outcome(without_spark=_NOTHING, restart=run.restart_cases(found.tables.values()))
    tables = run.warehouse
    for name, place in (("bronze", tables.bronze), ("rejects", tables.rejects)):
        outcome.versions[name] = place.existing().version()
    for name, table in found.tables.items():
        outcome.tables[name] = pins_of(state_before(table), found.repaired[name], outcome)
    return outcome


def _finish(run: Run, found: NothingNew) -> None:
    """The steps of a job that are left, in its order."""
    record_interrupted_run(run.pipeline, run.warehouse)
    run.fence()
    repair_ops_tables(run.pipeline, run.warehouse, _LOG.warning)
    account(run, found.tables, found.repaired)
