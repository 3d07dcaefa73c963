"""Messages of Protobuf as lines: by the schema of their id, whatever the writer knew."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import json_format, message_factory
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.protobuf import pool_of, prefixed
from tidemark.sources.kafka.values import MessageValues, ValueUnusable, schema_text

SCHEMA = """
syntax = "proto3";
package acme;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
import "places/address.proto";

enum Kind { UNKNOWN = 0; SALE = 1; REFUND = 2; }

message Order {
  int64 id = 1;
  uint64 large = 2;
  double amount = 3;
  float share = 4;
  optional int32 rows = 5;
  string note = 6;
  bytes raw = 7;
  Kind kind = 8;
  repeated int32 sizes = 9;
  map<string, int64> by_shop = 10;
  map<bool, Line> lines = 11;
  google.protobuf.Timestamp at = 12;
  google.protobuf.Duration took = 13;
  google.protobuf.Struct rest = 14;
  google.protobuf.Int64Value maybe = 15;
  places.Address home = 16;
  oneof paid { string card = 17; bool cash = 18; }
  message Line { string item = 1; }
}
message Other { message Inner { int32 n = 1; } int32 m = 1; }
"""
ADDRESS = 'syntax = "proto3"; package places; message Address { string city = 1; }'
REFERENCES = {"places/address.proto": ADDRESS}
TEXT = schema_text("PROTOBUF", SCHEMA, REFERENCES)
VALUES = MessageValues("protobuf", {"7": TEXT})
POOL = pool_of(TEXT)


def message(name: str, content: dict[str, Any]) -> bytes:
    kind = message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"acme.{name}"))
    return bytes(json_format.ParseDict(content, kind(), descriptor_pool=POOL).SerializeToString())


def line(name: str, content: dict[str, Any], *indexes: int) -> dict[str, Any]:
    value = prefixed(7, message(name, content), *indexes)
    found: dict[str, Any] = json.loads(VALUES.line(value))
    return found


def why_not(value: bytes, values: MessageValues = VALUES) -> str:
    with pytest.raises(ValueUnusable) as error:
        values.line(value)
    return str(error.value)


def test_each_type_is_what_json_has_of_it() -> None:
    found = line(
        "Order",
        {
            "id": 2**62 + 1, "large": 2**64 - 1, "amount": 0.1, "share": 0.1, "rows": 0,
            "note": "ä \" \n", "raw": "AP8=", "kind": "REFUND", "sizes": [1, -2],
            "byShop": {"b": 2, "a": 2**60}, "lines": {"true": {"item": "x"}},
            "at": "2026-07-01T10:00:00.123456Z", "took": "1.500s", "rest": {"a": [1, None]},
            "maybe": 5, "home": {"city": "Graz"}, "cash": False,
        },
    )  # fmt: skip
    assert found == {
        "id": 2**62 + 1, "large": 2**64 - 1, "amount": 0.1, "share": 0.1, "rows": 0,
        "note": "ä \" \n", "raw": "AP8=", "kind": "REFUND", "sizes": [1, -2],
        "by_shop": {"a": 2**60, "b": 2}, "lines": {"true": {"item": "x"}},
        "at": "2026-07-01T10:00:00.123456Z", "took": "1.500s", "rest": {"a": [1.0, None]},
        "maybe": 5, "home": {"city": "Graz"}, "card": None, "cash": False,
    }  # fmt: skip


def test_what_is_not_set_is_null_where_the_schema_can_tell_and_zero_where_not() -> None:
    found = line("Order", {})
    nulls = {name for name, value in found.items() if value is None}
    assert nulls == {"rows", "at", "took", "rest", "maybe", "home", "card", "cash"}
    assert (found["id"], found["note"], found["kind"], found["sizes"]) == (0, "", "UNKNOWN", [])


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "id": st.integers(-(2**63), 2**63 - 1),
            "amount": st.floats(allow_nan=False, allow_infinity=False),
            "note": st.text(),
            "sizes": st.lists(st.integers(-(2**31), 2**31 - 1)),
            "card": st.text(),
        },
    )
)
def test_a_message_is_the_line_with_its_values(content: dict[str, Any]) -> None:
    found = line("Order", content)
    assert {name: found[name] for name in content} == content


def test_the_indexes_say_which_message_of_the_schema_it_is() -> None:
    assert line("Other", {"m": 5}, 1) == {"m": 5}
    assert line("Other.Inner", {"n": 6}, 1, 0) == {"n": 6}
    assert "It is no record of schema 7" in why_not(prefixed(7, b"", 5))
    assert "index is -1" in why_not(b"\0" + struct.pack(">I", 7) + b"\x02\x01")
    assert "are no numbers" in why_not(b"\0" + struct.pack(">I", 7) + b"\xff" * 9)


def test_a_field_that_the_schema_does_not_know_is_passed_over_and_a_new_enum_is_a_number() -> None:
    # Field 99, and 9 as a kind.
    assert VALUES.line(prefixed(7, b"\x98\x06\x01" + b"\x40\x09")).count(b'"kind": 9') == 1


def test_a_message_that_is_cut_or_has_no_json_is_none() -> None:
    whole = message("Order", {"note": "abc", "amount": 1.5})
    for cut in (1, 2, 3, len(whole) - 1):
        assert "no record of schema 7" in why_not(prefixed(7, whole[:cut]))
    assert why_not(prefixed(7, message("Order", {"amount": "NaN"})))
    assert math.isnan(float("nan"))


def broken(text: str) -> MessageValues:
    return MessageValues("protobuf", {"7": text})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (lambda: schema_text("PROTOBUF", 'syntax = "proto3"; message A { int32 }', {}), "protoc"),
        (lambda: schema_text("PROTOBUF", SCHEMA, {}), "places/address.proto: File not found"),
        (lambda: schema_text("PROTOBUF", SCHEMA, {"../a.proto": ADDRESS}), "leads elsewhere"),
        (lambda: schema_text("AVRO", '"string"', {}), "a schema of AVRO"),
    ],
)
def test_a_schema_that_reads_no_message_says_so(text: Callable[[], str], why: str) -> None:
    assert why in why_not(prefixed(7, b""), broken(text()))
