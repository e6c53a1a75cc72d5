"""Where commands run: one session's sandbox, directory, environment and approval queue, for every tool that needs them.

A tool passes what to do and for which call; what that may touch is derived here from the call's rights.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError, SandboxError
from tertulia.policy.approvals.approval_queue import ApprovalQueue
from tertulia.policy.approvals.approval_request import ApprovalParts, GrantSubject, RequestedAction, with_label
from tertulia.policy.host_rules import network_text
from tertulia.policy.rights import Rights
from tertulia.policy.shell_environment import ShellEnvironment
from tertulia.protocol.conversation_fields import sandbox_to_wire
from tertulia.protocol.storage import Full
from tertulia.protocol.tool_events import ApprovalFile, Decider
from tertulia.protocol.worktree import OwnWorktree
from tertulia.sandbox.confine import confine
from tertulia.sandbox.masks.guarded_paths import GuardedPaths, is_inside
from tertulia.sandbox.masks.startup_files import STARTUP_NAMES
from tertulia.sandbox.mounts.entries import HIDDEN
from tertulia.sandbox.mounts.nested_protected import protected_part
from tertulia.sandbox.runner import Command, CommandResult, CommandRunner, Confinement, Watch
from tertulia.tools.confined_program import confined_program
from tertulia.tools.patch import disk_program
from tertulia.tools.tool import CallContext, ReadingTool

if TYPE_CHECKING:
    from tertulia.sandbox.proxy.gate import HostGate
    from tertulia.tools.network.services import NetworkServices

OUTSIDE = "none: outside the sandbox"
"""The value that the approval request shows for that."""
MAX_DISK_ANSWER_BYTES = disk_program.MAX_READ_BYTES * 2
_DISK_COMMAND = confined_program(disk_program.__file__)
"""Reads and writes files of a directory, follows no link, and imports nothing of ours."""


class PatchSource(msgspec.Struct, frozen=True):
    """The origin of changes that need an approval like a patch, and are no patch of a model."""

    act: str
    """What is done, such as `apply the merge of a branch`; a grant is bound to it as well."""
    label: str
    """The line above the text in the approval request."""


class CommandEnvironment(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What the tools of a session work with. The directory is the session's own, never one that a model named."""

    runner: CommandRunner
    approvals: ApprovalQueue
    root: str
    """Canonical. Where no other roots were set, the one that commands may write."""
    guarded: GuardedPaths
    """What no command sees, and what none may change, whatever roots it has."""
    environment: Mapping[str, str]
    """The environment variables of a command."""
    environment_policy: str
    """How the environment was made, in one canonical text: a grant is bound to it."""
    timeout_s: float
    """The most seconds that a call waits for a command."""
    network: NetworkServices | None = None
    """For commands that reach hosts by name; without it they are refused."""
    copies: str | None = None
    """Where copies are stored of what commands wrote to protected files, if their storage policy allows it."""

    def confinement(self, rights: Rights, worktree: OwnWorktree | None = None) -> Confinement:
        """What a command with these rights may touch, in a worktree where its conversation has one."""
        return confine(rights, self.root, guarded=self.guarded, worktree=worktree)

    def gate(self, confinement: Confinement, argv: tuple[str, ...], call: CallContext) -> HostGate | None:
        """What decides which hosts a command reaches; None where its confinement has no list of them."""
        rules = confinement.network
        if isinstance(rules, bool) or self.network is None:
            return None
        # Here and not above: most sessions have no list.
        from tertulia.tools.network.host_gate import ConversationGate

        return ConversationGate(self.network, self.approvals, rules, call, argv)

    def page_gate(self, call: CallContext) -> HostGate:
        """The same for a page that is fetched. With all of the network: every name, at the ports of the web."""
        from tertulia.policy.host_rules import HostRules
        from tertulia.tools.network.host_gate import ConversationGate

        network = call.rights.network
        if network is False or self.network is None:
            raise InvalidParamsError("this conversation has no network")
        return ConversationGate(self.network, self.approvals, HostRules() if network is True else network, call, ())

    def own_confinement(self, call: CallContext) -> Confinement:
        """The same for a program of this package, which needs no host."""
        confinement = self.confinement(call.rights, call.worktree)
        return confinement if isinstance(confinement.network, bool) else replace(confinement, network=False)

    @property
    def masked(self) -> tuple[str, ...]:
        """Every place that commands do not see, whether or not it is there."""
        return tuple(mask.path for mask in self.guarded.masks)

    def watch(self, rights: Rights) -> Watch:
        """How protected files are watched while a command with these rights runs."""
        return Watch(self.copies if isinstance(rights.storage_policy, Full) else None)

    def directory(self, workdir: str | None, call: CallContext) -> str:
        """The directory in which a command starts, which gives no right to write there."""
        if workdir is not None and "\0" in workdir:
            raise InvalidParamsError("workdir must not contain a NUL")
        return os.path.realpath(os.path.join(call.cwd, workdir or "."))

    def locate(self, path: str, call: CallContext) -> tuple[str, str]:
        """The outermost directory that may be looked into, and where below it a path is; InvalidParams if nowhere.

        The path is absolute or relative to the call's directory. `.` stands for the directory itself.
        """
        if "\0" in path:
            raise InvalidParamsError("path must not contain a NUL")
        here, confinement = os.path.realpath(call.cwd), self.confinement(call.rights, call.worktree)
        named = os.path.normpath(os.path.join(here, path))
        if confinement.mode == "danger_full_access":
            return "/", os.path.relpath(named, "/")
        self.check_readable(named, call)
        # The outermost: what lies above it no command can move.
        for root in sorted((here, self.root, *confinement.writable_roots), key=len):
            if is_inside(named, root):
                return root, os.path.relpath(named, root)
        raise InvalidParamsError(f"{path!r:.200} lies outside of the working directory and the writable roots")

    def check_readable(self, path: str, call: CallContext) -> None:
        """Refuse an absolute path that commands do not see; InvalidParams names the mask."""
        if call.rights.sandbox == "danger_full_access" or call.sees(path):
            return
        if (mask := self.guarded.mask_over(path)) is not None:
            raise InvalidParamsError(f"{path:.200} is not shown: {mask.refusal()}")

    def check_changeable(self, paths: Iterable[str], call: CallContext) -> None:
        """Refuse relative paths that are protected, or in a place that is removed with each command."""
        confinement = self.confinement(call.rights, call.worktree)
        if confinement.mode == "danger_full_access":
            return
        directory = self.directory(None, call)
        check_unprotected(directory, confinement)
        for path in paths:
            named = os.path.normpath(os.path.join(directory, path))
            self.check_readable(named, call)
            protected = self.guarded.protection_over(named, confinement.writable_roots)
            if protected is not None:
                raise InvalidParamsError(
                    f"{named:.200} is protected from changes: {protected.reason}; nothing was changed"
                )
            check_unprotected(named, confinement)
            _check_startup_names(named, confinement)
            _check_lasting(named, confinement)

    def mask_hint(self, command: Command, finished: CommandResult) -> str | None:
        """Which masks may be the reason why a command failed, and how the user removes them;

        None where none seems to be.
        """
        if finished.exit_code == 0 or command.confinement.mode == "danger_full_access":
            return None
        return self.guarded.hint(command.argv, finished.output.text())

    def subject(self, words: tuple[str, ...], cwd: str, sandbox: Confinement, *, outside: bool = False) -> GrantSubject:
        """All that a grant will be bound to. The sandbox it is to leave counts: a narrower one needs a new grant."""
        where = describe_confinement(sandbox)
        return GrantSubject(words, cwd, self.environment_policy, f"{OUTSIDE}, instead of {where}" if outside else where)

    async def confined(self, argv: tuple[str, ...], stdin: bytes, output_bytes: int, call: CallContext) -> bytes:
        """The output of a program of this package, run in the call's directory and confined by its rights.

        Raises SandboxError, or SandboxUnavailable, where it did not run to its end.
        """
        command = Command(
            argv=argv,
            cwd=self.directory(None, call),
            confinement=self.own_confinement(call),
            environment=self.environment,
            stdin=stdin,
            kept_output_bytes=output_bytes,
        )
        finished = await self.runner.run(command, timeout_s=self.timeout_s)
        if finished.ended != "exited" or finished.output.truncated:
            raise SandboxError(f"{os.path.basename(argv[-1])} was stopped before it was done ({finished.ended})")
        return finished.output.head + finished.output.tail

    async def on_disk(self, request: dict[str, Any], call: CallContext, failure: str) -> dict[str, Any]:
        """The answer of `disk_program` to a request, run in the call's directory and confined by its rights.

        SandboxError, which begins with `failure`, where it gave none. Whether it did as it was asked is in the answer.
        """
        output = await self.confined(_DISK_COMMAND, msgspec.json.encode(request), MAX_DISK_ANSWER_BYTES, call)
        try:
            return msgspec.json.decode(output, type=dict[str, Any])
        except msgspec.DecodeError:
            raise SandboxError(f"{failure}: {output[-500:].decode('utf-8', 'replace')!r}") from None

    async def approve_patch(
        self, text: str, files: tuple[ApprovalFile, ...], call: CallContext, about: PatchSource | None = None
    ) -> Decider:
        """Return when this patch may be applied; else ApprovalDenied, or InvalidParams where it never may.

        `about`: where it comes from, if it is not the text of a model.
        """
        directory, confinement = self.directory(None, call), self.confinement(call.rights, call.worktree)
        check_unprotected(directory, confinement)
        subject = self.subject((*(() if about is None else (about.act,)), text), directory, confinement)
        act = "apply a patch" if about is None else about.act
        request = RequestedAction(
            kind="patch",
            conversation_id=call.conversation_id,
            chain=call.chain.callers,
            call_id=call.call_id,
            title=f"{act} to {len(files)} file{'s' * (len(files) != 1)} in {call.cwd}",
            detail=with_label("The patch" if about is None else about.label, text),
            subject=subject,
            parts=ApprovalParts(cwd=directory, sandbox=subject.sandbox, files=files),
        )
        with call.unhurried():
            granted = await self.approvals.ask(request, call.rights.approval_policy, call.publish)
        return granted.decider


