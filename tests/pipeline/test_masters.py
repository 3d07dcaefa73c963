from __future__ import annotations

import pytest

from tidemark.errors import SettingsInvalid
from tidemark.pipeline.settings.masters import check_master, without_loopback
from tidemark.pipeline.settings.settings import Cluster, Settings, cluster_conf, spark_conf

LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1", "HOME": "/home/ada"}
ELSEWHERE = (
    "spark://master:7077",
    "spark://10.0.0.5:7077",
    "spark://127.0.0.1:7077,master:7077",
    "yarn",
    "k8s://https://127.0.0.1:6443",
)
HERE = (
    "local",
    "local[2]",
    "local[*]",
    "local-cluster[2,1,1024]",
    "spark://127.0.0.1:7077",
    "spark://localhost:7077",
    "spark://[::1]:7077",
    "spark://127.0.0.1:7077,localhost:7078",
)


@pytest.mark.parametrize("master", ELSEWHERE)
def test_a_driver_with_executors_elsewhere_is_not_bound_to_this_machine(master: str) -> None:
    assert without_loopback(LOOPBACK, master) == {"HOME": "/home/ada"}


@pytest.mark.parametrize("master", HERE)
def test_a_driver_with_executors_on_this_machine_stays_bound_to_it(master: str) -> None:
    assert without_loopback(LOOPBACK, master) == LOOPBACK


@pytest.mark.parametrize("master", [*ELSEWHERE, *HERE])
def test_an_address_that_others_reach_is_kept(master: str) -> None:
    own = {"SPARK_LOCAL_IP": "10.0.0.7"}
    assert without_loopback(own, master) == own
    assert without_loopback({}, master) == {}


@pytest.mark.parametrize("master", [*ELSEWHERE, "local-cluster[2,1,1024]"])
def test_executors_elsewhere_are_refused_for_a_root_on_this_machine(master: str) -> None:
    settings = Settings(root="/warehouse", pipelines="/p")
    with pytest.raises(SettingsInvalid, match="would write to their own disks"):
        check_master(settings, master, "--master")


def test_a_cluster_is_asked_for_executors_in_the_words_of_each_master() -> None:
    conf = cluster_conf(Cluster(executors=4, cores=2, memory="3g"))
    assert conf == {
        "spark.executor.instances": "4",
        "spark.executor.cores": "2",
        "spark.executor.memory": "3g",
        "spark.cores.max": "8",
    }
    assert cluster_conf(Cluster()) == {}
    assert cluster_conf(Cluster(cores=2)) == {"spark.executor.cores": "2"}


def test_sparks_own_settings_win_over_the_clusters() -> None:
    settings = Settings(
        root="s3://b",
        pipelines="/p",
        cluster=Cluster(executors=4),
        spark={"spark.cores.max": "3"},
    )
    assert spark_conf(settings)["spark.cores.max"] == "3"


def test_a_size_of_memory_is_written_as_spark_writes_it() -> None:
    with pytest.raises(ValueError, match="memory"):
        Cluster(memory="3 GB")


def test_the_cluster_is_set_by_variables_too(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidemark.pipeline.settings.settings import load_settings

    monkeypatch.setenv("TIDEMARK_CLUSTER__EXECUTORS", "4")
    monkeypatch.setenv("TIDEMARK_CLUSTER__WAIT_SECONDS", "20")
    assert load_settings().cluster == Cluster(executors=4, wait_seconds=20)
