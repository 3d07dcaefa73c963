"""A join's first run, that several files go on from."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.operators.contract.joins import Row
from tests.operators.contract.kinds import KindPlace, event, of
from tests.operators.contract.test_joins import a_place, landed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The place, and the rows that have landed: a test may add to them.
Joined = Callable[[], tuple[KindPlace, list[Row]]]


@pytest.fixture(scope="session")
def joined(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Joined:
    """A left join behind one run with a row of each side: as it was then, for each who asks."""
    place, rows = a_place(tmp_path_factory.mktemp("joined") / "root"), list[Row]()
    landed(spark, place, rows, "both", event(1), of(2))
    place.keep()

    def again() -> tuple[KindPlace, list[Row]]:
        found = place.again()
        assert isinstance(found, KindPlace)
        return found, list(rows)

    return again
