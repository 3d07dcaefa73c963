"""What Airflow's UI says of a pipeline."""

from __future__ import annotations

from tests.kit.running import clicks
from tidemark.airflow.describe import describe
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
