"""Publish: a run's last value of each window goes into gold, in one commit, without a JVM.

The life of a publish:
1. read what gold's transactions say was published, and plan (`to_publish.py`);
2. read the changes since then, the last value of each window (`window_values.py`);
3. compare with gold: new, changed, unchanged, or closed now;
4. one commit by delta-rs carries rows, status and the transactions that say so.
Killed anywhere before 4, nothing was published; after it, a repeat finds nothing to do.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from tidemark.errors import LeaseHeld, NotPublishable, StorageUnavailable, TidemarkError
from tidemark.pipeline.model import Pipeline, Table
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings import Settings
from tidemark.storage.lease import Lease
from tidemark.tables.pipeline_lease import pipeline_lease
from tidemark.tables.publishing.plan import PublishPlan
from tidemark.tables.publishing.published import published_before, published_note
from tidemark.tables.publishing.retention import drop_expired_dates
from tidemark.tables.publishing.to_publish import to_publish
from tidemark.tables.results.result import RunResult, TableResult
from tidemark.tables.results.result_file import RunError, write_result
from tidemark.tables.results.runs import publish_note, record_interrupted_run, record_run
from tidemark.tables.windows.window_values import GoldChange, changed_windows, of_dates

_LOG = logging.getLogger(__name__)


def publish_tables(
    pipeline: Pipeline,
    pinned: Mapping[str, TableResult],
    note: Mapping[str, str],
    settings: Settings,
    lease: Lease,
) -> dict[str, TableResult]:
    """Publish all tables of a run; they come back with gold's versions in them.

    Tables are published one after the other, each in a commit of its own, with `note`
    (`publish_note`) in its metadata. Safe to repeat: what is published already is left alone,
    and a later run publishes what this one did not. Then the dates of bronze go that `keep` no
    longer keeps. Raises LeaseLost, before a commit, where another run has taken the lease over.
    """
    places = Places(settings.root, pipeline.name)
    published = {
        name: publish_table(
            pipeline.tables[name],
            pins,
            places.gold(name),
            places.changes(name),
            note,
            settings.storage_options,
            lease.check,
        )
        for name, pins in pinned.items()
    }
    drop_expired_dates(pipeline, places, settings.storage_options, lease.check)
    return published


def publish_and_record(
    pipeline: Pipeline, result: RunResult, uri: str, settings: Settings
) -> RunResult:
    """Publish a held run under the lease, and write into its result file and `ops/runs` how that
    went.

    An error of ours comes back in the result, for the caller to tell; any other is raised, once
    it is written. Where another run holds the lease nothing is written: it may be publishing this
    very run. A run whose publish failed can be published again. Raises NotPublishable, with
    nothing written, where the result is not one of this pipeline as it is now.
    """
    check_publishable(pipeline, result, uri)
    begin, failure = time.monotonic(), None
    try:
        with pipeline_lease(pipeline, settings, result.run_id, "publish") as lease:
            places = Places(settings.root, pipeline.name)
            record_interrupted_run(pipeline, places, settings.storage_options)
            note = publish_note(result.run_id, result.started_at)
            tables = publish_tables(pipeline, result.tables, note, settings, lease)
        result = result.model_copy(update={"tables": tables, "held": False})
    except LeaseHeld as error:
        return result.model_copy(update={"outcome": "failed", "error": RunError.of(error)})
    except Exception as error:  # noqa: BLE001  whatever it is, the result file says it
        failure = error
    result = result.model_copy(
        update={
            "outcome": "failed" if failure else "succeeded",
            "error": RunError.of(failure) if failure else None,
            "seconds": {**result.seconds, "publish": round(time.monotonic() - begin, 3)},
            "ended_at": datetime.now(UTC),
        }
    )
    write_result(uri, result, settings.storage_options)
    try:
        record_run(Places(settings.root, pipeline.name).runs, result, settings.storage_options)
    except Exception:  # noqa: BLE001  the publish itself is over, whatever this was
        # What was published is as good without its row; the next start says what is missing.
        _LOG.warning("The row of %s in ops/runs is missing.", result.run_id, exc_info=True)
    if failure and not isinstance(failure, TidemarkError):
        raise failure
    return result


def check_publishable(pipeline: Pipeline, result: RunResult, uri: str) -> None:
    """A run can be published when it pinned every table, even if an earlier publish failed."""
    if result.pipeline != pipeline.name:
        raise NotPublishable(
            f"{uri} is the result of a run of `{result.pipeline}`, not of `{pipeline.name}`. "
            "Nothing was published. Name the pipeline that ran."
        )
    if result.tables.keys() != pipeline.tables.keys():
        cause = f", which failed with {result.error.type}," if result.error else ""
        raise NotPublishable(
            f"The run {result.run_id}{cause} pinned {_names(result.tables)}, and the pipeline "
            f"`{pipeline.name}` has {_names(pipeline.tables)}. Nothing was published. Run the "
            "pipeline again: that run publishes what this one left as well."
        )


def _names(tables: Iterable[str]) -> str:
    return ", ".join(tables) or "no table"


def publish_table(
    table: Table,
    pinned: TableResult,
    gold_uri: str,
    changes_uri: str,
    note: Mapping[str, str],
    options: Mapping[str, str],
    check: Callable[[], None],
) -> TableResult:
    """Publish one table up to the pins of a run.

    `note` is what gold's commit says of the run (`publish_note`). `check` is called between the
    reading of gold and the commit, and raises where this process may not write any more.
    """
    found = to_publish(pinned, gold_uri, changes_uri, options)
    gold, plan = found.gold, found.plan
    if plan.nothing_to_do:
        before = published_before(gold, note)
        return pinned.model_copy(
            update={"gold": gold.version(), "published_windows": 0, "published": before}
        )
    change = changed_windows(gold, found.changes(), table, plan, note["run"])
    check()
    _commit(gold, change, plan, {**note, **published_note(change.changed)})
    return pinned.model_copy(
        update={
            "gold": gold.version(),
            "published_windows": change.windows,
            "published": change.changed,
        }
    )


def _commit(
    gold: DeltaTable, change: GoldChange, plan: PublishPlan, note: Mapping[str, str]
) -> None:
    """One commit, on the version that was read: StorageUnavailable when another came first."""
    properties = CommitProperties(
        app_transactions=[Transaction(app, n) for app, n in plan.transactions.items()],
        custom_metadata=dict(note),
        # Without a retry delta-rs commits on the version that it read, or not at all.
        max_commit_retries=0,
    )
    try:
        _write(gold, change, properties)
    except CommitFailedError as error:
        raise StorageUnavailable(
            f"{gold.table_uri} got another commit while this publish read version "
            f"{plan.gold_version} ({error}). Nothing was published. Try again: what is "
            "published by then is left alone."
        ) from error


def _write(gold: DeltaTable, change: GoldChange, properties: CommitProperties) -> None:
    """Append, or write the touched partitions anew.

    Not by delta-rs's merge: it writes strings as Arrow views, which pyarrow cannot filter, nor
    pandas and DuckDB through it.
    """
    if not change.replaced_dates:
        write_deltalake(gold, change.rows, mode="append", commit_properties=properties)
        return
    write_deltalake(
        gold,
        change.rows,
        mode="overwrite",
        predicate=of_dates(change.replaced_dates),
        commit_properties=properties,
    )
