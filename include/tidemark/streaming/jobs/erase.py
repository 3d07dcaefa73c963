"""`spark-submit`'s entry for an erasure: arguments in, result written, exit code out.

Exit codes as in `entry.py`. With `--dry-run` it only plans. Asked for no rows, it finishes what was
begun.

The life of an erasure, under the pipeline's lease:
1. find the rows, and refuse what cannot be done;
2. compute what gold of each table would be without them, and hold that to the table's checks;
3. write the rows that stay beside those that go, keep the plan, in which no value stands but keyed
   digests where such rows are to be rejected, and stop the pipeline: nothing else of it runs until
   8;
4. one commit for each table that rows go of (`recompute/erase/record.py`);
5. each table begins a generation from bronze;
6. the ledger gets a line and `ops/upkeep` a row, all is looked at again, and its record is kept;
7. views follow, and all goes that held the rows before (`recompute/erase/purge.py`), and the plan;
8. the pipeline goes on.
Killed anywhere after 3, a repetition finishes what the plan says. There is no way back.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from tidemark.errors import ErasureRefused, ErasureUnproven, ViewBroken
from tidemark.gold.views import write_views
from tidemark.ledger.erased import Digests
from tidemark.pipeline.model import DeltaSource, FilesSource
from tidemark.printed import counted
from tidemark.recompute.erase.change import Erasure, read_erasure
from tidemark.recompute.erase.purge import check_folder, planned_purge, purge
from tidemark.recompute.erase.record import (
    account_for,
    forget_plan,
    is_recorded,
    keep_erasure,
    prove,
    record_erasure,
    take_out,
)
from tidemark.recompute.erase.result import EraseResult, erase_lines
from tidemark.recompute.plans import new_act_id
from tidemark.recompute.retract.refusals import (
    check_no_other_readers,
    check_not_frozen,
    check_tables_are_there,
    frozen_rows,
    started_tables,
)
from tidemark.runs.acceptance import this_user
from tidemark.runs.contract.check import admit
from tidemark.runs.generations import ERASE
from tidemark.runs.lookups import note_copies
from tidemark.runs.losses import check_losses
from tidemark.runs.requests import NO_REASON_TO_ERASE, EraseRequest
from tidemark.runs.run import Run
from tidemark.runs.unfinished_act import (
    ActKind,
    release_after,
    stop_for,
    unfinished_act,
)
from tidemark.streaming.jobs.act import JobAct, act_main, carried_out, record_act
from tidemark.streaming.jobs.without_rows import (
    WithoutRows,
    begin_generations,
    check_may_look,
    compare,
    hold_to_checks,
)
from tidemark.streaming.recompute.computed import RowsLeftOut
from tidemark.streaming.recompute.erasure import ToErase, to_erase, written
from tidemark.streaming.recompute.kept_digests import digests_to_keep

_UNTOUCHED = "Nothing was changed."
_ADVICE = (
    "Nothing was changed. Mend the check; or erase them all the same: the same command with "
    "--accept."
)


@dataclass
class ErasedSoFar(WithoutRows):
    """What an erasure has done so far; `found` are the rows that go, where they were looked for,
    `kept` the digests by which they are rejected when they come again."""

    change: Erasure | None = None
    found: ToErase | None = None
    kept: Digests | None = None
    goes: dict[str, int] = field(default_factory=dict)
    stays: tuple[str, ...] = ()

    @property
    def erasure(self) -> str | None:
        return None if self.change is None else self.change.id

    @property
    def rows(self) -> dict[str, int]:
        if self.change is not None:
            return self.change.rows
        return {} if self.found is None else {one.table: one.rows for one in self.found.tables}

    @property
    def unread(self) -> int:
        return 0 if self.found is None else self.found.unread

    @property
    def sources(self) -> tuple[str, ...]:
        return () if self.found is None else self.found.sources

    @property
    def again(self) -> tuple[str, ...]:
        kept = self.kept if self.change is None else self.change.again
        return () if kept is None else tuple(name for name, _ in kept.columns)

    @property
    def windows(self) -> dict[str, int]:
        return {name: one.windows for name, one in self.changed.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Erase rows; the exit code. Never raises for an error that it can report."""
    request = EraseRequest.read(argv)
    return act_main(request, ERASE, erase_once, erase_lines, EraseResult)


