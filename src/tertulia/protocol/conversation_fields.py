"""The table of conversation fields: one row for each field, from which everything about the field is generated.

Inputs, rights and their meet, settings, preferences, the switches of `conv_create`, what a project's file may narrow,
records of terms and the tables of the docs read these rows. CONTRIBUTING.md says how to add a row. Structured values
are parsed and met elsewhere: in `policy`, `protocol.storage` and `mcp.view`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

import msgspec
from msgspec.structs import force_setattr

from tertulia.errors import InvalidParamsError
from tertulia.protocol.name_hints import word_hint
from tertulia.protocol.tool_spec import ALL_CONV_TOOLS, TEXT_EDITOR


class Switch(msgspec.Struct, frozen=True):
    """On or off; as a right, off is narrower. A switch that is not set anywhere is on, unless it is `opt_in`."""

    tools: tuple[str, ...] = ()
    """The built-in tools that a conversation has only if the switch is on."""
    short_name: str = ""
    """For a switch of tools: its name in `tools_prefs` and among the `internal_tools` of `conv_create`."""
    opt_in: bool = False
    """Whether the switch is off for a conversation unless the conversation or its session turns it on."""

    def parse(self, name: str, value: object) -> bool:
        """The value itself; InvalidParams for anything but a boolean."""
        if not isinstance(value, bool):
            raise InvalidParamsError(f"{name} must be true or false, not {value!r:.80}")
        return value


class Words(msgspec.Struct, frozen=True):
    """One of a few words; as a right, an earlier word is narrower."""

    words: tuple[str, ...]
    dashed: bool = False
    """Whether clients and files write the words with `-`. Both `-` and `_` are accepted."""
    usual: str | None = None
    """As a right: the word of a conversation for which neither it nor its session asked for one; None: the widest."""
    off: str | None = None
    """The word that turns the feature off. Whether it is off is a right; the choice among the others a preference."""

    def parse(self, name: str, value: object) -> str:
        """The word as the code spells it; InvalidParams lists the allowed words."""
        word = value.replace("-", "_") if isinstance(value, str) else None
        if word not in self.words:
            words = self.spelled()
            hint = word_hint(value, words)
            raise InvalidParamsError(f"{name} must be one of {', '.join(words)}, not {value!r:.80}{hint}")
        return word

    def to_wire(self, word: str) -> str:
        """The spelling of clients and configuration files."""
        return word.replace("_", "-") if self.dashed else word

    def spelled(self) -> list[str]:
        """All words, as clients spell them."""
        return [self.to_wire(word) for word in self.words]


class Number(msgspec.Struct, frozen=True):
    """A number in a range; always a preference."""

    lowest: float
    highest: float
    whole: bool = False

    def parse(self, name: str, value: object) -> float:
        """The number, as an int if it is a whole one; InvalidParams names the range."""
        if not isinstance(value, int | float) or isinstance(value, bool) or not self._fits(value):
            raise InvalidParamsError(f"{name} must be {self.described()}, not {value!r:.80}")
        return int(value) if self.whole else float(value)

    def described(self) -> str:
        """The allowed range, for people: "a whole number from 1 to 1,000"."""
        return f"a {'whole ' if self.whole else ''}number from {self.lowest:g} to {self.highest:,.0f}"

    def _fits(self, value: float) -> bool:
        return self.lowest <= value <= self.highest and (not self.whole or value == int(value))


class Structured(msgspec.Struct, frozen=True):
    """A text, a list or a table, which is parsed by the stage that uses it."""

    narrowing: str = ""
    """For a right: which of two values is narrower, in the words of docs/rights.md."""


FieldKind = Switch | Words | Number | Structured


class ConversationField(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table: one field of conversations, which can be set for a conversation, its session or both."""

    name: str
    """The name in Python, on the wire and in config.toml."""
    kind: FieldKind
    doc: str | None = None
    """The documentation of the field of a conversation; None: only a session has the field."""
    setting: str | None = None
    """The documentation of the setting for all conversations, in config.toml; None: there is no such setting."""
    default: Any = None
    """The default of the setting, in wire spelling; None: unset."""
    narrows: bool = False
    """Whether the field is a right: a conversation gets the meet of what it asks for and what is allowed."""
    right: str = ""
    """The name of the right, if it differs from the field's name."""
    python_only: bool = False
    """Whether the field holds objects of this process, so that no client can send it."""

    def __post_init__(self) -> None:
        if self.narrows and not self.right:
            force_setattr(self, "right", self.name)

    @property
    def is_preference(self) -> bool:
        """Whether terms store the requested value as it is: the field is not structured, and not only a right."""
        if isinstance(self.kind, Structured) or self.doc is None:
            return False
        return not self.narrows or (isinstance(self.kind, Words) and self.kind.off is not None)

    def parse(self, value: object) -> Any:
        """The value as the code spells it. A structured value is returned as it is: another stage parses it."""
        return value if isinstance(self.kind, Structured) else self.kind.parse(self.name, value)


