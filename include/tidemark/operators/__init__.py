"""Stateful operators, as far as they are known without Spark; a folder for each kind."""
