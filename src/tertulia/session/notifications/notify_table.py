"""The setting `notify`: which program or address is told, and of what.

A list is a program as Codex has it: the notification is its last argument, in the form of Codex. The program of a table
reads the notification from standard input, where no other user of the machine can see it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast, get_args
from urllib.parse import urlsplit

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.policy.shell_environment import check_variable_name
from tertulia.protocol.name_hints import name_hint

Occasion = Literal["complete", "failure", "approval"]
OCCASIONS: tuple[Occasion, ...] = get_args(Occasion)
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
MAX_TIMEOUT_S = 60.0


class NotifyTable(msgspec.Struct, frozen=True, kw_only=True):
    """Who is told, and of what."""

    command: tuple[str, ...] = ()
    """A program and its arguments; empty: none."""
    as_codex: bool = False
    """Whether the notification is the last argument, in the form of Codex; otherwise it is standard input."""
    url: str | None = None
    """An address that gets the notification by POST; https, or http on this machine."""
    bearer_token_env_var: str | None = None
    """The variable that has the token for it."""
    on: tuple[Occasion, ...] = OCCASIONS
    content: bool = True
    """Whether texts are told too, where every conversation is stored in full."""
    timeout_s: float = 10.0
    """How long the program or the address may take for one notification."""

    def __repr__(self) -> str:
        # Arguments and addresses may hold secrets.
        return f"NotifyTable(command=<{len(self.command)}>, url={'<set>' if self.url else None}, on={self.on})"


def notify_from_wire(value: object) -> NotifyTable:
    """Parse the setting where it is set. InvalidParams names the key and shows no value of it."""
    if isinstance(value, Mapping):
        return _from_table(cast("Mapping[str, Any]", value))
    return NotifyTable(command=_words("notify", value), as_codex=True)


def _from_table(table: Mapping[str, Any]) -> NotifyTable:
    known = tuple(name for name in NotifyTable.__struct_fields__ if name != "as_codex")
    for name in table:
        if name not in known:
            raise InvalidParamsError(f"notify: there is no setting {str(name)[:64]!r}; {name_hint(str(name), known)}")
    token, url = table.get("bearer_token_env_var"), table.get("url")
    parsed = NotifyTable(
        command=_words("notify.command", table.get("command", ())),
        url=None if url is None else _address(url),
        bearer_token_env_var=None if token is None else check_variable_name(str(token), "notify.bearer_token_env_var"),
        on=_occasions(table.get("on", OCCASIONS)),
        content=_switch(table.get("content", True)),
        timeout_s=_seconds(table.get("timeout_s", 10.0)),
    )
    if not parsed.command and parsed.url is None:
        raise InvalidParamsError(
            "notify needs `command`, a program with its arguments, or `url`, an address to post to"
        )
    if parsed.bearer_token_env_var is not None and parsed.url is None:
        raise InvalidParamsError("notify.bearer_token_env_var is for an address: set notify.url too, or leave it out")
    return parsed


def _words(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        words = tuple(cast("Sequence[object]", value))
        if words[:1] != ("",) and all(isinstance(word, str) and "\0" not in word for word in words):
            return cast("tuple[str, ...]", words)
    form = ' or a table with "command" or "url"' if name == "notify" else ""
    raise InvalidParamsError(
        f'{name} must be a list of strings, a program and its arguments, such as ["notify-send", "Tertulia"]{form}'
    )


def _occasions(value: object) -> tuple[Occasion, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        names = tuple(cast("Sequence[object]", value))
        if names and all(name in OCCASIONS for name in names):
            return tuple(occasion for occasion in OCCASIONS if occasion in names)
    raise InvalidParamsError(f"notify.on must be a list of some of {', '.join(OCCASIONS)}")


def _switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise InvalidParamsError("notify.content must be true or false")


def _seconds(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= MAX_TIMEOUT_S:
        return float(value)
    raise InvalidParamsError(f"notify.timeout_s must be a number of seconds up to {MAX_TIMEOUT_S:g}")


def _address(value: object) -> str:
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
        host = (parts.hostname or "") if parts is not None else ""
        is_usable = parts is not None and bool(host) and (parts.port is None or parts.port > 0)
    except ValueError:
        parts, host, is_usable = None, "", False
    if parts is None or not is_usable or parts.scheme not in ("https", "http"):
        raise InvalidParamsError("notify.url must be an address such as https://hooks.example/tertulia")
    if parts.scheme == "http" and host not in _LOOPBACK:
        raise InvalidParamsError("notify.url must begin with https:// (http:// only to this machine, 127.0.0.1)")
    if parts.username or parts.password:
        raise InvalidParamsError(
            "notify.url must not hold a password; put it in a variable and name it in notify.bearer_token_env_var"
        )
    return str(value)
