"""What a broker needs of this repository: the Java that set-up chose, and the jars."""

from __future__ import annotations

import os
from pathlib import Path

from broker.java import Java
from setup.jars import broker_jars_step
from setup.layout import Layout
from setup.step import one_at_a_time, run_step

REPOSITORY = Path(__file__).resolve().parents[2]


def installed_java() -> Java:
    """JAVA_HOME's Java, as `.tidemark/env` sets it, with the jars; fetched where they are missing.

    One process fetches, others wait for it. SetupFailed says what to do where that fails.
    """
    layout, home = Layout(REPOSITORY), os.environ["JAVA_HOME"]
    with one_at_a_time(layout.state):
        run_step(broker_jars_step(layout, home), layout.state / "stamps")
    return Java(Path(home), layout.broker_jars)
