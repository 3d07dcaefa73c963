"""The Spark half of each kind of operator: its plan, and computing again from the inputs."""
