"""Spark's own log beside a job's progress: in a file, with errors on the terminal too.

By log4j's own means, a configuration that the JVM is told, so that no text is looked at. Whoever
told Spark another configuration of log4j keeps that, and sees what it says.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from tidemark.pipeline.settings.storage_options import is_local, local_path

_SUBMIT_OPTS = "SPARK_SUBMIT_OPTS"
_CONFIGURATION = Path(__file__).with_name("log4j2.properties")
# Variables by which a JVM, or log4j itself, may be told of a configuration.
_TELLING = (_SUBMIT_OPTS, "SPARK_DAEMON_JAVA_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_OWN_VARIABLES = ("LOG4J_CONFIGURATION_FILE", "LOG4J2_CONFIGURATION_FILE")
# Of a template, whose name goes on after these, log4j knows nothing.
_ENDINGS = (".properties", ".xml", ".json", ".jsn", ".yaml", ".yml")
_LOG = ".spark.log"


def log_beside(result: str) -> Path:
    """The file for Spark's log of the job that writes this result: beside it, where both go with
    maintenance; in the system's folder of temporary files where that is no folder of this machine,
    for log4j knows no store."""
    if not is_local(result):
        return temporary_log()
    file = Path(local_path(result))
    return file.with_name(f"{file.name.removesuffix('.json')}{_LOG}")


def temporary_log() -> Path:
    """A file for Spark's log in a new folder among the system's temporary files."""
    return Path(tempfile.mkdtemp(prefix="tidemark-"), f"job{_LOG}")


def has_own_configuration(environment: Mapping[str, str]) -> bool:
    """Was log4j told of a configuration by whoever starts the command?"""
    if any(environment.get(name) for name in _OWN_VARIABLES):
        return True
    if any("log4j" in environment.get(name, "") for name in _TELLING):
        return True
    # Where spark-submit looks for configuration.
    home = environment.get("SPARK_HOME")
    folder = environment.get("SPARK_CONF_DIR") or (home and f"{home}/conf")
    if not folder:
        return False
    return any(found.suffix in _ENDINGS for found in Path(folder).glob("log4j2*"))


def logging_to(log: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that make Spark log to this file; the JVM makes the file and its folder."""
    properties = {"log4j2.configurationFile": _CONFIGURATION.as_uri(), "tidemark.spark.log": log}
    options = " ".join(_quoted(f"-D{name}={place}") for name, place in properties.items())
    return {_SUBMIT_OPTS: f"{environment.get(_SUBMIT_OPTS, '')} {options}".strip()}


def _quoted(option: str) -> str:
    """A JVM's option with quotes, as Spark's launcher takes it apart: a path may hold spaces."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
