"""The one place where secrets are taken out of what is written: records, logs, traces, exports.

Known shapes of keys, and exact values handed in (from the environment, tokens made here). Works on text and on encoded
JSON, which includes every nested value. Cheap when there is nothing to find: a rule's pattern is tried only where one
of its literals occurs, and every pattern takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, AnyStr, Generic, NamedTuple, TypeVar, cast

import msgspec

from tertulia.policy.token_redaction import TokenRedactor, TokenSteps, TokenStreamRedactor, at_once
from tertulia.protocol.events import EventData
from tertulia.protocol.records import has_long_text

T = TypeVar("T")

MIN_SECRET = 8
"""Shorter values are words: taking them out would only spoil texts."""
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD")


def _word(prefix: str, rest: str) -> str:
    """The pattern of a key that begins where a word does.

    It looks back from behind the prefix: a pattern that begins with letters is found much faster than a condition.
    """
    # In JSON a line's end is an `n` behind a backslash, which is no part of the word.
    before = ("(?<![A-Za-z0-9_-]", r"(?<=\\[bfnrt]", r"(?<=\\u00[01][0-9a-f]")
    return prefix + f"(?:{'|'.join(f'{condition}{prefix})' for condition in before)})" + rest


_PEM_BODY = r"(?:[^\"\\-]|\\[nrt\\]|-(?!----)){0,65536}+"

_PEM = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----" + _PEM_BODY + r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----)?"
_QUOTING = r"(?:\\[nrt]|[\"'\\\s=:,>]){1,16}"


_LONG = 128 * 1024
"""Characters from which on a text is searched in steps."""


class _Family(NamedTuple):
    """Secrets that have a string in common, nearly always a single character: to look for one costs next to nothing."""

    common: str
    probe: str
    """Whether there is one of them, told by what stands around that string. Empty: always."""
    rules: tuple[tuple[str, str], ...]
    """What it is, and the pattern. What is kept of a match stands in its groups `before` and `after`."""


_FAMILIES = (
    _Family(
        "-",
        r"-(?:(?<=sk-)|(?<=glpat-)|(?<=pypi-)|(?<=xox[abeoprs]-)|----BEGIN )",
        (
            ("anthropic-key", _word("sk-ant-", r"[A-Za-z0-9_-]{16,}")),
            ("openai-key", _word("sk-", r"[A-Za-z0-9_-]{20,}")),
            ("gitlab-token", _word("glpat-", r"[A-Za-z0-9_-]{16,}")),
            ("pypi-token", _word("pypi-", r"[A-Za-z0-9_-]{32,}")),
            ("slack-token", _word("xox[abeoprs]-", r"[A-Za-z0-9-]{10,}")),
            # One that was cut off is a key all the same.
            ("private-key", _PEM),
        ),
    ),
    _Family(
        "_",
        r"_(?:(?<=gh[oprsu]_)|(?<=github_)pat_|(?<=[prs]k_)(?:live|test)_|(?<=npm_)|(?<=hf_)|(?i:access_?key))",
        (
            ("github-token", _word("gh[oprsu]_", r"[A-Za-z0-9]{30,}")),
            ("github-token", _word("github_pat_", r"[A-Za-z0-9_]{22,}")),
            ("stripe-key", _word("[prs]k_", r"(?:live|test)_[A-Za-z0-9]{16,}")),
            ("npm-token", _word("npm_", r"[A-Za-z0-9]{36,}")),
            ("huggingface-token", _word("hf_", r"[A-Za-z0-9]{30,}")),
            ("aws-secret", rf"(?P<before>(?i:secret_access_key){_QUOTING})[A-Za-z0-9/+=]{{40}}"),
        ),
    ),
    _Family(
        "I",
        r"I(?:(?<=AI)za|(?<=A[KS]I)A)",
        (
            ("google-key", _word("AIza", r"[A-Za-z0-9_-]{35}")),
            ("aws-key-id", _word("A[KS]IA", r"[A-Z0-9]{16}(?![A-Za-z0-9])")),
        ),
    ),
    _Family("J", r"J(?<=eyJ)", (("jwt", _word("eyJ", r"[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*")),)),
    _Family("@", "", (("password", r"(?P<before>://[^\s/:@\"'\\]{0,64}:)[^\s/@\"'\\]{1,256}(?P<after>@)"),)),
    # However a token is quoted: on a command line, in a list of arguments, as a value of JSON within JSON.
    _Family("oken", "", (("token", rf"(?P<before>oken{_QUOTING}[0-9a-fA-F]{{8}})[0-9a-fA-F]{{24,}}"),)),
    _Family(
        "K",
        r"K(?:(?<=TOK)EN|(?<=AccessK)ey)",
        (
            ("token", rf"(?P<before>OKEN{_QUOTING}[0-9a-fA-F]{{8}})[0-9a-fA-F]{{24,}}"),
            ("aws-secret", rf"(?P<before>AccessKey{_QUOTING})[A-Za-z0-9/+=]{{40}}"),
        ),
    ),
    _Family("earer ", "", (("bearer", r"(?P<before>earer +)[A-Za-z0-9._~+/=-]{16,}"),)),
    _Family("B", r"BEARER ", (("bearer", r"(?P<before>BEARER +)[A-Za-z0-9._~+/=-]{16,}"),)),
)


class _Rules(Generic[AnyStr]):
    """All rules for one kind of string."""

    __slots__ = ("_commons", "_exact", "_ready", "_spell")

    def __init__(self, spell: Callable[[str], AnyStr]) -> None:
        self._spell = spell
        self._commons = [spell(family.common) for family in _FAMILIES]
        self._ready: list[Callable[[AnyStr], AnyStr] | None] = [None] * len(_FAMILIES)
        """Compiled when first needed: most families never are, and all of them take milliseconds."""
        self._exact: dict[AnyStr, AnyStr] = {}

    def apply(self, text: AnyStr) -> AnyStr:
        """The text without secrets; the same object if it has none."""
        for value, instead in self._exact.items():
            if value in text:
                text = text.replace(value, instead)
        for at, common in enumerate(self._commons):
            if common in text:
                text = (self._ready[at] or self._prepare(at))(text)
        return text

    def _prepare(self, at: int) -> Callable[[AnyStr], AnyStr]:
        ready = self._ready[at] = _compiled(_FAMILIES[at], self._spell)
        return ready

    def add(self, value: AnyStr, instead: AnyStr) -> None:
        """The longest first: one value may be the beginning of another."""
        known = {**self._exact, value: instead}
        self._exact = {key: known[key] for key in sorted(known, key=len, reverse=True)}


def _compiled(family: _Family, spell: Callable[[str], AnyStr]) -> Callable[[AnyStr], AnyStr]:
    """Applies one family to a text that has its common string."""
    probe = re.compile(spell(family.probe)) if family.probe else None
    rules = [(re.compile(spell(rule)), _replacement(kind, rule, spell)) for kind, rule in family.rules]

    def apply(text: AnyStr) -> AnyStr:
        if len(text) > _LONG:
            if probe is None or occurs_in(probe, text):
                for pattern, instead in rules:
                    text = replace_all(pattern, instead, text)
        elif probe is None or probe.search(text):
            for pattern, instead in rules:
                text = pattern.sub(instead, text)
        return text

    return apply


def _replacement(kind: str, pattern: str, spell: Callable[[str], AnyStr]) -> Callable[[re.Match[AnyStr]], AnyStr]:
    """Not a template: `Match.expand` reads it again for every match."""
    mark = spell(f"[redacted:{kind}]")
    if "(?P<after>" in pattern:
        return lambda found: cast("AnyStr", found["before"]) + mark + cast("AnyStr", found["after"])
    if "(?P<before>" in pattern:
        return lambda found: cast("AnyStr", found["before"]) + mark
    return lambda found: mark


class Redactor:
    """Takes secrets out. `register` adds to them for good; session tokens come and go."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._tokens = TokenRedactor()
        self._text = _Rules[str](str)
        self._json = _Rules[bytes](str.encode)
        for secret in secrets:
            self.register(secret)

    def register(self, secret: str) -> None:
        """Add this value as a secret, raw and as JSON encodes it. One below the least length is ignored."""
        if len(secret) < MIN_SECRET:
            return
        spelled = [secret]
        for _ in range(2):
            # JSON within JSON: the arguments of a call are such a text.
            spelled.append(msgspec.json.encode(spelled[-1].encode("utf-8", "replace").decode())[1:-1].decode())
        for form in dict.fromkeys(spelled):
            self._text.add(form, "[redacted:secret]")
        for form in dict.fromkeys(spelled[1:]):
            self._json.add(form.encode(), b"[redacted:secret]")

    def register_token(self, token: str) -> None:
        """From now on show no more than the first eight characters of this session token."""
        self._tokens.add(token)
        # The log handlers of the process do not know the session.
        PROCESS_REDACTOR._tokens.add(token)

    def retire_token(self, token: str) -> None:
        """The token is not valid any more. It stays a secret for a while: texts with it may not be written yet."""
        self._tokens.retire(token)
        PROCESS_REDACTOR._tokens.retire(token)

    def without_tokens(self, data: T) -> T:
        """Data for clients, without session tokens; the same object where there are none.

        Data that cannot be encoded as JSON is left alone: it is sent to no client.
        """
        if not self._tokens:
            # Most sessions have no tokens: this saves a pass over every event.
            return data
        try:
            body = msgspec.json.encode(data)
        except (TypeError, ValueError, RecursionError):
            return data
        return at_once(self._without_tokens(data)) if self._tokens.may_be_in(body) else data

    async def without_tokens_in_steps(self, data: T) -> T:
        """The same for data with texts of any length; the loop is never held for long."""
        if not (self._tokens and has_long_text(data)):
            return self.without_tokens(data)
        # Imported here and below: most texts are short, and most sessions have no tokens.
        from tertulia.protocol.json_steps import StepwiseWork, run_to_end

        return await run_to_end(StepwiseWork(self._without_tokens(data)))

    async def text_without_tokens(self, text: str) -> str:
        """One text of any length without session tokens; the loop is never held for long."""
        from tertulia.protocol.json_steps import StepwiseWork, run_to_end

        return await run_to_end(StepwiseWork(self._tokens.text_steps(text))) if self._tokens else text

    def _without_tokens(self, data: T) -> TokenSteps[T]:
        try:
            plain = msgspec.to_builtins(data)
        except (TypeError, ValueError, RecursionError):
            return data
        cleaned = yield from self._tokens.data_steps(plain)
        return data if cleaned is plain else msgspec.convert(cleaned, type(data))

    def event_cleaner(self) -> Callable[[EventData], EventData]:
        """The same for the events of one session, in which texts come piece by piece."""
        streams = TokenStreamRedactor(self._tokens)
        return lambda data: self.without_tokens(streams.clean(data)) if self._tokens else data

    def text(self, text: str) -> str:
        """The text, with secrets replaced by a mark."""
        return self._text.apply(self._tokens.text(text))

    def json(self, body: bytes) -> bytes:
        """Encoded JSON without secrets; it is still JSON."""
        if self._tokens.may_be_in(body):
            body = self._json_without_tokens(body)
        redacted = self._json.apply(body)
        if redacted is body or _is_json(redacted):
            return redacted
        # A replacement began inside an escape. Then every string is looked at for itself.
        return msgspec.json.encode(self._walk(msgspec.json.decode(body), ""))

    def _json_without_tokens(self, body: bytes) -> bytes:
        from tertulia.protocol.json_steps import encode_long

        data = msgspec.json.decode(body)
        cleaned = at_once(self._tokens.data_steps(data))
        return body if cleaned is data else encode_long(cleaned)

    def _walk(self, value: Any, key: str) -> Any:
        match value:
            case str():
                # With its key in front: some secrets are known by their name only.
                return self.text(f"{key}={value}").removeprefix(f"{key}=")
            case list():
                return [self._walk(entry, key) for entry in cast("list[Any]", value)]
            case dict():
                return {self.text(k): self._walk(entry, k) for k, entry in cast("dict[str, Any]", value).items()}
            case _:
                return value


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """The values of variables whose names say that they are secret."""
    return [value for name, value in environment.items() if any(word in name.upper() for word in _SECRET_NAMES)]


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return True


