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


def test_no_password_or_key_is_a_variable(services: dict[str, Any]) -> None:
    """They are files, which `docker inspect` does not show; but for the store's own."""
    text = FILE.read_text(encoding="utf-8")
    assert [v[0] for v in VARIABLE.finditer(text) if re.search("PASSWORD|SECRET|KEY", v[1])] == []
    for name, service in services.items():
        for variable, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|ACCESS_KEY|FERNET|CONN_CMD", variable):
                file = str(value).removeprefix("cat ").rpartition("/")[2]
                assert file == "passwords.json" or file in service["secrets"], (name, variable)
    assert {n for n, service in services.items() if "env_file" in service} == {"store"}


def test_every_secret_is_a_file_of_the_folder_that_is_made(compose: dict[str, Any]) -> None:
    files = {name: secret["file"] for name, secret in compose["secrets"].items()}
    assert files == {name: f".secrets/{name}" for name in files}
    granted = {one for s in compose["services"].values() for one in s.get("secrets", [])}
    assert granted == set(files)


CONFINED = {
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges:true"],
    "logging": {"driver": "json-file", "options": {"max-size": "10m", "max-file": "3"}},
}


def test_every_container_is_confined(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert CONFINED.items() <= service.items(), name
        assert 0 < service["pids_limit"] <= 2048, name
        assert not {"privileged", "cap_add", "devices", "pid", "ipc"} & service.keys(), name
    # Its image writes its configuration beside its program.
    assert {name for name, one in services.items() if one["read_only"] is not True} == {"kafka"}
    assert all("/tmp" in (*s.get("tmpfs", []), *s.get("volumes", [])) for s in services.values()
               if s["read_only"])  # fmt: skip


def test_what_runs_of_pipelines_is_another_user_without_a_way_to_airflow(
    services: dict[str, Any],
) -> None:
    """Not to its database, its API or its secrets; and what only Airflow needs is not there."""
    drivers = {name: s for name, s in services.items() if s.get("user") == "50001:0"}
    assert set(drivers) == {"drivers", "spark-master", "spark-worker", "history"}
    for service in drivers.values():
        assert service["networks"] == ["work"]
        assert not any("AIRFLOW" in name for name in service["environment"])
        assert set(service.get("secrets", [])) <= {"store_access_key", "store_secret_key"}
        assert not any("airflow" in str(volume) for volume in service["volumes"])
    assert services["postgres"]["networks"] == ["control"]
    # It reads the store, and meets nobody there.
    assert services["api-server"]["networks"] == ["control", "reading"]
    assert {n for n, s in services.items() if "reading" in s["networks"]} == {"api-server", "store"}
    both = {name for name, s in services.items() if s["networks"] == ["control", "work"]}
    assert both == {"init", "scheduler"}
    # A driver of the command, which starts it by itself, has no place there.
    socket = services["scheduler"]["environment"]["DRIVERS_SOCKET"]
    assert services["drivers"]["command"][-1] == socket
    assert "DRIVERS_SOCKET" not in services["drivers"]["environment"]
    of_both = [s["volumes"] for s in (services["scheduler"], services["drivers"])]
    assert all(f"drivers:{socket.rpartition('/')[0]}" in volumes for volumes in of_both)


def test_a_driver_and_the_task_that_asks_for_it_have_the_same_settings(
    services: dict[str, Any],
) -> None:
    told = [
        {name: v for name, v in s["environment"].items() if name.startswith("TIDEMARK_")}
        for s in (services["drivers"], services["scheduler"])
    ]
    assert told[0] == told[1]


def test_files_are_landed_without_writing_where_they_come_from(services: dict[str, Any]) -> None:
    mounted = [v for v in services["land"]["volumes"] if v.startswith(".")]
    assert len(mounted) == 2
    assert all(volume.endswith(":ro") for volume in mounted)


def test_sparks_own_processes_are_told_no_secret(services: dict[str, Any]) -> None:
    for name in ("spark-master", "spark-worker", "history"):
        assert all(variable.startswith("SPARK_") for variable in services[name]["environment"])


def test_airflow_knows_each_of_its_settings(services: dict[str, Any]) -> None:
    from airflow.configuration import retrieve_configuration_description

    known = retrieve_configuration_description()
    names = [n for n in services["init"]["environment"] if n.startswith("AIRFLOW__")]
    assert len(names) > 10
    for name in names:
        told = name.removeprefix("AIRFLOW__").removesuffix("_CMD")
        section, option = told.lower().split("__")
        assert option in known[section]["options"], name


def set_variables(
    variables: dict[str, Any], secrets: Path, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container; its secrets are files of a folder here, each with this text."""
    for name, value in variables.items():
        if name.startswith("TIDEMARK_"):
            monkeypatch.setenv(name, str(value).replace("/run/secrets", str(secrets)))
    for name in ("store_access_key", "store_secret_key"):
        (secrets / name).write_text(f"{secret}\n")


def test_its_settings_can_be_used(
    services: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_variables(services["scheduler"]["environment"], tmp_path, "secret", monkeypatch)
    settings = load_settings(REPOSITORY / "include" / "settings.yaml")
    assert settings.root == "s3://tidemark/warehouse"
    conf = spark_conf(settings)
    assert conf["spark.hadoop.fs.s3a.endpoint"] == "http://store:7070"
    assert conf["spark.hadoop.fs.s3a.secret.key"] == "secret"
    assert conf["spark.eventLog.enabled"] == "true"


def test_a_bucket_elsewhere_needs_neither_keys_nor_an_endpoint(
    services: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty ones are none: the machine's role and Amazon's own addresses are used."""
    set_variables(services["land"]["environment"], tmp_path, "", monkeypatch)
    monkeypatch.setenv("TIDEMARK_STORAGE_OPTIONS__AWS_ENDPOINT_URL", "")
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
    assert "/run/tidemark" in mounted
    assert mounted
    assert all(place in dockerfile for place in mounted)
    used = {v.split(":")[0] for s in compose["services"].values() for v in s.get("volumes", [])}
    assert set(compose["volumes"]) == {name for name in used if name[0] not in "./"}
