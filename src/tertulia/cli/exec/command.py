"""`tertulia exec`: runs one task in a new or a stored session, prints the answer, and ends with its exit code."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import msgspec
from msgspec.structs import replace

from tertulia.cli.exec import standard_input
from tertulia.cli.exec.run_message import MessageOutcome, MessageRequest, MessageView, resume_and_show, run_message
from tertulia.cli.exec.standard_input import StdinChoice, read_data, with_data
from tertulia.cli.exec.text_output import TextView, session_header
from tertulia.cli.global_flags import GlobalFlags, agent_flag, global_flags, instructions_option, parse_seconds
from tertulia.cli.output.terminal import TerminalOutput
from tertulia.cli.session_lookup import LAST, ResumeRequest, continue_flag, find_stored_session
from tertulia.conversation.terms import NATIVE
from tertulia.conversation.user_message import to_user_message
from tertulia.errors import NotFoundError, TertuliaError
from tertulia.protocol.inputs import MAX_TEXT_BYTES, InputItem, LocalImageInput, TextInput
from tertulia.protocol.items import NO_USAGE
from tertulia.protocol.validation_text import explain_decoding
from tertulia.rollout.sqlite.session_index import remove_session
from tertulia.session.members import require_model, require_sandbox
from tertulia.session.session import Session
from tertulia.session.settings.settings import LoadedSettings

if TYPE_CHECKING:
    from tertulia.cli.exec.terminal_approver import TerminalApprover, TerminalInput

OutputForm = Literal["text", "json", "codex"]
"""How a run is printed: its answer, our JSON lines, or those lines with no field that Codex does not have."""
_FILE = click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path)

_MORE = """
\b
Examples:
  tertulia exec "Summarise the open questions in notes.md"
  git log -5 | tertulia exec "Summarise these commits"
  git diff | tertulia exec --json - > review.jsonl
  tertulia exec --timeout 120 -o answer.txt "Name the three riskiest functions"
  tertulia exec -m scripted/rehearsal.yaml "Tidy up the notes"
  tertulia exec --backend codex "Fix the failing test"
  tertulia exec --agent reviewer "Review the last commit"
  tertulia exec --instructions "Answer in one line." "What is this?"
  tertulia exec resume --last "And now the tests"

\b
Exit codes:
  0    done
  1    the task failed, or something was refused because no one could answer
  2    usage or configuration
  124  --timeout, or a limit of time in the settings, has passed
  130  stopped by SIGINT or SIGTERM; the second signal kills
