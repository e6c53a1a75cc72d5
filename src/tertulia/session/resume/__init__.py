"""Stored sessions: read back, rebuilt, closed where they were open, forked, verified, swept."""
