"""A run of a pipeline: its job, its steps in their order, and what each step does."""