SandboxMode = Literal["read_only", "workspace_write", "danger_full_access"]
SandboxName = SandboxMode | Literal["read-only", "workspace-write", "danger-full-access"]
"""A sandbox mode as people write it, with `_` or `-`."""

SANDBOX_MODES: tuple[SandboxMode, ...] = get_args(SandboxMode)
"""All modes, the strictest one first."""

SANDBOX = Words(SANDBOX_MODES, dashed=True)


def sandbox_from_wire(value: object) -> SandboxMode:
    """Parse a mode's name; `-` and `_` are the same."""
    return cast("SandboxMode", SANDBOX.parse("sandbox", value))


def sandbox_to_wire(mode: SandboxMode) -> str:
    """The spelling that clients and configuration files use."""
    return SANDBOX.to_wire(mode)


Visibility = Literal["subtree", "session"]
ShellMode = Literal["default", "with_request", "local", "streamable", "none"]
ToolProfile = Literal["patch", "editor"]
OnRestart = Literal["close", "continue"]
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

CONVERSATION_FIELDS: tuple[ConversationField, ...] = (
    ConversationField(
        name="base_instructions",
        kind=Structured(),
        doc="used instead of the built-in instructions, exactly as they are",
    ),
    ConversationField(
        name="user_instructions",
        kind=Structured(),
        doc="standing wishes; they become the first message of the history",
    ),
    ConversationField(
        name="project_instructions",
        kind=Switch(),
        doc="whether it is told what [`AGENTS.md`](project-instructions.md) says",
        setting="whether conversations are told what [`AGENTS.md`](project-instructions.md) says. On the command line, "
        "in servers and with `Settings.load()` it is `true`, unless set",
        default=False,
    ),
    ConversationField(name="title", kind=Structured(), doc="for lists, at most 200 characters"),
    ConversationField(
        name="tools",
        kind=Structured(),
        doc="from Python only: [functions](tools.md) that only this conversation can call",
        python_only=True,
    ),
    ConversationField(
        name="model",
        kind=Structured(),
        doc="`provider/model` (see [models](models.md)), `scripted/FILE`, or from Python any model object",
        setting="`provider/model` (see [models](models.md)), or from Python a model object. Unset: that of the first "
        "key that is set, or the embedded model, or [none](models.md#who-answers)",
    ),
    ConversationField(
        name="fallback_models",
        kind=Structured(),
        doc="models that [answer instead](models.md#fallback-models), in this order, where its own has finally failed",
        setting="models that [answer instead](models.md#fallback-models), in this order, where one has finally failed",
        default=[],
    ),
    ConversationField(
        name="reasoning_effort",
        kind=Words(get_args(ReasoningEffort)),
        doc="how much the model [thinks](models.md#how-a-model-answers): `none`, `minimal`, `low`, `medium`, `high`, "
        "`xhigh` or `max`, of which its API knows some",
        setting="how much models [think](models.md#how-a-model-answers), where their API can be told",
    ),
    ConversationField(
        name="temperature",
        kind=Number(0, 2),
        doc="how freely the model [chooses its words](models.md#how-a-model-answers), from 0 to 2",
        setting="how freely models [choose their words](models.md#how-a-model-answers), from 0 to 2",
    ),
    ConversationField(
        name="max_output_tokens",
        kind=Number(1, 1_000_000, whole=True),
        doc="the most that one [answer of the model](models.md#how-a-model-answers) may have",
        setting="the most tokens that one [answer of a model](models.md#how-a-model-answers) may have",
    ),
    ConversationField(
        name="backend",
        kind=Structured(),
        doc="`native`, or [an executor](executors.md): `codex`, `claude`, `command:NAME`",
    ),
    ConversationField(
        name="agent",
        kind=Structured(),
        doc="`open` only: the [agent](agents.md) that it is, by name or by its identity",
    ),
    ConversationField(
        name="cwd",
        kind=Structured(),
        doc="an absolute directory, told to the model and to tools",
        setting="Python and `-C` only: an absolute directory; unset, where the process was started",
    ),
    ConversationField(
        name="workspace",
        kind=Structured(),
        doc="`open` only: `shared` (default), or `worktree`: [a git worktree of its own](parallel.md#own-workspaces)",
    ),
    ConversationField(
        name="approval_policy",
        kind=Structured("see below"),
        doc="when a person is [asked](rights.md#approvals)",
        setting="a [name or three parts](rights.md#approvals)",
        default="on-request",
        narrows=True,
    ),
    ConversationField(
        name="sandbox",
        kind=SANDBOX,
        doc="how its [commands are confined](sandbox.md)",
        setting="`read-only`, `workspace-write` or `danger-full-access`",
        default="workspace-write",
        narrows=True,
    ),
    ConversationField(
        name="network",
        kind=Structured("`false` < a list of [hosts](network.md) < `true`; of two lists: hosts that both allow"),
        doc="which [hosts its commands reach](network.md): `false`, `true` or `{allow = […], deny = […]}`",
        setting="which [hosts commands reach](network.md): `false`, `true` or `{allow = […], deny = […]}`",
        default=False,
        narrows=True,
    ),
    ConversationField(
        name="allow_git",
        kind=Switch(),
        doc="whether single `git add`, `commit`, `branch` and `tag` [write its repository](sandbox.md#git)",
        setting="whether single `git add`, `commit`, `branch` and `tag` [write the repository](sandbox.md#git) of the "
        "workspace",
        default=False,
        narrows=True,
    ),
    ConversationField(
        name="writable_roots",
        kind=Structured("directories that lie below directories of both sides; unset is no restriction"),
        setting="directories that commands may write, instead of the working directory; relative ones count from the "
        "working directory, in a project's file from the project, and from Python they are absolute",
        narrows=True,
    ),
    ConversationField(
        name="storage_policy",
        kind=Structured('`none` < `headers_only` < `{"ttl": seconds}`, fewer before more < `full`'),
        doc="what of it may be [written down](rights.md#storage)",
        setting="[`full`, `headers_only`, `none` or `{ttl = seconds}`](rights.md#storage); "
        "`disable_response_storage = true`, as older files say it, is `headers_only`",
        default="full",
        narrows=True,
    ),
    ConversationField(
        name="include_plan_tool",
        kind=Switch(("update_plan",), "include_plan_tool"),
        doc="whether it has `update_plan`",
        setting="`false` takes `update_plan` from every conversation",
        narrows=True,
    ),
    ConversationField(
        name="include_apply_patch_tool",
        kind=Switch(("apply_patch", "edit", "write", TEXT_EDITOR), "include_apply_patch_tool"),
        doc="whether it has `apply_patch`, or `edit` and `write`",
        setting="likewise for `apply_patch`, `edit` and `write`",
        narrows=True,
    ),
    ConversationField(
        name="include_conv_tools",
        kind=Switch(ALL_CONV_TOOLS, "include_conv_tools"),
        doc="whether it may [delegate](delegation.md)",
        setting="likewise for the [conversation tools](delegation.md)",
        narrows=True,
    ),
    ConversationField(
        name="tools_web_search_request",
        kind=Switch(("web_search",), "web_search_request", opt_in=True),
        doc="whether the provider may search the web, where its API can (Responses, Messages)",
        setting="`true` offers the provider's own web search to every conversation, `false` to none",
        narrows=True,
    ),
    ConversationField(
        name="include_fetch_tool",
        kind=Switch(("fetch",), "include_fetch_tool", opt_in=True),
        doc="whether it has [`fetch`](network.md#fetch), which reads pages of hosts that it may reach",
        setting="`true` gives [`fetch`](network.md#fetch) to every conversation, `false` to none",
        narrows=True,
    ),
    ConversationField(
        name="visibility",
        kind=Words(get_args(Visibility)),
        doc="which conversations it [can reach](delegation.md#who-can-be-reached): `session` or `subtree`",
        setting="`session` or `subtree`: which conversations a model [can reach](delegation.md#who-can-be-reached)",
        default="session",
        narrows=True,
    ),
    ConversationField(
        name="on_restart",
        kind=Words(get_args(OnRestart), usual="close"),
        doc="what becomes of its tasks that a crash cut, when the session is resumed: `close` or "
        "[`continue`](durable-tasks.md)",
        setting="`close` or `continue`: what becomes of [tasks that a crash cut](durable-tasks.md). Unset, they are "
        "closed, and a conversation may ask for `continue`; `close` takes that from every conversation",
        narrows=True,
    ),
    ConversationField(
        name="limits",
        kind=Structured("each of them: the smaller number; `None` is no limit"),
        doc="[numbers that bound it](configuration.md#limits); those that are not named stay",
        setting="the most that a session allows, and what a conversation gets that asks for nothing",
        default={},
        narrows=True,
    ),
    ConversationField(
        name="mcp_tool_allowlist",
        kind=Structured("tools that both sides list, `server__*` lists all of a server; unset is no restriction"),
        doc="which tools of [MCP servers](mcp.md) it has: `server__tool` or `server__*`",
        narrows=True,
    ),
    ConversationField(
        name="shell_mode",
        kind=Words(get_args(ShellMode), off="none"),
        doc="which [form of shell](tools.md#built-in) it has; `none`: no shell",
        setting="`default`, `with_request`, `local`, `streamable` or `none`: the [form of shell](tools.md#built-in)",
        narrows=True,
        right="shell",
    ),
    ConversationField(
        name="tool_profile",
        kind=Words(get_args(ToolProfile)),
        doc="which [tools it edits files with](tools.md#tool-profiles): `patch` or `editor`; unset: those that its "
        "model was trained on",
        setting="`patch` or `editor`: which [tools files are edited with](tools.md#tool-profiles). Unset: those that "
        "the model was trained on",
    ),
)
"""All rows, in the order in which narrowed rights are reported."""

