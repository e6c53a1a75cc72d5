"""How the program of an executor is called: its arguments, its standard input, its command for the sandbox's runner.

Pure. An executor that cannot be held to the rights of its task is refused here.
"""

from __future__ import annotations

import json
import os.path
import re
from collections.abc import Iterable, Iterator, Mapping

from tertulia.errors import UnsupportedByBackendError
from tertulia.executors.command.definition import ExecutorDefinition, Words
from tertulia.executors.executor import Assignment
from tertulia.policy.host_rules import HostRules, network_text
from tertulia.policy.rights import Rights
from tertulia.protocol.conversation_fields import sandbox_to_wire
from tertulia.sandbox.runner import Command, CommandLimits, Confinement

_GAP = "\n\n"
_PLACE = re.compile(r"\{([a-z]+)\}")
_OURS = "tertulia"
"""The name that every agent knows our MCP server by."""
_OUR_TOOL = f"mcp__{_OURS}__"
_MAX_WORD_BYTES = 100_000
"""The most bytes of one argument; the kernel's limit is a little higher."""


def command_line(
    name: str,
    definition: ExecutorDefinition,
    assignment: Assignment,
    others: Iterable[str] = (),
    file: str = "",
    layer: str = "",
) -> Words:
    """The program and its arguments. UnsupportedByBackendError where the agent has no arguments for a restriction.

    `others`: names of MCP servers that the agent must not start. `file`, `layer`: where it can read the system part.
    """
    system_part = system_text(assignment)
    system = _filled(definition.system, text=system_part, json=_json(system_part), file=file, layer=layer)
    ending = definition.start if assignment.resume is None else definition.resume_with or ()
    return (
        *definition.command,
        *definition.args,
        *_sandbox(name, definition, assignment),
        *_servers(definition, assignment, others),
        *(system if system_part and _fits(definition, system_part, file, layer) else ()),
        *_filled(ending, id=assignment.resume or ""),
    )


def standard_input(definition: ExecutorDefinition, assignment: Assignment, file: str = "", layer: str = "") -> bytes:
    """The prompt, with the system part before it where that can be given in no other way."""
    system = system_text(assignment)
    # An agent that resumes its own session remembers a system part that stood before an earlier prompt.
    beside = _fits(definition, system, file, layer) and not (
        definition.system_at_start and assignment.resume is not None
    )
    prompt = (
        assignment.prompt if not system or beside or assignment.is_told_already else system + _GAP + assignment.prompt
    )
    return prompt.encode("utf-8", "replace")


def system_text(assignment: Assignment) -> str:
    """The system part: everything the agent is told beside the prompt. Without NUL, which no argument can hold."""
    return _GAP.join(filter(None, assignment.additions)).replace("\0", "")


def among_its_own(definition: ExecutorDefinition, assignment: Assignment) -> bool:
    """Whether the agent runs in a PID namespace. Not with full access: then it may signal any process of the user."""
    return definition.pid_namespace and assignment.rights.sandbox != "danger_full_access"


def unconfined_command(
    argv: Words,
    assignment: Assignment,
    environment: Mapping[str, str],
    definition: ExecutorDefinition,
    temporary: tuple[str, ...],
) -> Command:
    """The command that runs an executor's program: not confined by our sandbox, but ended by us, children included."""
    return Command(
        argv=argv,
        cwd=assignment.cwd,
        # Nested sandboxes mostly mean that the inner one does not work.
        confinement=Confinement(mode="danger_full_access", limits=CommandLimits(cpu_s=None)),
        environment=environment,
        kept_output_bytes=0,
        temporary=temporary,
        pid_namespace=among_its_own(definition, assignment),
    )


def check_hosts(name: str, rights: Rights) -> None:
    """UnsupportedByBackendError where these rights name hosts: the agent's own sandbox has all of a network or none."""
    if isinstance(rights.network, HostRules) and rights.sandbox != "danger_full_access":
        raise UnsupportedByBackendError(
            f"{name} confines its commands itself and knows no hosts by name, so it cannot be held to network: "
            f"{network_text(rights.network)}; give its conversation network = false, or true where that is allowed"
        )


