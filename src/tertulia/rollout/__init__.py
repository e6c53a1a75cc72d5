"""The records of a session on disk, as the storage policy allows."""
