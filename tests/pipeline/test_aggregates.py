"""In which forms a measure may keep all values of a window or choose one, and who computes it."""

from __future__ import annotations

import re

import pytest

from tests.pipeline.conftest import GOOD, Load, Problems
from tests.pipeline.test_expressions import SCOPE
from tidemark.pipeline.expressions.aggregates import canonical_values
from tidemark.pipeline.expressions.kinds import kind_of_type
from tidemark.pipeline.expressions.sql import check_measure, keeps_no_bound, measure_types

# In each of these the order of rows decides nothing; a test in Spark has them over odd values.
FROM_BRONZE_ALONE = (
    "count(distinct s)",
    "count(distinct i, s) filter (where b)",
    "sum(distinct l) / count(distinct d)",
    "avg(distinct dec)",
    "try_sum(distinct i)",
    "mode(i, true)",
    "mode(s, true) filter (where b)",
    "mode(d, true)",
    "size(collect_set(i))",
    "cardinality(collect_list(s) filter (where b))",
    "array_size(collect_set(st))",
    "slice(sort_array(collect_set(s)), 1, 10)",
    "slice((sort_array(collect_list(struct(d, i)), false)), 1, 10000)",
    "slice(array_sort(array_agg(distinct s)), -5, least(8, 5))",
    "array_join(slice(sort_array(collect_set(s)), 1, 3), ',')",
    "sort_array(collect_list(d))[0]",
    "element_at(sort_array(collect_list(struct(ts, s))), -1).s",
    "size(sort_array(collect_set(arr)))",
)
BY_THE_ENGINE = (
    "max_by(i, struct(ts, i))",
    "min_by(s, named_struct('at', ts, 's', s)) filter (where ts is not null)",
    "max_by(struct(i, s), struct(ts, struct(s, i)))",
    "max_by(st, struct(ts, st))",
    "max_by(d, d)",
    "max_by('x', ts)",
    "count_if(i is distinct from l)",
    "median(i)",
    "approx_count_distinct(s)",
    "max(array_distinct(arr))",
)
SORTED = (
    "collects values in an order that is that of rows as they are read, and differs from run to"
)
OPEN = "collects values in an order that Spark leaves open; write"
BOUND = "is as long as its window has values, and a row of gold has a bound; write"
TIES = "takes the value of any row whose order is equal; let the value decide then, as in"
KIND = "mode counts and orders numbers, texts, booleans, dates and timestamps alone as they are"
REFUSED = {
    "max(distinct i)": "has DISTINCT, which stands in count, sum, avg and collect_list",
    "median(distinct i)": "has DISTINCT, which stands in",
    "mode(distinct i, true)": "has DISTINCT, which stands in",
    "max_by(distinct i, struct(l, i))": "has DISTINCT, which stands in",
    "size(collect_set(distinct i))": "has DISTINCT, which stands in",
    "sum(distinct i, l)": "has DISTINCT over several values, which count alone takes",
    "count(distinct m)": "has DISTINCT over a map, and Spark does not compare maps",
    "count(distinct struct(i, m))": "has DISTINCT over a map",
    "count(distinct s) over ()": "has OVER, a window function, which gives each row a value",
    "mode(i)": "mode takes any of the values that come equally often; write `mode(i, true)`, the",
    "mode(i, false)": "write `mode(i, true)`",
    "mode(i, i > 1)": "write `mode(i, true)`",
    "mode(bin, true)": f"{KIND} equal, and `bin` is not known as one; cast it to one",
    "mode(st, true)": "`st` is not known as one; cast it to one",
    "mode(arr[0] , true) + mode(arr, true)": "`arr` is not known as one",
    "collect_set(i)": f"{OPEN} `slice(sort_array(collect_set(i)), 1, 100)` of at most 10,000, or",
    "collect_list(i)[0]": SORTED,
    "slice(collect_list(i), 1, 3)": SORTED,
    "array_join(collect_set(s), ',')": OPEN,
    "size(array_distinct(collect_list(i)))": SORTED,
    "sort_array(transform(collect_list(i), x -> 0))[0]": SORTED,
    "slice(sort_array(collect_list(i) ignore nulls), 1, 2)": SORTED,
    "size(collect_list(i order by l))": SORTED,
    "collect_list(i, l)": SORTED,
    "`collect_list`(i)": SORTED,
    "builtin.collect_list(i)": "has collect_list with a place before it; write the name alone",
    "collect_set(m)": "collect_set takes no maps, which Spark does not compare",
    "array_sort(collect_list(s), (a, b) -> 0)[0]": "array_sort has a comparison of its own",
    "sort_array(collect_list(m))[0]": "sorts maps, which have no order",
    "sort_array(collect_set(s))": f"{BOUND} `slice(sort_array(…), 1, 100)` of at most 10,000, or",
    "slice(sort_array(collect_list(i)), 1, 10001)": BOUND,
    "slice(sort_array(collect_list(i)), 1, count(*))": BOUND,
    "array_distinct(sort_array(collect_list(i)))": BOUND,
    "max_by(i, l)": f"max_by {TIES} `max_by(…, struct(l, i))`",
    "min_by(i, l)": f"min_by {TIES} `min_by(…, struct(l, i)) filter (where l is not null)`",
    "max_by(struct(i, s), struct(ts, i))": "as in `max_by(…, struct(ts, i, s))`",
    "max_by(i + l, struct(i, l))": "as in `max_by(…, struct(i, l, i + l))`",
    "max_by(i, struct(ts, i), 3)": "max_by has a third argument, for several rows; collect them:",
    "max_by(m, struct(m))": "max_by orders by a map, which has no order",
    "max_by(i, struct(i, m))": "max_by orders by a map",
    "mode(s collate UTF8_LCASE, true)": "has a collation, by which texts are equal that are not",
    "sort_array(collect_list(collate(s, 'UNICODE_CI')))[0]": "has a collation",
    "max_by(s, struct(s collate UTF8_LCASE, s))": "has a collation",
    "mode() within group (order by i)": "has WITHIN GROUP; write `percentile(x, 0.5)`, or",
    "listagg(s)": "write `array_join(slice(sort_array(collect_list(…)), 1, 100), ',')`",
    "last(i)": "write `max_by(x, struct(t, x))`",
    "any_value(i)": "write `min(…)`",
}


