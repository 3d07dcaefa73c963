"""What the containers run besides Airflow and Spark, on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from deploy import healthy, land
from tests.storage.s3 import s3_server
from tidemark.pipeline.settings.settings import Settings
from tidemark.storage.files import list_files, read_bytes

DEPLOY = Path(__file__).parents[2] / "include" / "deploy"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with nothing but the scripts."""
    shutil.copytree(DEPLOY, tmp_path / "repo" / "include" / "deploy")
    return tmp_path / "repo"


def run(repository: Path, script: str, *arguments: str, **variables: str) -> str:
    command = ["sh", str(repository / "include" / "deploy" / script), *arguments]
    environment = os.environ | variables
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return ended.stdout


def values_of(file: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in file.read_text().splitlines() if line)
    return {name: value for name, _, value in lines if not name.startswith("#")}


def secrets_of(repository: Path) -> dict[str, str]:
    folder = repository / ".secrets"
    return {file.name: file.read_text() for file in folder.iterdir()}


def test_compose_env_makes_passwords_that_nobody_else_reads(repository: Path) -> None:
    """The folder keeps others out; a container's user, who is another, reads what is mounted."""
    said = run(repository, "compose_env.sh")
    folder = repository / ".secrets"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o444}
    values = secrets_of(repository)
    single = {name: value for name, value in values.items() if name != "store.env"}
    assert len(set(single.values())) == len(single) == 8
    assert all(len(value) >= 20 for value in single.values())
    assert not any(value in said for value in single.values())
    assert single["airflow_database"] == (
        f"postgresql+psycopg2://airflow:{single['postgres_password']}@postgres/airflow"
    )
    assert values["store.env"] == (
        f"ROOT_ACCESS_KEY={single['store_access_key']}\n"
        f"ROOT_SECRET_KEY={single['store_secret_key']}\n"
    )
    assert values_of(repository / ".env") == {"COMPOSE_PROFILES": "store"}
    made = {".env", ".secrets", "include", "warehouse"}
    assert {path.name for path in repository.iterdir()} == made


def test_compose_env_makes_all_that_compose_mounts(repository: Path) -> None:
    run(repository, "compose_env.sh")
    text = (DEPLOY.parents[1] / "docker-compose.yaml").read_text(encoding="utf-8")
    asked = set(re.findall(r"\.secrets/([\w.]+)", text)) - {"store.env"}
    assert asked == secrets_of(repository).keys() - {"store.env"}


def test_airflow_takes_the_fernet_key(repository: Path) -> None:
    from cryptography.fernet import Fernet

    run(repository, "compose_env.sh")
    Fernet(secrets_of(repository)["airflow_fernet_key"])


@pytest.mark.slow
def test_airflow_reads_its_secrets_from_files(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both of its parsers: tasks have one of their own."""
    run(repository, "compose_env.sh")
    secrets = secrets_of(repository)
    told = {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "airflow_database",
        "AIRFLOW__CORE__FERNET_KEY": "airflow_fernet_key",
        "AIRFLOW__API__SECRET_KEY": "airflow_secret_key",
        "AIRFLOW__API_AUTH__JWT_SECRET": "airflow_jwt_secret",
    }
    own = {f"{name}_CMD": f"cat {repository}/.secrets/{file}" for name, file in told.items()}
    options = [name.removeprefix("AIRFLOW__").lower().split("__") for name in told]
    for parser in ("airflow.configuration", "airflow.sdk.configuration"):
        script = f"import json; from {parser} import conf; "
        script += f"print(json.dumps([conf.get(*of) for of in {options}]))"
        home = {"AIRFLOW_HOME": str(repository), **own}
        said = subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | home,
            capture_output=True,
            text=True,
            check=True,
        )
        found = json.loads(said.stdout.splitlines()[-1])
        assert found == [secrets[file] for file in told.values()], parser


def test_compose_env_leaves_what_is_there(repository: Path) -> None:
    (repository / ".env").write_text("COMPOSE_PROFILES=store,history\n")
    (repository / ".secrets").mkdir()
    assert "stays as it is" in run(repository, "compose_env.sh")
    assert (repository / ".env").read_text() == "COMPOSE_PROFILES=store,history\n"
    assert list((repository / ".secrets").iterdir()) == []


def test_compose_env_takes_over_the_passwords_of_a_former_env(repository: Path) -> None:
    """The volumes were made with them; a key that is empty there stays so: the machine's role."""
    former = "POSTGRES_PASSWORD=mine\nAIRFLOW_FERNET_KEY=key=\nSTORE_ACCESS_KEY=\n"
    (repository / ".env").write_text(former)
    assert "take them out of .env" in run(repository, "compose_env.sh")
    found = secrets_of(repository)
    assert (found["postgres_password"], found["airflow_fernet_key"]) == ("mine", "key=")
    assert "airflow:mine@postgres" in found["airflow_database"]
    assert found["store_access_key"] == ""
    assert len(found["store_secret_key"]) > 20
    assert (repository / ".env").read_text() == former


def test_git_passes_it_over() -> None:
    ignored = (DEPLOY.parents[1] / ".gitignore").read_text().splitlines()
    assert {"/.env", "/.secrets/", "/.secrets.part/"} <= set(ignored)


def test_the_entry_point_lets_spark_be_reached(repository: Path) -> None:
    (repository / ".tidemark").mkdir()
    (repository / ".tidemark" / "env").write_text(
        "export SPARK_LOCAL_IP=127.0.0.1\nexport SPARK_HOME=/spark\n"
    )
    tell = 'printf "%s|" "${SPARK_LOCAL_IP-unset}" "$SPARK_HOME" "$@"'
    said = run(repository, "entrypoint.sh", "sh", "-c", tell, "sh", "a b", "c", SPARK_LOCAL_IP="x")
    assert said == "unset|/spark|a b|c|"


def test_the_entry_point_of_the_image_passes_on_each_variable(repository: Path) -> None:
    """Also that of a connection whose id has a hyphen, which some shells drop."""
    (repository / ".tidemark").mkdir()
    (repository / ".tidemark" / "env").touch()
    dockerfile = (DEPLOY.parents[1] / "Dockerfile").read_text()
    shell, script = json.loads(dockerfile.partition("\nENTRYPOINT ")[2].splitlines()[0])
    command = [shell, str(repository / Path(script).relative_to("/opt/tidemark")), "env"]
    environment = os.environ | {"AIRFLOW_CONN_EVENTS-PROD": "of Kafka"}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "AIRFLOW_CONN_EVENTS-PROD=of Kafka\n" in said.stdout


# What Spark tells an executor's container.
EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.1.2.3:40001",
    "SPARK_EXECUTOR_ID": "7",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1024m",
    "SPARK_APPLICATION_ID": "spark-1f",
    "SPARK_EXECUTOR_POD_IP": "10.1.2.4",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "visits-exec-7",
    "SPARK_CONF_DIR": "/opt/spark/conf",
}


