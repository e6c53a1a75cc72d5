"""Tertulia in the place of `codex app-server`, for clients that were written for that."""
