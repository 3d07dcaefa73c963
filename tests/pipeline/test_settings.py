from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pydantic import ValidationError

from tests.kit.running import clicks
from tidemark.errors import SettingsInvalid
from tidemark.pipeline.load import pipeline_from_mapping
from tidemark.pipeline.settings.connections import client_options, connection_of
from tidemark.pipeline.settings.settings import Settings, load_settings, spark_conf
from tidemark.pipeline.settings.storage_options import KNOWN, SHOWN, local_path, spark_uri
from tidemark.storage.delta.place import TablePlace
from tidemark.streaming.session import session_conf

REPOSITORY = Path(__file__).parents[2]
S3 = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
    "AWS_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
    "AWS_ACCESS_KEY_ID": "AKIA-KEY",
    "AWS_SECRET_ACCESS_KEY": "s3cr3t-words",
}


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.upper().startswith("TIDEMARK_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "conf" / "settings.yaml"
    path.parent.mkdir()
    path.write_text("root: ../lake\npipelines: pipes\nspark: {spark.sql.x: true}\n")
    return path


def test_the_shipped_settings_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY / "include" / "tidemark")
    settings = load_settings()
    assert settings.root == str(REPOSITORY / "warehouse")
    assert settings.pipelines == str(REPOSITORY / "include" / "pipelines")
    assert settings.is_local


def test_paths_in_the_file_count_from_its_folder(file: Path, tmp_path: Path) -> None:
    settings = load_settings(file)
    assert settings.root == str(tmp_path / "lake")
    assert settings.pipelines == str(tmp_path / "conf" / "pipes")
    assert settings.spark == {"spark.sql.x": "true"}