def java_of_executor(repository: Path, **variables: str) -> list[str]:
    """What the entry point starts Java with for an executor."""
    java = repository / "a jvm" / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    java.chmod(0o755)
    (repository / ".tidemark").mkdir(exist_ok=True)
    (repository / ".tidemark" / "env").write_text(
        f"export SPARK_LOCAL_IP=127.0.0.1 SPARK_HOME=/spark JAVA_HOME='{repository}/a jvm'\n"
        "export SPARK_DIST_CLASSPATH='/jars/*'\n"
    )
    return run(repository, "entrypoint.sh", "executor", **EXECUTOR, **variables).splitlines()


def test_the_entry_point_starts_an_executor_as_sparks_own_image_does(repository: Path) -> None:
    options = {f"SPARK_JAVA_OPT_{n}": f"-Dno={n} of 12" for n in range(12)}
    assert java_of_executor(repository, **options) == [
        *options.values(),
        *("-Xms1024m", "-Xmx1024m", "-cp", "/opt/spark/conf:/spark/jars/*:/jars/*"),
        "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
        *("--driver-url", "spark://CoarseGrainedScheduler@10.1.2.3:40001", "--executor-id", "7"),
        *("--cores", "2", "--app-id", "spark-1f", "--hostname", "10.1.2.4"),
        *("--resourceProfileId", "0", "--podName", "visits-exec-7"),
    ]


def test_an_executors_own_class_path_comes_before_sparks_jars(repository: Path) -> None:
    words = java_of_executor(repository, SPARK_CLASSPATH="/own/*")
    assert "/opt/spark/conf:/own/*:/spark/jars/*:/jars/*" in words


def test_spark_knows_the_names_of_what_an_executor_is_told() -> None:
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    (jar,) = jars.glob("spark-kubernetes_*.jar")
    with zipfile.ZipFile(jar) as classes:
        names = classes.read("org/apache/spark/deploy/k8s/Constants$.class")
        backend = "org/apache/spark/scheduler/cluster/k8s/KubernetesExecutorBackend$.class"
        arguments = classes.read(backend)
    asked = {*EXECUTOR, "SPARK_JAVA_OPT_", "SPARK_CLASSPATH"}
    script = (DEPLOY / "entrypoint.sh").read_text()
    assert [name for name in asked if name not in script or name.encode() not in names] == []
    told = re.findall(r"--\w+\S*", script)
    assert len(told) == 7
    assert [word for word in told if word.encode() not in arguments] == []


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 503)
        self.end_headers()
        self.wfile.write(b'{"scheduler": {"status": "healthy"}, "triggerer": null}')

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("path", "wanted", "code"),
    [
        ("/health", "", 0),
        ("/health", "scheduler.status=healthy", 0),
        ("/health", "scheduler.status=unhealthy", 1),
        ("/health", "triggerer.status=healthy", 1),
        ("/health", "dag_processor.status=healthy", 1),
        ("/other", "", 1),
    ],
)
def test_a_service_is_healthy_when_it_answers_what_it_has_to(
    address: str, path: str, wanted: str, code: int
) -> None:
    assert healthy.main(f"{address}{path}", wanted) == code


def test_a_service_that_does_not_answer_is_not_healthy() -> None:
    assert healthy.main("http://127.0.0.1:1/health") == 1


@pytest.mark.slow
def test_what_is_new_in_a_folder_lands_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "clicks" / "2026").mkdir(parents=True)
    names = ("clicks/a.json", "clicks/2026/b ü%.json")
    for name in (*names, "clicks/.c.part", "clicks/_d.json"):
        (tmp_path / name).write_text(name)
    with s3_server() as options:
        settings = Settings(root="s3://lake/w", pipelines=str(tmp_path), storage_options=options)
        monkeypatch.setattr(land, "load_settings", lambda: settings)
        land.main(tmp_path)
        assert capsys.readouterr().out.endswith("2 landed, 0 there already\n")
        found = list_files("s3://lake/w", options)
        assert {read_bytes(place, options).decode() for place in found} == set(names)
        assert "s3://lake/w/landing/clicks/a.json" in found

        (tmp_path / names[0]).write_text("changed")
        (tmp_path / "e.json").write_text("new")
        land.main(tmp_path)
        assert capsys.readouterr().out.endswith("1 landed, 2 there already\n")
        landed = read_bytes("s3://lake/w/landing/clicks/a.json", options)
        assert landed.decode() == names[0]
