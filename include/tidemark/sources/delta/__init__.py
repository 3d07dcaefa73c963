"""Delta tables of somebody else as a source."""
