"""Which rows count for a table: what `where` may say, and what is told of the rest."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest

from tests.pipeline.conftest import GOOD, Problems
from tidemark.errors import PipelineInvalid
from tidemark.operators.keys import does_count
from tidemark.operators.kinds import operator_of
from tidemark.operators.operator import changes_of
from tidemark.pipeline.difference import ChangeVerdict
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.model import Pipeline
from tidemark.storage.duckdb_in_utc import duckdb_in_utc

GROUPED = "    group_by: [page, slow]\n"
DERIVE = "`derive` a boolean column, of any Spark SQL, and name that: `where: NAME`"


def told(problems: Problems, where: str) -> list[str]:
    text = GOOD.replace(GROUPED, f"{GROUPED}    where: {json.dumps(where)}\n")
    found = problems(text=text)
    assert all(one.field == "tables.page_10m.where" for one in found)
    return [one.text for one in found]


GOOD_CONDITIONS = (
    "took > 0",
    "not slow and page <> 'a'",
    "slow",
    "very_slow is null",
    "PAGE like 'a%' or took between 1 and 5",
    "took in (1, 2, -3)",
    "at >= '2026-01-01' and at < timestamp '2026-02-01 00:00:00'",
    "case when slow then took > 5 else page = '' end",
    "coalesce(took, 0) > -5 and nullif(page, '') is not null",
    "took > 1.5 and took < 1e3",
    "greatest(took, 3) = 3 and length(page) = 2 and startswith(page, 'x')",
    "not (took <=> null)",
    "slow = (took in (1, 2)) and took between 1 and 5 and took > 2 or not (took = 3) is null",
    "case when took > 1 then page = 'a' when took between 1 and 2 then page > 'b' end",
    "(took > 0) is distinct from slow and if(took > 1, took < 5, took = 2)",
)
REFUSED = {
    "took": f"is no condition: {DERIVE}",
    "took > 0 and nope": "`nope` is not a column",
    "sum(took) > 1": "sum is an aggregate; a row counts or not by what stands in it",
    "true": "names no column: each row would count, or none",
    "1 = 2": "names no column",
    "null": "names no column",
    "took + 1 > 2": f"`took + 1` can fail on a row, and those of bronze are accepted; {DERIVE}",
    "took / took > 2": "`took / took` can fail on a row",
    "-took > 2": "`-took` can fail on a row",
    "abs(took) > 2": "can fail on a row",
    "at - interval 5 minutes > '2026-01-01'": "can fail on a row",
    "upper(page) = 'A'": f"have a measure or a derived column that computes the rest, and name "
    f"that; or {DERIVE}",
    "hour(at) = 3": f"; or {DERIVE}",
    "cast(page as int) > 3": f"; or {DERIVE}",
    "page rlike 'a'": f"; or {DERIVE}",
    "tags['a'] = 1": f"; or {DERIVE}",
    "who.id = 1": f"it is a part of a column; or {DERIVE}",
    "page like 'a\\\\_'": "has a backslash",
    # Spark compares from the left: (slow = very_slow) in (…), and not slow = (very_slow in (…)).
    "slow = very_slow in (true, slow)": "side by side, which Spark binds from the left and DuckDB "
    f"by what they are; put what is meant into brackets; or {DERIVE}",
    "slow <> very_slow between slow and true": "has two comparisons side by side",
    "took < 3 <=> slow": "has two comparisons side by side",
    "slow is distinct from very_slow = slow": "has two comparisons side by side",
    "took > 0 and (page like 'a%' = slow)": "has two comparisons side by side",
    "took between 1 and 5 = slow": "has two comparisons side by side",
    "page = 3": "compares text (`page`) with a number",
    "rand() > 0.5": "rand",
    "at < current_timestamp()": "current_timestamp",
    "took > 0; drop table x": "has a `;`",
    "took > (select 1)": "has a subquery",
    "at > '2026'": "write the timestamp '2026' as in",
    "window_start > '2026-01-01'": "`window_start` is not a column",
}


@pytest.mark.parametrize("where", GOOD_CONDITIONS)
def test_a_condition_on_columns_that_both_engines_tell_alike_is_taken(
    problems: Problems, where: str
) -> None:
    assert told(problems, where) == []


@pytest.mark.parametrize("where", list(REFUSED))
def test_what_duckdb_tells_otherwise_or_fails_on_a_row_is_refused_with_the_way_out(
    problems: Problems, where: str
) -> None:
    found = told(problems, where)
    assert len(found) == 1
    assert REFUSED[where] in found[0]


def test_a_column_that_is_a_word_of_sql_is_told_to_be_written_in_backticks(
    problems: Problems,
) -> None:
    text = GOOD.replace("    took: long\n", "    took: long\n    from: long\n")
    text = text.replace(GROUPED, f"{GROUPED}    where: from > 1\n")
    (found,) = problems(text=text)
    assert "write the column in backticks" in found.text


def pipeline(where: str | None, **of_table: object) -> Pipeline:
    content = {
        "source": {
            "files": "landing/*.json",
            "columns": {"at": "timestamp", "key": "string", "amount": "long"},
            "event_time": {"column": "at"},
        },
        "watermark": {"delay": "10 minutes"},
        "tables": {"t": {"window": {"length": "1 hour"}, **of_table}},
    }
    if where:
        content["tables"]["t"]["where"] = where  # type: ignore[index]
    return pipeline_from_mapping("clicks", content)


@pytest.mark.parametrize(
    ("before", "after"), [(None, "amount > 0"), ("amount > 0", None), ("amount > 0", "amount > 1")]
)
@pytest.mark.parametrize(
    "of_table",
    [{}, {"window": {"session": "5 minutes"}, "group_by": ["key"]}],
    ids=["windows", "sessions"],
)
def test_another_condition_needs_a_new_generation(
    before: str | None, after: str | None, of_table: dict[str, object]
) -> None:
    old, new = pipeline(before, **of_table), pipeline(after, **of_table)
    (found,) = changes_of(operator_of(old, "t"), "t", new.tables["t"])
    assert (found.what, found.verdict) == ("where", ChangeVerdict.NEW_GENERATION)
    assert (found.before, found.after) == (before or "none", after or "none")


def test_the_same_condition_in_another_spelling_is_no_difference() -> None:
    old, new = pipeline("amount>0 AND key='a'"), pipeline("amount > 0 and key = 'a'")
    assert list(changes_of(operator_of(old, "t"), "t", new.tables["t"])) == []


ROWS = pa.table(
    {
        "n": pa.array([0, 1, 2], pa.int64()),
        "Amount": pa.array([1, -1, None], pa.int64()),
        "flag": pa.array([True, None, False]),
    }
)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (None, [0, 1, 2]),
        ("amount > 0", [0]),
        ("amount is null", [2]),
        ("not flag", [2]),
        ("flag or amount < 0", [0, 1]),
        # Bronze has no such column yet: it is null then.
        ("later", []),
        ("not later", []),
        ("later is null and amount > 0", [0]),
        ("coalesce(later, true)", [0, 1, 2]),
        ("later = 'x' or amount > 0", [0]),
        ("later > 3 or amount > 0", [0]),
        ("length(later) > 3 or later like 'x%' or later in (1, 2) or amount = 1", [0]),
    ],
)
def test_null_does_not_count_nor_does_what_is_asked_of_a_column_that_is_not_there_yet(
    where: str | None, expected: Sequence[int]
) -> None:
    with duckdb_in_utc() as connection:
        connection.register("bronze", ROWS)
        condition = does_count(ROWS.schema, where)
        found = connection.execute(f"SELECT n FROM bronze WHERE {condition}").fetchall()
        others = connection.execute(f"SELECT n FROM bronze WHERE NOT {condition}").fetchall()
    assert [n for (n,) in found] == expected
    assert sorted([*found, *others]) == [(0,), (1,), (2,)]


def test_a_type_that_is_known_only_now_and_compared_in_another_way_is_refused() -> None:
    with pytest.raises(PipelineInvalid, match=r"cannot be asked of bronze.*bigint and text"):
        does_count(ROWS.schema, "amount = '3'")
    with pytest.raises(PipelineInvalid, match="is no condition"):
        does_count(ROWS.schema, "amount")
