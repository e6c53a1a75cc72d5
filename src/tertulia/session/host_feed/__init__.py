"""Cards of all sessions that run, for clients that follow them. A host that no client follows does nothing for it."""
