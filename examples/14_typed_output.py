"""An answer as an object. The model is given the type's schema, and the errors of an answer that does not fit."""

import asyncio
from dataclasses import dataclass
from typing import Literal

import tertulia
from tertulia.testing import ScriptedModel


@dataclass
class Finding:
    file: str
    line: int
    severity: Literal["low", "high"] = "low"


@dataclass
class Review:
    summary: str
    findings: list[Finding]


GOOD = '{"summary": "One bug.", "findings": [{"file": "app.py", "line": 3, "severity": "high"}]}'
WRONG = '{"summary": "One bug.", "findings": [{"file": "app.py", "line": "three", "severity": "fatal"}]}'


async def main() -> None:
    # A real model answers likewise: as JSON, now and then with a mistake.
    model = ScriptedModel([WRONG, GOOD, WRONG, WRONG])
    async with tertulia.Session.start(tertulia.Settings(model=model)) as session:
        reply = await session.root.message("Review app.py", output_type=Review)
        worst = reply.output.findings[0]  # a Finding, and type checkers know it
        print(f"{reply.output.summary} {worst.file}:{worst.line} ({worst.severity})")
        assert worst == Finding("app.py", 3, "high")
        assert len(model.requests) == 2  # the first answer was repaired by the model, which was told the errors

        failed = await session.root.message("Review it again", output_type=Review)
        try:
            failed.raise_for_status()
        except tertulia.errors.InvalidOutputError as error:
            print(*error.errors, sep="\n")
        assert failed.error
        assert failed.error.errors[0] == "$.findings[0].line: expected integer, got string"


asyncio.run(main())

# Without an event loop of your own:
answer = tertulia.run("Review app.py", tertulia.Settings(model=ScriptedModel([GOOD])), output_type=Review)
assert answer.output.findings[0].line == 3
