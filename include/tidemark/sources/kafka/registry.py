"""Schemas of a schema registry: asked for once, in the driver, and kept beside the checkpoint.

What an id of a registry stands for never changes, so a replay asks nothing and says the same. In
another registry it stands for something else: which one was asked is kept too. An id that the
registry does not have is a verdict on its messages, which is kept too, with the time of the batch
that asked: that batch says the same when it is repeated, and a later one asks again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError

from tidemark.checkpoint.log import Checkpoint
from tidemark.commit_point import commit_point
from tidemark.errors import (
    NoteUnreadable,
    SettingsInvalid,
    SourceRefused,
    SourceUnavailable,
    TidemarkError,
)
from tidemark.pipeline.settings.connections import RegistryConnection, registry_options
from tidemark.sources.kafka.values import schema_text
from tidemark.storage.files import FileMissing, read_bytes, write_bytes
from tidemark.storage.result_file import Facts

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

# Of each try.
_ANSWER_SECONDS, _TRIES_AGAIN = 10, 3
# Told apart from an address at which nobody knows of schemas, which is 404 too.
_NO_SCHEMA = 40403
_REFUSED = (401, 403)


class KeptSchemas(Facts):
    """`schemas`: by id or GUID, with those that they refer to (`schema_text`), of the registry that
    `of` tells from others; None: a former version did not keep which. `missing`: by id, the time of
    the batch for which the registry of then did not have it, in milliseconds."""

    version: Literal[1] = 1
    of: str | None = None
    schemas: dict[str, str] = Field(default_factory=dict)
    missing: dict[str, int] = Field(default_factory=dict)

    def of_batch(self, batch_time_ms: int) -> dict[str, str | None]:
        """What is known of ids for a batch of this time."""
        missing = [one for one, asked in self.missing.items() if asked == batch_time_ms]
        return {**self.schemas, **dict.fromkeys(missing)}


def kept_schemas(ingest: Checkpoint, of: str) -> KeptSchemas:
    """Those of an ingest and of this registry; none where nothing of it was asked yet."""
    place = _place(ingest)
    try:
        kept = KeptSchemas.model_validate_json(read_bytes(place, ingest.options))
    except FileMissing:
        return KeptSchemas(of=of)
    except ValidationError as error:
        raise NoteUnreadable(
            f"{place} holds no schemas: it is damaged, or of a newer version of Tidemark. Nothing "
            "was read. Restore it from a backup with the checkpoint beside it; or remove it, and "
            "the schema registry is asked again."
        ) from error
    # What a batch missed is its own verdict, whichever registry is asked now.
    return kept if kept.of == of else KeptSchemas(of=of, missing=kept.missing)


@commit_point(
    "schemas kept",
    after_a_kill="before: the repeated batch asks for them again; after: it finds them",
)
def keep_schemas(ingest: Checkpoint, kept: KeptSchemas) -> None:
    """Replace them, behind the checkpoint's fence."""
    ingest.fence()
    write_bytes(_place(ingest), kept.model_dump_json(indent=1).encode(), ingest.options)


def asked_for(
    connection: RegistryConnection, name: str, ids: Sequence[str]
) -> dict[str, str | None]:
    """What the registry of a connection of this name has of these ids. Raises SourceUnavailable,
    SourceRefused, SettingsInvalid."""
    from confluent_kafka.schema_registry import SchemaRegistryClient

    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tidemark-"))
        patience = {"timeout": _ANSWER_SECONDS, "max.retries": _TRIES_AGAIN}
        options = registry_options(connection, folder)
        try:
            client = SchemaRegistryClient({**patience, **options})
        except (OSError, ValueError, TypeError) as error:
            raise SettingsInvalid(
                f"The schema registry of the connection `{name}` cannot be asked with what the "
                f"settings say of it: {error}. Nothing was read in this try."
            ) from None
        stack.callback(client.close)
        return {one: _schema(client, connection, name, one) for one in ids}


def _schema(
    client: SchemaRegistryClient, connection: RegistryConnection, name: str, number: str
) -> str | None:
    from confluent_kafka.schema_registry.error import SchemaRegistryError
    from httpx2 import HTTPError

    try:
        named = number.isdecimal()
        found = client.get_schema(int(number)) if named else client.get_schema_by_guid(number)
        references: dict[str, str] = {}
        _add_references(client, found.references or [], references)
        return schema_text(found.schema_type or "AVRO", _text(found), references)
    except SchemaRegistryError as error:
        if error.error_code == _NO_SCHEMA:
            return None
        said = f"{error.http_status_code}, {error.error_message}"
        if error.http_status_code in _REFUSED:
            raise SourceRefused(
                f"The schema registry of the connection `{name}` ({connection.url}) does not let "
                f"us in: {said}. Nothing was read in this try. Correct `schema_registry` of the "
                "connection: its user, its password."
            ) from error
        raise _unavailable(connection, name, said) from error
    # An answer that is no JSON, or of another form, raises one of the last three.
    except (HTTPError, OSError, ValueError, KeyError, TypeError) as error:
        raise _unavailable(connection, name, str(error) or type(error).__name__) from error


def _add_references(
    client: SchemaRegistryClient, references: Sequence[Any], found: dict[str, str]
) -> None:
    """Schemas that one refers to, each behind those that it refers to itself."""
    for one in references:
        if one.name not in found:
            schema = client.get_version(one.subject, one.version).schema
            _add_references(client, schema.references or [], found)
            found[one.name] = _text(schema)


def _text(schema: Schema) -> str:
    if not schema.schema_str:
        raise ValueError("its answer holds no schema")
    return schema.schema_str


def _unavailable(connection: RegistryConnection, name: str, said: str) -> TidemarkError:
    return SourceUnavailable(
        f"The schema registry of the connection `{name}` ({connection.url}) cannot be asked for "
        f"the schemas of messages: {said}. Nothing of the batch was committed. Is it running, and "
        "reached from here? The next try reads the batch again."
    )


def _place(ingest: Checkpoint) -> str:
    return f"{ingest.uri}.schemas.json"
