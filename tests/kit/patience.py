"""How long tests wait. No test is about a machine's speed: these only end what hangs."""

from __future__ import annotations

# For the end of a process: the slowest machine with other work beside is a few times slower.
HUNG_SECONDS = 1_800
# For something of which nothing can be seen until it is there.
PATIENCE_SECONDS = 300
