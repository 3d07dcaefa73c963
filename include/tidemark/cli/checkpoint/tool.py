"""`tidemark-checkpoint`: what `tidemark checkpoint` does, and the state of a query, for whoever has
checkpoints of Spark and no pipeline. Neither Spark nor Airflow has to be installed."""

from __future__ import annotations

from tidemark.cli.checkpoint.commands import (
    doctor,
    housekeep,
    inspect,
    repair,
    restore,
    rewind,
)
from tidemark.cli.root import root_app
from tidemark.cli.state.commands import show_state

app = root_app(
    "tidemark-checkpoint",
    "Checkpoints of Spark Structured Streaming: read, judged, kept small, repaired and taken back.",
)
for command in (inspect, doctor, housekeep, rewind, repair, restore):
    app.command()(command)
app.command("state")(show_state)
