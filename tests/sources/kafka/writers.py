"""Producers that go on writing while runs are killed, and what they wrote: the truth by offset."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from confluent_kafka import Message, Producer

from tests.kit.kafka import client_of, make_topic, new_name

if TYPE_CHECKING:
    from broker.broker import Broker

# Of a message: topic, partition and offset.
Place = tuple[str, int, int]

_BEGIN = datetime(2026, 7, 1, 10, tzinfo=UTC)
_SMALL = {"cleanup_policy": "compact", "segment_ms": 500, "min_cleanable_dirty_ratio": 0.01}
_AT_ONCE = 40


@dataclass
class Written:
    """What was delivered, committed or not. `aborted`: by the writer's own word."""

    messages: dict[Place, bytes] = field(default_factory=dict)
    aborted: set[Place] = field(default_factory=set)
    errors: list[object] = field(default_factory=list)

    def delivered(self, error: object, message: Message) -> Place | None:
        if error is not None:
            self.errors.append(error)
            return None
        value, topic = message.value(), message.topic()
        partition, offset = message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        place = topic, partition, offset
        self.messages[place] = value or b""
        return place


@dataclass
class Writers:
    """Three topics of two partitions: written by an idempotent producer, in transactions of which
    some are aborted, and by keys that are compacted away."""

    broker: Broker
    seed: int
    plain: str = ""
    transactional: str = ""
    compacted: str = ""
    written: Written = field(default_factory=Written)

    def __post_init__(self) -> None:
        self.plain = make_topic(self.broker, new_name("plain"), 2)
        self.transactional = make_topic(self.broker, new_name("transactional"), 2)
        self.compacted = make_topic(self.broker, new_name("compacted"), 2, **_SMALL)
        self._stop = threading.Event()
        self._random = random.Random(self.seed)

    @property
    def topics(self) -> list[str]:
        return [self.plain, self.transactional, self.compacted]

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Until the end of the block; each writer has ended what it began then."""
        threads = [
            threading.Thread(target=one)
            for one in (self._write_plain, self._write_transactions, self._write_keys)
        ]
        for one in threads:
            one.start()
        try:
            yield
        finally:
            self._stop.set()
            for one in threads:
                one.join()
        assert not self.written.errors, self.written.errors[0]

    def _values(self, number: int) -> list[bytes | None]:
        """Good ones of some hours, many of them late; some that are no rows."""
        found: list[bytes | None] = []
        for _ in range(number):
            at = _BEGIN + timedelta(seconds=self._random.randrange(4 * 3600))
            good = {
                "at": at.isoformat(),
                "key": self._random.choice("abc"),
                "amount": self._random.randrange(100),
            }
            kind = self._random.random()
            found.append(
                None if kind < 0.02 else b"no JSON" if kind < 0.05 else json.dumps(good).encode()
            )
        return found

    def _producer(self, **options: object) -> Producer:
        return Producer({**client_of(self.broker), "enable.idempotence": True, **options})

    def _produce(
        self, producer: Producer, topic: str, values: Sequence[bytes | None], keys: int = 0
    ) -> set[Place]:
        placed: set[Place] = set()

        def delivered(error: object, message: Message) -> None:
            if (place := self.written.delivered(error, message)) is not None:
                placed.add(place)

        for value in values:
            key = str(self._random.randrange(keys)) if keys else None
            partition = self._random.randrange(2) if key is None else int(key) % 2
            producer.produce(topic, value, key, partition, on_delivery=delivered)
        assert producer.flush(60) == 0
        return placed

    def _write_plain(self) -> None:
        producer = self._producer()
        while not self._stop.is_set():
            self._produce(producer, self.plain, self._values(_AT_ONCE))
            time.sleep(0.3)

    def _write_keys(self) -> None:
        producer = self._producer()
        while not self._stop.is_set():
            self._produce(producer, self.compacted, self._values(_AT_ONCE), keys=60)
            time.sleep(0.3)

    def _write_transactions(self) -> None:
        producer = self._producer(**{"transactional.id": new_name("writer")})
        producer.init_transactions(60)
        while not self._stop.is_set():
            producer.begin_transaction()
            placed = self._produce(producer, self.transactional, self._values(_AT_ONCE))
            time.sleep(self._random.random())
            if self._random.random() < 0.4:
                producer.abort_transaction(60)
                self.written.aborted |= placed
            else:
                producer.commit_transaction(60)
