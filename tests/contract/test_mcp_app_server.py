"""MCP servers over JSON-RPC and on the command line, as a client written from the public page alone sees them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.contract.app_server import Refused, Server, is_event, serving, surroundings
from tests.contract.serving_tools import define, tagged, tool
from tests.deadlines import HANG_S, QuietTime
from tests.forked import run_program
from tests.mcp.fakes import bare, hostile

SECRET = "canary-4711-of-a-token"


def configure(folder: Path, text: str = "", **servers: dict[str, Any]) -> None:
    """The user's config.toml."""
    place = folder / "home/.config/tertulia"
    place.mkdir(parents=True, exist_ok=True)
    tables = [
        f"[mcp_servers.{name}]\n" + "".join(f"{k} = {json.dumps(v)}\n" for k, v in server.items())
        for name, server in servers.items()
    ]
    (place / "config.toml").write_text("\n".join([text, *tables]))


def of(argv: tuple[str, ...], **fields: Any) -> dict[str, Any]:
    return {"command": argv[0], "args": list(argv[1:]), "approval": "approve", **fields}


def calling(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def tertulia(folder: Path, *arguments: str, input: str = "") -> subprocess.CompletedProcess[str]:
    return run_program(*arguments, cwd=folder, env=surroundings(folder / "home"), input=input)


async def ready(server: Server, *names: str) -> dict[str, Any]:
    """What `mcp/status` says once none of these is starting."""
    async with asyncio.timeout(HANG_S):
        while True:
            found = {status["name"]: status for status in (await server.call("mcp/status"))["servers"]}
            if all(found[name]["status"] != "starting" for name in names):
                return found
            await asyncio.to_thread(time.sleep, 0.02)


async def gone_within(seconds: float, tag: str) -> None:
    time_taken = QuietTime()
    async with asyncio.timeout(HANG_S):
        while tagged(tag):
            await asyncio.to_thread(time.sleep, 0.05)
    assert time_taken.seconds < seconds


# ---- operations


async def test_status_info_and_tools_agree(tmp_path: Path) -> None:
    """`session/info` mcp [{name, status, error?, tools}], `mcp/status`, `conversation/tools`."""
    configure(
        tmp_path,
        good=of(bare("--tools", "echo,pid")),
        bad=of(hostile("dies-at-start")),
        off=of(bare(), enabled=False),
        missing={"command": "no-such-program-anywhere"},
    )
    async with serving(tmp_path, []) as server:
        status = await ready(server, "good", "bad", "missing")
        assert {name: server["status"] for name, server in status.items()} == {
            "good": "ready", "bad": "failed", "off": "disabled", "missing": "failed",
        }  # fmt: skip
        assert status["good"]["tools"] == 2
        assert "no-such-program-anywhere" in status["missing"]["error"]
        assert "code 3" in status["bad"]["error"]
        info = {status["name"]: status for status in (await server.call("session/info"))["mcp"]}
        assert {name: (server["status"], server["tools"]) for name, server in info.items()} == {
            name: (server["status"], server["tools"]) for name, server in status.items()
        }
        await server.say("hello")
        tools = (await server.call("conversation/tools", conversation_id="root"))["tools"]
        found = [tool for tool in tools if tool["source"] == "mcp"]
        assert [(server["name"], server["server"]) for server in found] == [
            ("good__echo", "good"),
            ("good__pid", "good"),
        ]
        assert all(server["digest"] for server in found)


async def test_status_has_the_figures_of_each_server(tmp_path: Path) -> None:
    """UI.md 7.12: the names that the dashboard reads, over JSON-RPC."""
    configure(tmp_path, a=of(bare("--tools", "echo")), bad=of(hostile("dies-at-start")))
    async with serving(tmp_path, [calling("a__echo", text="x"), {"text": "done"}]) as server:
        await ready(server, "a", "bad")
        await server.say("hello")
        status = await ready(server, "a", "bad")
        (root,) = (await server.call("conversation/list"))["conversations"]
        figures = ("restarts", "in_flight", "waiting", "users", "user_count", "withheld")
        assert [status["a"][name] for name in figures] == [0, 0, 0, [root["id"]], 1, []]
        assert 0 < status["a"]["p50_ms"] <= status["a"]["p95_ms"]
        assert "last_error_at" not in status["a"]
        assert status["bad"]["last_error_at"].endswith("Z")


async def test_refresh_lists_again_and_starts_what_failed(tmp_path: Path) -> None:
    """`mcp/refresh`; an unknown name is not_found."""
    option = define(tmp_path / "tools.json", tool("one"))
    late = tmp_path / "late"
    configure(tmp_path, a=of(bare("--define", option)), b={"command": str(late)})
    async with serving(tmp_path, []) as server:
        await ready(server, "a", "b")
        await server.say("hello")
        define(tmp_path / "tools.json", tool("one"), tool("two"))
        late.write_text("#!/bin/sh\nexec " + " ".join(bare("--tools", "echo")) + "\n")
        late.chmod(0o755)
        await server.call("mcp/refresh")
        await ready(server, "a", "b")
        with pytest.raises(Refused) as refused:
            await server.call("mcp/refresh", names=["nobody"])
        assert refused.value.code == "not_found"
        await server.say("again")
        tools = (await server.call("conversation/tools", conversation_id="root"))["tools"]
        assert [tool["name"] for tool in tools if tool["source"] == "mcp"] == ["a__one", "a__two", "b__echo"]


async def test_opening_says_what_is_wrong_with_an_allowlist(tmp_path: Path) -> None:
    """S000-29, S000-26, X-24 over the wire."""
    configure(tmp_path, a=of(bare("--tools", "echo")))
    async with serving(tmp_path, []) as server:
        await ready(server, "a")
        with pytest.raises(Refused) as refused:
            await server.call("conversation/open", mcp_tool_allowlist=["a__ecko"])
        assert (refused.value.number, refused.value.code) == (-32602, "invalid_params")
        assert "a__echo" in refused.value.message
        opened = await server.call("conversation/open", mcpToolAllowlist=["a/echo"])
        assert len(opened["warnings"]) == 1
        context = await server.call("conversation/context", conversation_id=opened["conversation_id"])
        assert context["mcp_tool_allowlist"] == ["a__echo"]
        assert len((await server.call("conversation/list"))["conversations"]) == 2


async def test_colliding_names_are_a_conflict_at_open_and_a_warning_at_the_root(tmp_path: Path) -> None:
    """C4, X-26: `tool_conflict`; `on_tool_conflict` is top-level."""
    servers = {"a": of(bare("--tools", "b__echo")), "a__b": of(bare("--tools", "echo"))}
    configure(tmp_path, **servers)
    async with serving(tmp_path, []) as server:
        await ready(server, "a", "a__b")
        with pytest.raises(Refused) as refused:
            await server.call("conversation/open")
        assert (refused.value.number, refused.value.code) == (-32000, "tool_conflict")
        await server.say("hello")
        # On a busy machine another warning may come first: that a server was not ready in time.
        await server.until(lambda line: is_event(line) and "a__b__echo" in line["params"]["data"].get("message", ""))
    configure(tmp_path, 'on_tool_conflict = "skip"\n', **servers)
    async with serving(tmp_path, []) as server:
        await ready(server, "a", "a__b")
        assert (await server.call("conversation/open"))["warnings"]


async def test_a_call_is_asked_about_and_an_elicitation_answered_over_the_wire(tmp_path: Path) -> None:
    """Approvals of kind mcp; `elicitation_request` is answered with approval/resolve and content."""
    configure(tmp_path, a={**of(bare("--tools", "ask")), "approval": "prompt"})
    async with serving(tmp_path, [calling("a__ask", question="Sure?"), "Done."]) as server:
        await ready(server, "a")
        message = await server.ask("conversation/message", conversation_id="root", text="go")
        request = (await server.event("approval_request"))["data"]
        assert request["kind"] == "mcp"
        await server.call("approval/resolve", approval_id=request["approval_id"], decision="allow")
        data = (await server.event("elicitation_request"))["data"]
        assert (data["server"], data["message"]) == ("a", "Sure?")
        with pytest.raises(Refused):
            await server.call(
                "approval/resolve", approval_id=data["elicitation_id"], decision="allow", content={"ok": "maybe"}
            )
        await server.call(
            "approval/resolve", approval_id=data["elicitation_id"], decision="allow", content={"ok": True}
        )
        assert (await server.answer(message))["status"] == "completed"
        assert '"accept"' in (await server.event("tool_call_end"))["data"]["output"]


# ---- a project's files


def project(folder: Path, **servers: Any) -> Path:
    file = folder / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    return file


async def status_of(folder: Path, name: str, *flags: str) -> str:
    async with serving(folder, [], *flags) as server:
        return (await ready(server, name))[name]["status"]


async def test_a_projects_server_starts_only_once_it_is_trusted(tmp_path: Path) -> None:
    """C2, C3: bound to the definition; an edit, a link and a move make it a stranger again."""
    record = tmp_path / "record"
    argv = bare("--record", str(record))
    definition = {"command": argv[0], "args": list(argv[1:])}
    work = tmp_path / "work"
    (work / "home").mkdir(parents=True)
    file = project(work, notes=definition)
    assert await status_of(work, "notes") == "untrusted"
    refused = tertulia(work, "mcp", "trust", "notes")
    assert refused.returncode == 2
    assert await status_of(work, "notes") == "untrusted"
    assert not record.exists(), "never started before that"
    assert tertulia(work, "mcp", "trust", "notes", "--yes").returncode == 0
    assert await status_of(work, "notes") == "ready"
    for changed in (
        {**definition, "args": [*definition["args"], "--tools", "echo"]},
        {**definition, "env": {"A": "1"}},
        {**definition, "cwd": "."},
    ):
        project(work, notes=changed)
        assert await status_of(work, "notes") == "untrusted"
    project(work, notes=definition)
    assert await status_of(work, "notes") == "ready", "as it was trusted"
    # A link in its place to a file that says something else is no longer what was trusted.
    elsewhere = tmp_path / "elsewhere.json"
    shutil.copy(file, elsewhere)
    elsewhere.write_text(elsewhere.read_text().replace('"args"', '"env": {"X": "1"}, "args"'))
    file.unlink()
    file.symlink_to(elsewhere)
    assert await status_of(work, "notes") == "untrusted"
    file.unlink()
    project(work, notes=definition)
    # The project is moved.
    moved = work.rename(tmp_path / "moved")
    assert await status_of(moved, "notes") == "untrusted"


async def test_what_a_project_says_of_itself_widens_nothing(tmp_path: Path) -> None:
    """C3: `approval = "approve"`, `required` of a stranger count for nothing; the trust file is the user's own."""
    argv = bare()
    project(tmp_path, notes={"command": argv[0], "args": list(argv[1:]), "approval": "approve", "required": True})
    (tmp_path / ".tertulia").mkdir()
    (tmp_path / ".tertulia/config.toml").write_text(
        f'[mcp_servers.other]\ncommand = "{argv[0]}"\napproval = "approve"\nrequired = true\n'
    )
    async with serving(tmp_path, []) as server:
        status = await ready(server, "notes", "other")
        assert [status[name]["status"] for name in ("notes", "other")] == ["untrusted", "untrusted"]
        assert (await server.say("hello"))["status"] == "completed"


async def test_a_hint_of_a_projects_server_is_not_believed_even_when_it_is_trusted(tmp_path: Path) -> None:
    """Fine print: read-only by a server of the *user's own* configuration runs; every other call asks."""
    argv = bare("--define", define(tmp_path / "t.json", tool("echo", readOnlyHint=True)))
    definition = {"command": argv[0], "args": list(argv[1:])}
    project(tmp_path, notes=definition)
    assert tertulia(tmp_path, "mcp", "trust", "notes", "--yes").returncode == 0
    configure(tmp_path, mine=definition)
    replies = [calling("notes__echo", text="x"), calling("mine__echo", text="x"), "Done."]
    async with serving(tmp_path, replies, "-a", "never") as server:
        await ready(server, "notes", "mine")
        await server.say("go")
        ends = [event["data"]["success"] for event in server.events if event["type"] == "tool_call_end"]
        assert ends == [False, True]


async def test_a_trust_file_that_others_can_write_trusts_nobody(tmp_path: Path) -> None:
    """C2: broken, or written by others: nothing is trusted."""
    argv = bare()
    project(tmp_path, notes={"command": argv[0], "args": list(argv[1:])})
    assert tertulia(tmp_path, "mcp", "trust", "notes", "--yes").returncode == 0
    (file,) = (tmp_path / "home").rglob("mcp-trust.json")
    assert file.stat().st_mode & 0o777 == 0o600
    whole = file.read_bytes()
    for spoil in (lambda: file.chmod(0o666), lambda: file.write_bytes(whole[:-5]), lambda: file.write_bytes(b"[]")):
        spoil()
        assert await status_of(tmp_path, "notes") == "untrusted"
        file.write_bytes(whole)
        file.chmod(0o600)
    assert await status_of(tmp_path, "notes") == "ready"


# ---- bad input


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[mcp_servers.a\n", "line 1"),
        ('[mcp_servers.a]\ncommand = "x"\n[mcp_servers.a]\ncommand = "y"\n', "line 3"),
        ('[mcp_servers.a]\ncommand = "x"\nurl = "http://x/"\n', "mcp_servers.a"),
        ("[mcp_servers.a]\n", "mcp_servers.a"),
        ('[mcp_servers.a]\ncomand = "x"\n', "command"),
        ("[mcp_servers.a]\ncommand = 1\n", "mcp_servers.a.command"),
        ('[mcp_servers.a]\ncommand = "x"\nargs = "y"\n', "mcp_servers.a.args"),
        ('[mcp_servers.a]\nurl = "ftp://x/"\n', "mcp_servers.a.url"),
        ('[mcp_servers.a]\nurl = "http://me:canary-4711-of-a-token@x/"\n', "mcp_servers.a.url"),
        ('[mcp_servers.a]\ncommand = "x"\nstartup_timeout_sec = -1\n', "startup_timeout_sec"),
        ('[mcp_servers.a]\ncommand = "x"\napproval = "always"\n', "mcp_servers.a.approval"),
        ('[mcp_servers.a]\ncommand = "x"\nshare = "world"\n', "mcp_servers.a.share"),
        ('mcp_servers = "x"\n', "mcp_servers"),
        ('on_tool_conflict = "maybe"\n', "on_tool_conflict"),
        ("[limits]\nmcp_concurrency = 0\n", "mcp_concurrency"),
        ('[mcp_servers.a]\nurl = "http://x/"\nhttp_headers = {X = "a\\nb: canary-4711-of-a-token"}\n', "http_headers"),
    ],
)
def test_a_broken_configuration_is_one_sentence_and_exit_2(tmp_path: Path, text: str, expected: str) -> None:
    """Bad input: file, line, what was expected; never a value."""
    configure(tmp_path, text)
    for verb in (("mcp", "ls"), ("exec", "-m", "scripted/x.json", "hello")):
        done = tertulia(tmp_path, *verb)
        assert done.returncode == 2, (verb, done)
        assert expected in done.stderr, done.stderr
        assert "config.toml" in done.stderr
        assert SECRET not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


