"""What jobs say of themselves: the results that they write to files."""
