"""`tertulia conv`: opens, messages, reads, merges and closes conversations of a stored session (S004-37).

Each command is one operation; `call` is any conversation tool, called as the root conversation would.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, get_args

import click
import msgspec

from tertulia.cli.exec.command import choose_view, read_prompt
from tertulia.cli.exec.run_message import MessageRequest, run_message
from tertulia.cli.global_flags import GlobalFlags, global_flags, verb_group, whole_number
from tertulia.cli.output.tables import conversation_rows, write_merge, write_tree
from tertulia.cli.output.terminal import TerminalOutput, json_line
from tertulia.cli.session_lookup import LAST, ResumeRequest, find_open_conversation, find_stored_session, restart_events
from tertulia.conversation.user_message import to_user_message
from tertulia.protocol.events import WarningEvent
from tertulia.protocol.inputs import TextInput
from tertulia.protocol.tool_spec import ALL_CONV_TOOLS
from tertulia.protocol.validation_text import explain_decoding
from tertulia.protocol.worktree import WorkspaceKind
from tertulia.session.host import Host
from tertulia.session.operations import call as operate
from tertulia.session.session import Session
from tertulia.session.settings.settings import LoadedSettings

T = TypeVar("T")

_MORE = """
\b
Examples:
  tertulia conv ls --last
  tertulia conv create --last --title reviewer "Review src/app.py"
  tertulia conv send 81bc "And the tests?" --session 3f2a
  tertulia conv call conv_list '{}' --last
"""
_MORE_LS = """
\b
Examples:
  tertulia conv ls --last
  tertulia conv ls --session 3f2a --json
"""
_MORE_CREATE = """
\b
Examples:
  tertulia conv create --last --title reviewer "Review src/app.py"
  tertulia conv create --last --instructions "You review Python code. Be brief."
  git diff | tertulia conv create --session 3f2a -
"""
_MORE_SEND = """
\b
Examples:
  tertulia conv send root "Where were we?" --last
  git diff | tertulia conv send 81bc - --session 3f2a
"""
_MORE_HISTORY = """
\b
Examples:
  tertulia conv history root --last
  tertulia conv history 81bc --session 3f2a --limit 4 --json
"""
_MORE_DESTROY = """
\b
Examples:
  tertulia conv destroy 81bc --last
"""
_MORE_MERGE = """
\b
Examples:
  tertulia conv merge 81bc --last
  tertulia conv merge 81bc --session 3f2a --mode commit

\b
Exit codes:
  0  merged, or there was nothing to merge
  1  refused, and nothing was changed; a conflict names each path
  2  usage or configuration
"""
_MORE_CALL = """
\b
Examples:
  tertulia conv call conv_list '{}' --last
  tertulia conv call conv.create '{"user_instruction": "Review src/app.py"}' --session 3f2a
  tertulia conv call conv_history - --last < arguments.json

\b
Exit codes:
  0  the tool answered
  1  it refused or failed; its answer says why
  2  usage or configuration
"""


def with_session_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: which session it is about, and the flags that hold everywhere."""
    command = click.option("--last", is_flag=True, help=LAST)(global_flags(command))
    return click.option("which", "--session", metavar="ID", help="The session, or the beginning of its ID.")(command)


_ABOUT = """Open, message and close conversations of a stored session.

C is `root`, the id of a conversation, or its beginning.
"""
command = verb_group("conv", _ABOUT, _MORE)


@command.command("ls", epilog=_MORE_LS)
@click.option("as_json", "--json", is_flag=True, help="One JSON object a line.")
@with_session_options
@click.pass_obj
def ls(flags: GlobalFlags, *, which: str | None, last: bool, as_json: bool) -> int:
    """Show the open conversations, root first."""
    loaded = flags.load()

    async def act(host: Host, session: Session) -> Any:
        await _write_warnings(loaded, session)
        return (await operate(host, session, "conversation/list", {})).answer["conversations"]

    infos = _run(flags, loaded, (which, last), act)
    if as_json:
        for info in infos:
            sys.stdout.buffer.write(json_line(info))
    else:
        write_tree(_out(loaded), conversation_rows(infos))
    return 0


