"""Many pipelines in one Spark come to what each of them comes to in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end import many_job
from tests.end_to_end.many_rounds import CONTENTS, ROUNDS, place_of, write_files
from tests.kit.patience import HUNG_SECONDS
from tests.kit.running import REPOSITORY
from tidemark.runs.results.result import RunResult
from tidemark.storage.result_file import read_result

# Ids of tables, queries and rejects; and the second in which a lookup was copied, its version.
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|\b1\d{9}\b")
# What tells when something was done.
TIMES = ("_batch_time", "written_at", "started_at", "ended_at", "seconds")


@pytest.mark.long
@pytest.mark.process
def test_many_come_to_what_each_comes_to_alone(tmp_path: Path) -> None:
    together, alone = tmp_path / "together", tmp_path / "alone"
    for root in (together, alone):
        write_files(root)
    _run(together)
    # In the second round the check of one fails, in the third it passes again.
    assert json.loads((together / "codes.json").read_text()) == [0, 1, 0]
    for name in CONTENTS:
        _run(alone, name)
    assert {name: _facts(together, name) for name in CONTENTS} == {
        name: _facts(alone, name) for name in CONTENTS
    }
    result = read_result(RunResult, place_of(together, "checked").places.result("run-2"), {})
    assert result.error is not None
    assert result.error.type == "ChecksFailed"
    by_one, by_ten = (
        place_of(together, name).gold("t")["so_far"].to_pylist()
        for name in ("fold_by_one", "fold_by_ten")
    )
    assert sorted(10 * one for one in by_one) == sorted(by_ten)


def _run(root: Path, *names: str) -> None:
    place = place_of(root, "named")
    subprocess.run(
        ["spark-submit", "--master", "local[2]", many_job.__file__, str(root), *names],
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
