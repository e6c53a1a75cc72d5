"""`view_image`, read through the real sandbox."""

from __future__ import annotations

import base64
import os
from pathlib import Path

import pytest

from tertulia.protocol.items import ImagePart
from tertulia.tools.view_image import MAX_PICTURE_BYTES
from tests.tables import Large
from tests.tools.test_images import PNG
from tests.tools.workbench import code, workbench


async def test_a_picture_is_shown_with_its_size(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        (bench.root / "a.png").write_bytes(PNG)
        for path in ("a.png", "./x/../a.png", str(bench.root / "a.png")):
            result = await bench.call("view_image", {"path": path})
            url = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
            assert result.parts == (ImagePart(url),)
            assert result.text == f"a.png: image/png, 640 x 480 pixels, {len(PNG)} bytes, {len(url)} as sent"


async def test_what_lies_outside_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    """A1: no more than a command may, and no path leads out."""
    async with workbench(tmp_path) as bench:
        (bench.outside / "a.png").write_bytes(PNG)
        os.symlink(bench.outside / "a.png", bench.root / "link.png")
        os.symlink(bench.outside, bench.root / "folder")
        for path in ("../outside/a.png", str(bench.outside / "a.png"), "link.png", "folder/a.png", "/etc/passwd", "."):
            result = await bench.call("view_image", {"path": path})
            assert code(result) == "invalid_params", path
            assert result.parts == ()


async def test_a_masked_picture_is_refused_and_the_mask_named(tmp_path: Path) -> None:
    """S9"""
    secret = Path(os.path.realpath(tmp_path)) / "workspace" / "secret"
    async with workbench(tmp_path, masked=(str(secret),)) as bench:
        secret.mkdir()
        (secret / "a.png").write_bytes(PNG)
        result = await bench.call("view_image", {"path": "secret/a.png"})
        assert code(result) == "invalid_params"
        assert f"{secret} is masked" in result.text


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("no.png", None, "not_found"),
        ("text.png", b"no picture", "invalid_params"),
        ("large.png", Large(lambda: PNG + b"\0" * MAX_PICTURE_BYTES), "invalid_params"),
        ("huge.png", Large(lambda: PNG + b"\0" * 17 * 1024 * 1024), "invalid_params"),
        ("a\0b", None, "invalid_params"),
    ],
)
async def test_what_cannot_be_shown_is_refused(tmp_path: Path, name: str, content: bytes | None, expected: str) -> None:
    async with workbench(tmp_path) as bench:
        if content is not None:
            (bench.root / name).write_bytes(content)
        result = await bench.call("view_image", {"path": name})
        assert (code(result), result.parts) == (expected, ())


async def test_with_full_access_every_picture_can_be_seen(tmp_path: Path) -> None:
    async with workbench(tmp_path) as bench:
        (bench.outside / "a.png").write_bytes(PNG)
        bench.with_rights("never", sandbox="danger_full_access")
        assert (await bench.call("view_image", {"path": str(bench.outside / "a.png")})).success