def erase_once(act: JobAct[EraseRequest]) -> EraseResult:
    """Erase under the pipeline's lease, or only plan; what happened, errors included."""
    done = ErasedSoFar()
    work = _only_plan if act.asked.dry_run else _work
    result = carried_out(act, EraseResult, done, work)
    if done.begun and done.change is not None:
        record_act(act, ERASE, result, done.change)
    return result


def _only_plan(act: JobAct[EraseRequest], done: ErasedSoFar) -> None:
    check_may_look(act.run, ErasureRefused)
    _plan(act, act.spark(), done)


def _work(act: JobAct[EraseRequest], done: ErasedSoFar) -> None:
    with act.lease(ERASE, ActKind.ERASURE) as lease:
        act = act.under(lease, done)
        run, progress = act.run, act.progress
        act.copy_lookups()
        spark = act.spark()
        change = _begun(act, spark, done)
        done.begun = True
        done.stays = tuple(_stays(run))
        if change is not None:
            if not is_recorded(change, run.warehouse):
                _carry_out(act, spark, change, done)
            with progress.stage("remove what held them"):
                note_copies(run)
                # One that cannot be selected is no longer what gold is, and goes with what held the
                # rows. Of the others a takeover's fence of gold makes no such one.
                with suppress(ViewBroken):
                    write_views(run.pipeline.tables, run.warehouse, note=True)
                now = datetime.now(UTC)
                young = purge(change, run.pipeline, run.warehouse, _own(act), now)
                forget_plan(change, run.warehouse)
            done.stays = (*_young(young), *done.stays)
        release_after(run.warehouse)


def _carry_out(
    act: JobAct[EraseRequest], spark: SparkSession, change: Erasure, done: ErasedSoFar
) -> None:
    run = act.run
    with act.progress.stage("take rows out"):
        take_out(change, run.warehouse)
    begin_generations(act, spark, change, done)
    account_for(change, run.warehouse, datetime.now(UTC))
    prove(change, run.pipeline, run.warehouse)
    record_erasure(change, run.warehouse)


def _own(act: JobAct[EraseRequest]) -> tuple[str, str]:
    """Where this act's result goes, and Spark's log beside it."""
    places, asked = act.run.warehouse.places, act.asked
    result = asked.result or places.result(act.run.run_id)
    return result, f"{result.removesuffix('.json')}.spark.log"


def _begun(act: JobAct[EraseRequest], spark: SparkSession, done: ErasedSoFar) -> Erasure | None:
    """What is carried out: planned now, kept and begun, or begun before; None where of that only
    the last step is left. ErasureRefused."""
    run, asked = act.run, act.asked
    unfinished = unfinished_act(run.warehouse)
    if unfinished is not None:
        done.change = change = read_erasure(unfinished.folder(run.warehouse))
        if not asked.finishes:
            raise ErasureRefused(
                f"The erasure {unfinished.id} of {run.pipeline.name} was begun and not finished. "
                f"{unfinished.ways_out(run.pipeline.name)}"
            )
        if change is not None:
            check_tables_are_there(run, unfinished, change.tables, ErasureUnproven)
        return change
    if asked.finishes:
        raise ErasureRefused(
            f"No erasure of {run.pipeline.name} was begun that would have to be finished. Name "
            f"rows: --where. {_UNTOUCHED}"
        )
    if not (asked.reason or "").strip():
        raise ErasureRefused(f"{NO_REASON_TO_ERASE}. {_UNTOUCHED}")
    _plan(act, spark, done)
    hold_to_checks(act, EraseResult, done, _ADVICE)
    change = _planned(act, done)
    # A first run of another pipeline may have begun to read bronze while this was planned.
    _check_no_other_readers(run)
    keep_erasure(change, run.warehouse)
    done.change = change
    stop_for(run.warehouse, change.act)
    return change


