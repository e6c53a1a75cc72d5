"""Sessions for clients that were written for `codex app-server`."""
