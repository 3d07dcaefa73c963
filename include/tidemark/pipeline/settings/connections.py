"""Connections to Kafka by name, for the one client that reads it: librdkafka.

What a connection says stands in the settings' file, but for secrets: these come from variables
(TIDEMARK_CONNECTIONS__EVENTS__PASSWORD), or all of it from an Airflow connection of the Kafka
provider's type, whose extra has the names of librdkafka. Certificates are PEM, given to executors
as text, so that no file has to be on them.

Source of the names: librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)

from tidemark.errors import SettingsInvalid
from tidemark.pipeline.settings.spark import as_text

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
_MECHANISMS = get_args(Mechanism)
_Text = Annotated[str, BeforeValidator(as_text)]
SECRETS = ("password", "key_password")
FILES = ("ca", "certificate", "key")
# Parts of options' names that hold secrets.
_SECRET_PARTS = ("password", "secret", "token", "ssl.key.pem")
_PEM = "-----BEGIN "
# What librdkafka calls the same, in an Airflow connection's extra.
_OF_AIRFLOW = {
    "bootstrap.servers": "servers",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "mechanism",
    "sasl.mechanisms": "mechanism",
    "sasl.username": "user",
    "sasl.password": "password",
    "ssl.ca.location": "ca",
    "ssl.ca.pem": "ca",
    "ssl.certificate.location": "certificate",
    "ssl.certificate.pem": "certificate",
    "ssl.key.location": "key",
    "ssl.key.pem": "key",
    "ssl.key.password": "key_password",
}
# Of a consumer group, which nothing here joins.
_NOT_TAKEN = ("group.id", "auto.offset.reset", "enable.auto.commit", "isolation.level")


class Login(BaseModel):
    """Who logs in, and by what the other side is known. `ca`, `certificate` and `key` are PEM:
    text, or the path of a file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    user: _Text | None = None
    password: SecretStr | None = None
    ca: str | None = None
    certificate: str | None = None
    key: SecretStr | None = None
    key_password: SecretStr | None = None


class RegistryConnection(Login):
    """How a schema registry with Confluent's API is reached: by HTTP or HTTPS, with a user and
    password where it asks for one."""

    url: str

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("`url` is no http:// or https:// address")
        if parts.username or parts.password:
            raise ValueError("`url` holds a login: say `user`, and give the password by itself")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("`certificate` and `key` need each other")
        return self


