"""Lines in, accepted and rejected rows out: the one place that knows JSON. No Spark here."""
