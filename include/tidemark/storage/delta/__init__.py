"""Delta outside Spark, by delta-rs: making, reading, appending to and fencing tables."""
