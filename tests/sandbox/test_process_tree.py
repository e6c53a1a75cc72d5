"""A process and all below it."""

from __future__ import annotations

import os
import subprocess

from tertulia.sandbox.process_tree import descendants


def test_children_of_children_are_found_with_their_threads() -> None:
    with subprocess.Popen(["sh", "-c", "(sleep 600 & wait) & echo up; wait"], stdout=subprocess.PIPE) as top:
        assert top.stdout is not None
        assert top.stdout.readline() == b"up\n"
        below = {pid for pid, _ in descendants(os.getpid())}
        assert top.pid in below
        while sum(threads for _, threads in descendants(top.pid)) < 2:
            pass
        found = dict(descendants(top.pid))
        assert set(found.values()) == {1}
        for pid in (*found, top.pid):
            os.kill(pid, 9)


def test_who_is_gone_has_nobody() -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    assert list(descendants(gone.pid)) == []
