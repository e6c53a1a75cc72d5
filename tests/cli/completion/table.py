"""The table of all words of the command line, made from the verbs.

`python -m tests.cli.completion.table` writes it into the package; a test compares.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click
import msgspec

from tertulia.cli.completion.word_table import TableOption, TableVerb, ValueKind, WordTable
from tertulia.cli.evals.command import COMMANDS
from tertulia.cli.main import VERBS, program
from tertulia.models.catalog import WireName
from tertulia.models.local.weights import WEIGHTS
from tertulia.policy.approval_policy import ApprovalName
from tertulia.policy.limits import Limits
from tertulia.protocol.conversation_fields import SANDBOX_MODES, sandbox_to_wire
from tertulia.protocol.tool_spec import CONV_TOOLS
from tertulia.session.settings.settings import Settings
from tertulia.session.settings.values import PYTHON_ONLY

FILE = Path(__file__).parents[3] / "src" / "tertulia" / "cli" / "completion" / "words.json"
SANDBOX = [sandbox_to_wire(mode).replace("_", "-") for mode in SANDBOX_MODES]
APPROVAL = list(dict.fromkeys(name.replace("_", "-") for name in get_args(ApprovalName)))
STORAGE = ["full", "headers-only", "none", "ttl:"]
SWITCH = ["true", "false"]
MODEL_NAMES = [weights.name for weights in WEIGHTS]

BY_NAME: dict[str, ValueKind] = {
    "approval_policy": APPROVAL,
    "conversation": ["root"],
    "ids": "session",
    "mode": SANDBOX,
    "model": "model",
    "overrides": "setting",
    "sandbox": SANDBOX,
    "storage_policy": STORAGE,
    "tried": "model",
    "which": "session",
}
"""By the name of a parameter, whatever verb has it."""
BY_PLACE: dict[tuple[str, str], ValueKind] = {
    ("conv call", "name"): list(CONV_TOOLS),
    ("eval", "models"): "model",
    ("eval", "suite"): "dir",
    ("eval check", "suite"): "dir",
    ("eval compare", "first"): "file",
    ("eval compare", "second"): "file",
    ("login", "words"): "provider",
    ("logout", "words"): "provider",
    ("mcp add", "argv"): "file",
    ("models pull", "name"): MODEL_NAMES,
    ("models rm", "name"): MODEL_NAMES,
    ("sandbox", "argv"): "file",
}


def make_table() -> WordTable:
    context = click.Context(program, info_name="tertulia", **program.context_settings)
    root = _verb(program, "", context)
    # Its first word may be a command with options of its own.
    evals = {name: _verb(import_module(place).command, f"eval {name}", context) for name, place in COMMANDS.items()}
    root.verbs["eval"] = msgspec.structs.replace(root.verbs["eval"], verbs=evals)
    everywhere = root.options.keys() - {"--version"}
    verbs = {name: _without(verb, everywhere) for name, verb in root.verbs.items()}
    # The verb takes it as a word of its own, to resume a session.
    resume = TableVerb("Continue a stored session.", verbs["exec"].options, ["session", "any"])
    verbs["exec"] = msgspec.structs.replace(verbs["exec"], verbs={"resume": resume})
    return WordTable(msgspec.structs.replace(root, verbs=verbs), dict(_settings()))


def _without(verb: TableVerb, names: set[str]) -> TableVerb:
    options = {name: option for name, option in verb.options.items() if name not in names}
    verbs = {name: _without(child, names) for name, child in verb.verbs.items()}
    return msgspec.structs.replace(verb, options=options, verbs=verbs)


def _verb(command: click.Command, path: str, context: click.Context) -> TableVerb:
    options: dict[str, TableOption] = {}
    arguments: list[ValueKind] = []
    for parameter in command.get_params(context):
        kind = _kind(parameter, path)
        if isinstance(parameter, click.Argument):
            arguments.append(kind)
        elif isinstance(parameter, click.Option) and not parameter.hidden:
            about = _sentence(parameter.help or "")
            value = None if parameter.is_flag or parameter.count else kind
            # Sorted: click has those of --help in the order of a set.
            names = sorted((*parameter.opts, *parameter.secondary_opts), key=len)
            options |= {name: TableOption(about, value) for name in names}
    return TableVerb(_about(command, path), options, arguments, dict(_verbs(command, path, context)))


def _verbs(command: click.Command, path: str, context: click.Context) -> Iterator[tuple[str, TableVerb]]:
    for name in command.list_commands(context) if isinstance(command, click.Group) else ():
        child = command.get_command(context, name)
        assert child is not None
        yield name, _verb(child, f"{path} {name}".strip(), click.Context(child, parent=context, info_name=name))


def _about(command: click.Command, path: str) -> str:
    return VERBS.get(path) or _sentence(command.get_short_help_str(200))


def _sentence(text: str) -> str:
    """The first sentence, without its end."""
    return text.split("; ")[0].split(". ")[0].rstrip(".")


def _kind(parameter: click.Parameter, path: str) -> ValueKind:
    name = parameter.name or ""
    known = BY_PLACE.get((path, name)) or BY_NAME.get(name)
    if known is not None:
        return known
    match parameter.type:
        case click.Choice() as choice:
            return list(choice.choices)
        case click.Path() as place:
            return "file" if place.file_okay else "dir"
        case _:
            return "any"


def _settings() -> Iterator[tuple[str, ValueKind]]:
    for name, hint in get_type_hints(Settings).items():
        if name == "limits":
            yield from ((f"limits.{limit}", "any") for limit in Limits.__struct_fields__)
        elif name not in PYTHON_ONLY:
            yield name, BY_NAME.get(name) or _words(hint) or "any"
    yield "model_providers.NAME.wire", list(get_args(WireName))


def _words(hint: Any) -> list[str]:
    if hint is bool:
        return SWITCH
    origin = get_origin(hint)
    if origin is Literal:
        return list(dict.fromkeys(str(word).replace("_", "-") for word in get_args(hint)))
    if origin in (Union, UnionType):
        return [word for part in get_args(hint) for word in _words(part)]
    return []


def as_json(table: WordTable) -> bytes:
    return msgspec.json.format(msgspec.json.encode(table), indent=1) + b"\n"


if __name__ == "__main__":
    FILE.write_bytes(as_json(make_table()))
