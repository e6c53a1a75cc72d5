"""The wire to the embedded model: a real one, small, in a process beside ours. Needs no key and no network.

It writes text and cannot choose tools, so none are offered to it, unless its name says `:tools`; pictures are left out
of what it is told. The process is an `Engine`, which runs `llama_program`. Each request has a socket of its own, which
is handed to that process: streams cannot mix, any event loop may ask, and hanging up is what stops a model.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

from tertulia.errors import InvalidParamsError
from tertulia.models.catalog import LOCAL_PROVIDER
from tertulia.models.http.chat import ChatDecoder
from tertulia.models.http.encoding import encode, encode_item, join_chunks, json_member, schema_of, summary_text
from tertulia.models.http.provider_error import ProviderAddress, ProviderAttemptError
from tertulia.models.local import llama_program
from tertulia.models.local.llama_program import UNLOADABLE
from tertulia.models.local.weights import can_run, find_weights
from tertulia.models.wire import AnswerFailure, AnswerPiece, ModelRequest, ModelSettings, RetryNotice
from tertulia.protocol.items import AssistantMessage, Item, Reasoning, Summary, ToolCall, ToolOutput, UserMessage
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.sandbox.limits.open_files import restore_child_limit

_STOP_S = 2.0
"""A model that has not stopped by then is ended with its process. It checks for a stop at each
token that it writes, and now and then while it reads."""
_LONGEST_LINE = 1 << 20
# Sampling as its makers advise, and DRY against the loops that a small model falls into; always the same seed, so that
# a question has the same answer twice. Progress is asked for because a model that still reads can be stopped only
# where it reports.
_BEGINNING = (
    b'{"stream":true,"stream_options":{"include_usage":true},"return_progress":true,"max_tokens":512,'
    b'"temperature":0.2,"top_p":0.9,"dry_multiplier":0.8,"seed":0'
)


class EngineEndedError(Exception):
    """The process ended before the answer did."""


class EngineLines:
    """The answer of an engine to one request, line by line."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def next(self) -> bytes:
        """A chunk of Chat Completions, or `[DONE]`. EngineEnded when nothing more will come."""
        try:
            line = await self._reader.readline()
        except (OSError, ValueError):  # the second for a line without an end
            line = b""
        if not line.endswith(b"\n"):
            raise EngineEndedError
        return line[:-1]


