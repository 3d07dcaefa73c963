"""Read the checkpoints that were asked for, and print what their state holds."""

from __future__ import annotations

from tidemark.checkpoint.state.check import StateCheck, StateVerdict, check_state
from tidemark.checkpoint.state.inventory import inventory
from tidemark.cli.checkpoint.show import head, print_json, read_target, report_console
from tidemark.cli.checkpoint.targets import Target, Targets
from tidemark.cli.state.report import as_json, print_state
from tidemark.errors import SUCCESS

# Those of the doctor where they mean the same.
VERDICTS = {
    StateVerdict.HEALTHY: SUCCESS,
    StateVerdict.DUE: 10,
    StateVerdict.OVERDUE: 11,
    StateVerdict.UNKNOWN: 13,
    StateVerdict.LOST: 14,
}


def show_states(targets: Targets, in_json: bool) -> int:
    """Print each checkpoint's state; the exit code is the largest of those in use."""
    console = report_console()
    documents: list[dict[str, object]] = []
    code = SUCCESS
    for target in targets.checkpoints:
        told = _check(target, targets)
        if target.in_use and told is not None:
            code = max(code, VERDICTS[told.verdict])
        if in_json:
            documents.append(head(target) | ({} if told is None else as_json(told)))
        elif told is None:
            console.print(f"\n{target.name}: no query has started yet")
        else:
            print_state(console, target.name, told, target.limits, target.in_use)
    if in_json:
        print_json(documents)
    return code


def _check(target: Target, targets: Targets) -> StateCheck | None:
    facts = read_target(target, targets)
    return None if facts is None else check_state(inventory(facts), target.limits)