def test_variables_override_the_file_and_count_from_the_working_folder(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEMARK_SETTINGS", str(file))
    monkeypatch.setenv("TIDEMARK_ROOT", "elsewhere")
    monkeypatch.setenv("TIDEMARK_PIPELINES", "mine")
    monkeypatch.setenv("TIDEMARK_SPARK", '{"spark.sql.y": 3}')
    monkeypatch.setenv("TIDEMARK_STORAGE_OPTIONS", '{"AWS_REGION": "eu"}')
    monkeypatch.setenv("TIDEMARK_STORAGE_OPTIONS__AWS_ENDPOINT_URL", "https://s3")
    settings = load_settings()
    assert settings.root == str(tmp_path / "elsewhere")
    assert settings.pipelines == str(tmp_path / "mine")
    assert settings.spark == {"spark.sql.x": "true", "spark.sql.y": "3"}
    assert settings.storage_options == {"AWS_REGION": "eu", "AWS_ENDPOINT_URL": "https://s3"}


@pytest.mark.parametrize("password_first", [True, False])
def test_a_connection_is_one_variable_and_its_password_another_in_any_order(
    file: Path, monkeypatch: pytest.MonkeyPatch, password_first: bool
) -> None:
    whole = '{"servers": "kafka:9093", "mechanism": "PLAIN", "user": "me"}'
    given = [
        ("TIDEMARK_CONNECTIONS__EVENTS__PASSWORD", "hidden"),
        ("TIDEMARK_CONNECTIONS__EVENTS", whole),
    ]
    for name, value in given if password_first else reversed(given):
        monkeypatch.setenv(name, value)
    found = connection_of(load_settings(file).connections, "events")
    assert client_options(found)["sasl.password"] == "hidden"
    assert "hidden" not in repr(found)


def test_a_variable_may_name_the_file_that_holds_its_value(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of a file\n")
    monkeypatch.setenv("TIDEMARK_STORAGE_OPTIONS__AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("TIDEMARK_STORAGE_OPTIONS__AWS_SECRET_ACCESS_KEY__FILE", str(secret))
    whole = '{"servers": "kafka:9093", "mechanism": "PLAIN", "user": "me"}'
    monkeypatch.setenv("TIDEMARK_CONNECTIONS__EVENTS", whole)
    monkeypatch.setenv("TIDEMARK_CONNECTIONS__EVENTS__PASSWORD__FILE", str(secret))
    settings = load_settings(file)
    assert settings.storage_options["AWS_SECRET_ACCESS_KEY"] == "of a file"
    found = connection_of(settings.connections, "events")
    assert client_options(found)["sasl.password"] == "of a file"
    assert "of a file" not in repr(settings)


def test_a_variable_whose_file_cannot_be_read_is_named_with_it(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEMARK_ROOT__FILE", str(tmp_path / "gone"))
    with pytest.raises(SettingsInvalid) as failed:
        load_settings(file)
    assert str(failed.value) == (
        f"TIDEMARK_ROOT__FILE names the file {tmp_path}/gone, which cannot be read: "
        "No such file or directory."
    )


def test_the_length_of_a_lease_is_a_setting_that_a_variable_overrides(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings(file).lease_seconds == 60
    file.write_text("root: x\nlease_seconds: 30\n")
    assert load_settings(file).lease_seconds == 30
    monkeypatch.setenv("TIDEMARK_LEASE_SECONDS", "90")
    settings = load_settings(file)
    assert settings.lease_seconds == 90
    assert "lease_seconds=90" in repr(settings)


def test_a_variable_wins_over_the_same_option_of_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("root: s3://b\nstorage_options: {aws_region: eu}\n")
    monkeypatch.setenv("TIDEMARK_STORAGE_OPTIONS__AWS_REGION", "us")
    assert load_settings(file).storage_options == {"AWS_REGION": "us"}


@pytest.mark.parametrize(
    ("given", "root"),
    [
        ("/a/b/", "/a/b"),
        ("/a/../b", "/b"),
        ("file:///a%20b/", "/a b"),
        ("s3://bucket/lake/", "s3://bucket/lake"),
        ("s3a://bucket", "s3://bucket"),
        ("abfss://c@acc.dfs.core.windows.net/x", "abfss://c@acc.dfs.core.windows.net/x"),
    ],
)
def test_a_root_has_one_spelling(given: str, root: str) -> None:
    assert Settings(root=given, pipelines="/p").root == root


@pytest.mark.parametrize("root", ["", " ", "hdfs://x/y", "s3://", "/a/*/b", "s3:bucket"])
def test_what_cannot_be_a_root_is_refused(root: str) -> None:
    with pytest.raises(ValidationError):
        Settings(root=root, pipelines="/p")


@pytest.mark.parametrize("part", ["%20", "%25", "\\", "|", "^", "\t", "\x7f"])
def test_a_root_that_delta_rs_takes_for_another_folder_is_refused_with_what_it_has(
    part: str,
) -> None:
    with pytest.raises(ValidationError, match=re.escape(f"has {part!r}")):
        Settings(root=f"/lake/x{part}y", pipelines="/p")
    # Files are read from there as they are named.
    assert Settings(root="/lake", sources=(f"/x{part}y",)).sources == (f"/x{part}y",)


@pytest.mark.parametrize(
    ("place", "part"),
    [("x%20y", "%20"), ("x#y", "#"), ("x\ty", "\t"), ("/x", "//"), ("x//y", "//"),
     ("x/./y", "/./"), ("x/../y", "/../"), ("x/..", "/..")],
)  # fmt: skip
def test_a_uri_below_which_spark_and_delta_rs_find_other_folders_is_no_root(
    place: str, part: str
) -> None:
    with pytest.raises(ValidationError, match=re.escape(f"has {part!r}")):
        Settings(root=f"s3://lake/{place}", pipelines="/p")
    sources = (f"s3://lake/{place}",)
    assert Settings(root="/lake", sources=sources).sources == sources


@pytest.mark.parametrize("name", ["50%", "100%x", "a b", "ä", "year=2026", "a|b", "a^b", "..a"])
def test_a_uri_with_other_signs_is_a_root(name: str) -> None:
    root = f"s3://lake/{name}/x"
    assert Settings(root=root, pipelines="/p").root == root


@pytest.mark.parametrize("name", ["50%", "100%x", "a b", "ä", "a#b", "a&b", "a;b", "a~b"])
def test_a_root_with_other_signs_serves_tables(tmp_path: Path, name: str) -> None:
    root = Settings(root=str(tmp_path / name)).root
    for number in (1, 2):
        write_deltalake(f"{root}/t", pa.table({"n": [number]}), mode="append")
    assert TablePlace(f"{root}/t").existing().version() == 1
    assert Path(root, "t/_delta_log").is_dir()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rooot: x\n", r":1:1: rooot: is not a known key; allowed: root.*Did you mean `root`"),
        ("root: 5\n", "root: Input should be a valid string"),
        ("pipelines: x\n", "root: is missing"),
        ("", "the file is empty"),
        ("root: x\nroot: y\n", "stands twice"),
        ("root: s3://b\nstorage_options: {AWS_REGON: x}\n", "nearest: `AWS_REGION`"),
        ("root: s3://b\nstorage_options: {AWS_ACCESS_KEY_ID: x}\n", "needs `AWS_SECRET_ACC"),
        ("root: x\nstorage_options: text\n", "storage_options: Input should be a valid dict"),
        ("root: x\nspark: {spark.sql.session.timeZone: x}\n", "all times are UTC"),
        ("root: x\nspark: {sql.x: 1}\n", "begin with `spark"),
        ("root: x\nlease_seconds: 4\n", "lease_seconds: Input should be greater than or equal"),
        ("root: x\nlease_seconds: 99999999999999999999\n", "lease_seconds: Input should be less"),
        (
            "root: x\nacts: {retrakt: [ann]}\n",
            "`retrakt` is no act; allowed: accept, backfill",
        ),
        ("root: x\nlease_second: 9\n", "Did you mean `lease_seconds`|nearest: `lease_seconds`"),
    ],
)
def test_a_settings_file_that_cannot_be_used_says_why(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    with pytest.raises(SettingsInvalid, match=message):
        load_settings(file)


def test_a_settings_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match=r"There is no settings file .*none\.yaml"):
        load_settings(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("TIDEMARK_ROTO", "x", "Did you mean TIDEMARK_ROOT"),
        ("TIDEMARK_STORAGE_OPTION", "{}", "Did you mean TIDEMARK_STORAGE_OPTIONS"),
        ("TIDEMARK_SPARK", "{not json", "TIDEMARK_SPARK cannot be read"),
        ("TIDEMARK_SPARK", "[1]", "TIDEMARK_SPARK cannot be read"),
        ("TIDEMARK_LEASE_SECOND", "9", "Did you mean TIDEMARK_LEASE_SECONDS"),
        ("TIDEMARK_LEASE_SECONDS", "soon", "TIDEMARK_LEASE_SECONDS: lease_seconds: Input should"),
        ("TIDEMARK_ACTS", '{"retract": "ann"}', "TIDEMARK_ACTS cannot be read"),
        ("TIDEMARK_ROOT", "hdfs://x", "TIDEMARK_ROOT: root: has the scheme `hdfs`"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsInvalid, match=message):
        load_settings(file)


def test_storage_options_reach_spark_in_its_own_names() -> None:
    conf = spark_conf(Settings(root="s3://b", pipelines="/p", storage_options=S3))
    a = "spark.hadoop.fs.s3a."
    assert conf == {
        a + "endpoint": "http://127.0.0.1:9000",
        a + "connection.ssl.enabled": "false",
        a + "endpoint.region": "us-east-1",
        a + "path.style.access": "true",
        a + "access.key": "AKIA-KEY",
        a + "secret.key": "s3cr3t-words",
        a + "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }
    token = {**S3, "AWS_SESSION_TOKEN": "t", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true"}
    conf = spark_conf(Settings(root="s3://b", pipelines="/p", storage_options=token))
    assert conf[a + "session.token"] == "t"
    assert conf[a + "aws.credentials.provider"].endswith("TemporaryAWSCredentialsProvider")
    assert conf[a + "path.style.access"] == "false"


def test_an_azure_key_reaches_spark_under_its_account() -> None:
    options = {"AZURE_STORAGE_ACCOUNT_NAME": "acc", "AZURE_STORAGE_ACCOUNT_KEY": "k"}
    settings = Settings(root="abfss://c@acc.dfs.core.windows.net", pipelines="/p",
                        storage_options=options)  # fmt: skip
    name = "spark.hadoop.fs.azure.account.key.acc.dfs.core.windows.net"
    assert spark_conf(settings) == {name: "k"}


def test_no_secret_is_shown(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = {"spark.hadoop.fs.s3a.secret.key": "s3cr3t-words", "spark.sql.x": "shown"}
    settings = Settings(root="s3://b", pipelines="/p", storage_options=S3, spark=spark)
    for text in (repr(settings), str(settings), f"{settings}"):
        assert "s3cr3t" not in text
        assert "AKIA" not in text
        assert "us-east-1" in text
        assert "shown" in text
    file.write_text("root: s3://b\nstorage_options: {AWS_SECRET_ACCESS_KEY: s3cr3t-words}\n")
    with pytest.raises(SettingsInvalid) as raised:
        load_settings(file)
    assert "s3cr3t" not in str(raised.value)
    monkeypatch.setenv("TIDEMARK_STORAGE_OPTIONS", '{"AWS_SECRET_ACCESS_KEY": "s3cr3t-words"')
    with pytest.raises(SettingsInvalid) as raised:
        load_settings(file)
    assert "s3cr3t" not in str(raised.value)


HUSH = "hush-hush"
# Each option that there is, but for those that may be shown.
SECRET_OPTIONS = {
    "AWS_ACCESS_KEY_ID": f"{HUSH}-id",
    "AWS_SECRET_ACCESS_KEY": f"{HUSH}-key",
    "AWS_SESSION_TOKEN": f"{HUSH}-token",
    "AZURE_STORAGE_ACCOUNT_KEY": f"{HUSH}-azure",
}


def redacted(conf: dict[str, str]) -> dict[str, str]:
    """What Spark shows of a session's settings: it looks for its pattern in name and value."""
    pattern = re.compile(conf["spark.redaction.regex"])
    return {
        name: "***" if pattern.search(name) or pattern.search(value) else value
        for name, value in conf.items()
    }


def test_a_secret_of_any_storage_option_is_shown_neither_by_settings_nor_by_spark(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {*SECRET_OPTIONS, *SHOWN} == set(KNOWN)
    for name, value in {**SECRET_OPTIONS, "AZURE_STORAGE_ACCOUNT_NAME": "acc"}.items():
        monkeypatch.setenv(f"TIDEMARK_STORAGE_OPTIONS__{name}", value)
    settings = load_settings(file)
    assert HUSH not in f"{settings!r} {settings}"
    conf = session_conf(pipeline_from_mapping("clicks", clicks()), settings)
    assert sum(HUSH in value for value in conf.values()) == len(SECRET_OPTIONS)
    assert HUSH not in str(redacted(conf))
    assert redacted(conf)["spark.sql.session.timeZone"] == "UTC"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.hadoop.fs.azure.account.key.acc.dfs.core.windows.net", HUSH),
        ("spark.hadoop.fs.azure.sas.container.acc.blob.core.windows.net", HUSH),
        ("spark.hadoop.fs.azure.sas.fixed.token.acc.dfs.core.windows.net", HUSH),
        ("spark.hadoop.fs.azure.account.oauth2.client.secret", HUSH),
        ("spark.hadoop.fs.azure.encryption.encoded.client-provided-key", HUSH),
        ("spark.hadoop.fs.s3a.access.key", HUSH),
        ("spark.hadoop.fs.s3a.encryption.key", HUSH),
        ("spark.hadoop.fs.gs.auth.service.account.private.key", HUSH),
        ("spark.ssl.keyPassword", HUSH),
        ("spark.hadoop.fs.s3a.endpoint", f"http://user:{HUSH}@127.0.0.1:9000"),
        ("spark.acme.dsn", f"connection_string={HUSH}"),
    ],
)
def test_secrets_among_the_settings_of_spark_are_not_shown(name: str, value: str) -> None:
    settings = Settings(root="/r", pipelines="/p", spark={name: value, "spark.sql.x": "shown"})
    assert HUSH not in repr(settings)
    assert "shown" in repr(settings)
    conf = session_conf(pipeline_from_mapping("clicks", clicks()), settings)
    assert conf[name] == value
    assert HUSH not in str(redacted(conf))


def test_a_pattern_of_ones_own_is_added_to_what_is_redacted() -> None:
    own = {"spark.redaction.regex": "acme", "spark.acme": HUSH, "spark.hadoop.x.password": HUSH}
    settings = Settings(root="/r", pipelines="/p", spark=own)
    conf = session_conf(pipeline_from_mapping("clicks", clicks()), settings)
    assert HUSH not in str(redacted(conf))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TIDEMARK_ROOT", f"s3://user:{HUSH}@bucket/lake"),
        ("TIDEMARK_ROOT", f"s3a://{HUSH}@bucket"),
        ("TIDEMARK_ROOT", f"s3://user:{HUSH}/x@bucket"),
        ("TIDEMARK_ROOT", f"gs://u%3A{HUSH}@bucket"),
        ("TIDEMARK_ROOT", f"abfss://c:{HUSH}@acc.dfs.core.windows.net/x"),
        ("TIDEMARK_STORAGE_OPTIONS__AWS_ENDPOINT_URL", f"http://user:{HUSH}@127.0.0.1:9000"),
        ("TIDEMARK_STORAGE_OPTIONS__AWS_ENDPOINT_URL", f"user:{HUSH}@127.0.0.1:9000"),
        ("TIDEMARK_CHECKS__DOCS_URL", f"https://user:{HUSH}@docs.example"),
    ],
)
def test_a_login_in_an_address_is_refused_without_being_told(
    file: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsInvalid) as raised:
        load_settings(file)
    told = f"{raised.value} {raised.value!r} {raised.value.__cause__!r}"
    assert name.split("__")[0] in told
    assert HUSH not in told


@pytest.mark.parametrize(
    "line",
    [
        f"AWS_SECRET_ACCESS_KEY: '{HUSH}",
        f"AWS_SECRET_ACCESS_KEY: *{HUSH}",
        f"AWS_SECRET_ACCESS_KEY: !{HUSH} x",
        f"AWS_SECRET_ACCESS_KEY: {HUSH}: {HUSH}",
        f"AWS_SECRET_ACCESS_KEY: !!int {HUSH}",
        f"AWS_SECRET_ACCESS_KEY: [{HUSH}]",
    ],
)
def test_a_settings_file_that_is_not_yaml_is_told_without_its_lines(file: Path, line: str) -> None:
    file.write_text(f"root: s3://b\nstorage_options:\n  {line}\n")
    with pytest.raises(SettingsInvalid, match=r"settings\.yaml:[34]|storage_options") as raised:
        load_settings(file)
    assert HUSH not in str(raised.value)


def test_spark_names_an_s3_place_differently() -> None:
    assert spark_uri("s3://b/x") == "s3a://b/x"
    assert spark_uri("/a/s3://b") == "/a/s3://b"
    assert local_path("file:///a%20b") == "/a b"


def test_maintenance_keeps_what_readers_need_by_default_and_as_long_as_it_is_told(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = load_settings(file).maintenance
    assert (keep.schedule, keep.retention, keep.log_retention) == (
        "@daily", timedelta(days=7), timedelta(days=30),
    )  # fmt: skip
    file.write_text(
        f"{file.read_text()}maintenance: {{retention: 2 days, ops_retention: 10 days}}\n"
    )
    monkeypatch.setenv("TIDEMARK_MAINTENANCE__RETENTION", "3 days")
    keep = load_settings(file).maintenance
    assert (keep.retention, keep.ops_retention) == (timedelta(days=3), timedelta(days=10))


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ("retention: 12 hours", "retention is 12 hours; allowed: from 1 day"),
        ("retention: 8 days", "to 7 days"),
        ("log_retention: 2 days", "log_retention is shorter than retention"),
        ("ops_retention: 1 hour", "ops_retention is shorter than 1 day"),
        ("schedule: daily", "cron has five"),
        ("retain: 1 day", "maintenance.retain"),
    ],
)
def test_maintenance_that_would_take_from_readers_is_refused(
    file: Path, told: str, wrong: str
) -> None:
    file.write_text(f"{file.read_text()}maintenance: {{{told}}}\n")
    with pytest.raises(SettingsInvalid, match=wrong):
        load_settings(file)


def test_the_key_of_erasures_is_a_variable_and_never_shown(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings(file).erasure_key is None
    secret = "s" * 32
    (tmp_path / "key").write_text(f"{secret}\n")
    monkeypatch.setenv("TIDEMARK_ERASURE_KEY__FILE", str(tmp_path / "key"))
    settings = load_settings(file)
    assert settings.erasure_key is not None
    assert settings.erasure_key.get_secret_value() == secret
    for shown in (repr(settings), str(settings), settings.model_dump_json()):
        assert secret not in shown
    monkeypatch.delenv("TIDEMARK_ERASURE_KEY__FILE")
    monkeypatch.setenv("TIDEMARK_ERASURE_KEY", secret[1:])
    with pytest.raises(SettingsInvalid) as failed:
        load_settings(file)
    assert "TIDEMARK_ERASURE_KEY: erasure_key: is too short to keep" in str(failed.value)
    assert secret[1:] not in str(failed.value)
    monkeypatch.delenv("TIDEMARK_ERASURE_KEY")
    file.write_text(f"root: ../lake\nerasure_key: {secret}\n")
    with pytest.raises(SettingsInvalid) as failed:
        load_settings(file)
    assert "is a secret: give it as TIDEMARK_ERASURE_KEY" in str(failed.value)
    assert secret not in str(failed.value)
