"""Views of a pipeline's file: what is taken, and what is told of the others."""

from __future__ import annotations

import pytest

from tests.pipeline.conftest import GOOD, Load, Problems

TOLD: dict[str, list[str]] = {
    "{having: clicks > 3}": [],
    "{top: {n: 3, by: clicks}}": [],
    "{top: {n: 3, by: PAGE, order: ascending}, having: status <> 'final'}": [],
    "{top: {n: 3, by: rows}}": [],
    "{}": ["says `having`, `top` or both: else it is gold"],
    "{description: none}": ["says `having`, `top` or both: else it is gold"],
    "{having: clik > 3}": ["Did you mean `clicks`?"],
    "{having: clicks}": ["is no condition"],
    "{having: sum(clicks) > 3}": ["is an aggregate"],
    "{having: soundex(page) = 'C420'}": ["cannot be translated to DuckDB"],
    "{top: {n: 3, by: clik}}": ["is no column of gold"],
    "{top: {n: 0, by: clicks}}": ["must be at least 1"],
    "{top: {by: clicks}}": ["n"],
    "{top: {n: 3, by: clicks, order: up}}": ["order"],
}
AT_END = "    measures:"


def with_view(view: str, name: str = "best", text: str = GOOD) -> str:
    return text.replace(AT_END, f"    views: {{{name}: {view}}}\n{AT_END}", 1)


@pytest.mark.parametrize("view", list(TOLD))
def test_a_view_is_checked_by_names_and_types(problems: Problems, view: str) -> None:
    found, expected = problems(text=with_view(view)), TOLD[view]
    assert len(found) == len(expected), found
    assert all(words in one.text for words, one in zip(expected, found, strict=True))


def test_a_view_is_of_the_model_and_no_part_of_what_queries_follow_from(load: Load) -> None:
    plain, viewed = load(GOOD), load(with_view("{having: clicks > 3}"))
    assert viewed.tables["page_10m"].views["best"].having == "clicks > 3"
    assert viewed.without_checks() == plain.without_checks()
    assert viewed.content()["tables"]["page_10m"]["views"] == {"best": {"having": "clicks > 3"}}


def test_a_view_has_the_name_of_a_folder(problems: Problems) -> None:
    assert len(problems(text=with_view("{having: clicks > 3}", name="Best-Of"))) == 1
    # No folder of the platform lies beside it.
    assert problems(text=with_view("{having: clicks > 3}", name="ops")) == ()


def test_a_table_with_a_column_rank_has_no_view_with_top(problems: Problems) -> None:
    measures = ("{clicks: count(*),", "{clicks: count(*), Rank: count(*),")
    (found,) = problems(measures, text=with_view("{top: {n: 3, by: rank}}"))
    assert "numbers its rows in a column `rank`, which the table has: `Rank`" in found.text


def test_a_session_has_no_views(problems: Problems) -> None:
    window = ("window: {length: 10 minutes, slide: 5 minutes}", "window: {session: 10 minutes}")
    mode = ("group_by:", "output_mode: append\n    group_by:")
    (found,) = problems(window, mode, text=with_view("{having: clicks > 3}"))
    assert "is for tables over windows of a fixed length or of a calendar" in found.text
