"""State is compacted by the engine, and everything is as before: restarts, rewinds, damage."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.checkpoint.damaged import remove
from tests.streaming.kept_state import (
    PROVIDERS,
    QUERIES,
    Query,
    check_of,
    files_of,
    last_batch,
    plan_of,
    ran,
    rewind,
)
from tests.upkeep.stores import names
from tidemark.checkpoint.state.check import StateVerdict
from tidemark.errors import (
    CompactionRefused,
    EngineChanged,
    LeaseLost,
    SnapshotFailed,
    StateDiffers,
)
from tidemark.storage.file_place import FilePlace
from tidemark.streaming.engine.known import CALLED, Called, check_engine
from tidemark.streaming.engine.snapshots import write_snapshots
from tidemark.streaming.state.compact import compact_state
from tidemark.streaming.state.stored import StateOf, digest, stored_rows

# The slice of the matrix that every test run takes.
FAST = {("HDFS-backed", "aggregation"), ("changelog", "deduplication")}
MATRIX = [
    pytest.param(provider, query, marks=[] if (provider, query) in FAST else [pytest.mark.long])
    for provider in PROVIDERS
    for query in QUERIES
]


def test_the_engine_has_all_that_is_called(spark: SparkSession) -> None:
    """Fails first where a new Spark moved something: mend `engine/known.py` and its callers."""
    check_engine(spark)


@pytest.mark.parametrize(
    "moved",
    [
        Called("org.apache.spark.sql.execution.streaming.state.Gone", "apply"),
        Called(CALLED[0].owner, "renamed", CALLED[0].parameters),
        Called(CALLED[0].owner, CALLED[0].name, (*CALLED[0].parameters, "boolean")),
    ],
    ids=["class", "method", "signature"],
)
def test_what_the_engine_has_moved_is_named(spark: SparkSession, moved: Called) -> None:
    with pytest.raises(EngineChanged) as raised:
        check_engine(spark, (*CALLED, moved))
    assert moved.summary in str(raised.value)
    assert "Nothing was changed" in str(raised.value)
    assert "unloadOnCommit" in str(raised.value)


@pytest.mark.parametrize(("provider", "query"), MATRIX)
def test_a_compacted_query_goes_on_as_one_that_was_left_alone(
    spark: SparkSession, tmp_path: Path, provider: str, query: str
) -> None:
    made = ran(spark, tmp_path, *QUERIES[query], PROVIDERS[provider])
    compacted, control = made.copy(tmp_path / "compacted"), made.copy(tmp_path / "control")
    plan = plan_of(compacted)
    assert len(plan.stores) == 2

    figures = compact_state(spark, plan, FilePlace(plan.uri))
    assert (figures.before.longest, figures.after.longest) == (8, 0)
    assert (figures.before.changes, figures.after.changes) == (16, 0)
    assert figures.rows == stored_rows(spark, str(control), plan.batch, StateOf()).count()
    ending = "snapshot" if provider == "HDFS-backed" else "zip"
    new = {name for name in names(compacted) - names(control) if not name.endswith(".crc")}
    shared = {name for name in new if "/SSTs/" in name}
    assert new - shared == {f"state/0/{number}/8.{ending}" for number in (0, 1)}
    assert names(control) <= names(compacted), "nothing is removed"
    assert check_of(compacted).replayed.files == 0
    assert check_of(compacted).verdict is StateVerdict.HEALTHY

    last = last_batch(control)
    for batch in (last - 3, last):
        read = [
            digest(stored_rows(spark, str(one), batch, StateOf())) for one in (compacted, control)
        ]
        assert read[0] == read[1], batch
    rewound = [
        rewind(one, tmp_path / f"{one.name} rewound", last - 3) for one in (compacted, control)
    ]
    went_on, wanted = made.go_on(compacted), made.go_on(control)
    assert went_on == wanted
    assert wanted
    again, untouched = (made.go_on(one) for one in rewound)
    assert again == untouched
    # A deduplication within the watermark may have nothing to emit there.
    assert {row[0] for row in untouched} >= ({last - 2} if untouched else set())


@pytest.fixture(
    scope="module", params=["HDFS-backed", pytest.param("changelog", marks=pytest.mark.long)]
)
def query(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Query:
    folder = tmp_path_factory.mktemp("query")
    return ran(spark, folder, conf=PROVIDERS[request.param], runs=3)


def test_a_compaction_that_is_repeated_finds_nothing_to_do(
    spark: SparkSession, query: Query, tmp_path: Path
) -> None:
    checkpoint = query.copy(tmp_path / "copy")
    compact_state(spark, plan_of(checkpoint), FilePlace(str(checkpoint)))
    assert plan_of(checkpoint).stores == ()
    assert plan_of(checkpoint).refused is None


class Dies(Exception):
    """The process died here."""


def test_dying_after_one_of_two_snapshots_a_start_and_a_repetition_go_on_as_usual(
    spark: SparkSession, query: Query, tmp_path: Path
) -> None:
    killed, control = query.copy(tmp_path / "killed"), query.copy(tmp_path / "control")
    plan = plan_of(killed)
    # Only the first: as far as a process came that was killed.
    write_snapshots(spark, FilePlace(str(killed)), plan.conf, plan.version, plan.stores[:1])
    # And what an engine leaves that is killed while it writes.
    for name in (".6.snapshot.8c7c5bd5-8ac1-4d39-8f3e-6d56fe9e6d0f.TID0.tmp", "SSTs/000009-x.sst"):
        leftover = killed / "state/0/1" / name
        leftover.parent.mkdir(exist_ok=True)
        leftover.write_bytes(b"cut")
    repeated = Path(shutil.copytree(killed, tmp_path / "repeated"))
    again = plan_of(repeated)
    assert again.stores == plan.stores[1:]
    assert compact_state(spark, again, FilePlace(again.uri)).after.changes == 0
    wanted = query.go_on(control)
    assert query.go_on(killed) == wanted
    assert query.go_on(repeated) == wanted


def test_state_that_differs_afterwards_leaves_the_checkpoint_as_it_was(
    spark: SparkSession, query: Query, tmp_path: Path
) -> None:
    checkpoint = query.copy(tmp_path / "copy")
    before = files_of(checkpoint)

    def write(session: SparkSession, *values: Any) -> None:
        """The engine's snapshots, of which one is then that of another partition."""
        write_snapshots(session, *values)
        one, other = (next(checkpoint.glob(f"state/0/{n}/6.[sz]*")) for n in (0, 1))
        for file in (other, *other.parent.glob("SSTs/*.sst")):
            to = one.parent / file.relative_to(other.parent)
            shutil.copy(file, to)
            to.with_name(f".{to.name}.crc").unlink(missing_ok=True)

    with pytest.raises(StateDiffers, match="state/0/0"):
        compact_state(spark, plan_of(checkpoint), FilePlace(str(checkpoint)), write=write)
    assert files_of(checkpoint) == before


