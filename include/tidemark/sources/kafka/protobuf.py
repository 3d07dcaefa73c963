"""Messages of Protobuf as JSON lines, by the schemas of a registry.

A field has its name in the schema. One that is not set is null where it can tell that (messages,
`optional`, `oneof`), and its type's zero where it cannot. Numbers are numbers, whatever their size;
an enum's value is its name, or its number where it has none; bytes are base64. Of Google's own
types an instant is ISO 8601 in UTC, a duration text, a wrapper its value, a struct an object.

Source: protobuf.dev, *Proto Limits* and *ProtoJSON Format*, but for 64-bit numbers, which are text
there; docs.confluent.io, *Wire format*, for the indexes of a message within its schema.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.internal.type_checkers import ToShortestFloat
from google.protobuf.message import Message

_COMPILER_SECONDS = 60
_MAIN = "tidemark_schema_of_the_value.proto"
# Types that are one value in JSON.
_AS_TEXT = {"google.protobuf." + name for name in ("Timestamp", "Duration", "FieldMask")}
_AS_JSON = {"google.protobuf." + name for name in ("Struct", "Value", "ListValue", "Any")}
_WRAPPED = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}


def compiled(schema: str, references: Mapping[str, str]) -> str:
    """A schema, and those that it imports by their names, as a set of descriptors in base64: what
    reading a message takes. ValueError says why it is none.

    Compiled by protoc in a process of its own: what a registry holds is somebody else's.
    """
    with tempfile.TemporaryDirectory(prefix="tidemark-") as folder:
        for name, text in {**references, _MAIN: schema}.items():
            place = PurePosixPath(name)
            if place.is_absolute() or ".." in place.parts:
                raise ValueError(f"it imports {name}, which leads elsewhere")
            file = Path(folder, place)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        made = Path(folder, "descriptors")
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", "--include_imports"]
        command += [f"--descriptor_set_out={made}", _MAIN]
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=_COMPILER_SECONDS, check=False
        )
        if ended.returncode:
            said = ended.stderr.strip().replace(_MAIN, "the schema")
            raise ValueError(f"protoc does not compile it: {said[-500:]}")
        return base64.b64encode(made.read_bytes()).decode()


def protobuf_reader(descriptors: str) -> Callable[[bytes], bytes]:
    """A function from what lies behind a schema's id (indexes, message) to its line. It raises
    nearly any error for bytes that are no such message."""
    found = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(descriptors))
    pool = descriptor_pool.DescriptorPool()
    for file in found.file:
        pool.Add(file)
    main = pool.FindFileByName(_MAIN)
    of_file = [main.message_types_by_name[one.name] for one in found.file[-1].message_type]

    def line(value: bytes) -> bytes:
        indexes, begin = _indexes(value)
        kind = of_file[indexes[0]]
        for index in indexes[1:]:
            kind = kind.nested_types[index]
        message = message_factory.GetMessageClass(kind)()
        message.ParseFromString(value[begin:])
        return json.dumps(_of_message(message, pool), ensure_ascii=False, allow_nan=False).encode()

    return line


def _indexes(value: bytes) -> tuple[list[int], int]:
    """Which message of the schema it is: a path of places; and where it begins. None is the first
    one."""
    number, place = _varint(value, 0)
    indexes = []
    for _ in range(number):
        index, place = _varint(value, place)
        if index < 0:
            raise ValueError(f"the message's index is {index}")
        indexes.append(index)
    return indexes or [0], place


def _varint(value: bytes, place: int) -> tuple[int, int]:
    """A number in Protobuf's zigzag form, and what lies behind it."""
    number = 0
    for shift in range(0, 35, 7):
        byte = value[place]
        number |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), place
    raise ValueError("the message's indexes are no numbers")


def _of_message(message: Message, pool: descriptor_pool.DescriptorPool) -> Any:
    kind: Descriptor = message.DESCRIPTOR
    name = kind.full_name
    known: Any = message
    if name in _AS_TEXT:
        return known.ToJsonString()
    if name in _AS_JSON:
        return json_format.MessageToDict(message, descriptor_pool=pool)
    if name in _WRAPPED:
        return _of_value(kind.fields_by_name["value"], known.value, pool)
    return {one.name: _of_field(one, message, pool) for one in kind.fields}


def _of_field(
    field: FieldDescriptor, message: Message, pool: descriptor_pool.DescriptorPool
) -> Any:
    value = getattr(message, field.name)
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        of = entry.fields_by_name["value"]
        return {_key(key): _of_value(of, value[key], pool) for key in sorted(value)}
    if field.is_repeated:
        return [_of_value(field, one, pool) for one in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _of_value(field, value, pool)


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _of_value(field: FieldDescriptor, value: Any, pool: descriptor_pool.DescriptorPool) -> Any:
    if field.type in (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_GROUP):
        return _of_message(value, pool)
    if field.type == FieldDescriptor.TYPE_ENUM:
        named = field.enum_type.values_by_number.get(value)
        return value if named is None else named.name
    if field.type == FieldDescriptor.TYPE_BYTES:
        return base64.b64encode(value).decode()
    if field.type == FieldDescriptor.TYPE_FLOAT:
        return ToShortestFloat(value)
    return value
