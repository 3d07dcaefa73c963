"""State between runs, by the engine: compaction on demand, and reading what a query remembers."""
