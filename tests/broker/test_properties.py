"""What a node is told reads in Java as it was meant, whatever a folder is named."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.properties import escaped

# As `java.util.Properties.load` takes a value apart: \uXXXX is a unit of UTF-16, \x is x.
ESCAPE = re.compile(r"\\(?:u([0-9a-f]{4})|(.))")


def as_java_reads(value: str) -> str:
    units = ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], value)
    return units.encode("utf-16", "surrogatepass").decode("utf-16")


@pytest.mark.slow
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_value_is_read_as_it_was_meant_and_is_one_line_of_ascii(value: str) -> None:
    assert as_java_reads(escaped(value)) == value
    assert escaped(value).isascii()
    assert escaped(value).isprintable()


def test_a_folder_is_read_as_it_is_named() -> None:
    assert escaped("/my folder/é") == r"/my folder/\u00e9"
