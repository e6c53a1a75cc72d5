"""The pages say what is so: every example runs, every complete table is complete, every link leads somewhere."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

import tertulia
from tertulia import errors
from tertulia.cli.main import VERBS, program
from tertulia.executors.command.definition import KEYS
from tertulia.executors.prompt.history_prompt import TaskHistorySettings
from tertulia.mcp.config.definition import Http, ServerDefinition, Stdio
from tertulia.mcp.config.server_table import is_known_key
from tertulia.mcp.view import NamedView
from tertulia.policy.approval_policy import PRESETS, UNTRUSTED
from tertulia.policy.approvals.approval_request import GrantSubject, RequestedAction
from tertulia.policy.approvals.grants import Grant
from tertulia.policy.limits import Limits
from tertulia.policy.rights import to_wire
from tertulia.protocol.conversation_fields import TOOL_SWITCHES
from tertulia.protocol.events import EVENT_TYPES
from tertulia.protocol.inputs import ContextFields, NewConversation
from tertulia.protocol.storage import storage_to_wire
from tertulia.protocol.tool_events import ApprovalRequest
from tertulia.scheduler.reply import Reply
from tertulia.server.jsonrpc import messages
from tertulia.session import operations
from tertulia.session.settings.values import PYTHON_ONLY
from tertulia.testing import RecordedEvents, ScriptedModel, say
from tests.deadlines import HANG_S
from tests.docs import field_tables, pages
from tests.docs.pages import PAGES, README, ROOT, names, table
from tests.session.merging.sides import open_with_worktree
from tests.session.worktrees.repository import committed
from tests.tables import each_row
from tests.test_exported_members import CONVERSATION_FOR_SURFACES, SESSION_FOR_SURFACES

TIMEOUT_S = HANG_S
OPEN_FIELDS = "session.md#what-a-conversation-can-be-given"


def each(*pages: Path) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", pages, ids=lambda page: page.relative_to(ROOT).as_posix())


each_page = each(README, *PAGES)


# ── examples ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def surroundings(tmp_path: Path) -> dict[str, str]:
    """The environment of a reader who has installed Tertulia and nothing else."""
    binaries, home = tmp_path / "bin", tmp_path / "home"
    binaries.mkdir()
    home.mkdir()
    (tmp_path / "work").mkdir()
    installed = binaries / "tertulia"
    installed.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tertulia "$@"\n')
    installed.chmod(0o755)
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    # The keyring: never that of the person who runs the tests.
    keyring = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT / "src"), **keyring}


def run(command: list[str], cwd: Path, env: dict[str, str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Standard error is part of what is printed."""
    return subprocess.run(
        command,
        input=text,
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@each(*(page for page in (README, *PAGES) if pages.program(page).strip()))
def test_the_python_of_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path, surroundings: dict[str, str]) -> None:
    runner = str(Path(__file__).with_name("run_page.py"))
    command = [sys.executable, "-W", "error::ResourceWarning", runner, page.name]
    done = run(command, tmp_path / "work", surroundings, pages.program(page))
    assert done.returncode == 0, f"{page.name}:\n{done.stdout}"


@each(*(page for page in (README, *PAGES) if pages.transcript(page)))
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path, surroundings: dict[str, str]) -> None:
    for step in pages.transcript(page):
        done = run(["/bin/sh", "-c", step.command], tmp_path / "work", surroundings)
        assert pages.fits(done.stdout, step.expected), f"$ {step.command}\n{done.stdout}\ninstead of\n{step.expected}"


# ── links ────────────────────────────────────────────────────────────────────────────────────────────────────


@each_page
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for address in pages.links(page):
        if address.startswith("https://"):
            continue
        path, _, anchor = address.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {address}"
        assert not anchor or anchor in pages.anchors(target), f"{page.name} links to {address}"


def test_the_index_names_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    assert sorted(link for link in pages.links(index) if "/" not in link) == sorted(
        page.name for page in PAGES if page != index
    )


