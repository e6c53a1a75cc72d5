"""Patterns of paths, as git writes them in ignore files: `*`, `?`, `[…]`, `**`, and `{a,b}` where a model may write it.

Used by us and by a program inside the sandbox, so it imports nothing of ours. A pattern becomes a regular expression
that takes time in proportion to the path for each star, whatever it contains: each piece between two stars is taken at
its first place and never again, which finds a match wherever there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MAX_PATTERN = 500
"""How many characters a pattern may have."""
MAX_ALTERNATIVES = 64
MAX_RULES = 5_000
"""Of one ignore file; further ones do not count."""


class PatternError(ValueError):
    """A pattern that cannot be read."""


def compile_glob(pattern: str) -> re.Pattern[str]:
    """Matches whole paths. A pattern without a slash matches names at any depth; a leading slash is the beginning."""
    if len(pattern) > MAX_PATTERN:
        raise PatternError(f"the pattern has more than {MAX_PATTERN} characters")
    alternatives = expand_braces(pattern)
    try:
        return re.compile("|".join(f"(?:{_path_regex(one)})" for one in alternatives))
    except re.error as error:
        raise PatternError(f"the pattern cannot be read: {error}") from None


def expand_braces(pattern: str) -> list[str]:
    """Every pattern that a pattern with `{a,b}` stands for."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            raise PatternError(f"the pattern stands for more than {MAX_ALTERNATIVES} patterns")
        one = waiting.pop(0)
        found = re.search(r"\{([^{}]*,[^{}]*)\}", one)
        if found is None:
            done.append(one)
        else:
            waiting += [one[: found.start()] + choice + one[found.end() :] for choice in found[1].split(",")]
    return done


def _path_regex(pattern: str) -> str:
    anchored = "/" in pattern.strip("/") or pattern.startswith("/")
    parts = [part for part in pattern.strip("/").split("/") if part not in ("", ".")]
    if not anchored:
        parts = ["**", *parts]
    return _segments(parts) + r"\Z"


def _segments(parts: Sequence[str]) -> str:
    """Runs of plain segments between `**`, each at its first place but the last, which ends the path."""
    runs: list[list[str]] = [[]]
    for part in parts:
        if part == "**":
            runs.append([])
        else:
            runs[-1].append(_segment(part))
    if len(runs) == 1:
        return "/".join(runs[0])
    first, *middle, last = runs
    regex = "".join(f"{segment}/" for segment in first)
    for run in middle:
        if run:
            regex += f"(?>(?:[^/]+/)*?{''.join(f'{segment}/' for segment in run)})"
    return regex + (f"(?:[^/]+/)*{'/'.join(last)}" if last else ".+")


def _segment(part: str) -> str:
    """One name: literal pieces between stars."""
    pieces = [""]
    at = 0
    while at < len(part):
        letter = part[at]
        if letter == "*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
            at += 1
            continue
        if letter == "[" and (end := _class_end(part, at)) is not None:
            pieces[-1] += _character_class(part[at + 1 : end])
            at = end + 1
            continue
        if letter == "\\" and at + 1 < len(part):
            at += 1
            letter = part[at]
            pieces[-1] += re.escape(letter)
        else:
            pieces[-1] += "[^/]" if letter == "?" else re.escape(letter)
        at += 1
    first, *rest = pieces
    if not rest:
        return first
    *middle, last = rest
    return first + "".join(f"(?>[^/]*?{piece})" for piece in middle if piece) + f"[^/]*{last}"


def _class_end(part: str, start: int) -> int | None:
    begin = start + 1 + (part[start + 1 : start + 2] in ("!", "^"))
    end = part.find("]", begin + 1)
    return end if end > 0 else None


def _character_class(inside: str) -> str:
    negated = inside[:1] in ("!", "^")
    members = (inside[1:] if negated else inside).replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    members = members.replace("^", "\\^").replace("&", "\\&").replace("~", "\\~").replace("|", "\\|")
    return f"[^/{members}]" if negated else f"(?!/)[{members}]"


class IgnoreRules:
    """The rules of one ignore file; the last rule that matches a path decides."""

    __slots__ = ("_by_name", "_by_suffix", "_others")

    def __init__(self, lines: Iterable[str]) -> None:
        """Lines that cannot be read do not count. Most rules are a name or `*.suffix`, and need no search."""
        self._by_name: dict[str, list[tuple[int, bool, bool]]] = {}
        self._by_suffix: dict[str, list[tuple[int, bool, bool]]] = {}
        self._others: list[tuple[int, bool, bool, re.Pattern[str]]] = []
        for number, line in enumerate(lines):
            if number >= MAX_RULES:
                break
            self._add(number, line.rstrip("\r\n"))

    def __bool__(self) -> bool:
        return bool(self._by_name or self._by_suffix or self._others)

    def ignores(self, path: str, name: str, is_directory: bool) -> bool | None:
        """Whether a path, relative to the file's directory, is ignored; None where no rule says so."""
        best, verdict = -1, None
        suffix = name[name.rfind(".") :] if "." in name else ""
        for rules in (self._by_name.get(name, ()), self._by_suffix.get(suffix, ())):
            for number, negated, only_directories in rules:
                if number > best and (is_directory or not only_directories):
                    best, verdict = number, not negated
        for number, negated, only_directories, regex in reversed(self._others):
            if number < best:
                break
            if (is_directory or not only_directories) and regex.match(path):
                return not negated
        return verdict

    def _add(self, number: int, line: str) -> None:
        pattern = line.rstrip(" ") if not line.endswith("\\ ") else line
        if not pattern or pattern.startswith("#") or len(pattern) > MAX_PATTERN:
            return
        negated = pattern.startswith("!")
        pattern = pattern[negated:]
        only_directories = pattern.endswith("/")
        plain = pattern.rstrip("/")
        rule = (number, negated, only_directories)
        if plain and not re.search(r"[*?\[\\/]", plain):
            self._by_name.setdefault(plain, []).append(rule)
        elif re.fullmatch(r"\*\.[^*?\[\\/.]+", plain):
            self._by_suffix.setdefault(plain[1:], []).append(rule)
        elif plain:
            try:
                self._others.append((*rule, re.compile(_path_regex(plain))))
            except (re.error, RecursionError):
                return
