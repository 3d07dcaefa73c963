"""Every write of the packages that a run is made of is a marked commit point, and each is tested.

Read from the source: what counts as a write is in `_is_write`, what marks a point in `_point`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.checkpoint.rewind.test_killed_rewinds import KILLS as REWINDS
from tests.end_to_end.test_erasures import POINTS as ERASURES
from tests.end_to_end.test_generations import KILLS as MIGRATIONS
from tests.end_to_end.test_generations_of_joins import KILLS as MIGRATIONS_OF_JOINS
from tests.end_to_end.test_killed_runs import KILLS
from tests.end_to_end.test_lookups import KILLS as LOOKUPS
from tests.end_to_end.test_mended_rejects import POINTS as REPLAYS
from tests.end_to_end.test_retractions import POINTS as RETRACTIONS
from tests.end_to_end.test_retractions import POINTS_OF_UNDO, POINTS_OF_WIDENING
from tests.end_to_end.test_rewinds import POINTS as PIPELINE_REWINDS
from tests.end_to_end.test_state_repartition import POINTS as REPARTITIONS
from tests.end_to_end.test_widening import KILLS as WIDENINGS
from tests.gold.test_views import KILLS as VIEWS
from tests.kit.running import REPOSITORY
from tests.operators.contract.test_joins import KILLS as JOINS
from tests.runs.test_removal import KILLS as REMOVALS
from tests.sources.kafka.test_lost_topics import KILLS as LOSSES
from tests.sources.kafka.test_registry_topics import KILLS as SCHEMAS
from tests.sources.test_moved_root import KILLS as MOVES
from tests.storage.test_ops_place import KILLS as MOVED_OPS
from tests.upkeep.test_renaming import KILLS as RENAMES
from tidemark import commit_point

PACKAGE = REPOSITORY / "include" / "tidemark"
PACKAGES = (
    "streaming", "quality", "storage", "checkpoint", "sources", "operators", "gold", "ledger",
    "runs", "upkeep", "recompute",
)  # fmt: skip
# The doors to files: their callers are the ones that write.
PRIMITIVES = ("tidemark.storage.files:", "tidemark.storage.file_place:")
# A table of its own that somebody asked for, what `tidemark doctor` writes to a folder of its own,
# and a trial's copies below its temporary root; no run reads it.
NO_RUNS = {
    "tidemark.sources.files.first_lines:copy_first_lines",
    "tidemark.sources.files.first_lines:_copy",
    "tidemark.streaming.jobs.read_state:_write_table",
    "tidemark.streaming.jobs.doctor:_write_and_read",
    "tidemark.storage.store_check:_writes",
    "tidemark.storage.store_check:_creates_once",
    "tidemark.storage.store_check:_clock",
    "tidemark.storage.store_check:_clean",
}
# Files that no commit names yet: no reader sees them come or go, and VACUUM removes what is left.
# What protoc reads and writes lies in a folder of its own, which is removed with it; so does the
# copy of a table's log, and what DuckDB spills.
UNSEEN = {
    "tidemark.storage.duckdb_bounds:_own_folder",
    "tidemark.storage.duckdb_bounds:_remove_left",
    "tidemark.storage.duckdb_bounds:_remove_own",
    "tidemark.sources.kafka.protobuf:compiled",
    "tidemark.storage.delta.opened:OpenedTable._files_told",
    "tidemark.storage.delta.written_files:write_parquet",
    "tidemark.streaming.ingest.spark_rows:_remove_lines",
}

# Names that write whatever they are called on, or are imported from where they are defined.
FUNCTIONS = {
    "write_deltalake",
    "write_bytes",
    "remove_files",
    "remove_folder",
    "convert_to_deltalake",
    "copy_file",
    "rename_folder",
}
METHODS = {
    "save", "saveAsTable", "insertInto", "writeTo", "toTable", "delete", "merge", "vacuum",
    "restore", "create_checkpoint", "create_write_transaction", "cleanup_metadata", "write_bytes",
    "write_text", "unlink", "rmdir", "mkdir", "rmtree", "put", "doMaintenance", "uploadSnapshot",
}  # fmt: skip
# Methods that write only on these.
ON = {
    "create": {"DeltaTable"},
    "start": {"trigger"},
    "update": {"DeltaTable"},
    "compact": {"optimize"},
    # Of a checkpoint; a DataFrame's is none.
    "repartition": {"manager"},
}
MARK = "@commit_point('acted', after_a_kill='nothing')\n"


@dataclass(frozen=True)
class Function:
    """A function of ours. `calls` holds functions as `module:name`, methods as `.name`, for what
    they are called on is not known; `writes` is whether it writes itself; `point` is the name of
    the commit point that it is marked as."""

    at: str
    calls: frozenset[str]
    writes: bool
    point: str | None

    @property
    def called_as(self) -> str:
        module, _, name = self.at.partition(":")
        return f".{name.rpartition('.')[2]}" if "." in name else f"{module}:{name}"


def functions_of(source: str, module: str) -> Iterator[Function]:
    """The functions and methods of a module; those inside of another count as part of it."""
    tree = ast.parse(source)
    known = _imported(tree)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield _function(node, node.name, module, known)
        elif isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    yield _function(method, f"{node.name}.{method.name}", module, known)


def _imported(tree: ast.Module) -> dict[str, str]:
    """What names that a module imports are, as `module:name`."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {
        name.asname or name.name: f"{i.module}:{name.name}" for i in imports for name in i.names
    }


