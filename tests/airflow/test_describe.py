"""What Airflow's UI says of a pipeline."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from tests.kit.running import clicks
from tidemark.airflow.dags import describe
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.places import Places


def described(**changes: object) -> list[str]:
    pipeline = pipeline_from_mapping("clicks", clicks(**changes))
    return describe(pipeline, Places("/lake", "clicks")).splitlines()


def test_what_a_pipeline_leaves_out_is_not_said() -> None:
    text = "\n".join(described())
    assert "- **watermark**: delay 10 minutes\n" in text
    for word in ("sealed", "unique", "keep", "output mode"):
        assert word not in text


def test_sealing_uniqueness_and_retention_are_said_with_their_durations() -> None:
    source = clicks()["source"] | {"unique": {"by": "key", "within": "7 days"}}
    watermark = {"delay": "10 minutes", "seal_after_idle": "30 minutes"}
    lines = described(source=source, watermark=watermark, keep="90 days")
    sealed = "the last windows are sealed after 30 minutes without a row"
    assert f"- **watermark**: delay 10 minutes; {sealed}" in lines
    assert "- **unique**: `key` within 7 days; rows that repeat it are rejected" in lines
    assert "- **keep**: 90 days; older rows are rejected, older windows are frozen" in lines


def test_the_tables_whose_output_mode_is_not_update_are_said() -> None:
    (table,) = clicks()["tables"].values()
    tables = {
        "plain": table,
        "closing": table | {"output_mode": "append"},
        "whole": table | {"output_mode": "complete", "accept_unbounded_state": True},
    }
    assert "- **output mode**: closing append, whole complete" in described(tables=tables)


def test_a_table_that_is_computed_from_bronze_for_a_measure_is_said_with_it() -> None:
    (table,) = clicks()["tables"].values()
    measures = {"events": "count(*)", "top_one": "mode(amount, true)"}
    tables = {"plain": table, "whole": table | {"measures": measures}}
    line = "- **computed from bronze in each run**: whole, for top\\_one"
    assert line in described(tables=tables)
    assert "computed from bronze" not in "".join(described(tables={"plain": table}))


def test_which_rows_count_is_said_beside_the_windows() -> None:
    (table,) = clicks()["tables"].values()
    told = "\n".join(described(tables={"some": table | {"where": "key = 'a|b'"}}))
    assert "| some | 10 minutes, where `key = 'a\\|b'` | key |" in told


HOSTILE = "</p><script>x</script> [a](javascript:b) ![c](d) **e** `f` <g@h.i> &amp; \\| | <!-- # $"
COLUMN = "<b>*x*|[y]!_z_~~"
SQL = "max(`key` || '`` <i>` | &lt; **x** [a](b)')"


class Shown(HTMLParser):
    """What a page shows, and its elements."""

    def __init__(self, markdown: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.text = ""
        self.feed(MarkdownIt("gfm-like", {"html": True, "linkify": False}).render(markdown))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(description: str, column: str, sql: str) -> Shown:
    columns = {"at": "timestamp", "key": "string", column: "string"}
    source = clicks()["source"] | {"columns": columns}
    table = {
        "window": {"length": "10 minutes"},
        "group_by": [column],
        "measures": {f"m{column}": sql},
    }
    told = described(description=description, source=source, tables={"per_10m": table})
    return Shown("\n".join(told))


def test_what_a_file_says_is_text_whatever_is_in_it() -> None:
    found, plain = shown(HOSTILE, COLUMN, SQL), shown("plain", "x", "max(key)")
    assert found.elements == plain.elements
    for text in (HOSTILE, f"\n{COLUMN}\n", f"m{COLUMN} = {SQL}"):
        assert text in found.text


@pytest.mark.parametrize("text", ["# a", "- a", "1. a", "> a", "    a", "a\n---", "```a", "| a |"])
def test_a_description_is_a_paragraph(text: str) -> None:
    assert shown(text, "x", "max(key)").elements == shown("plain", "x", "max(key)").elements


def test_a_bar_after_a_backslash_does_not_end_the_cell() -> None:
    found = shown("plain", "x", r"max(if(key rlike 'a\|b', key, ''))")
    assert found.elements == shown("plain", "x", "max(key)").elements
    assert r"'a\\|b'" in found.text


def test_a_view_stands_below_its_table_with_its_place() -> None:
    (table,) = clicks()["tables"].values()
    views = {"best": {"having": "events > 2", "top": {"n": 3, "by": "amount"}}}
    lines = described(tables={"per_10m": table | {"views": views}})
    (found,) = [line for line in lines if "best" in line]
    assert found == (
        "| per\\_10m\\.best | those with `events > 2`; 3 of each window by amount, descending | | "
        "| `/lake/clicks/per_10m/views/best` |"
    )
