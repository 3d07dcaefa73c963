"""The reference of a pipeline's file, as Markdown made from its JSON schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]


def reference_of(schema: Schema) -> str:
    """A page with a table for the file itself and for each part that it may have."""
    parts = [("A pipeline's file", schema), *sorted(schema["$defs"].items())]
    return "# Reference: a pipeline's file\n\n" + "\n".join(
        line for name, part in parts for line in _section(name, part)
    )


def _section(name: str, part: Schema) -> Iterator[str]:
    yield f"## {name}\n"
    if text := _text(part):
        yield f"{text}\n"
    if not (fields := part.get("properties")):
        yield f"{_type(part)}\n"
        return
    yield "| field | takes | default | |\n|---|---|---|---|"
    for field, told in fields.items():
        needed = field in part.get("required", ())
        default = "needed" if needed else _default(told.get("default"))
        yield f"| `{field}` | {_type(told)} | {default} | {_text(told)} |"
    yield ""


def _text(told: Schema) -> str:
    """What the schema says of it, in one line that a table can have."""
    inner = [_text(one) for one in told.get("anyOf", ())]
    own = " ".join(told.get("description", "").split()).replace("|", "\\|")
    return own or next((text for text in inner if text), "")


def _default(value: Any) -> str:
    return "" if value in (None, {}, []) or isinstance(value, dict) else f"`{json.dumps(value)}`"


def _type(told: Schema) -> str:
    """What a field takes: links to parts, words for simple values, its choices."""
    if "$ref" in told:
        name = told["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if choices := [*told.get("enum", ()), *([told["const"]] if "const" in told else [])]:
        return ", ".join(f"`{json.dumps(one)}`" for one in choices)
    if several := told.get("anyOf") or told.get("oneOf") or _branches(told):
        return " or ".join(dict.fromkeys(_type(one) for one in several if one != {"type": "null"}))
    if told.get("type") == "array":
        return f"a list of {_type(told.get('items', {}))}"
    if isinstance(values := told.get("additionalProperties"), dict):
        return f"names with {_type(values)}"
    return str(told.get("type", "any value"))


def _branches(told: Schema) -> list[Schema]:
    """What a schema with `if`, `then` and `else` may come to, the kinds of a source or a table."""
    return [told["then"], told["else"]] if "then" in told and "else" in told else []
