"""What of a stateful operator is known without Spark; a folder for each kind."""
