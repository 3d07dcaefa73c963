"""The text of a row's key is one in Python, Arrow and Spark, and no two keys share one."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidemark.pipeline.row_key import key_sql, key_text
from tidemark.sources.delta.following import keys_of
from tidemark.streaming.arrow_rows import frame_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# All texts of few letters, where what stands between columns may stand within one.
TEXTS = ["".join(one) for size in range(4) for one in product("a,~", repeat=size)]


def test_no_two_keys_have_one_text() -> None:
    keys = [*product(TEXTS, TEXTS), *product(TEXTS[:13], repeat=3)]
    for size in (2, 3):
        own = [one for one in keys if len(one) == size]
        assert len({key_text(one) for one in own}) == len(own)
    assert key_text(["DE", "7"]) == "DE,7"
    assert key_text(["a,~"]) == "a,~"


@given(st.lists(st.tuples(st.text("ab,~é\n"), st.integers(-9, 9), st.text(",~'\\")), max_size=9))
def test_arrow_has_the_text_that_python_has(rows: list[tuple[str, int, str]]) -> None:
    columns = {
        name: pa.array([row[place] for row in rows], kind)
        for place, (name, kind) in enumerate(
            {"a": pa.string(), "b": pa.int64(), "c": pa.string()}.items()
        )
    }
    texts = [key_text([a, str(b), c]) for a, b, c in rows]
    assert keys_of(columns, ["a", "b", "c"], len(rows)).to_pylist() == texts
    assert keys_of(columns, ["b"], len(rows)).to_pylist() == [str(row[1]) for row in rows]
    assert keys_of(columns, ["b", "none"], len(rows)).to_pylist() == [None] * len(rows)


def test_spark_has_the_text_that_python_has(spark: SparkSession) -> None:
    texts = [*TEXTS, "'\\", "é\n"]
    pairs = [*product(texts, texts)]
    rows = frame_of(spark, pa.table({"a": [a for a, _ in pairs], "b": [b for _, b in pairs]}))
    found = rows.selectExpr("a", "b", f"{key_sql(['a', 'b'])} AS k", f"{key_sql(['a'])} AS one")
    for a, b, k, one in found.collect():
        assert k == key_text([a, b])
        assert one == a
    (nothing,) = spark.sql(f"SELECT {key_sql(['NULL', 'string(7)'])}").head() or ("missing",)
    assert nothing is None
