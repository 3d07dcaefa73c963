"""A run's steps that need no Spark, and a run that needs none at all."""