TWICE = '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}'


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"mcpServers": []}', '{"mcpServers": {"a": 1}}', '{"mcpServers": {"a": {}}}', "\x00", TWICE]
)
def test_a_broken_dot_mcp_is_told_with_its_place(tmp_path: Path, text: str) -> None:
    """Bad input: broken JSON, duplicate server names."""
    (tmp_path / ".mcp.json").write_text(text)
    done = tertulia(tmp_path, "mcp", "ls")
    assert ".mcp.json" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 2)


async def test_a_bad_name_is_that_servers_start_error(tmp_path: Path) -> None:
    """S000-31."""
    configure(tmp_path, '[mcp_servers."bad name"]\ncommand = "x"\n', good=of(bare("--tools", "echo")))
    async with serving(tmp_path, []) as server:
        status = await ready(server, "good")
        assert (status["bad name"]["status"], status["good"]["status"]) == ("failed", "ready")


def test_no_verb_shows_a_secret(tmp_path: Path) -> None:
    """`mcp ls`, `tools`, `test`, `doctor`: names of variables, never values."""
    shouts = {"command": "/bin/sh", "args": ["-c", "echo $API_TOKEN >&2; exit 3"], "env": {"API_TOKEN": SECRET}}
    web = {"url": "http://127.0.0.1:9/mcp", "http_headers": {"Authorization": f"Bearer {SECRET}"}}
    configure(tmp_path, a=shouts, b=web, c=of(bare("--token", SECRET)))
    for verb in (
        ("mcp", "ls"), ("mcp", "ls", "--start"), ("mcp", "ls", "--start", "--json"), ("mcp", "test", "a"),
        ("mcp", "test", "b", "--json"), ("mcp", "test", "c"), ("mcp", "tools"), ("doctor",),
    ):  # fmt: skip
        done = tertulia(tmp_path, *verb)
        assert SECRET not in done.stdout + done.stderr, verb
        assert "Traceback" not in done.stderr


