"""A place to run programs in, for the tests that need one."""

from tests.apps.conftest import shell

__all__ = ["shell"]
