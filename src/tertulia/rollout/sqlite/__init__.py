"""One SQLite file a session, its index, its owner, its reader."""
