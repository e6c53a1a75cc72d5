"""A TLS connection between a command and a host: passed on as it is, if every server name in it is that of the host."""

from __future__ import annotations

import asyncio

from tertulia.policy.hosts import HostName
from tertulia.sandbox.proxy.addresses import Streams
from tertulia.sandbox.proxy.gate import HostRefusedError
from tertulia.sandbox.proxy.relay import CHUNK, Meter, copy
from tertulia.sandbox.proxy.tls_hello import (
    MAX_HELLO,
    UNRECOGNISED_NAME,
    asks_again,
    name_problem,
    read_client_hello,
    second_hello_at,
)


class TlsTunnel:
    """Both directions of one connection. HostRefused where a hello is for another host: nothing of it is sent."""

    def __init__(self, client: Streams, upstream: Streams, host: HostName, meter: Meter, head_s: float) -> None:
        """`head_s`: how long the client takes at most to say a hello."""
        (self._reader, self._writer), (self._answers, self._sink) = client, upstream
        self._host, self._meter, self._head_s = host, meter, head_s

    async def send_hello(self, data: bytes, before: bytes = b"") -> bytes:
        """Send a hello on, of which this much was read, and what came before it. What was read after it is returned."""
        problem, end = None, 0
        try:
            async with asyncio.timeout(self._head_s):
                while (hello := read_client_hello(data)) is None:
                    more = await self._reader.read(CHUNK)
                    data += more
                    if not more or len(data) > MAX_HELLO:
                        raise ValueError("it does not end")
            problem, end = name_problem(hello, self._host.name, is_address=self._host.address is not None), hello.end
        except ValueError as error:
            problem = str(error)
        except TimeoutError:
            problem = "its first message took too long"
        if problem is not None:
            self._writer.write(UNRECOGNISED_NAME)
            raise HostRefusedError(f"the TLS connection to {self._host.name} was refused: {problem}")
        self._send(before + data[:end])
        return data[end:]

    async def relay(self, after_hello: bytes) -> None:
        """Pass on what follows, both ways. Where the server has the hello said again, the second one counts as well."""
        says_again = asyncio.get_running_loop().create_future()
        await asyncio.gather(self._send_after_answer(after_hello, says_again), self._pass_answers(says_again))

    async def _pass_answers(self, says_again: asyncio.Future[bool]) -> None:
        data, again = b"", None
        try:
            while again is None and (more := await self._answers.read(CHUNK)):
                data += more
                again = asks_again(data)
        finally:
            # Cancelled with the other direction, which waited for it, where both end.
            if not says_again.done():
                says_again.set_result(bool(again))
        self._meter.add(len(data))
        self._writer.write(data)
        await copy(self._answers, self._writer, self._meter)

    async def _send_after_answer(self, data: bytes, says_again: asyncio.Future[bool]) -> None:
        # What came with the hello may be a second one: it waits for the answer like all that follows.
        data = data or await self._reader.read(CHUNK)
        if data and await says_again:
            await self._send_second_hello(data)
        else:
            self._send(data)
        await copy(self._reader, self._sink, self._meter)

    async def _send_second_hello(self, data: bytes) -> None:
        more = data
        async with asyncio.timeout(self._head_s):
            while (at := second_hello_at(data)) is None and more and len(data) <= MAX_HELLO:
                more = await self._reader.read(CHUNK)
                data += more
        # A client that has gone instead has nothing that is to be sent on.
        if more:
            self._send(await self.send_hello(data[at:], data[:at]))

    def _send(self, data: bytes) -> None:
        self._meter.add(len(data))
        self._sink.write(data)