# ── sessions ─────────────────────────────────────────────────────────────────────────────────────────────────


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_every_member_of_a_session_and_of_a_conversation_is_described() -> None:
    session = [name for row in table("session.md", "of a session", "") for name in names(row[0])]
    shown = {re.split(r"[(]", name)[0].removeprefix("Session.") for name in session}
    # Which say themselves that they are not for users.
    assert shown == public(tertulia.Session) - {"parts", *SESSION_FOR_SURFACES}
    conversation = [name for row in table("session.md", "of a conversation", "") for name in names(row[0])]
    assert {name.partition("(")[0] for name in conversation} == public(tertulia.Conversation) - {
        *CONVERSATION_FOR_SURFACES
    }


def test_every_field_of_a_reply_and_of_open_is_described() -> None:
    reply = [name for row in table("session.md", "of a reply", "") for name in names(row[0])]
    assert sorted(reply) == sorted([*Reply.__struct_fields__, "output", "raise_for_status()"])
    fields = [name for row in table("session.md", "field", "what it is") for name in names(row[0])]
    assert sorted(fields) == sorted([*NewConversation.__struct_fields__, "tools"])


async def by_itself(session: tertulia.Session) -> None:
    """Nobody has to do anything."""


ENDINGS: dict[str, tuple[Any, Callable[[tertulia.Session], Awaitable[Any]]]] = {
    "the model had nothing more to do": ("Yes.", by_itself),
    "the model, or the way to it, failed": (errors.ModelError("overloaded"), by_itself),
    "the answer does not fit what was [asked for](#typed-answers)": ("Yes.", by_itself),
    "`task_timeout_s` has passed": (None, by_itself),
    "it was interrupted, or no caller waits for it any more": (
        None,
        lambda session: session.conversations()[-1].interrupt(),
    ),
    "its conversation was closed": (None, lambda session: session.conversations()[-1].close()),
    "its session was closed": (None, lambda session: session.close()),
}


@each_row("row", table("session.md", "what happened", "`status`", "`error.code`", "last event"), ids=lambda row: row[0])
async def test_a_task_ends_as_the_table_says(row: tuple[str, ...]) -> None:
    reply, act = ENDINGS[row[0]]
    never = say("Never.", gate=asyncio.Event())
    settings = tertulia.Settings(model=ScriptedModel([never if reply is None else reply] * 2))
    schema = {"type": "object"} if "invalid_output" in row[2] else None
    limits = {"task_timeout_s": 0.01} if "timeout" in row[2] else {}
    async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
        conversation = await session.open(limits=limits)
        asking = asyncio.create_task(conversation.message("Well?", output_schema=schema))
        await events.until("task_started")
        await asyncio.wait_for(act(session), HANG_S)
        answer = await asyncio.wait_for(asking, HANG_S)
        of_task = [event for event in events.drain() if event.task_id == answer.task_id and event.seq is not None]
    last = of_task[-1]
    shown = [last.type] if last.type == "task_complete" else [last.type, last.data.reason]
    code = [answer.error.code] if answer.error else []
    assert ([answer.status], code, shown) == tuple(map(names, row[1:]))


async def test_a_task_is_stopped_when_nobody_waits_for_it_any_more() -> None:
    settings = tertulia.Settings(model=ScriptedModel([say("Never.", gate=asyncio.Event())]))
    async with tertulia.Session.start(settings) as session, RecordedEvents(session) as events:
        asking = asyncio.create_task(session.root.message("Well?"))
        await events.until("task_started")
        asking.cancel()
        aborted = await events.until("turn_aborted")
    assert aborted.data.reason == "interrupted"


# ── rights ───────────────────────────────────────────────────────────────────────────────────────────────────


@each_row("page", field_tables.PAGES)
def test_the_tables_of_conversation_fields_are_those_of_now(page: str) -> None:
    """Renew them with `python -m tests.docs.field_tables`."""
    assert pages.text(page) == field_tables.renewed(page, pages.text(page))


def test_the_page_of_tools_names_the_switch_of_each() -> None:
    shown = {name: row[2] for row in table("tools.md", "tool", "what it does", "who has it") for name in names(row[0])}
    for name, switch in TOOL_SWITCHES.items():
        assert f"`{name}=" in shown[switch.tools[0]], (
            f"docs/tools.md does not say what {name} does to {switch.tools[0]}"
        )


