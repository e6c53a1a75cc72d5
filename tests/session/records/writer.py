"""A process of its own that writes a session, message by message: `python writer.py`, one line of input for each."""

from __future__ import annotations

import asyncio
import sys

from tertulia import Session, Settings
from tertulia.testing import ScriptedModel, say


def tell(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def main() -> None:
    async with Session.start(Settings(model=ScriptedModel([say("an answer", repeat=True)]))) as session:
        tell(session.id)
        while await asyncio.to_thread(sys.stdin.readline):
            await session.root.message("a question")
            tell(session.activity.last_seq)


if __name__ == "__main__":
    asyncio.run(main())
