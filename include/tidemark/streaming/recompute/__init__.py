"""What Spark computes again from bronze, compares with gold, and appends or publishes."""
