"""Whatever mixture of acts a pipeline goes through, its tables are those of a model of them.

A failure tells the acts of its seed, one a line; the same seed draws the same ones. How many seeds,
from which one on, and of one kind only, say variables:
`TIDEMARK_TEST_ACTS=50 TIDEMARK_TEST_ACTS_FROM=100 TIDEMARK_TEST_ACTS_KIND=folds`.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.operators.contract.acts import ActsPlace, Campaign
from tests.operators.contract.followed_acts import FollowedCampaign, FollowingPlace
from tests.operators.contract.kinds import KINDS, Kind
from tidemark.upkeep.maintenance import plan_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = int(os.environ.get("TIDEMARK_TEST_ACTS_FROM", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("TIDEMARK_TEST_ACTS", "5")))
ACTS, FEW_ACTS = 14, 5
# Coprime to the number of kinds: a few seeds are of different families.
_APART = 11


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two files are packed, and each maintenance leaves a checkpoint."""
    importlib.import_module("tests.operators.contract.streamed_stretches")
    monkeypatch.setattr(plan_table, "_FEWEST", 2)
    monkeypatch.setattr(plan_table, "_MOST_AFTER_A_CHECKPOINT", 1)


def kind_of(seed: int) -> Kind:
    named = os.environ.get("TIDEMARK_TEST_ACTS_KIND")
    return KINDS[named] if named else [*KINDS.values()][seed * _APART % len(KINDS)]


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_after_random_acts_on_files_all_tables_are_those_of_plain_python(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    go(Campaign(spark, ActsPlace(tmp_path / "root", kind=kind_of(seed)), seed), ACTS)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_after_random_acts_on_a_followed_table_all_tables_are_those_of_plain_python(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    place = FollowingPlace(tmp_path / "root", kind=kind_of(seed))
    go(FollowedCampaign(spark, place, seed), ACTS)


def test_after_a_few_random_acts_all_tables_are_those_of_plain_python(
    spark: SparkSession, tmp_path: Path
) -> None:
    go(Campaign(spark, ActsPlace(tmp_path / "root", kind=KINDS["windows-append"]), 3), FEW_ACTS)


def go(campaign: Campaign, acts: int) -> None:
    campaign.place.root.mkdir()
    try:
        campaign.go(acts)
    finally:
        name = campaign.place.kind.name
        print(f"{name} {campaign.seed}:", dict(campaign.counts), *campaign.told, sep="\n  ")
