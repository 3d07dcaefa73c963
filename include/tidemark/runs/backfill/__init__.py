"""What audits and backfills compare, decide and tell."""
