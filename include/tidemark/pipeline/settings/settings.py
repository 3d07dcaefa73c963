"""Settings: the root, the pipelines' folder and what pipelines may do, storage options, Spark
settings, the cluster, DuckDB's limits, connections, the lease, maintenance, checks.

They stand in one file, `include/settings.yaml`, and any of them can be overridden by a
TIDEMARK_* variable, so that the same pipeline runs in test and in production.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
)

from tidemark.errors import SettingsInvalid
from tidemark.pipeline.checked import checked
from tidemark.pipeline.problems import Problem, nearest
from tidemark.pipeline.settings.connections import Connection, beside, secrets_in_file
from tidemark.pipeline.settings.duckdb_limits import DuckDBLimits
from tidemark.pipeline.settings.environment import PREFIX, read_environment
from tidemark.pipeline.settings.maintenance import Maintenance
from tidemark.pipeline.settings.spark import as_text, check_spark_setting, is_secret
from tidemark.pipeline.settings.storage_options import (
    SCHEMES,
    SHOWN,
    check_storage_options,
    is_local,
    local_path,
    spark_options,
)
from tidemark.pipeline.source_files import check_no_login, has_pattern, is_uri
from tidemark.pipeline.yaml_file import read_document

# In seconds. One that is left behind on another host keeps everybody waiting for twice its length.
LONGEST_LEASE = 7 * 86_400
FILE = Path("include/settings.yaml")
# Who can try all keys can try all names too.
_SHORTEST_KEY = 32
# In a local path delta-rs takes these for the sign that they encode, for `/`, or for no path.
_MISREAD = re.compile(r"%[0-9A-Fa-f]{2}|[\\|^\x00-\x1f\x7f]")
# In a URI delta-rs and obstore take the first three for the sign that they encode, for the end or
# for nothing, as Spark does not; the last they refuse.
_MISREAD_IN_URI = re.compile(r"%[0-9A-Fa-f]{2}|#|[\x00-\x1f\x7f]|/\.{0,2}/|/\.{1,2}$")
# What changes numbers, by the name of its command; a migration may be rolled back.
ACTS = (
    *("accept", "backfill", "erase", "migrate", "remove", "rename", "replay", "retract"),
    *("repartition", "rewind"),
)


def _check_act(name: str) -> None:
    if name not in ACTS:
        raise ValueError(f"`{name}` is no act; allowed: {', '.join(ACTS)}")


def _absolute_path(path: str) -> str:
    """Absolute and without `..`, its symbolic links as they are: they are the user's names."""
    return os.path.normpath(Path(path).expanduser().absolute())


def _normal_root(root: str) -> str:
    if not root.strip():
        raise ValueError("is empty; give a folder or a URI")
    if is_uri(root) and (scheme := root.partition(":")[0].lower()) not in SCHEMES:
        raise ValueError(f"has the scheme `{scheme}`; allowed: {', '.join(SCHEMES)}, or a path")
    if has_pattern(root):
        raise ValueError("has a character of file patterns (* ? [ ] { })")
    if is_local(root):
        return _absolute_path(local_path(root))
    check_no_login(root)
    scheme, rest = root.split(":", maxsplit=1)
    scheme = "s3" if scheme.lower() == "s3a" else scheme.lower()
    if not rest.startswith("//") or not rest.strip("/"):
        raise ValueError(f"names no bucket; write it as in `{scheme}://bucket/folder`")
    return f"{scheme}:{rest.rstrip('/')}"


def _served_root(root: str) -> str:
    """A root below which delta-rs finds what others find there."""
    root = _normal_root(root)
    misread, place = (_MISREAD, root) if is_local(root) else (_MISREAD_IN_URI, root.split("://")[1])
    if found := misread.search(place):
        raise ValueError(
            f"has {found[0]!r}, by which tables would lie in another folder, or in none; name a "
            "folder without it"
        )
    return root


_Act = Annotated[str, checked(_check_act)]
_SparkName = Annotated[str, checked(check_spark_setting)]
_Text = Annotated[str, BeforeValidator(as_text)]


class Cluster(BaseModel):
    """What a run asks a cluster for; a local master takes none of it.

    `executors`: how many, each with `cores` and `memory` (as Spark writes sizes: `2g`). What is not
    set is left to the master, or to the settings under `spark`, which win. `wait_seconds`: how long
    a run waits for a first executor before it ends with ClusterBusy.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    executors: int | None = Field(default=None, ge=1)
    cores: int | None = Field(default=None, ge=1)
    memory: str | None = Field(default=None, pattern=r"^[1-9]\d*[kmgt]$")
    wait_seconds: int = Field(default=300, ge=1)


class Checks(BaseModel):
    """How runs are validated. `keep_docs` is of how many runs the Data Docs of a pipeline are kept;
    `docs_url` is the root's address in people's browsers, where a web server shows it. `max_rows`
    changes nothing: settings of earlier versions say it, which left many rows to Spark."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_rows: int = Field(default=500_000, ge=0)
    keep_docs: int = Field(default=30, ge=1)
    docs_url: str | None = Field(default=None, pattern=r"^https?://[^?#@\s]+$")


