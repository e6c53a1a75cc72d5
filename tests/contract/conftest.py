"""These tests were written from the public page, without the source, and only reach in through the front door."""

from tests.guards import watch_sessions

__all__ = ["watch_sessions"]
