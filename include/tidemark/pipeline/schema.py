"""The JSON Schema of a pipeline file, for editors; `python -m tidemark.pipeline.schema` prints it.

It describes single values. What values say together, and SQL, is checked by `tidemark validate`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from tidemark.pipeline.model import SOURCE_KINDS, TABLE_KINDS, WINDOW_KINDS, Pipeline


def pipeline_schema() -> dict[str, Any]:
    """The schema of a file: a Pipeline without its name, which is the file's."""
    schema = Pipeline.model_json_schema(mode="validation")
    del schema["properties"]["name"]
    schema["required"].remove("name")
    # Filled in from the files of other pipelines.
    del schema["properties"]["partners"]
    del schema["$defs"]["Partner"]
    # Their defaults are other values of the same file.
    for model, name in (("EventTime", "max_future"), ("Window", "slide")):
        del schema["$defs"][model]["properties"][name]["default"]
    sources = schema["properties"]["source"].pop("anyOf")
    schema["properties"]["source"] |= _by_key(sources, SOURCE_KINDS, "FilesSource")
    tables = schema["properties"]["tables"]
    tables["additionalProperties"] = _by_its_keys(tables["additionalProperties"]["anyOf"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tidemark pipeline",
        **{key: value for key, value in schema.items() if key != "title"},
    }


def _by_its_keys(kinds: list[dict[str, Any]]) -> dict[str, Any]:
    """A table is of the kind that its keys tell, as `table_kind` has it: of several that it may be,
    editors would say that it is none, and not where."""
    by_name = _by_name(kinds)
    found: dict[str, Any] = by_name["WindowTable"]
    for key, kind in WINDOW_KINDS.items():
        window = {"required": ["window"], "properties": {"window": {"required": [key]}}}
        found = {"if": window, "then": by_name[kind.__name__], "else": found}
    return _told_by_key(by_name, TABLE_KINDS, found)


def _by_name(kinds: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {kind["$ref"].rsplit("/", 1)[1]: kind for kind in kinds}


def _by_key(
    kinds: list[dict[str, Any]], by_key: Mapping[str, type[BaseModel]], otherwise: str
) -> dict[str, Any]:
    """Of several kinds the one whose key is there."""
    by_name = _by_name(kinds)
    return _told_by_key(by_name, by_key, by_name.pop(otherwise))


def _told_by_key(
    by_name: Mapping[str, Any], by_key: Mapping[str, type[BaseModel]], otherwise: dict[str, Any]
) -> dict[str, Any]:
    found = otherwise
    for key, kind in by_key.items():
        if kind.__name__ in by_name:
            found = {"if": {"required": [key]}, "then": by_name[kind.__name__], "else": found}
    return found


def schema_text() -> str:
    """The content of `include/pipelines/pipeline.schema.json`."""
    return json.dumps(pipeline_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
