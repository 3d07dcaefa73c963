"""`make kafka`: a broker on loopback with its data in .tidemark/kafka, until Ctrl-C."""

from __future__ import annotations

import fcntl
import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from broker.broker import Broker
from broker.errors import BrokerFailed, failed
from broker.installed import REPOSITORY, installed_java
from setup.errors import SetupFailed

# Whoever tries something out need not make a topic first.
_SETTINGS = {"auto.create.topics.enable": "true"}


def main(folder: Path) -> int:
    """0: ended by Ctrl-C. 1: the reason is on the screen. 143: ended by a signal."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        with _alone(folder), Broker(folder, installed_java(), settings=_SETTINGS) as broker:
            print(_told(broker), flush=True)
            while broker.pids:
                time.sleep(1)
            raise failed("The broker ended", broker.log())
    except (BrokerFailed, SetupFailed) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nStopped. Its data stay in {folder}.")
        return 0


def _told(broker: Broker) -> str:
    plain = json.dumps({"servers": broker.servers, "security_protocol": "PLAINTEXT"})
    login = {"servers": broker.secure_servers, "mechanism": "SCRAM-SHA-512"}
    secure = json.dumps(login | {"user": broker.user, "ca": str(broker.ca_pem)})
    produce = (
        f"from confluent_kafka import Producer; p = Producer({{'bootstrap.servers': "
        f"'{broker.servers}'}}); p.produce('events', '{{}}'); p.flush()"
    )
    return f"""\
Kafka: {broker.servers}, and with TLS and a login {broker.secure_servers}
Its data, log and certificates are in {broker.folder}. Topics are made when they are first used.

As a connection of Tidemark, without a login:
  export TIDEMARK_CONNECTIONS__LOCAL='{plain}'
or with one:
  export TIDEMARK_CONNECTIONS__LOCAL='{secure}'
  export TIDEMARK_CONNECTIONS__LOCAL__PASSWORD={broker.password}
A message, by the Python of .venv:
  python -c "{produce}"

Ctrl-C ends it."""


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One at a time: a lock that ends with this process, whatever ends it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / "lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BrokerFailed(f"A broker is running on {folder}; end it first.") from None
        yield


def _end(number: int, _: object) -> NoReturn:
    """End as Ctrl-C does, so that the broker is stopped on the way out."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(REPOSITORY / ".tidemark" / "kafka"))
