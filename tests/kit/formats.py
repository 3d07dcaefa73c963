"""Files in formats that tests write."""

from __future__ import annotations

import io
from typing import Any

import fastavro


def record(name: str = "row", **fields: Any) -> dict[str, Any]:
    """A schema of Avro."""
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": listed}


def avro_bytes(schema: Any, rows: list[Any], **how: Any) -> bytes:
    """An Avro file."""
    out = io.BytesIO()
    fastavro.writer(out, schema, rows, **how)
    return out.getvalue()
