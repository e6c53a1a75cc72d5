"""Requests, and what a policy says before anybody is asked."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tertulia.policy.approval_policy import (
    APPROVAL_ORDER,
    NEVER,
    ON_FAILURE,
    ON_REQUEST,
    UNTRUSTED,
    ApprovalPolicy,
)
from tertulia.policy.approvals.approval_request import (
    MAX_EVENT_BYTES,
    ApprovalKind,
    ApprovalParts,
    EventTexts,
    as_one_line,
    command_text,
    event_texts,
    hidden_text_notice,
    may_retry_outside,
    policy_verdict,
    script_of,
    verdict_reason,
    whole_texts,
    with_label,
)
from tertulia.policy.commands.named_files import NamedFile, NamedFiles
from tertulia.protocol.tool_events import ApprovalFile
from tests.policy.approval_stage import ROOT, A, B, request, subject
from tests.tables import each_row

POLICIES = st.builds(
    ApprovalPolicy,
    auto_run=st.sampled_from(["trusted", "sandboxed"]),
    may_ask=st.booleans(),
    retry_outside_on_failure=st.booleans(),
)
KINDS = st.sampled_from(["exec", "patch", "escalation", "mcp", "tool"])
NOBODY_TRUSTED = APPROVAL_ORDER.meet(NEVER, UNTRUSTED)


def event_texts_of(detail: str, matches: list[str], parts: ApprovalParts) -> EventTexts:
    return event_texts(whole_texts(detail, matches, parts), matches, parts)


@each_row(
    ("policy", "kind", "known_safe", "expected"),
    [
        (UNTRUSTED, "exec", True, "run"),
        (UNTRUSTED, "exec", False, "ask"),
        (UNTRUSTED, "patch", False, "ask"),
        (UNTRUSTED, "escalation", False, "ask"),
        (ON_REQUEST, "exec", False, "run"),
        (ON_REQUEST, "patch", False, "run"),
        (ON_REQUEST, "escalation", False, "ask"),
        (ON_REQUEST, "escalation", True, "ask"),
        (ON_REQUEST, "mcp", False, "ask"),
        (ON_REQUEST, "mcp", True, "run"),
        (ON_REQUEST, "tool", False, "ask"),
        (ON_FAILURE, "exec", False, "run"),
        (ON_FAILURE, "escalation", False, "ask"),
        (NEVER, "exec", False, "run"),
        (NEVER, "escalation", True, "deny"),
        (NEVER, "mcp", False, "deny"),
        (NOBODY_TRUSTED, "exec", True, "run"),
        (NOBODY_TRUSTED, "exec", False, "deny"),
    ],
)
def test_each_policy_lets_run_asks_or_denies(
    policy: ApprovalPolicy, kind: ApprovalKind, known_safe: bool, expected: str
) -> None:
    """S000-18: "never ask" is strict for asking; what runs is decided together with the sandbox."""
    assert policy_verdict(policy, kind, known_safe=known_safe) == expected


@each_row(
    ("policy", "kind", "known_safe", "sentence"),
    [
        (ON_REQUEST, "exec", False, "the approval policy is on-request: what stays in the sandbox runs unasked"),
        (UNTRUSTED, "exec", True, "the approval policy is untrusted: it is known to do nothing but read"),
        (UNTRUSTED, "patch", False, "the approval policy is untrusted: every change of files is asked about"),
        (UNTRUSTED, "escalation", True, "nothing leaves the sandbox unasked"),
        (
            NEVER,
            "escalation",
            False,
            "nothing leaves the sandbox unasked; the approval policy is never, so no person may be asked",
        ),
    ],
)
def test_the_reason_is_one_sentence(
    policy: ApprovalPolicy, kind: ApprovalKind, known_safe: bool, sentence: str
) -> None:
    assert verdict_reason(policy, kind, known_safe=known_safe) == sentence


@given(POLICIES, KINDS, st.booleans())
def test_a_denial_always_says_that_no_person_may_be_asked(
    policy: ApprovalPolicy, kind: ApprovalKind, known_safe: bool
) -> None:
    denied = policy_verdict(policy, kind, known_safe=known_safe) == "deny"
    assert verdict_reason(policy, kind, known_safe=known_safe).endswith("so no person may be asked") == denied


def test_only_on_failure_asks_for_a_second_try_outside() -> None:
    assert may_retry_outside(ON_FAILURE)
    assert not any(map(may_retry_outside, (UNTRUSTED, ON_REQUEST, NEVER)))
    assert not may_retry_outside(APPROVAL_ORDER.meet(ON_FAILURE, NEVER))


@given(POLICIES, POLICIES, KINDS, st.booleans())
def test_the_meet_of_two_policies_never_lets_through_what_either_stops(
    one: ApprovalPolicy, other: ApprovalPolicy, kind: ApprovalKind, known_safe: bool
) -> None:
    """B7: a conversation that asks for more than its session gets no more."""
    freedom = ["deny", "ask", "run"].index
    met = policy_verdict(APPROVAL_ORDER.meet(one, other), kind, known_safe=known_safe)
    assert freedom(met) <= min(
        freedom(policy_verdict(request, kind, known_safe=known_safe)) for request in (one, other)
    )


@each_row(
    "change",
    [
        {"subject": subject("make", "tests")},
        {"subject": subject("make test")},
        {"subject": subject(cwd="/x")},
        {"subject": subject(environment="all")},
        {"subject": subject(sandbox="danger-full-access")},
        {"kind": "escalation"},
    ],
)
def test_whatever_changes_makes_another_key(change: dict[str, Any]) -> None:
    """B5: bound to a hash of arguments, directory, environment and sandbox."""
    assert request().key(None) == request(B, title="other", detail="other", chain=(ROOT,)).key(None)
    assert request(**change).key(None) != request().key(None)


def test_neighbouring_fields_cannot_lend_each_other_characters() -> None:
    """B5."""
    assert subject("a", "b").digest != subject("ab").digest
    assert subject(cwd="a", environment="b").digest != subject(cwd="ab", environment="").digest
    assert subject("\ud800").digest != subject("\ud801").digest


def test_a_person_sees_exactly_what_a_grant_will_match() -> None:
    event = request(A, subject=subject("cat", "a b"), chain=(ROOT, B)).as_event("7", UNTRUSTED)
    assert event.approval_id == "7"
    assert event.chain == [ROOT, B]
    assert event.matches == [
        "exec: cat 'a b'",
        "directory: /w",
        "environment: core",
        "sandbox: workspace-write",
        "approval policy: untrusted, or one that allows more",
    ]
    assert request(A).as_event("7").matches == request(A).as_event("7", UNTRUSTED).matches[:4]
    nameless = request().as_event("7", ApprovalPolicy("trusted", may_ask=True, retry_outside_on_failure=True))
    assert nameless.matches[4].startswith("approval policy: auto_run trusted, may_ask true, retry_outside_on_failure")
    assert event.scopes == ["once", "conversation", "session"]
    assert request(scopes=("once", "session")).as_event("7", UNTRUSTED).scopes == ["once", "session"]


def test_texts_are_made_fit_to_show() -> None:
    """B10."""
    event = request(title="x\n\u202e", detail="a\nb\x1b", subject=subject("l\u200bs", cwd="/w\n")).as_event(
        "7", UNTRUSTED
    )
    assert event.title == "x⟨U+000A⟩⟨U+202E⟩"
    assert event.detail == "a\nb⟨U+001B⟩"
    assert event.matches[:2] == ["exec: 'l⟨U+200B⟩s'", "directory: /w⟨U+000A⟩"]


def test_what_is_too_long_to_be_seen_whole_can_only_be_allowed_once() -> None:
    """B10."""
    event = request(subject=subject("x" * 1_000_000), detail="y" * 1_000_000, title="z" * 1_000_000).as_event(
        "7", UNTRUSTED
    )
    assert event.scopes == ["once"]
    assert "1,000,006 characters, sha256 " in event.matches[0]
    assert sum(map(len, [event.title, event.detail, *event.matches])) < 20_000
    assert (event.size, event.hidden) == (1_000_000, 988_000)
    assert "988,000 characters are not shown here" in event.detail


def test_files_that_changed_are_told_first_and_every_file_that_counts_is_matched() -> None:
    """A3: the names are as fit to be shown as all else."""
    named = NamedFiles((NamedFile("/bin/sh", None), NamedFile("/w/a\u202e.sh", "1234")))
    event = request(A, named=named, changed=("/w/a\u202e\nb.sh",)).as_event("1")
    assert event.detail == "CHANGED since this was last allowed for longer (1):\n│ /w/a⟨U+202E⟩\\nb.sh\nmake test"
    assert event.changed == ("/w/a⟨U+202E⟩⟨U+000A⟩b.sh",)
    assert [line for line in event.matches if line.startswith("file:")] == [
        "file: /w/a⟨U+202E⟩.sh, sha256 of path and content 1234"
    ]
    assert event.scopes == ["once", "conversation", "session"]
    assert request(A, named=NamedFiles(known=False)).as_event("1").scopes == ["once"]


def test_an_event_stays_small_however_many_files_count() -> None:
    """A3, B10: what does not fit can only be allowed once, and is read with `approval/get`."""
    files = tuple(NamedFile(f"/{number}{'x' * 2_000}", "1") for number in range(256))
    large = request(A, named=NamedFiles(files), changed=tuple(file.path for file in files))
    event = large.as_event("1")
    assert len(msgspec.json.encode(event)) < 2 * MAX_EVENT_BYTES
    assert event.scopes == ["once"]
    assert event.hidden
    assert large.texts(UNTRUSTED)["detail"].count("\n") == 257


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
    texts = event_texts_of(with_label("The patch", patch), ["patch: " + patch.replace("\n", " ")], ApprovalParts())
    assert (texts.hidden, texts.whole) == (0, True)
    assert all(f"│ +line {number}\n" in texts.detail for number in range(1_600))


def test_where_an_event_would_be_too_long_the_detail_is_cut_last() -> None:
    """B10."""
    script = "x" * 30_000
    parts = ApprovalParts(command=("bash", "-c", script), justification="why", arguments="{}")
    texts = event_texts_of(script, [f"exec: {script}"], parts)
    assert (texts.detail, texts.hidden, texts.whole) == (script, 0, False)
    assert texts.script is not None
    assert "29,000 characters are not shown here" in texts.script
    assert (texts.justification, texts.arguments) == ("why", "{}")
    assert "30,006 characters, sha256" in texts.matches[0]


@each_row("length", [20_000, 60_000])
def test_no_event_is_longer_than_it_may_be_and_it_says_what_is_missing(length: int) -> None:
    """B10."""
    text = "\u202e" * length
    files = tuple(ApprovalFile(f"{number}" * 200, "add", 1, 0) for number in range(1_000))
    texts = event_texts_of(text, [text] * 5, ApprovalParts(arguments=text, justification=text, files=files))
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