"""


@click.command("exec", epilog=_MORE)
@click.argument("words", nargs=-1, metavar="[resume ID] PROMPT|-")
@click.option("--last", is_flag=True, help=f"After `resume`, instead of an ID. {LAST}")
@continue_flag
@click.option("--json", "as_json", is_flag=True, help="Print events, one JSON object a line.")
@click.option(
    "--experimental-json",
    "for_sdk",
    is_flag=True,
    help="The same for the Codex SDK: without a PROMPT, standard input has it.",
)
@click.option(
    "--skip-git-repo-check",
    "any_directory",
    is_flag=True,
    hidden=True,
    help="With --experimental-json, work outside of a git repository as well; the Codex SDK sends it.",
)
@click.option("--thread-source", hidden=True, expose_value=False, help="Ignored; the Codex SDK sends it.")
@click.option(
    "answer_file",
    "-o",
    "--output-last-message",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the final answer to this file as well, once the task is done.",
)
@click.option("schema_file", "--output-schema", metavar="FILE", type=_FILE, help="A JSON Schema for the answer.")
@click.option("images", "-i", "--image", metavar="FILE", type=_FILE, multiple=True, help="Show a picture; repeatable.")
@click.option(
    "--backend",
    metavar="NAME",
    help="What does the work: native, codex, claude, acp:NAME, command:NAME; see `executors`.",
)
@instructions_option
@agent_flag
@click.option(
    "stdin", "--stdin", flag_value="wait", help="Wait for the end of standard input, however long it is silent."
)
@click.option("stdin", "--no-stdin", flag_value="never", help="Never read standard input beside a PROMPT.")
@click.option("-q", "--quiet", is_flag=True, help="No header, no spinner and no costs on standard error.")
@click.option("timeout_s", "--timeout", metavar="SECONDS", type=parse_seconds, help="Stop the task after this time.")
@global_flags
@click.pass_obj
def command(
    flags: GlobalFlags,
    *,
    words: Sequence[str],
    last: bool,
    continues: bool,
    as_json: bool,
    for_sdk: bool,
    any_directory: bool,
    answer_file: Path | None,
    schema_file: Path | None,
    images: Sequence[Path],
    backend: str | None,
    instructions: str | None,
    timeout_s: float | None,
    stdin: StdinChoice | None,
    quiet: bool,
) -> int:
    """Do one task and print the answer.

    PROMPT says what to do; `-` reads it from standard input. What a pipe or a file brings beside a PROMPT is added to
    it as data. The answer goes to standard output, everything else to standard error. `exec resume ID` continues a
    stored session; without a PROMPT it shows the last answer, with --continue that of the task that went on.
    """
    if answer_file is not None:
        _check_writable(answer_file)
    schema = None if schema_file is None else _read_schema(schema_file)
    loaded = _load_for_sdk(flags, any_directory=any_directory) if for_sdk else flags.load()
    resume_request, prompt = _split(flags, loaded, words, last=last, continues=continues)
    form: OutputForm = "codex" if for_sdk else "json" if as_json else "text"
    if for_sdk and not prompt:
        # The SDK has no other way to say it.
        prompt = ("-",)
    if resume_request is not None and not prompt and not continues:
        return _show_last_answer(resume_request, loaded, form)
    items: tuple[InputItem, ...] = ()
    if prompt or not continues:
        pictures = _pictures(images, for_sdk=for_sdk)
        items = (TextInput(_whole_prompt(prompt, stdin, loaded)), *pictures)
        # What cannot be sent is refused here, while nothing has been printed yet.
        to_user_message(None, items, cwd="/")
    text = _resolve_instructions(instructions)
    message_request = MessageRequest(
        items, schema, as_codex=for_sdk, timeout_s=timeout_s, backend=backend, instructions=text
    )
    ending = _follow(loaded, resume_request, message_request, form, quiet=quiet or for_sdk)
    if answer_file is not None and ending.status == "completed" and ending.reply is not None:
        answer_file.write_text(ending.reply.text or "", encoding="utf-8")
    # To the Codex SDK a process that ends with 1 has crashed, whatever it said.
    return 0 if for_sdk and ending.status == "completed" else ending.exit_code


def _pictures(images: Sequence[Path], *, for_sdk: bool) -> list[InputItem]:
    if not (images and for_sdk):
        return [LocalImageInput(str(image)) for image in images]
    # Imported here: only the Codex SDK wants it.
    from tertulia.cli.exec.codex_sdk import picture_or_note

    return [picture_or_note(str(image)) for image in images]


def _load_for_sdk(flags: GlobalFlags, *, any_directory: bool) -> LoadedSettings:
    # Imported here: only the Codex SDK wants it.
    from tertulia.cli.exec.codex_sdk import load_codex_sdk_settings, require_repository

    loaded = load_codex_sdk_settings(flags)
    if not any_directory:
        require_repository(loaded.settings.cwd or ".")
    return loaded


def _follow(
    loaded: LoadedSettings,
    resume_request: ResumeRequest | None,
    message_request: MessageRequest,
    form: OutputForm,
    *,
    quiet: bool,
) -> MessageOutcome:
    """Run the message in its session, and show it as it happens."""
    keyboard = _keyboard()
    if keyboard is None:
        loaded = replace(loaded, settings=replace(loaded.settings, unattended=True))
        resume_request = None if resume_request is None else resume_request.unattended()
    backend = message_request.backend
    if backend in (None, NATIVE):
        require_sandbox(loaded.settings)
    entering = _new_session(loaded, backend) if resume_request is None else resume_request.session()
    view = choose_view(loaded, form, resume_request=resume_request, quiet=quiet)
    running = run_message(
        entering if quiet or form != "text" else _with_header(entering, loaded),
        message_request,
        view,
        _approver(keyboard, view, loaded),
    )
    if not isinstance(view, TextView):
        return asyncio.run(running)
    view.wait()
    try:
        return asyncio.run(running)
    finally:
        # After an error, too: what says it begins a line of its own.
        view.rest()


@asynccontextmanager
async def _with_header(
    entering: AbstractAsyncContextManager[Session], loaded: LoadedSettings
) -> AsyncGenerator[Session]:
    """The session; as soon as it is there, standard error says what it works with."""
    async with entering as session:
        TerminalOutput(sys.stderr, loaded.environment.variables).line((session_header(session), "dim"))
        yield session


def _resolve_instructions(value: str | None) -> str | None:
    if value is None:
        return None
    # Imported here: most runs give none.
    from tertulia.cli.exec.instructions import resolve_instructions

    return resolve_instructions(value)


def _whole_prompt(prompt: Sequence[str], stdin: StdinChoice | None, loaded: LoadedSettings) -> str:
    """The prompt, with what standard input brings beside it."""
    text, notes = read_prompt(prompt), TerminalOutput(sys.stderr, loaded.environment.variables)
    if list(prompt) == ["-"]:
        return text
    return with_data(text, read_data(stdin or "auto", lambda line: notes.line(("note", "yellow"), f" {line}")))


def _keyboard() -> TerminalInput | None:
    """The keyboard of the person who watches standard error, if there is one."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    # Imported here: most runs have no terminal.
    from tertulia.cli.exec.terminal_approver import TerminalInput

    return TerminalInput.open((sys.stdin, sys.stderr))


