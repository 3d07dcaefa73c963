"""include/deploy/kubernetes, as far as it can be judged without a cluster."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator
from ruamel.yaml import YAML

from setup.lock import pinned_versions
from tests.deployment.test_compose import without_variables
from tidemark.errors import FAILED, RETRY
from tidemark.pipeline.settings.masters import check_master
from tidemark.pipeline.settings.settings import Settings, load_settings, spark_conf

REPOSITORY = Path(__file__).parents[2]
FOLDER = REPOSITORY / "include" / "deploy" / "kubernetes"
SCHEMAS = json.loads((Path(__file__).parent / "data" / "kubernetes-1.30.json").read_text())
PAGE = (REPOSITORY / "docs" / "kubernetes.md").read_text(encoding="utf-8")
POD = {"POD_IP": "10.1.2.3", "POD_NAME": "airflow-scheduler-0"}
# What of the chart's templates the values use.
TEMPLATES = {
    '{{ include "airflow_image" . }}': "registry.example.org/tidemark:latest",
    "{{ .Release.Namespace }}": "tidemark",
}
STORE = {
    "TIDEMARK_ROOT": "s3://lake/warehouse",
    "TIDEMARK_STORAGE_OPTIONS__AWS_ACCESS_KEY_ID": "key",
    "TIDEMARK_STORAGE_OPTIONS__AWS_SECRET_ACCESS_KEY": "secret",
}


def documents(name: str) -> list[dict[str, Any]]:
    return list(YAML(typ="safe").load_all((FOLDER / name).read_text(encoding="utf-8")))


MANIFESTS = [*documents("spark.yaml"), *documents("cronjob.yaml")]


@pytest.fixture
def values() -> dict[str, Any]:
    (found,) = documents("airflow-values.yaml")
    return found


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [manifest for manifest in MANIFESTS if manifest["kind"] == kind]


def job() -> dict[str, Any]:
    (cron_job,) = of_kind("CronJob")
    return cron_job["spec"]["jobTemplate"]["spec"]


def container() -> dict[str, Any]:
    (found,) = job()["template"]["spec"]["containers"]
    return found


def rendered(text: str) -> Any:
    """What a block becomes that the chart takes for a template."""
    for template, made in TEMPLATES.items():
        text = text.replace(template, made)
    assert "{{" not in text
    return YAML(typ="safe").load(text)


def variables_of_airflow(values: dict[str, Any]) -> list[dict[str, Any]]:
    """In the chart's order: `env`, then `extraEnv`."""
    return [*values["env"], *rendered(values["extraEnv"])]


def expanded(variables: list[dict[str, Any]]) -> dict[str, str]:
    """As Kubernetes has it: $(NAME) is what an earlier variable is, else it stays."""
    known: dict[str, str] = {}
    for variable in variables:
        name = variable["name"]
        text = variable.get("value", POD.get(name))
        known[name] = re.sub(r"\$\((\w+)\)", lambda found: known.get(found[1], found[0]), text)
    return known