@command.command("create", epilog=_MORE_CREATE)
@click.argument("words", nargs=-1, metavar="[TEXT|-]")
@click.option("--title", metavar="TITLE", help="A short name for lists.")
@click.option("--instructions", metavar="TEXT", help="Its base instructions.")
@click.option("--workspace", type=click.Choice(get_args(WorkspaceKind)), help="worktree: a git worktree of its own.")
@click.option("as_json", "--json", is_flag=True, help="Print events, one JSON object a line.")
@with_session_options
@click.pass_obj
def create(
    flags: GlobalFlags,
    *,
    words: Sequence[str],
    title: str | None,
    instructions: str | None,
    workspace: str | None,
    which: str | None,
    last: bool,
    as_json: bool,
) -> int:
    """Open a conversation and send it a message.

    Without TEXT it is only opened and its id printed. It is a child of root, within what the session allows.
    """
    # Of the new conversation: for the whole session it would erase what others have stored.
    storage = flags.values.pop("storage_policy", None)
    loaded = flags.load()
    params = {"title": title, "base_instructions": instructions, "storage_policy": storage, "workspace": workspace}
    fields = {name: value for name, value in params.items() if value is not None}
    if words:
        request = MessageRequest(_text_input(words), opens=fields)
        return _run_message(flags, loaded, (which, last), request, as_json=as_json)

    async def act(host: Host, session: Session) -> Any:
        return (await operate(host, session, "conversation/open", fields)).answer

    opened = _run(flags, loaded, (which, last), act)
    if as_json:
        sys.stdout.buffer.write(json_line(opened))
    else:
        _out(loaded).line(opened.conversation_id)
    return 0


@command.command("send", epilog=_MORE_SEND)
@click.argument("conversation", metavar="C")
@click.argument("words", nargs=-1, metavar="TEXT|-")
@click.option("as_json", "--json", is_flag=True, help="Print events, one JSON object a line.")
@with_session_options
@click.pass_obj
def send(
    flags: GlobalFlags, *, conversation: str, words: Sequence[str], which: str | None, last: bool, as_json: bool
) -> int:
    """Send a message to a conversation and print the answer."""
    loaded = flags.load()
    request = MessageRequest(_text_input(words), conversation_id=conversation)
    return _run_message(flags, loaded, (which, last), request, as_json=as_json)


@command.command("history", epilog=_MORE_HISTORY)
@click.argument("conversation", metavar="C")
@click.option("--limit", metavar="N", type=whole_number(1), help="Only the newest N messages.")
@click.option("as_json", "--json", is_flag=True, help="One JSON object a line.")
@with_session_options
@click.pass_obj
def history(
    flags: GlobalFlags, *, conversation: str, limit: int | None, which: str | None, last: bool, as_json: bool
) -> int:
    """Show the messages of a conversation, oldest first."""
    loaded = flags.load()

    async def act(host: Host, session: Session) -> Any:
        params = {"conversation_id": find_open_conversation(session, conversation), "limit": limit}
        return (await operate(host, session, "conversation/history", params)).answer["entries"]

    out = _out(loaded)
    for entry in _run(flags, loaded, (which, last), act):
        if as_json:
            sys.stdout.buffer.write(json_line(entry))
        else:
            out.line((f"{entry.role:10}", "cyan"), entry.text or "(pictures)")
    return 0


@command.command("destroy", epilog=_MORE_DESTROY)
@click.argument("conversation", metavar="C")
@with_session_options
@click.pass_obj
def destroy(flags: GlobalFlags, *, conversation: str, which: str | None, last: bool) -> int:
    """Close a conversation for good. Its messages stay in the record."""
    loaded = flags.load()

    async def act(host: Host, session: Session) -> str:
        params = {"conversation_id": find_open_conversation(session, conversation)}
        worktree = (await operate(host, session, "conversation/close", params)).answer.kept_worktree
        stays = "" if worktree is None else f"; its worktree {worktree} stays: something in it is not committed"
        return f"{params['conversation_id']} is closed{stays}"

    _out(loaded).line(_run(flags, loaded, (which, last), act))
    return 0


