"""JSON that others wrote: a value, or ValueError; and whoever reads logs says damage then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.errors import CheckpointUnreadable, DataDamaged
from tidemark.sources.delta.log import read_version
from tidemark.sources.delta.offsets import Offset
from tidemark.sources.kafka.offsets import offset_of
from tidemark.storage.json_text import json_value, number_of

DEEP = 100_000
EVIL = ("[" * DEEP, '{"a":' * DEEP, "1e999", "NaN", "-Infinity", "9" * 5_000, "")
LONGS = st.integers(-(2**63) + 1, 2**63 - 1)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | LONGS
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_what_json_holds_is_read_as_it_is(value: object) -> None:
    assert json_value(json.dumps(value)) == value


@pytest.mark.parametrize("text", [*EVIL, str(2**63), "1" + "0" * 30])
def test_what_no_log_holds_is_no_value(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # its text is told by who reads
        json_value(text)


def test_decimals_in_statistics_may_be_larger_than_longs() -> None:
    assert json_value("1" + "0" * 37, whole=int) == 10**37


@given(st.integers(0))
def test_names_are_numbers_up_to_a_long(number: int) -> None:
    assert number_of(str(number)) == (number if number < 2**63 else None)


@pytest.mark.parametrize("text", EVIL)
def test_logs_of_others_and_our_own_offsets_are_damage_then(tmp_path: Path, text: str) -> None:
    entry = tmp_path / "_delta_log" / f"{0:020}.json"
    entry.parent.mkdir()
    entry.write_text(f'{{"add": {text}}}')
    with pytest.raises(DataDamaged, match="is no commit of a Delta table"):
        read_version(str(tmp_path), 0, {})
    with pytest.raises(CheckpointUnreadable):
        Offset.of(f'{{"snapshot": {text}}}', "offsets/0")
    with pytest.raises(CheckpointUnreadable):
        offset_of(f'{{"topic": {text}}}', "offsets/0")
