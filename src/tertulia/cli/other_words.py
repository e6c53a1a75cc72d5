"""Verbs and options of other programs, and what to type instead: for refusals. Plain data and its lookup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tertulia.protocol.name_hints import likely_name

_UNCONFINED = "`-s danger-full-access -a never`"
_LATEST = "`tertulia resume --last`, or `tertulia exec resume --last PROMPT`"

OPTIONS: Mapping[str, str] = {
    "--allowed-tools": "`-c mcp_servers.NAME.enabled_tools=[…]`",
    "--allowedTools": "`-c mcp_servers.NAME.enabled_tools=[…]`",
    "--append-system-prompt": "a line in AGENTS.md, or `--instructions FILE|TEXT` for all of them",
    "--approval-mode": "`-a`",
    "--approval-policy": "`-a`",
    "--approve": "`-a never`",
    "--auto": "`-a never`",
    "--continue": _LATEST,
    "--cwd": "`-C`",
    "--dangerously-bypass-approvals-and-sandbox": _UNCONFINED,
    "--dangerously-skip-permissions": _UNCONFINED,
    "--directory": "`-C`",
    "--ephemeral": "`--storage none`",
    "--full-auto": "`-s workspace-write -a never`",
    "--local-provider": "`-m PROVIDER/MODEL`",
    "--mcp-config": "`tertulia mcp add`, or [mcp_servers.NAME] in config.toml",
    "--no-approval": "`-a never`",
    "--no-sandbox": "`-s danger-full-access`",
    "--oss": "`-m local`",
    "--output-format": "`--json`",
    "--permission-mode": "`-a`",
    "--print": "`tertulia exec PROMPT`",
    "--profile": "`--agent NAME`, set up as [agents.NAME], or `-c KEY=VALUE`",
    "--provider": "`-m PROVIDER/MODEL`",
    "--read-only": "`-s read-only`",
    "--resume": "`tertulia resume ID`",
    "--sandbox-mode": "`-s`",
    "--effort": "`-c reasoning_effort=LEVEL`",
    "--reasoning-effort": "`-c reasoning_effort=LEVEL`",
    "--search": "`-c tools_web_search_request=true`",
    "--system-prompt": "`--instructions FILE|TEXT`",
    "--workdir": "`-C`",
    "--yes": "`-a never`",
    "--yolo": _UNCONFINED,
    "-V": "`--version`",
    "-p": "`tertulia exec PROMPT`",
    "-v": "`--version`",
}

VERBS: Mapping[str, str] = {
    "ask": "`tertulia exec PROMPT`",
    "chat": "`tertulia` alone",
    "check": "`tertulia doctor`",
    "config": "`tertulia doctor`, which shows where each setting comes from",
    "continue": _LATEST,
    "e": "`tertulia exec PROMPT`",
    "fork": "`tertulia sessions fork ID`",
    "help": "`tertulia --help`",
    "history": "`tertulia sessions ls`",
    "list": "`tertulia sessions ls`",
    "ls": "`tertulia sessions ls`",
    "model": "`tertulia models ls`",
    "print": "`tertulia exec PROMPT`",
    "run": "`tertulia exec PROMPT`",
    "server": "`tertulia serve`",
    "settings": "`tertulia doctor`, which shows where each setting comes from",
    "start": "`tertulia` alone",
    "threads": "`tertulia sessions ls`",
    "version": "`tertulia --version`",
}

_WITHIN: Mapping[str, tuple[str, ...]] = {
    "close": ("destroy",),
    "delete": ("rm", "revoke", "destroy"),
    "get": ("show",),
    "info": ("show",),
    "install": ("pull",),
    "list": ("ls",),
    "message": ("send",),
    "new": ("create",),
    "open": ("create",),
    "remove": ("rm", "revoke", "destroy"),
    "rm": ("revoke", "destroy"),
    "view": ("show",),
}
"""Other names of the commands that several verbs have."""


def option_hint(option: str, known: Iterable[str]) -> str:
    """The end of the refusal of an option, or nothing."""
    name = option.partition("=")[0]
    return _hint(OPTIONS.get(name) or likely_name(name, known, {}))


def verb_hint(word: str, known: Iterable[str]) -> str:
    """The end of the refusal of a verb, or nothing. A word with a space in it was meant as a prompt."""
    if len(word.split()) > 1:
        return "; a PROMPT goes with `tertulia exec`"
    return _hint(VERBS.get(word.lower()) or likely_name(word, known, {}))


def command_hint(word: str, known: Iterable[str]) -> str:
    """The end of the refusal of a command of a verb, or nothing."""
    names = list(known)
    others = (other for other in _WITHIN.get(word.lower(), ()) if other in names)
    return _hint(next(others, None) or likely_name(word, names, {}))


def _hint(instead: str | None) -> str:
    return "" if instead is None else f"; did you mean {instead}?"
