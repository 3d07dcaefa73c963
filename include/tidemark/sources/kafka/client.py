"""Questions to a Kafka cluster, outside Spark and without a consumer group.

librdkafka tells why it cannot connect by callbacks, not by the answer that never comes: they are
heard here, so that a wrong password is not a time-out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from tidemark.errors import (
    SettingsInvalid,
    SourceNotFound,
    SourceRefused,
    SourceUnavailable,
    TidemarkError,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from confluent_kafka import KafkaError

T = TypeVar("T")
# A broker that is there answers in milliseconds; one that does not in this time is unavailable.
ANSWER_SECONDS = 20.0
# Brokers may all be down for a moment, while one is started again.
DOWN_SECONDS = 6.0
# The answer where no message is of the time that was asked for, or a later one.
_NONE_YET = -1
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_QUIET: Mapping[str, str | int] = {"log_level": 0, "socket.timeout.ms": 10_000}


@dataclass(frozen=True)
class TopicState:
    """A topic now: its id (empty where the broker gives none), and by partition the first offset
    that is kept and the one behind the last that can be read."""

    id: str
    first: Mapping[int, int]
    end: Mapping[int, int]


@dataclass
class KafkaCluster:
    """A cluster by the name of its connection, and how librdkafka reaches it. `isolation`: up to
    which message a partition can be read (read_committed: to the first open transaction)."""

    name: str
    options: Mapping[str, str] = field(repr=False)
    isolation: str

    def __post_init__(self) -> None:
        from confluent_kafka.admin import AdminClient

        self._heard: list[KafkaError] = []
        # A dictionary of its own: the client takes callbacks out of it.
        options: dict[str, Any] = {**_QUIET, **self.options, "error_cb": self._heard.append}
        self._admin = _client(AdminClient, options)

    def topics(self, pattern: str) -> tuple[str, ...]:
        """Those whose whole name matches, but for Kafka's own."""
        from confluent_kafka import KafkaException

        try:
            found = self._admin.list_topics(timeout=ANSWER_SECONDS / 2)
        except KafkaException as error:
            self._admin.poll(0.1)
            raise self._unanswered(error.args[0]) from error
        names = (name for name in found.topics if not name.startswith("__"))
        return tuple(sorted(name for name in names if re.fullmatch(pattern, name)))

    def ids(self, topics: Sequence[str]) -> dict[str, str]:
        """The topics' ids; SourceNotFound where one is not there."""
        return {name: one.id for name, one in self._described(topics).items()}

    def states(self, topics: Sequence[str]) -> dict[str, TopicState]:
        """The topics as they are now. Raises SourceNotFound, and SourceUnavailable where a
        partition has no leader."""
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

        described = self._described(topics)
        partitions = [(name, n) for name, one in described.items() for n in one.partitions]
        first = self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        end = self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return {
            name: TopicState(
                one.id,
                {n: first[name, n] for n in one.partitions},
                {n: end[name, n] for n in one.partitions},
            )
            for name, one in described.items()
        }

    def since(self, partitions: Iterable[tuple[str, int]], epoch_ms: int) -> dict[Any, int | None]:
        """By topic and partition, the first offset of that time or a later one; None: there is
        none yet."""
        from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

        found = self._offsets(list(partitions), OffsetSpec.for_timestamp(epoch_ms), _NONE_YET)
        return {place: offset if offset >= 0 else None for place, offset in found.items()}

    def _described(self, topics: Sequence[str]) -> dict[str, _Described]:
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        found: dict[str, _Described] = {}
        if not topics:
            return found
        answers = self._admin.describe_topics(TopicCollection(list(topics)))
        for name, answer in answers.items():
            try:
                one = self._answer(answer)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise SourceNotFound(
                        f"There is no topic `{name}` in the cluster of the connection "
                        f"`{self.name}` ({self._servers}). Nothing was read in this run. Make it, "
                        "or correct source.kafka in the pipeline; where it was deleted for good, "
                        "what was read of it stays in bronze."
                    ) from error
                raise self._unanswered(error.args[0]) from error
            without = [part.id for part in one.partitions if part.leader is None]
            if without:
                raise self._without_leader(name, without[0])
            text = "" if one.topic_id is None else str(one.topic_id)
            ids = tuple(sorted(part.id for part in one.partitions))
            found[name] = _Described("" if text == _NO_ID else text, ids)
        return found

    def _offsets(
        self, partitions: Sequence[tuple[str, int]], spec: Any, least: int = 0
    ) -> dict[Any, int]:
        """`least`: what can be an answer. Smaller is what librdkafka gives, without an error, for a
        partition whose broker is away (OFFSET_INVALID, -1001)."""
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition

        if not partitions:
            return {}
        level = (
            IsolationLevel.READ_COMMITTED
            if self.isolation == "read_committed"
            else IsolationLevel.READ_UNCOMMITTED
        )
        asked = {TopicPartition(name, number): spec for name, number in partitions}
        found = {}
        for place, answer in self._admin.list_offsets(asked, isolation_level=level).items():
            try:
                offset = int(self._answer(answer).offset)
            except KafkaException as error:
                raise self._unanswered(error.args[0]) from error
            if offset < least:
                raise self._without_leader(place.topic, place.partition)
            found[place.topic, place.partition] = offset
        return found

    def _without_leader(self, topic: str, partition: int) -> SourceUnavailable:
        return SourceUnavailable(
            f"Partition {partition} of topic `{topic}` has no leader now, so its offsets are not "
            f"known (connection `{self.name}`, {self._servers}). Nothing was read. Start the "
            "broker that leads it; the next try goes on."
        )

    def _answer(self, answer: Future[T]) -> T:
        """Waits, and hears meanwhile why there may be none."""
        began = monotonic()
        while not answer.done():
            self._admin.poll(0.02)
            waited = monotonic() - began
            for error in self._heard:
                if found := refusal(self.name, error):
                    raise found
            if waited > ANSWER_SECONDS or (waited > DOWN_SECONDS and self._is_down()):
                raise self._unanswered(None)
        return answer.result()

    def _is_down(self) -> bool:
        from confluent_kafka import KafkaError

        return any(error.code() == KafkaError._ALL_BROKERS_DOWN for error in self._heard)

    def _unanswered(self, error: KafkaError | None) -> TidemarkError:
        """What a question without an answer means, by what was heard."""
        heard = [*self._heard, *([error] if error else [])]
        for one in heard:
            if found := refusal(self.name, one):
                return found
        causes = [one.str() for one in heard if one.str()]
        cause = causes[0] if causes else f"no answer in {ANSWER_SECONDS:.0f} seconds"
        return SourceUnavailable(
            f"The Kafka cluster of the connection `{self.name}` ({self._servers}) cannot be asked: "
            f"{cause}. Nothing was read in this try. Is it running, and reached from here? The "
            "next try goes on where this one would have."
        )

    @property
    def _servers(self) -> str:
        return self.options["bootstrap.servers"]


