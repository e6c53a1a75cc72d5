"""The parts of the composer that draw nothing: signs, ranking, history, pictures, files and modes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tertulia.policy.redaction import Redactor
from tertulia.session.settings.settings import LoadedSettings, Settings, current_environment
from tertulia.terminal.composer.completion import rank, token_before
from tertulia.terminal.composer.file_listing import list_files
from tertulia.terminal.composer.history import InputHistory
from tertulia.terminal.composer.modes import MODES, ModeChoice
from tertulia.terminal.composer.pastes import Pastes
from tertulia.terminal.composer.pictures import Picture, clipboard_picture, picture_in, read_picture
from tertulia.terminal.composer.stored_lines import StoredLines


@given(st.lists(st.text(max_size=30) | st.text("ab\n", min_size=12, max_size=40), max_size=6))
def test_what_is_sent_is_what_was_pasted(texts: list[str]) -> None:
    pastes = Pastes()
    shown = " ".join(pastes.fold(text) for text in texts)
    assert pastes.expand(shown) == (" ".join(texts), [])


def test_a_paste_that_looks_like_a_sign_is_only_a_text() -> None:
    pastes = Pastes()
    first = pastes.fold("a\n" * 20)
    second = pastes.fold(f"{first}\n" * 20)
    assert pastes.expand(f"{second}|{first}")[0] == f"{first}\n" * 20 + "|" + "a\n" * 20


def test_pictures_come_in_the_order_of_the_text() -> None:
    pastes = Pastes()
    signs = [pastes.add_picture(Picture(f"/{name}", 1, 1, 5)) for name in "ab"]
    assert signs == ["[picture 1x1, 1 KB]", "[picture 1x1, 1 KB (2)]"]
    text, pictures = pastes.expand(f"{signs[1]} and {signs[0]}")
    assert text.strip() == "and"
    assert [picture.path for picture in pictures] == ["/b", "/a"]


@pytest.mark.parametrize(
    ("line", "first", "kind", "query"),
    [
        ("/mo", True, "command", "mo"),
        ("/", True, "command", ""),
        ("/mo", False, None, ""),
        ("/model x", True, None, ""),
        ("look at @src/a", True, "mention", "src/a"),
        ("@", False, "mention", ""),
        ("ada@example", True, None, ""),
        ("plain", True, None, ""),
    ],
)
def test_what_may_be_completed(line: str, first: bool, kind: str | None, query: str) -> None:
    token = token_before(line, is_first_line=first)
    assert (None if token is None else (token.kind, token.query)) == (None if kind is None else (kind, query))


def test_names_that_begin_so_come_first_and_letters_in_order_last() -> None:
    names = ["zapi.py", "api.py", "src/api.py", "a/pretty/island.py", "README"]
    assert rank("api", names) == ["api.py", "src/api.py", "zapi.py", "a/pretty/island.py"]


def test_twenty_thousand_names_are_ranked_within_a_frame() -> None:
    names = [f"src/package_{number % 97}/module_{number}.py" for number in range(20_000)]
    began = thread_time()
    rank("pkgm19x", names)
    assert thread_time() - began < 0.5


def test_the_history_goes_back_and_forward_and_finds() -> None:
    history = InputHistory(["one", "two"])
    history.add("three")
    history.add("three")
    assert [history.back("draft") for _ in range(4)] == ["three", "two", "one", None]
    assert [history.forward() for _ in range(4)] == ["two", "three", "draft", None]
    assert history.search("T", 5) == ["three", "two"]
    assert history.fresh == ["three"]
    history.extend_past(["zero"])
    assert history.search("", 9)[-1] == "zero"


@pytest.mark.parametrize(("policy", "stored"), [("full", True), ("none", False), ("headers_only", False)])
def test_lines_are_stored_only_where_the_policy_is_full(
    policy: str, stored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path))
    loaded = LoadedSettings(Settings(model="scripted", storage_policy=policy), {}, [], current_environment())
    lines = StoredLines.of(loaded)
    lines.add(["a line that was typed"])
    assert lines.load() == (["a line that was typed"] if stored else [])
    found = [path for path in tmp_path.rglob("*") if path.is_file() and b"typed" in path.read_bytes()]
    assert bool(found) == stored


def test_a_pasted_text_is_not_stored_as_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERTULIA_HOME", str(tmp_path))
    lines = StoredLines.of(LoadedSettings(Settings(model="scripted"), {}, [], current_environment()))
    lines.add(["short", "long " * 200_000])
    assert lines.load() == ["short"]


def test_lines_without_a_file_are_forgotten() -> None:
    lines = StoredLines(None, Redactor(()))
    lines.add(["x"])
    assert lines.load() == []


JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffc0001108002000400301") + bytes(9)
WEBP = b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + (63).to_bytes(3, "little") + (31).to_bytes(3, "little")
GIF = b"GIF89a" + (64).to_bytes(2, "little") + (32).to_bytes(2, "little")


@pytest.mark.parametrize(("name", "content"), [("a.jpg", JPEG), ("b.webp", WEBP), ("c.gif", GIF)])
def test_the_size_of_a_picture_is_read(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    picture = picture_in(name, tmp_path)
    assert picture is not None
    assert (picture.width, picture.height) == (64, 32)


@pytest.mark.parametrize("text", ["a.png", "two words.png x", "'", "a\nb.png", "", "~nobody-there/x.png", "x" * 5_000])
def test_a_text_that_names_no_picture_is_a_text(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("no picture")
    assert picture_in(text, tmp_path) is None


def test_a_picture_may_be_an_address_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a b.gif").write_bytes(GIF)
    assert picture_in(f"file://{tmp_path}/a%20b.gif", Path()) is not None


def test_a_picture_comes_from_the_clipboard_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert clipboard_picture() is None
    data = b"\x89PNG\r\n\x1a\n" + bytes(8) + (64).to_bytes(4, "big") + (32).to_bytes(4, "big") + bytes(9)
    (tmp_path / "picture").write_bytes(data)
    (tmp_path / "xclip").write_text(f"#!/bin/sh\ncat {tmp_path}/picture\n")
    (tmp_path / "xclip").chmod(0o755)
    picture = clipboard_picture()
    assert picture is not None
    assert picture.label == "[picture 64x32, 1 KB]"
    assert picture.item["image_url"].startswith("data:image/png;base64,iVBOR")


def test_a_pipe_is_no_picture_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ValueError, match="not a file"):
        read_picture(tmp_path / "pipe.png")


def test_files_that_git_ignores_are_not_completed(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("build/\n")
    for name in ("build/out.o", "src/app.py", "bad\x1bname.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert list_files(tmp_path) == [".gitignore", "src/app.py"]


def test_listing_files_starts_no_program_that_the_repository_names(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "monitor").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "monitor").chmod(0o755)
    subprocess.run(["git", "config", "core.fsmonitor", "./monitor"], cwd=tmp_path, check=True)
    list_files(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_without_git_hidden_files_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("a/b.py", "c.py", ".hidden/d.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert list_files(tmp_path) == ["a/b.py", "c.py"]


@given(st.lists(st.tuples(st.sampled_from(["cycle", "y", "n", "x"]), st.sampled_from([0.0, 0.1, 0.29, 0.31, 2.0]))))
def test_more_is_never_allowed_without_a_yes(steps: list[tuple[str, float]]) -> None:
    choice, now = ModeChoice(), 0.0
    since = now
    for step, pause in steps:
        now += pause
        before, wanted = choice.mode, choice.wanted
        if step == "cycle":
            choice.cycle(now)
            since = now
        else:
            choice.answer(step, now)
        if MODES.index(choice.mode) > MODES.index(before):
            assert step == "y"
            assert wanted == choice.mode
            assert now - since >= 0.3
