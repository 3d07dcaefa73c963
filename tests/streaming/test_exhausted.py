"""An expression that takes more stack than there is ends the run, and is named with its row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.kit.running import Place, clicks, run_warm
from tidemark.errors import FAILED
from tidemark.pipeline.expressions import patterns
from tidemark.streaming.jobs.entry import job_exit_code

# What a file could have before `validate` refused it; there are other ways to a deep stack.
DEEP = "key rlike '(?:a|b)*c'"
COUNTED = {"deep": f"count_if({DEEP})"}
SOURCE = clicks()["source"]
TABLE = clicks()["tables"]["per_10m"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"source": {**SOURCE, "derive": {"long": "length(key)", "deep": DEEP}}},
         "source.derive.deep"),
        ({"source": {**SOURCE, "rules": [{"name": "deep", "reject": DEEP}]}}, "source.rules.deep"),
        ({"tables": {"per_10m": {**TABLE, "measures": {"n": "count(*)", **COUNTED}}}},
         "tables.per_10m.measures.deep"),
    ],
)  # fmt: skip
def test_it_is_told_which_and_no_retry_is_asked_for(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    named: str,
) -> None:
    monkeypatch.setattr(patterns, "why_refused", lambda _: None)
    place = Place(tmp_path, clicks(**changes))
    keys = ["ab", "c", "ab" * 2_000_000, "abc"]
    lines = [json.dumps({"at": "2026-07-01T00:00:00Z", "key": one, "amount": 1}) for one in keys]
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.json").write_text("\n".join(lines) + "\n")
    error = run_warm(spark, place).error
    assert error is not None
    assert error.type == "StackExhausted"
    assert job_exit_code(error) == FAILED
    where = f"It was {named}, on the row _file file://{tmp_path}/landing/a.json, _place "
    assert where in error.message
    assert ", key abab" in error.message
    assert len(error.message) < 1_500
