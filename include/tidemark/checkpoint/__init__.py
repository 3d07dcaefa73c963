"""Read checkpoints: pure Python, no JVM."""
