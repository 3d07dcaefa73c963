"""Which state store a pipeline's queries have, and how it is kept in runs of seconds.

docs/decisions/state-settings.md has what was measured for each.
"""

from __future__ import annotations

from typing import Literal

StateStore = Literal["memory", "rocksdb"]

# A checkpoint keeps what its first batch ran with.
PROVIDER = "spark.sql.streaming.stateStore.providerClass"

_ENGINE = "org.apache.spark.sql.execution.streaming.state"
_CLASSES: dict[StateStore, str] = {
    "memory": f"{_ENGINE}.HDFSBackedStateStoreProvider",
    "rocksdb": f"{_ENGINE}.RocksDBStateStoreProvider",
}
STORE_CLASSES = tuple(_CLASSES.values())
_NAMES = {of: name for name, of in _CLASSES.items()}

STATE_DEFAULTS = {
    # The engine writes snapshots in a thread that first looks after a minute. A run ends sooner,
    # and would leave a chain that each later one replays; so each task does this work itself.
    "spark.sql.streaming.stateStore.unloadOnCommit": "true",
    # Else RocksDB uploads a whole snapshot for each batch. Of no concern to the other store.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def provider_class(store: StateStore) -> str:
    """The engine's class of a store."""
    return _CLASSES[store]


def store_name(provider: str | None) -> str:
    """What a pipeline calls a provider; a class that is none of ours by itself. None, where none
    was asked for, is the engine's own default."""
    return "memory" if provider is None else _NAMES.get(provider, provider)
