"""Under which settings an editor's session runs: those of its directory, and never more than the user's."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tertulia.errors import InvalidParamsError, StorageError
from tertulia.models.provider_keys import ProviderKeys
from tertulia.policy.key_store import KeyStore
from tertulia.server.session_factory import DirectorySettings, SessionFactory, SessionRequest, known_models
from tertulia.session.handle import Conversation
from tertulia.session.host import Host
from tertulia.session.settings.environment import Environment
from tertulia.session.settings.settings import current_environment
from tests.policy.test_key_store import NO_KEYRING
from tests.server.acp_editor import scripted


def session_factory(roots: list[str] | None, remarks: list[str] | None = None) -> SessionFactory:
    settings = scripted("hi", writable_roots=roots)

    def settle(cwd: Path) -> DirectorySettings:
        return DirectorySettings(replace(settings, cwd=str(cwd)), remarks or [])

    return SessionFactory(Host(settings), settle, current_environment())


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path, Path]:
    made = (tmp_path / "work", tmp_path / "more", tmp_path / "work" / "inner")
    for place in made:
        place.mkdir()
    return made


async def test_more_directories_may_be_written_where_the_user_has_not_said_otherwise(
    places: tuple[Path, Path, Path],
) -> None:
    """Issue 10 (4): additional directories are writable roots as far as the user's settings allow."""
    work, more, _ = places
    at = session_factory(None)
    opened = await at.start(SessionRequest(str(work), [str(more)]))
    rights = opened.session.parts.conversations.root.terms.rights
    assert set(rights.writable_roots or ()) == {str(work), str(more)}
    assert not opened.remarks
    await at.host.close()


async def test_the_users_own_roots_are_the_most_that_there_is(places: tuple[Path, Path, Path]) -> None:
    """Issue 10 (4), HARDENING A8: naming a directory is not being allowed it."""
    work, more, inner = places
    at = session_factory([str(work)])
    opened = await at.start(SessionRequest(str(work), [str(more), str(inner)]))
    assert opened.session.parts.conversations.root.terms.rights.writable_roots == (str(work),)
    (remark,) = opened.remarks
    assert str(more) in remark
    await at.host.close()


@pytest.mark.parametrize("field", ["cwd", "additionalDirectories"])
@pytest.mark.parametrize("path", ["relative", "/no/such/place", "", "/with\0nul"])
async def test_a_directory_that_is_none_is_refused_by_name(tmp_path: Path, field: str, path: str) -> None:
    """Issue 10 (4)."""
    at = session_factory(None)
    requested = SessionRequest(path) if field == "cwd" else SessionRequest(str(tmp_path), [path])
    with pytest.raises(InvalidParamsError, match=field):
        await at.start(requested)
    assert not at.host.sessions


async def test_a_session_that_could_not_be_settled_is_not_left_behind(
    places: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """X-35: its client never hears of it; one that ran before goes on."""
    work, more, _ = places
    at = session_factory(None)
    first = await at.start(SessionRequest(str(work)))
    await first.session.root.message("hello")

    async def full(self: Conversation, **fields: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(Conversation, "set_context", full)
    with pytest.raises(StorageError):
        await at.resume(first.session.id, SessionRequest(str(more)))
    assert at.host.sessions == [first.session]
    assert not first.session.closed
    await at.host.close_session(first.session)
    with pytest.raises(StorageError):
        await at.resume(first.session.id, SessionRequest(str(more)))
    assert not at.host.sessions


async def test_a_session_that_comes_back_works_where_the_editor_says(places: tuple[Path, Path, Path]) -> None:
    """Issue 10 (4): and hears what was said about its settings."""
    work, more, _ = places
    at = session_factory(None, ["a project's file was not read"])
    first = await at.start(SessionRequest(str(work)))
    assert first.remarks == ["a project's file was not read"]
    await first.session.root.message("hello")
    await at.host.close_session(first.session)
    back = await at.resume(first.session.id, SessionRequest(str(more)))
    assert back.session.parts.conversations.root.terms.cwd == str(more)
    await at.host.close()


def test_only_models_are_offered_whose_key_is_there(tmp_path: Path) -> None:
    """Issue 10 (4)."""

    def offered(**variables: str) -> list[str]:
        environment = Environment.read({"HOME": str(tmp_path), **variables})
        return known_models(environment, ProviderKeys(environment.variables, environment.keys_file))

    assert offered() == []
    assert offered(OPENAI_API_KEY=" ") == []
    assert "openai/gpt-5.2" in offered(OPENAI_API_KEY="k")
    assert all(name.startswith("anthropic/claude-") for name in offered(ANTHROPIC_API_KEY="k"))
    environment = Environment.read({"HOME": str(tmp_path)})
    KeyStore(environment.keys_file, NO_KEYRING).keep("anthropic", "sk-ant-stored-0123456789")
    assert {name.partition("/")[0] for name in offered()} == {"anthropic"}
