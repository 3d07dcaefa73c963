"""A run of a pipeline: its steps in their order, and what each step does in Spark."""
