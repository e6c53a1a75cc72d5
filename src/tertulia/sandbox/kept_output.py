"""What of an endless output is kept: its beginning, its end, and how much there was."""

from __future__ import annotations

from tertulia.sandbox.runner import Output


class KeptOutput:
    """Takes any number of bytes and never holds more than one and a half times its bound."""

    __slots__ = ("_head", "_head_room", "_tail", "_tail_room", "_total")

    def __init__(self, bound: int) -> None:
        self._tail_room = bound // 2
        self._head_room = bound - self._tail_room
        self._head, self._tail, self._total = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        """One more piece."""
        self._total += len(data)
        if len(self._head) < self._head_room:
            room = self._head_room - len(self._head)
            self._head += data[:room]
            data = data[room:]
        # Cut only when it has doubled, so that small pieces do not each move all of it.
        self._tail += data[-self._tail_room :] if self._tail_room else b""
        if len(self._tail) > 2 * self._tail_room:
            del self._tail[: -self._tail_room]

    def output(self) -> Output:
        """As it stands."""
        tail = bytes(self._tail[-self._tail_room :]) if self._tail_room else b""
        return Output(bytes(self._head), tail, self._total)

    def take(self) -> Output:
        """As it stands, and begin anew."""
        taken = self.output()
        self._head.clear()
        self._tail.clear()
        self._total = 0
        return taken
