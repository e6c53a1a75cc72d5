"""What the conformance suite drives: our connection to the address in the last argument, and every tool called once.

Nothing of the SDK is used but through `tertulia.mcp.client.connection`. Exits with 1 when the server cannot be reached.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys


def main() -> None:
    scenario, logins = os.environ.get("MCP_CONFORMANCE_SCENARIO", ""), os.environ.get("CONFORMANCE_LOGINS")
    if scenario.startswith("auth/") and logins is not None and scenario not in logins.split():
        # Before anything is imported: these are most of the suite.
        sys.exit("not among the logins of this run")
    # One after the other: the suite starts them all in the same moment, and some of what it asks has a deadline.
    with open(__file__, "rb") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        from tertulia.errors import McpError
        from tests.conformance.calls import use_all

        try:
            asyncio.run(use_all(sys.argv[-1]))
        except McpError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