def _plan(act: JobAct[EraseRequest], spark: SparkSession, done: ErasedSoFar) -> None:
    """What an act would do, and what its checks say of it; nothing is written."""
    run, asked, progress = act.run, act.asked, act.progress
    if asked.where is None:
        raise ErasureRefused(f"Name rows: --where. {_UNTOUCHED}")
    check_losses(run.pipeline, run.warehouse)
    admit(run.pipeline, run.settings)
    check_folder(run.warehouse)
    bronze, rejects = run.warehouse.bronze.open(), run.warehouse.rejects.open()
    if bronze is None or rejects is None:
        raise ErasureRefused(f"{run.pipeline.name} has not run yet. {_UNTOUCHED}")
    if run.pipeline.source.followed_key:
        raise ErasureRefused(
            f"Bronze of {run.pipeline.name} follows {run.pipeline.source.label}: what changes "
            "there is looked for in bronze, rejects and `retracted`, and runs stop where a row is "
            f"in none of them. Erasing here is not possible. {_UNTOUCHED}"
        )
    if "id" not in {one.name for one in rejects.schema().fields}:
        raise ErasureRefused(
            f"{rejects.table_uri} is of a version before 0.2, without ids. {_UNTOUCHED} Run the "
            f"pipeline (`tidemark run {run.pipeline.name}`), then repeat this."
        )
    started_tables(run)
    _check_no_other_readers(run)
    with progress.stage("find rows"), progress.tasks_of(spark):
        done.found = found = to_erase(spark, run, asked, bronze.version(), act.started)
    if asked.reject_again:
        done.kept = digests_to_keep(spark, run, asked.where)
    if found.bronze is not None:
        check_not_frozen(run, found.bronze.first)
    compare(spark, run, RowsLeftOut(asked.where, found.held), progress, done)
    done.goes = planned_purge(run.pipeline, run.warehouse, act.started)
    done.stays = tuple(_stays(run))


def _check_no_other_readers(run: Run) -> None:
    check_no_other_readers(
        run,
        "of these rows would stay. Nothing was changed. Take the join out of these tables first, "
        "and erase the rows there too.",
    )


def _planned(act: JobAct[EraseRequest], done: ErasedSoFar) -> Erasure:
    assert done.found is not None
    run, stamp = act.run, new_act_id(act.run.warehouse, act.started)
    return Erasure(
        id=stamp,
        run_id=f"erase__{stamp}",
        pipeline=run.pipeline.name,
        planned_at=act.started,
        by=act.asked.by or this_user(),
        reason=(act.asked.reason or "").strip(),
        erased=written(done.found, run, stamp),
        tables=started_tables(run),
        again=done.kept,
    )


def _young(files: Sequence[str]) -> Iterator[str]:
    if files:
        yield (
            f"{counted(len(files), 'file')} of `ops` that no log names, {files[0]} among them: "
            "another process may be about to commit it, or died; `tidemark maintain` removes "
            "it later"
        )


def _stays(run: Run) -> Iterator[str]:
    """What lies elsewhere, and what to do about it."""
    for name, rows in frozen_rows(run).items():
        yield f"{counted(rows, 'row')} of gold of {name}, of frozen windows (`keep`)"
    if run.pipeline.lookup:
        names = ", ".join(sorted(run.pipeline.lookup))
        yield f"the newest copies of lookups ({names}), which follow what they copy"
    yield (
        "what others have: tables that read gold or bronze, catalogs, backups, a bucket's former "
        "versions, Airflow's logs, the shell's history"
    )
    source = run.pipeline.source
    what = "delete the records there, or wait until they are gone"
    if isinstance(source, DeltaSource):
        what = "DELETE there, then VACUUM; a source that is not followed has to be told (`accept`)"
    elif isinstance(source, FilesSource):
        what = "remove its files, or write them without the rows; what was read is not read again"
    yield f"the source, {source.label}: {what}"


if __name__ == "__main__":
    sys.exit(main())