class Engine:
    """A process with weights in memory. It ends with the last reference to it, and with our own process."""

    def __init__(self, weights: Path, context_window: int) -> None:
        """Start it, and wait for nothing: requests wait until it has loaded. OSError: the system does not let us."""
        self._control, theirs = socket.socketpair()
        arguments = [str(theirs.fileno()), str(weights), str(context_window)]
        with theirs, ExitStack() as stack:
            stack.callback(self._control.close)
            # A process session of its own: Ctrl-C at the terminal must reach only the main process, which stops the
            # model.
            self._process = subprocess.Popen(
                [sys.executable, "-P", llama_program.__file__, *arguments],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            stack.pop_all()
        restore_child_limit(self._process.pid)
        self.end = weakref.finalize(self, _end, self._process, self._control)
        """Stop the process at once. May be called twice."""

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    @asynccontextmanager
    async def ask(self, body: bytes) -> AsyncGenerator[EngineLines]:
        """Send a body of Chat Completions. On leaving, the model has stopped. EngineEnded: its process is gone."""
        reader, writer = await self._connect()
        try:
            writer.write(body + b"\n")
            yield EngineLines(reader)
        finally:
            await self._hang_up(reader, writer)

    async def exit_code(self) -> int:
        """How it ended; one that hangs is ended."""
        with suppress(subprocess.TimeoutExpired):
            return await asyncio.to_thread(self._process.wait, _STOP_S)
        self.end()
        return self._process.wait()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [b"?"], [theirs.fileno()])
            except OSError:
                ours.close()
                raise EngineEndedError from None
        return await asyncio.open_unix_connection(sock=ours, limit=_LONGEST_LINE)

    async def _hang_up(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stopped = False
        try:
            async with asyncio.timeout(_STOP_S):
                writer.write_eof()
                # A connection that breaks means that the process is gone, and the model with it.
                with suppress(OSError):
                    while await reader.read(_LONGEST_LINE):
                        pass
            stopped = True
        except TimeoutError:
            pass
        finally:
            if not stopped:
                self.end()
            writer.close()


def _end(process: subprocess.Popen[bytes], control: socket.socket) -> None:
    process.kill()
    process.wait()
    control.close()


class SharedEngine:
    """The one engine of this process for a file of weights.

    Started when it is first needed; ended when the last holder has let go, or all holders were garbage-collected.
    """

    def __init__(self, weights: Path, context_window: int) -> None:
        self._weights = weights
        self._context_window = context_window
        self._engine: Engine | None = None
        self._holders: weakref.WeakSet[object] = weakref.WeakSet()
        self._changing = threading.Lock()

    def hold(self, holder: object) -> None:
        """Keep the engine running for this holder."""
        with self._changing:
            self._holders.add(holder)

    def let_go(self, holder: object) -> None:
        """This holder needs the engine no longer."""
        with self._changing:
            self._holders.discard(holder)
            if self._engine is not None and not self._holders:
                self._engine.end()
                self._engine = None

    def running(self) -> Engine:
        """The engine; a new one where there is none, or none that lives."""
        with self._changing:
            if self._engine is None or not self._engine.alive:
                self._engine = Engine(self._weights, self._context_window)
            return self._engine


_shared: weakref.WeakValueDictionary[Path, SharedEngine] = weakref.WeakValueDictionary()
_finding = threading.Lock()


def shared_engine(weights: Path, context_window: int) -> SharedEngine:
    """The same engine for every wire that names the same file. Starts nothing."""
    with _finding:
        return _shared.setdefault(weights, SharedEngine(weights, context_window))


class LocalDialect:
    """Plain messages with a role and a text: a model of this size understands nothing else."""

    __slots__ = ()
    name = "local"

    def encode_items(self, items: Sequence[Item]) -> bytes:
        """Calls of tools and their outputs as sentences; reasoning and pictures left out."""
        spelled = (_spell(item) for item in items)
        return b",".join(_message(role, text) for role, text in spelled if text)

    def encode_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        """The tools of the kind `function`, as JSON."""
        return encode([_spell_tool(tool) for tool in tools if tool.kind == "function"])


class LocalWire:
    """A Wire to weights that were pulled. Starts nothing before its first request.

    All wires to the same weights share one process, which answers them one after the other; it ends when the last of
    them is closed or garbage-collected.
    """

    def __init__(self, name: str, home: Path) -> None:
        """`name` as in `local/NAME` or `local/NAME:tools`, `home` is $TERTULIA_HOME. InvalidParams: no such model."""
        plain, colon, flag = name.partition(":")
        if colon and flag != "tools":
            raise InvalidParamsError(f"model {LOCAL_PROVIDER}/{name[:40]}: after the colon there can only be `tools`")
        self._weights = find_weights(plain)
        self._file = self._weights.path(home).absolute()
        self._home = home
        self.name = f"{LOCAL_PROVIDER}/{name}"
        self.family = plain
        self.context_window = self._weights.context_window
        self.dialect = LocalDialect()
        self.offers_tools = bool(flag)
        """Whether it is told of the tools that a request has."""
        self._shared = shared_engine(self._file, self.context_window)
        self._shared.hold(self)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[AnswerPiece, None]:
        """Ask, once more if the process dies; see Wire for what is promised."""
        if obstacle := self._obstacle():
            yield AnswerFailure(obstacle, another_may_help=True)
            return
        body = self._body(request)
        self._shared.hold(self)
        for last_chance in (False, True):
            answer = ChatDecoder(ProviderAddress(LOCAL_PROVIDER, self.family, "this machine", None), self.dialect.name)
            try:
                engine = self._shared.running()
            except OSError as error:
                problem = f"the process of {self.name} cannot be started: {error.strerror}"
                yield AnswerFailure(problem, another_may_help=True)
                return
            try:
                async with engine.ask(body) as lines:
                    while not answer.whole:
                        for piece in answer.take(await lines.next()):
                            yield piece
                for piece in answer.end():
                    yield piece
            except ProviderAttemptError as error:
                yield AnswerFailure(error.message, overflow=error.overflow, another_may_help=error.another_may_help)
            except EngineEndedError:
                code = await engine.exit_code()
                if code != UNLOADABLE and not last_chance:
                    yield RetryNotice(f"{self._died(code)}; trying again")
                    continue
                yield AnswerFailure(self._died(code), another_may_help=True)
            return

    async def close(self) -> None:
        """Let go of the process. A later request holds it again."""
        self._shared.let_go(self)

    def check_settings(self, settings: ModelSettings) -> None:
        """Refuse all of them: the embedded model is always asked in the same way."""
        for name in settings.__struct_fields__:
            if getattr(settings, name) is not None:
                raise InvalidParamsError(f"{name}: {self.name} is asked as its makers advise; leave it out")

    def _obstacle(self) -> str | None:
        if not can_run():
            return f"{self.name} needs an extra: pip install 'tertulia[local]'"
        if not self._weights.is_pulled(self._home):
            return f"{self.name} is not on this machine yet: tertulia models pull {self._weights.name}"
        return None

    def _died(self, code: int) -> str:
        if code == UNLOADABLE:
            name = self._weights.name
            return f"{self._file} cannot be loaded; try `tertulia models rm {name}` and `tertulia models pull {name}`"
        how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
        return f"the process of {self.name} {how}"

    def _body(self, request: ModelRequest) -> bytes:
        parts = [_BEGINNING]
        if self.offers_tools and request.tools_json != b"[]":
            parts.append(json_member("tools", request.tools_json))
        if request.output_schema is not None:
            form = b'{"type":"json_schema","json_schema":{"schema":%b}}'
            parts.append(json_member("response_format", form % request.output_schema.encode()))
        system = _message("system", request.instructions) if request.instructions else b""
        messages = b",".join(filter(None, (system, join_chunks(request.chunks) if request.chunks else b"")))
        # One line: in JSON a line end is never more than a space, and a schema is written as its author likes it.
        return b"".join((*parts, b',"messages":[', messages, b"]}")).replace(b"\n", b" ")


def _message(role: str, text: str) -> bytes:
    # The model reads its role markers wherever they stand: a text that contains one could speak for another role.
    return encode_item({"role": role, "content": text.replace("<|", "< |")})


def _spell(item: Item) -> tuple[str, str]:
    """The role and the text of an item; nothing for an empty text."""
    match item:
        case UserMessage():
            return "user", item.text
        case Summary():
            return "user", summary_text(item)
        case AssistantMessage():
            return "assistant", item.text
        case ToolCall():
            return "assistant", f"I call the tool {item.name}: {item.arguments}"
        case ToolOutput():
            return "user", f"The tool {'answered' if item.success else 'failed'}: {item.text}"
        case Reasoning():
            return "assistant", ""


def _spell_tool(tool: ToolSpec) -> dict[str, object]:
    function = {"name": tool.name, "description": tool.description, "parameters": schema_of(tool)}
    return {"type": "function", "function": function}
