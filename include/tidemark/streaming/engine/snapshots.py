"""Make the engine write a snapshot of state that it has committed, without a batch.

The life of one:
1. the engine's own provider of the store loads the version, from its snapshot and the changes after
   it, as the next start would;
2. HDFS-backed: the provider's maintenance writes the snapshot, which it does for the newest version
   that is loaded (HDFSBackedStateStoreProvider.doSnapshot). RocksDB: a checkpoint of the native
   database is made and uploaded, as the maintenance does for one that a commit made (RocksDB.
   createSnapshot, uploadSnapshot);
3. the provider is closed.
The engine gives a file its name when it is whole (CheckpointFileManager.createAtomic), and writes a
RocksDB snapshot after all that it shares. So a process that is killed leaves a temporary file, or
shared files that no snapshot names: no start reads them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemark.checkpoint.reading.state_files import DEFAULT_STORE, StoreId
from tidemark.checkpoint.reading.state_metadata import parse_operator_metadata
from tidemark.commit_point import commit_point
from tidemark.errors import CompactionRefused, SnapshotFailed
from tidemark.pipeline.settings.storage_options import spark_uri
from tidemark.storage.file_place import FilePlace
from tidemark.streaming.engine.known import (
    CREATE_SNAPSHOT,
    STATE,
    array_of,
    check_engine,
    method_of,
)

_HDFS = f"{STATE}.HDFSBackedStateStoreProvider"
_ROCKSDB = f"{STATE}.RocksDBStateStoreProvider"
_PROVIDER_CLASS = "spark.sql.streaming.stateStore.providerClass"
# StreamExecution.RUN_ID_KEY: a provider does not start without it.
_RUN_ID = "sql.streaming.runId"
_OVERRIDES = {
    # Whatever the number of changes; and the maintenance must remove nothing: the old files go by
    # the plan of housekeeping, after the state was read back.
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "0",
    "spark.sql.streaming.minBatchesToRetain": str(2**31 - 1),
}


def write_snapshots(
    spark: SparkSession,
    checkpoint: FilePlace,
    conf: Mapping[str, str],
    version: int,
    stores: Sequence[StoreId],
) -> None:
    """Write a snapshot of `version` of each store; the driver loads one after the other.

    `checkpoint` is the query's folder, whose fence is asked before each store, and `conf` what its
    newest offsets record. The version must be that of the last committed batch, and no query may
    work meanwhile. For aggregations, sessions and deduplications, HDFS-backed or RocksDB;
    CompactionRefused for another provider or store. EngineChanged, before anything is written, for
    another version of Spark. SnapshotFailed where the engine fails; the maintenance of a
    HDFS-backed store tells of no failure, so look at the files afterwards.
    """
    check_engine(spark)
    _check_supported(conf, stores)
    # The engine's coordinator of stores starts with this list.
    assert spark.streams.active is not None
    prefixes = {number: _prefix(checkpoint, number) for number in {one.operator for one in stores}}
    opening = _SnapshotOpening.of(spark, spark_uri(checkpoint.uri), conf, prefixes)
    for store in stores:
        checkpoint.fence()
        try:
            _write_snapshot(opening, store, version)
        except (Py4JError, PySparkException) as error:
            raise SnapshotFailed(
                f"The engine wrote no snapshot of {checkpoint.uri}/{store.folder}, "
                f"version {version}: {error}. What was there before is as it was. Trying again "
                "can help."
            ) from error


def _check_supported(conf: Mapping[str, str], stores: Sequence[StoreId]) -> None:
    provider = conf.get(_PROVIDER_CLASS)
    if provider not in (_HDFS, _ROCKSDB):
        raise CompactionRefused(
            f"{provider} keeps the state; snapshots of {_HDFS} and {_ROCKSDB} can be made on "
            "demand. Nothing was written."
        )
    if other := [store.folder for store in stores if store.store != DEFAULT_STORE]:
        raise CompactionRefused(
            f"{other[0]} is one of several stores of its operator; snapshots of an operator's only "
            "store can be made on demand. Nothing was written."
        )


def _prefix(checkpoint: FilePlace, operator: int) -> int:
    """The columns that the operator's keys are looked up by: of a session, all but its start."""
    metadata = checkpoint.read(f"state/{operator}/_metadata/metadata")
    return parse_operator_metadata(metadata).prefix_columns


