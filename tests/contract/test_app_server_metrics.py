"""Numbers over the wire: what each conversation did and cost."""

from __future__ import annotations

from pathlib import Path

from tests.contract.app_server import serving

USAGE = {
    "input_tokens": 30,
    "cached_input_tokens": 10,
    "output_tokens": 7,
    "reasoning_output_tokens": 2,
    "total_tokens": 37,
}
PLAN = {"name": "update_plan", "arguments": {"plan": [{"step": "Look", "status": "in_progress"}]}}


async def test_metrics_are_per_conversation_and_for_the_session(tmp_path: Path) -> None:
    """S002-44."""
    script = [{"tool_calls": [PLAN, {"name": "made_up", "arguments": {}}], "usage": USAGE}, "Done.", {"error": "Lost"}]
    async with serving(tmp_path, script) as server:
        other = (await server.call("conversation/open"))["conversation_id"]
        before = await server.call("metrics/get")
        assert before["conversations"] == []
        assert before["session"]["tasks"]["started"] == before["session"]["tool_calls"] == 0
        assert (await server.say("Hello"))["status"] == "completed"
        assert (await server.say("Hello", other))["status"] == "failed"
        whole = await server.call("metrics/get")
        (one,) = (await server.call("metrics/get", conversationId=other))["conversations"]
        root, second = whole["conversations"]
        assert second == one
        assert (one["conversation_id"], one["closed"]) == (other, False)
        assert (one["tasks"]["failed"], one["tasks"]["failure_rate"], one["tasks"]["cancel_rate"]) == (1, 1, 0)
        assert root["usage"]["total_tokens"] >= 37
        assert root["usage"]["cached_input_tokens"] == 10
        assert root["tool_calls"] == 2
        assert (root["tools"]["update_plan"]["failures"], root["tools"]["other"]["failures"]) == (0, 1)
        assert type(root["tools"]["update_plan"]["mean_ms"]) is int
        assert root["mcp"] == {"calls": 0, "failures": 0, "duration_ms": 0, "mean_ms": 0, "max_ms": 0}
        assert (whole["session"]["tasks"]["started"], whole["session"]["tasks"]["failure_rate"]) == (2, 0.5)
