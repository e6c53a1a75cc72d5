"""A session token is said wherever anything can be said: of it eight characters at most are found anywhere."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.privacy.afterwards import COMMANDS
from tests.privacy.secrets_told import ROOT, everything_below, surroundings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120), pytest.mark.xdist_group("canaries")]
SHOWN = 8


def leaks(blob: bytes, token: str) -> list[str]:
    """The longest pieces of the token that are found, and what stands around them."""
    found: list[str] = []
    for start in range(len(token) - SHOWN):
        piece = token[start : start + SHOWN + 1].encode()
        if (at := blob.find(piece)) >= 0:
            found.append(f"{start}: {blob[max(0, at - 200) : at + 80]!r}")
    return found


class Ran:
    """One run of the teller, and what was left of it."""

    def __init__(self, folder: Path, end: str) -> None:
        self.folder = folder
        for name in ("home", "user", "tmp"):
            (folder / name).mkdir(parents=True)
        ran = subprocess.run(
            [sys.executable, "-m", "tests.privacy.token_teller", end],
            cwd=folder / "user", env=surroundings(folder), capture_output=True, timeout=100, check=False,
        )  # fmt: skip
        self.code, self.log = ran.returncode, ran.stderr
        self.token, self.session_id, *_ = [*ran.stdout.decode().split("\n"), ""]


@pytest.fixture(scope="module", params=["normal", "kill"])
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Ran(tmp_path_factory.mktemp("teller"), request.param)


def test_it_was_said_everywhere(ran: Ran) -> None:
    """Or the search would prove nothing: its first characters are in every kind of event that can hold a text."""
    assert ran.code in (0, -signal.SIGKILL), ran.log.decode()
    assert len(ran.token) == 64
    marked = ran.token[:SHOWN].encode() + b"[redacted:token]"
    lines = (ran.folder / "user" / "told" / "events").read_bytes().splitlines()
    kinds = {line.split(b'"type":"')[1].split(b'"')[0].decode() for line in lines if marked in line}
    assert kinds >= {
        "agent_message", "agent_reasoning", "approval_request", "exec_command_begin", "exec_command_end",
        "tool_call_begin", "tool_call_end", "plan_update",
        "canvas_updated", "task_started", "task_complete", "conversation_opened", "error",
    }  # fmt: skip
    # A server cannot say what it was given, not even how it begins.
    assert any(b'"type":"elicitation_request"' in line and b"[redacted:secret]" in line for line in lines)
    assert marked in (ran.folder / "user" / "told" / "answers").read_bytes()


@pytest.mark.parametrize("where", ["told/events", "told/answers", "told/audit", "told/reprs"])
def test_nobody_was_told_more_than_its_beginning(ran: Ran, where: str) -> None:
    """S001-45, X-44: events as subscribers get them, answers of operations, the audit."""
    assert leaks((ran.folder / "user" / where).read_bytes(), ran.token) == []


def test_nobody_can_put_it_together_from_pieces(ran: Ran) -> None:
    """S001-45: texts of the model come twenty characters at a time, output of commands as it comes."""
    texts: dict[str, str] = {}
    for line in (ran.folder / "user" / "told" / "events").read_bytes().splitlines():
        event = json.loads(line)
        if event["type"].endswith("_delta"):
            item = event["data"]["item_id"]
            assert event["data"]["offset"] == len(texts.get(item, ""))
            texts[item] = texts.get(item, "") + event["data"]["text"]
    assert sum(f"{ran.token[:SHOWN]}[redacted:token]" in text for text in texts.values()) >= 4
    assert leaks("\n".join(texts.values()).encode(), ran.token) == []


def test_no_more_of_it_is_in_the_log(ran: Ran) -> None:
    """S001-45, E6."""
    assert leaks(ran.log, ran.token) == []


def test_no_more_of_it_is_on_the_disk_nor_in_what_is_shown_of_it_later(ran: Ran) -> None:
    """S001-45: the whole data directory, after `kill -9` too; `sessions show`, `replay`, `export`, a resume, a fork."""
    assert leaks(everything_below(ran.folder / "home"), ran.token) == []
    afterwards = subprocess.run(
        [sys.executable, "-m", "tests.privacy.afterwards"],
        cwd=ROOT, env=surroundings(ran.folder), input=f"{ran.folder}\t{ran.session_id}\n".encode(),
        capture_output=True, timeout=100, check=False,
    )  # fmt: skip
    assert afterwards.returncode == 0, afterwards.stderr.decode()
    contents = [path.read_bytes() for path in ran.folder.glob("said-*")]
    assert len(contents) == len(COMMANDS)
    marked = ran.token[:SHOWN].encode() + b"[redacted:token]"
    assert sum(marked in text for text in contents) >= 4
    for blob in (*contents, everything_below(ran.folder / "home")):
        assert leaks(blob, ran.token) == []
