"""One run without Spark: its steps that need none, what it leaves, and how a pipeline stands."""
