"""What a compaction is worth: the same run on a long chain of deltas, and on its compacted copy.

    python -m bench.compacting FOLDER --chain N --repetitions N    # in an empty folder

The chain is made by runs with the engine's own settings for state, each of which leaves one delta a
partition and no snapshot. Then each turn takes a copy of that checkpoint as it is and a copy of the
compacted one, and runs the query on both with the same new file.
"""

from __future__ import annotations

import shutil
import time
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from bench.contenders import NAME, pipeline_content
from bench.state_runs import LOADED, MEMORY, ROCKSDB, ROWS, Query, Variant, land, stop_stores
from bench.warm import warm_session, write_measured
from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.reading.read import read_checkpoint
from tidemark.checkpoint.state.check import check_state
from tidemark.checkpoint.state.inventory import inventory
from tidemark.checkpoint.state.plan_compaction import CompactionPlan, plan_compaction
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import StateLimits
from tidemark.storage.file_place import FilePlace
from tidemark.streaming.state.compact import compact_state

KEYS = 20_000
_FOUR = {"spark.sql.shuffle.partitions": "4"}
STORES: Mapping[str, Mapping[str, str]] = {
    "memory": MEMORY | LOADED | _FOUR,
    "rocksdb": ROCKSDB | LOADED | _FOUR,
}


@dataclass
class Measured:
    """One store: the chain and its files, the seconds of its compaction, and those of the query
    beside it, on the chain and compacted."""

    store: str
    chain: int = 0
    compaction: float = 0
    long: list[float] = field(default_factory=list)
    compacted: list[float] = field(default_factory=list)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and write the numbers as JSON."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--chain", type=int, required=True)
    parser.add_argument("--repetitions", type=int, required=True)
    given = parser.parse_args(argv)
    pipeline = pipeline_from_mapping(NAME, pipeline_content(given.folder))
    with warm_session(pipeline) as spark:
        measured = [
            measure(spark, store, given.chain, given.repetitions, given.folder / store)
            for store in STORES
        ]
    write_measured(given.folder, measured)


def measure(
    spark: SparkSession, store: str, chain: int, repetitions: int, folder: Path
) -> Measured:
    """Make the chain, compact a copy of it, and run both in turn; the first turn is not counted."""
    source, made = folder / "source", folder / "made"
    query = Query(spark, Variant("long", STORES[store]), source, made)
    land(source, 0, KEYS, KEYS)
    query.run()
    for number in range(1, chain):
        land(source, number, ROWS, KEYS)
        query.run()
    shutil.copytree(made / "long", made / "compacted")
    plan = _plan(made / "compacted")
    found = Measured(store, plan.state.longest)
    begin = time.monotonic()
    compact_state(spark, plan, FilePlace(plan.uri))
    found.compaction = round(time.monotonic() - begin, 3)
    stop_stores(spark)
    land(source, chain, ROWS, KEYS)
    for turn in range(repetitions + 1):
        emitted = []
        for name, seconds in (("long", found.long), ("compacted", found.compacted)):
            place = folder / str(turn)
            shutil.copytree(made / name, place / name)
            again = Query(spark, Variant(name, STORES[store]), source, place)
            took = again.run()
            emitted.append(again.emitted)
            if turn:
                seconds.append(round(took, 3))
        if emitted[0] != emitted[1] or not emitted[0]:
            raise SystemExit(f"A compacted {store} emitted something else than one left alone.")
    return found


def _plan(checkpoint: Path) -> CompactionPlan:
    facts = read_checkpoint(FilePlace(str(checkpoint)))
    check = check_state(inventory(facts), StateLimits())
    return plan_compaction(facts, judge_checkpoint(facts, datetime.now(UTC)), check, every=True)


if __name__ == "__main__":
    main()