def check_writable_directory(name: str, assignment: Assignment) -> str:
    """The real path of a task's directory; UnsupportedByBackendError where the task may not write there."""
    cwd = os.path.realpath(assignment.cwd)
    if not any(_is_below(cwd, root) for root in assignment.roots):
        raise UnsupportedByBackendError(
            f"{name} writes where it works, and {assignment.cwd} is outside of what may be written; "
            "open the conversation in a writable directory, or read-only"
        )
    return cwd


def _fits(definition: ExecutorDefinition, system: str, file: str, layer: str) -> bool:
    """Whether the system part can be given beside the prompt."""
    if any("{layer}" in word for word in definition.system):
        return bool(layer)
    if any("{file}" in word for word in definition.system):
        return bool(file)
    return bool(definition.system) and len(_json(system).encode("utf-8", "replace")) < _MAX_WORD_BYTES


def _servers(definition: ExecutorDefinition, assignment: Assignment, others: Iterable[str]) -> Iterator[str]:
    """Arguments that keep the agent from MCP servers other than ours, and that name ours if there is one."""
    if not any("{name}" in word for word in definition.servers):
        others = ("",)
    for other in others:
        if other != _OURS:
            yield from _filled(definition.servers, name=other)
    yield from server_arguments(definition.server, assignment)


def server_arguments(words: Words, assignment: Assignment) -> Words:
    """Arguments that name our MCP server; empty where the agent gets none."""
    if not assignment.server:
        return ()
    program, *arguments = assignment.server
    return _filled(words, command=_json(program), args=_json(arguments))


def _sandbox(name: str, definition: ExecutorDefinition, assignment: Assignment) -> Iterator[str]:
    mode, spelled = assignment.rights.sandbox, sandbox_to_wire(assignment.rights.sandbox)
    words = definition.sandbox.get(mode)
    if words is None and mode != "danger_full_access":
        raise UnsupportedByBackendError(
            f"{name} does not say how it is held to the sandbox mode {spelled}; set the arguments for it in the table "
            "`sandbox` of its executor, or run it under danger-full-access"
        )
    check_hosts(name, assignment.rights)
    _check_questions(name, definition, assignment, words or ())
    yield from words or ()
    yield from _tools(name, definition, assignment)
    if mode != "workspace_write":
        return
    cwd = check_writable_directory(name, assignment)
    if assignment.rights.network is True:
        yield from definition.network
    for root in assignment.roots:
        if root != cwd:
            yield from _filled(definition.root, root=root)


def _check_questions(name: str, definition: ExecutorDefinition, assignment: Assignment, words: Words) -> None:
    """Refuse a mode in which it cannot ask what has to be asked."""
    asks = any(word.startswith(_OUR_TOOL) for word in words)
    if asks and not assignment.server:
        raise UnsupportedByBackendError(
            f"{name} asks before it acts by MCP, which is not installed: pip install 'tertulia[mcp]'"
        )
    if definition.asks_by_mode and assignment.rights.approval_policy.needs_asking and not asks:
        spelled = sandbox_to_wire(assignment.rights.sandbox)
        raise UnsupportedByBackendError(
            f"{name} cannot ask a person in the sandbox mode {spelled}, and the approval policy of this task needs that"
        )


def _tools(name: str, definition: ExecutorDefinition, assignment: Assignment) -> Iterator[str]:
    """Arguments that take away those of the agent's own tools that the conversation has no right to."""
    rights = assignment.rights
    if not rights.shell:
        if definition.no_shell is None:
            raise UnsupportedByBackendError(
                f"{name} does not say how its shell is taken away, and this conversation may have none; set the "
                "arguments for it as `no_shell` of its executor"
            )
        yield from definition.no_shell
    if not rights.allows_tool("web_search"):
        yield from definition.no_search


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")


def _filled(words: Words, **values: str) -> Words:
    """The arguments with the values for their placeholders. Other braces stay as they are."""
    return tuple(_PLACE.sub(lambda match: values.get(match[1], match[0]), word) for word in words)


def _json(value: object) -> str:
    # Not escaped to ASCII: TOML, which reads the same strings, has no surrogate pairs.
    return json.dumps(value, ensure_ascii=False)
