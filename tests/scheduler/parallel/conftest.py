"""Every test here is watched for what it leaves behind."""

from tests.guards import watch_sessions

__all__ = ["watch_sessions"]
