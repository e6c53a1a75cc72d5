"""An MCP server of ours on standard input and output. Nobody else writes there meanwhile."""

from __future__ import annotations

import asyncio

from tertulia.mcp.serve.endpoint import McpEndpoint
from tertulia.server.mcp_lines import serve_lines
from tertulia.server.pipes import FileSink, PipeSink, abandoned, chunks, open_sink
from tertulia.server.standard_streams import claimed


async def serve_standard_streams(broker: McpEndpoint, stop: asyncio.Event) -> None:
    """Until the input ends, the client is gone, or `stop` is set."""
    with claimed() as (source, target):
        sink = await open_sink(target, stop.set)
        try:
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(serve_lines(broker, chunks(source), _Sink(sink), strict=True))
                stopping = group.create_task(stop.wait())
                left = group.create_task(abandoned(source, sink))
                await asyncio.wait((serving, stopping, left), return_when=asyncio.FIRST_COMPLETED)
                for task in (serving, stopping, left):
                    task.cancel()
        finally:
            await sink.close(1.0)


class _Sink:
    def __init__(self, sink: PipeSink | FileSink) -> None:
        self._sink = sink

    async def send(self, line: bytes) -> None:
        self._sink.send([line.removesuffix(b"\n")])
        await self._sink.drain()