def settings_by(environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Settings:
    for name, value in {**environment, **STORE}.items():
        if name.startswith("TIDEMARK_"):
            monkeypatch.setenv(name, value)
    return load_settings(REPOSITORY / "include" / "settings.yaml")


def errors_in(manifest: dict[str, Any]) -> list[str]:
    schema = {**SCHEMAS["kinds"][manifest["kind"]], "$defs": SCHEMAS["$defs"]}
    return [error.message for error in Draft202012Validator(schema).iter_errors(manifest)]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_each_manifest_is_valid_by_kubernetes_schema(manifest: dict[str, Any]) -> None:
    assert errors_in(manifest) == []


def test_the_schema_refuses_a_misspelt_field() -> None:
    (cron_job,) = deepcopy(of_kind("CronJob"))
    pod = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    pod["containers"][0]["envFrom"][0]["secretref"] = {"name": "tidemark"}
    assert any("'secretref' was unexpected" in message for message in errors_in(cron_job))


@pytest.mark.skipif(
    "AIRFLOW_CHART" not in os.environ,
    reason="Airflow's chart is in no package index that tests can take it from, and is not copied "
    "here: AIRFLOW_CHART names the folder of one, as docs/kubernetes.md says",
)
def test_the_values_are_valid_by_the_charts_own_schema(values: dict[str, Any]) -> None:
    schema = json.loads(Path(os.environ["AIRFLOW_CHART"], "values.schema.json").read_text())
    assert [error.message for error in Draft7Validator(schema).iter_errors(values)] == []


def test_airflow_knows_each_of_its_settings(values: dict[str, Any]) -> None:
    from airflow.configuration import retrieve_configuration_description

    known = retrieve_configuration_description()
    told = [(section, name) for section, names in values["config"].items() for name in names]
    assert len(told) == 6
    assert [(s, name) for s, name in told if name not in known[s]["options"]] == []
    module = values["config"]["core"]["auth_manager"].rpartition(".")[0]
    assert importlib.util.find_spec(module)


def test_the_chart_is_told_the_version_of_airflow_that_the_image_has(
    values: dict[str, Any],
) -> None:
    lock = (REPOSITORY / "requirements.txt").read_text(encoding="utf-8")
    assert {values["airflowVersion"]} == pinned_versions(lock)["apache-airflow"]


def test_airflow_writes_and_looks_where_the_image_has_it(values: dict[str, Any]) -> None:
    dockerfile = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
    home = values["airflowHome"]
    assert f"install -d -o 50000 -g 0 {home}" in dockerfile
    core = values["config"]["core"]
    assert "WORKDIR /opt/tidemark\n" in dockerfile
    assert core["dags_folder"] == "/opt/tidemark/dags"
    written = core["simple_auth_manager_passwords_file"].replace(home, "$AIRFLOW_HOME")
    assert f'>"{written}"' in values["apiServer"]["args"][-1]


def test_nothing_is_run_that_only_the_official_image_has(values: dict[str, Any]) -> None:
    """The chart's own probes call /entrypoint, and its log groomers /clean-logs."""
    for probed, probes in (
        ("scheduler", ("livenessProbe", "startupProbe")),
        ("dagProcessor", ("livenessProbe",)),
    ):
        commands = [values[probed][probe]["command"] for probe in probes]
        assert all(command[:3] == ["airflow", "jobs", "check"] for command in commands)
        assert values[probed]["logGroomerSidecar"]["enabled"] is False
    assert values["triggerer"]["enabled"] is False
    assert values["createUserJob"]["enabled"] is False


def test_the_image_is_the_one_that_compose_runs(values: dict[str, Any]) -> None:
    compose = YAML(typ="safe").load(
        without_variables((REPOSITORY / "docker-compose.yaml").read_text(encoding="utf-8"))
    )
    image = values["images"]["airflow"]
    assert image["repository"].rpartition("/")[2] == compose["x-service"]["image"]
    assert f"{image['repository']}:{image['tag']}" == container()["image"]
    assert container()["image"] in TEMPLATES.values()


CONFINED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}


def test_the_job_and_its_executors_are_confined_and_end() -> None:
    (executor,) = documents("executor.yaml")
    for pod in (job()["template"]["spec"], executor["spec"]):
        who = pod["securityContext"]
        assert (who["runAsNonRoot"], who["runAsUser"], who["runAsGroup"]) == (True, 50001, 0)
        (only,) = pod["containers"]
        assert only["securityContext"] == CONFINED
        assert [one["mountPath"] for one in only["volumeMounts"]] == ["/tmp"]
    assert 0 < job()["activeDeadlineSeconds"] <= 6 * 3600
    dockerfile = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
    assert "--uid 50001" in dockerfile


def test_what_spark_makes_an_executor_of_is_a_valid_pod() -> None:
    (executor,) = documents("executor.yaml")
    template = {"spec": {"restartPolicy": "Never", **executor["spec"]}}
    manifest = deepcopy(of_kind("CronJob")[0])
    manifest["spec"]["jobTemplate"]["spec"]["template"] = template
    assert errors_in(manifest) == []


def test_airflows_pods_are_confined(values: dict[str, Any]) -> None:
    """But for their files: the chart's own writes where it likes."""
    asked = dict(CONFINED)
    del asked["readOnlyRootFilesystem"]
    assert values["securityContexts"]["containers"] == asked
    assert values["securityContexts"]["pod"]["runAsNonRoot"] is True


def test_a_driver_may_read_no_secret_and_make_no_pod_that_does() -> None:
    """Who makes pods could mount a Secret; the policy's own language is not run here."""
    (role,) = of_kind("Role")
    granted = {one for rule in role["rules"] for one in rule["resources"]}
    assert granted == {"pods", "configmaps", "services", "persistentvolumeclaims"}
    policy, binding = documents("only-executors.yaml")
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Deny"]
    driver = next(one for one in of_kind("ServiceAccount") if "driver" in one["metadata"]["name"])
    name = f"{driver['metadata']['namespace']}:{driver['metadata']['name']}"
    (condition,) = policy["spec"]["matchConditions"]
    assert f"'system:serviceaccount:{name}'" in condition["expression"]
    rules = " ".join(one["expression"] for one in policy["spec"]["validations"])
    assert all(part in rules for part in ("secretRef", "secretKeyRef", "tidemark-executor"))


