from __future__ import annotations

from pathlib import Path

import pytest

from setup.layout import Layout

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def repository() -> Path:
    return REPOSITORY


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """An empty repository of its own."""
    return Layout(tmp_path / "repo")


@pytest.fixture
def installed() -> Layout:
    """This repository, which `make test` has set up."""
    layout = Layout(REPOSITORY)
    if not layout.env_file.exists():
        pytest.fail("run the tests with `make test`, which does the set-up first")
    return layout
