"""Session tokens: one for each session, as long as it lives, and never seen whole."""

from __future__ import annotations

import json
import logging
import re
import shlex
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tertulia.context.tokens import TTL_S, SessionTokenStore
from tertulia.errors import InvalidParamsError
from tertulia.policy.log_redaction import RedactingFilter
from tertulia.policy.redaction import Redactor
from tertulia.testing import FakeClock
from tests.tables import each_row


def test_a_token_is_32_random_bytes_in_hexadecimal() -> None:
    """S001-40."""
    store = SessionTokenStore(FakeClock(1_700_000_000.0))
    tokens = {store.generate("ada", f"s{number}") for number in range(100)}
    assert len(tokens) == 100
    assert all(re.fullmatch("[0-9a-f]{64}", token) for token in tokens)


def test_an_entry_says_whose_it_is() -> None:
    """S001-40."""
    store = SessionTokenStore(FakeClock(1_700_000_000.0))
    token = store.generate("ada", "s1", 4711)
    entry = store.validate(token)
    assert entry is not None
    assert (entry.token, entry.agent_name, entry.session_id, entry.pid) == (token, "ada", "s1", 4711)
    assert entry.created_at == 1_700_000_000.0


def test_a_second_token_of_a_session_revokes_the_first() -> None:
    """S001-41."""
    store = SessionTokenStore()
    first, second = store.generate("ada", "s1"), store.generate("eva", "s1")
    assert store.validate(first) is None
    assert store.validate(second).agent_name == "eva"  # type: ignore[union-attr]
    assert store.size == 1
    assert store.revoke_by_agent("ada") == 0


@each_row(
    "spoil",
    [
        lambda token: "",
        lambda token: None,
        lambda token: 5,
        lambda token: [token],
        lambda token: token.encode(),
        lambda token: token[:63],
        lambda token: token + "0",
        lambda token: token.upper() if token.upper() != token else None,
        lambda token: token + "\n",
        lambda token: " " + token,
        lambda token: "g" * 64,
        lambda token: "٠" * 64,
        lambda token: ("1" if token[0] == "0" else "0") + token[1:],
        lambda token: "\ud800" * 64,
    ],
)
def test_anything_but_the_token_itself_is_nobody(spoil: Any) -> None:
    """S001-42, HARDENING D6: 63 or 65 characters, upper case, unknown."""
    store = SessionTokenStore()
    token = store.generate("ada", "s1")
    assert store.validate(spoil(token)) is None
    assert store.validate(token) is not None
    assert store.size == 1


def test_a_session_and_an_agent_can_be_revoked() -> None:
    """S001-43."""
    store = SessionTokenStore()
    tokens = [store.generate("ada", "s1"), store.generate("ada", "s2"), store.generate("eva", "s3")]
    assert store.revoke_session("s1") is True
    assert store.revoke_session("s1") is False
    assert store.revoke_session("nobody") is False
    assert store.revoke_by_agent("ada") == 1
    assert store.revoke_by_agent("ada") == 0
    assert [store.validate(token) is not None for token in tokens] == [False, False, True]
    assert store.size == 1


def test_a_token_expires_by_the_clock_that_nobody_can_set() -> None:
    """S001-46, HARDENING D6."""
    clock = FakeClock()
    store = SessionTokenStore(clock)
    token = store.generate("ada", "s1")
    clock.set_wall(10**10)
    assert store.validate(token) is not None
    clock.advance(TTL_S - 1)
    assert store.validate(token) is not None
    clock.advance(1)
    assert store.validate(token) is None
    assert store.size == 0
    assert store.revoke_session("s1") is False


def test_a_renewed_token_lives_on_and_learns_its_process() -> None:
    """S001-46: a conversation may outlast the time of a token."""
    clock = FakeClock()
    store = SessionTokenStore(clock, ttl_s=10)
    first, second = store.generate("ada", "s1"), store.generate("ada", "s2")
    clock.advance(9)
    assert store.renew("s1", pid=7)
    assert store.renew("s1")
    clock.advance(9)
    entry = store.validate(first)
    assert entry is not None
    assert entry.pid == 7
    assert store.validate(second) is None
    assert store.renew("s2") is False


def test_without_an_expiry_a_token_lives_until_it_is_revoked() -> None:
    clock = FakeClock()
    store = SessionTokenStore(clock, ttl_s=None)
    token = store.generate("ada", "s1")
    clock.advance(10**9)
    assert store.validate(token) is not None


@each_row("ttl_s", [0, -1, float("nan")])
def test_a_time_to_live_that_is_none_is_refused(ttl_s: float) -> None:
    with pytest.raises(InvalidParamsError, match="ttl_s"):
        SessionTokenStore(ttl_s=ttl_s)


@each_row(("agent", "session"), [("../x", "s1"), ("", "s1"), ("ada", ""), ("ada", "a\nb"), ("ada", None)])
def test_a_token_for_nobody_is_refused(agent: Any, session: Any) -> None:
    """S001-51: and what was there stays."""
    store = SessionTokenStore()
    token = store.generate("ada", "s1")
    with pytest.raises(InvalidParamsError):
        store.generate(agent, session)
    assert store.size == 1
    assert store.validate(token) is not None


