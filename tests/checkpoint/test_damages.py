"""The page docs/damage.md is true: what the doctor says of a damage, and what the engine does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.checkpoint.damage_table import (
    DIFFERENT,
    PAGE,
    agree,
    answers,
    doctors_half,
    engines_half,
    page,
)
from tests.checkpoint.damages import DAMAGES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.parametrize("name", DAMAGES)
def test_the_doctor_says_what_the_page_says(name: str, tmp_path: Path) -> None:
    recorded = answers()[name]
    assert doctors_half(DAMAGES[name], tmp_path / name) == {
        "verdict": recorded["verdict"],
        "findings": recorded["findings"],
    }


def test_the_page_tells_the_recorded_answers() -> None:
    assert PAGE.read_text() == page(answers())
    assert list(answers()) == list(DAMAGES)


def test_where_doctor_and_engine_differ_the_page_says_why() -> None:
    assert {name for name, said in answers().items() if not agree(said)} == set(DIFFERENT)


@pytest.mark.long
def test_the_engine_does_what_the_page_says(spark: SparkSession, tmp_path: Path) -> None:
    found: dict[str, Any] = {}
    for name, damage in DAMAGES.items():
        doctors_half(damage, tmp_path / name)
        found[name] = engines_half(spark, damage, tmp_path / name)
    assert found == {name: said["engine"] for name, said in answers().items()}
