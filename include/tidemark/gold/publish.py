"""Publish: a run's last value of each window goes into gold, in one commit, without a JVM.

The life of a publish:
1. read what gold's transactions say was published, and plan (`to_publish.py`);
2. read the changes since then, the last value of each window (`row_values.py`);
3. compare with gold: new, changed, unchanged, or closed now;
4. one commit by delta-rs carries rows, status and the transactions that say so.
Killed anywhere before 4, nothing was published; after it, a repeat finds nothing to do.
"""

from __future__ import annotations

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from tidemark.commit_point import commit_point
from tidemark.errors import TableLost
from tidemark.gold.pins import TableResult
from tidemark.gold.plan import IDENTITIES, PublishPlan
from tidemark.gold.published import published_before, published_note, together
from tidemark.gold.retention import drop_expired_dates, note_needed
from tidemark.gold.row_values import GoldChange, changed_windows, open_windows
from tidemark.gold.spans import days_of, spans_predicate
from tidemark.gold.state import is_published
from tidemark.gold.to_publish import to_publish
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import Operator
from tidemark.pipeline.model import Pipeline
from tidemark.storage.delta.append import on_this_version, with_sound_bounds
from tidemark.storage.delta.by_hand import commits_by_hand, last_publish
from tidemark.storage.delta.damage import not_committed
from tidemark.storage.delta.notes import PublishedNote
from tidemark.storage.delta.place import TablePlace
from tidemark.storage.warehouse import Warehouse

# What is replaced is written in files of so many bytes at least, and of the dates that it touches
# in some so many at most.
_SMALLEST_FILE, _MOST_FILES = 128 * 1024, 64


def publish_tables(
    pipeline: Pipeline,
    tables: dict[str, TableResult],
    note: PublishedNote,
    warehouse: Warehouse,
) -> None:
    """Publish all tables of a run; gold's versions come into `tables`, which are its pins.

    Tables are published one after the other, each in a commit of its own, with `note`
    (`publish_note`) and what it changed. What one came to is told at once, for the next one may
    fail. Safe to repeat: what is published already is left alone, and a later run publishes what
    this one did not. Then other pipelines are told which rows of theirs are needed no more, and the
    dates of bronze go that `keep` no longer keeps. The views are for the caller (`write_views`),
    once it has noted what is published. Raises LeaseLost, before a commit, where another run has
    taken the lease over, and TableLost where rows of a gold were changed by hand since its last
    publish.
    """
    for name, pins in tables.items():
        tables[name] = publish_table(
            operator_of(pipeline, name),
            pins,
            warehouse.gold(name),
            warehouse.changes(name, pins.generation),
            note,
        )
    note_needed(pipeline, warehouse)
    drop_expired_dates(pipeline, warehouse)


def publish_table(
    operator: Operator,
    pinned: TableResult,
    gold_place: TablePlace,
    changes: TablePlace,
    note: PublishedNote,
) -> TableResult:
    """Publish one table up to the pins of a run.

    `note` is what gold's commit says of the run (`publish_note`). Gold's fence is asked between
    the reading of gold and the commit.
    """
    found = to_publish(operator, pinned, gold_place, changes)
    gold, plan = found.gold, found.plan
    # An earlier try may have died behind gold's commit: whoever follows gold is told of it too.
    before = published_before(gold, note.run, note.trigger)
    if found.leaves_gold:
        return pinned.model_copy(
            update={
                "gold": gold.version(),
                "published_windows": 0,
                "published": before,
                "open_windows": _open_windows(gold, plan.close_after_ms),
            }
        )
    if gold.transaction_version(IDENTITIES) is not None or not is_published(gold):
        _check_not_by_hand(gold, gold_place)
    change = changed_windows(gold, found.changes(), operator, plan, note.run)
    gold_place.fence()
    _commit(gold, change, plan, published_note(note, change.changed))
    return pinned.model_copy(
        update={
            "gold": gold.version(),
            "published_windows": change.windows,
            "published": together([one for one in (before, change.changed) if one is not None]),
            "open_windows": _open_windows(gold, plan.close_after_ms),
        }
    )


def _check_not_by_hand(gold: DeltaTable, place: TablePlace) -> None:
    """TableLost where rows of gold were changed since the last publish: behind the next one nobody
    would look for it."""
    if by_hand := commits_by_hand(gold, place, last_publish(gold)):
        raise TableLost(
            f"{place.uri} was changed by something else than Tidemark since its last publish: "
            f"{', '.join(map(str, by_hand))}. Nothing was published into it. Was it a mistake, "
            "bring the table back; was it meant, say so: `tidemark accept`. Then run again."
        )


def _open_windows(gold: DeltaTable, close_ms: int) -> int | None:
    """Told of gold once it is published: a file that cannot be read is nothing to a publish that
    did not need it."""
    try:
        return open_windows(gold, close_ms)
    except (OSError, pa.ArrowException):
        return None


@commit_point(
    "gold",
    after_a_kill="before: the next run publishes; after: gold's transactions say what was "
    "published",
)
def _commit(gold: DeltaTable, change: GoldChange, plan: PublishPlan, note: PublishedNote) -> None:
    """One commit, on the version that was read: StorageUnavailable when another came first."""
    try:
        _write(gold, change, on_this_version(note, plan.transactions))
    except CommitFailedError as error:
        raise not_committed(
            gold.table_uri,
            error,
            f"{gold.table_uri} got another commit while this publish read version "
            f"{plan.gold_version} ({error}). Nothing was published. Try again: what is "
            "published by then is left alone.",
        ) from error


def _write(gold: DeltaTable, change: GoldChange, properties: CommitProperties) -> None:
    """Append, or replace spans: the files with rows in one are written anew, in small ones, so that
    the next publish of these dates finds few rows beside its own. Maintenance packs them.

    Not by delta-rs's merge: it writes strings as Arrow views, which pyarrow cannot filter, nor
    pandas and DuckDB through it.
    """
    bounds = with_sound_bounds(change.rows.schema)
    if not change.replaced:
        write_deltalake(
            gold,
            change.rows,
            mode="append",
            commit_properties=properties,
            writer_properties=bounds,
        )
        return
    write_deltalake(
        gold,
        change.rows,
        mode="overwrite",
        predicate=spans_predicate(change.replaced),
        target_file_size=max(_SMALLEST_FILE, _bytes_of(gold, change) // _MOST_FILES),
        commit_properties=properties,
        writer_properties=bounds,
    )


def _bytes_of(gold: DeltaTable, change: GoldChange) -> int:
    """Of gold's files of the dates that have a replaced span."""
    files, days = pa.table(gold.get_add_actions(flatten=True)), days_of(change.replaced)
    dates, sizes = files["partition.window_date"].to_pylist(), files["size_bytes"].to_pylist()
    told = {str(day) for day in days}
    return sum(size or 0 for day, size in zip(dates, sizes, strict=True) if str(day) in told)
