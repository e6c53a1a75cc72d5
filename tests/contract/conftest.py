"""These tests were written from the public page, without the source, and use public surfaces only."""

from tests.guards import watch_sessions

__all__ = ["watch_sessions"]
