"""No secret leaves in a record or a log, whatever its shape and however it is quoted."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tertulia.policy.log_redaction import RedactingFilter, describe_error, log_filter, log_stack, log_text
from tertulia.policy.redaction import Redactor, secrets_of
from tertulia.protocol.events import AgentMessageDelta
from tertulia.protocol.ids import CallId, ItemId
from tertulia.protocol.storage import Full, HeadersOnly, NoStorage, StoragePolicy, Ttl
from tertulia.protocol.tool_events import PlanStep, PlanUpdate, ToolCallBegin
from tests.tables import each_row

A40 = "aB3dE5gH7jK9mN1pQ3sT5vX7zA9cE1gH3kM5oQ7s"
HEX = "0123456789abcdef" * 4
TOKEN = "0f1e2d3c4b5a69788796a5b4c3d2e1f00123456789abcdeffedcba9876543210"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{A40}\n{A40}==\n-----END RSA PRIVATE KEY-----"

# Put together here, so that nobody who scans this file for keys finds any.
SHAPES = {
    "openai": "sk-" + "proj-" + A40,
    "anthropic": "sk-" + "ant-api03-" + A40,
    "github": "gh" + "p_" + A40,
    "github app": "gh" + "o_" + A40,
    "github fine-grained": "github" + "_pat_" + A40,
    "gitlab": "gl" + "pat-" + A40[:20],
    "slack": "xox" + "b-123456789012-" + A40,
    "aws id": "AK" + "IA" + "ABCDEFGHIJ234567",
    "aws temporary id": "AS" + "IA" + "ABCDEFGHIJ234567",
    "google": "AI" + "za" + A40[:35],
    "stripe": "sk" + "_live_" + A40[:24],
    "npm": "np" + "m_" + A40[:36],
    "pypi": "py" + "pi-" + A40,
    "huggingface": "h" + "f_" + A40,
    "jwt": "ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxIn0." + A40,
    "private key": PEM,
    "private key cut off": PEM[:120],
}
NAMED = {
    "bearer": ("Authorization: Bearer {}", A40),
    "bearer, small": ("authorization: bearer {}", A40),
    "bearer, large": ("AUTHORIZATION: BEARER {}", A40),
    "aws secret": ("aws_secret_access_key = {}", A40),
    "aws secret, environment": ("AWS_SECRET_ACCESS_KEY={}", A40),
    "aws secret, JSON": ('"SecretAccessKey": "{}"', A40),
    "url": ("postgres://admin:{}@db.example:5432/x", "p4ss-w0rd"),
    "url without a user": ("redis://:{}@cache", "p4ss-w0rd"),
    "token option": ("tool --token {} --verbose", HEX),
    "token=": ("tool --token={}", HEX),
    "token in double quotes": ('tool --token "{}"', HEX),
    "token in single quotes": ("tool --token='{}'", HEX),
    "token as JSON": ('{{"token": "{}"}}', HEX),
    "token as JSON without a blank": ('{{"token":"{}"}}', HEX),
    "token as a list of arguments": ('["--token", "{}"]', HEX),
    "token variable": ("TERTULIA_TOKEN={}", HEX),
    "token on the next line": ("token:\n  {}", HEX),
}


def whole(secret: str) -> str:
    """The part of a secret that must not be there: all but eight characters of it."""
    return secret[8:40] if "\n" not in secret else A40


@each_row("secret", SHAPES.values(), ids=SHAPES)
@each_row("around", ["{}", "my key: {}", "line one\n{}\nline three", "\t{}", '"{}"', "x={};", "\x0b{}"])
def test_a_key_of_a_known_shape_is_taken_out(secret: str, around: str) -> None:
    """E6: more than 12 shapes, in text, in JSON and in JSON within JSON."""
    text = around.format(secret)
    redactor = Redactor()

    for redacted in (
        redactor.text(text),
        redactor.json(json.dumps({"a": [{"b": text}]}).encode()).decode(),
        redactor.json(msgspec.json.encode({"arguments": json.dumps({"key": text})})).decode(),
    ):
        assert whole(secret) not in redacted
        assert "[redacted:" in redacted


@each_row(("around", "secret"), NAMED.values(), ids=NAMED)
def test_a_secret_that_is_known_by_its_name_is_taken_out(around: str, secret: str) -> None:
    """S001-45, E6: every quoting; at most eight characters of a token stay."""
    text = around.format(secret)
    redactor = Redactor()
    nested = redactor.json(msgspec.json.encode({"arguments": json.dumps({"cmd": text})}))

    for redacted in (redactor.text(text), redactor.json(msgspec.json.encode([text])).decode(), nested.decode()):
        assert secret not in redacted
        assert secret[:9] not in redacted
        assert "[redacted:" in redacted
    assert msgspec.json.decode(nested)


def test_the_names_of_json_count_too() -> None:
    """S001-45: a token that is a value of its own, next to its name."""
    body = Redactor().json(msgspec.json.encode({"token": HEX, "argv": ["tool", "--token", HEX]}))

    assert HEX[:9].encode() not in body
    assert msgspec.json.decode(body)["argv"][:2] == ["tool", "--token"]


ORDINARY = [
    "The risk-assessment-methodology-handbook is a task-oriented-and-long-hyphenated-word.",
    "sha256 " + HEX,
    "See https://example.org/a:b/c@d and mail to a@b.example; ratio 3:4@5.",
    "The bearer of bad news; tokens are counted, token by token.",
    "def hf_(x): return gh_(x)  # snake_case_is_fine_and_long_names_are_fine_too",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "",
]


@each_row("text", ORDINARY)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    redactor = Redactor(["a registered secret"])
    body = msgspec.json.encode({"text": text})

    assert redactor.text(text) is text
    assert redactor.json(body) is body


def test_exact_values_are_taken_out_however_json_writes_them() -> None:
    """E6: the value of an environment variable, with quotes, backslashes and line ends in it."""
    secret = 'pa"ss\\wo\nrd-ü'
    redactor = Redactor([secret])
    texts = [secret, f"x{secret}y", json.dumps(secret, ensure_ascii=False)]

    for text in texts:
        body = redactor.json(msgspec.json.encode([text]))
        assert "[redacted:secret]" in msgspec.json.decode(body)[0]
        assert "wo" not in body.decode()
        assert "wo" not in redactor.text(text)


def test_a_secret_registered_later_is_taken_out_from_then_on() -> None:
    redactor = Redactor()
    before = redactor.text("it is hunter2-hunter2")

    redactor.register("hunter2-hunter2")

    assert before == "it is hunter2-hunter2"
    assert redactor.text("it is hunter2-hunter2") == "it is [redacted:secret]"


def test_of_two_values_the_longer_one_is_taken_out_whole() -> None:
    redactor = Redactor(["abcdefgh", "abcdefgh-ijklmnop"])

    assert redactor.text("abcdefgh-ijklmnop") == "[redacted:secret]"


def test_a_word_is_no_secret() -> None:
    """Values below eight characters would only spoil texts."""
    redactor = Redactor(["seven77", ""])

    assert redactor.text("seven77") == "seven77"


def test_secrets_of_an_environment_are_known_by_their_names() -> None:
    environment = {
        "OPENAI_API_KEY": "1", "my_token": "2", "DB_PASSWORD": "3", "Client_Secret": "4", "PATH": "5", "HOME": "6",
    }  # fmt: skip

    assert secrets_of(environment) == ["1", "2", "3", "4"]


SECRETS = st.sampled_from(
    [*SHAPES.values(), *(around.format(secret) for around, secret in NAMED.values()), "nabcdefgh"]
)
TEXTS = st.text(max_size=20) | st.sampled_from(["\n", "\\", '"', "\x1f", "\b", "\\n"])
VALUES = st.recursive(
    st.lists(TEXTS | SECRETS, max_size=4).map("".join) | st.none() | st.booleans() | st.integers(-9, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | SECRETS, inner, max_size=3),
    max_leaves=5,
)


@given(VALUES.filter(lambda value: "\ud800" not in repr(value)))
@example({"a": "\npm_" + A40})
@example(["\x1fabcdefgh", {"\x1fabcdefgh": ["token", True]}])
@example({"token": "\nabcdefgh", "a": "--token " + HEX})
def test_what_was_json_is_json_afterwards(value: object) -> None:
    """A replacement that would begin inside an escape must not break what is stored."""
    redactor = Redactor(["nabcdefgh", "1fabcdefgh"])
    try:
        body = msgspec.json.encode(value)
    except UnicodeEncodeError:
        return

    again = msgspec.json.decode(redactor.json(body))

    assert type(again) is type(value)


def test_where_a_replacement_would_break_json_every_string_is_looked_at() -> None:
    body = msgspec.json.encode({"token": HEX, "a": ["x\x1fabcdefgh", 1, "it is 1fabcdefgh", None]})

    redacted = msgspec.json.decode(Redactor(["1fabcdefgh"]).json(body))

    assert redacted == {
        "token": HEX[:8] + "[redacted:token]",
        "a": ["x\x1fabcdefgh", 1, "it is [redacted:secret]", None],
    }


@each_row(
    "text",
    [
        "-----BEGIN PRIVATE KEY-----" + "-" * 100_000,
        "-----BEGIN " * 20_000,
        "sk-" * 50_000,
        "eyJ" * 50_000,
        "eyJaaaaaaaa." * 20_000,
        "://" + "a:" * 50_000,
        "token" * 30_000,
        "token" + " " * 100_000,
        "bearer " * 20_000,
        "bearer" + " " * 100_000,
        "secret_access_key" + '"' * 100_000,
        "-" * 100_000,
        "_" * 100_000,
    ],
    ids=lambda text: text[:20],
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    redactor = Redactor()

    def seconds(text: str) -> float:
        start = time.thread_time()
        redactor.text(text)
        redactor.json(msgspec.json.encode(text))
        return time.thread_time() - start

    assert min(seconds(text) for _ in range(3)) < 0.5


def test_ordinary_text_costs_next_to_nothing() -> None:
    """5 us a kilobyte on an idle machine; ten times as much would be a pattern tried where it need not be."""
    redactor = Redactor(["one registered secret", "another registered secret"])
    text = ("He said: we need 1200 tokens for that; see the well-known page at example.org/a_b. " * 13)[:1024]

    def seconds() -> float:
        start = time.thread_time()
        for _ in range(200):
            redactor.text(text)
        return (time.thread_time() - start) / 200

    assert min(seconds() for _ in range(5)) < 50e-6


# ── logs ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def logged() -> Callable[..., str]:
    def log(message: str, *args: object, policy: object = None, **options: object) -> str:
        filter = RedactingFilter(Redactor()) if policy is None else RedactingFilter(Redactor(), policy)
        made = {"exc_info": None, "sinfo": None, "extra": {}} | options
        record = logging.getLogger("a").makeRecord(
            "a", logging.ERROR, "f", 1, message, args, made["exc_info"], sinfo=made["sinfo"], extra=made["extra"]
        )
        assert filter.filter(record)
        return logging.Formatter("%(message)s").format(record)

    return log


def test_a_log_message_has_no_secrets(logged: Callable[..., str]) -> None:
    """E6"""
    key = SHAPES["openai"]

    assert logged("the key is %s, %d", key, 3) == "the key is [redacted:openai-key], 3"
    assert whole(key) not in logged("here", sinfo=f"Stack: {key}")


def test_a_traceback_in_a_log_has_no_text_unless_it_may_be_stored(logged: Callable[..., str]) -> None:
    """E6: tracebacks follow the storage policy; where none is said, the strict one."""
    key = SHAPES["github"]
    try:
        raise ValueError(f"what the user wrote, {key}")
    except ValueError:
        raised = sys.exc_info()

    silent = logged("failed", exc_info=raised)
    line = logged("failed", exc_info=raised, extra={"storage": Full()})
    narrowed = logged("failed", exc_info=raised, policy=Full(), extra={"storage": HeadersOnly()})

    assert "ValueError" in silent
    assert "what the user wrote" not in silent + narrowed
    assert "what the user wrote" in line
    assert whole(key) not in line
    assert logged("no error", exc_info=(None, None, None)) == "no error"


def test_an_error_for_the_log_has_neither_secrets_nor_texts_unless_they_may_be_stored() -> None:
    """E6"""
    error = ValueError(f"what the user wrote, {SHAPES['github']}")

    assert log_text(error) == log_text(error, HeadersOnly()) == "ValueError"
    assert log_text(error, Full()) == "ValueError: what the user wrote, [redacted:github-token]"


def test_data_for_listeners_is_without_tokens_and_of_the_same_type() -> None:
    """S001-45."""
    redactor = Redactor()
    redactor.register_token(TOKEN)
    begin = ToolCallBegin(CallId("c"), "shell", {"command": ["echo", TOKEN], TOKEN: [TOKEN]})
    cleaned = redactor.without_tokens(begin)
    shown = f"{TOKEN[:8]}[redacted:token]"
    assert cleaned == ToolCallBegin(CallId("c"), "shell", {"command": ["echo", shown], shown: [shown]})
    other = ToolCallBegin(CallId("c"), "shell", {})
    assert redactor.without_tokens(other) is other
    assert Redactor().without_tokens(begin) is begin
    for odd in ({"x": object()}, "\ud800"):
        assert redactor.without_tokens(odd) is odd


def test_tuples_in_data_for_listeners_are_looked_into() -> None:
    """S001-45: the files of an approval are a tuple, which `msgspec.to_builtins` leaves as it is."""
    redactor = Redactor()
    redactor.register_token(TOKEN)
    steps = PlanUpdate((PlanStep(f"remove {TOKEN}.txt", "pending"), PlanStep("look", "pending")))
    cleaned = redactor.without_tokens(steps)
    assert [step.step for step in cleaned.plan] == [redactor.text(f"remove {TOKEN}.txt"), "look"]
    assert TOKEN not in repr(cleaned)


async def test_long_data_for_listeners_is_without_tokens_too() -> None:
    """S001-45: in steps, with the same outcome; short data, and data without tokens, is not touched."""
    redactor, long = Redactor(), "x" * 2_000_000
    assert await redactor.text_without_tokens(TOKEN) is TOKEN
    redactor.register_token(TOKEN)
    shown = f"{TOKEN[:8]}[redacted:token]"
    begin = ToolCallBegin(CallId("c"), "shell", {"command": [long, TOKEN]})
    cleaned = await redactor.without_tokens_in_steps(begin)
    assert cleaned == ToolCallBegin(CallId("c"), "shell", {"command": [long, shown]}) == redactor.without_tokens(begin)
    assert await redactor.text_without_tokens(f"{long} {TOKEN}") == f"{long} {shown}"
    for other in (ToolCallBegin(CallId("c"), "shell", {}), ToolCallBegin(CallId("c"), "shell", {"a": long})):
        assert await redactor.without_tokens_in_steps(other) is other
    for odd in ({"x": [object(), long]}, {"x": ["\ud800", long]}):
        assert await redactor.without_tokens_in_steps(odd) is odd


PARTS = f"\b{TOKEN[:9]} {TOKEN[20:40]}\x1f\n" * 5_000
"""More than is looked at closely: from some place on all long numbers are taken out."""


async def test_data_that_is_made_of_parts_of_a_token_stays_data() -> None:
    """S001-45: a number, an id and an escape beside them were replaced too, and what came out could not be read."""
    redactor = Redactor()
    redactor.register_token(TOKEN)
    id = "9f86d081884c7d65"
    whole = ToolCallBegin(CallId(id), "shell", {"text": PARTS, "at": 1763403458.123456, "more": "\b1111111111"})
    pieces = [PARTS[at : at + 10_000] for at in range(0, len(PARTS), 10_000)]
    for begin in (whole, replace(whole, arguments={**whole.arguments, "text": pieces})):
        cleaned = await redactor.without_tokens_in_steps(begin)
        assert cleaned == redactor.without_tokens(begin)
        assert cleaned.call_id == id
        assert cleaned.arguments["at"] == 1763403458.123456
        assert cleaned.arguments["more"] == "\b1111111111"
        stored = redactor.json(msgspec.json.encode(begin))
        assert msgspec.json.decode(stored, type=ToolCallBegin) == cleaned
        for shown in (stored, msgspec.json.encode(cleaned)):
            assert TOKEN[:9].encode() not in shown
            assert TOKEN[20:32].encode() not in shown


def test_digits_of_an_escape_that_continue_a_number_are_no_token() -> None:
    """As bytes it looks like one; as a text it is a control character and less than nine digits."""
    redactor = Redactor()
    redactor.register_token(f"001b{TOKEN[4:]}")
    body = msgspec.json.encode(f"\x1b{TOKEN[4:10]}")
    assert redactor.json(body) is body


def test_a_token_in_pieces_is_taken_out_of_the_events_of_a_session() -> None:
    """S001-45."""
    redactor = Redactor()
    redactor.register_token(TOKEN)
    clean = redactor.event_cleaner()
    pieces = [TOKEN[at : at + 4] for at in range(0, 64, 4)]
    cleans = [clean(AgentMessageDelta(piece, ItemId("i"), 4 * at)) for at, piece in enumerate(pieces)]
    assert "".join(data["text"] for data in cleans) == f"{TOKEN[:8]}[redacted:token]"


def test_a_log_knows_the_tokens_of_every_session_of_its_process() -> None:
    """S001-45, E6: whoever logs an error does not know whose it is."""
    redactor = Redactor()
    redactor.register_token(TOKEN)
    record = logging.LogRecord("x", logging.ERROR, "", 1, "said %s", (TOKEN,), None)
    for _ in range(2):
        assert log_filter().filter(record)
        assert record.getMessage() == f"said {TOKEN[:8]}[redacted:token]"
        assert TOKEN not in log_text(RuntimeError(TOKEN), Full())
        redactor.retire_token(TOKEN)
        record = logging.LogRecord("x", logging.ERROR, "", 1, "said %s", (TOKEN,), None)


CANARY = "the user's own words"


def raised() -> BaseException:
    try:
        try:
            raise KeyError(CANARY)
        except KeyError as cause:
            raise RuntimeError(CANARY) from cause
    except RuntimeError as error:
        return error


def test_with_texts_stored_the_whole_traceback_is_told() -> None:
    """E6"""
    text = describe_error(raised(), Full())

    assert "RuntimeError: " + CANARY in text
    assert "KeyError" in text
    assert "Traceback" in text


@each_row("policy", [HeadersOnly(), NoStorage(), Ttl(5)])
def test_without_texts_stored_types_and_places_are_told_and_no_message(policy: StoragePolicy) -> None:
    """E1, E4, E6: nobody sweeps a log, so a text that has to go may not get there."""
    first, second = describe_error(raised(), policy).splitlines()

    assert first.startswith("RuntimeError policy/test_redaction.py:")
    assert second.startswith("KeyError policy/test_redaction.py:")
    assert CANARY not in first + second


def test_the_members_of_a_group_are_told() -> None:
    group = ExceptionGroup(CANARY, [ValueError(CANARY), TypeError(CANARY)])

    assert describe_error(group, HeadersOnly()).split() == ["ExceptionGroup", "ValueError", "TypeError"]


def test_a_chain_that_bites_its_tail_ends() -> None:
    error = ValueError(CANARY)
    other = TypeError(CANARY)
    error.__context__, other.__context__ = other, error

    assert describe_error(error, NoStorage()).split() == ["ValueError", "TypeError"]


def test_an_endless_chain_is_cut() -> None:
    error: BaseException = ValueError(CANARY)
    for _ in range(1000):
        outer = ValueError(CANARY)
        outer.__cause__ = error
        error = outer

    assert len(describe_error(error, NoStorage()).splitlines()) == 32


def test_the_stack_of_an_error_has_places_and_types_but_no_messages() -> None:
    """E6: a message may quote what a conversation said."""
    try:
        try:
            raise KeyError("secret one")
        except KeyError as error:
            raise ValueError("secret two") from error
    except ValueError as error:
        stack = log_stack(error)
    assert [line for line in stack.splitlines() if not line.startswith("  ")] == ["ValueError", "KeyError"]
    assert "test_redaction.py" in stack
    assert "secret" not in stack
