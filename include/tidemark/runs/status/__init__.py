"""How a pipeline stands: its recent runs, its tables, and what is to be done about it."""
