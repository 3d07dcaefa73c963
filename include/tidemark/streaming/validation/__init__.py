"""Validation where Spark is: by the job that publishes, and by a job of its own."""