def test_the_approval_policies_are_those_shown() -> None:
    rows = table("rights.md", "name", "`auto_run`: what runs unasked", "`may_ask`", "`retry_outside_on_failure`")
    shown = {names(name)[0]: (*names(run), ask == "true", retry == "true") for name, run, ask, retry in rows}
    assert shown == {name: msgspec.structs.astuple(policy) for name, policy in PRESETS.items()}


def test_the_storage_policies_are_those_shown() -> None:
    rows = table("rights.md", "policy", "in Python", "what may be written down")
    assert [names(row[1])[0] for row in rows] == ["Full()", "Ttl(seconds)", "HeadersOnly()", "NoStorage()"]
    known = (tertulia.Full(), tertulia.Ttl(5), tertulia.HeadersOnly(), tertulia.NoStorage())
    assert [json.loads(names(row[0])[0].replace("seconds", "5.0")) for row in rows] == [
        storage_to_wire(policy) for policy in known
    ]


# ── events ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_event_type_is_listed_once_with_its_data() -> None:
    sent = table("events.md", "type", "when", "data")
    shown = {names(kind)[0]: ("~" in kind, names(data)) for kind, _, data in sent}
    assert shown == {kind: (not data.durable, list(data.__struct_fields__)) for kind, data in EVENT_TYPES.items()}
    assert len(shown) == len(sent)


def test_every_event_type_is_sent_by_something() -> None:
    source = "".join(
        path.read_text(encoding="utf-8")
        for path in (ROOT / "src" / "tertulia").rglob("*.py")
        if path.parent.name != "protocol"
    )
    unsent = {kind for kind, data in EVENT_TYPES.items() if not re.search(rf"\b{data.__name__}\(", source)}
    assert unsent == set()


def test_every_field_of_the_envelope_is_described() -> None:
    rows = table("events.md", "field", "what it is")
    assert [name for row in rows for name in names(row[0])] == list(tertulia.Event.__struct_fields__)


# ── configuration ────────────────────────────────────────────────────────────────────────────────────────────


def default_shown(value: Any, unset: str) -> str:
    return unset if value is None else f"`{json.dumps(value)}`"


def test_every_setting_is_listed_with_its_default() -> None:
    rows = table("configuration.md", "setting", "default", "what it is")
    expected: dict[str, str] = {}
    for name, value in msgspec.structs.asdict(tertulia.Settings()).items():
        right = name in ("approval_policy", "sandbox", "storage_policy")
        expected[name] = (
            "see below" if name == "limits" else default_shown(to_wire(name, value) if right else value, "unset")
        )
    assert {names(row[0])[0]: row[1] for row in rows} == expected
    assert {names(row[0])[0] for row in rows if "Python" in row[2] and "only" in row[2]} == PYTHON_ONLY


def test_every_limit_is_listed_with_its_default() -> None:
    rows = table("configuration.md", "limit", "default", "what it bounds")
    assert {names(row[0])[0]: row[1] for row in rows} == {
        name: default_shown(value, "none") for name, value in msgspec.structs.asdict(Limits()).items()
    }
    in_history = {names(row[0])[0]: row[1] for row in table("history.md", "limit", "default", "")}
    assert in_history == {"max_history_tokens": "no limit", "max_history_items": f"{Limits().max_history_items:,}"}


def test_every_key_of_an_mcp_server_and_of_a_view_is_listed() -> None:
    def keys(*header: str) -> set[str]:
        return {name for row in table("mcp.md", *header) for name in names(row[0])}

    known = {key for key in keys("key", "default", "what it is") if is_known_key(key)}
    assert known == keys("key", "default", "what it is")
    # `scopes` stands beside `oauth`, as in Codex.
    assert len(known) == 1 + len(msgspec.structs.fields(Stdio)) + len(msgspec.structs.fields(Http)) + len(
        set(ServerDefinition.__struct_fields__) - {"name", "transport", "origin", "source"}
    )
    assert keys("key of a view", "default", "what it is") == set(NamedView.__struct_fields__) - {"name"}


