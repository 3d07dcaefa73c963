"""What a node is told: `server.properties`.

Source of the names: Kafka's documentation, Broker Configs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from broker.certificates import Certificates
from broker.identity import HOST, USER, Identity, Node

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_LOGIN = "org.apache.kafka.common.security"

# In a cluster that serves one machine: little memory, and nothing that waits for others.
_SMALL = {
    "num.network.threads": "2",
    "num.io.threads": "3",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.index.size.max.bytes": "1048576",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
}
# What a topic's settings ask for happens within about a second: retention, compaction, the end of
# transactions that nobody ends.
_PROMPT = {
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "producer.id.expiration.check.interval.ms": "1000",
}


def properties_of(
    node: Node,
    identity: Identity,
    certificates: Certificates,
    data: Path,
    settings: Mapping[str, str],
) -> str:
    """`settings` go before what is said here."""
    told = {
        **_node(node, identity, data),
        **_copies(len(identity.nodes)),
        **_SMALL,
        **_PROMPT,
        **dict(_logins(identity, certificates)),
        "auto.create.topics.enable": "false",
        **settings,
    }
    return "".join(f"{name}={escaped(value)}\n" for name, value in told.items())


def escaped(value: str) -> str:
    """As java.util.Properties reads it, in Latin-1: a folder may be named anything."""
    units = value.replace("\\", "\\\\").encode("utf-16-be")
    codes = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(code) if 0x20 <= code < 0x7F else f"\\u{code:04x}" for code in codes)


def _node(node: Node, identity: Identity, data: Path) -> dict[str, str]:
    reached = (
        f"PLAIN://{HOST}:{node.plain},SECURE://{HOST}:{node.secure},MUTUAL://{HOST}:{node.mutual}"
    )
    voters = (f"{one.number}@{HOST}:{one.controller}" for one in identity.nodes)
    return {
        "process.roles": "broker,controller",
        "node.id": str(node.number),
        "controller.quorum.voters": ",".join(voters),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"{reached},CONTROLLER://{HOST}:{node.controller}",
        "advertised.listeners": reached,
        "inter.broker.listener.name": "PLAIN",
        "listener.security.protocol.map": (
            "PLAIN:PLAINTEXT,SECURE:SASL_SSL,MUTUAL:SSL,CONTROLLER:PLAINTEXT"
        ),
        "log.dirs": str(data),
    }


def _copies(nodes: int) -> dict[str, str]:
    """A copy on each node; one that is left is enough to go on."""
    internal = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    return {
        "default.replication.factor": str(nodes),
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.min.isr": "1",
        **{f"{topic}.replication.factor": str(nodes) for topic in internal},
    }


def _logins(identity: Identity, certificates: Certificates) -> Iterator[tuple[str, str]]:
    """One user, whatever the mechanism; topics are closed to whom an ACL closes them."""
    yield "authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    yield "allow.everyone.if.no.acl.found", "true"
    yield "super.users", "User:ANONYMOUS"
    for listener in ("secure", "mutual"):
        yield f"listener.name.{listener}.ssl.keystore.type", "PEM"
        yield f"listener.name.{listener}.ssl.keystore.location", str(certificates.server)
    yield "listener.name.mutual.ssl.client.auth", "required"
    yield "listener.name.mutual.ssl.truststore.type", "PEM"
    yield "listener.name.mutual.ssl.truststore.location", str(certificates.ca)
    yield "listener.name.secure.sasl.enabled.mechanisms", ",".join(("PLAIN", *SCRAM))
    yield (
        "listener.name.secure.plain.sasl.jaas.config",
        f'{_LOGIN}.plain.PlainLoginModule required user_{USER}="{identity.password}";',
    )
    for mechanism in SCRAM:
        yield (
            f"listener.name.secure.{mechanism.lower()}.sasl.jaas.config",
            f"{_LOGIN}.scram.ScramLoginModule required;",
        )
