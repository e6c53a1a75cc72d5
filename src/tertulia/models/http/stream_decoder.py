"""Decodes an answer as it comes: what the decoders of the three APIs share."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping
from io import StringIO
from math import isfinite
from typing import Any, ClassVar, TypeVar, cast

import msgspec

from tertulia.models.http.provider_error import (
    ProviderAddress,
    ProviderAttemptError,
    malformed_response,
    reported_failure,
)
from tertulia.models.wire import AnswerPiece
from tertulia.protocol.ids import ItemId, new_item_id
from tertulia.protocol.inputs import MAX_TEXT_BYTES
from tertulia.protocol.items import Usage

EMPTY_RAW = msgspec.Raw(b"")
"""Stands for a field that was not sent."""

_MOST = 1 << 53
"""No request has more tokens, and larger numbers do not pass through JSON everywhere."""

_WIDE = re.compile("[\U00010000-\U0010ffff]")
_WIDEST = 4
_ITEM_SIZE = 1_000
_PART_CHARACTERS = 1024 * 1024
"""Characters of one part of a long text: large enough that each part is a memory block of its own, which is freed."""
_MAX_LOOSE = 256 * 1024
"""A longer event that is not valid JSON is not repaired: it would take too long."""

T = TypeVar("T")


class _Kind(msgspec.Struct, gc=False):
    type: str = ""


_kind = msgspec.json.Decoder(_Kind)


class StreamDecoder(ABC):
    """Understands one answer, event by event; there is one for each attempt. Raises only ProviderAttemptError."""

    __slots__ = ("_dialect", "_place", "_room", "warnings", "whole")

    def __init__(self, place: ProviderAddress, dialect: str, limits: AnswerLimits | None = None) -> None:
        self.whole = False
        """Whether the last event of the answer has come."""
        self.warnings: list[str] = []
        """What of the answer could not be kept, in words fit to be shown. Complete after `end`."""
        self._place = place
        self._dialect = dialect
        self._room = AnswerBudget(place, limits)

    @property
    def characters(self) -> int:
        """How many characters of the answer have come."""
        return self._room.characters

    def _keep_opaque(self, opaque: str, name: str) -> str | None:
        """What the provider wants to have back, whole; None, and a warning, where it is too much to be kept."""
        most = self._room.limits.opaque
        if len(opaque) <= most:
            return opaque
        self.warnings.append(
            f"{name} of {self._place.provider} has more than {most:,} characters; it is not kept and not sent back"
        )
        return None

    @abstractmethod
    def take(self, data: bytes | bytearray) -> Iterable[AnswerPiece]:
        """What one event says. Never how the answer ends."""

    @abstractmethod
    def take_whole(self, data: bytes | bytearray) -> Iterable[AnswerPiece]:
        """What an answer says that came as one JSON value, from a server that does not stream."""

    @abstractmethod
    def end(self) -> Iterable[AnswerPiece]:
        """The stream is over: what is left to say, `AnswerEnd` last."""


class TypedEventDecoder(StreamDecoder):
    """A decoder for an API whose events name their type. One of a type that is not known is skipped."""

    __slots__ = ()
    _event: ClassVar[msgspec.json.Decoder[Any]]
    """Decodes an event, which has a `type`."""
    _acts: ClassVar[Mapping[str, Callable[..., Iterable[AnswerPiece]]]]
    """By type, the method that takes such an event."""

    def take(self, data: bytes | bytearray) -> Iterable[AnswerPiece]:
        """What one event says, by its type."""
        event = parse_known(self._event, data, self._place, self._acts)
        if event is None:
            return ()
        if event.type == "error":
            raise reported_failure(self._place, data)
        act = self._acts.get(event.type)
        return () if act is None else act(self, event)


class AnswerLimits(msgspec.Struct, frozen=True):
    """The most characters of an answer and of a call's arguments."""

    answer: int = MAX_TEXT_BYTES
    """In one answer, all together."""
    argument: int = 2_000_000
    """As arguments of one tool call."""
    opaque: int = 1_000_000
    """As what it wants to have back with one item; more is left out, with a warning."""


