"""Decide what publish has to do: pure, from pinned numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemark.errors import NotPublishable
from tidemark.gold.pins import Dependency, TableResult
from tidemark.operators.lookups import is_lookup
from tidemark.operators.operator import BRONZE
from tidemark.pipeline.instants import instant_text
from tidemark.storage.generation import GENERATION

# App transactions of gold's commits: the only record of what was published.
# Beside these, one for each input, and one for each table and query that the publish rests on,
# whose name carries its identity (`noted_name`): of a replaced one there is none.
CHANGES = "changes"
CLOSE = "close"
# 1 where the commit also carries `NAME/ID` for all that it rests on.
IDENTITIES = "identities"
# Versions of `changes` and of an input that gold may be behind without a commit to say so.
_MOST_UNNOTED = 20


@dataclass(frozen=True)
class GoldState:
    """What gold's transactions say: its version, and what was published into it.

    `changes` and `inputs` are the newest published versions of those tables, -1 before the first;
    inputs by the names that the table's operator has for them. `identified`: it says what it rests
    on; `noted` has that by `noted_name`, for what was asked for and is noted.
    """

    version: int
    changes: int
    inputs: Mapping[str, int]
    close_ms: int
    generation: int
    identified: bool = False
    noted: Mapping[str, int] = field(default_factory=dict)

    @property
    def bronze(self) -> int:
        return self.inputs[BRONZE]


@dataclass(frozen=True)
class PublishPlan:
    """The commit that publish will make: changes (first, last], the frontier, the pins.

    There is nothing to do when gold already holds the pin and says what that rests on (`noted`),
    and the frontier does not move. The versions of inputs may lag behind then, by a few commits:
    until they are noted, each run counts the rows since. Not where gold shows windows with such
    rows (`_is_to_note`).
    """

    gold_version: int
    after_changes: int
    changes: int
    after_inputs: Mapping[str, int]
    inputs: Mapping[str, int]
    close_before_ms: int
    close_after_ms: int
    generation: int
    rests_on: Mapping[str, int] = field(default_factory=dict)
    noted: bool = True

    @property
    def nothing_to_do(self) -> bool:
        return self.may_wait and self.changes <= self.after_changes

    @property
    def may_wait(self) -> bool:
        """Is there nothing to do where the changes hold no row, as after batches that closed no
        window?"""
        behind = [self.changes - self.after_changes]
        moved = {name: version - self.after_inputs[name] for name, version in self.inputs.items()}
        behind += moved.values()
        # What a lookup touches is looked for until gold names its copy.
        looked_up = any(by for name, by in moved.items() if is_lookup(name))
        return (
            self.close_after_ms <= self.close_before_ms
            and self.noted
            and not looked_up
            and max(behind) < _MOST_UNNOTED
        )

    @property
    def transactions(self) -> dict[str, int]:
        return {
            CHANGES: self.changes,
            **self.inputs,
            CLOSE: self.close_after_ms,
            GENERATION: self.generation,
            **({IDENTITIES: 1, **self.rests_on} if self.rests_on else {}),
        }


def noted_name(name: str, identity: str) -> str:
    """The app transaction that notes how far a publish has taken a table or a query."""
    return f"{name}/{identity}"


def entry_name(name: str, identity: str) -> str:
    """The app transaction that notes which log entry the version of `noted_name` has."""
    return f"{name}/{identity}/entry"


def accepted_name(name: str, identity: str) -> str:
    """The app transaction that notes up to which version of another pipeline's bronze changes by
    hand are accepted."""
    return f"{name}/{identity}/accepted"


def noted_of(rests_on: Mapping[str, Dependency], known: Mapping[str, int]) -> dict[str, int]:
    """The app transactions that note these, none of them behind what gold notes already."""
    noted = {}
    for name, one in rests_on.items():
        name_noted = noted_name(name, one.id)
        before = known.get(name_noted, one.at)
        noted[name_noted] = max(one.at, before)
        if one.entry is not None and one.at >= before:
            noted[entry_name(name, one.id)] = one.entry
    return noted


def plan_publish(gold: GoldState, pinned: TableResult) -> PublishPlan:
    """The plan for a run's pins. The close frontier never goes back.

    NotPublishable when another run closed windows since: which rows were late was decided by the
    frontier that this run found. So when gold is of another generation since.
    """
    if pinned.generation != gold.generation:
        raise NotPublishable(
            f"This run found generation {pinned.generation} of the table, and gold is of "
            f"generation {gold.generation} by now. Nothing of this run was published, and "
            "nothing is lost: bronze has its rows. Run the pipeline again."
        )
    if pinned.changes > gold.changes and pinned.close_before_ms != gold.close_ms:
        raise NotPublishable(
            f"This run found windows closed up to {instant_text(pinned.close_before_ms)}, and "
            f"since then another publish closed those up to {instant_text(gold.close_ms)}. "
            "Nothing of this run was published. Run the pipeline again: that run judges its late "
            "rows anew and publishes what this one left as well."
        )
    # Pins of an older run than was published last: what they say of closed windows holds no
    # more, for a newer run has found them open.
    is_older = pinned.changes < gold.changes or any(
        version < gold.inputs[name] for name, version in pinned.inputs.items()
    )
    return PublishPlan(
        gold_version=gold.version,
        after_changes=gold.changes,
        changes=max(gold.changes, pinned.changes),
        after_inputs=gold.inputs,
        inputs={name: max(gold.inputs[name], version) for name, version in pinned.inputs.items()},
        close_before_ms=gold.close_ms,
        close_after_ms=gold.close_ms if is_older else max(gold.close_ms, pinned.close_after_ms),
        generation=pinned.generation,
        rests_on=noted_of(pinned.rests_on, gold.noted),
        noted=_is_noted(gold, pinned) and not _is_to_note(gold, pinned),
    )


def _is_noted(gold: GoldState, pinned: TableResult) -> bool:
    """Not so after a publish by a version that did not say what it rests on."""
    changes = pinned.rests_on.get(CHANGES)
    return changes is None or gold.noted.get(noted_name(CHANGES, changes.id)) == gold.changes


def _is_to_note(gold: GoldState, pinned: TableResult) -> bool:
    """Does gold stand for rows that may have changed nothing in it: replayed ones, or those of
    windows that came out as they were? Audits and backfills would leave them out else."""
    is_behind = any(version > gold.inputs[name] for name, version in pinned.inputs.items())
    return is_behind and (pinned.has_replayed or pinned.has_recomputed)
