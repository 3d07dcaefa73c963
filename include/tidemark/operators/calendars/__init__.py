"""Days, weeks, months, quarters and years of a time zone, as an operator."""
