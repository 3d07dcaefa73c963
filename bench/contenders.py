"""Those who do the same work: the platform, and its rivals. How each is started, and its gold."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from ruamel.yaml import YAML

from bench.folds import episodes
from tidemark.pipeline.settings.jvm import LARGE_BYTES, jvm_variables

REPOSITORY = Path(__file__).resolve().parent.parent
RIVALS = Path(__file__).resolve().parent / "rivals"
DELTA = "io.delta:delta-spark_4.2_2.13:4.4.0"
# Resolved once, then found there at each start, as in a home folder.
IVY = REPOSITORY / ".tidemark" / "bench" / "ivy"
NAME = "bench"
# The same pipeline below the same root, with `stream: recompute`.
RECOMPUTED = f"{NAME}_recomputed"
TABLE = "per_10m"
# Of sessions and of folds: some seventeen rows each.
GAP = "2 minutes"
FOLD_EMITS = {"events": "long", "amount": "long"}
# The other pipeline of joins, below the same root.
CLICKS = "clicks"
# What `.tidemark/env` gives; the rival that takes every default starts without it.
TUNING = ("SPARK_LAUNCHER_OPTS", "SPARK_SUBMIT_OPTS", "SPARK_DIST_CLASSPATH")


@dataclass(frozen=True)
class Workspace:
    """Where one contender works: the JSON files that it reads, and a folder of its own; of joins,
    the other side's Delta table."""

    source: Path
    root: Path
    master: str = "local[2]"
    other: Path | None = None


@dataclass(frozen=True)
class Contender:
    """`start` gives the command of one run; `gold` where its gold is, as a DuckDB relation."""

    name: str
    start: Callable[[Workspace], list[str]]
    environment: Callable[[Workspace], dict[str, str]]
    gold: Callable[[Workspace], pa.Table]


def _tuned_environment(place: Workspace, name: str = NAME) -> dict[str, str]:
    """Set-up's, and both of the JVM's compilers where a first run finds much to read: what
    `tidemark run` and the operator do, and what a tuned script's author would."""
    has_run = [*place.root.glob("checkpoints"), *place.root.glob(f"{name}/checkpoints")]
    new_bytes = 0 if has_run else sum(file.stat().st_size for file in place.source.iterdir())
    return {**os.environ, **jvm_variables(os.environ, new_bytes)}


def one_compiler(_: Workspace) -> dict[str, str]:
    """Set-up's, whatever there is to read: the JVM's first compiler alone."""
    return dict(os.environ)


def with_both_compilers(_: Workspace) -> dict[str, str]:
    """For any large input: both of the JVM's compilers."""
    return {**os.environ, **jvm_variables(os.environ, LARGE_BYTES)}


def _default_environment(_: Workspace) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in TUNING}


def pipeline_content(source: Path, **advanced: object) -> dict[str, object]:
    """The platform's pipeline file for the same tables."""
    content: dict[str, object] = {
        "source": {
            "files": f"file://{source}/*.json",
            "columns": {"at": "timestamp not null", "key": "string not null", "amount": "long"},
            "event_time": {"column": "at"},
        },
        "watermark": {"delay": "10 minutes"},
        "tables": {
            TABLE: {
                "window": {"length": "10 minutes"},
                "group_by": ["key"],
                "measures": {"events": "count(*)", "amount": "sum(amount)"},
            }
        },
    }
    return content | ({"advanced": advanced} if advanced else {})


def write_settings(
    root: Path, content: Mapping[str, object], name: str = NAME
) -> tuple[Path, Path]:
    """The platform's settings and pipeline file below a root, made where they are missing."""
    settings, pipeline = _files(root, name)
    return (settings, pipeline) if pipeline.exists() else write_pipeline(root, content, name)


def write_pipeline(
    root: Path, content: Mapping[str, object], name: str = NAME
) -> tuple[Path, Path]:
    """The same, also where they are there."""
    settings, pipeline = _files(root, name)
    pipeline.parent.mkdir(parents=True, exist_ok=True)
    yaml = YAML()
    yaml.dump(dict(content), pipeline)
    # All contenders read the same files, which lie beside their roots.
    granted = [f"file://{root.parent}"]
    told = {"root": str(root), "pipelines": str(pipeline.parent), "sources": granted}
    yaml.dump(told, settings)
    return settings, pipeline


def _files(root: Path, name: str) -> tuple[Path, Path]:
    return root / "settings.yaml", root / "pipelines" / f"{name}.yaml"


def _ours(place: Workspace) -> list[str]:
    return our_job(place, pipeline_content(place.source))


def our_job(place: Workspace, content: Mapping[str, object], name: str = NAME) -> list[str]:
    """A run of a pipeline as a job, by spark-submit."""
    settings, pipeline = write_settings(place.root, content, name)
    job = REPOSITORY / "jobs" / "stream.py"
    given = ["--pipeline", str(pipeline), "--settings", str(settings)]
    return ["spark-submit", "--master", place.master, str(job), *given]


