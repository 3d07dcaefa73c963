"""What `tidemark validate` says of a join: the other pipeline, the keys, the range, the limits."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tidemark.pipeline.load import load_pipeline
from tidemark.pipeline.model import JoinTable, Pipeline
from tidemark.pipeline.problems import PipelineFileInvalid

JOIN = {"with": "clicks", "on": ["id"], "within": "1 hour"}


def clicks(**changes: Any) -> dict[str, Any]:
    content: dict[str, Any] = {
        "source": {
            "files": "landing/clicks/*.json",
            "columns": {
                "at": "timestamp",
                "id": "string",
                "number": "int",
                "cost": "double",
                "tags": "array<string>",
            },
            "event_time": {"column": "at"},
            "derive": {"dear": "cost > 3", "twice": "number * 2"},
        },
        "watermark": {"delay": "5 minutes"},
        "tables": {"hourly": {"window": {"length": "1 hour"}}},
    }
    return content | changes


def impressions(join: Any = JOIN, **table: Any) -> dict[str, Any]:
    columns = {"at": "timestamp", "id": "string", "number": "long", "spot": "string"}
    return {
        "source": {
            "files": "landing/impressions/*.json",
            "columns": columns,
            "event_time": {"column": "at"},
        },
        "watermark": {"delay": "10 minutes"},
        "tables": {"t": {"window": {"length": "10 minutes"}, "join": join, **table}},
    }


def load(folder: Path, content: dict[str, Any], other: dict[str, Any] | None = None) -> Pipeline:
    for name, one in (("impressions", content), ("clicks", other or clicks())):
        with (folder / f"{name}.yaml").open("w") as out:
            YAML().dump(one, out)
    return load_pipeline(folder / "impressions.yaml")


def problems(folder: Path, content: dict[str, Any], other: dict[str, Any] | None = None) -> str:
    with pytest.raises(PipelineFileInvalid) as raised:
        load(folder, content, other)
    return "\n".join(problem.text for problem in raised.value.problems)


def test_a_join_is_read_with_what_it_takes_from_the_other_file(tmp_path: Path) -> None:
    measures = {"cost": "sum(clicks.cost)", "seen": "count(*)", "dear": "count_if(clicks.dear)"}
    pipeline = load(tmp_path, impressions({**JOIN, "type": "left"}, measures=measures))
    table = pipeline.tables["t"]
    assert isinstance(table, JoinTable)
    assert (table.join.other, table.join.on, table.join.type) == ("clicks", {"id": "id"}, "left")
    assert pipeline.partner("clicks").watermark.delay.total_seconds() == 300
    assert table.rows_are == "10 minutes, joined with clicks within 1 hour after"
    assert Pipeline.model_validate_json(pipeline.model_dump_json()) == pipeline


def test_the_other_pipeline_may_join_in_turn(tmp_path: Path) -> None:
    back = {"with": "impressions", "on": ["id"], "within": "1 hour"}
    other = clicks(tables={"t": {"window": {"length": "1 hour"}, "join": back}})
    assert load(tmp_path, impressions(), other).partners.keys() == {"clicks"}


@pytest.mark.parametrize(
    ("join", "said"),
    [
        ({**JOIN, "with": "click"}, "is no pipeline"),
        ({**JOIN, "with": "click"}, "Did you mean `clicks`?"),
        ({**JOIN, "with": "impressions"}, "is this pipeline itself"),
        ({"with": "clicks", "on": ["id"]}, "within: is missing"),
        ({**JOIN, "within": "0 seconds"}, "must be longer than zero"),
        ({**JOIN, "within": {"before": "0 s"}}, "must be longer than zero"),
        ({**JOIN, "on": []}, "needs at least one entry"),
        ({**JOIN, "on": ["id", "id"]}, "names a column twice"),
        ({**JOIN, "on": ["nr"]}, "is neither a column nor a derived name"),
        ({**JOIN, "on": {"id": "key"}}, "is neither a column nor a derived name of clicks"),
        ({**JOIN, "on": ["number"]}, "is of type bigint here and `number` of type int in clicks"),
        ({**JOIN, "on": {"number": "twice"}}, "is derived, and its type cannot be told"),
        ({**JOIN, "on": {"id": "cost"}}, "is of type double, which is no key"),
        ({**JOIN, "on": {"id": "tags"}}, "which is no key"),
        ({**JOIN, "type": "full"}, "is not allowed; allowed: 'inner' or 'left'"),
        ({**JOIN, "until": "1 hour"}, "is not a known key; allowed: with, on, within, type"),
    ],
)
def test_what_is_wrong_with_a_join_is_said_in_words(
    tmp_path: Path, join: dict[str, Any], said: str
) -> None:
    assert said in problems(tmp_path, impressions(join))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"output_mode": "update"}, "LeftOuter join … is not supported in Update output mode"),
        ({"output_mode": "complete"}, "is not possible for joins"),
        ({"measures": {"x": "sum(clicks.price)"}}, "has no field `price`"),
        ({"measures": {"x": "sum(cost)"}}, "`cost` is not a column"),
        ({"measures": {"x": "max(size(clicks.tags))"}}, "an array, a map or a struct"),
        ({"measures": {"x": "max_by(clicks, clicks.cost)"}}, "reads `clicks`"),
        ({"measures": {"matches": "count(*)"}}, "is kept in a table that joins"),
        ({"group_by": ["clicks.cost"]}, "is neither a column nor a derived name"),
    ],
)
def test_what_a_table_cannot_have_is_said_in_words(
    tmp_path: Path, table: dict[str, Any], said: str
) -> None:
    assert said in problems(tmp_path, impressions(**table))


def test_the_other_pipeline_has_keep_only_where_this_one_has_it_too(tmp_path: Path) -> None:
    said = problems(tmp_path, impressions(), clicks(keep="30 days"))
    assert "has `keep`, and this pipeline has none" in said
    own = {**impressions(), "keep": "7 days"}
    assert load(tmp_path, own, clicks(keep="30 days")).keep == timedelta(days=7)
    assert load(tmp_path, own).keep == timedelta(days=7)


def test_the_other_file_has_to_be_good_itself(tmp_path: Path) -> None:
    said = problems(tmp_path, impressions(), clicks(watermark={"delay": "soon"}))
    assert "is a pipeline whose own file is not good (clicks.yaml, line" in said
    assert "watermark.delay: `soon`" in said


def test_of_another_file_that_is_no_yaml_that_is_told(tmp_path: Path) -> None:
    load(tmp_path, impressions())
    (tmp_path / "clicks.yaml").write_text("source: {files: a/*.json\nwatermark: x\n")
    with pytest.raises(PipelineFileInvalid) as caught:
        load_pipeline(tmp_path / "impressions.yaml")
    (problem,) = caught.value.problems
    assert (
        "`clicks`: is a pipeline whose own file is not good (clicks.yaml, line 2): " in problem.text
    )
    assert "is not YAML" in problem.text


def test_a_column_called_like_the_other_pipeline_is_refused(tmp_path: Path) -> None:
    content = impressions()
    content["source"]["columns"]["clicks"] = "long"
    assert "has the name of a column of this pipeline" in problems(tmp_path, content)


def test_partners_are_not_given_in_the_file(tmp_path: Path) -> None:
    assert "partners: is not given in the file" in problems(
        tmp_path, {**impressions(), "partners": {}}
    )
