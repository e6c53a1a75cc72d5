"""The interface of a connection: who keeps it, and that it needs nothing of the SDK."""

from __future__ import annotations

import inspect
import subprocess
import sys

import msgspec

from tertulia.mcp.client.connection import SdkConnection
from tertulia.mcp.server_connection import Caller, CallResult, RemoteTool, ServerConnection, ToolHints
from tertulia.testing.fake_mcp_server import FakeMcpConnection
from tests.deadlines import HANG_S
from tests.mcp.pool_stage import caller


def test_the_connection_and_the_fake_server_keep_the_interface() -> None:
    """STYLE: an in-memory fake of every wire ships in the package."""
    for kind in (SdkConnection, FakeMcpConnection):
        for name in ("list_tools", "call", "close"):
            expected_parameters = inspect.signature(getattr(ServerConnection, name)).parameters
            parameters = inspect.signature(getattr(kind, name)).parameters
            assert {parameter: expected_parameters[parameter].kind for parameter in expected_parameters} == {
                parameter: parameters[parameter].kind for parameter in parameters
            }


def test_it_can_be_imported_without_the_sdk() -> None:
    """DESIGN: start-up imports no MCP package."""
    code = "import sys, tertulia.mcp.server_connection; sys.exit(bool({'mcp', 'mcp_types'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANG_S)


def test_a_tool_that_says_nothing_is_taken_for_the_worst() -> None:
    """Hints: what a server leaves out counts as the protocol says, and nothing of it is in favour of the tool."""
    hints = RemoteTool("x", "", {}).hints
    assert hints == ToolHints(read_only=False, destructive=True, idempotent=False, open_world=True)


def test_a_definition_is_equal_only_to_the_same_definition() -> None:
    """C1: what is compared at the call is everything that a server says of a tool."""
    tool = RemoteTool("x", "Does x.", {"type": "object"}, title="X")
    assert tool == RemoteTool("x", "Does x.", {"type": "object"}, title="X")
    for change in (
        {"name": "y"},
        {"description": "Does y."},
        {"input_schema": {"type": "object", "properties": {}}},
        {"title": None},
        {"hints": ToolHints(read_only=True)},
    ):
        assert msgspec.structs.replace(tool, **change) != tool


def test_two_callers_are_never_the_same() -> None:
    """C8: a request of the server is matched to its call by the caller, however alike they look."""
    assert caller("a") != caller("a")
    assert isinstance(caller("a"), Caller)


def test_an_answer_is_plain_data() -> None:
    assert msgspec.json.decode(msgspec.json.encode(CallResult("x", structured={"n": 1})))["structured"] == {"n": 1}
