"""Which columns of a table's former generation its next one goes on with: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.operators.joins.joins import Joins
from tidemark.operators.operator import Operator, changes_of
from tidemark.pipeline.expressions.sql import names_read, same_expression
from tidemark.pipeline.names import same_column

# What of a lookup settles which row of it a row of bronze finds, and what becomes of one without.
_FINDS = ("on", "as_of", "on_missing")


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
    others = _other_lookups(former, new)
    unchanged = {
        name
        for name, old in measures.items()
        if same_expression(known[old], new.table.measures[name])
        and not _names(new.table.measures[name], others)
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
    same_rows = same_rows and not _found_otherwise(former, new)
    is_same = same_rows and sorted(found.values()) == sorted(former.identity)
    return found if is_same else None


def _other_lookups(former: Operator, new: Operator) -> set[str]:
    """The lookups by which a row of bronze finds something else than before: what has such a name
    means something else, or is another column."""
    before, after = former.lookups, new.lookups
    return {
        name
        for name in before.keys() | after.keys()
        if name not in before
        or name not in after
        or any(
            getattr(before[name].lookup, what) != getattr(after[name].lookup, what)
            for what in _FINDS
        )
    }


def _names(expression: str, lookups: set[str]) -> bool:
    read = [parts[0] for parts in names_read(expression) if len(parts) > 1]
    return any(same_column(one, name) for one in read for name in lookups)


def _found_otherwise(former: Operator, new: Operator) -> bool:
    """Are the rows of bronze that a row of the table is made of others, though its definition is
    the same: by keys or conditions over lookups that say something else, by lookups that leave
    rows out, or by the times of the other side of a join?"""
    others = _other_lookups(former, new)
    for operator in (former, new):
        of = [operator.lookups[name] for name in others if name in operator.lookups]
        if any(one.keys or one.lookup.on_missing for one in of):
            return True
        if operator.table.where and _names(operator.table.where, others):
            return True
    return _other_time(former) != _other_time(new)


def _other_time(operator: Operator) -> str | None:
    """The column by whose times rows of the other side of a join match."""
    return operator.other_event_time if isinstance(operator, Joins) else None