class Tokens(RuleBasedStateMachine):
    """Against a model that keeps a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.store = SessionTokenStore(self.clock, ttl_s=5)
        self.model: dict[str, tuple[str, str, float]] = {}
        self.dead: list[str] = []

    sessions = st.sampled_from(["s1", "s2", "s3"])
    agents = st.sampled_from(["ada", "eva"])

    def forget(self, session: str) -> None:
        self.dead.append(self.model.pop(session)[0])

    @rule(agent=agents, session=sessions)
    def generate(self, agent: str, session: str) -> None:
        if session in self.model:
            self.forget(session)
        self.model[session] = (self.store.generate(agent, session), agent, self.clock.monotonic())

    @rule(session=sessions)
    def revoke(self, session: str) -> None:
        assert self.store.revoke_session(session) is (session in self.model)
        if session in self.model:
            self.forget(session)

    @rule(agent=agents)
    def revoke_agent(self, agent: str) -> None:
        mine = [session for session, (_, owner, _) in self.model.items() if owner == agent]
        assert self.store.revoke_by_agent(agent) == len(mine)
        for session in mine:
            self.forget(session)

    @rule(session=sessions)
    def renew(self, session: str) -> None:
        assert self.store.renew(session) is (session in self.model)
        if session in self.model:
            self.model[session] = (*self.model[session][:2], self.clock.monotonic())

    @rule(seconds=st.integers(1, 4))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)
        for session in [key for key, (_, _, begun) in self.model.items() if begun + 5 <= self.clock.monotonic()]:
            self.forget(session)
        assert self.store.size == len(self.model)

    @invariant()
    def agrees(self) -> None:
        assert self.store.size == len(self.model)
        for session, (token, agent, _) in self.model.items():
            entry = self.store.validate(token)
            assert entry is not None
            assert (entry.agent_name, entry.session_id) == (agent, session)
        assert not any(self.store.validate(token) for token in self.dead)

    @invariant()
    def leaves_no_residue(self) -> None:
        """S001-43."""
        inside = vars(self.store)
        assert len(inside["_by_hash"]) == len(inside["_sessions"]) == len(self.model)
        assert inside["_agents"].keys() == {agent for _, agent, _ in self.model.values()}
        assert sum(map(len, inside["_agents"].values())) == len(self.model)


TestTokens = Tokens.TestCase

# ── the canary ───────────────────────────────────────────────────────────────────────────────────────────────

FORMS = [
    "{0}",
    "tertulia internal canvas_clear --token {0}",
    "--token={0}",
    "--token '{0}'",
    '--token "{0}"',
    '{{"token": "{0}"}}',
    '{{\\"token\\": \\"{0}\\"}}',
    "TERTULIA_TOKEN={0} tertulia internal x",
    "Authorization: Bearer {0}",
    "https://x.example/?t={0}&u=1",
    "a line\n{0}\nanother",
    "glued{0}glued",
    "abc{0}def",
    "{0}{0}",
    "\b{0}",
    "\x0c{0}",
    "\x1f{0}",
]


def visible(text: str, token: str) -> int:
    """The longest piece of the token that a text shows."""
    return max((n for n in range(65) for i in range(65 - n) if token[i : i + n] in text), default=0)


@each_row("form", FORMS, ids=ascii)
def test_a_live_token_is_seen_nowhere_beyond_eight_characters(form: str) -> None:
    """S001-45, X-44: whatever quotes it, in text, in JSON, and in JSON within JSON."""
    redactor = Redactor()
    token = SessionTokenStore(redactor=redactor).generate("ada", "s1")
    text = form.format(token)
    bodies = [
        json.dumps({"x": text}),
        json.dumps(json.dumps({"x": [text]})),
        shlex.quote(text),
        quote(text),
        repr(text),
    ]
    for body in (text, *bodies):
        assert visible(redactor.text(body), token) <= 8
    for body in bodies[:2]:
        cleaned = redactor.json(body.encode())
        assert visible(cleaned.decode(), token) <= 8
        msgspec.json.decode(cleaned)


@each_row("cut", [9, 20, 40, 63])
def test_a_token_that_was_cut_is_recognised_by_either_end(cut: int) -> None:
    """S001-45: outputs lose their middle."""
    store = SessionTokenStore()
    token = store.generate("ada", "s1")
    for piece in (token[:cut], token[-cut:]):
        assert visible(store.redactor.text(f"head {piece}\n[…] tail"), token) <= 8


def test_neither_a_log_nor_anything_printed_shows_it(caplog: pytest.LogCaptureFixture) -> None:
    """S001-45, HARDENING E6."""
    store = SessionTokenStore()
    token = store.generate("ada", "s1")
    caplog.handler.addFilter(RedactingFilter(store.redactor))
    with caplog.at_level(logging.INFO):
        logging.getLogger("x").info("agent got %s", token)
        logging.getLogger("x").info("%r %r", store, store.validate(token))
    assert token[:8] in caplog.text
    assert visible(caplog.text, token) == 8


def test_a_token_stays_a_secret_for_a_while_after_it_was_revoked() -> None:
    """S001-45: what holds it may still have to be written."""
    store = SessionTokenStore()
    token = store.generate("ada", "s1")
    store.revoke_session("s1")
    assert visible(store.redactor.text(token), token) == 8
