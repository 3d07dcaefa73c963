"""Files as a source: which are unread, what of a batch is read and was committed."""
