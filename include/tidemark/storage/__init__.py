"""Files and locks below the root, local or remote, on one set of storage options."""
