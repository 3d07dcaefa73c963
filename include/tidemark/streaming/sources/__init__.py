"""The Spark half of each kind of source."""
