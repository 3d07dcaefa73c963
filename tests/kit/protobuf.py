"""Messages as the serializers of a schema registry write them."""

from __future__ import annotations

import base64
import json
import struct

from google.protobuf import descriptor_pb2, descriptor_pool


def prefixed(number: int, message: bytes, *indexes: int) -> bytes:
    """A message behind its schema's id and its place in it; none is the first message."""
    places = [len(indexes), *indexes] if indexes else [0]
    return b"\0" + struct.pack(">I", number) + bytes(2 * place for place in places) + message


def pool_of(text: str) -> descriptor_pool.DescriptorPool:
    """The types of a schema, as it is kept."""
    data = base64.b64decode(json.loads(text)["descriptors"])
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.Add(file)
    return pool
