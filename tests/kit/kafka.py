"""Topics of a real broker, and what happens to them. Each returns when its effect can be seen.

A test asks for the fixture `broker`; there is one in a test process, started when it is first
asked for. Topics are a test's own: give each a name that no other test uses (`new_name`).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
)
from tenacity import retry, retry_if_exception, stop_after_delay, wait_fixed

from broker.broker import Broker
from tests.kit.patience import PATIENCE_SECONDS

Value = bytes | str | None
# Of a message: partition and offset.
Placed = tuple[int, int]

_KEPT = {"log_retention_ms": "-1"}
_NUMBERS = itertools.count()


@contextmanager
def started_broker(nodes: int = 1, **settings: str) -> Iterator[Broker]:
    """A broker whose data go with it; settings are the broker's, `_` for `.`. It keeps messages of
    any age, unless a topic says otherwise: those of tests are of a fixed day."""
    from broker.installed import installed_java

    with TemporaryDirectory(prefix="broker-") as folder:
        broker = Broker(Path(folder), installed_java(), nodes, _dotted(_KEPT | settings))
        try:
            broker.start()
            yield broker
        finally:
            broker.kill()


def client_of(broker: Broker) -> dict[str, Any]:
    """Options of a client that needs no login. It says nothing while the broker is away."""
    return {
        "bootstrap.servers": broker.servers,
        "log_level": 0,
        "reconnect.backoff.max.ms": 200,
        "topic.metadata.refresh.interval.ms": 1000,
    }


def secure_client_of(broker: Broker, mechanism: str = "SCRAM-SHA-512") -> dict[str, Any]:
    """Options of a client that logs in."""
    return {
        **client_of(broker),
        "bootstrap.servers": broker.secure_servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": broker.user,
        "sasl.password": broker.password,
        "ssl.ca.location": str(broker.ca_pem),
    }


def new_name(of: str = "events") -> str:
    """A topic's name that no other test of this process has."""
    return f"{of}-{next(_NUMBERS)}"


def make_topic(
    broker: Broker,
    name: str,
    partitions: int = 1,
    *,
    nodes: Sequence[int] = (),
    **config: object,
) -> str:
    """The topic, on all nodes, or each partition on the one node that is named; `config` is its
    own, `_` for `.` (`retention_ms=1000`)."""
    new = NewTopic(name, partitions, config=_dotted(config))
    if nodes:
        placed = [[node] for node in nodes]
        new = NewTopic(name, partitions, replica_assignment=placed, config=_dotted(config))
    _admin(broker).create_topics([new])[name].result()

    def is_led() -> bool:
        topic = _admin(broker).list_topics(timeout=10).topics.get(name)
        led = [] if topic is None else [p for p in topic.partitions.values() if p.leader > 0]
        return len(led) == partitions

    wait_until(is_led, f"{name} has no leaders")
    return name


def delete_topic(broker: Broker, name: str) -> None:
    _admin(broker).delete_topics([name])[name].result()
    wait_until(lambda: name not in _admin(broker).list_topics(timeout=10).topics, f"{name} stays")


def add_partitions(broker: Broker, name: str, partitions: int) -> None:
    """Give the topic more, so that it has that many."""
    _admin(broker).create_partitions([NewPartitions(name, partitions)])[name].result()
    wait_until(
        lambda: len(_admin(broker).list_topics(timeout=10).topics[name].partitions) == partitions,
        f"{name} has not {partitions} partitions",
    )


def configure_topic(broker: Broker, name: str, **config: object) -> None:
    """Change settings of a topic; those that are not named stay."""
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in _dotted(config).items()
    ]
    topic = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries)
    _admin(broker).incremental_alter_configs([topic])[topic].result()

    def is_told() -> bool:
        found = _admin(broker).describe_configs([topic])[topic].result()
        return all(found[entry.name].value == entry.value for entry in entries)

    wait_until(is_told, f"{name} is not configured")


def forbid_reading(broker: Broker, topic: str) -> None:
    """Close the topic to the broker's user; clients without a login still read it."""
    told = AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{broker.user}", "*",
        AclOperation.READ, AclPermissionType.DENY,
    )  # fmt: skip
    _admin(broker).create_acls([told])[told].result()
    client = AdminClient(secure_client_of(broker))
    wait_until(
        lambda: client.list_topics(topic, timeout=10).topics[topic].error is not None,
        f"{topic} is not closed",
    )


