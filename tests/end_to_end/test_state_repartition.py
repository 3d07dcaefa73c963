"""State that was brought to other partitions: a pipeline goes on as one that was left alone, and
ended at each commit point, a repetition does the rest."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.checkpoint.damaged import kinds, remove, write
from tests.kit.killed import Killed, killed
from tests.kit.repartitioning import in_rocksdb, repartition_warm, repartitioned
from tests.kit.running import run_warm, sorted_rows, succeed
from tests.operators.contract.kinds import (
    KINDS,
    TABLE,
    KindPlace,
    event,
    landings_of,
    of,
    place_of,
)
from tests.streaming.kept_state import files_of, last_batch
from tests.streaming.test_pipeline_compaction import upkeep
from tidemark.checkpoint.doctor.findings import CheckpointVerdict
from tidemark.checkpoint.doctor.judge import judge_checkpoint
from tidemark.checkpoint.reading.read import read_checkpoint
from tidemark.errors import RepartitionFailed, StateDiffers
from tidemark.pipeline.model import Advanced, Pipeline
from tidemark.runs.contract.check import compare_contracts
from tidemark.runs.pipeline_lease import pipeline_lease
from tidemark.runs.unfinished_act import unfinished_act
from tidemark.storage.file_place import FilePlace
from tidemark.storage.result_file import write_result

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = pytest.mark.long
When = Literal["before", "after"]
NOW = datetime(2100, 1, 1, tzinfo=UTC)
KIND_NAMES = [
    "windows-update",
    *(
        pytest.param(name, marks=LONG)
        for name in ("windows-append", "windows-complete", "sessions-complete", "joins-inner")
    ),
    "sessions-append",
    "joins-left",
    "folds",
]
POINTS = [
    ("pipeline stopped for an act", 1),
    ("state repartitioned", 1),
    ("contract recorded", 1),
    ("upkeep recorded", 1),
    ("pipeline released after an act", 1),
    ("repartition taken back", 1),
]
# The first is killed without an act of its own.
OF_AN_ACT = [point for point, _ in POINTS[:-1]]


@dataclass
class RocksDBPlace(KindPlace):
    """Its file asks for RocksDB, and `advanced` beside it."""

    advanced: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pipeline(self) -> Pipeline:
        asked = {"state": {"store": "rocksdb"}, **self.advanced}
        advanced = Advanced.model_validate(asked)
        return super().pipeline.model_copy(update={"advanced": advanced})


def rocksdb(root: Path, kind: str) -> RocksDBPlace:
    return RocksDBPlace(root, kind=KINDS[kind])


def checkpoint(place: KindPlace) -> Path:
    return Path(place.places.query_checkpoint(TABLE, 1))


def doctor_of(place: KindPlace) -> Any:
    return judge_checkpoint(read_checkpoint(FilePlace(str(checkpoint(place)))), NOW)


def at_last(place: KindPlace) -> list[dict[str, Any]]:
    """A row that closes all before it."""
    far = [event(1000, "z")]
    return [*far, *([of(1000, "z")] if place.kind.joins else [])]


@pytest.fixture(autouse=True)
def store(spark: SparkSession) -> Iterator[None]:
    """RocksDB, and adaptive plans, which a pipeline's file may ask for."""
    from tidemark.streaming.run.aggregate import settings_of

    with in_rocksdb(spark), settings_of(spark, {"spark.sql.adaptive.enabled": "true"}):
        yield


