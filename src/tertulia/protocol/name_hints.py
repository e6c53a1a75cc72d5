"""The end of a refusal of a name or a word that does not exist: which of ours was probably meant.

Known by a table are the names that Codex, Claude Code and other programs have for the same thing; of all others the
nearest in spelling counts.
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
"""Another program's name of a thing, and our names of it; the first that exists where it was written is meant."""


def near_names(name: str, known: Iterable[str], most: int = 1, likeness: float = 0.6) -> list[str]:
    """The names that are nearly this one, for a refusal.

    A long one is no slip of the pen: to compare it takes time and memory by a length that a client or a model chose.
    """
    if len(name) > _MAX_NEAR:
        return []
    # Imported here: most runs refuse nothing.
    from difflib import get_close_matches

    return get_close_matches(name, list(known), most, likeness)


def likely_name(name: str, known: Iterable[str], synonyms: Mapping[str, tuple[str, ...]] = SYNONYMS) -> str | None:
    """Of these the one that was probably meant: spelled the same but for case and dashes, a synonym, or near."""
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
    """The end of a refusal of a name that does not exist: the one that was probably meant, or all that there are.

    Args:
        name: What was written.
        names: What there is.
        notes: By a name of another program, what to do instead where no single name of ours is meant.
    """
    if notes is not None and name in notes:
        return notes[name]
    names = list(names)
    likely = likely_name(name, names)
    if likely is not None:
        return f"did you mean {likely}?"
    return f"there are {', '.join(names)}" if len(names) != 1 else f"there is only {names[0]}"


def word_hint(word: object, words: Iterable[str]) -> str:
    """The end of a refusal that has listed all words: the one that was probably meant, or nothing."""
    likely = likely_name(word, words) if isinstance(word, str) else None
    return f"; did you mean {likely}?" if likely is not None else ""


def arguments_hint(program: str) -> str:
    """The end of the refusal of a program that is not there: where its name is a whole command line, how to write it.

    Of the arguments nothing is repeated: they may be secrets.
    """
    words = program.split()
    return f'; put the arguments into args: command = "{words[0][:80]}", args = […]' if words[1:] else ""


def _plain(name: str) -> str:
    """`mcpServers`, `mcp-servers` and `MCP_SERVERS` as one form."""
    return _CAPITAL.sub(r"\1_\2", name).lower().replace("-", "_")
