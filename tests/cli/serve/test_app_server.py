"""`tertulia app-server` as another program starts it. What it speaks is tested with the server."""

from __future__ import annotations

import json

from tests.cli.running import Shell


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


def test_with_codex_it_speaks_that_protocol(shell: Shell) -> None:
    """Issue 10 (5): `tertulia app-server --codex` stands in for `codex app-server`."""
    lines = [
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "test", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "thread/start", "params": {"sandbox": "danger-full-access"}},
        {"id": 3, "method": "session/info"},
        {"id": 4, "method": "model/list", "params": {}},
    ]
    sent = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    ran = shell.spawn("-s", "read-only", "app-server", "--codex", "-m", shell.script("fine"), input=sent)
    assert (ran.code, ran.err) == (0, "")
    answers = {line["id"]: line for line in ran.lines if "id" in line}
    assert not any("jsonrpc" in line for line in ran.lines)
    assert answers[2]["result"]["sandbox"]["type"] == "readOnly"
    assert answers[2]["result"]["cwd"] == str(shell.folder)
    assert answers[3]["error"]["code"] == -32601
    assert [model["id"] for model in answers[4]["result"]["data"] if model["isDefault"]] == ["scripted/script.json"]


def test_codex_and_resume_do_not_go_together(shell: Shell) -> None:
    ran = shell.run("app-server", "--codex", "--resume", "3f2a")
    assert (ran.code, ran.out) == (2, "")
    assert "thread/resume" in ran.err


def test_with_codex_overrides_are_read_as_codex_reads_them(shell: Shell) -> None:
    """Issue 25 (1): its clients start it with `-c` of their own."""
    model = shell.script("fine")
    sent = b"".join(
        json.dumps(message).encode() + b"\n"
        for message in (
            {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "t", "version": "1"}}},
            {"id": 2, "method": "thread/start", "params": {}},
        )
    )
    flags = ("-c", "sandbox_mode=read-only", "-c", "retry_budget=3")
    ran = shell.spawn("app-server", "--codex", "-m", model, *flags, input=sent)
    answers = {line["id"]: line["result"] for line in ran.lines if "id" in line}
    assert answers[2]["sandbox"]["type"] == "readOnly"
    assert ran.err == "tertulia: retry_budget is a setting of Codex that is not known here, and was ignored\n"
    refused = shell.run("app-server", "--codex", "-m", model, "-c", 'history.persistence="none"')
    assert (refused.code, refused.out) == (2, "")
    assert "history" in refused.err
    assert shell.run("app-server", "-m", model, *flags).code == 2, "without --codex they are mistakes"