def produce(
    broker: Broker,
    topic: str,
    values: Sequence[Value],
    *,
    partition: int | None = None,
    keys: Sequence[Value] | None = None,
    headers: Sequence[tuple[str, Value]] | None = None,
    timestamps: Sequence[int] | None = None,
) -> list[Placed]:
    """Write the messages; where each is, in their order. Timestamps are epoch milliseconds.

    Without a partition, the key decides, as clients of librdkafka do it. `headers`: of each.
    """
    # In order without being idempotent, which costs half a second a producer.
    producer = Producer({**client_of(broker), "linger.ms": 0, "max.in.flight": 1})
    return _write(producer, topic, values, partition, keys, headers, timestamps)


@dataclass
class Transaction:
    """Messages of a transaction that is open: they are in the log, and `placed` says where.

    Until it ends, nobody who reads what is committed gets past the first of them.
    """

    broker: Broker
    topic: str
    producer: Producer
    placed: list[Placed] = field(default_factory=list)

    def commit(self) -> list[Placed]:
        self._end(self.producer.commit_transaction)
        return self.placed

    def abort(self) -> list[Placed]:
        self._end(self.producer.abort_transaction)
        return self.placed

    def _end(self, end: Callable[[float], None]) -> None:
        """It has ended when its marker, which has an offset of its own, is in each partition."""
        before = ends(self.broker, self.topic)
        end(PATIENCE_SECONDS)
        written = {partition for partition, _ in self.placed}
        wait_until(
            lambda: all(ends(self.broker, self.topic)[p] > before[p] for p in written),
            f"The transaction in {self.topic} has not ended",
        )


def open_transaction(
    broker: Broker,
    topic: str,
    values: Sequence[Value],
    *,
    partition: int | None = None,
    keys: Sequence[Value] | None = None,
    timestamps: Sequence[int] | None = None,
    timeout_seconds: float = 60,
) -> Transaction:
    """Write in a transaction that stays open; the broker aborts it after the timeout."""
    producer = Producer(
        {
            **client_of(broker),
            "transactional.id": new_name("transaction"),
            "transaction.timeout.ms": round(timeout_seconds * 1000),
            "linger.ms": 0,
        }
    )
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    placed = _write(producer, topic, values, partition, keys, None, timestamps)
    return Transaction(broker, topic, producer, placed)


def produce_transaction(
    broker: Broker,
    topic: str,
    values: Sequence[Value],
    *,
    abort: bool = False,
    partition: int | None = None,
    keys: Sequence[Value] | None = None,
    timestamps: Sequence[int] | None = None,
) -> list[Placed]:
    """Write in a transaction of its own, and end it. Aborted messages have their offsets too."""
    opened = open_transaction(
        broker, topic, values, partition=partition, keys=keys, timestamps=timestamps
    )
    return opened.abort() if abort else opened.commit()


def delete_records(broker: Broker, topic: str, before: Mapping[int, int]) -> None:
    """Let all before an offset expire, of each partition that is named."""
    wanted = [TopicPartition(topic, number, offset) for number, offset in before.items()]
    for deleted in _admin(broker).delete_records(wanted).values():
        deleted.result()
    wait_expired(broker, topic, before)


def wait_expired(broker: Broker, topic: str, before: Mapping[int, int]) -> None:
    """Wait until retention has deleted all before an offset, of each partition that is named."""
    wait_until(
        lambda: all(begins(broker, topic)[p] >= offset for p, offset in before.items()),
        f"{topic} has not lost {dict(before)}",
    )


def wait_compacted(broker: Broker, topic: str) -> list[Placed]:
    """Wait until no key is twice before the segment that is written to; where what is left is.

    That segment is never compacted: a topic for this has a small `segment_ms`, and a message
    that was written so much later than those that are to be compacted.
    """

    def is_compacted() -> bool:
        keys = [
            (message.partition(), message.key())
            for message in stored(broker, topic)
            if (message.offset() or 0) < _written_from(broker, topic, message.partition() or 0)
        ]
        return bool(keys) and len(keys) == len(set(keys))

    wait_until(is_compacted, f"{topic} is not compacted")
    return [(message.partition() or 0, message.offset() or 0) for message in stored(broker, topic)]


