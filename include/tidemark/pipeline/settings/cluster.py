"""The settings of a cluster: how much of it a run asks for, and how long it waits for that."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Cluster(BaseModel):
    """What a run asks a cluster for; a local master takes none of it.

    `executors`: how many, each with `cores` and `memory` (as Spark writes sizes: `2g`). What is not
    set is left to the master, or to the settings under `spark`, which win. `wait_seconds`: how long
    a run waits for a first executor before it ends with ClusterBusy.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    executors: int | None = Field(default=None, ge=1)
    cores: int | None = Field(default=None, ge=1)
    memory: str | None = Field(default=None, pattern=r"^[1-9]\d*[kmgt]$")
    wait_seconds: int = Field(default=300, ge=1)


def cluster_conf(cluster: Cluster) -> dict[str, str]:
    """Spark's settings that ask a cluster for it.

    A standalone master starts executors until an application has `spark.cores.max`; YARN and
    Kubernetes start `spark.executor.instances`.
    """
    conf: dict[str, str] = {}
    if cluster.memory is not None:
        conf["spark.executor.memory"] = cluster.memory
    if cluster.cores is not None:
        conf["spark.executor.cores"] = str(cluster.cores)
    if cluster.executors is not None:
        conf["spark.executor.instances"] = str(cluster.executors)
        conf["spark.executor.cores"] = str(cluster.cores or 1)
        conf["spark.cores.max"] = str(cluster.executors * (cluster.cores or 1))
    return conf
