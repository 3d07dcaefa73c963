"""Publish: a run's last value of each window goes into gold, in one commit, without a JVM.

The life of a publish:
1. read what gold's transactions say was published, and plan (`plan_publish`, pure);
2. read the changes since then, the last value of each window (`window_values.py`);
3. compare with gold: new, changed, unchanged, or closed now;
4. one commit by delta-rs carries rows, status and the transactions that say so.
Killed anywhere before 4, nothing was published; after it, a repeat finds nothing to do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from tidemark.errors import StorageUnavailable, TidemarkError
from tidemark.pipeline.model import Pipeline, Table
from tidemark.pipeline.places import Places
from tidemark.pipeline.settings import Settings
from tidemark.tables.create import existing_table
from tidemark.tables.plan import (
    CHANGES,
    CLOSE,
    GENERATION,
    GoldState,
    PublishPlan,
    plan_publish,
)
from tidemark.tables.result import RunError, RunResult, TableResult, write_result
from tidemark.tables.window_values import GoldChange, changed_windows, of_dates


def publish_run(pipeline: Pipeline, result: RunResult, settings: Settings) -> RunResult:
    """Publish all tables of a run; the result comes back with gold's versions in it.

    Tables are published one after the other, each in a commit of its own. Safe to repeat:
    what is published already is left alone, and a later run publishes what this one did not.
    """
    places = Places(settings.root, pipeline.name)
    tables = {
        name: publish_table(
            pipeline.tables[name],
            pinned,
            places.gold(name),
            places.changes(name),
            result.run_id,
            settings.storage_options,
        )
        for name, pinned in result.tables.items()
    }
    return result.model_copy(update={"tables": tables, "held": False})


def publish_and_record(
    pipeline: Pipeline, result: RunResult, uri: str, settings: Settings
) -> RunResult:
    """Publish a run, and write into its result file how that went.

    An error of ours comes back in the result, for the caller to tell; any other is raised, once
    it is written. A run whose publish failed can be published again.
    """
    begin, failure = time.monotonic(), None
    try:
        result = publish_run(pipeline, result, settings)
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
    if failure and not isinstance(failure, TidemarkError):
        raise failure
    return result


def publish_table(
    table: Table,
    pinned: TableResult,
    gold_uri: str,
    changes_uri: str,
    run_id: str,
    options: Mapping[str, str],
) -> TableResult:
    """Publish one table up to the pins of a run."""
    gold = existing_table(gold_uri, options)
    plan = plan_publish(gold_state(gold), pinned)
    if plan.nothing_to_do:
        return pinned.model_copy(update={"gold": gold.version(), "published_windows": 0})
    changes = _read_changes(existing_table(changes_uri, options), plan)
    change = changed_windows(gold, changes, table, plan, run_id)
    _commit(gold, change, plan)
    return pinned.model_copy(update={"gold": gold.version(), "published_windows": change.windows})


def gold_state(gold: DeltaTable) -> GoldState:
    """What gold's transactions say; the state before the first publish where there are none."""
    changes = gold.transaction_version(CHANGES)
    return GoldState(
        version=gold.version(),
        changes=-1 if changes is None else changes,
        close_ms=gold.transaction_version(CLOSE) or 0,
        generation=gold.transaction_version(GENERATION) or 1,
    )


def _read_changes(changes: DeltaTable, plan: PublishPlan) -> pa.Table:
    """The rows of the commits (after_changes, changes], with their `_commit_version`."""
    if changes.version() < plan.changes:
        raise StorageUnavailable(
            f"{changes.table_uri} is at version {changes.version()}, the run pinned "
            f"{plan.changes}. Nothing was published; try again when the store shows it."
        )
    if plan.changes <= plan.after_changes:
        return pa.table(changes.to_pyarrow_dataset().schema.empty_table()).append_column(
            "_commit_version", pa.array([], pa.int64())
        )
    return pa.table(
        changes.load_cdf(
            starting_version=max(plan.after_changes + 1, 0), ending_version=plan.changes
        )
    )


def _commit(gold: DeltaTable, change: GoldChange, plan: PublishPlan) -> None:
    """One commit, on the version that was read: StorageUnavailable when another came first."""
    properties = CommitProperties(
        app_transactions=[Transaction(app, n) for app, n in plan.transactions.items()],
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