def _approver(keyboard: TerminalInput | None, view: MessageView, loaded: LoadedSettings) -> TerminalApprover | None:
    if keyboard is None:
        return None
    from tertulia.cli.exec.terminal_approver import TerminalApprover

    out = TerminalOutput(sys.stderr, loaded.environment.variables)
    return TerminalApprover(keyboard, out, view.pause if isinstance(view, TextView) else lambda: None)


@asynccontextmanager
async def _new_session(loaded: LoadedSettings, backend: str | None) -> AsyncGenerator[Session]:
    """A new session, done by that backend. Nothing is left of one that fails before anything was said in it."""
    if backend in (None, NATIVE):
        require_model(loaded.settings, loaded.environment)
    async with Session(loaded.settings, waits=False) as session:
        try:
            if backend is not None:
                await session.root.set_context(backend=backend)
            yield session
        except (TertuliaError, ExceptionGroup):
            await session.close()
            if not session.root.info.message_count:
                with suppress(NotFoundError):
                    remove_session(loaded.environment.home, session.id)
            raise


def _split(
    flags: GlobalFlags, loaded: LoadedSettings, words: Sequence[str], *, last: bool, continues: bool
) -> tuple[ResumeRequest | None, Sequence[str]]:
    """The stored session that is meant, if one is, and the prompt."""
    if not words or words[0] != "resume":
        if last or continues:
            raise click.UsageError(f"{'--last' if last else '--continue'} goes with `exec resume`")
        return None, words
    which, rest = (None, words[1:]) if last else (words[1] if len(words) > 1 else None, words[2:])
    if "agent" in flags.values:
        raise click.UsageError("--agent is for a new session: a stored one keeps its agent")
    session_id = find_stored_session(loaded, which, last=last)
    return ResumeRequest.of(flags, loaded, session_id, continues=continues), rest


def _show_last_answer(resume_request: ResumeRequest, loaded: LoadedSettings, form: OutputForm) -> int:
    answer = asyncio.run(resume_and_show(resume_request.session(), choose_view(loaded, form)))
    if answer is not None and form == "text":
        TerminalOutput(sys.stdout, loaded.environment.variables).line(answer)
    return 0


def choose_view(
    loaded: LoadedSettings, form: OutputForm, *, resume_request: ResumeRequest | None = None, quiet: bool = False
) -> MessageView:
    """The view for `exec`; JSON lines of a resumed session count the tokens that it used before."""
    if form != "text":
        # Imported here: most runs print text.
        from tertulia.cli.exec.json_output import JsonView
        from tertulia.session.resume.past_turns import read_past_turns

        home = loaded.environment.home
        spent = NO_USAGE if resume_request is None else read_past_turns(home, resume_request.session_id).usage
        return JsonView(sys.stdout.buffer, loaded.warnings, spent, bare=form == "codex")
    variables = loaded.environment.variables
    out, notes = TerminalOutput(sys.stdout, variables), TerminalOutput(sys.stderr, variables)
    return TextView(out, notes, loaded.warnings, quiet=quiet)


def read_prompt(words: Sequence[str]) -> str:
    """The prompt of the command line, or of standard input for `-`; UsageError if there is none."""
    match list(words):
        case ["-"]:
            text = standard_input.read_prompt()
        case [text]:
            pass
        case []:
            waiting = "" if sys.stdin is None or sys.stdin.isatty() else "; `-` reads it from standard input"
            raise click.UsageError(f"there is no PROMPT{waiting}")
        case _:
            raise click.UsageError("the PROMPT must be one argument: put it in quotes")
    if not text.strip():
        raise click.UsageError("the PROMPT is empty")
    return text


def _read_schema(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        content = file.read(MAX_TEXT_BYTES + 1)
    if len(content) > MAX_TEXT_BYTES:
        raise click.BadParameter(f"{path} has more than {MAX_TEXT_BYTES:,} bytes", param_hint="--output-schema")
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise click.BadParameter(
            f"{path} is not a JSON object: {explain_decoding(error)}", param_hint="--output-schema"
        ) from None


def _check_writable(path: Path) -> None:
    """Checked before the task, so that an answer that was paid for is not lost."""
    place = path if path.exists() else path.parent
    if not place.exists() or not os.access(place, os.W_OK):
        raise click.BadParameter(f"{path} cannot be written", param_hint="--output-last-message")
