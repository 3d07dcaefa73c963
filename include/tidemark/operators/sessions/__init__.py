"""Session windows: a key's rows that hang together, found in bronze without Spark."""
