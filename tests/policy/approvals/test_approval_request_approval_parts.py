"""Whose words are whose in a request, and what of it fits into an event."""

from __future__ import annotations

import msgspec
import pytest

from tertulia.policy.approvals.approval_request import (
    MAX_EVENT_BYTES,
    ApprovalParts,
    as_one_line,
    command_text,
    event_texts,
    hidden_text_notice,
    script_of,
    whole_texts,
    with_label,
)
from tertulia.protocol.tool_events import ApprovalFile
from tests.tables import each_row


def test_words_of_others_stand_behind_a_bar() -> None:
    """A2."""
    assert with_label("The model says", "a\nb:\n\nc\n") == "The model says:\n│ a\n│ b:\n│ \n│ c"
    assert as_one_line("/a\nb") == "/a\\nb"


@each_row(
    ("argv", "script"),
    [
        (("bash", "-lc", "ls"), "ls"),
        (("/bin/sh", "-c", "ls"), "ls"),
        (("rm", "-rf", "/home"), None),
        (("rm", "-c", "/home"), None),
        (("bash", "-c", "ls", "x"), None),
        (("bash", "-x", "run.sh"), None),
        (("ls",), None),
    ],
)
def test_only_a_shell_is_given_a_script(argv: tuple[str, ...], script: str | None) -> None:
    """A2: any three words with a dash were taken for one."""
    assert script_of(argv) == script
    assert command_text(argv).split("\n")[-1] == ("│ ls" if script else " ".join(argv))


def test_a_request_of_an_ordinary_size_is_whole_in_its_event() -> None:
    """A1: of a patch of 20,589 characters 4,101 were shown."""
    patch = "".join(f"+line {number}\n" for number in range(1_700))[:20_589]
    texts = event_texts(with_label("The patch", patch), ["patch: " + patch.replace("\n", " ")], ApprovalParts())
    assert (texts.hidden, texts.whole) == (0, True)
    assert all(f"│ +line {number}\n" in texts.detail for number in range(1_600))


def test_where_an_event_would_be_too_long_the_detail_is_cut_last() -> None:
    """B10."""
    script = "x" * 30_000
    parts = ApprovalParts(command=("bash", "-c", script), justification="why", arguments="{}")
    texts = event_texts(script, [f"exec: {script}"], parts)
    assert (texts.detail, texts.hidden, texts.whole) == (script, 0, False)
    assert texts.script is not None
    assert "29,000 characters are not shown here" in texts.script
    assert (texts.justification, texts.arguments) == ("why", "{}")
    assert "30,006 characters, sha256" in texts.matches[0]


@pytest.mark.parametrize("length", [60_000, 200_000])
def test_no_event_is_longer_than_it_may_be_and_it_says_what_is_missing(length: int) -> None:
    """B10."""
    text = "\u202e" * length
    files = tuple(ApprovalFile(f"{number}" * 200, "add", 1, 0) for number in range(1_000))
    texts = event_texts(text, [text] * 5, ApprovalParts(arguments=text, justification=text, files=files))
    assert len(msgspec.json.encode(texts)) < 2 * MAX_EVENT_BYTES
    assert texts.hidden == length * len("⟨U+202E⟩") - 12_000
    assert len(texts.files) == 64
    whole = whole_texts(text, [text], ApprovalParts(files=files))
    assert whole["detail"] == "⟨U+202E⟩" * length
    assert whole["files"].count("\n") == 999
    assert set(whole) == {"detail", "matches", "files"}


def test_what_is_not_shown_is_counted_for_whoever_offers_a_yes() -> None:
    assert hidden_text_notice(0, 10, "d") == ""
    assert hidden_text_notice(1_000, 5_000, "d").startswith("NOT ALL IS SHOWN: 1,000 of 5,000 characters")