class AnswerBudget:
    """Counts what arrived against the limits: an answer that never ends must not fill the memory."""

    __slots__ = ("_announced", "_is_narrow", "_left", "_place", "_width", "characters", "limits")

    def __init__(self, place: ProviderAddress, limits: AnswerLimits | None = None) -> None:
        self.limits = limits or AnswerLimits()
        self.characters = 0
        """Characters of the answer that have come: where this does not grow there is no progress."""
        self._left = self._announced = self.limits.answer
        self._is_narrow = self.limits.answer <= MAX_TEXT_BYTES
        """Whether all characters so far take a byte each, so that the limit of the answer is the only one."""
        self._width = 1
        """Bytes that a character takes in memory: as many as the widest of them needs."""
        self._place = place

    def take(self, text: str) -> str:
        """The text, for which there was room."""
        size = len(text)
        self.characters += size
        self._left -= size
        if self._left < 0:
            raise self._too_long()
        if self._is_narrow and text.isascii():
            # The usual piece: one byte for each character, so no limit on bytes applies.
            return text
        self._is_narrow = False
        if self._width < _WIDEST and not text.isascii():
            self._width = _WIDEST if _WIDE.search(text) else 2
        if (self.limits.answer - self._left) * self._width > MAX_TEXT_BYTES:
            raise ProviderAttemptError(
                f"the answer of {self._place.provider} takes more than {MAX_TEXT_BYTES:,} bytes of memory: "
                f"its longest characters take {self._width} each"
            )
        return text

    def announce(self, text: str) -> int:
        """Count a piece that comes again as part of a whole, and is not kept; returns its length."""
        self.characters += len(text)
        self._announced -= len(text)
        if self._announced < 0:
            raise self._too_long()
        return len(text)

    def check_argument(self, size: int) -> None:
        """ProviderAttemptError where the arguments of one call have more characters than they may have."""
        if size > self.limits.argument:
            raise ProviderAttemptError(
                f"{self._place.provider} wrote a tool call with more than {self.limits.argument:,} characters of "
                "arguments (max_argument_characters)"
            )

    def item(self) -> ItemId:
        """The id of an item, for which there was room; even an empty one takes some."""
        self._use(_ITEM_SIZE)
        return new_item_id()

    def _use(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise self._too_long()

    def _too_long(self) -> ProviderAttemptError:
        limit = f"{self.limits.answer:,} characters (max_answer_characters)"
        return ProviderAttemptError(f"the answer of {self._place.provider} is longer than {limit}")


class Draft:
    """A text while it comes, under the id that its item will have."""

    __slots__ = ("_parts", "_recent", "_room", "item_id")

    def __init__(self, room: AnswerBudget) -> None:
        self.item_id = room.item()
        self._room = room
        self._parts: list[str] = []
        # Not a list of pieces: an object takes fifty times the memory of a word, and even an empty piece takes some.
        self._recent: StringIO | None = None

    def add(self, text: str) -> None:
        """Append one piece of the text."""
        self._room.take(text)
        if len(text) >= _PART_CHARACTERS:
            self._put_recent()
            self._parts.append(text)
            return
        if self._recent is None:
            self._recent = StringIO()
        self._recent.write(text)
        if self._recent.tell() >= _PART_CHARACTERS:
            self._put_recent()

    @property
    def text(self) -> str:
        """All of it so far."""
        self._put_recent()
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    def _put_recent(self) -> None:
        if self._recent is not None:
            self._parts.append(self._recent.getvalue())
            self._recent = None


class ArgumentDraft(Draft):
    """The arguments of one tool call while they come."""

    __slots__ = ("_size",)

    def __init__(self, room: AnswerBudget) -> None:
        super().__init__(room)
        self._size = 0

    def add(self, text: str) -> None:
        """Append one piece; ProviderAttemptError as soon as it is too much."""
        self._size += len(text)
        self._room.check_argument(self._size)
        super().add(text)


def parse(decoder: msgspec.json.Decoder[T], data: bytes | bytearray | msgspec.Raw, place: ProviderAddress) -> T:
    """An event, or a part of one, as its type; ProviderAttemptError when it is none.

    Half of a surrogate pair, which some servers cut emoji into, becomes a question mark, and so do bytes that are
    not UTF-8: an answer is not lost for one character.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise malformed_response(place, "an event of an unknown form") from None
    except (ValueError, RecursionError):
        return _reparse(decoder, data, place)


def _reparse(decoder: msgspec.json.Decoder[T], data: bytes | bytearray | msgspec.Raw, place: ProviderAddress) -> T:
    try:
        return _parse(decoder, data)
    except msgspec.ValidationError:
        raise malformed_response(place, "an event of an unknown form") from None
    except (ValueError, RecursionError):
        raise malformed_response(place, "an event that is not JSON") from None


def parse_known(
    decoder: msgspec.json.Decoder[T], data: bytes | bytearray, place: ProviderAddress, types: Container[str]
) -> T | None:
    """The same for an event that names its type. One of a type not in `types` is None, whatever its form."""
    try:
        return _parse(decoder, data)
    except (ValueError, RecursionError):
        if parse(_kind, data, place).type in types:
            raise malformed_response(place, "an event of an unknown form") from None
        return None


def _parse(decoder: msgspec.json.Decoder[T], data: bytes | bytearray | msgspec.Raw) -> T:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise
    except ValueError:
        if len(data) > _MAX_LOOSE:
            raise
        loose = json.loads(bytes(data).decode("utf-8", "replace"))
        return decoder.decode(json.dumps(loose, ensure_ascii=False).encode("utf-8", "replace"))


def read_loosely(data: msgspec.Raw) -> object:
    """Plain values; None for what is missing or broken. For fields whose errors must not lose an answer."""
    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return None


def object_fields(value: object) -> dict[str, object]:
    """The members of an object; none of anything else."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def count_at(counts: object, *path: str) -> int:
    """The number at the end of the path; 0 where there is none, or none that could be one."""
    for name in path:
        counts = object_fields(counts).get(name)
    # An integer is finite, and may be too large for math.isfinite.
    finite = isinstance(counts, int) or (isinstance(counts, float) and isfinite(counts))
    return min(max(int(cast("float", counts)), 0), _MOST) if finite else 0


def usage_of_parts(counts: object, input_name: str, output_name: str) -> Usage:
    """The usage as the APIs of OpenAI report it: under their names for input and output, with details of each."""
    return make_usage(
        count_at(counts, input_name),
        count_at(counts, f"{input_name}_details", "cached_tokens"),
        count_at(counts, output_name),
        count_at(counts, f"{output_name}_details", "reasoning_tokens"),
        count_at(counts, "total_tokens"),
    )


def make_usage(input_tokens: int, cached: int, output_tokens: int, reasoning: int, total: int = 0) -> Usage:
    """Counts that add up, whatever the provider's total is."""
    return Usage(input_tokens, cached, output_tokens, reasoning, max(total, input_tokens + output_tokens))
