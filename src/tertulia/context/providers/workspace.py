"""The context provider of the workspace: directory, date, machine, branch, and the project's own rules.

Git is not run, because a repository's configuration can make it run programs. Its state is read from git's files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tertulia.context.agent_meta import AgentInstanceMeta
from tertulia.context.git_repository import find_repository, git_state
from tertulia.context.project_instructions import NAMES
from tertulia.context.validation import escape_tags, one_line
from tertulia.errors import InvalidParamsError
from tertulia.events.clock import Clock, SystemClock, Timestamps
from tertulia.tools.workspace_file import hidden_from, read_start

MAX_RULES_BYTES = 32 * 1024


class WorkspaceContextProvider:
    """Describes the agent's directory, or `cwd` if it has none. Nothing is read below `hidden`, except in the agent's
    own worktree, which lies in our folder `worktrees`.

    Without `rules` the project's rules are left out: every conversation gets them another way then, see
    `context/project_instructions.py`.
    """

    name = "workspace"
    priority = 70

    def __init__(
        self,
        cwd: str | None = None,
        *,
        hidden: Sequence[str] = (),
        worktrees: str | None = None,
        clock: Clock | None = None,
        max_bytes: int = MAX_RULES_BYTES,
        rules: bool = True,
    ) -> None:
        self._cwd = cwd
        self._hidden = hidden
        self._worktrees = worktrees
        self._clock = clock or SystemClock()
        self._max_bytes = max_bytes
        self._with_rules = rules

    def get_system_context(self, agent_name: str, meta: AgentInstanceMeta) -> str | None:
        """Facts about the workspace, and the project's rules; None without a directory."""
        cwd = meta.cwd or self._cwd
        if cwd is None:
            return None
        root = find_repository(cwd)
        machine = os.uname()
        facts = [
            f"- Directory: {one_line(cwd)}",
            f"- Date: {Timestamps(self._clock)()[:10]} (UTC)",
            f"- Platform: {machine.sysname} {machine.machine}",
        ]
        if root is not None:
            facts += [f"- Repository: {one_line(root)}", f"- Git: {git_state(root)}"]
        rules = self._rules(cwd, root) if self._with_rules else ()
        return "\n".join(["## Your workspace", "", *facts, *rules])

    def _rules(self, cwd: str, root: str | None) -> Iterator[str]:
        """The nearest rules file, up to the top of the repository, and a line for each file that could not be read."""
        top = Path(os.path.realpath(root or cwd))
        here = Path(os.path.realpath(cwd))
        hidden = hidden_from(cwd, self._hidden, self._worktrees)
        for folder in (here, *here.parents):
            for name in NAMES:
                path = folder / name
                if not os.path.lexists(path):
                    continue
                shown = one_line(str(path.relative_to(top)))
                try:
                    text, more = _text(str(top), str(path.relative_to(top)), self._max_bytes, hidden)
                except InvalidParamsError as error:
                    yield f"- {one_line(error.message)}"
                    continue
                if text:
                    yield f"\n## Rules of this project, from {shown}\n\n{text}"
                    if more:
                        yield f"\n[… the rest was left out: {shown} is longer than {self._max_bytes:,} bytes]"
                    return
            if folder == top:
                return


def _text(top: str, path: str, max_bytes: int, hidden: Sequence[str]) -> tuple[str, bool]:
    data, more = read_start(top, path, max_bytes, "the file of rules", hidden)
    try:
        # The cut may split the last character, which is then dropped.
        text = data.decode(errors="ignore") if more else data.decode()
    except UnicodeDecodeError:
        raise InvalidParamsError(f"the file of rules {path!r:.200} is not a text in UTF-8") from None
    return escape_tags(text.replace("\0", "").strip()), more
