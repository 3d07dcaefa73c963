"""`tidemark checkpoint housekeep`, for people and as JSON: counts, bytes and reasons by kind."""

from __future__ import annotations

from rich.console import Console

from tidemark.checkpoint.doctor.findings import examples
from tidemark.checkpoint.housekeeping.plan import HousekeepingPlan, Share
from tidemark.cli.console import ReportTable, report_table


def print_plan(console: Console, name: str, plan: HousekeepingPlan | None, applied: bool) -> None:
    """Print what goes, or went where it is `applied`, and why the rest stays."""
    if plan is None:
        console.print(f"\n{name}: no query has started yet")
        return
    console.print(f"\n{name}: {plan.verdict}")
    if plan.refused is not None:
        console.print(f"refused: {plan.refused}")
        return
    console.print(_table(plan, applied))
    console.print(_sentence(plan, applied))


def plan_as_json(plan: HousekeepingPlan | None, applied: bool) -> dict[str, object]:
    """A plan as JSON holds it; of the names that go, the first ones and their count."""
    if plan is None:
        return {"verdict": "new", "applied": False, "shares": []}
    return {
        "uri": plan.uri,
        "verdict": str(plan.verdict),
        "refused": plan.refused,
        "applied": applied and plan.refused is None,
        "kept_batches": [plan.kept.start, plan.kept.stop - 1] if plan.kept else None,
        "files": plan.files,
        "bytes": plan.size,
        "going_files": plan.going_files,
        "going_bytes": plan.going_size,
        "shares": [_share(share) for share in plan.shares],
    }


def _share(share: Share) -> dict[str, object]:
    first, count = examples(share.going)
    return {
        "kind": str(share.kind),
        "files": share.files,
        "bytes": share.size,
        "going_files": count,
        "going_bytes": share.going_size,
        "going": first,
        "reasons": share.reasons,
    }


def _table(plan: HousekeepingPlan, applied: bool) -> ReportTable:
    gone = ">gone" if applied else ">may go"
    table = report_table("files of", ">files", ">bytes", gone, ">bytes of them", "~why")
    for share in plan.shares:
        numbers = (share.files, share.size, len(share.going), share.going_size)
        reasons = "; ".join(share.reasons)
        table.add_row(str(share.kind), *(f"{number:,}" for number in numbers), reasons)
    return table


def _sentence(plan: HousekeepingPlan, applied: bool) -> str:
    kept = f"{plan.kept.start:,} to {plan.kept.stop - 1:,}" if plan.kept else "none yet"
    did = "removed" if applied else "may go (nothing was changed: --apply removes them)"
    return (
        f"{plan.going_files:,} of {plan.files:,} files, {plan.going_size:,} of {plan.size:,} bytes "
        f"{did}; batches that it can be taken back to: {kept}"
    )
