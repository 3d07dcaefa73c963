"""TIDEMARK_* variables as fields. A module of its own: pydantic-settings costs 0.15 CPU seconds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)
from pydantic_settings.exceptions import SettingsError

from tidemark.errors import SettingsInvalid
from tidemark.pipeline.problems import nearest
from tidemark.pipeline.settings.environment import PREFIX
from tidemark.pipeline.settings.spark import as_text

# One underscore more than options such as AWS_WEB_IDENTITY_TOKEN_FILE.
_FILE = "__file"
_Text = Annotated[str, BeforeValidator(as_text)]


class _InOrder(EnvSettingsSource):
    """An object (…CONNECTIONS__EVENTS) before its entries (…CONNECTIONS__EVENTS__PASSWORD): each
    is put over what came before, and an environment has no order of its own. What a variable with
    __FILE behind its name is to be stands in the file that it names."""

    def _load_env_vars(self) -> Mapping[str, str | None]:
        found = dict(super()._load_env_vars())
        ours = [one for one in found if one.startswith(PREFIX.lower()) and one.endswith(_FILE)]
        for name in ours:
            if text := _content(name, found.pop(name) or ""):
                found[name.removesuffix(_FILE)] = text
        return dict(sorted(found.items()))


def _content(name: str, file: str) -> str:
    """Its text without the line's end. Raises SettingsInvalid, with the variable and the file."""
    try:
        return Path(file).read_text("utf-8").rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise SettingsInvalid(
            f"{name.upper()} names the file {file}, which cannot be read: {reason}."
        ) from None


class _Environment(BaseSettings):
    """What TIDEMARK_* variables say; None where they say nothing."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        env_ignore_empty=True,
        hide_input_in_errors=True,
        extra="ignore",
    )

    root: str | None = None
    root_marker: str | None = None
    pipelines: str | None = None
    sources: list[str] | None = None
    # Text, so that Settings says what is wrong with it, as with a root.
    allow_python: str | None = None
    storage_options: dict[str, _Text] | None = None
    spark: dict[str, _Text] | None = None
    cluster: dict[str, _Text] | None = None
    # Of each, text or an object of options.
    connections: dict[str, dict[str, Any]] | None = None
    max_line_bytes: str | None = None
    lease_seconds: str | None = None
    maintenance: dict[str, str] | None = None
    checks: dict[str, _Text] | None = None
    acts: dict[str, list[str]] | None = None
    erasure_key: str | None = None

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], *_: PydanticBaseSettingsSource, **__: object
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (_InOrder(settings_cls),)


def read_variables() -> dict[str, Any]:
    """What TIDEMARK_* variables set; SettingsInvalid for one that cannot be read."""
    _refuse_misspelt_variables()
    try:
        return _Environment().model_dump(exclude_none=True)
    except SettingsError as error:
        # The value may hold a secret, so only the variable is named.
        wrong = {str(error).split('"')[1]}
    except ValidationError as error:
        wrong = {str(detail["loc"][0]) for detail in error.errors()}
    names = ", ".join(f"{PREFIX}{name.upper()}" for name in sorted(wrong))
    raise SettingsInvalid(
        f"{names} cannot be read: give a JSON object of text (of {PREFIX}SOURCES a list), or a "
        f"variable for each entry (as in {PREFIX}STORAGE_OPTIONS__AWS_REGION)."
    )


def _refuse_misspelt_variables() -> None:
    """A variable that is nearly one of ours would be passed over, and the root be another."""
    known = [f"{PREFIX}{name.upper()}" for name in (*_Environment.model_fields, "settings")]
    for variable in os.environ:
        name = variable.upper().split("__")[0]
        if not name.startswith(PREFIX) or name in known:
            continue
        if near := nearest(name, known, likeness=0.9):
            raise SettingsInvalid(f"{variable} is not a setting. Did you mean {near}?")
