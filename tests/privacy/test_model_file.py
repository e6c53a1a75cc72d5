"""The name of a file that a model is read from."""

from __future__ import annotations

from pathlib import Path

import pytest

import tertulia
from tertulia.session.session import Session
from tests.privacy.secrets_told import everything_below


@pytest.mark.parametrize("policy", ["headers_only", "none"])
async def test_the_directory_of_a_script_is_not_stored_where_no_text_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """E1: the name of a file is a text. Resuming would then need `-m`."""
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path / "home"))
    folder = tmp_path / "kanarienvogel"
    folder.mkdir()
    (folder / "script.json").write_text('{"replies": ["yes"]}')
    model = f"scripted/{folder}/script.json"
    async with Session.start(tertulia.Settings(model=model, storage_policy=policy)) as session:
        assert (await session.root.message("hi")).text == "yes"
    assert b"kanarienvogel" not in everything_below(tmp_path / "home")
