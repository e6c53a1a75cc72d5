"""The context provider of skills, which are folders with a `SKILL.md`. It lists them; `skill_read` reads one."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

import msgspec

from tertulia.context.agent_meta import AgentInstanceMeta
from tertulia.context.definitions import InternalCaller, ToolDefinition
from tertulia.context.git_repository import find_repository
from tertulia.context.validation import escape_tags
from tertulia.errors import InvalidParamsError, NotFoundError
from tertulia.protocol.name_hints import name_hint
from tertulia.tools.workspace_file import hidden_from, read_start

PLACES = (".agents/skills", ".claude/skills")
MAX_SKILLS = 64
MAX_HEAD_BYTES = 8 * 1024
MAX_BODY_BYTES = 128 * 1024
MAX_DESCRIPTION = 1024
_MAX_ENTRIES = 1024
_MAX_BRACKETS = 100

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_HEAD = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*\r?$\n?", re.DOTALL | re.MULTILINE)
_INTRODUCTION = """## Skills

These are instructions for kinds of tasks. When a task fits one, read it with `skill_read` before you begin."""


class Skill(msgspec.Struct, frozen=True):
    """A skill: its folder, and the name and description from its front matter."""

    name: str
    description: str
    folder: str
    """Relative to the top of the workspace."""


class SkillsContextProvider:
    """Lists the skills of the agent's workspace, then those of its repository; of two with one name the first counts.

    Nothing is read below `hidden`, except in the agent's own worktree, which lies in our folder `worktrees`.
    """

    name = "skills"
    priority = 40

    def __init__(self, cwd: str | None = None, *, hidden: Sequence[str] = (), worktrees: str | None = None) -> None:
        self._cwd = cwd
        self._hidden = hidden
        self._worktrees = worktrees

    def get_tools(self, agent_name: str, meta: AgentInstanceMeta) -> list[ToolDefinition]:
        """Define `skill_read`, if there are skills to read."""
        skills, _ = self._skills(meta)
        if not skills:
            return []
        return [
            ToolDefinition(
                name="skill_read",
                description="Read a skill: instructions for a kind of task, by the name in the list of skills.",
                parameters={
                    "type": "object",
                    "properties": {"name": {"type": "string", "description": "The skill's name."}},
                    "required": ["name"],
                    "additionalProperties": False,
                },
                rpc_method="skill.read",
                scope="all",
                handler=self.read,
            )
        ]

    def get_system_context(self, agent_name: str, meta: AgentInstanceMeta) -> str | None:
        """List the skills with their descriptions, and the folders that look like a skill but cannot be used."""
        skills, broken = self._skills(meta)
        if not skills and not broken:
            return None
        lines = [f"- {skill.name}: {skill.description}" for skill in skills.values()]
        lines += [f"- (not usable: {reason})" for reason in broken[:MAX_SKILLS]]
        return "\n".join([_INTRODUCTION, "", *lines])

    def read(self, call: InternalCaller, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The handler of `skill.read`: returns the text of a skill."""
        folder = self._folder(call.meta)
        skills, _ = folder.all()
        skill = skills.get(arguments["name"])
        if skill is None:
            hint = f"; {name_hint(str(arguments['name']), skills)}" if skills else ""
            raise NotFoundError(f"there is no skill {arguments['name']!r:.80}{hint}")
        text, more = folder.read(skill)
        return {"name": skill.name, "folder": skill.folder, "text": text, "truncated": more}

    def _skills(self, meta: AgentInstanceMeta) -> tuple[dict[str, Skill], list[str]]:
        return self._folder(meta).all()

    def _folder(self, meta: AgentInstanceMeta) -> SkillFolder:
        return SkillFolder(meta.cwd or self._cwd, self._hidden, self._worktrees)


