"""A topic that contenders read: its broker, its messages, and the jars that a rival needs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.contenders import REPOSITORY
from broker.broker import Broker
from broker.installed import installed_java
from setup.jars import fetching_step, listed_jars
from setup.layout import Layout
from setup.step import run_step

TOPIC, PARTITIONS = "events", 2
_OWN = REPOSITORY / ".tidemark" / "bench"


@dataclass(frozen=True)
class Topic:
    """Where it is: `servers` as clients name them, without a login."""

    servers: str
    name: str


@contextmanager
def topic_of(lines: Iterator[bytes], folder: Path) -> Iterator[Topic]:
    """A topic of a broker of its own, which ends with it: a message for each line, in turn to the
    partitions."""
    with Broker(folder, installed_java()) as broker:
        options = {"bootstrap.servers": broker.servers, "log_level": 0}
        # Held by a name: a client that is gone answers nothing.
        admin = AdminClient(options)
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result()
        # Within one partition in order, as they were written.
        producer = Producer({**options, "enable.idempotence": True, "linger.ms": 50})
        for number, line in enumerate(lines):
            _produce(producer, line, number % PARTITIONS)
        producer.flush()
        yield Topic(broker.servers, TOPIC)


def connector_jars() -> Path:
    """The folder with the jars of Spark's own Kafka source, fetched where they are missing."""
    text = Path(__file__).with_name("kafka_jars.txt").read_text(encoding="utf-8")
    layout, folder = Layout(REPOSITORY), _OWN / "kafka_jars"
    folder.parent.mkdir(parents=True, exist_ok=True)
    doing, home = "fetching the jars of Spark's Kafka source", os.environ["JAVA_HOME"]
    step = fetching_step("kafka_jars", doing, layout, home, listed_jars(text), folder)
    run_step(step, _OWN / "stamps")
    return folder


def _produce(producer: Producer, line: bytes, partition: int) -> None:
    while True:
        try:
            producer.produce(TOPIC, value=line, partition=partition)
        except BufferError:
            # The client's own buffer is full until some were sent.
            producer.poll(0.1)
        else:
            producer.poll(0)
            return
