"""Issue 19: every key of Codex's config.toml is understood, or answered with ours or with what to do instead."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.server_table import is_known_key, read_table
from tertulia.models.catalog import ModelProvider, provider_from_wire
from tertulia.session.settings.codex_settings import CODEX_NOTES
from tertulia.session.settings.settings import Settings
from tertulia.session.settings.values import check_names

TOP = [
    "agents",
    "allow_login_shell",
    "analytics",
    "approval_policy",
    "approvals_reviewer",
    "apps",
    "apps_mcp_product_sku",
    "audio",
    "auto_review",
    "background_terminal_max_timeout",
    "browser_use",
    "chatgpt_base_url",
    "check_for_update_on_startup",
    "cli_auth_credentials_store",
    "compact_prompt",
    "computer_use",
    "default_permissions",
    "desktop",
    "developer_instructions",
    "disable_paste_burst",
    "experimental_compact_prompt_file",
    "experimental_realtime_start_instructions",
    "experimental_realtime_webrtc_call_base_url",
    "experimental_realtime_ws_backend_prompt",
    "experimental_realtime_ws_base_url",
    "experimental_realtime_ws_model",
    "experimental_realtime_ws_startup_context",
    "experimental_thread_store",
    "experimental_use_unified_exec_tool",
    "features",
    "feedback",
    "file_opener",
    "forced_chatgpt_workspace_id",
    "forced_login_method",
    "ghost_snapshot",
    "goals",
    "hide_agent_reasoning",
    "history",
    "hooks",
    "include_apps_instructions",
    "include_collaboration_mode_instructions",
    "include_environment_context",
    "include_permissions_instructions",
    "instructions",
    "log_dir",
    "marketplaces",
    "mcp_oauth_callback_port",
    "mcp_oauth_callback_url",
    "mcp_oauth_credentials_store",
    "mcp_servers",
    "memories",
    "model",
    "model_auto_compact_token_limit",
    "model_auto_compact_token_limit_scope",
    "model_catalog_json",
    "model_context_window",
    "model_instructions_file",
    "model_provider",
    "model_providers",
    "model_reasoning_effort",
    "model_reasoning_summary",
    "model_verbosity",
    "notice",
    "notify",
    "openai_base_url",
    "orchestrator",
    "oss_provider",
    "otel",
    "permissions",
    "personality",
    "plan_mode_reasoning_effort",
    "plugins",
    "profile",
    "profiles",
    "project_doc_fallback_filenames",
    "project_doc_max_bytes",
    "project_root_markers",
    "projects",
    "realtime",
    "responses_api_metadata",
    "review_model",
    "sandbox_mode",
    "sandbox_workspace_write",
    "service_tier",
    "shell_environment_policy",
    "show_raw_agent_reasoning",
    "skills",
    "sqlite_home",
    "suppress_unstable_features_warning",
    "tool_output_token_limit",
    "tool_suggest",
    "tools",
    "tui",
    "web_search",
    "windows",
]
PROVIDER = [
    "auth",
    "aws",
    "base_url",
    "env_http_headers",
    "env_key",
    "env_key_instructions",
    "experimental_bearer_token",
    "http_headers",
    "name",
    "query_params",
    "request_max_retries",
    "requires_openai_auth",
    "stream_idle_timeout_ms",
    "stream_max_retries",
    "supports_standalone_web_search",
    "supports_websockets",
    "websocket_connect_timeout_ms",
    "wire_api",
]
SERVER = [
    "args",
    "auth",
    "bearer_token_env_var",
    "command",
    "cwd",
    "default_tools_approval_mode",
    "disabled_tools",
    "enabled",
    "enabled_tools",
    "env",
    "env_http_headers",
    "env_vars",
    "environment_id",
    "http_headers",
    "http_headers_helper",
    "name",
    "oauth",
    "oauth_resource",
    "omit_tools_from",
    "required",
    "scopes",
    "startup_timeout_ms",
    "startup_timeout_sec",
    "supports_parallel_tool_calls",
    "tool_timeout_sec",
    "tools",
    "url",
]


def said(parse: Callable[[], object]) -> str:
    with pytest.raises(InvalidParamsError) as refused:
        parse()
    return refused.value.message


def is_answered(message: str) -> bool:
    """A list of all that there is would be no answer."""
    return "did you mean" in message or "; there are " not in message


@pytest.mark.parametrize("name", sorted(set(TOP) - set(Settings.__struct_fields__)))
def test_a_key_at_the_top_is_answered(name: str) -> None:
    message = said(lambda: check_names([name], "config.toml"))
    assert name in CODEX_NOTES or is_answered(message), message


@pytest.mark.parametrize("name", sorted(set(PROVIDER) - set(ModelProvider.__struct_fields__)))
def test_a_key_of_a_provider_is_answered(name: str) -> None:
    message = said(lambda: provider_from_wire("mine", {"base_url": "http://127.0.0.1/v1", "wire": "chat", name: "x"}))
    assert f"`{name}`" in message
    assert is_answered(message), message


@pytest.mark.parametrize("name", [name for name in SERVER if not is_known_key(name)])
def test_a_key_of_an_mcp_server_is_answered(name: str) -> None:
    message = said(lambda: read_table("mcp_servers.mine", {"command": "true", name: "x"}))
    assert f"'{name}'" in message
    assert is_answered(message), message


def test_no_note_stands_for_a_setting_that_there_is() -> None:
    assert set(CODEX_NOTES) & set(Settings.__struct_fields__) == set()