class SkillFolder:
    """The skills of a workspace and its repository, as they are now. Nothing is kept between two calls."""

    def __init__(self, cwd: str | None, hidden: Sequence[str] = (), worktrees: str | None = None) -> None:
        self.cwd = cwd or ""
        self._tops = _search_roots(cwd)
        self._hidden = hidden_from(cwd, hidden, worktrees)

    def all(self) -> tuple[dict[str, Skill], list[str]]:
        """The skills by name, and why other folders that look like one cannot be used."""
        skills: dict[str, Skill] = {}
        broken: list[str] = []
        for folder in _folders(self._tops, self._hidden) if self._tops else ():
            if len(skills) >= MAX_SKILLS:
                broken.append(f"there are more than {MAX_SKILLS}")
                break
            try:
                skill = _read_skill(self._tops[-1], folder, self._hidden)
            except InvalidParamsError as error:
                broken.append(" ".join(error.message.split()))
            else:
                skills.setdefault(skill.name, skill)
        return skills, broken

    def path(self, skill: Skill) -> str:
        """Where the text of one is."""
        return os.path.join(self._tops[-1], skill.folder, "SKILL.md")

    def read(self, skill: Skill) -> tuple[str, bool]:
        """The text of one without its head, and whether there is more of it than is read."""
        text, more = _text(self._tops[-1], skill.folder, MAX_BODY_BYTES, self._hidden)
        head = _HEAD.match(text)
        return (text[head.end() :] if head else text).strip(), more


def _search_roots(cwd: str | None) -> list[str]:
    """Directories to search, the nearest first; the last contains the others."""
    if cwd is None:
        return []
    here = os.path.realpath(cwd)
    root = find_repository(here)
    return [here] if root is None or root == here else [here, root]


def _folders(tops: Sequence[str], hidden: Sequence[str]) -> Iterator[str]:
    for top in tops:
        for place in PLACES:
            directory = os.path.join(top, place)
            # Directories that may not be read are not listed: links to other directories, and those with secrets.
            if os.path.realpath(directory) != directory or not os.path.isdir(directory) or _is_below(directory, hidden):
                continue
            with os.scandir(directory) as entries:
                names = sorted(entry.name for entry in islice(entries, _MAX_ENTRIES))
            for name in names:
                if os.path.lexists(os.path.join(directory, name, "SKILL.md")):
                    yield os.path.relpath(os.path.join(directory, name), tops[-1])


def _is_below(path: str, places: Sequence[str]) -> bool:
    return any(os.path.commonpath([path, real]) == real for real in map(os.path.realpath, places))


def _read_skill(top: str, folder: str, hidden: Sequence[str]) -> Skill:
    # Imported only when there is a skill: few workspaces have one, and the YAML parser is slow to import.
    from tertulia.models.plain_yaml import load_plain

    text, _ = _text(top, folder, MAX_HEAD_BYTES, hidden)
    head = _HEAD.match(text)
    if head is None:
        raise InvalidParamsError(f"{folder}/SKILL.md does not begin with its name and description between lines of ---")
    if head[1].count("[") + head[1].count("{") > _MAX_BRACKETS:
        # A few thousand nested brackets take the parser seconds.
        raise InvalidParamsError(f"{folder}/SKILL.md has more than {_MAX_BRACKETS} brackets above its text")
    try:
        fields = load_plain(head[1])
    except InvalidParamsError as error:
        raise InvalidParamsError(f"{folder}/SKILL.md: {error.message}") from None
    name, description = (_field(fields, key) for key in ("name", "description"))
    if not _NAME.match(name) or not description:
        raise InvalidParamsError(f"{folder}/SKILL.md needs a name (letters, digits, dots and dashes) and a description")
    return Skill(name, description, folder)


def _field(fields: object, key: str) -> str:
    value = cast("Mapping[object, object]", fields).get(key) if isinstance(fields, Mapping) else None
    return escape_tags(" ".join(value.split())[:MAX_DESCRIPTION]) if isinstance(value, str) else ""


def _text(top: str, folder: str, max_bytes: int, hidden: Sequence[str]) -> tuple[str, bool]:
    data, more = read_start(top, os.path.join(folder, "SKILL.md"), max_bytes, "the skill", hidden)
    return data.decode(errors="replace").replace("\0", ""), more
