"""`.mcp.json`: strict where it could be read in two ways, and clear where it is wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.mcp.config.project_server import MAX_BYTES, read_dot_mcp, server_table_of, unknown_keys
from tests.tables import each_row


def read(tmp_path: Path, content: str | bytes) -> dict[str, Any]:
    path = tmp_path / ".mcp.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_dot_mcp(path)


def refusal(tmp_path: Path, content: str | bytes) -> str:
    with pytest.raises(InvalidParamsError) as caught:
        read(tmp_path, content)
    path = str(tmp_path / ".mcp.json")
    assert caught.value.message.startswith(path)
    return caught.value.message.removeprefix(path)


def test_servers_are_read_as_they_are_written(tmp_path) -> None:
    entry = {"type": "stdio", "command": "${HOME}/x", "args": ["${A:-b}"]}
    assert read(tmp_path, json.dumps({"mcpServers": {"x": entry}, "inputs": []})) == {"x": entry}
    assert read(tmp_path, "\ufeff{}") == {}
    assert read_dot_mcp(tmp_path / "none" / ".mcp.json") == {}


def test_a_stub_of_the_sandbox_is_no_file(tmp_path: Path) -> None:
    """A5: while a command runs in a workspace, and after a kill, everybody else can start there."""
    path = tmp_path / ".mcp.json"
    path.mkdir(0o1555)
    assert read_dot_mcp(path) == {}
    path.chmod(0o755)
    with pytest.raises(InvalidParamsError, match="is not a file"):
        read_dot_mcp(path)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{\n  "mcpServers": {,}\n}', "not JSON at line 2, column 18: a name in double quotes is missing"),
        ("", "not JSON at line 1, column 1: a value is missing"),
        ('{"mcpServers": {}} x', "not JSON at line 1, column 20: there is more after the end"),
        ('{"mcpServers": {\n"a": {},\n"a": {}}}', "'a' is given twice (at line 3)"),
        ('{"mcpServers": {"a": {"command": "x", "command": "y"}}}', "'command' is given twice (at line 1)"),
        (b'{"a":\n"\xff"}', "expected UTF-8 (at line 2)"),
        ('{"mcpServers": {"a": NaN}}', "NaN is not JSON"),
        ("[" * 200_000, "nested too deeply"),
        ("[]", 'expected an object {"mcpServers"'),
        ('{"mcpServers": []}', 'expected an object {"mcpServers"'),
        (b" " * (MAX_BYTES + 1), f"larger than {MAX_BYTES:,} bytes"),
        ('{"mcpServers": {"a": ' + "[" * 40 + "]" * 40 + "}}", "nested too deeply"),
        (r'{"mcpServers": {"a": {"command": "\ud800"}}}', "a lone surrogate; write valid Unicode"),
        ('{"mcpServers": {"' + "a" * 257 + '": {}}}', "names of at most 256 characters"),
        (json.dumps({"mcpServers": {str(number): {} for number in range(257)}}), "at most 256 servers"),
        ('{"mcpServers": {"a": ' + "1" * 5000 + "}}", "a number has too many digits"),
    ],
    ids=range(16),
)
def test_a_broken_file_is_refused_with_its_place(tmp_path, content, expected) -> None:
    """Bad input: broken JSON with file and line, duplicate server names."""
    assert expected in refusal(tmp_path, content)


def test_what_is_no_file_is_not_waited_for(tmp_path) -> None:
    path = tmp_path / ".mcp.json"
    os.mkfifo(path)
    with pytest.raises(InvalidParamsError, match="is not a file"):
        read_dot_mcp(path)


def test_a_file_that_cannot_be_opened_is_named(tmp_path) -> None:
    path = tmp_path / ".mcp.json"
    path.symlink_to(path)
    with pytest.raises(InvalidParamsError, match=r"\.mcp\.json cannot be read: "):
        read_dot_mcp(path)


VARIABLES = {"A": "1", "EMPTY": "", "NESTED": "${A}"}


@each_row(
    ("written", "found"),
    [
        ("${A}", "1"),
        ("x${A}y${A}", "x1y1"),
        ("${A:-z}", "1"),
        ("${B:-z}", "z"),
        ("${B:-}", ""),
        ("${EMPTY}", ""),
        ("${EMPTY:-z}", "z"),
        ("${NESTED}", "${A}"),
        ("$A $(A) ${1} ${A", "$A $(A) ${1} ${A"),
    ],
)
def test_variables_are_put_in_once(written, found) -> None:
    """In every place that may have them, and what they hold is not read again."""
    entry = {"command": written, "args": [written], "env": {"E": written}}
    assert server_table_of("x", entry, VARIABLES) == {"command": found, "args": [found], "env": {"E": found}}
    reached = server_table_of(
        "x", {"type": "http", "url": f"https://h/{written}", "headers": {"H": written}}, VARIABLES
    )
    assert reached == {"url": f"https://h/{found}", "http_headers": {"H": found}}


def test_a_variable_that_is_not_set_is_named() -> None:
    """Bad input: secret env var unset."""
    with pytest.raises(
        InvalidParamsError, match=r"^srv: the variable NOPE is not set; set it, or write \$\{NOPE:-default\}$"
    ):
        server_table_of("srv", {"command": "x", "env": {"T": "${NOPE}"}}, VARIABLES)


def test_what_is_no_text_is_left_for_the_reader_of_tables() -> None:
    assert server_table_of("x", {"command": "c", "env": {"N": 5}}, {}) == {"command": "c", "env": {"N": 5}}


def test_variables_stand_only_where_they_may() -> None:
    assert server_table_of("x", {"command": "c", "cwd": "${A}"}, VARIABLES)["cwd"] == "${A}"


@each_row(
    ("entry", "expected"),
    [
        ({"type": "sse", "url": "https://x/"}, "x: `sse` is the transport that streamable HTTP replaced"),
        ({"type": "ws", "url": "https://x/"}, "x: type must be stdio or http"),
        ({"type": "stdio", "url": "https://x/"}, "x: `stdio` goes with command"),
        ({"type": "http", "command": "c"}, "x: `stdio` goes with command, and `http` with url"),
        ({"type": 5, "command": "c"}, "x: type must be stdio or http"),
        ({"type": ["stdio"], "command": "c"}, "x: type must be stdio or http"),
        ({"type": {}, "url": "https://x/"}, "x: type must be stdio or http"),
        ("npx", "x: expected an object with command or url"),
    ],
)
def test_a_transport_that_does_not_fit_is_refused(entry, expected) -> None:
    with pytest.raises(InvalidParamsError) as caught:
        server_table_of("x", entry, {})
    assert caught.value.message.startswith(expected)


def test_what_other_hosts_know_is_left_out_and_told() -> None:
    entry = {"command": "c", "alwaysAllow": ["x"], "timeout": 60, "disabled": True, "tool_timeout_sec": 5}
    assert server_table_of("x", entry, {}) == {"command": "c", "enabled": False, "tool_timeout_sec": 5}
    assert unknown_keys(entry) == ["alwaysAllow", "timeout"]
    assert unknown_keys("npx") == []
