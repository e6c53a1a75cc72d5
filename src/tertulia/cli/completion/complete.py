"""`tertulia complete`: what a shell asks when Tab is pressed. Hidden; it starts nothing and creates nothing.

It imports no other verb: what they take is in a table beside it, so that it is as fast as Tab has to be.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence

import click

from tertulia.cli.completion.word_table import Candidate, find_candidates
from tertulia.errors import TertuliaError

SHELLS = ("bash", "zsh", "fish")
_BREAKS = re.compile(r"[=:]+")
"""Characters at which bash splits a word."""


@click.command("complete", hidden=True)
@click.argument("shell", type=click.Choice(SHELLS))
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def command(*, shell: str, words: Sequence[str]) -> int:
    """Print what the last of these words can become, in the form of a shell; the first is the program."""
    joined = _join_split_words(words) if shell == "bash" else list(words)
    if len(joined) < 2:
        return 0
    try:
        candidates = find_candidates(joined[1:-1], joined[-1], _known_values)
    except (OSError, ValueError, TertuliaError):
        # An unreadable file must not print anything into the line that is being typed.
        return 0
    for line in _lines(shell, candidates, joined[-1]):
        # A typed word may be invalid UTF-8; it is returned unchanged.
        sys.stdout.buffer.write(f"{line}\n".encode("utf-8", "surrogateescape"))
    return 0


def _known_values(kind: str) -> Iterable[Candidate]:
    # Imported here: it reads the settings, which takes longer than all the rest.
    from tertulia.cli.completion.known_values import known_values

    return known_values(kind)


def _join_split_words(words: Sequence[str]) -> list[str]:
    """The words as they were typed: bash has split them at `=` and `:`."""
    joined: list[str] = []
    glue = False
    for word in words:
        breaks = _BREAKS.fullmatch(word) is not None
        if joined and (breaks or glue):
            joined[-1] += word
        else:
            joined.append(word)
        glue = breaks
    return joined


def _lines(shell: str, candidates: Sequence[Candidate], current: str) -> Iterator[str]:
    # Bash replaces only what stands behind the last place where it has split.
    split = max(current.rfind("="), current.rfind(":")) + 1
    for candidate in candidates:
        if candidate.is_path:
            yield candidate.value
        elif shell == "bash":
            yield candidate.value[split:]
        elif shell == "fish":
            yield f"{candidate.value}\t{candidate.about}"
        else:
            value = candidate.value.replace("\\", "\\\\").replace(":", "\\:")
            # What stands in front says whether a space follows.
            yield f"{'~' if candidate.goes_on else '='}{value}:{candidate.about}"
