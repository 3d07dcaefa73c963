"""Where everything of a pipeline lies: folders below one root, local or remote."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from tidemark.pipeline.source_files import is_uri

# What the query that reads the source is called; tables' queries have the tables' names.
INGEST = "ingest"
# The tables of `ops`.
OPS_TABLES = ("ledger", "runs", "batches", "upkeep", "quality")
# The generation of a table that nobody has migrated.
FIRST_GENERATION = 1
_LONGEST_NAME = 180


@dataclass(frozen=True)
class Places:
    """The places of one pipeline. Local ones are absolute paths, remote ones URIs.

    `root` has no slash at its end, as in Settings.
    """

    root: str
    pipeline: str

    @property
    def folder(self) -> str:
        """The folder that holds all that the pipeline writes."""
        return f"{self.root}/{self.pipeline}"

    @property
    def bronze(self) -> str:
        """The Delta table of accepted rows."""
        return f"{self.folder}/bronze"

    @property
    def other_readers(self) -> str:
        """The folder of files that name the tables of other pipelines which read bronze."""
        return f"{self.folder}/bronze.readers"

    def lookup(self, name: str) -> str:
        """The Delta table that is the pipeline's copy of a lookup. No table has such a folder."""
        return f"{self.folder}/bronze.lookups/{name}"

    @property
    def rejects(self) -> str:
        """The Delta table of rejected rows, with the reason."""
        return f"{self.folder}/rejects"

    @property
    def checkpoints(self) -> str:
        """The folder of the checkpoints of all queries, and of their contracts."""
        return f"{self.folder}/checkpoints"

    @property
    def ingest_checkpoint(self) -> str:
        """The checkpoint of the query that reads the source."""
        return f"{self.checkpoints}/ingest"

    @property
    def source_notes(self) -> str:
        """The file of what has to be known of a source that no offset tells: beside the ingest's
        checkpoint, as its contract is."""
        return f"{self.ingest_checkpoint}.source.json"

    def query_checkpoint(self, table: str, generation: int) -> str:
        """The checkpoint of a table's query; a new generation starts in a folder of its own."""
        return f"{self.checkpoints}/{table}/{generation}"

    def clock(self, table: str, generation: int, side: str) -> str:
        """The Delta table of the clock rows of one side of a join: beside its query's checkpoint,
        which has read it."""
        return f"{self.query_checkpoint(table, generation)}.clocks/{side}"

    def contract(self, query: str, generation: int) -> str:
        """The file that says what a query was started with: beside its checkpoint's folder,
        which is the engine's, and named like it. The ingest has one generation."""
        if query == INGEST:
            return f"{self.ingest_checkpoint}.contract.json"
        return f"{self.query_checkpoint(query, generation)}.contract.json"

    def changes(self, table: str, generation: int) -> str:
        """The append-only Delta table of changed windows; each generation has its own."""
        name = "changes" if generation == FIRST_GENERATION else f"changes-{generation}"
        return f"{self.folder}/{table}/{name}"

    def gold(self, table: str) -> str:
        """The Delta table that people read."""
        return f"{self.folder}/{table}/gold"

    def view(self, table: str, name: str) -> str:
        """The Delta table of a view of a table's gold."""
        return f"{self.folder}/{table}/views/{name}"

    def result(self, run_id: str, try_number: int | None = None) -> str:
        """The result file of a run, and of one try of it where the scheduler counts tries."""
        suffix = f"--try{try_number}" if try_number is not None else ""
        return f"{self.results}/{_file_name(run_id)}{suffix}.json"

    @property
    def results(self) -> str:
        """The folder of result files."""
        return f"{self.folder}/results"

    @property
    def rewinds(self) -> str:
        """The folder of what rewinds of the pipeline keep: the backup and the plan of each."""
        return f"{self.folder}/rewinds"

    @property
    def retracted(self) -> str:
        """The Delta table of rows that were taken out of bronze."""
        return f"{self.folder}/retracted"

    @property
    def replayed(self) -> str:
        """The Delta table of rejects that came to bronze after all."""
        return f"{self.folder}/replayed"

    @property
    def replays(self) -> str:
        """The folder of what replays of rejects keep: the plan of each."""
        return f"{self.folder}/replays"

    @property
    def retractions(self) -> str:
        """The folder of what retractions of the pipeline keep: the plan of each."""
        return f"{self.folder}/retractions"

    @property
    def erasures(self) -> str:
        """The folder of what erasures of the pipeline keep: a record of each, and the plan of one
        that is not finished."""
        return f"{self.folder}/erasures"

    @property
    def status(self) -> str:
        """The file of how the pipeline stood when the last act on it ended."""
        return f"{self.folder}/status.json"

    @property
    def planned_columns(self) -> str:
        """The file that keeps how Spark types the columns of the pipeline's tables."""
        return f"{self.folder}/planned_columns.json"

    @property
    def lease(self) -> str:
        """The folder of the lease, which one run at a time holds."""
        return f"{self.folder}/lease"

    @property
    def ops(self) -> str:
        """The folder of the Delta tables that account for what the pipeline did. A table of the
        pipeline may be called `ops` as well: its folders are beside these."""
        return f"{self.folder}/ops"

    @property
    def shared_ops(self) -> str:
        """The folder of the tables in which all pipelines had these rows before."""
        return f"{self.root}/ops"

    @property
    def ledger(self) -> str:
        """The Delta table in which the pipeline accounts for its rows."""
        return f"{self.ops}/ledger"

    @property
    def runs(self) -> str:
        """The Delta table of the pipeline's runs."""
        return f"{self.ops}/runs"

    @property
    def batches(self) -> str:
        """The Delta table of what offset logs said of the batches of its tables."""
        return f"{self.ops}/batches"

    @property
    def upkeep(self) -> str:
        """The Delta table of the upkeep of its checkpoints and tables."""
        return f"{self.ops}/upkeep"

    @property
    def quality(self) -> str:
        """The Delta table of what its checks said."""
        return f"{self.ops}/quality"

    @property
    def data_docs(self) -> str:
        """The folder of the Data Docs of the pipeline's runs, a folder for each."""
        return f"{self.folder}/data_docs"

    def docs_of(self, run_id: str) -> str:
        """The folder of one run's Data Docs."""
        return f"{self.data_docs}/{_file_name(run_id)}"

    def source(self, files: str) -> str:
        """The pattern of a source's files, below the root unless it is a URI itself."""
        return files if is_uri(files) else f"{self.root}/{files}"


def _file_name(run_id: str) -> str:
    """A run id as a file's name: Airflow's have `:` and `+`, and may be 250 characters long."""
    safe = re.sub(r"[^A-Za-z0-9_.=-]", "_", run_id).lstrip(".") or "run"
    if len(safe) <= _LONGEST_NAME:
        return safe
    return f"{safe[:_LONGEST_NAME]}-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"