@command.command("merge", epilog=_MORE_MERGE)
@click.argument("conversation", metavar="C")
@click.option(
    "--mode",
    type=click.Choice(["apply", "commit"]),
    default="apply",
    show_default=True,
    help="Change files only, or commit them as well.",
)
@click.option("as_json", "--json", is_flag=True, help="Print the answer as one JSON object.")
@with_session_options
@click.pass_obj
def merge(flags: GlobalFlags, *, conversation: str, mode: str, which: str | None, last: bool, as_json: bool) -> int:
    """Bring the worktree of a conversation into the workspace of the one that opened it.

    All of it or nothing. C may be closed, as long as its branch is there; then give its whole id. At a terminal you are
    asked where the approval policy asks about patches.
    """
    loaded = flags.load()
    # Imported here: no other verb of this file asks.
    from tertulia.cli.exec.terminal_approver import TerminalApprover, TerminalInput, attended

    keyboard = TerminalInput.open((sys.stdin, sys.stderr))

    async def act(host: Host, session: Session) -> Any:
        # A merge that was killed may have been taken back just now.
        await _write_warnings(loaded, session)
        is_open = any(one.id.startswith(conversation) for one in session.conversations())
        named = find_open_conversation(session, conversation) if is_open else conversation
        merging = operate(host, session, "conversation/merge", {"conversation_id": named, "mode": mode})
        if keyboard is None:
            return (await merging).answer
        notes = TerminalOutput(sys.stderr, loaded.environment.variables)
        return (await attended(session, TerminalApprover(keyboard, notes, lambda: None), merging)).answer

    answer = _run(flags, loaded, (which, last), act)
    if as_json:
        sys.stdout.buffer.write(json_line(answer))
    else:
        write_merge(_out(loaded), answer)
    return 0


@command.command("call", epilog=_MORE_CALL)
@click.argument("name")
@click.argument("arguments", metavar="JSON|-", default="{}")
@with_session_options
@click.pass_obj
def call(flags: GlobalFlags, *, name: str, arguments: str, which: str | None, last: bool) -> int:
    """Call a conversation tool as the root conversation would.

    NAME is conv_create, conv_send, conv_list, conv_history, conv_destroy, or conv_merge where root has a child with a
    worktree; a dot instead of the underscore will do.
    Prints the tool's JSON. Nothing is added to the root's own history.
    """
    loaded = flags.load()
    text = read_prompt([arguments])
    _check(name, text)

    async def act(host: Host, session: Session) -> tuple[str, bool]:
        result = await session.root.call_conv_tool(name, text)
        return result.text, result.success

    answer, success = _run(flags, loaded, (which, last), act)
    sys.stdout.buffer.write(json_line(msgspec.Raw(answer.encode())))
    return 0 if success else 1


def _check(name: str, arguments: str) -> None:
    """Refuse a wrong name or wrong JSON before a session is opened."""
    if name.replace(".", "_", 1) not in ALL_CONV_TOOLS:
        raise click.BadParameter(
            f"{name!r} is no conversation tool; there are {', '.join(ALL_CONV_TOOLS)}", param_hint="NAME"
        )
    try:
        msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
        raise click.BadParameter(f"this is no JSON object: {explain_decoding(error)}", param_hint="JSON") from None


# ---- running


async def _write_warnings(loaded: LoadedSettings, session: Session) -> None:
    """Say what was not as it should be when the session was resumed."""
    notes = TerminalOutput(sys.stderr, loaded.environment.variables)
    async for event in restart_events(session):
        if isinstance(event.data, WarningEvent):
            notes.line(("warning ", "yellow"), event.data.message)


def _run(
    flags: GlobalFlags,
    loaded: LoadedSettings,
    wanted: tuple[str | None, bool],
    act: Callable[[Host, Session], Awaitable[T]],
) -> T:
    resume_request = _resume_request(flags, loaded, wanted)

    async def run() -> T:
        host = Host(resume_request.settings)
        try:
            return await act(host, await resume_request.begin(host))
        finally:
            await host.close()

    return asyncio.run(run())


def _run_message(
    flags: GlobalFlags,
    loaded: LoadedSettings,
    wanted: tuple[str | None, bool],
    message_request: MessageRequest,
    *,
    as_json: bool,
) -> int:
    # What cannot be sent is refused before a session is opened.
    to_user_message(None, message_request.items, cwd="/")
    entering = _resume_request(flags, loaded, wanted).session()
    return asyncio.run(
        run_message(entering, message_request, choose_view(loaded, "json" if as_json else "text"))
    ).exit_code


def _resume_request(flags: GlobalFlags, loaded: LoadedSettings, wanted: tuple[str | None, bool]) -> ResumeRequest:
    which, last = wanted
    return ResumeRequest.of(flags, loaded, find_stored_session(loaded, which, last=last))


def _text_input(words: Sequence[str]) -> tuple[TextInput, ...]:
    return (TextInput(read_prompt(words)),)


def _out(loaded: LoadedSettings) -> TerminalOutput:
    return TerminalOutput(sys.stdout, loaded.environment.variables)