def test_airflow_and_the_cron_job_ask_for_the_same(
    values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    of_airflow = expanded(variables_of_airflow(values))
    of_job = expanded(container()["env"])
    connection = json.loads(of_airflow.pop("AIRFLOW_CONN_SPARK_DEFAULT"))
    assert of_airflow == of_job
    master = container()["args"][container()["args"].index("--master") + 1]
    assert master == f"{connection['host']}:{connection['port']}"
    settings = settings_by(of_job, monkeypatch)
    check_master(settings, master, "of the test")
    assert {n: v for n, v in spark_conf(settings).items() if "hadoop" not in n} == {
        "spark.cores.max": "2",
        "spark.driver.host": "10.1.2.3",
        "spark.executor.cores": "1",
        "spark.executor.instances": "2",
        "spark.executor.memory": "1g",
        "spark.executor.memoryOverhead": "1g",
        "spark.kubernetes.authenticate.executor.serviceAccountName": "tidemark-executor",
        "spark.kubernetes.container.image": "registry.example.org/tidemark:latest",
        "spark.kubernetes.driver.pod.name": "airflow-scheduler-0",
        "spark.kubernetes.executor.podTemplateFile": (
            "/opt/tidemark/include/deploy/kubernetes/executor.yaml"
        ),
        "spark.kubernetes.namespace": "tidemark",
    }


def test_each_pod_is_of_a_service_account_that_is_there(values: dict[str, Any]) -> None:
    accounts = {found["metadata"]["name"]: found for found in of_kind("ServiceAccount")}
    driver = values["scheduler"]["serviceAccount"]
    assert driver == {"create": False, "name": "tidemark-driver"}
    assert job()["template"]["spec"]["serviceAccountName"] == driver["name"]
    told = json.loads(expanded(container()["env"])["TIDEMARK_SPARK"])
    executor = told["spark.kubernetes.authenticate.executor.serviceAccountName"]
    assert set(accounts) == {driver["name"], executor}
    assert accounts[executor]["automountServiceAccountToken"] is False
    assert "automountServiceAccountToken" not in accounts[driver["name"]]


def test_the_driver_alone_may_make_pods_and_in_its_namespace_alone() -> None:
    assert {manifest["metadata"]["namespace"] for manifest in MANIFESTS} == {"tidemark"}
    assert of_kind("ClusterRole") == of_kind("ClusterRoleBinding") == []
    (role,) = of_kind("Role")
    (binding,) = of_kind("RoleBinding")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    # Without a namespace Kubernetes refuses a service account there, and no schema says so.
    account = {"kind": "ServiceAccount", "name": "tidemark-driver", "namespace": "tidemark"}
    assert binding["subjects"] == [account]
    (rule,) = role["rules"]
    assert set(rule["resources"]) == {"pods", "configmaps", "services", "persistentvolumeclaims"}
    assert "*" not in rule["verbs"]
    assert set(rule["verbs"]) > {"create", "list", "watch", "deletecollection"}


def test_the_cron_job_tries_again_only_where_that_can_help() -> None:
    (rule,) = job()["podFailurePolicy"]["rules"]
    codes = rule["onExitCodes"]
    assert (rule["action"], codes["operator"]) == ("FailJob", "In")
    assert codes["containerName"] == container()["name"]
    assert FAILED in codes["values"]
    assert RETRY not in codes["values"]
    assert job()["template"]["spec"]["restartPolicy"] == "Never"  # the policy asks for it


def test_the_cron_job_runs_a_pipeline_that_the_image_has() -> None:
    assert container()["args"][:2] == ["tidemark", "run"]
    assert (REPOSITORY / "include" / "pipelines" / f"{container()['args'][2]}.yaml").is_file()


def test_the_page_makes_each_secret_that_is_asked_for(values: dict[str, Any]) -> None:
    kept = {name: value for name, value in values.items() if name.endswith("SecretName")}
    (login,) = [found["valueFrom"]["secretKeyRef"] for found in values["apiServer"]["env"]]
    assert {*kept.values(), login["name"]} == {"airflow-keys"}
    (store,) = rendered(values["extraEnvFrom"])
    assert [store] == container()["envFrom"]
    names = ("airflow-keys", values["data"]["metadataSecretName"], store["secretRef"]["name"])
    assert all(f"create secret generic {name} " in PAGE for name in names)
    keys = ("fernet-key", "api-secret-key", "jwt-secret", login["key"], "connection")
    assert all(f"--from-literal={key}=" in PAGE for key in keys)
    assert "--from-env-file=" in PAGE


def test_the_page_names_one_version_of_the_chart() -> None:
    comment = (FOLDER / "airflow-values.yaml").read_text(encoding="utf-8").split("\n", 1)[0]
    (version,) = re.findall(r"chart of Airflow, (\d+\.\d+\.\d+):", comment)
    assert f"--version {version} " in PAGE
    assert set(re.findall(r"1\.2\d\.\d+", PAGE)) == {version}
