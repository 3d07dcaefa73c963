"""How often a run asks an object store, as the store counts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.patience import HUNG_SECONDS
from tests.kit.running import REPOSITORY, Place, clicks, succeed
from tests.storage.s3 import Requests, copy_to_store, s3_server
from tidemark.cli.gate import tell_verdicts
from tidemark.gold.checkpoints import ingest_checkpoint
from tidemark.pipeline.settings.settings import Settings
from tidemark.quality.gate import at_once
from tidemark.runs.results.result import RunResult
from tidemark.runs.without_spark import run_without_spark
from tidemark.sources.kinds import source_handle
from tidemark.sources.source import LossAcceptance
from tidemark.storage import file_place
from tidemark.storage.files import write_bytes
from tidemark.storage.warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = "s3://lake/root"
# Each may only become less: of a store far away one takes some ten milliseconds, and all are paid.
MOST_OF_NOTHING_NEW = 109
MOST_OF_A_SMALL_RUN = 1_110


def rows(number: int) -> list[dict[str, object]]:
    at = f"2026-07-01T1{number}"
    return [{"at": f"{at}:{i % 60:02}:00Z", "key": f"k{i % 7}", "amount": i} for i in range(300)]


def shown(found: Counter[str]) -> str:
    lines = [f"{number:5}  {kind}" for kind, number in found.most_common()]
    return "\n".join([f"{found.total():5}  in all", *lines])


@pytest.fixture
def requests(tmp_path: Path) -> Requests:
    return Requests(tmp_path / "requests")


def test_a_run_with_nothing_new_asks_a_store_no_more_often_than_it_has_to(
    spark: SparkSession, tmp_path: Path, requests: Requests, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(tmp_path / "root")
    for number in range(3):
        place.land(f"{number}.json", rows(number))
        succeed(spark, place, f"run {number}")
    # By which a run records how its pipeline stands.
    place.write_file()
    with s3_server(requests=requests.file) as options:
        copy_to_store(place.root, ROOT, options)
        settings = replace_root(place.settings, options)
        accept_the_move(place, settings)
        nothing_new(place, settings, "first")
        # As a process of its own would.
        monkeypatch.setattr(file_place, "_KEPT", {})
        asked = requests.from_now()
        nothing_new(place, settings, "second")
        found = asked.count()
    assert found.total() <= MOST_OF_NOTHING_NEW, shown(found)


def replace_root(settings: Settings, options: dict[str, str]) -> Settings:
    return settings.model_copy(update={"root": ROOT, "storage_options": options})


def accept_the_move(place: Place, settings: Settings) -> None:
    """The files of the first root are those of the store."""
    source = source_handle(place.pipeline, settings)
    checkpoint = ingest_checkpoint(Warehouse.of(place.name, settings))
    known = LossAcceptance("moved", "Ada", datetime.now(UTC))
    source.accept_lost(checkpoint, source.lost(checkpoint), known)


def nothing_new(place: Place, settings: Settings, run_id: str) -> None:
    """What `tidemark run` does, which starts no Spark here."""
    run = replace(place.run(run_id), settings=settings)
    uri = run.places.result(run_id)
    result = run_without_spark(run, datetime.now(UTC), uri, at_once(tell_verdicts))
    assert isinstance(result, RunResult), result
    assert (result.held, result.error) == (False, None)


@pytest.mark.long
@pytest.mark.process
def test_a_small_run_asks_a_store_no_more_often_than_it_has_to(
    tmp_path: Path, requests: Requests
) -> None:
    place = Place(tmp_path, clicks())
    place.write_file()
    with s3_server(requests=requests.file) as options:
        for number in range(3):
            text = "".join(f"{json.dumps(row)}\n" for row in rows(number))
            write_bytes(f"{ROOT}/landing/{number}.json", text.encode(), options)
            asked = requests.from_now()
            run_command(place, options)
        found = asked.count()
    assert found.total() <= MOST_OF_A_SMALL_RUN, shown(found)


def run_command(place: Place, options: dict[str, str]) -> None:
    own = place.variables | {
        "TIDEMARK_ROOT": ROOT,
        "TIDEMARK_STORAGE_OPTIONS": json.dumps(options),
        "PYSPARK_PYTHON": sys.executable,
    }
    done = subprocess.run(
        [sys.executable, "-m", "tidemark", "run", place.name, "--master", "local[1]"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | own,
        cwd=REPOSITORY,
        timeout=HUNG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