def test_a_snapshot_that_the_engine_did_not_write_is_told_and_the_others_go_again(
    spark: SparkSession, query: Query, tmp_path: Path
) -> None:
    checkpoint = query.copy(tmp_path / "copy")
    before = files_of(checkpoint)

    def write(session: SparkSession, *values: Any) -> None:
        *what, stores = values
        write_snapshots(session, *what, stores[:1])

    with pytest.raises(SnapshotFailed, match="state/0/1"):
        compact_state(spark, plan_of(checkpoint), FilePlace(str(checkpoint)), write=write)
    assert files_of(checkpoint) == before


def test_a_delta_that_goes_in_between_is_an_error_of_the_engine_and_nothing_is_left(
    spark: SparkSession, query: Query, tmp_path: Path
) -> None:
    checkpoint = query.copy(tmp_path / "copy")
    plan = plan_of(checkpoint)

    def write(session: SparkSession, *values: Any) -> None:
        (gone,) = [p for p in checkpoint.glob("state/0/1/2.*") if not p.name.startswith(".")]
        remove(gone)
        write_snapshots(session, *values)

    with pytest.raises(SnapshotFailed, match="state/0/1, version 6"):
        compact_state(spark, plan, FilePlace(plan.uri), write=write)
    assert not [name for name in names(checkpoint) if name.endswith((".snapshot", ".zip", ".sst"))]


def test_a_compaction_whose_lease_is_lost_writes_no_snapshot(
    spark: SparkSession, query: Query, tmp_path: Path
) -> None:
    checkpoint = query.copy(tmp_path / "copy")
    before = files_of(checkpoint)

    def lost() -> None:
        raise LeaseLost("gone")

    with pytest.raises(LeaseLost):
        compact_state(spark, plan_of(checkpoint), FilePlace(str(checkpoint), fence=lost))
    assert files_of(checkpoint) == before


def test_another_provider_or_store_is_refused_at_the_door(spark: SparkSession) -> None:
    with pytest.raises(CompactionRefused, match=r"a\.b\.Mine"):
        write_snapshots(
            spark,
            FilePlace("/nowhere"),
            {"spark.sql.streaming.stateStore.providerClass": "a.b.Mine"},
            1,
            (),
        )