def test_every_key_of_an_executor_is_listed() -> None:
    rows = table("executors.md", "key of an executor", "default", "what it is")
    assert sorted(name for row in rows for name in names(row[0])) == sorted(KEYS)
    rows = table("executors.md", "key of `history`", "default", "what it is")
    shown = {names(row[0])[0]: names(row[1])[0] for row in rows}
    assert shown == {name: str(value) for name, value in msgspec.structs.asdict(TaskHistorySettings()).items()}


# ── the command line ─────────────────────────────────────────────────────────────────────────────────────────


def options(command: click.Command) -> set[str]:
    return {name for option in command.params if isinstance(option, click.Option) for name in option.opts}


def listed_options(*header: str) -> set[str]:
    return {name.split()[0] for row in table("command-line.md", *header) for name in names(row[0])}


def test_every_command_and_every_option_is_listed() -> None:
    rows = table("command-line.md", "command", "what it does")
    assert [names(row[0])[0].split()[1] for row in rows] == list(VERBS)
    everywhere = options(program) - {"--version"}
    assert listed_options("flag", "") == everywhere
    verb = program.get_command(click.Context(program), "exec")
    assert verb is not None
    assert listed_options("option of `exec`", "") == options(verb) - everywhere


# ── JSON-RPC ─────────────────────────────────────────────────────────────────────────────────────────────────

OPERATIONS = {names(row[0])[0]: row[1:] for row in table("json-rpc.md", "operation", "parameters", "answer")}


def parameters(kind: type[msgspec.Struct]) -> list[str]:
    shared = ContextFields.__struct_fields__ if issubclass(kind, ContextFields) else ()
    fields = [field for field in msgspec.structs.fields(kind) if field.name not in shared]
    return [field.name if field.required else f"{field.name}?" for field in fields]


def test_every_operation_is_listed_with_its_parameters() -> None:
    expected = {name: parameters(operation.kind) for name, operation in operations.OPERATIONS.items()}
    assert {name: names(row[0]) for name, row in OPERATIONS.items()} == expected
    with_fields = {name for name, row in OPERATIONS.items() if OPEN_FIELDS in row[0]}
    assert with_fields == {n for n, o in operations.OPERATIONS.items() if issubclass(o.kind, ContextFields)}


def answer_of(name: str) -> list[str]:
    cell = OPERATIONS[name][1]
    return answer_of(names(cell)[0]) if cell.startswith("as ") else names(cell)


async def asked_for(session: tertulia.Session, word: str) -> tuple[ApprovalRequest, asyncio.Task[Any]]:
    """A request that waits, and who waits for its answer."""
    queue, arrived = session.parts.command_services.approvals, asyncio.Event()
    request = RequestedAction(
        kind="exec",
        conversation_id=session.root.id,
        title=f"run: {word}",
        detail="",
        subject=GrantSubject((word,), "/", "core", "read-only"),
    )
    with queue.attended():
        asking = asyncio.create_task(queue.ask(request, UNTRUSTED, lambda event: arrived.set()))
        await arrived.wait()
    (waiting,) = await session.approvals.pending()
    return waiting, asking


async def settled_and_granted(session: tertulia.Session) -> tuple[ApprovalRequest, Grant]:
    """A request that was allowed for longer, and what was granted."""
    waiting, asking = await asked_for(session, "x")
    await session.approvals.resolve(waiting.approval_id, "allow", scope="session")
    await asking
    return waiting, (await session.approvals.grants())[0]


async def of_an_agent(session: tertulia.Session) -> dict[str, dict[str, Any]]:
    """The parameters of what only agents have; each draws before it is asked."""
    agent = await session.open(agent={"name": "ada", "archetype": "employee"})
    agent_registry = session.parts.agent_registry
    agent_registry.canvases.update(agent.id, "<p>")
    token = {"token": agent_registry.token(agent.id)}
    shown = {name: {"conversation_id": agent.id} for name in ("canvas/get", "canvas/clear")}
    draw = {**token, "tool": "canvas_update", "arguments": {"html": "<p>"}}
    return {**shown, "internal/validate_token": token, "internal/call": draw}


