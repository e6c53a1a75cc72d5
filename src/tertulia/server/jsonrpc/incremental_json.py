"""A long JSON text, read in short steps: the same values and refusals as `strict_json.decode` gives for a short one."""

from __future__ import annotations

from typing import Any

from tertulia.protocol.json_steps import StepwiseWork, read, run_to_end
from tertulia.server.jsonrpc.strict_json import decode, decoder

AT_ONCE_BYTES = 128 * 1024
"""A longer text is read in steps."""


async def decode_json(data: bytes | bytearray) -> Any:
    """The one value in these bytes, whatever their length. ParseError: see `strict_json.decode`.

    The loop is never held for long, and a cancellation ends it.
    """
    return decode(data) if len(data) <= AT_ONCE_BYTES else await run_to_end(IncrementalDecoder(data))


class IncrementalDecoder(StepwiseWork[Any]):
    """The reading of one text. `step` until it is done; then there is the `value`."""

    def __init__(self, data: bytes | bytearray) -> None:
        super().__init__(read(data, decoder))