@pytest.mark.parametrize("name", KIND_NAMES)
def test_a_pipeline_with_other_partitions_between_its_runs_is_as_one_left_alone(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    place, twin = (rocksdb(tmp_path / one, name) for one in ("here", "twin"))
    rows = []
    landings = [*landings_of(place.kind, 3, 3), at_last(place)]
    for number, (landing, partitions) in enumerate(zip(landings, (3, 1, 2, None), strict=True)):
        rows += landing
        for one in (place, twin):
            one.land_rows(f"{number}.json", landing)
            succeed(spark, one, f"run-{number}")
        assert place.known() == twin.known()
        assert kinds(doctor_of(place)) == kinds(doctor_of(twin))
        if partitions is not None:
            result = repartitioned(spark, place, partitions, run_id=f"act-{number}")
            assert result.queries[TABLE].after == partitions
            place.advanced = {"shuffle_partitions": partitions}
            assert compare_contracts(place.pipeline, place.settings).differences == ()
    held = ("run", "updated_by", "batch")
    assert sorted_rows(place.gold(TABLE), held) == sorted_rows(twin.gold(TABLE), held)
    assert _closed(place.known()) == _closed(place.model(rows))


def _closed(known: Mapping[tuple[Any, ...], Any]) -> dict[tuple[Any, ...], Any]:
    """Without the last rows, which not all modes show yet."""
    return {identity: values for identity, values in known.items() if "z" not in identity}


@dataclass
class Story:
    """Two runs, kept as they are behind them."""

    spark: SparkSession
    place: RocksDBPlace
    twin: list[tuple[Any, ...]]

    def again(self, **advanced: Any) -> RocksDBPlace:
        from tests.end_to_end.test_erasures import forget

        forget(self.spark)
        return replace(self.place.again(), advanced=advanced)

    def goes_on(self, place: KindPlace) -> None:
        """The next run gives what it gives a pipeline that was left alone."""
        land_third(place)
        succeed(self.spark, place, "run-2")
        assert gold_of(place) == self.twin


def land_third(place: KindPlace) -> None:
    place.land_rows("2.json", [*landings_of(place.kind, 3, 3)[2], *at_last(place)])


def gold_of(place: KindPlace) -> list[tuple[Any, ...]]:
    return sorted_rows(place.gold(TABLE), ("run", "updated_by", "batch"))


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    place = rocksdb(tmp_path_factory.mktemp("made") / "root", "windows-append")
    with in_rocksdb(spark):
        for number, landing in enumerate(landings_of(place.kind, 3, 3)[:2]):
            place.land_rows(f"{number}.json", landing)
            succeed(spark, place, f"run-{number}")
        place.keep()
        land_third(place)
        succeed(spark, place, "run-2")
    return Story(spark, place, gold_of(place))


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("point", OF_AN_ACT)
def test_killed_anywhere_a_repetition_does_the_rest(
    spark: SparkSession, story: Story, point: str, when: When
) -> None:
    place = story.again()
    with killed(when, point):
        result = repartition_warm(spark, place, 3)
    assert result.error is not None
    assert result.error.message.startswith(f"{when} {point}")
    if unfinished_act(place.warehouse) is not None:
        stopped = run_warm(spark, place, "run-x").error
        assert stopped is not None
        assert stopped.type == "RepartitionUnfinished"
        assert "tidemark state repartition clicks --partitions 3" in stopped.message
        other = repartition_warm(spark, place, 4).error
        assert other is not None
        assert (other.type, "to get 3 partitions" in other.message) == ("RepartitionRefused", True)
    if (point, when) != ("pipeline released after an act", "after"):
        repartitioned(spark, place, 3, by="Ada")
    rows = upkeep(place, "repartition")
    assert [(row["checkpoint"], row["verdict"]) for row in rows] == [(TABLE, "2 to 3 partitions")]
    assert rows[0]["reason"] == "more cores"
    story.goes_on(place)


def test_killed_while_the_engine_writes_it_no_query_starts_and_a_repetition_finishes_it(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    with killed("after", "state repartitioned"):
        repartition_warm(spark, place, 3)
    batch = last_batch(checkpoint(place))
    remove(checkpoint(place) / f"commits/{batch}")
    remove(checkpoint(place) / f"state/0/1/{batch + 1}.zip")
    found = doctor_of(place)
    assert found.verdict is CheckpointVerdict.KILLED
    assert "was to bring the state to 3 partitions" in found.findings[-1].known
    repartitioned(spark, place, 3)
    assert doctor_of(place).verdict is CheckpointVerdict.CLEAN_END
    story.goes_on(place)


def _swapped(spark: SparkSession, place: FilePlace, partitions: int) -> None:
    """What the engine writes, with two partitions in each other's place."""
    from tidemark.streaming.engine.repartition import repartition

    repartition(spark, place, partitions)
    version = last_batch(Path(place.uri)) + 1
    one, other = (Path(place.uri) / f"state/0/{number}/{version}.zip" for number in (1, 2))
    data = one.read_bytes(), other.read_bytes()
    write(one, data[1])
    write(other, data[0])
    for here, there in ((one, other), (other, one)):
        shutil.copytree(here.parent / "SSTs", there.parent / "SSTs", dirs_exist_ok=True)


def _lacking(spark: SparkSession, place: FilePlace, partitions: int) -> None:
    """What the engine writes, without a partition."""
    from tidemark.streaming.engine.repartition import repartition

    repartition(spark, place, partitions)
    remove(Path(place.uri) / f"state/0/0/{last_batch(Path(place.uri)) + 1}.zip")


def test_state_that_is_not_the_same_goes_again_and_the_pipeline_goes_on(
    spark: SparkSession, story: Story
) -> None:
    from tidemark.streaming.state.repartition import repartition_state

    place = story.again()
    before = files_of(checkpoint(place))
    with pytest.raises(StateDiffers, match="is not what it was"):
        repartition_state(spark, FilePlace(str(checkpoint(place))), 3, _swapped)
    assert files_of(checkpoint(place)).items() >= before.items()
    with pytest.raises(RepartitionFailed, match="goes on as before"):
        repartition_state(spark, FilePlace(str(checkpoint(place))), 3, _lacking)
    left = files_of(checkpoint(place)).keys() - before.keys()
    assert [name for name in left if "/SSTs/" not in name] == []
    assert doctor_of(place).verdict is CheckpointVerdict.CLEAN_END
    story.goes_on(place)


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_while_it_is_taken_back_a_repetition_does_it(
    spark: SparkSession, story: Story, when: When
) -> None:
    from tidemark.streaming.state.repartition import repartition_state

    place = story.again()
    at = FilePlace(str(checkpoint(place)))
    with killed(when, "repartition taken back"), pytest.raises(Killed):
        repartition_state(spark, at, 3, _lacking)
    if when == "before":
        # By its commit it is done, and part of it is not there.
        with pytest.raises(RepartitionFailed):
            repartition_state(spark, at, 3)
    assert repartition_state(spark, at, 3).after == 3
    story.goes_on(place)


def _refused(spark: SparkSession, place: KindPlace, partitions: int, **asked: Any) -> str:
    before = files_of(checkpoint(place)) if checkpoint(place).exists() else {}
    error = repartition_warm(spark, place, partitions, **asked).error
    assert error is not None
    assert error.type in ("RepartitionRefused", "LeaseHeld"), error
    assert before == (files_of(checkpoint(place)) if before else {})
    assert unfinished_act(place.warehouse) is None
    return error.message


def test_what_cannot_be_done_is_refused_in_words_and_nothing_is_written(
    spark: SparkSession, story: Story, tmp_path: Path
) -> None:
    place = story.again()
    assert "has 2 partitions already" in _refused(spark, place, 2)
    assert "--reason" in _refused(spark, place, 3, reason=" ")
    assert "no table of clicks" in _refused(spark, place, 3, tables=("other",))
    with pipeline_lease(place.pipeline, place.settings, "run-9", "stream"):
        assert "run-9" in _refused(spark, place, 3)
    commit = checkpoint(place) / f"commits/{last_batch(checkpoint(place))}"
    data = commit.read_bytes()
    remove(commit)
    assert "planned and not committed" in _refused(spark, place, 3)
    commit.write_bytes(data)
    land_third(place)
    held = succeed(spark, place, "run-2", hold=True)
    write_result(place.places.result("run-2"), held, {})
    assert "run-2 of clicks is held" in _refused(spark, place, 3)
    recomputed = rocksdb(tmp_path / "other", "windows-append-recomputed")
    recomputed.land_rows("0.json", [event(1)])
    succeed(spark, recomputed, "run-0")
    assert "No table keeps state" in _refused(spark, recomputed, 3)


def test_state_in_memory_is_refused_before_a_batch_is_planned(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.unset("spark.sql.streaming.stateStore.providerClass")
    place = place_of(tmp_path / "memory", KINDS["windows-update"])
    place.land_rows("0.json", [event(1)])
    succeed(spark, place, "run-0")
    told = _refused(spark, place, 3)
    assert "only RocksDB's state" in told
    assert "HDFS-backed" in told