def _our_command(place: Workspace) -> list[str]:
    """As a user starts a run, and the Dag in its own process: Spark only where it is needed."""
    return our_command(place, "run", *write_settings(place.root, pipeline_content(place.source)))


def our_command(place: Workspace, name: str, settings: Path, pipeline: Path) -> list[str]:
    """A command of the platform's over a pipeline that starts Spark."""
    command = str(Path(sys.executable).parent / "tidemark")
    return [command, name, str(pipeline), "--settings", str(settings), "--master", place.master]


def _default(place: Workspace) -> list[str]:
    packages = ["--packages", DELTA, "--conf", f"spark.jars.ivy={IVY}"]
    return script("default.py", place, packages)


def _tuned(place: Workspace) -> list[str]:
    return script("tuned.py", place)


def script(
    name: str,
    place: Workspace,
    options: Sequence[str] = (),
    arguments: Sequence[str] = (),
    source: str | None = None,
) -> list[str]:
    """A rival's script, over the contender's source or another."""
    submit = ["spark-submit", "--master", place.master, *options]
    return [*submit, str(RIVALS / name), source or str(place.source), str(place.root), *arguments]


def _our_table(place: Workspace, table: Mapping[str, object], recomputed: bool) -> list[str]:
    stream = {"stream": "recompute"} if recomputed else {}
    content = _with_table(place, {**table, **stream})
    return our_job(place, content, RECOMPUTED if recomputed else NAME)


def _with_table(place: Workspace, table: Mapping[str, object]) -> dict[str, object]:
    tables = {TABLE: {"group_by": ["key"], **table}}
    return pipeline_content(place.source) | {"tables": tables}


def _our_sessions(place: Workspace, recomputed: bool = False) -> list[str]:
    measures = {"events": "count(*)", "amount": "sum(amount)"}
    return _our_table(place, {"window": {"session": GAP}, "measures": measures}, recomputed)


def _tuned_sessions(place: Workspace) -> list[str]:
    return script("tuned.py", place, arguments=[GAP])


def _clicks(place: Workspace) -> list[str]:
    return our_job(place, pipeline_content(place.source), CLICKS)


def _our_joins(place: Workspace, recomputed: bool = False) -> list[str]:
    table = {
        "join": {"with": CLICKS, "on": ["key"], "within": "5 minutes", "type": "left"},
        # So short that each small run closes some.
        "window": {"length": "2 minutes"},
        "measures": {"events": "count(*)", "amount": f"sum({CLICKS}.amount)"},
    }
    return _our_table(place, table, recomputed)


def _tuned_joins(place: Workspace) -> list[str]:
    return script("tuned_join.py", place, arguments=[str(place.other)])


def _our_folds(place: Workspace, recomputed: bool = False) -> list[str]:
    code = place.root / "pipelines" / "folds" / "episodes.py"
    code.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(episodes.__file__, code)
    fold = {"python": "folds/episodes.py:Episodes", "timeout": GAP, "emits": FOLD_EMITS}
    return _our_table(place, {"fold": fold}, recomputed)


def _tuned_folds(place: Workspace) -> list[str]:
    return script("tuned_fold.py", place)


_SUMS: Mapping[str, object] = {
    "window": {"length": "10 minutes"},
    "measures": {"events": "count(*)", "amount": "sum(amount)"},
}


def _our_days(place: Workspace) -> list[str]:
    window = {"length": "1 day", "zone": "Europe/Vienna"}
    return our_job(place, _with_table(place, {**_SUMS, "window": window}))


def _our_distinct(place: Workspace) -> list[str]:
    measures = {"events": "count(*)", "amount": "count(distinct amount)"}
    return our_job(place, _with_table(place, {**_SUMS, "measures": measures}))


def _our_lookup(place: Workspace) -> list[str]:
    names = {
        "file": f"file://{place.root.parent}/names.csv",
        "on": {"key": "id"},
        "columns": {"name": "string"},
    }
    return our_job(
        place,
        _with_table(place, {**_SUMS, "group_by": ["names.name"]}) | {"lookup": {"names": names}},
    )


def _without_lookup(place: Workspace) -> list[str]:
    return our_job(place, _with_table(place, {**_SUMS, "stream": "recompute"}), RECOMPUTED)


def _by_name(place: Workspace) -> pa.Table:
    gold = our_gold(place)
    return gold.rename_columns({"names_name": "key"})


def _batch(name: str) -> Callable[[Workspace], list[str]]:
    def start(place: Workspace) -> list[str]:
        return [sys.executable, str(RIVALS / name), str(place.source), str(place.root)]

    return start


def our_gold(place: Workspace) -> pa.Table:
    """What the platform published."""
    return gold_of(place, NAME)


def gold_of(place: Workspace, name: str) -> pa.Table:
    """What the platform published of a pipeline."""
    return _delta(place.root / name / TABLE / "gold")


def _our_closed_gold(place: Workspace) -> pa.Table:
    gold = our_gold(place)
    return gold.filter(pc.not_equal(gold.column("status"), "provisional"))


