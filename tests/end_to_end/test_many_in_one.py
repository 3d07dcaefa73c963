"""Many pipelines in one Spark come to what each of them comes to in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.end_to_end import many_alone
from tests.end_to_end.many_rounds import CONTENTS, ROUNDS, SET, asked, land, place_of, write_files
from tests.kit.patience import HUNG_SECONDS
from tests.kit.running import REPOSITORY
from tidemark.pipeline.model import Pipeline
from tidemark.pipeline.settings.settings import Settings
from tidemark.pipeline.settings.state import PROVIDER
from tidemark.runs.results.result import RunResult
from tidemark.storage.result_file import read_result
from tidemark.streaming.engine.sessions import make_default
from tidemark.streaming.jobs.many import SharedEngine, run_all

# The engine's settings that pipelines change here.
CHANGED = ("spark.sql.shuffle.partitions", PROVIDER, "spark.sql.adaptive.enabled")
# Ids of tables, queries and rejects; and the second in which a lookup was copied, its version.
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|\b1\d{9}\b")
# What tells when something was done.
TIMES = ("_batch_time", "written_at", "started_at", "ended_at", "seconds")


class Watched(SharedEngine):
    """Leaves in each session what must not be found in the next one."""

    def session_of(self, pipeline: Pipeline, settings: Settings) -> SparkSession:
        session = super().session_of(pipeline, settings)
        assert session.catalog.listTables() == []
        assert not session.catalog.functionExists("left_behind")
        assert "spark.sql.left" not in session.conf.getAll
        assert self.first is not None
        usual = [self.first.conf.get(name, None) for name in CHANGED]
        found = [session.conf.get(name, None) for name in CHANGED]
        assert found == list(SET.get(pipeline.name, usual))
        assert SparkSession.getActiveSession() is session
        session.range(1).createOrReplaceTempView("left_behind")
        session.udf.register("left_behind", lambda: 1, "long")
        session.conf.set("spark.sql.left", "behind")
        return session


@pytest.mark.long
@pytest.mark.process
def test_many_come_to_what_each_comes_to_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, alone = tmp_path / "together", tmp_path / "alone"
    for root in (together, alone):
        write_files(root)
    for name, value in place_of(together, "named").variables.items():
        monkeypatch.setenv(name, value)
    try:
        for number in ROUNDS:
            for name in CONTENTS:
                land(together, name, number)
            requests = [asked(together, name, number) for name in CONTENTS]
            # Of the first round the check passes, and so it does when it is mended.
            assert run_all(requests, Watched("tests", spark)) == (1 if number == 2 else 0)
    finally:
        make_default(spark)
    for name in CONTENTS:
        _run_alone(alone, name)
    assert {name: _facts(together, name) for name in CONTENTS} == {
        name: _facts(alone, name) for name in CONTENTS
    }
    assert read_result(RunResult, place_of(together, "checked").places.result("run-2"), {}).error
    counted = [
        place_of(together, name).gold("t")["so_far"] for name in ("fold_by_one", "fold_by_ten")
    ]
    assert [10 * one for one in counted[0].to_pylist()] == counted[1].to_pylist()


def _run_alone(root: Path, name: str) -> None:
    place = place_of(root, name)
    subprocess.run(
        ["spark-submit", "--master", "local[2]", many_alone.__file__, str(root), name],
        env=os.environ | place.variables | {"PYSPARK_PYTHON": sys.executable},
        cwd=REPOSITORY, check=True, timeout=HUNG_SECONDS,
    )  # fmt: skip


def _facts(root: Path, name: str) -> dict[str, Any]:
    """All that a pipeline's runs came to, but for when, and for names of files, which hold the
    root's."""
    place = place_of(root, name)
    results = [
        read_result(RunResult, place.places.result(f"run-{number}"), {}) for number in ROUNDS
    ]
    tables = {
        "gold": place.gold("t"),
        "changes": place.changes("t"),
        "bronze": place.bronze(),
        "rejects": place.rejects(),
        "ledger": place.table(place.places.ledger),
    }
    return {
        "results": [_told(one.model_dump(), root) for one in results],
        **{of: sorted(_told(row, root) for row in rows.to_pylist()) for of, rows in tables.items()},
    }


def _told(row: dict[str, Any], root: Path) -> str:
    """A row without when it was written, and without the ids that a query gets by chance."""
    kept = {name: value for name, value in row.items() if name not in TIMES}
    return _ID.sub("ID", repr(kept).replace(str(root), "ROOT"))