class Settings(BaseModel):
    """Where things lie and how they are reached.

    `root` is an absolute local path or a URI, without a slash at its end; `root_marker` the name of
    a file that is in it unless a mount is missing. `pipelines`, the folder of their files, is
    needed by who looks for one by its name. `sources` are the places outside of the root that
    pipelines may read, each with all below it, named as the root is; `allow_python`: may pipelines
    bring Python, which runs as the platform does? `storage_options` have the names of delta-rs.
    `max_line_bytes`: larger lines and messages of any source are rejected. `lease_seconds`: how
    long a run that is silent keeps others off its pipeline. `acts`: who may change numbers, by the
    names of the acts; everybody, where none are listed. `erasure_key`: by which erasures know rows
    that come again. Neither repr nor str shows a secret.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    root: Annotated[str, AfterValidator(_served_root)]
    root_marker: str | None = Field(default=None, pattern=r"^[^/\s][^/]*$")
    pipelines: Annotated[str, AfterValidator(_absolute_path)] | None = None
    sources: tuple[str, ...] = ()
    allow_python: bool = True
    storage_options: dict[str, _Text] = Field(default_factory=dict)
    spark: dict[_SparkName, _Text] = Field(default_factory=dict)
    cluster: Cluster = Cluster()
    duckdb: DuckDBLimits = DuckDBLimits()
    connections: dict[str, Connection] = Field(default_factory=dict)
    # More than a reject shows of it, less than what a column of Arrow can hold with the next chunk.
    max_line_bytes: int = Field(default=16 * 1024**2, ge=4 * 1024, le=1024**3)
    lease_seconds: int = Field(default=60, ge=5, le=LONGEST_LEASE)
    maintenance: Maintenance = Maintenance()
    checks: Checks = Checks()
    acts: dict[_Act, tuple[str, ...]] = Field(default_factory=dict)
    erasure_key: SecretStr | None = None

    @field_validator("sources")
    @classmethod
    def _usable_sources(cls, places: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(_normal_root, places))

    @field_validator("erasure_key")
    @classmethod
    def _long(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and len(key.get_secret_value()) < _SHORTEST_KEY:
            raise ValueError(f"is too short to keep: give {_SHORTEST_KEY} characters or more")
        return key

    @field_validator("storage_options")
    @classmethod
    def _known_options(cls, options: dict[str, str]) -> dict[str, str]:
        # Object stores know these names in either case, and variables lose theirs.
        options = {name.upper(): value for name, value in options.items()}
        check_storage_options(options)
        return options

    @property
    def pipelines_folder(self) -> Path:
        """The folder of pipelines; SettingsInvalid where the settings name none."""
        if self.pipelines is None:
            raise SettingsInvalid(
                f"No setting names the folder of pipelines: give `pipelines` in {FILE}, or "
                f"{PREFIX}PIPELINES, or name a pipeline by the path of its file."
            )
        return Path(self.pipelines)

    @property
    def is_local(self) -> bool:
        """Does the root lie in this machine's file system?"""
        return is_local(self.root)

    def docs_address(self, place: str) -> str:
        """The address in a browser of Data Docs at this place below the root."""
        if self.checks.docs_url:
            return self.checks.docs_url.rstrip("/") + quote(place.removeprefix(self.root))
        return place if is_uri(place) else Path(place).as_uri()

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        shown = {
            "storage_options": _masked(self.storage_options, lambda name, _: name not in SHOWN),
            "spark": _masked(self.spark, lambda name, value: is_secret(f"{name}={value}")),
        }
        for name in type(self).model_fields:
            yield name, shown.get(name, getattr(self, name))


def load_settings(path: str | Path | None = None, *, root: str | Path | None = None) -> Settings:
    """The settings of a file, with what TIDEMARK_* variables override.

    The file is the argument, else $TIDEMARK_SETTINGS, else include/settings.yaml in the
    working folder or the nearest folder above that has one. Relative paths count from the
    file's folder, those in variables from the working folder. Options and Spark settings of
    variables are added to the file's. `root`, where one is given, goes before all of them; it is
    absolute or a URI, for a Dag's file has no folder that its tasks share. SettingsInvalid says
    what is wrong and where.
    """
    if root is not None and not is_uri(str(root)) and not Path(root).expanduser().is_absolute():
        raise SettingsInvalid(f"The root `{root}` is relative; give an absolute path or a URI.")
    file = _settings_file(path)
    values = _file_values(file) if file else {}
    variables = read_environment() | ({} if root is None else {"root": str(root)})
    if file:
        values.setdefault("pipelines", str(file.parent / "pipelines"))
    try:
        return Settings.model_validate(_overridden(values, variables))
    except ValidationError as error:
        raise SettingsInvalid(_report(file, error, set(variables))) from None


