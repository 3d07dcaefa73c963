"""Rows that an erasure rejects when they come again: gold stays, nothing of them is kept, and
without the key nothing is read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.end_to_end.test_erasures import LONG, PERSON, check_whole, forget
from tests.end_to_end.test_retractions import SOURCE, landed, row, tidemark, told
from tests.kit.decoded import files_holding
from tests.kit.erasing import erase_warm, erased
from tests.kit.killed import killed
from tests.kit.replaying import mended, replayed
from tests.kit.rewinding import rewind_warm
from tests.kit.running import Place, clicks, run_warm, succeed
from tidemark.errors import ErasedUntold, ErasureRefused
from tidemark.judge.erased import fingerprint, row_digests, values_table
from tidemark.ledger.erased import Digests, erasures
from tidemark.runs.unfinished_act import unfinished_act
from tidemark.runs.without_spark import run_without_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEY = "the key of these tests, which is long enough"
RULES = [{"name": "negative", "reject": "amount < 0"}]
THEIRS: dict[str, Any] = {"where": f"key = '{PERSON}'", "reject_again": True}
# As it was, by a rule, twice, without its time, too early for the engine, and of another person.
AGAIN: tuple[Any, ...] = (
    (1, PERSON, 5, "p0"), (2, PERSON, -5, "p1"), (1, PERSON, 5, "p0"), (0, "a", 5, "a0")
)  # fmt: skip


class Story:
    """A run; kept as it is behind it."""

    def __init__(self, spark: SparkSession, place: Place) -> None:
        self.spark, self.place = spark, place

    def again(self) -> Place:
        forget(self.spark)
        return self.place.again()


@pytest.fixture(scope="module")
def story(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    root = tmp_path_factory.mktemp("again") / "root"
    place = Place(root, clicks(source={**SOURCE, "rules": RULES}), erasure_key=KEY)
    landed(place, 0, (0, "a", 5, "a0"), (1, PERSON, 5, "p0"), (3, "b", 1, "b0"))
    succeed(spark, place, "run-0")
    place.keep()
    return Story(spark, place)


def land_again(place: Place, number: int = 1) -> None:
    rows = [row(*one) for one in AGAIN]
    rows += [{**rows[0], "at": None}, {**rows[0], "at": "1960-01-01T00:00:00Z"}]
    place.land(f"{number}.json", rows)


def remove_landed(place: Place) -> None:
    for file in Path(place.root, "landing").iterdir():
        file.unlink()


def kept(place: Place) -> list[Digests | None]:
    return [one.again for one in erasures(place.warehouse)]


def written(place: Place) -> dict[str, bytes]:
    """All of the pipeline's files but what tells of runs."""
    folder = Path(place.places.folder)
    files = {str(one.relative_to(folder)): one for one in folder.rglob("*") if one.is_file()}
    told_of_runs = ("ops/runs/", "results/", "status.json", "checkpoints/lease")
    return {
        name: file.read_bytes()
        for name, file in sorted(files.items())
        if not name.startswith(told_of_runs) and "lease" not in name
    }


def check_rejected(spark: SparkSession, place: Place, run_id: str = "again") -> None:
    """The rows come again, and are rejected."""
    land_again(place)
    before = told(place)
    result = succeed(spark, place, run_id)
    assert result.rows.rejected == {"erased row": 5, "duplicate": 1}
    assert result.rows.accepted == 0
    assert told(place) == before
    check_whole(spark, place)
    remove_landed(place)
    assert files_holding(place.root, PERSON) == []


