"""A patch that a model hands to a shell, as if there were a program `apply_patch`: found, so that it can be applied."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from tertulia.policy.commands.command_analysis import SCRIPT_FLAGS, SHELLS, read_script

_NAMES = ("apply_patch", "applypatch")
_HEREDOC = re.compile(
    r"\s*+(?:(?P<before>cd [^\n<&]++)&&\s*+)?(?:apply_patch|applypatch)[ \t]*+"
    r"<<(?P<quote>['\"]?)(?P<word>\w++)(?P=quote)[ \t]*+\n(?P<text>.*\n)(?P=word)\s*+",
    re.DOTALL,
)


class PatchCommand(msgspec.Struct, frozen=True, gc=False):
    """A patch and where it belongs."""

    text: str
    workdir: str | None
    """What the script changed to before; relative to where it began."""


def patch_in_command(argv: Sequence[str]) -> PatchCommand | None:
    """`apply_patch TEXT`, or a script that is `apply_patch` with a heredoc, after at most one `cd`; else None."""
    match list(argv):
        case [name, text] if name in _NAMES:
            return PatchCommand(text, None)
        case [shell, flag, script] if shell in SHELLS and flag in SCRIPT_FLAGS:
            return _in_script(script)
        case _:
            return None


def _in_script(script: str) -> PatchCommand | None:
    found = _HEREDOC.fullmatch(script)
    if found is None:
        return None
    if found["before"] is None:
        return PatchCommand(found["text"], None)
    before = read_script(found["before"])
    match before.commands if before is not None else ():
        case (("cd", workdir),) if not workdir.startswith("-"):
            return PatchCommand(found["text"], workdir)
        case _:
            return None
