"""What to write instead of a setting, mostly of Codex, that is no single setting here. Plain data.

Settings that only have another name here are in `protocol/name_hints.py`; those of the same name and meaning are read.
"""

from __future__ import annotations

from collections.abc import Mapping

_NOT_HERE = "it is a setting of Codex that Tertulia has no counterpart of; leave it out"
_SCREEN = "it is about Codex's screen, which Tertulia does not have; leave it out"
_ACCOUNT = "Tertulia uses keys and no ChatGPT account; leave it out, and set a key with the provider's env_key"
_REASONING = "no setting of Tertulia chooses it yet; leave it out, and the model's own default holds"
_PROFILE = "set up [agents.NAME] and run it with --agent NAME, or give single settings with -c KEY=VALUE"
_INSTRUCTIONS = (
    "instructions belong to conversations: write them into AGENTS.md, give --instructions, or open one with "
    "base_instructions"
)
_RIGHTS = "write sandbox, network, writable_roots and approval_policy instead"
_MCP_LOGIN = "Tertulia does not log in to MCP servers; name a token with bearer_token_env_var of the server"
_TOOLS = "switch tools by include_plan_tool, include_apply_patch_tool, tools_web_search_request and shell_mode"

CODEX_NOTES: Mapping[str, str] = {
    "allow_login_shell": "a command has a login shell only where it asks for one; shell_environment has its variables",
    "analytics": "Tertulia sends no reports; leave it out",
    "approvals_reviewer": "a person answers approvals; write approval_policy",
    "auto_review": "a person answers approvals; write approval_policy",
    "base_instructions": _INSTRUCTIONS,
    "background_terminal_max_timeout": "write tool_timeout_s, or limits.task_timeout_s",
    "check_for_update_on_startup": "Tertulia never looks for updates; leave it out",
    "chatgpt_base_url": _ACCOUNT,
    "cli_auth_credentials_store": _ACCOUNT,
    "compact_prompt": "the prompt of compaction cannot be changed; leave it out",
    "default_permissions": _RIGHTS,
    "developer_instructions": _INSTRUCTIONS,
    "disable_paste_burst": _SCREEN,
    "experimental_compact_prompt_file": "the prompt of compaction cannot be changed; leave it out",
    "experimental_instructions_file": _INSTRUCTIONS,
    "experimental_use_unified_exec_tool": 'write shell_mode = "streamable"',
    "features": _TOOLS,
    "feedback": "Tertulia sends no reports; leave it out",
    "file_opener": _SCREEN,
    "forced_chatgpt_workspace_id": _ACCOUNT,
    "forced_login_method": _ACCOUNT,
    "hide_agent_reasoning": _SCREEN,
    "history": "what is stored is storage_policy, and for how long is [retention]",
    "instructions": _INSTRUCTIONS,
    "log_dir": "there is no log; what happened is in the session (`tertulia sessions replay`)",
    "mcp_oauth_callback_port": _MCP_LOGIN,
    "mcp_oauth_callback_url": _MCP_LOGIN,
    "mcp_oauth_credentials_store": _MCP_LOGIN,
    "model_auto_compact_token_limit": "write limits.max_history_tokens, or context_window of the provider",
    "model_catalog_json": "write context_window into [model_providers.NAME]",
    "model_context_window": "write context_window into [model_providers.NAME]",
    "model_instructions_file": _INSTRUCTIONS,
    "model_reasoning_summary": _REASONING,
    "model_verbosity": _REASONING,
    "notice": _SCREEN,
    "openai_base_url": "write OPENAI_BASE_URL into the environment, or base_url into [model_providers.openai]",
    "oss_provider": 'write model = "local", or model = "PROVIDER/MODEL"',
    "otel": "Tertulia sends no reports; events are read with `exec --json` or `tertulia serve`",
    "permissions": _RIGHTS,
    "personality": _INSTRUCTIONS,
    "plan_mode_reasoning_effort": _REASONING,
    "profile": _PROFILE,
    "profiles": _PROFILE,
    "project_doc_fallback_filenames": "AGENTS.md is read, and CLAUDE.md where there is none; project_instructions "
    "switches that",
    "project_doc_max_bytes": "AGENTS.md is read up to a fixed size; project_instructions = false switches it off",
    "project_root_markers": "a project is a git repository, or the directory of `-C`; leave it out",
    "projects": "a project's MCP servers are trusted with `tertulia mcp trust`, and its files may only narrow",
    "review_model": "name a model for each conversation; the session's is model",
    "sandbox_workspace_write": "its network_access is network here, and its writable_roots is writable_roots, both "
    "outside of any table",
    "service_tier": _REASONING,
    "show_raw_agent_reasoning": _SCREEN,
    "sqlite_home": "all sessions are kept below TERTULIA_HOME, a variable of the environment",
    "tool_output_token_limit": "write limits.max_output_bytes",
    "user_instructions": _INSTRUCTIONS,
    **dict.fromkeys(
        (
            "apps",
            "apps_mcp_product_sku",
            "audio",
            "browser_use",
            "commit_attribution",
            "computer_use",
            "desktop",
            "experimental_realtime_start_instructions",
            "experimental_realtime_webrtc_call_base_url",
            "experimental_realtime_ws_backend_prompt",
            "experimental_realtime_ws_base_url",
            "experimental_realtime_ws_model",
            "experimental_realtime_ws_startup_context",
            "experimental_thread_store",
            "ghost_snapshot",
            "goals",
            "include_apps_instructions",
            "include_collaboration_mode_instructions",
            "include_environment_context",
            "include_permissions_instructions",
            "js_repl_node_path",
            "marketplaces",
            "memories",
            "model_auto_compact_token_limit_scope",
            "orchestrator",
            "plugins",
            "realtime",
            "responses_api_metadata",
            "skills",
            "suppress_unstable_features_warning",
            "tool_suggest",
            "undo",
            "windows",
            "zsh_path",
        ),
        _NOT_HERE,
    ),
}
"""By the name in Codex's config.toml."""
