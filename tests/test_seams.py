"""The seams stay narrow: who adds a kind has few questions to answer."""

import pytest

from tidemark.operators.operator import Operator
from tidemark.sources.source import SourceHandle

_MOST = 20


@pytest.mark.parametrize("seam", [Operator, SourceHandle])
def test_a_seam_has_at_most_twenty_members(seam: type) -> None:
    members = {*vars(seam), *seam.__annotations__}
    assert len([name for name in members if not name.startswith("_")]) <= _MOST
