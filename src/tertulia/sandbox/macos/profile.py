"""Writes a confinement in the profile language of Seatbelt (`sandbox-exec`). Pure text: the last rule that fits counts.

What may not be written or seen is matched without regard to case, as the file systems of macOS do, whether or not it
is there yet. Folders above it, inside a root, can be neither moved nor removed, or it would come out under another
name.
"""

from __future__ import annotations

import os.path
from collections.abc import Iterable, Iterator

from tertulia.sandbox.runner import Confinement

_BEGINNING = """(version 1)
(deny default)
(allow process-exec process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.opendirectoryd.membership"))
(allow file-read*)"""
_DEVICES = """(deny file-read* file-write* (subpath "/dev"))
(allow file-read* (literal "/dev") (literal "/dev/random") (literal "/dev/urandom") (subpath "/dev/fd"))
(allow file-read* file-write-data file-ioctl (literal "/dev/null") (literal "/dev/zero"))
(allow pseudo-tty)
(allow file-read* file-write* file-ioctl (literal "/dev/ptmx"))
(allow file-read* file-write*
  (require-all (regex "^/dev/ttys[0-9]+$") (extension "com.apple.sandbox.pty")))
(allow file-ioctl (regex "^/dev/ttys[0-9]+$"))"""
"""Terminals: one of its own can be opened, no other, which a command could read and type into."""
_NETWORK = """(allow network-outbound (remote ip "*:*"))
(allow network-inbound (local ip "*:*"))
(allow network-bind (local ip "*:*"))
(allow network-outbound (literal "/private/var/run/mDNSResponder"))
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd")
  (global-name "com.apple.SystemConfiguration.DNSConfiguration")
  (global-name "com.apple.trustd.agent"))"""
"""Addresses, and the service that looks names up; no socket by name."""
_SPECIAL = set("\\^$.|?*+()[]{}")


def seatbelt_profile(confinement: Confinement, temporary: str, own_places: Iterable[str] = ()) -> str:
    """The profile. `temporary`: the command's own directory; `own_places`: where what runs us lies, never written."""
    roots = confinement.writable_roots if confinement.mode == "workspace_write" else ()
    masked = [*_spellings(confinement.masked)]
    protected = [*_spellings((*_protected(confinement, roots), *own_places))]
    lines = [_BEGINNING, _DEVICES]
    lines += [_rule("allow", "file-write*", f"(subpath {_quoted(place)})") for place in (*roots, temporary)]
    lines += [_rule("deny", "file-write-unlink", f"(literal {_quoted(root)})") for root in roots]
    lines += [_rule("deny", "file-write*", _anywhere_below(path)) for path in protected]
    lines += [_rule("deny", "file-read* file-write*", _anywhere_below(path)) for path in masked]
    above = {folder: None for path in (*protected, *masked) for folder in _above(path, roots)}
    lines += [_rule("deny", "file-write-unlink", f"(regex {_quoted(f'^{_any_case(folder)}$')})") for folder in above]
    shown = [*_spellings(confinement.shown)]
    lines += [_rule("allow", "file-read*", f"(subpath {_quoted(place)})") for place in shown]
    lines += [_rule("deny", "file-read*", _anywhere_below(path)) for path in masked if _is_below(path, shown)]
    if confinement.network is True:
        lines.append(_NETWORK)
    return "\n".join(lines) + "\n"


def _protected(confinement: Confinement, roots: Iterable[str]) -> Iterator[str]:
    for root in roots:
        if root not in confinement.git_stores:
            yield from (os.path.join(root, name) for name in confinement.protected)
    yield from confinement.protected_paths


def _spellings(paths: Iterable[str]) -> Iterator[str]:
    """Each as it is named, and as the kernel names it: `/tmp` is `/private/tmp`."""
    unique = dict.fromkeys(name for path in paths for name in (os.path.normpath(path), os.path.realpath(path)))
    yield from unique


def _above(path: str, roots: Iterable[str]) -> Iterator[str]:
    """The folders above it that lie in a root."""
    folder = os.path.dirname(path)
    while _is_below(folder, roots):
        yield folder
        folder = os.path.dirname(folder)


def _is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _rule(verdict: str, operations: str, place: str) -> str:
    return f"({verdict} {operations} {place})"


def _anywhere_below(path: str) -> str:
    return f"(regex {_quoted(f'^{_any_case(path)}(/|$)')})"


def _any_case(path: str) -> str:
    return "".join(_letter(letter) for letter in path)


def _letter(letter: str) -> str:
    if letter.isalpha() and letter.lower() != letter.upper() and len(letter.lower() + letter.upper()) == 2:
        return f"[{letter.lower()}{letter.upper()}]"
    return f"\\{letter}" if letter in _SPECIAL else letter


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
