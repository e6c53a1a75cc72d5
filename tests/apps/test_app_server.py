"""`tertulia app-server` as another program starts it. What it speaks is tested with the server."""

from __future__ import annotations

import json

from tests.apps.running import Shell


def request(id: int, method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


def test_it_serves_a_session_until_its_input_ends(shell: Shell) -> None:
    lines = [
        request(1, "initialize", client={"name": "test"}),
        request(2, "session/info"),
    ]
    ran = shell.spawn("-s", "read-only", "app-server", "-m", shell.script("fine"), input=b"".join(lines))
    assert ran.code == 0
    answers = {line["id"]: line["result"] for line in ran.lines if "id" in line}
    assert answers[2]["policy"]["sandbox"] == "read-only"
    assert answers[2]["model"] == "scripted/script.json"
    assert ran.err == ""


def test_warnings_of_the_configuration_go_to_standard_error(shell: Shell) -> None:
    config = shell.folder / ".tertulia" / "config.toml"
    config.parent.mkdir()
    config.write_text('model = "other/model"\n')
    ran = shell.spawn("app-server", "-m", shell.script("fine"))
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"warning {config}: model is ignored, a project's file may only narrow\n"


def test_a_mistake_is_told_before_anything_is_served(shell: Shell) -> None:
    ran = shell.run("app-server", "-s", "loose")
    assert (ran.code, ran.out) == (2, "")
