"""Hints for errors about an unknown name: which existing name was probably meant ("did you mean …?").

A table has the names that Codex, Claude Code and other programs use for the same thing; for any other name the nearest
in spelling is proposed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_MAX_NEAR = 200
_CAPITAL = re.compile(r"([a-z])([A-Z])")

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    # Settings and fields of conversations.
    "add_dirs": ("writable_roots",),
    "additional_directories": ("writable_roots",),
    "allowed_tools": ("enabled_tools", "mcp_tool_allowlist"),
    "append_system_prompt": ("user_instructions",),
    "approval": ("approval_policy",),
    "approval_mode": ("approval_policy", "approval"),
    "approvals": ("approval_policy",),
    "ask_for_approval": ("approval_policy",),
    "backends": ("executors",),
    "compact_threshold": ("limits",),
    "context_size": ("context_window",),
    "default_model": ("model",),
    "developer_instructions": ("user_instructions",),
    "disallowed_tools": ("disabled_tools",),
    "environment": ("env", "shell_environment"),
    "env": ("shell_environment",),
    "executor": ("backend", "executors"),
    "instructions": ("base_instructions",),
    "max_depth": ("limits",),
    "max_turns": ("limits",),
    "mcp": ("mcp_servers", "mcp_tool_allowlist"),
    "mcp_allowlist": ("mcp_tool_allowlist",),
    "mcpservers": ("mcp_servers",),
    "effort": ("reasoning_effort",),
    "max_tokens": ("max_output_tokens",),
    "model_name": ("model",),
    "model_reasoning_effort": ("reasoning_effort",),
    "network_access": ("network",),
    "permission_mode": ("approval_policy",),
    "permissions": ("approval_policy",),
    "prompt": ("base_instructions",),
    "provider": ("model",),
    "providers": ("model_providers",),
    "sandbox_mode": ("sandbox",),
    "sandbox_permissions": ("sandbox",),
    "sandbox_policy": ("sandbox",),
    "servers": ("mcp_servers",),
    "shell_environment_policy": ("shell_environment",),
    "storage": ("storage_policy",),
    "system": ("base_instructions",),
    "system_prompt": ("base_instructions",),
    "tool": ("functions", "tools"),
    "tools": ("functions",),
    "web_search": ("tools_web_search_request",),
    "working_directory": ("cwd",),
    "workdir": ("cwd",),
    # Keys of a model provider and of an MCP server.
    "address": ("base_url", "url"),
    "always_allow": ("approval",),
    "api": ("wire",),
    "api_base": ("base_url",),
    "api_key": ("env_key",),
    "api_key_env": ("env_key",),
    "api_key_env_var": ("env_key",),
    "api_type": ("wire",),
    "arguments": ("args",),
    "auto_approve": ("approval",),
    "bearer_token": ("bearer_token_env_var",),
    "cmd": ("command",),
    "directory": ("cwd",),
    "disabled": ("enabled",),
    "endpoint": ("base_url", "url"),
    "headers": ("http_headers",),
    "host": ("base_url", "url"),
    "include_tools": ("enabled_tools",),
    "exclude_tools": ("disabled_tools",),
    "key": ("env_key",),
    "model_context_window": ("context_window",),
    "num_ctx": ("context_window",),
    "server_url": ("url",),
    "startup_timeout": ("startup_timeout_sec",),
    "timeout": ("tool_timeout_sec", "stream_idle_timeout_ms", "tool_timeout_s"),
    "token": ("bearer_token_env_var", "env_key"),
    "tool_timeout": ("tool_timeout_sec",),
    "url": ("base_url",),
    "wire_api": ("wire",),
    # Words.
    "accept_edits": ("on-request",),
    "always": ("untrusted",),
    "anthropic": ("messages",),
    "ask": ("on-request",),
    "auto": ("on-request",),
    "auto_edit": ("on-request",),
    "bypass_permissions": ("never",),
    "chat_completions": ("chat",),
    "completions": ("chat",),
    "default": ("on-request",),
    "disabled_sandbox": ("danger-full-access",),
    "ephemeral": ("none",),
    "full_access": ("danger-full-access",),
    "full_auto": ("workspace-write", "never"),
    "off": ("danger-full-access", "none", "never"),
    "no": ("never", "none"),
    "none": ("danger-full-access", "never"),
    "openai": ("responses",),
    "plan": ("read-only",),
    "yolo": ("danger-full-access", "never"),
}
"""Another program's name for a thing, and our names for it; the first that exists in the context is proposed."""


def near_names(name: str, known: Iterable[str], most: int = 1, likeness: float = 0.6) -> list[str]:
    """The known names that are similar to this one, for an error text; none for a long name.

    Comparing takes time and memory by the length of the name, which a client or a model chose.
    """
    if len(name) > _MAX_NEAR:
        return []
    # Imported here: most runs refuse nothing.
    from difflib import get_close_matches

    return get_close_matches(name, list(known), most, likeness)


def likely_name(name: str, known: Iterable[str], synonyms: Mapping[str, tuple[str, ...]] = SYNONYMS) -> str | None:
    """The known name that was probably meant: one that differs in case or dashes only, a synonym, or a similar one."""
    if len(name) > _MAX_NEAR:
        return None
    by_form = {_plain(other): other for other in known}
    plain = _plain(name)
    for candidate in (plain, *map(_plain, synonyms.get(plain, ()))):
        if candidate in by_form:
            return by_form[candidate]
    near = near_names(plain, by_form)
    return by_form[near[0]] if near else None


def name_hint(name: str, names: Iterable[str], notes: Mapping[str, str] | None = None) -> str:
    """The end of an error about an unknown name: the name that was probably meant, or all existing names.

    Args:
        name: The unknown name.
        names: The existing names.
        notes: By a name of another program, what to do instead where no single name of ours corresponds to it.
    """
    if notes is not None and name in notes:
        return notes[name]
    names = list(names)
    likely = likely_name(name, names)
    if likely is not None:
        return f"did you mean {likely}?"
    return f"there are {', '.join(names)}" if len(names) != 1 else f"there is only {names[0]}"


def word_hint(word: object, words: Iterable[str]) -> str:
    """The end of an error that has listed all allowed words: the word that was probably meant, or an empty text."""
    likely = likely_name(word, words) if isinstance(word, str) else None
    return f"; did you mean {likely}?" if likely is not None else ""


def arguments_hint(program: str) -> str:
    """The end of an error about a program that was not found: if its name is a whole command line, how to write that.

    The arguments are not repeated: they may contain secrets.
    """
    words = program.split()
    return f'; put the arguments into args: command = "{words[0][:80]}", args = […]' if words[1:] else ""


def _plain(name: str) -> str:
    """`mcpServers`, `mcp-servers` and `MCP_SERVERS` as one form."""
    return _CAPITAL.sub(r"\1_\2", name).lower().replace("-", "_")
