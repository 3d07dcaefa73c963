"""Streaming on a schedule, with every row accounted for: Airflow, Spark and Delta."""

__version__ = "0.1.0"
