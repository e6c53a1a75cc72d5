"""Issue 26: hosts by name through a session: asked about once, told of, counted, explained, narrowed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import tertulia
from tertulia.errors import InvalidParamsError
from tertulia.policy.host_rules import HostRules
from tertulia.protocol.inputs import ExplainRights
from tertulia.protocol.tool_events import ApprovalRequest
from tertulia.sandbox.proxy import addresses
from tertulia.session.metrics import describe_metrics
from tertulia.session.rights.explain_rights import explain_rights
from tertulia.testing import ScriptedModel, call
from tests.contract.python_session import past
from tests.sandbox.confined import need
from tests.sandbox.proxy.proxied import HERE, Names
from tests.sandbox.proxy.sandboxed import served
from tests.tables import each_row


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    need("bubblewrap")
    known = Names(files_example=HERE, other_example=HERE, denied_example=HERE)
    monkeypatch.setattr(addresses, "look_up", known)
    return known


@pytest.fixture
def port() -> Iterator[int]:
    with served() as server:
        yield server.server_port


def curl(*urls: str) -> Any:
    return call("shell", {"command": ["curl", "-sS", "--parallel", *urls]})


def session_of(
    folder: Path, network: Any, *replies: Any, answer: Callable[[ApprovalRequest], Any] | None = None, **settings: Any
) -> AbstractAsyncContextManager[tertulia.Session]:
    fields = {"model": ScriptedModel(list(replies)), "cwd": str(folder), "network": network, **settings}
    return tertulia.Session.start(tertulia.Settings(**fields), on_approval=answer)


def outputs(session: tertulia.Session) -> list[str]:
    model = session.parts.root_wire
    assert isinstance(model, ScriptedModel)
    return [item.text for item in model.requests[-1].items if isinstance(item, tertulia.ToolOutput)]


async def accesses(session: tertulia.Session) -> list[Any]:
    return [event.data for event in await past(session, type="network_access")]


async def test_a_host_that_is_not_allowed_is_refused_with_the_way_to_allow_it(tmp_path: Path, port: int) -> None:
    """Where no person attends: 403 with one sentence, also for the model."""
    rules = {"allow": [f"files.example:{port}", f"{HERE}:{port}"], "deny": ["denied.example"]}
    urls = [f"http://{name}.example:{port}/" for name in ("files", "other", "denied")]
    async with session_of(tmp_path, rules, *map(curl, urls), "done") as session:
        await session.root.message("go")
        allowed, refused, denied = outputs(session)
        assert f"hello from files.example:{port}" in allowed
        assert f'other.example:{port} is not allowed here; to allow it, add "other.example:{port}"' in refused
        assert "is denied by network.deny" in denied
        events = await accesses(session)
        verdicts = [(data.host, data.port, data.verdict) for data in events]
        assert verdicts == [
            ("files.example", port, "allowed"),
            ("other.example", port, "refused"),
            ("denied.example", port, "refused"),
        ]
        assert events[0].bytes > 0
        counts = describe_metrics(session.parts, None).session
        assert (counts.network, counts.network_bytes) == ({"allowed": 1, "refused": 2}, events[0].bytes)


@each_row(
    "scope, questions",
    [("once", 2), ("conversation", 1), ("session", 1)],
)
async def test_a_person_is_asked_once_a_host_however_many_connections_want_it(scope: str, questions: int) -> None:
    requests: list[ApprovalRequest] = []

    def answer(request: ApprovalRequest) -> Any:
        requests.append(request)
        return {"decision": "allow", "scope": scope}

    with served() as server, tempfile.TemporaryDirectory() as folder:
        port = server.server_port
        url = f"http://other.example:{port}/"
        rules = {"allow": [f"{HERE}:{port}"]}
        async with session_of(Path(folder), rules, curl(*[url] * 8), curl(url), "done", answer=answer) as session:
            await session.root.message("go")
            first, second = outputs(session)
            assert first.count("hello from") == 8
            assert second.count("hello from") == 1
            assert len(requests) == questions
            events = await accesses(session)
            assert sum(data.connections for data in events) == 9
            assert len(events) <= 4
    request = requests[0]
    assert (request.kind, request.title) == ("network", f"reach other.example, port {port}")
    assert "curl -sS --parallel" in request.detail
    assert request.conversation_id == session.root.id
    assert request.matches[0] == f"network: other.example 'port {port}'"
    assert list(request.scopes) == ["once", "conversation", "session"]


async def test_a_no_holds_for_the_command_and_is_told_to_the_model(tmp_path: Path, port: int) -> None:
    titles: list[str] = []

    def answer(request: ApprovalRequest) -> Any:
        titles.append(request.title)
        return {"decision": "deny", "message": "not this one"}

    url = f"http://other.example:{port}/"
    async with session_of(tmp_path, {"allow": []}, curl(url, url), "done", answer=answer) as session:
        await session.root.message("go")
        assert "the user said no: not this one" in outputs(session)[0]
    assert len(titles) == 1


async def test_a_command_that_wants_any_number_of_hosts_asks_about_a_few(tmp_path: Path) -> None:
    titles: list[str] = []

    def answer(request: ApprovalRequest) -> Any:
        titles.append(request.title)
        return "deny"

    urls = [f"http://h{number}.example/" for number in range(40)]
    async with session_of(tmp_path, {"allow": []}, curl(*urls), "done", answer=answer) as session:
        await session.root.message("go")
        assert "32 hosts were asked about already" in outputs(session)[0]
        events = await accesses(session)
        assert sum(data.connections for data in events) == 40
    assert len(set(titles)) == len(titles) == 32


async def test_a_yes_does_not_lead_to_a_private_address(tmp_path: Path, port: int) -> None:
    """DNS answers that change: a person allows a name, not what it is pointed at."""
    url = f"http://other.example:{port}/"
    async with session_of(tmp_path, {"allow": []}, curl(url), "done", answer=lambda request: "allow") as session:
        await session.root.message("go")
        assert "no address of the internet" in outputs(session)[0]


async def test_a_yes_for_the_project_is_kept_and_listed(tmp_path: Path, port: int) -> None:
    url, rules = f"http://other.example:{port}/", {"allow": [f"{HERE}:{port}"]}
    titles: list[str] = []

    def answer(request: ApprovalRequest) -> Any:
        titles.append(request.title)
        return {"decision": "allow", "scope": "project"}

    for _ in range(2):
        settings = {"answer": answer, "project_grant_ttl_s": 60.0}
        async with session_of(tmp_path, rules, curl(url), "done", **settings) as session:
            await session.root.message("go")
            assert "hello from" in outputs(session)[0]
            (grant,) = session.parts.command_services.approvals.grants()
            assert (grant.kind, grant.scope) == ("network", "project")
    assert len(titles) == 1


async def test_a_layer_more_only_narrows_and_explain_names_the_one_that_refuses(tmp_path: Path) -> None:
    rules = {"allow": ["*.example", "c.org"], "deny": ["bad.example"]}
    async with session_of(tmp_path, rules) as session:
        parent = await session.open(network={"allow": ["a.example", "b.example", "d.org"]})
        child = await session.open(parent_id=parent.id, network={"allow": ["a.example:443", "c.org", "b.example"]})
        last = await session.open(parent_id=child.id, network=True)
        off = await session.open(parent_id=child.id, network=False)
        rights = [session.parts.conversations.find(one.id).terms.rights.network for one in (parent, child, last, off)]
        assert rights == [
            HostRules(("a.example", "b.example"), ("bad.example",)),
            HostRules(("a.example:443", "b.example"), ("bad.example",)),
            HostRules(("a.example:443", "b.example"), ("bad.example",)),
            False,
        ]
        (cut,) = (await last.context()).narrowed
        assert (cut.field, cut.asked, cut.because) == ("network", True, f"ancestor:{child.id}")

        async def explained(host: str, of: str = child.id) -> tuple[str, str]:
            action = (await explain_rights(session.parts, ExplainRights(conversation_id=of, host=host))).action
            assert action is not None
            return action.verdict, action.set_by

        assert await explained("a.example") == ("run", "conversation")
        assert await explained("bad.example") == ("deny", "session")
        assert await explained("x.org") == ("ask", "session")
        assert await explained("c.org") == ("ask", f"ancestor:{parent.id}")
        assert await explained("a.example:80") == ("ask", "conversation")
        assert await explained("a.example", off.id) == ("deny", "conversation")
        with pytest.raises(InvalidParamsError, match="is no"):
            await explained("a b")
        with pytest.raises(InvalidParamsError, match="more than one"):
            await explain_rights(session.parts, ExplainRights(conversation_id="root", host="a", tool="shell"))


async def test_an_agent_may_have_a_list_and_its_conversation_gets_the_meet(tmp_path: Path) -> None:
    agents = {"reader": {"network": {"allow": ["a.example", "z.org"]}}}
    async with session_of(tmp_path, {"allow": ["*.example"]}, agents=agents) as session:
        reader = await session.open(agent="reader")
        assert session.parts.conversations.find(reader.id).terms.rights.network == HostRules(("a.example",))


async def test_under_a_policy_without_texts_no_host_is_stored(tmp_path: Path, port: int) -> None:
    """E1"""
    rules = {"allow": [f"files.example:{port}", f"{HERE}:{port}"]}
    urls = [f"http://{name}.example:{port}/" for name in ("files", "canary7c1")]
    settings = {"storage_policy": "headers_only"}
    async with session_of(tmp_path, rules, *map(curl, urls), "done", **settings) as session:
        await session.root.message("go")
        assert len(await accesses(session)) == 2
        home = session.parts.environment.home
    stored = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert b"headers_only" in stored
    assert b"canary7c1" not in stored
    assert b"files.example" not in stored
