"""What a run's pins leave to be published into a table: read by validation and by publish alike."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.gold.pins import TableResult
from tidemark.gold.plan import PublishPlan, plan_publish
from tidemark.gold.state import gold_state
from tidemark.operators.operator import Operator
from tidemark.storage.delta.history import changes_between
from tidemark.storage.delta.place import TablePlace


@dataclass(frozen=True)
class ToPublish:
    """Gold as it was found, and the plan from there to a run's pins."""

    gold: DeltaTable
    plan: PublishPlan
    history: TablePlace

    @property
    def leaves_gold(self) -> bool:
        """Does gold stay at its version?"""
        plan = self.plan
        return plan.nothing_to_do or (plan.may_wait and not self.changes().num_rows)

    def changes(self) -> pa.Table:
        """The changes that the plan publishes, those of held and killed runs among them."""
        return changes_between(self.history.existing(), self.plan.after_changes, self.plan.changes)


def to_publish(
    operator: Operator, pinned: TableResult, gold: TablePlace, changes: TablePlace
) -> ToPublish:
    """Plan from gold as it is now. Raises NotPublishable as `plan_publish` does."""
    found = gold.existing()
    state = gold_state(found, operator.inputs, pinned.rests_on)
    return ToPublish(found, plan_publish(state, pinned), changes)
