"""Rows in SQLite: one file a session, its owner, its reader, and the index of all sessions."""
