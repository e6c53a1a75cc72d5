"""Token counts as providers report them."""

from __future__ import annotations

from tertulia.protocol.mapping_struct import MappingStruct


class Usage(MappingStruct, frozen=True, gc=False):
    """The tokens of one request, or the sum of several."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0
    total_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_output_tokens + other.reasoning_output_tokens,
            self.total_tokens + other.total_tokens,
        )


NO_USAGE = Usage()
