"""Delta outside Spark, by delta-rs: creating tables, publishing, results of runs."""