@dataclass(frozen=True)
class _Described:
    id: str
    partitions: tuple[int, ...]


def refusal(name: str, error: KafkaError) -> SourceRefused | None:
    """The error of a cluster that does not let us in; None where that is not what happened."""
    from confluent_kafka import KafkaError as Codes

    options = {
        Codes._AUTHENTICATION: "the login was refused: correct its user, password or mechanism",
        Codes.SASL_AUTHENTICATION_FAILED: "the login was refused: correct its user, password or "
        "mechanism",
        Codes._SSL: "the connection could not be encrypted: is `ca` the CA of the broker's "
        "certificate?",
        Codes.TOPIC_AUTHORIZATION_FAILED: "its user may not read or describe the topic",
        Codes.CLUSTER_AUTHORIZATION_FAILED: "its user may not ask the cluster",
    }.get(error.code())
    if options is None:
        return None
    return SourceRefused(
        f"The Kafka cluster of the connection `{name}` does not let us in; {options}. It said: "
        f"{error.str()}. Nothing was read in this try."
    )


def consumer_of(options: Mapping[str, str], heard: Callable[[KafkaError], None]) -> Any:
    """A consumer of no group, which commits nothing: partitions are assigned to it by offset."""
    from confluent_kafka import Consumer

    return _client(
        Consumer,
        {
            **_QUIET,
            **options,
            # librdkafka asks for a name; as nothing is subscribed or committed, no group is joined.
            "group.id": "tidemark-joins-no-group",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            # Off by default in librdkafka: what a disk turned over would be read as it is.
            "check.crcs": True,
            "auto.offset.reset": "error",
            "error_cb": heard,
        },
    )


def _client(kind: Callable[[dict[str, Any]], T], options: dict[str, Any]) -> T:
    """SettingsInvalid where librdkafka does not take the options; it names none of the values."""
    from confluent_kafka import KafkaException

    try:
        return kind(options)
    except KafkaException as error:
        raise SettingsInvalid(
            f"librdkafka does not take the options of a connection to Kafka: {error.args[0].str()} "
            "Nothing was read. Correct the connection in the settings, its certificates and keys, "
            "or the `client` options."
        ) from None
