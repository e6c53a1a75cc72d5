"""Who answers where nobody in particular was named, in the order that is promised, and with the true reason."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tertulia.errors import InvalidParamsError
from tertulia.models import choice as server_discovery
from tertulia.models.catalog import LOCAL_SERVERS, ModelProvider
from tertulia.models.choice import ModelChoice, choose_model, discover_local_models
from tests.deadlines import HANG_S
from tests.models.local_staging import weights_of
from tests.tables import Large, each_row

OPENAI, ANTHROPIC = {"OPENAI_API_KEY": "canary-key"}, {"ANTHROPIC_API_KEY": "canary-key"}
GATEWAY = {"OPENAI_BASE_URL": "https://me:canary@gateway.example/v1"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing was pulled, but it could run."""
    weights = weights_of(5)
    monkeypatch.setattr("tertulia.models.local.weights.WEIGHTS", (weights,))
    can_run(monkeypatch, True)
    return tmp_path


def can_run(monkeypatch: pytest.MonkeyPatch, whether: bool) -> None:
    monkeypatch.setattr("tertulia.models.local.weights.can_run", lambda: whether)


def pull(home: Path) -> None:
    path = weights_of(5).path(home)
    path.parent.mkdir()
    path.write_bytes(b"12345")


def nobody(_: Mapping[str, ModelProvider]) -> dict[str, list[str]]:
    return {}


def never(_: Mapping[str, ModelProvider]) -> dict[str, list[str]]:
    raise AssertionError("ports were knocked at, and nobody had asked for that")


def choose(
    name: str | None, home: Path, variables: Mapping[str, str] = {}, providers: Mapping[str, ModelProvider] = {}
) -> ModelChoice:
    return choose_model(name, providers, variables, home, nearby=never)


def test_what_is_configured_goes_before_everything(home: Path) -> None:
    pull(home)
    assert choose("acme/best", home, OPENAI) == ModelChoice("acme/best", "it is configured")


def test_a_key_goes_before_the_embedded_model(home: Path) -> None:
    pull(home)
    assert choose(None, home, ANTHROPIC).model == "anthropic/claude-sonnet-4-5"
    assert choose(None, home, {**ANTHROPIC, **OPENAI}).model == "openai/gpt-5.2"


@pytest.mark.parametrize("empty", ["", "  \n"])
def test_a_key_that_is_empty_is_none(home: Path, empty: str) -> None:
    assert choose(None, home, {"OPENAI_API_KEY": empty, **ANTHROPIC}).model == "anthropic/claude-sonnet-4-5"


def test_the_reason_names_the_variables_and_no_value(home: Path) -> None:
    assert choose(None, home, OPENAI).why == "no model is configured, and OPENAI_API_KEY is set"
    moved = choose(None, home, OPENAI | GATEWAY)
    assert moved.why == "no model is configured, and OPENAI_API_KEY is set, with OPENAI_BASE_URL"
    table = {"openai": ModelProvider(base_url="https://other.example/v1", wire="chat")}
    assert "OPENAI_BASE_URL" not in choose(None, home, OPENAI | GATEWAY, table).why


def test_without_a_key_the_embedded_model_answers_if_it_was_pulled(home: Path) -> None:
    pull(home)
    assert choose(None, home) == ModelChoice(
        "local/smollm2", "no model is configured, no key is there, and the embedded model was pulled"
    )


def test_with_nothing_at_all_it_is_the_tour_and_says_exactly_that(home: Path) -> None:
    choice = choose(None, home)
    assert choice.model is None
    assert choice.why.startswith("no model is set up")
    assert "tertulia models pull smollm2" in choice.why
    assert "tertulia models pull smollm2" in choice.why


