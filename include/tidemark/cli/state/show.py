"""Read the checkpoints that were asked for, and print what their state holds."""

from __future__ import annotations

from tidemark.checkpoint.state.check import StateCheck, StateVerdict, check_state
from tidemark.checkpoint.state.inventory import inventory
from tidemark.cli.checkpoint.show import head, read_target
from tidemark.cli.checkpoint.targets import CheckpointTarget, CheckpointTargets
from tidemark.cli.console import print_documents, report_console
from tidemark.cli.state.report import print_state, state_check_json
from tidemark.errors import SUCCESS

# Those of the doctor where they mean the same.
VERDICTS = {
    StateVerdict.HEALTHY: SUCCESS,
    StateVerdict.DUE: 10,
    StateVerdict.OVERDUE: 11,
    StateVerdict.UNKNOWN: 13,
    StateVerdict.LOST: 14,
}


def show_states(targets: CheckpointTargets, in_json: bool) -> int:
    """Print each checkpoint's state; the exit code is the largest of those in use."""
    console = report_console()
    documents: list[dict[str, object]] = []
    code = SUCCESS
    for target in targets.checkpoints:
        check = _check(target, targets)
        if target.in_use and check is not None:
            code = max(code, VERDICTS[check.verdict])
        if in_json:
            documents.append(head(target) | ({} if check is None else state_check_json(check)))
        elif check is None:
            console.print(f"\n{target.name}: no query has started yet")
        else:
            print_state(console, target.name, check, target.limits, target.in_use)
    if in_json:
        print_documents(documents)
    return code


def _check(target: CheckpointTarget, targets: CheckpointTargets) -> StateCheck | None:
    facts = read_target(target, targets)
    return (
        None
        if facts is None
        else check_state(inventory(facts, target.known.keeps_state), target.limits)
    )
