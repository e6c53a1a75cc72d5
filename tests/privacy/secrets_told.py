"""One secret for every place in which somebody can say something, and the search for all of them."""

from __future__ import annotations

import os
import random
from pathlib import Path

from tests.rollout.canary import sightings_in, unpacked

ROOT = Path(__file__).parents[2]
PLACES = (
    *("prompt", "reply", "reasoning", "partial", "retrying", "arguments", "result", "tool_error", "exception"),
    *("odd_exception", "tool_name", "call_id", "title", "new_title", "base_instructions", "user_instructions"),
    *("environment", "file_name", "sender", "message_id", "steer", "sent", "child_title", "child_answer"),
    *("child_instructions", "unknown_conversation", "model_error", "summary", "plan", "output_schema", "image"),
    *("picture", "published", "detached", "command", "command_output", "justification", "refusal", "approval"),
    *("queued", "patched_file", "patched_text", "terminal", "invalid_output"),
)
"""Every one of them is said by `speaker` in a whole run."""

NEVER_STORED = ("message_id", "approval")
"""Not even under `full`: of an id only a digest is kept, and the word that goes with a yes is for nobody."""


class Secrets:
    """The same for whoever has the same seed: the speaker says them, the searcher looks for them."""

    def __init__(self, seed: str) -> None:
        dice = random.Random(seed)
        # No hexadecimal digits in the first letters: no id looks like them.
        self._said = {place: "".join(dice.choices("ghjkmnpqrstvwxyz", k=10)) for place in PLACES}

    def __getitem__(self, place: str) -> str:
        """What JSON has to escape, and what is no ASCII, is in it."""
        return f'{self._said[place]}"\u00fc\\{place}'

    def found(self, data: bytes) -> dict[str, list[str]]:
        """Where which of them were seen, and in which spelling."""
        places = unpacked(data)
        return {place: seen for place in PLACES if (seen := sightings_in(places, self[place]))}


def everything_below(folder: Path) -> bytes:
    """All files and all names of them, in one."""
    found = sorted(folder.rglob("*"))
    names = "\n".join(str(path.relative_to(folder)) for path in found).encode()
    return b"\0".join([names, *(path.read_bytes() for path in found if path.is_file() and not path.is_symlink())])


def surroundings(folder: Path) -> dict[str, str]:
    """An environment in which all that is written lands below that folder."""
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        # Not where it works: a home is no workspace.
        "HOME": str(folder / "home-of-user"),
        "TMPDIR": str(folder / "tmp"),
        "TERTULIA_HOME": str(folder / "home"),
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "LANG": "C.UTF-8",
    }