def begins(broker: Broker, topic: str) -> dict[int, int]:
    """The first offset of each partition that is still there."""
    return _offsets(broker, topic, OffsetSpec.earliest())


def ends(broker: Broker, topic: str, *, committed: bool = False) -> dict[int, int]:
    """The offset after the last, of each partition; `committed`: before what is in transactions
    that are open."""
    return _offsets(broker, topic, OffsetSpec.latest(), committed)


def stored(broker: Broker, topic: str, *, committed: bool = False) -> list[Message]:
    """All messages, by partition and offset; `committed`: only those of no transaction, or of one
    that was committed."""
    level = "read_committed" if committed else "read_uncommitted"
    consumer = Consumer(
        {
            **client_of(broker),
            "group.id": "none",
            "enable.auto.commit": False,
            "isolation.level": level,
            "enable.partition.eof": True,
            # The broker waits so long at the end before it says that there is no more.
            "fetch.wait.max.ms": 10,
        }
    )
    first = begins(broker, topic)
    try:
        consumer.assign([TopicPartition(topic, number, at) for number, at in first.items()])
        return sorted(_until_the_end(consumer, len(first)), key=_place_of)
    finally:
        consumer.close()


def wait_until(holds: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end, otherwise
        time.sleep(0.05)


def _write(
    producer: Producer,
    topic: str,
    values: Sequence[Value],
    partition: int | None,
    keys: Sequence[Value] | None,
    headers: Sequence[tuple[str, Value]] | None,
    timestamps: Sequence[int] | None,
) -> list[Placed]:
    placed: dict[int, Placed] = {}
    errors: list[object] = []
    for number, value in enumerate(values):

        def delivered(error: object, message: Message, number: int = number) -> None:
            if error is not None:
                errors.append(error)
            placed[number] = (message.partition() or 0, message.offset() or 0)

        options: dict[str, Any] = {} if partition is None else {"partition": partition}
        if timestamps is not None:
            options["timestamp"] = timestamps[number]
        if headers is not None:
            options["headers"] = list(headers)
        key = None if keys is None else keys[number]
        while True:
            try:
                producer.produce(topic, value, key, on_delivery=delivered, **options)
                break
            except BufferError:
                producer.poll(1)
    left = producer.flush(PATIENCE_SECONDS)
    assert not left, f"{left} messages were not taken by {topic}"
    assert not errors, errors[0]
    return [placed[number] for number in range(len(values))]


def _until_the_end(consumer: Consumer, partitions: int) -> Iterator[Message]:
    ended = 0
    stop = time.monotonic() + PATIENCE_SECONDS
    while ended < partitions:
        assert time.monotonic() < stop, "The end of a partition was not reached"
        for message in consumer.consume(500, timeout=0.05):
            if (error := message.error()) is None:
                yield message
            else:
                assert error.name() == "_PARTITION_EOF", error
                ended += 1


def _has_no_leader_yet(error: BaseException) -> bool:
    """As a partition of a topic that was just made may say for a moment."""
    return isinstance(error, KafkaException) and error.args[0].name() == "NOT_LEADER_FOR_PARTITION"


@retry(
    retry=retry_if_exception(_has_no_leader_yet),
    stop=stop_after_delay(10),
    wait=wait_fixed(0.2),
    reraise=True,
)
def _offsets(
    broker: Broker, topic: str, spec: OffsetSpec, committed: bool = False
) -> dict[int, int]:
    admin = _admin(broker)
    numbers = admin.list_topics(topic, timeout=10).topics[topic].partitions
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    asked = {TopicPartition(topic, number): spec for number in numbers}
    told = admin.list_offsets(asked, isolation_level=level, request_timeout=10)
    return {place.partition: found.result().offset for place, found in told.items()}


def _written_from(broker: Broker, topic: str, partition: int) -> int:
    """The first offset of the segment that is written to, by the names of the files."""
    return max(int(file.stem) for file in (broker.data() / f"{topic}-{partition}").glob("*.log"))


def _place_of(message: Message) -> Placed:
    return message.partition() or 0, message.offset() or 0


@cache
def _admin(broker: Broker) -> AdminClient:
    return AdminClient(client_of(broker))


def _dotted(settings: Mapping[str, object]) -> dict[str, str]:
    return {name.replace("_", "."): str(value) for name, value in settings.items()}
