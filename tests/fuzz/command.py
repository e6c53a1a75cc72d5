"""The splitter of commands: what somebody is asked to allow, or not asked."""

from __future__ import annotations

import shlex

from tertulia.executors.json_output import read_argv
from tertulia.policy.commands.command_analysis import analyse_command

SEEDS = [
    b"ls -la | grep 'a b' && git log --oneline; cat \"x y\"",
    b"git -C . status || sed -n '1,5p' a.txt",
    b"find . -name '*.py' -exec rm {} ;",
    b"a=1 b $(c) `d` > e\n# f",
    b"bash\0-lc\0echo hi",
]
WORDS = [
    *(b" && ", b" || ", b"; ", b" | ", b"'", b'"', b"\\", b"$(", b"`", b"git ", b"find ", b"sed -n ", b"rg ", b"cat "),
    *(b"-exec", b"--output=", b"-delete", b"base64 ", b"if ", b"{", b"\xc2\xa0", b"\xe2\x80\xa8"),
]


def fuzz(data: bytes) -> None:
    """What is read means what a shell would make of it, and has one spelling."""
    text = data.decode("utf-8", "replace")
    analyse_command(text.split("\0"))
    words = read_argv(text)
    assert words is not None
    assert words
    read = analyse_command(("/bin/bash", "-lc", text))
    assert not read.known_safe or read.commands
    if read.commands is None:
        return
    again = analyse_command(read.canonical)
    assert again == read
    assert all(read.commands)
    if len(read.commands) == 1:
        assert list(read.commands[0]) == shlex.split(text.rstrip("; \t"))
