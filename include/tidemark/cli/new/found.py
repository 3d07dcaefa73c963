"""What `--from` names: where a pipeline reads, and the first rows that lie there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidemark.cli.new.sample import Sample


@dataclass(frozen=True)
class SourceSample:
    """`source` are the entries of a pipeline's `source` that say where rows come from; `reasons`
    are comments on them."""

    source: Mapping[str, Any]
    sample: Sample
    reasons: tuple[str, ...] = ()
