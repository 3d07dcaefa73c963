"""Foreign queries over a topic, by Spark's own connector, go on after a rewind as if nothing had
happened: both state stores, both sinks, late rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from broker.broker import Broker
from setup.jars import Jar, fetching_step
from setup.layout import Layout
from setup.step import one_at_a_time, run_step
from tests.checkpoint.rewind.queries import done, rows, told
from tests.kit.kafka import make_topic, new_name, produce
from tests.kit.patience import HUNG_SECONDS
from tests.kit.running import REPOSITORY

pytestmark = [pytest.mark.long, pytest.mark.process]

SCRIPT = Path(__file__).with_name("topic_query.py")
# What Spark's connector needs beside Spark; no pipeline of ours does.
CONNECTOR = (
    Jar(
        "org.apache.spark",
        "spark-sql-kafka-0-10_2.13",
        "4.2.0",
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    Jar(
        "org.apache.spark",
        "spark-token-provider-kafka-0-10_2.13",
        "4.2.0",
        "641c7947afc8aa1189e433b7c2d305293993c8691bc1c2062d6d4f513b12518c",
    ),
    Jar(
        "org.apache.kafka",
        "kafka-clients",
        "3.9.2",
        "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    ),
    Jar(
        "org.apache.commons",
        "commons-pool2",
        "2.13.1",
        "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
    ),
)


@cache
def connector() -> str:
    """The jars, fetched as the set-up fetches its own, for spark-submit."""
    layout = Layout(REPOSITORY)
    folder = layout.state / "connector_jars"
    step = fetching_step(
        "connector_jars",
        "fetching Spark's connector of Kafka",
        layout,
        os.environ["JAVA_HOME"],
        CONNECTOR,
        folder,
    )
    with one_at_a_time(layout.state):
        run_step(step, layout.state / "stamps")
    return ",".join(str(folder / jar.file) for jar in CONNECTOR)


def run(folder: Path, broker: Broker, topic: str, store: str, sink: str) -> str:
    """The sink's rows after a run to the end of the topic."""
    folder.mkdir(exist_ok=True)
    arguments = [str(folder), broker.servers, topic, store, sink]
    submit = {"PYSPARK_SUBMIT_ARGS": f"--jars {connector()} pyspark-shell"}
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env=os.environ | submit,
        capture_output=True,
        text=True,
        timeout=HUNG_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3_000:]
    return (folder / "rows.txt").read_text()


def send(broker: Broker, topic: str, *numbers: int) -> None:
    """The rows of these files as messages: a batch each."""
    values = [json.dumps(row).encode() for number in numbers for row in rows(number)]
    produce(broker, topic, values, partition=0)


@pytest.mark.parametrize(("store", "sink", "to"), [("hdfs", "delta", 1), ("rocksdb", "parquet", 2)])
def test_a_rewound_query_over_a_topic_is_as_an_undisturbed_one(
    tmp_path: Path, broker: Broker, store: str, sink: str, to: int
) -> None:
    topic = make_topic(broker, new_name())
    send(broker, topic, 0, 1, 2, 3)
    folder = tmp_path / "rewound"
    before = run(folder, broker, topic, store, sink)
    said = f"{ {'delta': 'delta', 'parquet': 'files'}[sink] }:{folder / 'out'}"
    asked = ("rewind", folder / "checkpoint", "--to-batch", str(to), "--sink", said)
    plan = told(*asked)
    assert any(f'"{topic}"' in note or topic in note for note in plan["notes"]), plan["notes"]
    done(*asked)
    send(broker, topic, 4)
    after = run(folder, broker, topic, store, sink)
    assert after != before
    assert after == run(tmp_path / "undisturbed", broker, topic, store, sink)