PROCESS_REDACTOR = Redactor()
"""Knows the session tokens of all that runs in this process, and shapes of keys; for logs."""

WINDOW = 128 * 1024
"""Characters of one step. At the worst that is some ten milliseconds."""
OVERLAP = 16 * 1024
"""A match longer than this, where two steps meet, may be missed."""
_NEAR = 64
"""A match that ends so near to the end of a step may go on after it, or be none because of what follows."""


# A search in C lets no other thread run until it is done: a long text is searched in short steps.


def occurs_in(pattern: re.Pattern[AnyStr], text: AnyStr) -> bool:
    """Whether there is a match."""
    return next(_matches(pattern, text), None) is not None


def replace_all(pattern: re.Pattern[AnyStr], instead: Callable[[re.Match[AnyStr]], AnyStr], text: AnyStr) -> AnyStr:
    """As `pattern.sub(instead, text)`; the same object where there is no match."""
    pieces: list[AnyStr] = []
    done = 0
    for found in _matches(pattern, text):
        pieces += (text[done : found.start()], instead(found))
        done = found.end()
    if not pieces:
        return text
    pieces.append(text[done:])
    # All are of one kind, which a type checker cannot see.
    return cast("Any", text[:0]).join(pieces)


def _matches(pattern: re.Pattern[AnyStr], text: AnyStr) -> Iterator[re.Match[AnyStr]]:
    """As `pattern.finditer(text)`. No pattern here matches an empty text."""
    position, end = 0, len(text)
    while position < end:
        limit = min(position + WINDOW, end)
        step = pattern.finditer(text, position, limit)
        position = limit if limit == end else limit - OVERLAP
        for found in step:
            if limit < end and found.end() > limit - _NEAR:
                whole = pattern.match(text, found.start())
                position = found.start() + 1 if whole is None else whole.end()
                if whole is not None:
                    yield whole
                break
            yield found
            position = max(position, found.end())
