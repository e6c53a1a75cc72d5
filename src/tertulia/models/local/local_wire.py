"""The embedded model: a real one, small, in a process beside ours. Needs no key and no network.

It is honest about itself. It writes text and cannot choose tools, so none are offered to it, unless its name says
`:tools`; pictures are left out of what it is told.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from tertulia.errors import InvalidParamsError
from tertulia.models.http.chat_decoder import ChatDecoder
from tertulia.models.http.encoding import encode, join_chunks, json_member, schema_of, summary_text
from tertulia.models.http.provider_error import ProviderAddress, ProviderAttemptError
from tertulia.models.local.engine import EngineEndedError, shared_engine
from tertulia.models.local.llama_program import UNLOADABLE
from tertulia.models.local.weights import LOCAL_PROVIDER, can_run, find_weights
from tertulia.models.wire import AnswerFailure, AnswerPiece, ModelRequest, RetryNotice
from tertulia.protocol.items import AssistantMessage, Item, Reasoning, Summary, ToolCall, ToolOutput, UserMessage
from tertulia.protocol.tool_spec import ToolSpec

# Sampling as its makers advise, and DRY against the loops that a small model falls into; always the same seed, so that
# a question has the same answer twice. Progress is asked for because a model that still reads can be stopped only
# where it reports.
_BEGINNING = (
    b'{"stream":true,"stream_options":{"include_usage":true},"return_progress":true,"max_tokens":512,'
    b'"temperature":0.2,"top_p":0.9,"dry_multiplier":0.8,"seed":0'
)


class LocalDialect:
    """Plain messages of a role and a text: a model of this size knows nothing else."""

    __slots__ = ()
    name = "local"

    def encode_items(self, items: Sequence[Item]) -> bytes:
        """Calls of tools and their outputs as sentences; reasoning and pictures left out."""
        spelled = (_spell(item) for item in items)
        return b",".join(_message(role, text) for role, text in spelled if text)

    def encode_tools(self, tools: Sequence[ToolSpec]) -> bytes:
        """Those of the kind `function`, as JSON."""
        return encode([_spell_tool(tool) for tool in tools if tool.kind == "function"])


class LocalWire:
    """A Wire to weights that were pulled. Starts nothing before its first request.

    All wires to the same weights share one process, which answers them one after the other; it ends when the last of
    them is closed, or all are forgotten.
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
            yield AnswerFailure(obstacle)
            return
        body = self._body(request)
        self._shared.hold(self)
        for last_chance in (False, True):
            answer = ChatDecoder(ProviderAddress(LOCAL_PROVIDER, self.family, "this machine", None), self.dialect.name)
            try:
                engine = self._shared.running()
            except OSError as error:
                yield AnswerFailure(f"the process of {self.name} cannot be started: {error.strerror}")
                return
            try:
                async with engine.ask(body) as lines:
                    while not answer.whole:
                        for piece in answer.take(await lines.next()):
                            yield piece
                for piece in answer.end():
                    yield piece
            except ProviderAttemptError as error:
                yield AnswerFailure(error.message, overflow=error.overflow)
            except EngineEndedError:
                code = await engine.exit_code()
                if code != UNLOADABLE and not last_chance:
                    yield RetryNotice(f"{self._died(code)}; trying again")
                    continue
                yield AnswerFailure(self._died(code))
            return

    async def close(self) -> None:
        """Let go of the process. A later request holds it again."""
        self._shared.let_go(self)

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
    # The model's marks of who speaks are read wherever they stand: a text with one could speak for another role.
    return encode({"role": role, "content": text.replace("<|", "< |")})


def _spell(item: Item) -> tuple[str, str]:
    """Who says it, and what; a text that is empty is not said."""
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