def _recomputed_gold(place: Workspace) -> pa.Table:
    return gold_of(place, RECOMPUTED)


def _recomputed(start: Callable[..., list[str]]) -> Contender:
    return Contender(
        "tidemark, recomputed",
        partial(start, recomputed=True),
        partial(_tuned_environment, name=RECOMPUTED),
        _recomputed_gold,
    )


def rival_gold(place: Workspace) -> pa.Table:
    """What a script wrote."""
    return _delta(place.root / "gold")


def _delta(folder: Path) -> pa.Table:
    return pa.table(DeltaTable(str(folder)).to_pyarrow_dataset().to_table())


def _parquet(place: Workspace) -> pa.Table:
    with duckdb.connect() as connection:
        return connection.sql(f"FROM '{place.root}/gold.parquet'").to_arrow_table()


OURS = Contender("tidemark", _ours, _tuned_environment, our_gold)
OUR_COMMAND = Contender("tidemark-run", _our_command, _tuned_environment, our_gold)
DEFAULT = Contender("default", _default, _default_environment, rival_gold)
OURS_C1 = Contender("tidemark, one compiler", _ours, one_compiler, our_gold)
OURS_BOTH = Contender("tidemark, both compilers", _ours, with_both_compilers, our_gold)
# Its source is a bronze that is there: it writes gold only.
REFRESH = Contender("full refresh", partial(script, "refresh.py"), with_both_compilers, rival_gold)
TUNED_C1 = Contender("tuned, one compiler", _tuned, one_compiler, rival_gold)
TUNED_BOTH = Contender("tuned, both compilers", _tuned, with_both_compilers, rival_gold)
TUNED = Contender("tuned", _tuned, _tuned_environment, rival_gold)
OUR_SESSIONS = Contender("tidemark", _our_sessions, _tuned_environment, our_gold)
OUR_JOINS = Contender("tidemark", _our_joins, _tuned_environment, our_gold)
OUR_FOLDS = Contender("tidemark", _our_folds, _tuned_environment, our_gold)
_BY_HAND = "by hand, without repair"
TUNED_SESSIONS = Contender(_BY_HAND, _tuned_sessions, _tuned_environment, rival_gold)
TUNED_JOINS = Contender(_BY_HAND, _tuned_joins, _tuned_environment, rival_gold)
TUNED_FOLDS = Contender(_BY_HAND, _tuned_folds, _tuned_environment, rival_gold)
OUR_DAYS = Contender("tidemark", _our_days, _tuned_environment, our_gold)
OUR_DISTINCT = Contender("tidemark", _our_distinct, _tuned_environment, our_gold)
OUR_LOOKUP = Contender("tidemark", _our_lookup, _tuned_environment, _by_name)
WITHOUT_LOOKUP = Contender(
    "tidemark, without lookup",
    _without_lookup,
    partial(_tuned_environment, name=RECOMPUTED),
    _recomputed_gold,
)
TUNED_DAYS, TUNED_DISTINCT, TUNED_LOOKUP, TUNED_LARGE_LOOKUP = (
    Contender(
        "by hand, in batch",
        partial(script, "tuned_report.py", arguments=[kind]),
        _tuned_environment,
        rival_gold,
    )
    for kind in ("days", "distinct", "lookup", "large_lookup")
)
RECOMPUTED_SESSIONS = _recomputed(_our_sessions)
RECOMPUTED_JOINS = _recomputed(_our_joins)
RECOMPUTED_FOLDS = _recomputed(_our_folds)
# Of ours what is closed, which is all that a recomputed table shows.
OUR_CLOSED = Contender("tidemark, closed", _ours, _tuned_environment, _our_closed_gold)
# Writes the other bronze of joins, below the same root.
OUR_CLICKS = Contender("clicks", _clicks, one_compiler, our_gold)
DUCKDB = Contender("DuckDB", _batch("duckdb_batch.py"), _tuned_environment, _parquet)
POLARS = Contender("Polars", _batch("polars_batch.py"), _tuned_environment, _parquet)


class GoldDiffers(Exception):
    """Contenders came to different results: their costs cannot be compared."""


def check_gold(places: Mapping[Contender, Workspace]) -> int:
    """All golds hold the same windows; how many. Raises GoldDiffers, which names the two."""
    (first, place), *others = places.items()
    expected = first.gold(place)
    for contender, other in others:
        found = _rows_that_differ(expected, contender.gold(other))
        if found:
            raise GoldDiffers(
                f"{found:,} windows differ between {first.name} ({place.root}) and "
                f"{contender.name} ({other.root})."
            )
    return expected.num_rows


def _rows_that_differ(one: pa.Table, other: pa.Table) -> int:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("one", one)
        connection.register("other", other)
        rows = "SELECT window_start::TIMESTAMP, key, events, amount FROM"
        ((found,),) = connection.execute(
            f"SELECT count(*) FROM (({rows} one EXCEPT ALL {rows} other) "
            f"UNION ALL ({rows} other EXCEPT ALL {rows} one))"
        ).fetchall()
    return int(found)
