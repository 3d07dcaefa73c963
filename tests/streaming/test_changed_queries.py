"""What the engine itself does when a query changed: the guide's rules, on real checkpoints.

Rules: Structured Streaming guide, "Recovery semantics after changes in a streaming query". The
table in docs/changing-a-pipeline.md says the same, beside what Tidemark does.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "at timestamp, seen timestamp, key string, tag string, amount long, size long"
AMOUNT, SIZE = ("amount", "sum(amount)"), ("size", "sum(size)")
PARTITIONS = "spark.sql.shuffle.partitions"
STATE = "spark.sql.streaming.stateStore."
STORE = f"{STATE}providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

# A window's value: start, key, tag, the two sums, the rows in it.
Value = tuple[str, Any, Any, Any, Any, int]
FIRST: Value = ("10:00", "k", "t", 1, 100, 1)
OPEN: Value = ("10:10", "k", "t", 2, 200, 1)
# With the second file: what one batch over both gives.
RIGHT: Value = ("10:10", "k", "t", 5, 500, 2)


def same(rows: DataFrame) -> DataFrame:
    return rows


@dataclass(frozen=True)
class Query:
    """The query of a table, as far as a test changes it."""

    files: str = "in"
    schema: str = SCHEMA
    rows: Callable[[DataFrame], DataFrame] = same
    event_time: str = "at"
    delay: str = "10 minutes"
    window: tuple[str, str] = ("10 minutes", "10 minutes")
    gap: str | None = None
    keys: tuple[str, ...] = ("key", "tag")
    measures: tuple[tuple[str, str], ...] = (AMOUNT, SIZE)
    mode: str = "update"
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ran:
    """Checkpoints that a query of each mode left after the first of two files."""

    spark: SparkSession
    root: Path

    def changed(self, query: Query, after: str = "update", **conf: str) -> tuple[list[Value], Path]:
        """Go on with another query on a copy of a checkpoint: what it emits, and the copy."""
        copy = self.root / "changed"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.root / after, copy)
        with settings(self.spark, conf):
            return run(self.spark, self.root, query, copy), copy


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    root = tmp_path_factory.mktemp("queries")
    land(root / "in/1.json", row("10:01", 1, 100), row("10:11", 2, 200))
    for mode in ("update", "append", "complete"):
        emitted = run(spark, root, Query(mode=mode), root / mode)
        assert emitted == ([] if mode == "append" else [FIRST, OPEN])
    land(root / "in/2.json", row("10:12", 3, 300))
    land(root / "other/9.json", row("10:13", 7, 700))
    return Ran(spark, root)


def row(at: str, amount: int, size: int) -> dict[str, Any]:
    times = {"at": f"2026-07-01T{at}:00", "seen": f"2026-07-01T{at}:30"}
    return times | {"key": "k", "tag": "t", "amount": amount, "size": size}


def land(path: Path, *rows: dict[str, Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{json.dumps(one)}\n" for one in rows))


@contextmanager
def settings(spark: SparkSession, conf: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in conf}
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def run(spark: SparkSession, root: Path, query: Query, checkpoint: Path) -> list[Value]:
    """Run to the end of what there is; the windows that were emitted."""
    from pyspark.sql import functions as F

    stream = spark.readStream.schema(query.schema).options(**query.options)
    rows = query.rows(stream.json(str(root / query.files)))
    window = F.window(query.event_time, *query.window)
    if query.gap:
        window = F.session_window(query.event_time, query.gap).alias("window")
    measures = [F.expr(sql).alias(name) for name, sql in query.measures]
    grouped = rows.withWatermark(query.event_time, query.delay).groupBy(window, *query.keys)
    start = F.date_format("window.start", "HH:mm").alias("start")
    columns = [*query.keys, *(name for name, _ in query.measures), "rows"]
    windows = grouped.agg(*measures, F.count("*").alias("rows")).select(start, *columns)
    emitted: list[Any] = []
    writer = windows.writeStream.outputMode(query.mode).trigger(availableNow=True)
    writer = writer.foreachBatch(lambda batch, _: emitted.extend(map(tuple, batch.collect())))
    writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
    return sorted(emitted)


def derived(name: str, sql: str) -> Callable[[DataFrame], DataFrame]:
    return lambda rows: (
        rows.selectExpr("*", f"{sql} AS changed").drop(name).withColumnRenamed("changed", name)
    )


UNCHANGED = Query()

# Not allowed by the guide or beyond it, and not seen by the engine: the state is taken for what
# it is not.
SILENT: dict[str, tuple[Query, list[Value]]] = {
    "two measures of one type swapped": (
        replace(UNCHANGED, measures=(SIZE, AMOUNT)),
        # size = 2 + 300 and amount = 200 + 3.
        [("10:10", "k", "t", 302, 203, 2)],
    ),
    "two keys of one type swapped": (
        replace(UNCHANGED, keys=("tag", "key")),
        # Another group, though its rows have the same keys.
        [("10:10", "t", "k", 3, 300, 1)],
    ),
    "another expression of the same type": (
        replace(UNCHANGED, measures=(("amount", "sum(amount * 1000)"), SIZE)),
        [("10:10", "k", "t", 3002, 500, 2)],
    ),
    "another aggregate of the same type": (
        replace(UNCHANGED, measures=(("amount", "max(amount)"), SIZE)),
        [("10:10", "k", "t", 3, 500, 2)],
    ),
    "a key of another meaning": (
        replace(UNCHANGED, rows=derived("tag", "upper(tag)")),
        [("10:10", "k", "T", 3, 300, 1)],
    ),
    "a longer window": (
        replace(UNCHANGED, window=("20 minutes", "20 minutes")),
        # The rows of the first file are missing.
        [("10:00", "k", "t", 3, 300, 1)],
    ),
    "another folder": (
        replace(UNCHANGED, files="other"),
        # The rest of the old folder is never read.
        [("10:10", "k", "t", 9, 900, 2)],
    ),
}

REFUSED = {
    "a measure more": (replace(UNCHANGED, measures=(AMOUNT, SIZE, ("n", "max(size)"))), "VALUE"),
    "a measure less": (replace(UNCHANGED, measures=(AMOUNT,)), "VALUE"),
    "a measure of another type": (
        replace(UNCHANGED, measures=(("amount", "sum(double(amount))"), SIZE)),
        "VALUE",
    ),
    "a key more": (replace(UNCHANGED, keys=("key", "tag", "seen")), "KEY"),
    "a key less": (replace(UNCHANGED, keys=("key",)), "KEY"),
    "a key of another type": (replace(UNCHANGED, rows=derived("tag", "length(tag)")), "KEY"),
    "windows that slide": (replace(UNCHANGED, window=("10 minutes", "5 minutes")), "KEY"),
}

ALLOWED: dict[str, tuple[Query, list[Value]]] = {
    "nothing": (UNCHANGED, [RIGHT]),
    "another name of a measure": (
        replace(UNCHANGED, measures=(("total", "sum(amount)"), SIZE)),
        [RIGHT],
    ),
    "a rate limit": (replace(UNCHANGED, options={"maxFilesPerTrigger": "1"}), [RIGHT]),
    "a narrower pattern": (replace(UNCHANGED, files="in/2*.json"), [RIGHT]),
    "a wider pattern": (
        replace(UNCHANGED, files="{in,other}/*.json"),
        [("10:10", "k", "t", 12, 1200, 3)],
    ),
    "a column more": (replace(UNCHANGED, schema=f"{SCHEMA}, page string"), [RIGHT]),
    "a filter": (replace(UNCHANGED, rows=lambda rows: rows.where("amount > 100")), []),
    "another projection of one type": (
        replace(UNCHANGED, rows=derived("amount", "amount * 1000")),
        [("10:10", "k", "t", 3002, 500, 2)],
    ),
    "another event time": (replace(UNCHANGED, event_time="seen"), [RIGHT]),
}

MODES = {
    # What is open waits until it closes.
    ("update", "append"): [],
    # Open windows come again only when a row touches them.
    ("append", "update"): [RIGHT],
    # The state lacks no window here; those that were freed before would be missing.
    ("update", "complete"): [FIRST, RIGHT],
    ("append", "complete"): [FIRST, RIGHT],
    ("complete", "update"): [RIGHT],
    ("complete", "append"): [],
}


@pytest.mark.parametrize(("query", "emitted"), SILENT.values(), ids=SILENT)
def test_the_engine_goes_on_wrongly_without_a_word(
    ran: Ran, query: Query, emitted: list[Value]
) -> None:
    assert ran.changed(query)[0] == emitted
    assert emitted != [RIGHT]


@pytest.mark.long
@pytest.mark.parametrize(("query", "part"), REFUSED.values(), ids=REFUSED)
def test_the_engine_refuses_state_of_another_number_or_type(
    ran: Ran, query: Query, part: str
) -> None:
    with pytest.raises(Exception, match=f"STATE_STORE_{part}_SCHEMA_NOT_COMPATIBLE"):
        ran.changed(query)


@pytest.mark.long
@pytest.mark.parametrize(("query", "emitted"), ALLOWED.values(), ids=ALLOWED)
def test_the_engine_allows(ran: Ran, query: Query, emitted: list[Value]) -> None:
    assert ran.changed(query)[0] == emitted


@pytest.mark.long
@pytest.mark.parametrize(("modes", "emitted"), MODES.items(), ids=map(" to ".join, MODES))
def test_the_engine_takes_any_other_output_mode(
    ran: Ran, modes: tuple[str, str], emitted: list[Value]
) -> None:
    before, after = modes
    assert ran.changed(replace(UNCHANGED, mode=after), before)[0] == emitted


@pytest.mark.long
def test_a_refused_query_leaves_a_batch_behind_that_the_old_one_finishes(ran: Ran) -> None:
    query, _ = REFUSED["a measure less"]
    copy = ran.root / "changed"
    with pytest.raises(Exception, match="SCHEMA_NOT_COMPATIBLE"):
        ran.changed(query)
    offsets, commits = (names(copy / log) for log in ("offsets", "commits"))
    assert len(offsets) == len(commits) + 1
    assert run(ran.spark, ran.root, UNCHANGED, copy) == [RIGHT]


@pytest.mark.long
@pytest.mark.parametrize(("delay", "watermark"), [("1 hour", "10:01:00"), ("1 second", "10:11:59")])
def test_a_watermark_follows_another_delay_and_never_goes_back(
    ran: Ran, delay: str, watermark: str
) -> None:
    emitted, copy = ran.changed(replace(UNCHANGED, delay=delay))
    assert emitted == [RIGHT]
    moved = max(watermarks(copy)) // 1000 % 86_400
    hours, minutes, seconds = map(int, watermark.split(":"))
    assert moved == hours * 3600 + minutes * 60 + seconds


@pytest.mark.long
def test_partitions_store_and_formats_stay_as_the_first_batch_had_them(ran: Ran) -> None:
    conf = {PARTITIONS: "5", STORE: ROCKSDB, f"{STATE}compression.codec": "zstd"}
    asked = ran.spark.conf.get(PARTITIONS)
    emitted, copy = ran.changed(UNCHANGED, **conf)
    assert emitted == [RIGHT]
    kept = last_offsets(copy)["conf"]
    assert kept[PARTITIONS] == asked != "5"
    assert kept[STORE].endswith("HDFSBackedStateStoreProvider")
    assert kept[f"{STATE}compression.codec"] == "lz4"
    assert names(copy / "state/0") == [str(number) for number in range(int(asked))]


def names(folder: Path) -> list[str]:
    """The numbered files or folders in it."""
    return sorted(path.name for path in folder.iterdir() if path.name.isdigit())


def last_offsets(checkpoint: Path) -> Any:
    last = max(names(checkpoint / "offsets"), key=int)
    return json.loads((checkpoint / "offsets" / last).read_text().splitlines()[1])


def watermarks(checkpoint: Path) -> list[int]:
    commits = (checkpoint / "commits" / name for name in names(checkpoint / "commits"))
    return [
        json.loads(path.read_text().splitlines()[1])["nextBatchWatermarkMs"] for path in commits
    ]


def test_another_gap_of_sessions_passes_and_those_in_the_state_keep_their_ends(
    spark: SparkSession, tmp_path: Path
) -> None:
    checkpoint, query = tmp_path / "checkpoint", Query(mode="append", gap="30 minutes")
    land(tmp_path / "in/1.json", row("10:01", 1, 100), row("10:20", 2, 200))
    assert run(spark, tmp_path, query, checkpoint) == []
    land(tmp_path / "in/2.json", row("10:30", 3, 300), row("11:30", 4, 400))
    shorter = replace(query, gap="5 minutes")
    # By the new gap these are three.
    assert run(spark, tmp_path, shorter, checkpoint) == [("10:01", "k", "t", 6, 600, 3)]


@pytest.mark.parametrize("gaps", [(None, "5 minutes"), ("5 minutes", None)], ids=["to", "from"])
def test_windows_do_not_become_sessions_nor_sessions_windows(
    spark: SparkSession, tmp_path: Path, gaps: tuple[str | None, str | None]
) -> None:
    checkpoint, query = tmp_path / "checkpoint", Query(mode="append")
    land(tmp_path / "in/1.json", row("10:01", 1, 100), row("10:11", 2, 200))
    run(spark, tmp_path, replace(query, gap=gaps[0]), checkpoint)
    land(tmp_path / "in/2.json", row("10:12", 3, 300))
    with pytest.raises(Exception, match="STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"):
        run(spark, tmp_path, replace(query, gap=gaps[1]), checkpoint)