def _function(node: ast.FunctionDef, name: str, module: str, known: dict[str, str]) -> Function:
    calls = [call for call in ast.walk(node) if isinstance(call, ast.Call)]
    # A function that is given away may be called by whoever gets it.
    given = [n.id for call in calls for n in call.args if isinstance(n, ast.Name)]
    names = [*given, *(call.func.id for call in calls if isinstance(call.func, ast.Name))]
    methods = {f".{call.func.attr}" for call in calls if isinstance(call.func, ast.Attribute)}
    functions = {known.get(name, f"{module}:{name}") for name in names}
    at, writes = f"{module}:{name}", any(_is_write(call) for call in calls)
    return Function(at, frozenset(functions | methods), writes, _point(node))


def _point(node: ast.FunctionDef) -> str | None:
    """The name that the decorator `commit_point` gives to a function."""
    for mark in node.decorator_list:
        if isinstance(mark, ast.Call) and _called(mark) == "commit_point":
            return str(ast.literal_eval(mark.args[0]))
    return None


def _called(call: ast.Call) -> str | None:
    if isinstance(call.func, ast.Name):
        return call.func.id
    return call.func.attr if isinstance(call.func, ast.Attribute) else None


def _is_write(call: ast.Call) -> bool:
    """Does the call change a table, a checkpoint or a file?"""
    name, chain = _called(call), _chain(call.func)
    if isinstance(call.func, ast.Name):
        return name in FUNCTIONS or (name == "open" and len(call.args) > 1)
    if name == "save" and "noop" in _words(call):
        return False
    if name == "vacuum" and any(word.arg == "dry_run" for word in call.keywords):
        return not _is_true(call, "dry_run")
    on = ON.get(name or "")
    return name in METHODS | FUNCTIONS or "alter" in chain or bool(on and on & set(chain))


def _is_true(call: ast.Call, name: str) -> bool:
    given = [word.value for word in call.keywords if word.arg == name]
    return all(isinstance(value, ast.Constant) and value.value is True for value in given)


def _chain(node: ast.AST) -> list[str]:
    """The names before the last dot: `a.b().c` is called on a and b."""
    names = []
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
    return [*names, node.id] if isinstance(node, ast.Name) else names


def _words(call: ast.Call) -> set[str]:
    return {
        n.value for n in ast.walk(call) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }


@cache
def all_functions() -> list[Function]:
    files = [path for name in PACKAGES for path in sorted((PACKAGE / name).rglob("*.py"))]
    return [f for path in files for f in functions_of(path.read_text(), _module(path))]


