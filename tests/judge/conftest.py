"""What tests of the judge share."""

from __future__ import annotations

import pytest

from tidemark.judge import judge


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few lines there are, the faster tiers take what they can, and not all at once."""
    monkeypatch.setattr(judge, "_FEW_LINES", 1)
    monkeypatch.setattr(judge, "_PORTION_LINES", 5)
    monkeypatch.setattr(judge, "_WORTH_LEARNING", 1)
    monkeypatch.setattr(judge, "_CUT_LINES", 23)
