"""The engine's own reader of state, live, beside what Tidemark says of the same files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.checkpoint.archives import answers, unpack
from tests.checkpoint.damaged import diagnosis_of, kinds, remove
from tidemark.checkpoint.doctor.findings import FindingKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Of each store and version that the reader of Spark 4.2 can read without a name for each state.
READ = [
    f"{version}/{kind}"
    for version in ("4.0.1", "4.2.0")
    for kind in ("aggregate-hdfs-snapshots", "aggregate-rocksdb", "aggregate-changelog")
]


@pytest.fixture(autouse=True)
def _coordinator(spark: SparkSession) -> None:
    """The reader needs the coordinator of state stores, which the list of queries starts."""
    assert spark.streams.active is not None


def rows(spark: SparkSession, checkpoint: Path) -> int:
    return spark.read.format("statestore").load(str(checkpoint)).count()


@pytest.mark.parametrize("name", READ)
def test_what_the_doctor_calls_whole_is_read_with_all_of_its_rows(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    checkpoint = unpack(name, tmp_path)
    assert FindingKind.STATE not in kinds(diagnosis_of(checkpoint))
    (operator,) = answers(name)["operators"]
    assert rows(spark, checkpoint) == operator["rows"]


@pytest.mark.parametrize("name", ["4.2.0/aggregate-hdfs-snapshots", "4.2.0/aggregate-changelog"])
def test_the_reader_fails_just_where_the_doctor_says_that_state_is_lost(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """Each file of a store goes by itself, and then all of each version."""
    whole = unpack(name, tmp_path / "whole")
    files = sorted(p.name for p in (whole / "state/0/0").glob("[5-8].*"))
    versions = sorted({file.partition(".")[0] for file in files})
    together = [[one for one in files if one.startswith(f"{number}.")] for number in versions]
    lost = set()
    for gone in [*([file] for file in files), *together]:
        copy = tmp_path / "-".join(gone)
        shutil.copytree(whole, copy, dirs_exist_ok=True)
        for file in gone:
            remove(copy / "state/0/0" / file)
        said = FindingKind.STATE in kinds(diagnosis_of(copy))
        assert said == _fails(spark, copy), gone
        lost.add(said)
    assert lost == {True, False}


def _fails(spark: SparkSession, checkpoint: Path) -> bool:
    # The engine's classes are there only where Spark is.
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        rows(spark, checkpoint)
    except (PySparkException, Py4JJavaError):
        return True
    return False
