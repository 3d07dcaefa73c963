"""Every listed line comes to its verdict, in the exact tier, by columns and through all tiers."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any

import pytest

from tests.judge.cases import AT, KINDS
from tests.judge.judging import judge_lines, pipeline_of
from tidemark.judge import judge


@cache
def _verdicts(kind: str, tier: str) -> list[dict[str, Any]]:
    pipeline, cases = KINDS[kind]
    lines = [case.line for case in cases]
    if tier == "exact":
        return judge_lines(pipeline(), lines, by_line=True)
    # Each line stands in a block that is large enough for the reader, with its equals.
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(judge, "_FEW_LINES", 20)
        patched.setattr(judge, "_PORTION_LINES", 40)
        if tier == "by columns":
            patched.setattr(judge, "block_reader", lambda *_: None)
        judged = judge_lines(pipeline(), [line for line in lines for _ in range(40)])
    assert all(judged[n] == judged[n - n % 40] for n in range(len(judged)))
    return [dict(judged[n * 40]) for n in range(len(lines))]


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["exact", "by columns", "all"])
@pytest.mark.parametrize(
    ("kind", "number"),
    [
        pytest.param(kind, number, id=f"{kind}-{case}")
        for kind, (_, cases) in KINDS.items()
        for number, case in enumerate(cases)
    ],
)
def test_a_line_is_accepted_with_its_exact_values_or_rejected_with_the_reason(
    kind: str, number: int, tier: str
) -> None:
    case, found = KINDS[kind][1][number], dict(_verdicts(kind, tier)[number])
    reason, detail = found.pop("reason", None), found.pop("detail", "")
    assert reason == case.reason, f"{reason}: {detail}"
    if case.reason is not None:
        assert case.detail in detail
        return
    event_date = found.pop("_event_date")
    assert {"at": AT, **case.values} == found
    assert event_date == found["at"].date()


def test_the_batch_time_alone_decides_what_is_future() -> None:
    line, pipeline = '{"at":"2030-01-01T00:00:00Z"}', pipeline_of({})
    early, late = (
        judge_lines(
            pipeline, [line], batch_time=datetime(2029, 12, 31, 23, minute, second, tzinfo=UTC)
        )
        for minute, second in ((49, 59), (50, 0))
    )
    assert early[0]["reason"] == "future"
    assert "reason" not in late[0]


def test_a_batch_that_runs_again_judges_the_same_rows_too_old() -> None:
    lines = [f'{{"at":"2026-01-0{day}T00:00:00Z"}}' for day in (1, 2, 3)]
    pipeline = pipeline_of({}, keep="90 days")

    def judged(day: int) -> list[tuple[str | None, str | None]]:
        rows = judge_lines(pipeline, lines, batch_time=datetime(2026, 4, day, tzinfo=UTC))
        return [(row.get("reason"), row.get("detail")) for row in rows]

    first = judged(2)
    assert [reason for reason, _ in first] == ["too old", None, None]
    assert judged(2) == first
    # A later batch finds more of them too old, and says the same of those that were.
    later = judged(3)
    assert [reason for reason, _ in later] == ["too old", "too old", None]
    assert later[0] == first[0]


def test_a_time_without_a_zone_is_told_to_lack_one() -> None:
    pipeline = pipeline_of({"w": "timestamp"})
    lines = ['{"at":"2026-03-01T00:00:00"}', '{"at":"2026-03-01T00:00:00Z","w":"2026-03-01T00:00"}']
    details = [row["detail"] for row in judge_lines(pipeline, lines)]
    assert all(detail.endswith(", which tells no zone") for detail in details)
    assert "zone" not in judge_lines(pipeline, ['{"at":"2026-02-30T00:00:00"}'])[0]["detail"]


def test_an_unknown_field_within_a_value_is_rejected_where_unknown_fields_are() -> None:
    columns = {
        "r": "struct<p:int>",
        "deep": "array<struct<p:int>>",
        "k": "map<string,struct<p:int>>",
    }
    at = '"at":"2026-03-01T00:00:00Z"'
    bodies = ['"r":{"p":1,"z":1}', '"deep":[{"p":1},{"z":1}]', '"k":{"one":{"z":1}}']
    lines = [f"{{{at},{body}}}" for body in bodies]
    rejecting = judge_lines(pipeline_of(columns, "reject"), lines)
    assert [row["detail"] for row in rejecting] == [
        "unknown: r.z",
        "unknown: deep.z",
        "unknown: k.one.z",
    ]
    ignoring = judge_lines(pipeline_of(columns, "ignore"), lines)
    assert [row.get("_extra", row.get("reason")) for row in ignoring] == [None, None, None]