def cluster_conf(cluster: Cluster) -> dict[str, str]:
    """Spark's settings that ask a cluster for it.

    A standalone master starts executors until an application has `spark.cores.max`; YARN and
    Kubernetes start `spark.executor.instances`.
    """
    conf: dict[str, str] = {}
    if cluster.memory is not None:
        conf["spark.executor.memory"] = cluster.memory
    if cluster.cores is not None:
        conf["spark.executor.cores"] = str(cluster.cores)
    if cluster.executors is not None:
        conf["spark.executor.instances"] = str(cluster.executors)
        conf["spark.executor.cores"] = str(cluster.cores or 1)
        conf["spark.cores.max"] = str(cluster.executors * (cluster.cores or 1))
    return conf


def spark_conf(settings: Settings) -> dict[str, str]:
    """What Spark is told: the cluster's share and the storage options in Spark's names, and the
    settings' own."""
    own = cluster_conf(settings.cluster) | spark_options(settings.storage_options)
    return {**own, **settings.spark}


def _overridden(values: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
    """The file's values with those of variables; mappings get the variables' entries added."""
    result = dict(values)
    for name, value in variables.items():
        before = result.get(name)
        if not isinstance(before, dict) or not isinstance(value, dict):
            result[name] = value
        elif name == "connections":
            result[name] = _overridden(before, value)
        else:
            result[name] = {**_folded(name, before), **_folded(name, value)}
            # The one entry of a connection that is a mapping of its own.
            known, said = (one.get("schema_registry") for one in (before, value))
            if isinstance(known, dict) and isinstance(said, dict):
                result[name]["schema_registry"] = {**known, **said}
    return result


def _folded(name: str, entries: dict[str, Any]) -> dict[str, Any]:
    """Variables lose the case of option names, so an option is the same in either."""
    upper = name == "storage_options"
    return {key.upper() if upper else key: value for key, value in entries.items()}


def _settings_file(path: str | Path | None) -> Path | None:
    """The file to read; None where none was asked for and none is found."""
    if asked := path or os.environ.get(f"{PREFIX}SETTINGS"):
        file = Path(asked).expanduser().absolute()
        if not file.is_file():
            origin = "" if path else f", named by {PREFIX}SETTINGS"
            raise SettingsInvalid(f"There is no settings file {file}{origin}.")
        return file
    here = Path.cwd()
    return next((f / FILE for f in (here, *here.parents) if (f / FILE).is_file()), None)


def _file_values(file: Path) -> dict[str, Any]:
    """The file's values, its relative paths made absolute."""
    document = read_document(file)
    unknown = [key for key in document.content if key not in Settings.model_fields]
    known = tuple(Settings.model_fields)
    problems = [_without_the_line(problem) for problem in document.problems] + [
        document.problem(
            (key,),
            f"is not a known key; allowed: {', '.join(known)}",
            nearest=nearest(key, known),
            at_key=True,
        )
        for key in unknown
    ]
    problems += [
        document.problem(path, message, at_key=True)
        for path, message in secrets_in_file(document.content.get("connections"))
    ]
    if "erasure_key" in document.content:
        message = f"is a secret: give it as {PREFIX}ERASURE_KEY"
        problems.append(document.problem(("erasure_key",), message, at_key=True))
    if problems:
        lines = "\n".join(f"  {problem}" for problem in problems)
        raise SettingsInvalid(f"The settings file cannot be used:\n{lines}")
    values = {key: value for key, value in document.content.items() if value is not None}
    for name in ("root", "pipelines"):
        if name in values:
            values[name] = _from_here(file, values[name])
    if isinstance(places := values.get("sources"), list):
        values["sources"] = [_from_here(file, one) for one in places]
    if "connections" in values:
        values["connections"] = beside(file.parent, values["connections"])
    return values


def _from_here(file: Path, place: object) -> object:
    """A relative path counts from the settings file's folder."""
    if not isinstance(place, str) or not place or is_uri(place):
        return place
    return str(file.parent / Path(place).expanduser())


def _without_the_line(problem: Problem) -> Problem:
    """What YAML cannot read, or quotes in its message, may be a secret."""
    message = re.sub(r"(['\"]).*\1", "…", problem.message)
    return replace(problem, value=None, message=message)


def _report(file: Path | None, error: ValidationError, from_variables: set[str]) -> str:
    lines = []
    for detail in error.errors(include_input=False, include_url=False):
        name = str(detail["loc"][0])
        place = f"{PREFIX}{name.upper()}" if name in from_variables else f"{file or 'settings'}"
        field = ".".join(str(part) for part in detail["loc"])
        message = str(detail["ctx"]["error"]) if "error" in detail.get("ctx", {}) else detail["msg"]
        if detail["type"] == "missing":
            message = f"is missing: give it in {file or FILE} or as {PREFIX}{name.upper()}"
        lines.append(f"  {place}: {field}: {message}")
    return "The settings cannot be used:\n" + "\n".join(lines)


def _masked(values: Mapping[str, str], hidden: Callable[[str, str], bool]) -> dict[str, str]:
    return {name: "***" if hidden(name, value) else value for name, value in values.items()}