def check_unprotected(directory: str, confinement: Confinement) -> None:
    """Refuse a directory that lies in a protected one; where a root itself lies does not count."""
    roots = confinement.writable_roots if confinement.mode == "workspace_write" else ()
    for root in roots:
        inside = os.path.relpath(directory, root)
        if inside.split("/")[0] != ".." and (part := protected_part(inside)) is not None:
            raise InvalidParamsError(f"{directory} lies in or is '{part}', which is protected from changes")


def _check_startup_names(path: str, confinement: Confinement) -> None:
    """Refuse what shells, editors and the like run by its name, where it exists."""
    for root in confinement.writable_roots:
        inside = os.path.relpath(path, root).split("/") if is_inside(path, root) else []
        for number, part in enumerate(inside):
            if part in STARTUP_NAMES and os.path.lexists(os.path.join(root, *inside[: number + 1])):
                raise InvalidParamsError(
                    f"{path:.200} lies in or is '{part}', which programs run by its name: it is protected from changes"
                )


def _check_lasting(path: str, confinement: Confinement) -> None:
    """Refuse a place that exists only for one command and is removed with it: what is written there would be lost."""
    roots = confinement.writable_roots if confinement.mode == "workspace_write" else ()
    private = next((place for place in HIDDEN if is_inside(path, place)), None)
    if private is not None and not any(is_inside(path, root) for root in roots):
        raise InvalidParamsError(
            f"{path:.200} would not last: each command has a {private} of its own, which is gone with it; nothing was "
            f"changed, patch files of the workspace instead"
        )


def describe_confinement(confinement: Confinement) -> str:
    """A confinement in words, one spelling for each."""
    mode, network = sandbox_to_wire(confinement.mode), network_text(confinement.network)
    if confinement.mode == "danger_full_access":
        return mode
    roots = confinement.writable_roots if confinement.mode == "workspace_write" else ()
    return f"{mode}, writable: {', '.join(roots) or 'nothing'}, network {network}"


def describe_environment_policy(policy: ShellEnvironment) -> str:
    """An environment policy in words; of variables that were set, only their names: the values may be secrets."""
    lists = {"excluded": policy.exclude, "only": policy.include_only, "set": tuple(policy.set)}
    variables = [f"{name} {', '.join(sorted(names))}" for name, names in lists.items() if names]
    secrets = ["variables called like secrets included"] if policy.ignore_default_excludes else []
    return "; ".join([f"inherits {policy.inherit}", *variables, *secrets])


class PlacedTool(ReadingTool):
    """The base of a tool that reads where the commands of its caller run, confined as they are."""

    def __init__(self, place: CommandEnvironment) -> None:
        self._place = place
