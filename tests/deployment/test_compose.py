"""docker-compose.yaml, as far as it can be judged without Docker."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from setup.jars import BROKER_JARS
from tidemark.pipeline.settings.settings import load_settings, spark_conf

REPOSITORY = Path(__file__).parents[2]
FILE = REPOSITORY / "docker-compose.yaml"
VARIABLE = re.compile(r"\$\{(\w+)(?::?-([^}]*)|:\?[^}]*)?\}")
SIZES = {"m": 2**20, "g": 2**30}
ALL_MEMORY = 8 * 2**30


def without_variables(text: str) -> str:
    """What Compose makes of a text where nothing is set: the defaults."""
    return VARIABLE.sub(lambda found: found[2] or "", text)


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return YAML(typ="safe").load(without_variables(FILE.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, Any]:
    return compose["services"]


def bytes_of(limit: str) -> int:
    return int(limit[:-1]) * SIZES[limit[-1]]


def is_one_shot(service: dict[str, Any]) -> bool:
    return service.get("restart") == "no"


@pytest.mark.parametrize("resolve", [str, without_variables])
def test_it_is_valid_by_the_compose_specification(resolve: Any) -> None:
    vendored = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    schema = json.loads(vendored.read_text(encoding="utf-8"))
    written = YAML(typ="safe").load(resolve(FILE.read_text(encoding="utf-8")))
    assert [error.message for error in Draft202012Validator(schema).iter_errors(written)] == []


def test_every_port_is_published_on_loopback_only(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []
    assert not any("network_mode" in service for service in services.values())


def test_no_port_is_published_twice(services: dict[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert len({port.split(":")[1] for port in ports}) == len(ports)


def test_every_service_that_goes_on_says_whether_it_is_healthy(services: dict[str, Any]) -> None:
    going_on = {name for name, service in services.items() if not is_one_shot(service)}
    assert going_on == {name for name, service in services.items() if "healthcheck" in service}
    assert set(services) - going_on == {"init", "land"}


def test_all_services_together_may_take_less_than_8_gb(services: dict[str, Any]) -> None:
    """But for the broker, which comes on top of that."""
    limits = {
        name: bytes_of(service["mem_limit"]) * service.get("deploy", {}).get("replicas", 1)
        for name, service in services.items()
        if name != "kafka"
    }
    assert sum(limits.values()) < ALL_MEMORY, limits


def test_a_service_waits_for_those_only_that_say_when_they_are_ready(
    services: dict[str, Any],
) -> None:
    for service in services.values():
        for name, wait in service.get("depends_on", {}).items():
            one_shot = is_one_shot(services[name])
            wanted = "service_completed_successfully" if one_shot else "service_healthy"
            assert wait["condition"] == wanted
            # One that a profile may leave out.
            assert wait.get("required", True) is ("profiles" not in services[name])


def test_images_of_others_have_a_version(services: dict[str, Any]) -> None:
    foreign = {s["image"] for s in services.values() if s["image"] != "tidemark"}
    assert foreign == {"postgres:16", "versity/versitygw:v1.8.0", "apache/kafka:4.1.1"}


def test_no_password_or_key_has_a_default() -> None:
    text = FILE.read_text(encoding="utf-8")
    secrets = [v for v in VARIABLE.finditer(text) if re.search("PASSWORD|SECRET|KEY", v[1])]
    assert len(secrets) >= 8
    assert [found[0] for found in secrets if found[2]] == []


def test_sparks_own_processes_are_told_no_secret(services: dict[str, Any]) -> None:
    for name in ("spark-master", "spark-worker", "history"):
        assert all(variable.startswith("SPARK_") for variable in services[name]["environment"])


def test_airflow_knows_each_of_its_settings(services: dict[str, Any]) -> None:
    from airflow.configuration import retrieve_configuration_description

    known = retrieve_configuration_description()
    names = [n for n in services["init"]["environment"] if n.startswith("AIRFLOW__")]
    assert len(names) > 10
    for name in names:
        section, option = name.removeprefix("AIRFLOW__").lower().split("__")
        assert option in known[section]["options"], name


def test_its_settings_can_be_used(
    services: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in services["scheduler"]["environment"].items():
        if name.startswith("TIDEMARK_"):
            monkeypatch.setenv(name, value or "")
    monkeypatch.setenv("TIDEMARK_STORAGE_OPTIONS__AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("TIDEMARK_STORAGE_OPTIONS__AWS_SECRET_ACCESS_KEY", "secret")
    settings = load_settings(REPOSITORY / "include" / "settings.yaml")
    assert settings.root == "s3://tidemark/warehouse"
    conf = spark_conf(settings)
    assert conf["spark.hadoop.fs.s3a.endpoint"] == "http://store:7070"
    assert conf["spark.eventLog.enabled"] == "true"


def test_a_bucket_elsewhere_needs_neither_keys_nor_an_endpoint(
    services: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty variables are none: the machine's role and Amazon's own addresses are used."""
    for name, value in services["land"]["environment"].items():
        monkeypatch.setenv(name, "" if "URL" in name or "KEY" in name else value)
    settings = load_settings(REPOSITORY / "include" / "settings.yaml")
    assert set(settings.storage_options) == {"AWS_ALLOW_HTTP", "AWS_REGION"}


def test_kafka_tells_its_clients_where_it_listens(services: dict[str, Any]) -> None:
    told = services["kafka"]["environment"]
    advertised = dict(one.split("://") for one in told["KAFKA_ADVERTISED_LISTENERS"].split(","))
    bound = dict(one.split("://") for one in told["KAFKA_LISTENERS"].split(","))
    assert set(bound) == set(advertised) | {"CONTROLLER"}
    assert advertised["PLAINTEXT"] == f"kafka{bound['PLAINTEXT']}"
    (port,) = services["kafka"]["ports"]
    assert port == f"{advertised['HOST']}{bound['HOST']}"


def test_kafka_is_of_the_version_that_tests_run(services: dict[str, Any]) -> None:
    (jar,) = (jar for jar in BROKER_JARS if jar.name.startswith("kafka_"))
    assert services["kafka"]["image"] == f"apache/kafka:{jar.revision}"


def test_an_executor_fits_a_worker(services: dict[str, Any]) -> None:
    executor = services["scheduler"]["environment"]["TIDEMARK_CLUSTER__MEMORY"]
    worker = services["spark-worker"]
    offered = worker["environment"]["SPARK_WORKER_MEMORY"]
    assert bytes_of(executor) <= bytes_of(offered) < bytes_of(worker["mem_limit"])
    connection = json.loads(services["scheduler"]["environment"]["AIRFLOW_CONN_SPARK_DEFAULT"])
    assert f"{connection['host']}:{connection['port']}" == worker["command"][-1]


def test_volumes_are_mounted_where_the_image_has_a_folder_of_its_user(
    compose: dict[str, Any],
) -> None:
    dockerfile = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
    own = [s for s in compose["services"].values() if s["image"] == "tidemark"]
    mounted = {v.split(":")[1] for s in own for v in s.get("volumes", []) if v[0] not in "./"}
    assert mounted
    assert all(place in dockerfile for place in mounted)
    used = {v.split(":")[0] for s in compose["services"].values() for v in s.get("volumes", [])}
    assert set(compose["volumes"]) == {name for name in used if name[0] != "."}
