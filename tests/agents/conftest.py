"""Every test here is watched for what it leaves behind. `make test` runs a few of each agent, `make torture` all.

A run of an executor's program takes seconds, and there are five programs.
"""

from __future__ import annotations

import pytest

from tests.guards import watch_sessions

__all__ = ["watch_sessions"]

_IN_MAKE_TEST = (
    "test_agents_in_evals.py::test_a_real_agent_does_a_task_and_sees_no_check[codex]",
    "test_agents_in_evals.py::test_a_real_agent_does_a_task_and_sees_no_check[acp:codex]",
    "test_broker_in_hosts.py::test_codex_and_claude_code_share_one_process",
    "test_codex_",
    "test_real_acp_agents.py::test_three_follow_ups_a_kill_and_a_restart[codex]",
    "test_real_acp_agents.py::test_three_follow_ups_a_kill_and_a_restart[gemini]",
    "test_real_acp_agents.py::test_after_a_restart_of_the_session_it_takes_its_own_up[codex]",
    "test_real_acp_agents.py::test_cancelled_in_mid_run_it_stops_and_goes_on[codex]",
    "test_real_acp_agents.py::test_it_calls_a_tool_of_ours[codex]",
    "test_real_acp_agents.py::test_it_calls_a_tool_of_ours[gemini]",
    "test_real_acp_agents.py::test_an_approval_is_answered[codex-",
    "test_real_agents.py::test_three_follow_ups_go_on_with_the_agents_own_memory",
    "test_real_agents.py::test_three_follow_ups_are_told_the_transcript[codex]",
    "test_real_agents.py::test_its_system_part_is_told_in_each_run[codex]",
    "test_real_agents.py::test_what_changes_of_its_system_part_is_told_to_a_conversation_that_goes_on[codex]",
    "test_real_agents.py::test_stopped_in_mid_run_it_is_gone_and_the_conversation_goes_on",
    "test_real_agents.py::test_killed_from_outside_it_has_failed_and_the_next_message_works[codex]",
    "test_real_agents.py::test_after_a_restart_of_the_session_it_knows_what_was_said[codex]",
    "test_real_agents.py::test_it_calls_a_tool_of_ours[codex-workspace-write]",
    "test_real_agents.py::test_it_calls_a_tool_of_ours[claude-workspace-write]",
    "test_real_agents.py::test_its_own_sandbox_holds_it_to_our_rights[codex-read-only]",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before anything is left out by its marks."""
    for item in items:
        if "tests/agents/" in item.nodeid and not any(name in item.nodeid for name in _IN_MAKE_TEST):
            item.add_marker(pytest.mark.torture)