def _module(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def unmarked(functions: list[Function]) -> list[str]:
    """Functions that write, are not marked, and are not only called by functions that are."""
    callers: dict[str, set[Function]] = defaultdict(set)
    for function in functions:
        for called in function.calls:
            callers[called].add(function)

    def covered(function: Function, within: frozenset[Function]) -> bool:
        if function.point or function.at in NO_RUNS | UNSEEN:
            return True
        by = callers[function.called_as] - within - {function}
        return bool(by) and all(covered(caller, within | {function}) for caller in by)

    writing = [f for f in functions if f.writes and not f.at.startswith(PRIMITIVES)]
    return sorted(f.at for f in writing if not covered(f, frozenset()))


@cache
def points() -> list[str]:
    """The names of all marked points, also where `functions_of` does not look."""
    trees = [ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))]
    nodes = [n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    return [name for node in nodes if (name := _point(node))]


@pytest.mark.slow
def test_every_function_that_writes_is_a_marked_commit_point() -> None:
    assert unmarked(all_functions()) == []


@pytest.mark.slow
def test_every_marked_commit_point_is_a_function_that_leads_to_a_write() -> None:
    functions = all_functions()
    marked = {function.point: function for function in functions if function.point}
    assert set(points()) == marked.keys()
    by_name = defaultdict(list)
    for function in functions:
        by_name[function.called_as].append(function)
    assert [name for name, f in marked.items() if not _leads(f, by_name, set())] == []


def _leads(function: Function, by_name: dict[str, list[Function]], seen: set[str]) -> bool:
    if function.writes:
        return True
    inner = [f for name in function.calls for f in by_name.get(name, []) if f.at not in seen]
    return any(_leads(f, by_name, seen | {f.at for f in inner}) for f in inner)


def test_every_commit_point_has_a_test_that_kills_a_run_before_and_after_it() -> None:
    killed = {(kill.point, kill.when) for kill in KILLS}
    killed |= {(step, when) for when, step in (*MIGRATIONS, *LOSSES)}
    killed |= {("gold of the former generation", when) for when in ("before", "after")}
    killed |= {
        *JOINS,
        *LOOKUPS,
        *MIGRATIONS_OF_JOINS,
        *MOVED_OPS,
        *MOVES,
        *REMOVALS,
        *RENAMES,
        *REWINDS,
        *SCHEMAS,
        *VIEWS,
        *WIDENINGS,
    }
    acts = (
        *PIPELINE_REWINDS,
        *RETRACTIONS,
        *POINTS_OF_UNDO,
        *POINTS_OF_WIDENING,
        *REPLAYS,
        *ERASURES,
        *REPARTITIONS,
    )
    killed |= {(point, when) for point, _ in acts for when in ("before", "after")}
    assert killed == {(name, when) for name in points() for when in ("before", "after")}


def test_names_of_commit_points_are_unique() -> None:
    assert len(points()) == len(set(points()))


@pytest.mark.parametrize(
    "body",
    [
        "rows.write.format('delta').mode('append').save(place)",
        "write_deltalake(table, rows)",
        "DeltaTable.create(uri, schema)",
        "table.alter.add_columns(fields)",
        "table.delete('a = 1')",
        "stream.writeStream.foreachBatch(f).trigger(availableNow=True).start()",
        "obstore.put(store, path, data)",
        "files.write_bytes(uri, data, options)",
        "open(path, 'w')",
        "Path(path).write_text('')",
        "table.optimize.compact()",
        "table.vacuum(dry_run=False)",
    ],
)
def test_a_write_is_seen(body: str) -> None:
    [function] = functions_of(f"def act():\n    {body}\n", "tidemark.runs.new")
    assert unmarked([function]) == ["tidemark.runs.new:act"]
    [marked] = functions_of(f"{MARK}def act():\n    {body}\n", "tidemark.runs.new")
    assert unmarked([marked]) == []


@pytest.mark.parametrize(
    "body",
    [
        "rows.write.format('noop').mode('append').save()",
        "Thread(target=f).start()",
        "found.update(more)",
        "read_bytes(uri, options)",
        "open(path)",
        "table.vacuum(168, dry_run=True)",
    ],
)
def test_what_is_no_write_is_none(body: str) -> None:
    [function] = functions_of(f"def look():\n    {body}\n", "tidemark.runs.new")
    assert not function.writes


def test_a_function_that_writes_is_covered_when_all_its_callers_are_marked() -> None:
    source = f"def write():\n    write_deltalake(t, r)\n\n{MARK}def one():\n    write()\n"
    functions = list(functions_of(source, "m"))
    assert unmarked(functions) == []
    another = "from m import write as w\n\ndef two():\n    w()\n"
    more = [*functions, *functions_of(another, "n")]
    assert unmarked(more) == ["m:write"]
    its_own = "def write():\n    pass\n\ndef two():\n    write()\n"
    assert unmarked([*functions, *functions_of(its_own, "n")]) == []


def test_a_listener_is_told_before_and_after_a_points_work_and_not_after_it_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[object] = []

    @commit_point.commit_point("divided", after_a_kill="nothing")
    def divide(one: int, by: int) -> float:
        told.append("work")
        return one / by

    assert divide(4, by=2) == 2
    monkeypatch.setattr(commit_point, "on_reach", lambda *reached: told.append(reached))
    assert divide(4, by=2) == 2
    with pytest.raises(ZeroDivisionError):
        divide(4, by=0)
    before, after = ("divided", "before", (4, 2)), ("divided", "after", (4, 2))
    assert told == ["work", before, "work", after, ("divided", "before", (4, 0)), "work"]
