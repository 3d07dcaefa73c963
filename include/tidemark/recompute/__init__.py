"""Tables computed again from bronze: an audit, a backfill, a migration, a rewind."""