def test_rows_that_come_again_are_rejected_and_nothing_of_them_is_kept(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    whole = written(place)
    place.erasure_key = None
    refused = erase_warm(spark, place, **THEIRS).error
    assert refused is not None
    assert refused.type == "ErasureRefused"
    assert "there is none" in refused.message
    place.erasure_key = KEY
    refused = erase_warm(spark, place, **{**THEIRS, "where": "upper(key) like 'PERSON-7%'"}).error
    assert refused is not None
    assert "it says more than which values columns have" in refused.message
    shown = erased(spark, place, dry_run=True, **THEIRS)
    assert (shown.again, shown.rows["bronze"]) == (("key",), 1)
    assert written(place) == whole

    result = erased(spark, place, **THEIRS)
    assert (result.again, result.rows) == (("key",), {"bronze": 1, "rejects": 0})
    (again,) = kept(place)
    assert again is not None
    assert (again.columns, again.key) == ((("key", "text"),), fingerprint(KEY))
    assert again.digests == row_digests(
        KEY, again.columns, values_table({"key": "string"}, [(PERSON,)])
    )
    remove_landed(place)
    assert files_holding(place.root, PERSON) == files_holding(place.root, KEY) == []
    upkeep = place.table(place.places.upkeep).to_pylist()
    assert [one["verdict"] for one in upkeep if one["kind"] == "erase"] == [
        "1 rows of bronze, 0 rows of rejects erased, rejected when they come again"
    ]

    forget(spark)
    check_rejected(spark, place)
    rejects = place.rejects().to_pylist()
    ours = [one for one in rejects if one["reason"] == "erased row"]
    assert {(one["raw"], one["raw_bytes"], one["event_time"]) for one in ours} == {(None,) * 3}
    assert all(one["_file"].endswith("1.json") for one in ours)
    assert len({one["_place"] for one in ours}) == 5

    # Replayed as they are nobody can judge them; mended to be that person's they are rejected.
    stays = replayed(spark, place, again=True, dry_run=True).judged
    assert stays is not None
    assert (stays.accepted, stays.staying) == (0, {"duplicate": 1, "not judged": 5})
    ids = [one["id"] for one in sorted(ours, key=lambda one: int(one["_place"]))]
    lines = (
        {"id": ids[0], "raw": row(5, PERSON, 2, "p5")},
        {"id": ids[1], "raw": row(5, "c", 2, "c5")},
    )
    file = mended(place, *lines)
    judged = replayed(spark, place, mended=file).judged
    assert judged is not None
    assert (judged.accepted, judged.staying) == (1, {"erased row": 1})
    Path(file).unlink()
    succeed(spark, place, "replayed")
    assert files_holding(place.root, PERSON) == []
    check_whole(spark, place)

    # Another erasure asks for nothing of it, and leaves it as it is; so does a way back.
    place.erasure_key = None
    erased(spark, place, where="key = 'b'")
    assert kept(place) == [again, None]
    place.erasure_key = KEY
    forget(spark)
    landed(place, 2, (200, "a", 1, "a2"), (201, PERSON, 1, "p2"))
    succeed(spark, place, "later")
    assert "erased row" in place.rejects()["reason"].to_pylist()
    rewound = rewind_warm(spark, place, "replayed", dry_run=True).error
    assert rewound is not None
    assert "rows were erased since" in rewound.message
    landed(place, 3, (202, "a", 1, "a3"), (203, PERSON, 1, "p3"))
    succeed(spark, place, "last")
    assert rewind_warm(spark, place, "later").error is None
    forget(spark)
    assert tidemark(place, "maintain", "clicks", "--apply").exit_code == 0
    assert kept(place) == [again, None]
    assert succeed(spark, place, "last again").rows.rejected == {"erased row": 1}
    remove_landed(place)
    assert files_holding(place.root, PERSON) == []
    assert PERSON not in place.bronze()["key"].to_pylist()
    check_whole(spark, place)


def test_without_the_key_nothing_is_read_and_a_batch_that_is_repeated_comes_to_the_same(
    spark: SparkSession, story: Story
) -> None:
    place = story.again()
    erased(spark, place, **THEIRS)
    forget(spark)
    remove_landed(place)
    land_again(place)
    whole = written(place)
    for key, words in ((None, "the key is not there"), (KEY.upper(), "is another key")):
        place.erasure_key = key
        stopped = run_warm(spark, place, f"stopped {words}").error
        assert stopped is not None
        assert (stopped.type, stopped.retry_can_help) == ("ErasedUntold", False)
        assert words in stopped.message
        replay = replayed_error(spark, place)
        assert replay == "ErasedUntold"
        looked = run_without_spark(
            place.run("looked"), datetime.now(UTC), place.places.result("looked")
        )
        assert looked.error is not None  # type: ignore[union-attr]
        assert looked.error.type == "ErasedUntold"  # type: ignore[union-attr]
        assert written(place) == whole
    place.erasure_key = KEY

    # Between bronze's commit and that of rejects.
    landed(place, 2, (8, "d", 1, "d0"))
    with killed("before", "rejected rows"):
        assert run_warm(spark, place, "killed").error is not None
    forget(spark)
    assert place.bronze().num_rows == 3
    refused = erase_warm(spark, place, where="key = 'a'", reject_again=True, texts=("x",)).error
    assert refused is not None
    assert "is not at a clean end" in refused.message
    result = succeed(spark, place, "repeated")
    assert result.rows.rejected == {"erased row": 5, "duplicate": 1}
    check_whole(spark, place)
    remove_landed(place)
    assert files_holding(place.root, PERSON) == []


def replayed_error(spark: SparkSession, place: Place) -> str | None:
    from tests.kit.replaying import replay_warm

    error = replay_warm(spark, place, again=True).error
    return None if error is None else error.type


@pytest.mark.parametrize(
    ("when", "point"),
    [
        ("after", "pipeline stopped for an act"),
        pytest.param("before", "erasure recorded", marks=LONG),
        pytest.param("after", "erasure recorded", marks=LONG),
        pytest.param("after", "erasure planned", marks=LONG),
    ],
)
def test_ended_anywhere_a_repetition_has_the_digests_without_condition_or_key(
    spark: SparkSession, story: Story, when: Literal["before", "after"], point: str
) -> None:
    place = story.again()
    with killed(when, point):
        error = erase_warm(spark, place, **THEIRS).error
    assert error is not None
    assert error.type == "Killed", error
    if point == "erasure planned":
        # The pipeline is as it was; what was planned is nobody's.
        assert unfinished_act(place.warehouse) is None
        assert kept(place) == []
        erased(spark, place, **THEIRS)
    else:
        stopped = run_warm(spark, place, "meanwhile").error
        assert stopped is not None
        assert stopped.type == "ErasureUnfinished"
        place.erasure_key = None
        assert erased(spark, place).again == ("key",)
        place.erasure_key = KEY
    remove_landed(place)
    assert files_holding(place.root, PERSON) == []
    assert [None if one is None else len(one.digests) for one in kept(place)] == [1]
    forget(spark)
    check_rejected(spark, place)


def test_of_a_condition_spark_says_for_which_values_it_is_true(
    spark: SparkSession, story: Story
) -> None:
    from tidemark.streaming.recompute.kept_digests import digests_to_keep

    place = story.again()
    run = place.run("asking")

    def digests(where: str) -> set[str]:
        return set(digests_to_keep(spark, run, where).digests)

    by_key, by_amount = {"key": "string"}, {"amount": "long"}
    texts, numbers = (", ".join(map(of, range(32))) for of in ("'{}'".format, str))
    for where, types, values in (
        ("key = 'it''s'", by_key, [("it's",)]),
        ('KEY = "it\'s"', by_key, [("it's",)]),
        ("'it\\'s' = `key`", by_key, [("it's",)]),
        ("key = 'a\\\\b'", by_key, [("a\\b",)]),
        ("key IN ('x', '')", by_key, [("x",), ("",)]),
        ("key IN ('x', 'x')", by_key, [("x",)]),
        ("amount IN (-7, 9223372036854775807)", by_amount, [(-7,), (2**63 - 1,)]),
        (
            "key IN ('x', 'y') AND amount = 7",
            {"amount": "long", "key": "string"},
            [(7, "x"), (7, "y")],
        ),
    ):
        columns: Any = tuple(
            (name, "text" if kind == "string" else "whole number") for name, kind in types.items()
        )
        expected = row_digests(KEY, columns, values_table(types, values))
        assert digests(where) == set(expected), where
    for where, words in (
        ("key = 'a' OR amount = 7", "it says more than"),
        ("_file = 'a'", "_file is no column of the source that holds"),
        ("at = '2026-07-01'", "at is no column of the source that holds"),
        ("key = 7", "key is string, and is compared with something else"),
        ("amount = '7'", "amount is long, and is compared with something else"),
        ("amount = 9223372036854775808", "amount is long, and is compared with something else"),
        (f"key IN ({texts}) AND amount IN ({numbers})", "it names 1,024 combinations of values"),
    ):
        with pytest.raises(ErasureRefused) as refused:
            digests(where)
        assert words in str(refused.value), where
        assert "Nothing was changed." in str(refused.value)
    erased(spark, place, **THEIRS)
    place.erasure_key = KEY.upper()
    with pytest.raises(ErasedUntold, match="is another key"):
        digests_to_keep(spark, place.run("asking"), "key = 'x'")
