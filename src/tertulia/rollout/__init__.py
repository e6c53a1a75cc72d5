"""The records of a session: the interface of a store, stores in SQLite files and in memory, and the recorder.

What is recorded follows the storage policy. How a session is resumed from its records is in `session`.
"""
