"""Runs a command of Tertulia beside the screen and returns what it prints."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from contextlib import suppress

from tertulia.errors import InternalError

_LONGEST_S = 60.0
_LAST_S = 2.0


async def program_output(*words: str) -> str:
    """What `tertulia` prints for these words, without colours, in the directory of this process.

    Raises:
        InternalError: It did not end in time.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tertulia", *words, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), _LONGEST_S)
    except TimeoutError:
        raise InternalError(f"`tertulia {' '.join(words)}` did not end within {_LONGEST_S:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            # Its end is waited for, so that its pipe is closed; not for what it may have started.
            with suppress(TimeoutError):
                await asyncio.wait_for(process.communicate(), _LAST_S)
    return output.decode(errors="replace").rstrip()
