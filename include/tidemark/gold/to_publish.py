"""What a run's pins leave to be published into a table: read by validation and by publish alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable

from tidemark.gold.pins import TableResult
from tidemark.gold.plan import PublishPlan, plan_publish
from tidemark.gold.state import gold_state
from tidemark.storage.delta.create import existing_table
from tidemark.storage.delta.history import changes_between


@dataclass(frozen=True)
class ToPublish:
    """Gold as it was found, and the plan from there to a run's pins."""

    gold: DeltaTable
    plan: PublishPlan
    changes_uri: str
    options: Mapping[str, str]

    def changes(self) -> pa.Table:
        """The changes that the plan publishes, those of held and killed runs among them."""
        history = existing_table(self.changes_uri, self.options)
        return changes_between(history, self.plan.after_changes, self.plan.changes)


def to_publish(
    pinned: TableResult, gold_uri: str, changes_uri: str, options: Mapping[str, str]
) -> ToPublish:
    """Plan from gold as it is now. Raises NotPublishable as `plan_publish` does."""
    gold = existing_table(gold_uri, options)
    return ToPublish(gold, plan_publish(gold_state(gold), pinned), changes_uri, options)
