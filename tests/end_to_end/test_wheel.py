"""The package as a wheel in an Airflow of its own, with the Dag file that the README shows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from deltalake import DeltaTable

from demo.environment import CONNECTION, REPOSITORY, set_up_environment
from tests.end_to_end.pages import examples_under, page

pytestmark = [pytest.mark.process, pytest.mark.long]

PIPELINE = "access_log"
# What a worker has for Spark, wherever it comes from: Java and Delta's jars.
OF_THE_MACHINE = ("PATH", "HOME", "JAVA_HOME", "SPARK_DIST_CLASSPATH", "PIP_", "SSL_", "REQUESTS_")


@dataclass(frozen=True)
class Installed:
    """A virtual environment with the wheel, by the lines of docs/airflow.md in a clone that is gone
    then, and a folder that is not the repository."""

    python: Path
    folder: Path
    environment: Mapping[str, str]

    def ask(self, *arguments: str) -> str:
        ran = subprocess.run(
            [str(self.python), *arguments],
            cwd=self.folder,
            env=dict(self.environment),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, f"{arguments}\n{ran.stdout[-5_000:]}\n{ran.stderr[-5_000:]}"
        return ran.stdout


@pytest.fixture
def installed(tmp_path: Path) -> Installed:
    of_machine = {
        name: value
        for name, value in set_up_environment().items()
        if name.startswith(OF_THE_MACHINE) or name.lower().endswith("_proxy")
    }
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    place, folder = tmp_path / "venv" / "bin", tmp_path / "elsewhere"
    folder.mkdir()
    environment = {
        **of_machine,
        "PATH": f"{place}:{of_machine['PATH']}",
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(CONNECTION),
    }
    # The versions of the lock, where the page's lines leave them open.
    pins, lock = tmp_path / "pins.txt", (REPOSITORY / "requirements.txt").read_text()
    pins.write_text("\n".join(re.findall(r"^[\w.\[\]-]+==\S+", lock, re.MULTILINE)))
    environment["PIP_CONSTRAINT"] = str(pins)
    clone = tmp_path / "clone"
    for name in ("pyproject.toml", "README.md", "LICENSE", "include"):
        source, target = REPOSITORY / name, clone / name
        target.parent.mkdir(exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    (lines,) = examples_under(page("airflow.md"), "Into an Airflow that you have", "sh")
    command = ["sh", "-euc", lines]
    typed = subprocess.run(
        command, cwd=clone, env=environment, capture_output=True, text=True, check=False
    )
    assert typed.returncode == 0, f"{typed.stdout[-5_000:]}\n{typed.stderr[-5_000:]}"
    shutil.rmtree(clone)
    return Installed(place / "python", folder, environment)


def test_a_wheel_and_three_lines_make_a_dag_that_runs(installed: Installed) -> None:
    folder = installed.folder
    pipelines, dags, landing = folder / "pipelines", folder / "dags", folder / "root" / "landing"
    for made in (pipelines, dags, landing):
        made.mkdir(parents=True)
    of_repository = REPOSITORY / "include"
    file = of_repository / "pipelines" / f"{PIPELINE}.yaml"
    (pipelines / file.name).write_text(file.read_text())
    (landing / PIPELINE).symlink_to(of_repository / "samples" / PIPELINE)
    (written,) = examples_under(page("../README.md"), "In your own Airflow", "python")
    assert len(written.splitlines()) == 3
    own = {"/path/to/pipelines": str(pipelines), "/path/to/warehouse": str(folder / "root")}
    for shown, place in own.items():
        assert shown in written
        written = written.replace(shown, place)
    (dags / "streams.py").write_text(written)

    package = Path(installed.ask("-c", "import tidemark; print(*tidemark.__path__)").strip())
    assert package.is_relative_to(installed.python.parent.parent)
    brought = {
        "settings.yaml": of_repository / "settings.yaml",
        "pipeline.schema.json": of_repository / "pipelines" / "pipeline.schema.json",
    }
    for name, source in brought.items():
        assert (package / name).read_text() == source.read_text()
    for job in (REPOSITORY / "jobs").glob("*.py"):
        assert "--result" in installed.ask(str(package / "streaming" / "jobs" / job.name), "--help")
    assert "good" in installed.ask("-m", "tidemark", "validate", str(pipelines / file.name))
    installed.ask("-m", "airflow", "db", "migrate")
    # Warnings come before it.
    told = installed.ask("-m", "airflow", "dags", "list", "-l", "-o", "json").splitlines()[-1]
    suffixes = ("", "__backfill", "__migrate", "__rewind", "__retract", "__maintenance")
    assert {dag["dag_id"] for dag in json.loads(told)} == {PIPELINE + suffix for suffix in suffixes}
    installed.ask("-m", "airflow", "dags", "test", PIPELINE)

    root = folder / "root"
    bronze = DeltaTable(root / PIPELINE / "bronze").to_pyarrow_dataset().count_rows()
    gold = DeltaTable(root / PIPELINE / "status_1h" / "gold").to_pyarrow_table()
    assert sum(gold.column("rows").to_pylist()) == bronze == 10_000
    (quality,) = {path.parent for path in (root / PIPELINE / "ops" / "quality").glob("_delta_log")}
    assert set(DeltaTable(quality).to_pyarrow_table().column("passed").to_pylist()) == {True}
