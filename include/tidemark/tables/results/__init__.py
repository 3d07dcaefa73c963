"""What runs say of themselves: result files and `ops/runs`."""
