"""The private classes and methods of Spark 4.2 that are called, and whether they are there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tidemark.errors import EngineChanged

STATE = "org.apache.spark.sql.execution.streaming.state"
_OPTION = "scala.Option"
_HADOOP = "org.apache.hadoop.conf.Configuration"
_STRUCT = "org.apache.spark.sql.types.StructType"
_PROVIDER_ID = f"{STATE}.StateStoreProviderId"
_CONSTRUCTOR = "<init>"


@dataclass(frozen=True)
class Called:
    """A method that is called: where, by which name, with parameters of which types."""

    owner: str
    name: str
    parameters: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        return f"{self.owner}.{self.name}({', '.join(self.parameters)})"


CREATE_SNAPSHOT = Called(f"{STATE}.RocksDB", "createSnapshot", ("long", _OPTION))
CALLED = (
    Called(f"{STATE}.StateStoreConf", "apply", ("org.apache.spark.sql.internal.SQLConf",)),
    Called(f"{STATE}.StateStoreId", "apply", ("java.lang.String", "long", "int",
                                              "java.lang.String")),
    Called(_PROVIDER_ID, "apply", (f"{STATE}.StateStoreId", "java.util.UUID")),
    Called(f"{STATE}.StateSchemaCompatibilityChecker", _CONSTRUCTOR,
           (_PROVIDER_ID, _HADOOP, "scala.collection.immutable.List", _OPTION, "boolean")),
    Called(f"{STATE}.StateSchemaCompatibilityChecker", "readSchemaFile"),
    Called(f"{STATE}.StateStoreColFamilySchema", "keySchema"),
    Called(f"{STATE}.StateStoreColFamilySchema", "valueSchema"),
    Called(f"{STATE}.NoPrefixKeyStateEncoderSpec", "apply", (_STRUCT,)),
    Called(f"{STATE}.PrefixKeyScanStateEncoderSpec", "apply", (_STRUCT, "int")),
    Called(f"{STATE}.StateStoreProvider", "createAndInit",
           (_PROVIDER_ID, _STRUCT, _STRUCT, f"{STATE}.KeyStateEncoderSpec", "boolean",
            f"{STATE}.StateStoreConf", _HADOOP, "boolean", _OPTION)),
    Called(f"{STATE}.HDFSBackedStateStoreProvider", "getReadStore", ("long", _OPTION)),
    Called(f"{STATE}.HDFSBackedStateStoreProvider", "doMaintenance"),
    Called(f"{STATE}.HDFSBackedStateStoreProvider", "close"),
    Called(f"{STATE}.RocksDBStateStoreProvider", "rocksDB"),
    Called(f"{STATE}.RocksDBStateStoreProvider", "close"),
    Called(f"{STATE}.RocksDB", "load", ("long", _OPTION, "boolean", "boolean")),
    CREATE_SNAPSHOT,
    Called(f"{STATE}.RocksDB", "uploadSnapshot", (f"{STATE}.RocksDB$RocksDBSnapshot",)),
)  # fmt: skip


def check_engine(spark: SparkSession, called: tuple[Called, ...] = CALLED) -> None:
    """EngineChanged where this Spark lacks one of them. Changes nothing; some milliseconds."""
    if missing := missing_in(spark, called):
        raise EngineChanged(
            f"Spark {spark.version} has moved what compaction calls of Spark 4.2: "
            f"{'; '.join(missing)}. Nothing was changed. Until this version is known here, let the "
            "engine write snapshots in its own runs: under `advanced.spark`, "
            "`spark.sql.streaming.stateStore.unloadOnCommit: true`."
        )


def missing_in(spark: SparkSession, called: tuple[Called, ...]) -> list[str]:
    """Those that this Spark lacks, as it would be told."""
    return [one.summary for one in called if method_of(spark, one) is None]


def method_of(spark: SparkSession, called: Called) -> Any:
    """The method, also a private one, or constructor; None where there is none."""
    jvm: Any = spark.sparkContext._jvm
    try:
        owner = _class(jvm, called.owner)
        parameters = array_of(spark, "java.lang.Class", [_class(jvm, p) for p in called.parameters])
        if called.name == _CONSTRUCTOR:
            return owner.getDeclaredConstructor(parameters)
        return owner.getDeclaredMethod(called.name, parameters)
    except Py4JJavaError:
        return None


def array_of(spark: SparkSession, kind: str, values: list[Any]) -> Any:
    """A Java array of a class's objects."""
    jvm: Any = spark.sparkContext._jvm
    gateway: Any = spark.sparkContext._gateway
    *packages, name = kind.split(".")
    owner = jvm
    for package in packages:
        owner = getattr(owner, package)
    array = gateway.new_array(getattr(owner, name), len(values))
    for at, value in enumerate(values):
        array[at] = value
    return array


def _class(jvm: Any, name: str) -> Any:
    primitives = {"long": "Long", "int": "Integer", "boolean": "Boolean"}
    if name in primitives:
        return getattr(jvm.java.lang, primitives[name]).TYPE
    return jvm.java.lang.Class.forName(name)
