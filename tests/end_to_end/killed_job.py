"""A job that ends or suspends itself, with all of its process group, at one point.

`--job` says which: the stream, a backfill, a compaction, or a command: the ledger built anew,
housekeeping, maintenance, a run that finds nothing new, what was changed by hand accepted.

`--kill WHEN POINT CALL` says at which call of which commit point (1: the first), and whether
`before` or `after` its work; `--stop` suspends instead. `--of TEXT` counts only calls of which
some argument holds TEXT; `--mark FILE` is written first, because what a killed job printed may
never be read. `--elsewhere` takes the lease as a process of another machine would, `--go-on`
does not halt when the lease is lost.
"""

from __future__ import annotations

import os
import platform
import signal
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tidemark import commit_point
from tidemark.cli.main import app
from tidemark.gold import recomputed
from tidemark.storage import processes
from tidemark.streaming.jobs import backfill as backfill_job
from tidemark.streaming.jobs import compact_state as compact_job
from tidemark.streaming.jobs import stream as job
from tidemark.upkeep.maintenance import plan_table

Function = Callable[..., Any]


def backfill(arguments: Sequence[str]) -> int:
    return backfill_job.main(_with_its_own_result(arguments))


def compact(arguments: Sequence[str]) -> int:
    return compact_job.main([*_with_its_own_result(arguments), "--all"])


def _with_its_own_result(arguments: Sequence[str]) -> list[str]:
    """It is another than a run's, so its file has another name."""
    place = arguments.index("--result") + 1
    return [*arguments[:place], f"{arguments[place]}.own", *arguments[place + 1 :]]


def rebuild_ledger(arguments: Sequence[str]) -> int:
    pipeline = arguments[arguments.index("--pipeline") + 1]
    return int(app(["ledger", "rebuild", pipeline], standalone_mode=False) or 0)


def housekeep(arguments: Sequence[str]) -> int:
    pipeline = arguments[arguments.index("--pipeline") + 1]
    given = ["checkpoint", "housekeep", pipeline, "--apply"]
    return int(app(given, standalone_mode=False) or 0)


def maintain(arguments: Sequence[str]) -> int:
    """Two files are enough to be packed."""
    plan_table._FEWEST = 2
    pipeline = arguments[arguments.index("--pipeline") + 1]
    return int(app(["maintain", pipeline, "--apply"], standalone_mode=False) or 0)


def accept(arguments: Sequence[str]) -> int:
    pipeline = arguments[arguments.index("--pipeline") + 1]
    return int(app(["accept", pipeline, "--reason", "meant"], standalone_mode=False) or 0)


def look(arguments: Sequence[str]) -> int:
    """A run that finds nothing new, which is one of the command's own process."""
    place = arguments.index("--pipeline")
    others = [*arguments[:place], *arguments[place + 2 :]]
    given = ["run", arguments[place + 1], *_with_its_own_result(others)]
    return int(app(given, standalone_mode=False) or 0)


JOBS = {
    "stream": job.main,
    "backfill": backfill,
    "compact": compact,
    "rebuild": rebuild_ledger,
    "housekeep": housekeep,
    "maintain": maintain,
    "look": look,
    "accept": accept,
}


def call_at(act: Callable[[], None], when: str, point: str, call: str, of: str) -> None:
    """The CALLth call of the commit point leads to `act`, before or after its work."""
    calls = count(1)

    def reached(name: str, at: str, given: Sequence[Any]) -> None:
        if (name, at) == (point, when) and of in _told(given) and next(calls) == int(call):
            act()

    commit_point.on_reach = reached


def replace_everywhere(original: Function, replacement: Function) -> None:
    """In every module of ours that has the function, also where it was imported by name."""
    for module_name, module in list(sys.modules.items()):
        if module_name.split(".")[0] == "tidemark":
            for name, value in list(vars(module).items()):
                if value is original:
                    setattr(module, name, replacement)


def _told(values: Sequence[Any]) -> str:
    """The arguments that name places."""
    told = (value.table_uri if isinstance(value, DeltaTable) else value for value in values)
    return " ".join(repr(value) for value in told if isinstance(value, str) or is_dataclass(value))


def _signal(number: signal.Signals, mark: str | None) -> None:
    if mark:
        Path(mark).touch()
    os.killpg(os.getpgid(0), number)


def run(argv: Sequence[str]) -> int:
    own, arguments = _parser().parse_known_args(argv)
    _pretend(own)
    if point := own.kill or own.stop:
        number = signal.SIGKILL if own.kill else signal.SIGSTOP
        call_at(partial(_signal, number, own.mark), *point, own.of)
    return JOBS[own.job](arguments)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(allow_abbrev=False)
    parser.add_argument("--job", choices=JOBS, default="stream")
    ends = parser.add_mutually_exclusive_group()
    ends.add_argument("--kill", nargs=3)
    ends.add_argument("--stop", nargs=3)
    parser.add_argument("--of", default="")
    parser.add_argument("--mark")
    parser.add_argument("--elsewhere", action="store_true")
    parser.add_argument("--go-on", action="store_true")
    return parser


def _pretend(own: Namespace) -> None:
    # Within the point "recomputed windows": after its check, before its commit.
    mark = commit_point.commit_point("checked windows", after_a_kill="as the point around it")
    recomputed.append_rows = mark(recomputed.append_rows)
    if own.elsewhere:
        replace_everywhere(processes.this_machine, lambda: "another boot pid:[1]")
        platform.node = lambda: "elsewhere"
    if own.go_on:
        job.run_once = partial(job.run_once, on_lapse=lambda lost: None)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
