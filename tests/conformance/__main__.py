"""`make conformance`: both eras, with their counts."""

from __future__ import annotations

import sys

from tests.conformance.suite import ERAS, EXPECTED, run, why_not

if reason := why_not():
    sys.exit(reason)
outcomes = [run(era) for era in ERAS]
sys.stdout.write("".join(f"{outcome}\n" for outcome in outcomes))
sys.stdout.write(f"Why what fails is expected to: {EXPECTED}\n")
sys.exit(any(outcome.surprises for outcome in outcomes))