FIELDS_BY_NAME: Mapping[str, ConversationField] = {row.name: row for row in CONVERSATION_FIELDS}

RIGHT_FIELDS: Mapping[str, ConversationField] = {row.right: row for row in CONVERSATION_FIELDS if row.narrows}
"""The rows that narrow, by the names of the rights."""

PREFERENCES: Mapping[str, ConversationField] = {row.name: row for row in CONVERSATION_FIELDS if row.is_preference}
"""The rows that are preferences, by name: terms store the requested value as it is."""

TOOL_SWITCHES: Mapping[str, Switch] = {
    row.name: row.kind for row in CONVERSATION_FIELDS if isinstance(row.kind, Switch) and row.kind.tools
}
"""The switches of built-in tools, by field. Rights, inputs and preferences have a generated field for each, which type
checkers do not know: use `Rights.allows_tool`, or read the field by the name in its row."""

USUAL_RIGHTS: Mapping[str, Any] = {
    **{name: False for name, switch in TOOL_SWITCHES.items() if switch.opt_in},
    **{row.right: row.kind.usual for row in RIGHT_FIELDS.values() if isinstance(row.kind, Words) and row.kind.usual},
}
"""The rights that a conversation has only if it, or its session, asks for them: what it has otherwise."""

SWITCH_OF_TOOL: Mapping[str, str] = {tool: name for name, switch in TOOL_SWITCHES.items() for tool in switch.tools}
"""The names of the switches of built-in tools, by tool."""
