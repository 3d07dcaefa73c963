"""Which columns of a table's former generation its next one goes on with: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.operators.operator import Operator, changes_of
from tidemark.pipeline.expressions.sql import same_expression


@dataclass(frozen=True)
class Predecessors:
    """What former rows are to the next generation's.

    `identity` has for each column of the new identity the former one; None where rows are others
    (another window, a key more or less): then none has a predecessor. `values` has the same for
    values that can be compared, and `kept` those of them that mean what they meant, so that a row
    which is computed no more keeps them.
    """

    identity: Mapping[str, str] | None
    values: Mapping[str, str]
    kept: frozenset[str]


def predecessors(former: Operator, new: Operator) -> Predecessors:
    """By name, or by what `renamed_from` says of a key or a measure.

    It may stay in the file: what it said when the former generation began is done.
    """
    done = former.table.renamed_from
    renamed = {name: old for name, old in new.table.renamed_from.items() if done.get(name) != old}
    known = former.table.measures
    named = {name: renamed.get(name, name) for name in new.table.measures}
    measures = {name: old for name, old in named.items() if old in known}
    unchanged = {
        name
        for name, old in measures.items()
        if same_expression(known[old], new.table.measures[name])
    }
    own = {name: name for name in _beside_measures(new) if name in _beside_measures(former)}
    return Predecessors(
        identity=_identity(former, new, renamed),
        values=own | measures,
        kept=frozenset(own) | unchanged,
    )


def _beside_measures(operator: Operator) -> list[str]:
    return [name for name in operator.values if name not in operator.table.measures]


def _identity(
    former: Operator, new: Operator, renamed: Mapping[str, str]
) -> Mapping[str, str] | None:
    found = {name: renamed.get(name, name) for name in new.identity}
    same_rows = not any(True for _ in changes_of(former, "", new.table))
    is_same = same_rows and sorted(found.values()) == sorted(former.identity)
    return found if is_same else None
