"""Pictures that a model names: from the workspace only, and not without bound."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tertulia.testing import call, say
from tertulia.tools import images
from tests.delegation.delegation_stage import play

PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + b"\0\0\0\1" * 2


def showing(*paths: str, to: str | None = None, call_id: str = "c1") -> Any:
    items = [{"type": "local_image", "path": path} for path in paths]
    if to is None:
        return call("conv_create", {"items": items}, call_id)
    return call("conv_send", {"conversation_id": to, "items": items}, call_id)


@pytest.mark.parametrize("sent", [False, True])
async def test_a_picture_of_the_workspace_is_shown(sent: bool, tmp_path: Path) -> None:
    """S004-03, S004-06, X-07"""
    (tmp_path / "a.png").write_bytes(PNG)
    async with play(cwd=str(tmp_path)) as on:
        other = await on.session.open()
        on.write(say("", showing("a.png", to=other.id if sent else None)), "B", "A")
        await on.root.message("go")
        (part,) = on.model.requests[1].items[-1].parts
        assert part.image_url == f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("name", ["outside", "link", "up", "secret", "text", "large", "nothing"])
async def test_any_other_picture_is_refused_and_nothing_begins(
    name: str, sent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HARDENING B11: a model sees no more by way of another conversation than its commands do."""
    monkeypatch.setattr(images, "MAX_IMAGE_BYTES", 100)
    place, home = tmp_path / "place", tmp_path / "place" / "home"
    home.mkdir(parents=True)
    monkeypatch.setenv("TERTULIA_HOME", str(home))
    for path in (tmp_path / "out.png", home / "secret.png"):
        path.write_bytes(PNG)
    (place / "link.png").symlink_to(tmp_path / "out.png")
    (place / "text.png").write_text("no picture")
    (place / "large.png").write_bytes(PNG.ljust(101))
    paths = {
        "outside": str(tmp_path / "out.png"), "link": "link.png", "up": "../out.png", "secret": "home/secret.png",
        "text": "text.png", "large": "large.png", "nothing": "nothing.png",
    }  # fmt: skip
    async with play(cwd=str(place)) as on:
        other = await on.session.open()
        before = on.ids()
        on.write(say("", showing(paths[name], to=other.id if sent else None)), "went on")
        assert (await on.root.message("go")).text == "went on"
        assert on.heard()[0]["code"] == "invalid_params"
        assert (on.ids(), len(on.model.requests)) == (before, 2)


async def test_a_task_cannot_fill_the_memory_with_one_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G5: counted over all calls of a task; the next one begins anew."""
    monkeypatch.setattr(images, "MAX_TASK_BYTES", 3 * len(PNG))
    (tmp_path / "a.png").write_bytes(PNG)
    calls = [showing("a.png", "a.png", call_id=f"c{number}") for number in range(3)]
    async with play(say("", *calls), "B", say("", showing("a.png", call_id="d")), "C", "A", cwd=str(tmp_path)) as on:
        assert (await on.root.message("go")).text == "A"
        assert [answer.get("code") for answer in on.heard()] == ["limit", "limit", None, None]
        assert len(on.ids()) == 3