def test_weights_without_their_extra_are_no_model(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pull(home)
    can_run(monkeypatch, False)
    choice = choose(None, home)
    assert choice.model is None
    assert "the embedded model that was pulled needs" in choice.why
    assert "pip install 'tertulia[local]'" in choice.why


# ---- local


def test_local_is_a_server_of_this_machine_first(home: Path) -> None:
    pull(home)
    searched: list[Mapping[str, ModelProvider]] = []

    def nearby(providers: Mapping[str, ModelProvider]) -> dict[str, list[str]]:
        searched.append(providers)
        return {"lmstudio": ["org/model", "other"], "vllm": ["big"]}

    table = {"ollama": ModelProvider(base_url="http://127.0.0.1:9/v1", wire="chat")}
    choice = choose_model("local", table, OPENAI, home, nearby=nearby)
    assert choice == ModelChoice(
        "lmstudio/org/model", "local was asked for, and a lmstudio server answers on this machine"
    )
    assert searched == [table]


def test_local_is_the_embedded_model_where_no_server_answers(home: Path) -> None:
    pull(home)
    choice = choose_model("local", {}, OPENAI, home, nearby=nobody)
    assert choice.model == "local/smollm2"
    assert "no local server answers" in choice.why


def test_local_without_anybody_is_refused_with_what_was_tried(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidParamsError, match=r"tried ollama, lmstudio, vllm, llamacpp.*models pull smollm2"):
        choose_model("local", {}, OPENAI, home, nearby=nobody)
    pull(home)
    can_run(monkeypatch, False)
    with pytest.raises(InvalidParamsError, match=r"needs its extra .pip install 'tertulia\[local\]'"):
        choose_model("local", {}, OPENAI, home, nearby=nobody)


LIST = b'{"object":"list","data":[{"id":"llama3.2:1b","object":"model"},{"id":"qwen"}]}'


def ok(body: bytes, headers: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%b\r\n%b" % (len(body), headers, body)


class Server:
    """Answers every connection with the same bytes, and keeps what it was asked."""

    def __init__(self, answer: bytes | None) -> None:
        self.asked: list[bytes] = []
        self._answer = answer
        self._open: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(connection)
            self.asked.append(connection.recv(65_536))
            if self._answer is not None:
                connection.sendall(self._answer)
                connection.close()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(HANG_S)
        for connection in self._open:
            connection.close()


@contextmanager
def serving(**answers: bytes | None) -> Iterator[tuple[dict[str, ModelProvider], dict[str, Server]]]:
    """Servers under the usual names; at the address of the others nobody answers."""
    with ExitStack() as stack:
        # Bound and not listening: nobody answers there, and nobody else can take the place.
        taken = stack.enter_context(socket.socket())
        taken.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        servers = {name: Server(answer) for name, answer in answers.items()}
        for server in servers.values():
            stack.callback(server.close)
        addresses = dict.fromkeys(LOCAL_SERVERS, nowhere) | {name: server.base_url for name, server in servers.items()}
        yield {name: ModelProvider(base_url=url, wire="chat") for name, url in addresses.items()}, servers


def test_nobody_answers_where_nobody_is() -> None:
    with serving() as (configured, _):
        assert discover_local_models(configured) == {}


def test_servers_that_answer_come_in_the_usual_order_with_their_models() -> None:
    with serving(vllm=ok(LIST), ollama=ok(LIST)) as (configured, servers):
        found = discover_local_models(configured)
        assert list(found.items()) == [("ollama", ["llama3.2:1b", "qwen"]), ("vllm", ["llama3.2:1b", "qwen"])]
        assert [server.asked[0].split(b"\r\n")[0] for server in servers.values()] == [b"GET /v1/models HTTP/1.1"] * 2


def test_it_sends_nothing_but_the_question() -> None:
    with serving(ollama=ok(LIST)) as (configured, servers):
        discover_local_models(configured)
        (request,) = servers["ollama"].asked
        assert b"authorization" not in request.lower()
        assert request.endswith(b"\r\n\r\n")


@each_row(
    "answer",
    [
        ok(b"<html>a web page</html>"),
        ok(b"[]"),
        ok(b'{"data": "all"}'),
        ok(b'{"data": [{"name": "x"}]}'),
        ok(b'{"data": []}'),
        ok(b'{"data": [{"id": ""}]}'),
        ok(b"[" * 100_000),
        Large(lambda: ok(b'{"data": [{"id": "' + b"x" * 2_000_000 + b'"}]}')),
        ok(b"\xff\xfe"),
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
        b"",
    ],
)
def test_what_is_no_list_of_models_is_no_server_of_models(answer: bytes) -> None:
    with serving(llamacpp=answer) as (configured, servers):
        assert discover_local_models(configured) == {}
        assert len(servers["llamacpp"].asked) == 1


def test_a_server_that_says_nothing_does_not_hide_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_discovery, "TIMEOUT_S", 0.1)
    with serving(ollama=None, lmstudio=ok(LIST)) as (configured, _):
        assert list(discover_local_models(configured)) == ["lmstudio"]


@pytest.mark.parametrize(
    "base_url",
    ["http://192.0.2.1/v1", "http://example.org/v1", "https://127.0.0.1/v1", "http://[", "http://127.0.0.1:x/"],
)
def test_only_this_machine_is_asked(base_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr("http.client.HTTPConnection", refuse)
    configured = {name: ModelProvider(base_url=base_url, wire="chat") for name in LOCAL_SERVERS}
    assert discover_local_models(configured) == {}


@each_row("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_loopback_has_many_names(host: str) -> None:
    assert server_discovery._is_loopback(host)
