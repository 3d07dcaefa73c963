"""What spark-submit starts: arguments in, one call, result written, exit code out."""
