"""Read and judge checkpoints: pure Python, no JVM."""
