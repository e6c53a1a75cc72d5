"""`make conformance`: we as a client and as a server, both eras, with their counts."""

from __future__ import annotations

import sys

from tests.conformance.server_suite import run_server
from tests.conformance.suite import ERAS, EXPECTED, run, why_not

if reason := why_not():
    sys.exit(reason)
outcomes = [drive(era) for drive in (run, run_server) for era in ERAS]
sys.stdout.write("".join(f"{outcome}\n" for outcome in outcomes))
sys.stdout.write(f"Why what fails is expected to: {EXPECTED.parent}/expected*.yml\n")
sys.exit(any(outcome.surprises for outcome in outcomes))
