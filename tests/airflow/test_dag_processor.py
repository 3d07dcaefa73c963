"""The real Dag processor, with a metadata database of its own."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from demo.environment import airflow_environment, prepare_home
from tests.kit.patience import HUNG_SECONDS

REPOSITORY = Path(__file__).resolve().parents[2]


class Processor:
    """Runs of the Dag processor over this repository's `dags`."""

    def __init__(self, home: Path) -> None:
        paths = {"PYTHONPATH": str(REPOSITORY / "include")}
        self._environment = airflow_environment({**os.environ, **paths}, prepare_home(home))
        self._database = home / "airflow.db"
        self._airflow("db", "migrate")

    def run(self) -> None:
        """Parse each Dag file once."""
        self._airflow("dag-processor", "--num-runs", "1")

    def import_errors(self) -> dict[str, str]:
        found = self._query("SELECT filename, stacktrace FROM import_error")
        return {Path(file).name: error for file, error in found}

    def dags(self) -> list[str]:
        """The Dags that the scheduler sees: serialized, and not gone since."""
        query = """
            SELECT DISTINCT dag.dag_id FROM dag JOIN serialized_dag USING (dag_id)
            WHERE NOT dag.is_stale AND NOT dag.has_import_errors ORDER BY 1
        """
        return [str(row[0]) for row in self._query(query)]

    def _query(self, sql: str) -> list[tuple[str, ...]]:
        with closing(sqlite3.connect(self._database)) as connection:
            return connection.execute(sql).fetchall()

    def _airflow(self, *command: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *command],
            env=self._environment,
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=HUNG_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def processor(write_pipeline: Callable[..., Path], tmp_path: Path) -> Processor:
    # Takes the settings' variable that write_pipeline sets.
    return Processor(tmp_path / "airflow")


@pytest.mark.slow
def test_a_broken_file_is_one_import_error_until_mended_and_the_good_dags_stay(
    write_pipeline: Callable[..., Path], processor: Processor
) -> None:
    write_pipeline("visits", schedule="@hourly")
    write_pipeline("hits")
    broken = write_pipeline("broken", "source: {}\nwatermark: {delay: soon}\n")

    processor.run()
    errors = processor.import_errors()
    assert list(errors) == ["pipeline_errors.py"]
    message = errors["pipeline_errors.py"]
    assert "1 of 3 pipeline files" in message
    assert str(broken) in message
    assert "watermark.delay" in message
    assert "tables" in message
    assert processor.dags() == sorted(
        f"{name}{ending}"
        for name in ("hits", "visits")
        for ending in ("", "__backfill", "__migrate", "__rewind", "__retract", "__maintenance")
    )

    write_pipeline("broken")
    processor.run()
    assert processor.import_errors() == {}
    assert [dag for dag in processor.dags() if "__" not in dag] == ["broken", "hits", "visits"]
