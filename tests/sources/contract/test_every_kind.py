"""What every kind of source has to keep, whole runs included. A new kind adds a world."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from tests.kit.running import SCHEDULED, run_warm, succeed
from tests.sources.contract.worlds import WORLDS, Files, Log, Row, Topics, Where, World
from tidemark import commit_point
from tidemark.checkpoint.log import Checkpoint
from tidemark.cli.trial.first_rows import settings_of_trial, take_first_rows, write_pipeline
from tidemark.errors import SourceNotFound
from tidemark.pipeline.instants import epoch_ms
from tidemark.pipeline.load import load_pipeline, pipeline_from_mapping
from tidemark.runs.contract.check import contract_differences
from tidemark.runs.contract.contract import contract_of, read_contract, write_contract
from tidemark.runs.preflight import NothingNew, SparkNeeded, run_preflight
from tidemark.runs.run import Run
from tidemark.sources.kafka import slices
from tidemark.sources.new_input import new_input_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BAD = "not JSON"
ONCE = {"unique": {"by": "key", "within": "1 hour"}}
POINTS = [
    ("accepted rows", "before"),
    ("accepted rows", "after"),
    ("rejected rows", "after"),
]
# One of them at every run, the others with the long tests.
EACH_POINT = [
    pytest.param(one, marks=() if one == POINTS[1] else pytest.mark.long, id=" ".join(one))
    for one in POINTS
]


def kinds(*short: str) -> list[Any]:
    """All kinds, those that are not named with the long tests."""
    return [pytest.param(name, marks=() if name in short else pytest.mark.long) for name in WORLDS]


# Files are tested in more ways elsewhere: here they run with the long tests.
@pytest.fixture(params=kinds("log", "kafka", "delta"))
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "log":
        from tests.sources.contract import numbered_log_stream  # noqa: F401
    if request.param == "kafka":
        Topics.broker = request.getfixturevalue("broker")
    return str(request.param)


@pytest.fixture
def world(kind: str, tmp_path: Path) -> World:
    return WORLDS[kind](tmp_path)


def row(key: str, minute: int = 0) -> dict[str, Any]:
    return {"at": f"2026-07-01T10:{minute:02}:00Z", "key": key, "amount": 1}


def run_of(world: World) -> Run:
    return Run(world.place.pipeline, world.place.settings, "look", epoch_ms(SCHEDULED))


def ingest_of(world: World) -> Checkpoint:
    return Checkpoint(world.place.places.ingest_checkpoint, {})


def accepted(world: World) -> list[tuple[Where, str]]:
    rows = world.place.bronze().to_pylist()
    return sorted((world.where(one), one["key"]) for one in rows)


def rejected(world: World) -> list[tuple[Where, str, str | None]]:
    rows = world.place.rejects().to_pylist()
    return sorted(((world.where(r), r["reason"], r["raw"]) for r in rows), key=repr)


def versions(world: World) -> list[int]:
    places = world.place.places
    return [DeltaTable(uri).version() for uri in (places.bronze, places.rejects)]


class Killed(RuntimeError):
    """Stands for the end of the process."""


def fail_at(spark: SparkSession, world: World, point: tuple[str, str]) -> None:
    """A run that ends at a commit point, as the engine sees the end of a process: its batch is
    planned and not committed."""

    def reached(name: str, when: str, _: tuple[object, ...]) -> None:
        if (name, when) == point:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit_point, "on_reach", reached)
        error = run_warm(spark, world.place, "failed").error
    assert error is not None
    assert "Killed" in error.message


def land_all(world: World) -> list[tuple[Where, Row]]:
    """Good rows, a bad one and one that repeats another, in two parts."""
    parts: dict[str, list[Row]] = {
        "0": [row("a"), BAD, row("b", 1)],
        "1": [row("c"), row("a", 2), row("d", 3)],
    }
    landed = [zip(world.land(part, rows), rows, strict=True) for part, rows in parts.items()]
    return [one for part in landed for one in part]


@pytest.mark.long
def test_every_row_is_in_one_of_bronze_and_rejects_with_where_it_comes_from(
    spark: SparkSession, world: World
) -> None:
    landed = land_all(world)
    succeed(spark, world.place, "one")
    more: list[Row] = [row("e", 4), "[]"]
    landed += zip(world.land("0", more), more, strict=True)
    succeed(spark, world.place, "two")
    good = [(where, one["key"]) for where, one in landed if not isinstance(one, str)]
    assert accepted(world) == sorted(good)
    bad = [(where, "malformed", world.raw(one)) for where, one in landed if isinstance(one, str)]
    assert rejected(world) == sorted(bad, key=repr)
    gold = world.place.gold().to_pylist()
    assert sorted((one["key"], one["events"]) for one in gold) == [
        *[("a", 2), ("b", 1), ("c", 1), ("d", 1), ("e", 1)]
    ]


def test_a_column_is_read_from_a_field_of_another_name(
    spark: SparkSession, kind: str, tmp_path: Path
) -> None:
    columns = {
        "seen": {"type": "timestamp", "field": "at"},
        "key": {"type": "string", "nulls": ["c"]},
        "amount": "long",
    }
    world = WORLDS[kind](tmp_path, columns=columns, event_time={"column": "seen"})
    rows: list[Row] = [row("a"), row("b", 1), row("c", 2)]
    world.land("0", rows)
    assert succeed(spark, world.place, "one").rows.accepted == 3
    bronze = world.place.bronze().to_pylist()
    found = [(one["seen"].minute, one["key"]) for one in bronze]
    assert sorted(found) == [(0, "a"), (1, "b"), (2, None)]
    assert [one["_extra"] for one in bronze if one["_extra"] and "at" in one["_extra"]] == []
    assert {one["key"] for one in world.place.gold().to_pylist()} == {"a", "b", None}


@pytest.mark.long
@pytest.mark.parametrize("few", [None, 0])
def test_what_is_read_is_accepted_or_rejected_whether_the_driver_or_tasks_write_it(
    spark: SparkSession, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: int | None
) -> None:
    from tidemark.streaming.ingest import judged_lines, spark_rows

    if few is not None:
        monkeypatch.setattr(judged_lines, "FEW_BYTES", -1)
        monkeypatch.setattr(spark_rows, "FEW_ROWS", few)
    for source in ({}, ONCE):
        world = WORLDS[kind](tmp_path / f"unique {len(source)}", **source)
        landed = land_all(world)
        rows = succeed(spark, world.place).rows
        assert rows.read == rows.accepted + sum(rows.rejected.values()) == len(landed)
        repeats = {"duplicate": 1} if source else {}
        assert rows.rejected == {**repeats, "malformed": 1}
        assert len(accepted(world)) == rows.accepted
        assert len(rejected(world)) == sum(rows.rejected.values())
        where = {where for where, _ in landed}
        assert {world.where(one) for one in world.place.bronze().to_pylist()} <= where


@pytest.mark.parametrize("few", [None, pytest.param(0, marks=pytest.mark.long)])
def test_a_row_that_is_too_large_is_a_reject_with_its_first_bytes_and_the_others_are_taken(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch, few: int | None
) -> None:
    from tidemark.streaming.ingest import judged_lines

    if few is not None:
        monkeypatch.setattr(judged_lines, "FEW_BYTES", -1)
    world.place.max_line_bytes = 5_000
    rows: list[Row] = [row("a"), row("x" * 5_000), row("b")]
    landed = world.land("0", rows)
    succeed(spark, world.place)
    assert accepted(world) == sorted([(landed[0], "a"), (landed[2], "b")])
    [reject] = world.place.rejects().to_pylist()
    assert (world.where(reject), reject["reason"]) == (landed[1], "too large")
    line = world.raw(rows[1])
    assert reject["raw"] == line[:4096]
    assert f" has {len(line):,} bytes, at most 5,000 are taken;" in reject["detail"]
    assert sha256(line.encode()).hexdigest() in reject["detail"]


@pytest.mark.long
def test_what_is_unread_is_what_the_next_run_reads(spark: SparkSession, world: World) -> None:
    source, ingest = world.place.pipeline, ingest_of(world)
    world.land("0", [row("a")])
    assert new_input_bytes(source, world.place.settings) > 0
    assert isinstance(run_preflight(run_of(world)), SparkNeeded)
    succeed(spark, world.place, "one")
    assert run_of(world).source.unread(ingest) is None
    assert isinstance(run_preflight(run_of(world)), NothingNew)
    before = versions(world)
    assert succeed(spark, world.place, "nothing new").rows.read == 0
    assert versions(world) == before
    world.land("1", [row("b"), row("c")])
    assert run_of(world).source.unread(ingest)
    needed = run_preflight(run_of(world))
    assert isinstance(needed, SparkNeeded)
    assert needed.because == run_of(world).source.unread(ingest)
    assert succeed(spark, world.place, "two").rows.read == 2
    assert isinstance(run_preflight(run_of(world)), NothingNew)


@pytest.mark.parametrize("kind", kinds("kafka"), indirect=True)
@pytest.mark.parametrize("point", EACH_POINT)
def test_a_repeated_batch_gives_what_an_undisturbed_run_gives_and_writes_nothing_twice(
    spark: SparkSession, kind: str, tmp_path: Path, point: tuple[str, str]
) -> None:
    """And every row, of the next batch too, is in one of both tables with where it comes from."""
    world = WORLDS[kind](tmp_path, **ONCE)
    landed = land_all(world)
    fail_at(spark, world, point)
    failed = versions(world)
    again = succeed(spark, world.place, "again")
    # What an undisturbed run gives: the first of each key by where it is, and the rest rejected.
    rows = [(where, one) for where, one in landed if not isinstance(one, str)]
    repeat = next((where, one) for where, one in rows if one == row("a", 2))
    good = [(where, one["key"]) for where, one in rows if (where, one) != repeat]
    assert [key for _, key in good] == ["a", "b", "c", "d"]
    assert accepted(world) == sorted(good)
    bad = [(where, "malformed", world.raw(BAD)) for where, one in landed if one == BAD]
    bad.append((repeat[0], "duplicate", world.raw(repeat[1])))
    assert rejected(world) == sorted(bad, key=repr)
    assert (again.rows.read, again.rows.accepted) == (len(landed), 4)
    assert again.batches["ingest"] == [0]
    done = POINTS.index(point)
    written = [now - before for now, before in zip(versions(world), failed, strict=True)]
    # Beside what the next lease does to the tables.
    fences = min(written)
    assert [n - fences for n in written] == {0: [0, 0], 1: [0, 1], 2: [0, 0]}[done]
    assert isinstance(run_preflight(run_of(world)), NothingNew)
    more: list[Row] = [row("e", 4), "[]"]
    where = world.land("0", more)
    succeed(spark, world.place, "more")
    assert accepted(world) == sorted([*good, (where[0], "e")])
    assert rejected(world) == sorted([*bad, (where[1], "malformed", world.raw("[]"))], key=repr)
    gold = world.place.gold().to_pylist()
    assert sorted((one["key"], one["events"]) for one in gold) == [(key, 1) for key in "abcde"]


# Files and topics that lose rows between two tries have tests of their own.
@pytest.mark.parametrize("kind", kinds("delta"), indirect=True)
@pytest.mark.parametrize("point", EACH_POINT)
def test_a_part_that_vanished_before_its_batch_was_repeated_is_a_verdict(
    spark: SparkSession, world: World, point: tuple[str, str]
) -> None:
    stays = world.land("0", [row("stays"), BAD])
    gone = world.land("1", [row("gone"), f"{BAD} either"])
    fail_at(spark, world, point)
    world.lose("1")
    world.settle()
    rows = succeed(spark, world.place, "again").rows
    assert rows.read == rows.accepted + sum(rows.rejected.values())
    kept = [(stays[0], "stays")]
    bad = [(stays[1], "malformed", world.raw(BAD))]
    match point:
        case ("accepted rows", "before"):
            bad += [(world.whole(gone[0]), world.lost, None)]  # type: ignore[list-item]
        case ("accepted rows", "after"):
            kept += [(gone[0], "gone")]
            bad += [(world.whole(gone[0]), world.lost_since, None)]  # type: ignore[list-item]
        case _:
            kept += [(gone[0], "gone")]
            bad += [(gone[1], "malformed", world.raw(f"{BAD} either"))]
    assert accepted(world) == sorted(kept)
    assert rejected(world) == sorted(bad, key=repr)
    assert isinstance(run_preflight(run_of(world)), NothingNew)


@pytest.mark.long
def test_a_part_that_vanishes_while_it_is_read_is_a_verdict(
    spark: SparkSession, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidemark.streaming.ingest import judged_batch

    world.land("0", [row("stays")])
    (gone,) = world.land("1", [row("gone")])
    original = judged_batch.judge_lines
    losses: list[Callable[[], None]] = [lambda: world.lose("1")]

    def judged(*arguments: Any) -> Any:
        while losses:
            losses.pop()()
        return original(*arguments)

    monkeypatch.setattr(judged_batch, "judge_lines", judged)
    if world.stops_at_losses:
        error = run_warm(spark, world.place).error
        assert error is not None
        assert error.type == "InputLost"
        assert world.place.bronze().num_rows == 0
        world.settle()
    rows = succeed(spark, world.place).rows
    assert (rows.accepted, rows.rejected) == (1, {world.lost: 1})
    assert rejected(world) == [(world.whole(gone), world.lost, None)]
    assert [key for _, key in accepted(world)] == ["stays"]


@pytest.mark.long
def test_a_batch_of_which_all_has_vanished_is_verdicts_alone(
    spark: SparkSession, world: World
) -> None:
    world.land("0", [row("gone")])
    fail_at(spark, world, POINTS[0])
    world.lose("0")
    world.settle()
    rows = succeed(spark, world.place, "again").rows
    assert (rows.read, rows.accepted, rows.rejected) == (1, 0, {world.lost: 1})


@pytest.mark.parametrize("kind", kinds("log"), indirect=True)
@pytest.mark.parametrize("turned", [pytest.param(False, marks=pytest.mark.long), True])
def test_of_equal_rows_the_first_by_origin_counts_however_they_are_read(
    spark: SparkSession, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turned: bool
) -> None:
    world = WORLDS[kind](tmp_path, **ONCE)
    landed = [where for part in ("2", "0", "1") for where in world.land(part, [row("x")] * 2)]
    placed = type(run_of(world).source)
    original = placed.slices

    def ordered(*arguments: Any) -> Any:
        return sorted(original(*arguments), key=str, reverse=turned)

    monkeypatch.setattr(placed, "slices", ordered)
    # One for each part, of topics too.
    monkeypatch.setattr(slices, "TOGETHER", 0)
    succeed(spark, world.place)
    first = min(landed)
    assert accepted(world) == [(first, "x")]
    repeats = world.place.rejects().to_pylist()
    assert [one["reason"] for one in repeats] == ["duplicate"] * 5
    assert {world.repeated(one) for one in repeats} == {first}
    others = sorted(landed)[1:]
    assert sorted(world.where(one) for one in repeats) == others
    assert all(str(first[-1]) in one["detail"] for one in repeats)


@pytest.mark.long
def test_rows_of_another_run_are_repeated_too(
    spark: SparkSession, kind: str, tmp_path: Path
) -> None:
    world = WORLDS[kind](tmp_path, **ONCE)
    (first,) = world.land("1", [row("x")])
    succeed(spark, world.place, "one")
    world.land("0", [row("x")])
    succeed(spark, world.place, "two")
    (repeat,) = world.place.rejects().to_pylist()
    assert world.repeated(repeat) == first


@pytest.mark.long
def test_a_row_of_a_vanished_part_that_bronze_has_is_still_repeated(
    spark: SparkSession, kind: str, tmp_path: Path
) -> None:
    """The rows of a batch are no duplicates of themselves, but for those that are not read now."""
    world = WORLDS[kind](tmp_path, **ONCE)
    (first,) = world.land("0", [row("x")])
    (second,) = world.land("1", [row("x", 1)])
    fail_at(spark, world, POINTS[1])
    world.lose("0")
    world.settle()
    succeed(spark, world.place, "again")
    assert accepted(world) == [(first, "x")]
    assert rejected(world) == sorted(
        [
            (world.whole(first), world.lost_since, None),
            (second, "duplicate", world.raw(row("x", 1))),
        ],
        key=repr,
    )


def test_a_source_that_is_not_there_is_an_error_before_anything_is_written(
    spark: SparkSession, world: World
) -> None:
    world.land("0", [row("a")])
    world.lose("0")
    world.remove()
    with pytest.raises(SourceNotFound):
        run_of(world).source.check(ingest_of(world))
    error = run_warm(spark, world.place).error
    assert error is not None
    assert error.type == "SourceNotFound"
    assert not Path(world.place.places.bronze).exists()


def test_another_place_is_a_difference_with_a_verdict(world: World) -> None:
    pipeline, settings = world.place.pipeline, world.place.settings
    recorded = contract_of(pipeline, "ingest", settings)
    assert not contract_differences(recorded, recorded)
    content = dict(world.place.content)
    content["source"] = {**content["source"], **world.elsewhere}
    moved = contract_of(pipeline_from_mapping("clicks", content), "ingest", settings)
    (change,) = contract_differences(recorded, moved)
    assert change.verdict.refused
    assert (change.before, change.after) == (pipeline.source.label, moved.pipeline.source.label)


def test_another_kind_is_a_difference_that_is_refused(world: World, tmp_path: Path) -> None:
    settings = world.place.settings
    recorded = contract_of(world.place.pipeline, "ingest", settings)
    for other in WORLDS.values():
        # Files of another format are of the same kind.
        same = issubclass(other, Files) if isinstance(world, Files) else other is type(world)
        if not same:
            asked = contract_of(other(tmp_path).place.pipeline, "ingest", settings)
            (change,) = contract_differences(recorded, asked)
            assert change.verdict.refused


def test_a_recorded_contract_is_read_as_it_was_written(world: World, tmp_path: Path) -> None:
    contract = contract_of(world.place.pipeline, "ingest", world.place.settings)
    place = str(tmp_path / "contract.json")
    write_contract(place, contract, {})
    read = read_contract(place, {})
    assert read is not None
    assert read.model_copy(update={"tidemark": None}) == contract


def test_the_first_rows_are_a_source_below_another_root(world: World, tmp_path: Path) -> None:
    world.land("0", [row("a"), row("b")])
    world.land("1", [row("c"), row("d")])
    place, root = world.place, tmp_path / "tried"
    taken = take_first_rows(place.pipeline, place.settings, 3, root)
    assert (taken.rows, taken.parts) == (3, 2)
    tried = load_pipeline(
        write_pipeline(place.pipeline, taken.source, root / "pipelines", place.settings)
    )
    below = settings_of_trial(place.settings, root)
    assert new_input_bytes(tried, below) > 0
    assert tried.source.columns == place.pipeline.source.columns


def test_a_log_that_was_made_anew_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    from tests.sources.contract import numbered_log_stream  # noqa: F401

    world = Log(tmp_path)
    world.land("0", [row("a"), row("b")])
    succeed(spark, world.place, "one")
    before = versions(world)
    world.lose("0")
    world.remove()
    world.land("0", [row("c")])
    error = run_warm(spark, world.place, "two").error
    assert error is not None
    assert "it is another one" in error.message
    assert versions(world) == before
