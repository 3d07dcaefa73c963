"""Fixtures that all tests share, and which test process runs what.

At most two Spark processes live at once: tests that ask for the `spark` fixture share one
session in one test process, tests that start jobs of their own (marked `process`) run one
after the other in another.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The same cases in every run; how many is the test's own choice.
settings.register_profile("tidemark", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("tidemark")


# Before xdist's own hook, which reads the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif item.get_closest_marker("process"):
            item.add_marker(pytest.mark.xdist_group("process"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One warm session with the platform's own settings, on two cores."""

    from tests.runs import session_for_tests

    session: SparkSession = session_for_tests()
    yield session
    session.stop()