@dataclass(frozen=True)
class _SnapshotOpening:
    """What the providers of one checkpoint are opened with. `prefixes`: of each operator."""

    spark: SparkSession
    checkpoint: str
    conf: Any
    hadoop: Any
    prefixes: Mapping[int, int]

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        checkpoint: str,
        conf: Mapping[str, str],
        prefixes: Mapping[int, int],
    ) -> _SnapshotOpening:
        session = spark.newSession()
        for name, value in {**conf, **_OVERRIDES}.items():
            session.conf.set(name, value)
        state: Any = session._jsparkSession.sessionState()
        hadoop = state.newHadoopConf()
        hadoop.set(_RUN_ID, str(uuid.uuid4()))
        classes: Any = _classes(session)
        return cls(
            session, checkpoint, classes.StateStoreConf.apply(state.conf()), hadoop, prefixes
        )

    @property
    def jvm(self) -> Any:
        return self.spark.sparkContext._jvm

    @property
    def classes(self) -> Any:
        return _classes(self.spark)

    @property
    def none(self) -> Any:
        return self.jvm.scala.Option.empty()

    @contextmanager
    def provider(self, store: StoreId) -> Iterator[Any]:
        """The engine's provider of a store, until the end of the block."""
        schema = self._schema(store)
        provider = self.classes.StateStoreProvider.createAndInit(
            self._id(store),
            schema.keySchema(),
            schema.valueSchema(),
            self._encoding(store, schema.keySchema()),
            False,
            self.conf,
            self.hadoop,
            False,
            self.none,
        )
        try:
            yield provider
        finally:
            provider.close()

    def _encoding(self, store: StoreId, keys: Any) -> Any:
        """How keys are encoded, as the operator opens its store (StatefulOperator classes,
        `numColsPrefixKey`)."""
        if prefix := self.prefixes[store.operator]:
            return self.classes.PrefixKeyScanStateEncoderSpec.apply(keys, prefix)
        return self.classes.NoPrefixKeyStateEncoderSpec.apply(keys)

    def _schema(self, store: StoreId) -> Any:
        """It lies in the folder of the first partition."""
        first = self._id(StoreId(store.operator, 0, store.store))
        nil = getattr(getattr(self.jvm.scala.collection.immutable, "Nil$"), "MODULE$")
        checker = self.classes.StateSchemaCompatibilityChecker
        return checker(first, self.hadoop, nil, self.none, False).readSchemaFile().head()

    def _id(self, store: StoreId) -> Any:
        place = self.classes.StateStoreId.apply(
            f"{self.checkpoint}/state", store.operator, store.partition, store.store
        )
        return self.classes.StateStoreProviderId.apply(place, self.jvm.java.util.UUID.randomUUID())


def _classes(spark: SparkSession) -> Any:
    jvm: Any = spark.sparkContext._jvm
    return jvm.org.apache.spark.sql.execution.streaming.state


@commit_point(
    "snapshot of state",
    after_a_kill="before and after: each store has its changes, and may have its snapshot: a "
    "start loads the same version by either; a repeat writes the snapshots that are missing",
)
def _write_snapshot(opening: _SnapshotOpening, store: StoreId, version: int) -> None:
    with opening.provider(store) as provider:
        if provider.getClass().getName() == _HDFS:
            provider.getReadStore(version, opening.none)
            provider.doMaintenance()
        else:
            _upload(opening, provider.rocksDB(), version)


def _upload(opening: _SnapshotOpening, database: Any, version: int) -> None:
    """Read-only: no changelog of a next version is begun."""
    database.load(version, opening.none, True, False)
    create = method_of(opening.spark, CREATE_SNAPSHOT)
    create.setAccessible(True)
    number = opening.jvm.java.lang.Long.valueOf(version)
    given = array_of(opening.spark, "java.lang.Object", [number, opening.none])
    snapshot = create.invoke(database, given)._1().get()
    database.uploadSnapshot(snapshot)