# ---- the end


async def test_a_killed_host_leaves_no_server_and_no_descendant(tmp_path: Path) -> None:
    """A18, Fine print: after kill -9 of the host no server or descendant lives after 5 s."""
    tag = f"tertulia-kill-{os.getpid()}"
    servers = {
        "plain": of(bare("--tag", f"{tag}-1")),
        "daemon": of(hostile("daemon", "--tag", f"{tag}-2")),
        "deaf": of(hostile("ignores-sigterm", "--tag", f"{tag}-3")),
        "shell": {"command": "/bin/sh", "args": ["-c", " ".join(bare("--tag", f"{tag}-4")) + " & wait"]},
    }
    configure(tmp_path, **servers)
    async with serving(tmp_path, []) as server:
        await ready(server, "plain", "daemon", "deaf")
        assert len(tagged(tag)) >= 4
        server.process.send_signal(signal.SIGKILL)
        await server.process.wait()
        await gone_within(5, tag)


@pytest.mark.parametrize("how", ["eof", "sigterm"])
async def test_a_host_that_ends_takes_8_s_at_most_with_servers_that_will_not(tmp_path: Path, how: str) -> None:
    """Fine print: shutdown 8 s; in parallel, whole trees."""
    tag = f"tertulia-end-{how}-{os.getpid()}"
    configure(tmp_path, **{f"s{n}": of(hostile("ignores-sigterm", "--tag", f"{tag}-{n}")) for n in range(4)})
    async with serving(tmp_path, []) as server:
        await ready(server, *(f"s{n}" for n in range(4)))
        time_taken = QuietTime()
        if how == "eof":
            await server.end()
        else:
            server.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(HANG_S):
                await server.process.wait()
        assert time_taken.seconds < 10
        assert not tagged(tag)


async def test_after_a_kill_nothing_of_a_headers_only_call_is_on_disk(tmp_path: Path) -> None:
    """Storage, HARDENING target 7: arguments, results and stderr of servers, after a crash as well."""
    canary = "canary-0815-of-a-call"
    configure(tmp_path, a=of(bare()), b=of(hostile("loud")))
    replies = [calling("a__echo", text=canary), calling("b__fail", text=canary), calling("a__slow", seconds=50)]
    async with serving(tmp_path, replies, "--storage", "headers-only") as server:
        await ready(server, "a", "b")
        await server.ask("conversation/message", conversation_id="root", text=canary)
        await server.until(lambda line: '"tool": "slow"' in json.dumps(line))
        server.process.send_signal(signal.SIGKILL)
        await server.process.wait()
    (tmp_path / "script.json").unlink()
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or canary.encode() not in file.read_bytes(), file
