"""What a person who sits at a terminal of this process may do to a session, besides what every client may.

Not an operation: no wire, model, tool or project file can reach it. Only code that has the `Session` object can make
one.
"""

from __future__ import annotations

from typing import Any

from tertulia.protocol.message_events import RightsWidened
from tertulia.session.person.modes import Mode, ModeChange, current_mode, plan_mode_change
from tertulia.session.person.shell_command import CommandAnswer, run_shell_command
from tertulia.session.person.widening import widen_rights
from tertulia.session.session import Session
from tertulia.session.settings.conversation_fields import HostTable


class Person:
    """The person at the terminal. It keeps nothing: two of the same session are the same."""

    __slots__ = ("_name", "_session")

    def __init__(self, session: Session, name: str = "terminal") -> None:
        """`name`: how the record calls the person, as `by` of `rights_widened` and of the commands that it allows."""
        self._session = session
        self._name = name

    async def widen(
        self, *, sandbox: str | None = None, approval_policy: Any = None, network: bool | HostTable | None = None
    ) -> list[RightsWidened]:
        """Allow the session and its root more than the session was started with. Ask the person once more before.

        Other conversations keep what they have; those that are opened later may have as much. It holds until the
        session closes: resumed, a session has no more than the settings of the process that resumes it.

        Args:
            sandbox: As in settings, such as "danger-full-access"; None: as it is.
            approval_policy: As in settings, such as "on-request"; None: as it is.
            network: Which hosts commands in the sandbox reach, as in settings; None: as it is.

        Returns:
            One `rights_widened` for each of them, committed.

        Raises:
            InvalidParamsError: Nothing is given, a value is none of those that there are, or the session allows as
                much already; nothing was changed.
            ClosedError: The session is closed.
        """
        fields = {"sandbox": sandbox, "approval_policy": approval_policy, "network": network}
        return await widen_rights(self._session.parts, fields, self._name)

    async def run_command(
        self, line: str, conversation: str = "root", *, timeout_s: float | None = None, offer: bool = True
    ) -> CommandAnswer:
        """Run a command line of the person's own, as the conversation's commands are run: there, and confined alike.

        No one is asked: the person wrote it. `exec_command_begin`, `exec_command_output_delta` and
        `exec_command_end` tell of it, in the conversation and without a task. Cancelled, the command is killed.

        Args:
            line: For a shell.
            conversation: The id of the conversation in whose directory, and under whose rights, it runs; or "root".
            timeout_s: When it is killed; None: `tool_timeout_s` of the settings.
            offer: Whether the model reads the command and its output, as a message of the user, with its next request.

        Returns:
            Its exit code, and its output as far as it is kept.

        Raises:
            InvalidParamsError: The line is empty, or no system could start it; nothing was run.
            NotFoundError: There is no such conversation.
            ClosedError: The conversation or the session is closed.
            SandboxError: It could not be confined, and was not run.
        """
        parts = self._session.parts
        state = parts.conversations.find(conversation)
        return await run_shell_command(parts, state, line, by=self._name, timeout_s=timeout_s, offer=offer)

    @property
    def mode(self) -> Mode | None:
        """The mode that the root is in; None where its rights and instructions are those of no mode."""
        return current_mode(self._session.parts.conversations.root)

    def plan_mode(self, mode: Mode) -> ModeChange:
        """What another mode would change, and which rights would become wider by it; nothing is changed.

        Raises:
            InvalidParamsError: There is no such mode.
        """
        return plan_mode_change(self._session.parts, mode)

    async def set_mode(self, mode: Mode, *, widen: bool = False) -> ModeChange:
        """Put the root into a mode, from its next model request on.

        Args:
            mode: `plan`, `ask` or `auto`.
            widen: Whether the person has agreed to what `plan_mode` lists in `widens`.

        Returns:
            What was changed.

        Raises:
            InvalidParamsError: There is no such mode, or it widens rights and `widen` is not set; nothing was changed.
        """
        change = plan_mode_change(self._session.parts, mode)
        change.check(agreed=widen)
        beyond = {right.field: right.after for right in change.widens if right.beyond_session}
        if beyond:
            await widen_rights(self._session.parts, beyond, self._name)
        await self._session.root.set_context(**change.fields)
        return change