async def first_request(host: tertulia.Host, session: tertulia.Session) -> int:
    """The number of the record of a request to a model."""
    outline = (await operations.call(host, None, "record/outline", {"session_id": session.id})).answer
    return outline.requests[0].n


async def recorded(session: tertulia.Session) -> str:
    """The id of a checkpoint, after which a file was changed."""
    from tertulia.session.checkpoints.windows import Window

    root = session.parts.conversations.root
    place = session.parts.checkpoints._workspaces.of(root, root.storage)
    about: dict[str, Any] = {"session_id": session.id, "conversation_id": root.id, "began": 0.0, "before": ""}
    window, _ = await place.begin(Window(id="0badcafe", cause="task", **about))
    Path(str(session.settings.cwd), "a.txt").write_text("changed\n")
    await place.end(window)
    return window.id


async def test_every_operation_answers_with_the_fields_shown(tmp_path: Path) -> None:
    gate = asyncio.Event()
    model = ScriptedModel([say("Late.", gate=gate), say("Yes.", repeat=True)])
    host = tertulia.Host(tertulia.Settings(model=model, cwd=str(committed(tmp_path).top), checkpoints=True))
    own = await host.start()
    checkpoint = await recorded(own)

    async def answered(name: str, **params: Any) -> dict[str, Any]:
        return msgspec.to_builtins((await asyncio.wait_for(operations.call(host, own, name, params), HANG_S)).answer)

    settled, grant = await settled_and_granted(own)
    waiting, asking = await asked_for(own, "y")
    async with RecordedEvents(own) as events:
        conversation = {"conversation_id": (await answered("conversation/open"))["conversation_id"]}
        task = await answered("conversation/message", **conversation, text="Hello", detach=True)
        assert list(task) == ["task_id"]
        await events.until("task_started")
        original = {
            "conversation/steer": {**conversation, "text": "Faster"},
            "conversation/take_back": conversation,
            "conversation/message": {**conversation, "text": "Hello again"},
            "conversation/merge": {"conversation_id": (await open_with_worktree(own)).id},
            "session/resume": {"session_id": own.id},
            **{f"record/{name}": {"session_id": own.id} for name in ("outline", "page")},
            "record/board": {"session_id": own.id, "at_n": 5},
            "record/search": {"query": "Hello"},
            "checkpoint/diff": {"id": checkpoint},
            "checkpoint/restore": {"id": checkpoint},
            "record/fork": {"session_id": own.id},
            "record/delete": msgspec.to_builtins(await answered("record/fork", session_id=own.id)),
            "record/prompt": {"session_id": own.id, "n": await first_request(host, own)},
            "approval/get": {"approval_id": waiting.approval_id},
            "approval/resolve": {"approval_id": settled.approval_id, "decision": "allow"},
            "approval/revoke": {"grant_id": grant.grant_id},
            **await of_an_agent(own),
        }
        await answered("conversation/message", **conversation, text="Not yet", detach=True)
        usual = {"conversation_id": conversation, "task_id": task}
        # Steering and taking back need a task that runs; after closing there is nothing left to ask.
        early = ("conversation/take_back", "conversation/steer")
        for name in sorted(OPERATIONS, key=lambda name: (name not in early, "close" in name, name[0] == "s")):
            fields = operations.OPERATIONS[name].kind.__struct_fields__
            params = original.get(name) or next((usual[field] for field in fields if field in usual), {})
            fields_shown = [field for field in answer_of(name) if not field.endswith("?")]
            assert list(await answered(name, **params)) == fields_shown, name
            if name not in early:
                gate.set()
    await host.close()
    with pytest.raises(errors.ApprovalDeniedError):
        await asking


def test_every_error_is_listed_with_its_number() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.TertuliaError)]
    expected = {
        kind.code: json.loads(messages.encode_error(1, kind("")))["error"]["code"]
        for kind in kinds
        if kind is not errors.TertuliaError
    }
    assert {
        names(code)[0]: int(number) for code, number, _ in table("json-rpc.md", "code", "number", "when")
    } == expected
