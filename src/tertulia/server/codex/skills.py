"""The skills that a Codex client is shown, and the text of one that it puts into a message."""

from __future__ import annotations

import os.path
import re
from typing import Any

from tertulia.context.providers.skills import SkillFolder
from tertulia.context.validation import escape_tags
from tertulia.errors import InvalidParamsError
from tertulia.protocol.name_hints import name_hint

_SKILL = re.compile(r"<skill>\n<name>([^<\n]*)</name>\n<path>([^<\n]*)</path>\n")


def skill_text(name: str, path: str, folder: SkillFolder) -> str:
    """A skill of the thread's directory, whole, as the model reads it. InvalidParams for any other file."""
    skills, _ = folder.all()
    skill = skills.get(name)
    if skill is None:
        known = f"; {name_hint(name, skills)}" if skills else "; it has none"
        raise InvalidParamsError(f"input: there is no skill {name!r:.80} in the thread's directory{known}")
    if folder.path(skill) != os.path.realpath(path):
        raise InvalidParamsError(f"input: the skill {name!r:.80} is at {folder.path(skill)}, not at {path!r:.200}")
    body, _ = folder.read(skill)
    # A file of the repository must not be able to end the skill around it.
    body = escape_tags(body).replace("</skill>", "&lt;/skill>")
    return f"<skill>\n<name>{skill.name}</name>\n<path>{escape_tags(path)}</path>\n{body}\n</skill>"


def skill_content(text: str) -> dict[str, Any] | None:
    """The input that such a text was; None for any other text."""
    found = _SKILL.match(text)
    return None if found is None else {"type": "skill", "name": found[1], "path": found[2]}


def skills_entry(folder: SkillFolder) -> dict[str, Any]:
    """The skills of one directory, and why others cannot be used."""
    skills, broken = folder.all()
    return {
        "cwd": folder.cwd,
        "skills": [
            {
                "name": skill.name,
                "description": skill.description,
                "path": folder.path(skill),
                "scope": "repo",
                "enabled": True,
            }
            for skill in skills.values()
        ],
        "errors": [{"path": folder.cwd, "message": reason} for reason in broken],
    }
