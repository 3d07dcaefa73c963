"""Spark and DuckDB say of the same rows of bronze that they count, whatever stands in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.pipeline.test_checks_in_spark import ARROW, SCHEMA, rows
from tidemark.operators.keys import does_count
from tidemark.pipeline.expressions.names import KnownName, Scope, spark_type
from tidemark.pipeline.expressions.sql import check_where
from tidemark.storage.delta.dataset import dataset_of
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TYPES = dict(part.split() for part in SCHEMA.replace("\n", " ").split(", "))
SCOPE: Scope = {name: KnownName(name, spark_type(kind)) for name, kind in TYPES.items()}
NUMBERS = ["y", "h", "i", "l", "f", "x", "price", "sum", "mean"]
LITERALS = ["0", "-7", "0.1", "1.5", "2.675", "1e10", "9007199254740992", "-0.30", "null"]
TEXTS = ["s", "'a,b'", "'straße'", "''", "'3'", "'A'", "'\U0001f926'", "'it''s'", "null"]
PATTERNS = ["a%", "%", "_", "__", "%\U0001f926", "str__e", "%e%", "", "A%", "e_%"]
TIMES = ["t", "d", "'2026-01-01'", "timestamp '2026-01-01 10:10:00'", "date '2024-02-29'"]
CALLS = ["startswith", "endswith", "contains"]
COMPARISONS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]


class Drawn:
    """Conditions by a grammar whose words all stand in what a `where` may say."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)

    def condition(self, depth: int = 0) -> str:
        if depth < 3 and self.draw.random() < 0.5:
            one, other = self.condition(depth + 1), self.condition(depth + 1)
            kind = self.draw.choice(["and", "or", "not", "case", "is", "coalesce", "same"])
            return {
                "and": f"({one} and {other})",
                "or": f"({one} or {other})",
                "not": f"not ({one})",
                "case": f"case when {one} then {other} else b end",
                "is": f"({one}) is {self.draw.choice(['true', 'not true', 'null', 'not null'])}",
                "coalesce": f"coalesce({one}, {other}, false)",
                "same": f"({one}) <=> ({other})",
            }[kind]
        kind = self.draw.choice(["numbers", "numbers", "texts", "times", "like", "list", "b"])
        if kind == "b":
            return self.draw.choice(["b", "b is null", "b = true", "b <=> null", "not b"])
        if kind == "like":
            like = self.draw.choice(["like", "not like"])
            return f"s {like} '{self.draw.choice(PATTERNS)}'"
        if kind == "list":
            return self._list()
        operands = {"numbers": self._number, "texts": self._text, "times": self._time}[kind]
        one, other = operands(), operands()
        if self.draw.random() < 0.2:
            return f"{one} between {other} and {operands()}"
        if kind == "texts" and self.draw.random() < 0.3:
            return f"{self.draw.choice(CALLS)}({one}, {other})"
        if self.draw.random() < 0.2:
            return f"{one} is {self.draw.choice(['null', 'not null'])}"
        return f"{one} {self.draw.choice(COMPARISONS)} {other}"

    def _list(self) -> str:
        of, values = self.draw.choice([(NUMBERS, LITERALS), (["s"], TEXTS[1:]), (["bin"], ["bin"])])
        listed = ", ".join(self.draw.choices(values, k=3))
        how = self.draw.choice(["in", "not in"])
        return f"{self.draw.choice(of)} {how} ({listed})"

    def _number(self) -> str:
        one, other = self.draw.choice(NUMBERS), self.draw.choice([*NUMBERS, *LITERALS])
        made = [one, one, other, "length(s)", "length(bin)"]
        made += [f"{name}({one}, {other})" for name in ("coalesce", "nullif", "greatest", "least")]
        return self.draw.choice([*made, f"if(b, {one}, {other})"])

    def _text(self) -> str:
        one = self.draw.choice(TEXTS)
        return self.draw.choice([one, "s", f"coalesce(s, {one})", f"greatest(s, {one})"])

    def _time(self) -> str:
        return self.draw.choice([*TIMES, "coalesce(t, d)", "greatest(d, t)", "nullif(d, d)"])


@pytest.fixture(scope="module")
def bronze(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows one by one, and all as one file: what statistics of a file say of its rows, too."""
    folder = tmp_path_factory.mktemp("bronze") / "rows"
    found = rows()
    for part in (*([row] for row in found), found):
        write_deltalake(folder, pa.Table.from_pylist(part, ARROW), mode="append")
    return folder


def conditions(seed: int, number: int) -> list[str]:
    """Those that are taken, of so many that are drawn."""
    drawn = Drawn(seed)
    asked = dict.fromkeys(drawn.condition() for _ in range(number))
    return [one for one in asked if not check_where(one, SCOPE)]


def by_duckdb(folder: Path, asked: Sequence[str]) -> dict[str, list[int]]:
    table = DeltaTable(folder)
    known = dataset_of(table)
    found = {}
    with duckdb_in_utc() as connection:
        connection.register("bronze", known)
        for one in asked:
            condition = does_count(known.schema, one)
            sql = f"SELECT n FROM bronze WHERE {condition} ORDER BY n"
            found[one] = [n for (n,) in connection.execute(sql).fetchall()]
    return found


def by_spark(frame: DataFrame, asked: Sequence[str]) -> dict[str, list[int]]:
    """By a filter of each, as a batch reads bronze."""
    from tidemark.streaming.inputs import counting

    return {
        one: sorted(row["n"] for row in counting(frame, one).select("n").collect()) for one in asked
    }


@pytest.mark.second
def test_both_engines_say_of_the_same_rows_that_they_count(
    spark: SparkSession, bronze: Path
) -> None:
    asked = conditions(46, 60)
    assert len(asked) > 40
    found = by_duckdb(bronze, asked)
    frame = spark.read.format("delta").load(str(bronze))
    told = by_spark(frame, asked)
    assert {one: (told[one], found[one]) for one in asked if told[one] != found[one]} == {}
    assert len({tuple(one) for one in found.values()}) > 15


@pytest.mark.long
def test_as_columns_of_many_conditions_both_say_the_same(spark: SparkSession, bronze: Path) -> None:
    asked = conditions(7, 2_000)
    found = by_duckdb(bronze, asked)
    frame = spark.read.format("delta").load(str(bronze)).cache()
    for start in range(0, len(asked), 40):
        some = asked[start : start + 40]
        columns = (f"coalesce({text}, false) AS c{number}" for number, text in enumerate(some))
        answers: list[Any] = frame.selectExpr("n", *columns).collect()
        told = {
            text: sorted(row["n"] for row in answers if row[f"c{number}"])
            for number, text in enumerate(some)
        }
        assert {one: (told[one], found[one]) for one in some if told[one] != found[one]} == {}


def test_what_is_more_than_any_number_is_not_passed_over_with_its_file(
    spark: SparkSession, bronze: Path
) -> None:
    frame = spark.read.format("delta").load(str(bronze))
    from tidemark.streaming.inputs import counting

    more = "x > 1e300"
    assert sorted(row["n"] for row in counting(frame, more).collect()) == [7, 7]
    assert by_duckdb(bronze, [more]) == {more: [7, 7]}
