"""A pipeline file that changed between runs: what fits is taken on, the rest is refused."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from tests.kit.killed import killed
from tests.kit.running import Place, clicks, run_warm, succeed
from tidemark.cli.main import app
from tidemark.pipeline.places import INGEST
from tidemark.runs.contract.check import admit
from tidemark.runs.contract.contract import read_contract
from tidemark.upkeep.accept_changes import accept_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = ["key", "tag"]
MEASURES = {"amount": "sum(amount)", "size": "sum(size)"}


def content(keys: list[str] = KEYS, measures: Mapping[str, str] = MEASURES) -> dict[str, Any]:
    """Two keys of one type, and two measures of one type."""
    columns = {"at": "timestamp", "seen": "timestamp", "key": "string", "tag": "string"}
    source = {
        "files": "landing/*.json",
        "columns": columns | {"amount": "long", "size": "long"},
        "event_time": {"column": "at"},
        "derive": {"large": "size > 10"},
    }
    window = {"length": "10 minutes"}
    table = {"window": window, "group_by": list(keys), "measures": dict(measures)}
    return clicks(source=source, keep="1000 days", tables={"per_10m": table})


def changed(*path: str, to: Any) -> dict[str, Any]:
    """The content with one value replaced, or added."""
    of = copy.deepcopy(content())
    inner = of
    for name in path[:-1]:
        inner = inner.setdefault(name, {})
    inner[path[-1]] = to
    return of


def row(amount: int | None, size: int = 0, **more: Any) -> dict[str, Any]:
    time = "2026-03-01T10:00:00Z"
    return {"at": time, "seen": time, "key": "k", "tag": "t", "amount": amount, "size": size} | more


def files_of(place: Place) -> dict[str, tuple[int, int]]:
    """All files of the pipeline's tables and checkpoints, with size and time."""
    folder = Path(place.places.folder)
    apart = [folder / name for name in ("lease", "results", "ops", "status.json")]
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and not any(path.is_relative_to(one) for one in apart)
    }


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A pipeline after its first run, and a file that it has not read."""
    place = Place(tmp_path_factory.mktemp("ran"), content())
    place.land("1.json", [row(1, 100)])
    succeed(spark, place, "first")
    place.land("2.json", [row(2, 200)])
    place.keep()
    return place


TABLE = ("tables", "per_10m")
REFUSED = {
    "swapped measures": (
        content(measures=dict(reversed(MEASURES.items()))),
        "per_10m: measures: amount, size → size, amount: needs a new generation",
    ),
    "swapped keys": (content(keys=["tag", "key"]), "group_by: key, tag → tag, key: needs a new"),
    "another measure": (
        content(measures=MEASURES | {"size": "max(size)"}),
        "measures.size: sum(size) → max(size): needs a new generation",
    ),
    "one measure more": (content(measures=MEASURES | {"n": "count(*)"}), "→ amount, size, n: "),
    "one measure less": (content(measures={"size": "sum(size)"}), "measures: amount, size → size"),
    "one key less": (content(keys=["key"]), "per_10m: group_by: key, tag → key"),
    "a longer window": (changed(*TABLE, "window", "length", to="20 minutes"), "window.length: 10"),
    "sliding windows": (changed(*TABLE, "window", "slide", to="5 minutes"), "window.slide: 10 min"),
    "append mode": (changed(*TABLE, "output_mode", to="append"), "update → append: needs a new"),
    "another folder": (changed("source", "files", to="other/*.json"), "source.files: landing/*"),
    "another event time": (
        changed("source", "event_time", "column", to="seen"),
        "source.event_time.column: at → seen: not allowed",
    ),
    "another type": (
        changed("source", "columns", "amount", to="int"),
        "source.columns.amount: long → int: not allowed",
    ),
    "a longer keep": (changed("keep", to="2000 days"), "keep: 1000 days → 2000 days: not allowed"),
}


@pytest.mark.parametrize(("asked", "told"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_leaves_everything_as_it_was(
    spark: SparkSession, ran: Place, asked: dict[str, Any], told: str
) -> None:
    before = files_of(ran)
    error = run_warm(spark, Place(ran.root, asked), "second").error
    assert error is not None
    assert error.type == "PipelineChanged"
    assert not error.retry_can_help
    assert told in error.message
    assert "Nothing was written" in error.message
    assert files_of(ran) == before


def test_a_new_generation_is_told_with_the_rows_that_it_would_read(ran: Place) -> None:
    error = _refusal(ran, REFUSED["swapped measures"][0])
    assert "A new generation of per_10m would read 1 rows of bronze again" in error
    assert "`tidemark migrate clicks --dry-run` says" in error


def test_validate_tells_the_verdict_before_a_run_does(ran: Place, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text(f"root: {ran.root}\npipelines: {tmp_path}\n")

    def validate(of: dict[str, Any]) -> tuple[int, str]:
        file = Place(tmp_path, of).write_file()
        ended = CliRunner().invoke(app, ["validate", str(file), "--settings", str(settings)])
        return ended.exit_code, ended.output

    assert validate(content()) == (0, "clicks: good (tables: per_10m)\n")
    code, told = validate(changed("source", "unknown_fields", to="reject"))
    assert code == 0
    assert "ingest: source.unknown_fields: keep → reject: safe" in told
    code, told = validate(changed("source", "derive", "large", to="size > 20"))
    assert code == 1
    assert "size > 10 → size > 20: needs to be accepted. Bronze keeps what was" in told
    assert told.endswith('let the next run take it: `tidemark accept clicks --reason "…"`.\n')
    code, told = validate(REFUSED["swapped measures"][0])
    assert code == 1
    assert "`tidemark migrate clicks --dry-run` says what becomes of the windows" in told


def test_before_contracts_were_recorded_the_table_tells_its_own(ran: Place, tmp_path: Path) -> None:
    """Gold knows keys, measures with their expressions, and windows; the run that finds it fits
    records the whole."""
    old = ran.copied(tmp_path / "old")
    for file in Path(old.places.checkpoints).rglob("*.contract.json"):
        file.unlink()
    for name in ("swapped measures", "swapped keys", "another measure", "a longer window"):
        asked, told = REFUSED[name]
        assert told in _refusal(old, asked)
    assert len(admit(old.pipeline, old.settings).to_record) == 2


def test_safe_and_accepted_changes_are_taken_by_the_next_batch(
    spark: SparkSession, ran: Place
) -> None:
    place = ran.again()
    of = changed("source", "derive", "large", to="size > 200")
    of["source"]["columns"] |= {"page": "string", "amount": "long not null"}
    of |= {"watermark": {"delay": "1 hour"}, "keep": "900 days"}
    of["advanced"] = {"shuffle_partitions": 5, "state": {"store": "rocksdb"}}
    place.content = of
    place.land("2.json", [row(2, 150, page="/"), row(None)])
    told = accept_changes(place.pipeline, place.settings, "accept", "known", "Ada")
    losses, accepted = told.by_hand, told.of_file
    assert (losses, [one.what for one in accepted]) == ((), ["source.derive.large", "keep"])
    succeed(spark, place, "second")
    rows = {one["amount"]: (one["large"], one["page"]) for one in place.bronze().to_pylist()}
    assert rows == {1: (True, None), 2: (False, "/")}
    assert place.rejects().to_pylist()[0]["reason"] == "missing field"
    assert [one["amount"] for one in place.gold().to_pylist()] == [3]
    _, table = contracts(place)
    assert table is not None
    assert table.is_of(place.pipeline)
    # What the checkpoint fixes stays as the first batch had it, and is told with every run.
    assert table.settings == {}
    told = admit(place.pipeline, place.settings).messages
    assert len(told) == 2
    assert all("safe, without effect until a new generation" in line for line in told)


@pytest.mark.long
def test_bronze_keeps_a_derived_column_that_the_file_no_longer_has(
    spark: SparkSession, ran: Place
) -> None:
    source = {name: value for name, value in content()["source"].items() if name != "derive"}
    place = Place(ran.root, content() | {"source": source})
    place.land("2.json", [row(3, size=20)])
    succeed(spark, place, "second")
    assert sorted(place.bronze()["large"].to_pylist(), key=str) == [None, True]


def test_a_table_under_a_new_name_begins_with_bronze(spark: SparkSession, ran: Place) -> None:
    place = ran.again()
    table = content(measures=dict(reversed(MEASURES.items())))["tables"]["per_10m"]
    place.content = content() | {"tables": {"anew": table}}
    succeed(spark, place, "second")
    assert [(one["amount"], one["size"]) for one in place.gold("anew").to_pylist()] == [(3, 300)]
    assert [one["amount"] for one in place.gold("per_10m").to_pylist()] == [1]


@pytest.mark.long
def test_a_batch_of_ingest_that_bronze_holds_ends_by_the_contract_that_planned_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path, content())
    place.land("1.json", [row(1), row(None)])
    with killed("after", "accepted rows"):
        assert run_warm(spark, place, "failed").error is not None
    place.content = changed("source", "columns", "amount", to="long not null")
    succeed(spark, place, "finishes")
    assert [one["amount"] for one in place.bronze().to_pylist()] == [1, None]
    assert contracts(place)[0].pipeline.source.columns["amount"].nullable  # type: ignore[union-attr]
    place.land("2.json", [row(2), row(None)])
    succeed(spark, place, "takes")
    assert sorted(one["amount"] or 0 for one in place.bronze().to_pylist()) == [0, 1, 2]
    assert place.rejects().num_rows == 1
    assert all(one is not None and one.is_of(place.pipeline) for one in contracts(place))


def test_a_batch_of_ingest_of_which_nothing_was_committed_takes_the_change(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path, content())
    place.land("1.json", [row(1), row(None)])
    with killed("before", "accepted rows"):
        assert run_warm(spark, place, "failed").error is not None
    place.content = changed("source", "columns", "amount", to="long not null")
    succeed(spark, place, "takes")
    assert [one["amount"] for one in place.bronze().to_pylist()] == [1]
    assert place.rejects().num_rows == 1
    assert all(one is not None and one.is_of(place.pipeline) for one in contracts(place))


@pytest.mark.long
@pytest.mark.parametrize(("side", "takes"), [("before", True), ("after", False)])
def test_a_batch_of_a_table_ends_by_the_contract_that_planned_it_once_changes_hold_it(
    spark: SparkSession, tmp_path: Path, side: str, takes: bool
) -> None:
    place = Place(tmp_path, content())
    place.land("1.json", [row(1), row(2, at="2026-03-01T10:30:00Z")])
    with killed(side, "windows of the stream"):
        assert run_warm(spark, place, "failed").error is not None
    place.content = clicks() | content() | {"watermark": {"delay": "1 minute"}}
    first = succeed(spark, place, "first").tables["per_10m"].watermark_after_ms
    place.land("2.json", [row(4, at="2026-03-01T10:30:30Z")])
    second = succeed(spark, place, "second").tables["per_10m"].watermark_after_ms
    # 10:30 less ten minutes or one, then 10:30:30 less one.
    assert second - first == (30_000 if takes else 570_000)
    assert sorted(one["amount"] for one in place.gold().to_pylist()) == [1, 6]


def test_a_refused_change_is_refused_before_a_batch_that_was_left_is_touched(
    spark: SparkSession, ran: Place
) -> None:
    place = ran.again()
    with killed("before", "windows of the stream"):
        assert run_warm(spark, place, "failed").error is not None
    before = files_of(place)
    place.content = REFUSED["swapped measures"][0]
    assert run_warm(spark, place, "refused").error is not None
    assert files_of(place) == before
    place.content = content()
    succeed(spark, place, "as it was")
    assert [(one["amount"], one["size"]) for one in place.gold().to_pylist()] == [(3, 300)]


MOST = 2**63 - 1


def test_a_measure_that_fails_in_the_first_batch_is_told_and_its_correction_taken(
    spark: SparkSession, tmp_path: Path
) -> None:
    place = Place(tmp_path, content())
    place.land("1.json", [row(MOST, 7), row(MOST, 8)])
    error = run_warm(spark, place, "fails").error
    assert error is not None
    assert (error.type, error.retry_can_help) == ("ExpressionFailed", False)
    assert error.message.startswith("[ARITHMETIC_OVERFLOW]")
    assert "The query clicks.per_10m failed" in error.message
    # Its state has other columns, and its table the same.
    place.content = content(measures=MEASURES | {"amount": "try_sum(amount)"})
    succeed(spark, place, "corrected")
    assert [(one["amount"], one["size"]) for one in place.gold().to_pylist()] == [(None, 15)]


def contracts(place: Place) -> tuple[Any, Any]:
    """What is recorded of the ingest and of the table."""
    return tuple(
        read_contract(place.places.contract(query, 1), {}) for query in (INGEST, "per_10m")
    )


def _refusal(place: Place, asked: dict[str, Any]) -> str:
    other = Place(place.root, asked)
    with pytest.raises(Exception, match="Nothing was written") as refused:
        admit(other.pipeline, other.settings)
    return str(refused.value)
