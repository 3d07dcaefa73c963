"""What of a source is known without Spark; a folder for each kind."""