class Connection(Login):
    """How a Kafka cluster is reached.

    `client` are further options, in librdkafka's names. With `airflow`, the id of an Airflow
    connection, all else but `schema_registry` comes from that (`connection_of`).
    """

    servers: tuple[str, ...] = ()
    security_protocol: Protocol | None = None
    mechanism: Mechanism | None = None
    airflow: str | None = None
    client: dict[str, _Text] = Field(default_factory=dict)
    schema_registry: RegistryConnection | None = None

    @field_validator("servers", mode="before")
    @classmethod
    def _separated(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("security_protocol", mode="before")
    @classmethod
    def _in_capitals(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value

    @field_validator("client", mode="before")
    @classmethod
    def _of_a_variable(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError:
            raise ValueError("is no JSON object of options") from None

    @field_validator("client")
    @classmethod
    def _not_what_the_source_says(cls, value: dict[str, str]) -> dict[str, str]:
        own = ("bootstrap.servers", *_NOT_TAKEN)
        for name in value:
            if name in own:
                raise ValueError(f"`{name}` is set by the connection and by the pipeline's file")
        return value

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        if self.airflow is not None:
            if other := sorted(self.model_fields_set - {"airflow", "client", "schema_registry"}):
                raise ValueError(f"`{other[0]}` comes from the Airflow connection; leave it out")
            return self
        if not self.servers:
            raise ValueError("names no `servers`: give host:port, one or several")
        for server in self.servers:
            host, colon, port = server.rpartition(":")
            if not colon or not host or not port.isdecimal() or "@" in server or "/" in server:
                raise ValueError("has a server that is not host:port")
        login = [name for name in ("user", "password") if getattr(self, name) is not None]
        if self.protocol.startswith("SASL") and self.mechanism is None and not self.client:
            raise ValueError(f"{self.protocol} needs a `mechanism`, or `client` options")
        if login and self.mechanism is None:
            raise ValueError(f"`{login[0]}` needs a `mechanism`: {', '.join(_MECHANISMS)}")
        if self.mechanism is not None and not self.protocol.startswith("SASL"):
            raise ValueError(f"`mechanism` has no effect with {self.protocol}")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("`certificate` and `key` need each other")
        if self.key_password is not None and self.key is None:
            raise ValueError("`key_password` needs a `key`")
        if not self.protocol.endswith("SSL") and (self.ca or self.certificate):
            raise ValueError(f"certificates have no effect with {self.protocol}")
        return self

    @property
    def protocol(self) -> str:
        """Encrypted, unless somebody says otherwise."""
        return self.security_protocol or ("SASL_SSL" if self.mechanism else "SSL")

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        yield "servers", self.servers
        yield "security_protocol", self.protocol
        yield "mechanism", self.mechanism
        yield "user", self.user


def registry_of(connections: Mapping[str, Connection], name: str) -> RegistryConnection:
    """The schema registry of a connection. SettingsInvalid where it has none, or one that cannot
    be used."""
    registry = connection_of(connections, name).schema_registry
    if registry is None:
        raise SettingsInvalid(
            f"The connection `{name}` has no `schema_registry`, and the messages' schemas are in "
            f"one. Nothing was read. Add it, as in `connections: {{{name}: {{schema_registry: "
            "{url: https://host:8081}}}`."
        )
    if registry.user is not None and registry.password is None:
        raise SettingsInvalid(
            f"The schema registry of the connection `{name}` has a user and no password. Nothing "
            f"was read. Give it as TIDEMARK_CONNECTIONS__{name.upper()}__SCHEMA_REGISTRY__PASSWORD "
            "in the environment of whatever runs the pipeline."
        )
    return registry


def registry_options(registry: RegistryConnection, folder: str) -> dict[str, str]:
    """For confluent-kafka's client, whose certificates are files: those that are given as text are
    written below `folder`. What it holds is as secret as the registry's connection."""
    options = {"url": registry.url}
    if registry.user is not None:
        options["basic.auth.user.info"] = f"{registry.user}:{_shown(registry.password)}"
    for name, option, given in (
        ("ca", "ssl.ca.location", registry.ca),
        ("certificate", "ssl.certificate.location", registry.certificate),
        ("key", "ssl.key.location", _shown(registry.key)),
    ):
        if (text := _pem(name, given)) is not None:
            file = Path(folder) / f"{name}.pem"
            file.write_text(text, encoding="ascii")
            options[option] = str(file)
    if registry.key_password is not None:
        options["ssl.key.password"] = registry.key_password.get_secret_value()
    return options


def connection_of(connections: Mapping[str, Connection], name: str) -> Connection:
    """One by its name, with what its Airflow connection says. SettingsInvalid where there is none,
    or it cannot be used."""
    found = connections.get(name)
    if found is None:
        known = f"it has {', '.join(sorted(connections))}" if connections else "it has none"
        raise SettingsInvalid(
            f"There is no connection `{name}` among the settings' `connections`: {known}. Nothing "
            f"was read. Add it, as in `connections: {{{name}: {{servers: host:9093}}}}`."
        )
    found = found if found.airflow is None else _of_airflow(name, found)
    if found.mechanism is not None and (found.user is None or found.password is None):
        raise SettingsInvalid(
            f"The connection `{name}` logs in by {found.mechanism}, and has no "
            f"{'user' if found.user is None else 'password'}. Nothing was read. Give the user in "
            f"the settings' file, and the password as TIDEMARK_CONNECTIONS__{name.upper()}"
            "__PASSWORD in the environment of whatever runs the pipeline."
        )
    return found


def client_options(connection: Connection) -> dict[str, str]:
    """For librdkafka. What it holds is as secret as the connection."""
    options = {
        "bootstrap.servers": ",".join(connection.servers),
        "security.protocol": connection.protocol,
        "sasl.mechanism": connection.mechanism,
        "sasl.username": connection.user,
        "sasl.password": _shown(connection.password),
        "ssl.ca.pem": _pem("ca", connection.ca),
        "ssl.certificate.pem": _pem("certificate", connection.certificate),
        "ssl.key.pem": _pem("key", _shown(connection.key)),
        "ssl.key.password": _shown(connection.key_password),
    }
    return {**{name: one for name, one in options.items() if one is not None}, **connection.client}


def secrets_in_file(connections: object) -> Iterator[tuple[tuple[str, ...], str]]:
    """Where the settings' file holds a secret of a connection, and what to do about it."""
    if not isinstance(connections, dict):
        return
    for name, given in connections.items():
        entries = given if isinstance(given, dict) else {}
        registry = entries.get("schema_registry")
        for place, said in (
            (("connections", str(name)), entries),
            (("connections", str(name), "schema_registry"), registry),
        ):
            for entry in (one for one in SECRETS if isinstance(said, dict) and one in said):
                variable = f"TIDEMARK_{'__'.join((*place, entry)).upper()}"
                yield (*place, entry), f"is a secret: give it as {variable}"
            if isinstance(said, dict) and _PEM in str(said.get("key", "")):
                yield (*place, "key"), "is a secret: give the path of its file"
        options = entries.get("client")
        for option in options if isinstance(options, dict) else ():
            if any(part in str(option).lower() for part in _SECRET_PARTS):
                variable = f"TIDEMARK_CONNECTIONS__{str(name).upper()}__CLIENT"
                message = f"is a secret: give it in {variable}, a JSON object of options"
                yield ("connections", name, "client", str(option)), message


def beside(folder: Path, connections: object) -> object:
    """The file's connections with the paths of certificates made absolute."""
    if not isinstance(connections, dict):
        return connections
    return {
        name: {
            entry: _from(folder, value)
            if entry in FILES
            else beside(folder, {entry: value})[entry]  # type: ignore[index]
            if entry == "schema_registry"
            else value
            for entry, value in given.items()
        }
        if isinstance(given, dict)
        else given
        for name, given in connections.items()
    }


def airflow_variable(connection_id: str) -> str:
    """The variable in which Airflow, and whoever runs without it, keeps a connection."""
    return f"AIRFLOW_CONN_{connection_id.upper()}"


def _of_airflow(name: str, connection: Connection) -> Connection:
    variable = airflow_variable(str(connection.airflow))
    label = f"The connection `{name}` is Airflow's `{connection.airflow}`"
    text = os.environ.get(variable)
    if text is None:
        raise SettingsInvalid(
            f"{label}, and {variable} is not set. Nothing was read. Tasks set it by themselves; "
            "elsewhere give it as Airflow writes it: a JSON object with conn_type and extra."
        )
    try:
        content = json.loads(text)
        extra = content.get("extra", {}) if content.get("conn_type") == "kafka" else None
        extra = json.loads(extra) if isinstance(extra, str) else extra
    except (ValueError, AttributeError):
        extra = None
    if not isinstance(extra, dict):
        raise SettingsInvalid(
            f"{label}, and {variable} is not a JSON object of conn_type `kafka` with an extra of "
            "librdkafka's options. Nothing was read."
        )
    values: dict[str, Any] = {"client": dict(connection.client)}
    for option, value in extra.items():
        if option in _OF_AIRFLOW:
            values[_OF_AIRFLOW[option]] = value
        elif option not in _NOT_TAKEN:
            values["client"].setdefault(option, value)
    try:
        found = Connection.model_validate(values)
        return found.model_copy(update={"schema_registry": connection.schema_registry})
    except ValidationError as error:
        wrong = "; ".join(str(one["msg"]) for one in error.errors(include_input=False))
        raise SettingsInvalid(f"{label}, whose extra cannot be used: {wrong}.") from None


def _shown(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()


def _pem(name: str, given: str | None) -> str | None:
    """PEM as text; SettingsInvalid where the file cannot be read or holds none. A key is not told:
    it may be the key itself, without PEM's first line, and no path."""
    if given is None or _PEM in given:
        return given
    try:
        text = Path(given).read_text(encoding="ascii")
    except OSError as error:
        text, why = "", error.strerror or "it is no file"
    except ValueError:
        text, why = "", "it holds no text"
    else:
        why = "it holds no `-----BEGIN …`"
    if _PEM not in text:
        also = "" if name == "key" else f", {given},"
        raise SettingsInvalid(
            f"The connection's `{name}`{also} cannot be read as PEM: {why}. Nothing was read. "
            "Java's key stores and PKCS12 are not taken; `openssl` turns them into PEM."
        )
    return text


def _from(folder: Path, value: object) -> object:
    if not isinstance(value, str) or _PEM in value:
        return value
    return str(folder / Path(value).expanduser())
