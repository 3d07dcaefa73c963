"""Secrets of connections: given where messages say, told nowhere."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from tidemark.errors import SettingsInvalid
from tidemark.pipeline.settings.connections import (
    client_options,
    connection_of,
    registry_of,
    registry_options,
)
from tidemark.pipeline.settings.settings import Settings, load_settings

SECRET = "MIIs3cret"


def loaded(folder: Path, connection: str) -> Settings:
    file = folder / "settings.yaml"
    file.write_text(f"root: ./data\nconnections: {{events: {{servers: 'h:9093', {connection}}}}}\n")
    return load_settings(file)


def test_secret_options_of_the_client_come_from_the_variable_that_the_message_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsInvalid) as found:
        loaded(tmp_path, f"client: {{ssl.keystore.password: {SECRET}}}")
    variable = "TIDEMARK_CONNECTIONS__EVENTS__CLIENT"
    assert f"is a secret: give it in {variable}, a JSON object" in str(found.value)
    monkeypatch.setenv(variable, f'{{"ssl.keystore.password": "{SECRET}"}}')
    connection = connection_of(loaded(tmp_path, "").connections, "events")
    assert client_options(connection)["ssl.keystore.password"] == SECRET
    monkeypatch.setenv(variable, f'{{"ssl.keystore.password": "{SECRET}"')
    with pytest.raises(SettingsInvalid, match="client: is no JSON object of options") as found:
        loaded(tmp_path, "")
    assert SECRET not in "".join(traceback.format_exception(found.value))


def test_a_key_that_is_no_pem_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be the key itself, as base64, and no path."""
    (tmp_path / "own.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    monkeypatch.setenv("TIDEMARK_CONNECTIONS__EVENTS__KEY", SECRET)
    connection = connection_of(loaded(tmp_path, "certificate: own.pem").connections, "events")
    with pytest.raises(SettingsInvalid, match="`key` cannot be read as PEM: No such file") as found:
        client_options(connection)
    assert SECRET not in "".join(traceback.format_exception(found.value))
    (tmp_path / "own.pem").write_text("nothing")
    with pytest.raises(SettingsInvalid, match=r"own\.pem, cannot be read as PEM: it holds no `---"):
        client_options(connection)


def test_the_password_of_a_schema_registry_comes_from_the_variable_that_the_message_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "url: 'https://registry:8081', user: reader, ca: own.pem"
    with pytest.raises(SettingsInvalid) as found:
        loaded(tmp_path, f"schema_registry: {{{said}, password: {SECRET}}}")
    variable = "TIDEMARK_CONNECTIONS__EVENTS__SCHEMA_REGISTRY__PASSWORD"
    assert f"is a secret: give it as {variable}" in str(found.value)
    monkeypatch.setenv(variable, SECRET)
    (tmp_path / "own.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    settings = loaded(tmp_path, f"schema_registry: {{{said}}}")
    assert SECRET not in repr(settings.connections)
    registry = registry_of(settings.connections, "events")
    (folder := tmp_path / "certificates").mkdir()
    options = registry_options(registry, str(folder))
    # The settings' file stands beside its certificates, and the client wants files.
    assert (folder / "ca.pem").read_text() == "-----BEGIN CERTIFICATE-----\n"
    assert options == {
        "url": "https://registry:8081",
        "basic.auth.user.info": f"reader:{SECRET}",
        "ssl.ca.location": str(folder / "ca.pem"),
    }


@pytest.mark.parametrize("url", ["registry:8081", "ftp://a:1", "https://u:p@a:1"])
def test_an_address_that_is_no_registry_s_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsInvalid, match="`url`"):
        loaded(tmp_path, f"schema_registry: {{url: '{url}'}}")
