"""A place to run programs in, for the tests that need one."""

from tests.cli.conftest import shell

__all__ = ["shell"]