@pytest.mark.parametrize("text", FROM_BRONZE_ALONE)
def test_what_keeps_all_values_stands_in_forms_that_no_order_of_rows_changes(text: str) -> None:
    assert check_measure(text, SCOPE) == []
    assert keeps_no_bound(text)


@pytest.mark.parametrize("text", BY_THE_ENGINE)
def test_what_keeps_a_bounded_state_stays_with_the_engine(text: str) -> None:
    assert check_measure(text, SCOPE) == []
    assert not keeps_no_bound(text)


@pytest.mark.parametrize("text", REFUSED)
def test_another_form_is_refused_with_the_way_to_write_it(text: str) -> None:
    assert REFUSED[text] in check_measure(text, SCOPE)[0].message


@pytest.mark.parametrize("text", [one for one in REFUSED if "as in `" in REFUSED[one]])
def test_the_order_that_a_refusal_proposes_is_taken(text: str) -> None:
    told = check_measure(text, SCOPE)[0].message
    (order,) = re.findall(r"(struct\(.*\))\)(?:`| filter)", told)
    value = re.findall(r"m\w\w_by\((struct\(.*?\)|[^,]*),", text)[0]
    assert check_measure(f"max_by({value}, {order})", SCOPE) == []


def test_what_is_collected_is_found_whole_whatever_stands_in_it() -> None:
    text = (
        "max_by(f(a, b[g(1, 2)]), struct(t, 'x, y')) + size(COLLECT_SET(DISTINCT x /* , */)) "
        "+ mode('it''s (', true) + sum(mode) + collect_list(a) filter (where b)"
    )
    assert canonical_values(text, lambda value: f"<{value}>") == (
        "max_by(<f(a, b[g(1, 2)])>, struct(t, 'x, y')) + size(COLLECT_SET(DISTINCT <x /* , */>)) "
        "+ mode(<'it''s ('>, true) + sum(mode) + collect_list(<a>) filter (where b)"
    )


@pytest.mark.parametrize(
    "text",
    ["mode(dec, true)", "max_by(dec, struct(ts, dec))", "min_by(dec, dec) filter (where b)"],
)
def test_a_check_knows_the_type_of_what_is_chosen_among_the_values_of_a_column(text: str) -> None:
    assert measure_types(text, SCOPE)[1] == kind_of_type(SCOPE["dec"].type)


MEASURES = "measures: {clicks: count(*), longest: max(took)}"
PAGES = 'measures: {who: "count(distinct took)", share: who / count(*)}'


@pytest.mark.parametrize("mode", ["update", "append"])
def test_a_table_with_such_a_measure_is_computed_from_bronze_and_its_file_does_not_say_so(
    load: Load, mode: str
) -> None:
    text = GOOD.replace(MEASURES, f"{PAGES}\n    output_mode: {mode}")
    pipeline = load(text)
    table = pipeline.tables["page_10m"]
    assert (table.unbounded, table.stream, table.recomputes) == ("who", "recompute", True)
    assert "stream" not in pipeline.content()["tables"]["page_10m"]
    assert load(GOOD).tables["page_10m"].stream == "engine"
    said = load(text.replace(PAGES, f"{PAGES}\n    stream: recompute"))
    assert said.tables["page_10m"].recomputes


@pytest.mark.parametrize(
    ("lines", "field", "way"),
    [
        ("stream: engine", "stream", "leave it out"),
        (
            "output_mode: complete\n    accept_unbounded_state: true",
            "output_mode",
            "choose another mode",
        ),
    ],
)
def test_what_would_have_it_in_a_state_is_refused(
    problems: Problems, lines: str, field: str, way: str
) -> None:
    (found,) = problems((MEASURES, f"{PAGES}\n    {lines}"))
    assert found.field == f"tables.page_10m.{field}"
    assert "`who` keeps all values of a window, so that the state of a query would" in found.message
    assert found.message.endswith(way)
