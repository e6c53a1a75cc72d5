"""From what a client sent to one user message, or to one refusal that leaves nothing behind."""

from __future__ import annotations

import base64
import errno
import os
from pathlib import Path

import pytest

from tertulia.conversation.user_message import MAX_IMAGE_BYTES, MAX_MESSAGE_CHARS, to_user_message
from tertulia.errors import InvalidParamsError
from tertulia.protocol.inputs import MAX_TEXT_BYTES, ImageInput, InputItem, LocalImageInput, TextInput
from tertulia.protocol.items import ImagePart, TextPart
from tests.tables import Large, each_row

PICTURES = {
    "a.png": (b"\x89PNG\r\n\x1a\nrest", "image/png"),
    "a.jpg": (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
    "a.gif": (b"GIF89arest", "image/gif"),
    "b.gif": (b"GIF87arest", "image/gif"),
    "a.webp": (b"RIFF\n\x00\xff\x01WEBPrest", "image/webp"),
}
PNG = PICTURES["a.png"][0]


def longest() -> str:
    return "x" * MAX_TEXT_BYTES


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with pictures and with things that are none."""
    for name, (data, _) in PICTURES.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "notes.txt").write_bytes(b"not a picture")
    (tmp_path / "sound.wav").write_bytes(b"RIFF\x24\0\0\0WAVEfmt ")
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "short.gif").write_bytes(b"GIF8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop.png").symlink_to("loop.png")
    os.mkfifo(tmp_path / "pipe.png")
    with (tmp_path / "huge.png").open("wb") as huge:
        huge.write(PNG)
        huge.truncate(MAX_IMAGE_BYTES + 1)
    return tmp_path


def open_files() -> set[str]:
    """What this process holds open now."""
    fds = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return {os.readlink(fd) for fd in fds if os.path.lexists(fd)}


def refused(text: str | None, items: list[InputItem] | None, *, cwd: object = "/") -> str:
    with pytest.raises(InvalidParamsError) as error:
        to_user_message(text, items, cwd=str(cwd))
    return error.value.message


# ---- what is accepted


def test_text_comes_first_and_then_the_items_in_order(here) -> None:
    """X-07"""
    items = [TextInput("b"), ImageInput("https://x/y.png"), LocalImageInput("a.png"), TextInput("c")]
    message = to_user_message("a", items, cwd=str(here), sender="ana")
    assert [type(part) for part in message.parts] == [TextPart, TextPart, ImagePart, ImagePart, TextPart]
    assert message.text == "abc"
    assert message.sender == "ana"
    assert not message.injected


def test_each_message_is_a_new_item() -> None:
    assert to_user_message("a", None, cwd="/").id != to_user_message("a", None, cwd="/").id


@each_row(
    "text",
    ["hi", " ", "\0", "a\0b", "\u2028\x85", "ñ😀", "\ufeff", Large(lambda: "x" * 10_000_000), Large(longest)],
    ids=["plain", "space", "nul", "nul-inside", "line-ends", "wide", "bom", "10-MB", "16-MB"],
)
def test_any_valid_unicode_up_to_16_megabytes_is_taken_as_it_is(text) -> None:
    assert to_user_message(text, None, cwd="/").text is text
    assert to_user_message(None, [TextInput(text)], cwd="/").text is text


@each_row("empty", [None, ""])
def test_empty_texts_are_left_out(empty) -> None:
    """Providers refuse an empty block of text beside a picture."""
    message = to_user_message(empty, [TextInput(""), ImageInput("https://x/y.png"), TextInput("")], cwd="/")
    assert message.parts == (ImagePart("https://x/y.png"),)


@each_row(
    "address", ["data:image/png;base64,iVBORw0KGgo=", "data:image/svg+xml,%3Csvg/%3E", "https://example.com/a b?c#d"]
)
def test_a_picture_by_address_is_passed_on_unread(address) -> None:
    assert to_user_message(None, [ImageInput(address)], cwd="/").parts == (ImagePart(address),)


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("absolute", [True, False])
def test_a_picture_by_path_becomes_a_data_address(here, name, absolute) -> None:
    """It is read when the message is accepted, below the conversation's own directory."""
    data, mime = PICTURES[name]
    path, cwd = (str(here / name), "/nowhere") if absolute else (name, str(here))
    (part,) = to_user_message(None, [LocalImageInput(path)], cwd=cwd).parts
    assert isinstance(part, ImagePart)
    head, _, body = part.image_url.partition(",")
    assert head == f"data:{mime};base64"
    assert base64.b64decode(body) == data


def test_a_picture_of_exactly_the_limit_is_taken(here) -> None:
    (here / "large.png").write_bytes(PNG.ljust(MAX_IMAGE_BYTES, b"\0"))
    (part,) = to_user_message(None, [LocalImageInput("large.png")], cwd=str(here)).parts
    assert isinstance(part, ImagePart)


# ---- what is refused


@pytest.mark.parametrize("text", [None, ""])
@each_row("items", [None, [], [TextInput("")], [TextInput(""), TextInput("")]])
def test_a_message_with_nothing_in_it_is_refused(text, items) -> None:
    assert refused(text, items) == "a message needs text or items, and both were empty"


@each_row("text", ["\ud800", "a\udfffb", "\ude00\ud83d"])
def test_lone_surrogates_are_refused_with_the_field(text) -> None:
    """D9"""
    assert refused(text, None).startswith("text has a lone surrogate")
    assert refused("a", [TextInput("b"), TextInput(text)]).startswith("items[1].text has a lone surrogate")
    assert refused(None, [ImageInput("https://" + text)]).startswith("items[0].image_url has a lone surrogate")
    assert refused(None, [LocalImageInput(text)]).startswith("items[0].path has a lone surrogate")
    with pytest.raises(InvalidParamsError, match=r"^sender has a lone surrogate"):
        to_user_message("a", None, cwd="/", sender=text)


def test_one_byte_more_than_16_megabytes_is_refused() -> None:
    assert refused(longest() + "x", None) == "text is 16,777,217 bytes long; the limit is 16,777,216"
    assert refused(None, [TextInput(longest() + "x")]).startswith("items[0].text is 16,777,217 bytes long")


def test_a_message_of_many_large_parts_is_refused() -> None:
    """G1: a bound on the whole, whatever it is made of."""
    fitting = [TextInput(longest())] * (MAX_MESSAGE_CHARS // MAX_TEXT_BYTES)
    assert len(to_user_message(None, fitting, cwd="/").parts) == 4
    assert refused("x", fitting).startswith("items[3] is one too many")
    assert refused(None, [*fitting, TextInput("x")]).startswith("items[4] is one too many")


def test_a_short_request_cannot_name_pictures_without_end(here) -> None:
    """G1: at most a message's worth of them is read."""
    (here / "large.png").write_bytes(PNG.ljust(MAX_IMAGE_BYTES, b"\0"))
    refusal = refused(None, [LocalImageInput("large.png")] * 1_000, cwd=here)
    assert refusal.startswith("items[2] is one too many")


@each_row(
    "address",
    [
        "",
        "x.png",
        "/x.png",
        "http://x/y.png",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,<b>",
        "data:",
    ],
)
def test_an_address_that_is_neither_data_nor_https_is_refused(address) -> None:
    refusal = refused("look", [TextInput("a"), ImageInput(address)])
    assert refusal == "items[1].image_url must be a data:image/ or https: address"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("notes.txt", "'notes.txt' is not a PNG, JPEG, GIF or WebP picture"),
        ("sound.wav", "is not a PNG, JPEG, GIF or WebP picture"),
        ("empty.png", "is not a PNG, JPEG, GIF or WebP picture"),
        ("short.gif", "is not a PNG, JPEG, GIF or WebP picture"),
        ("huge.png", "is larger than 20,971,520 bytes"),
        ("folder", "is not a file"),
        ("", "is not a file"),
        ("pipe.png", "is not a file"),
        ("/dev/zero", "is not a file"),
        ("missing.png", "cannot be read: No such file"),
        ("notes.txt/a.png", "cannot be read: Not a directory"),
        ("loop.png", "cannot be read: Too many levels"),
        ("x" * 300, "cannot be read: File name too long"),
        ("a\0.png", "is not a path"),
    ],
)
def test_what_is_no_picture_is_refused_and_nothing_stays_open(here, path, expected) -> None:
    """A directory, a pipe nobody writes to, a device without end, a file that is too large, a path that is none."""
    before = (open_files(), sorted(os.listdir(here)))
    message = refused("look", [LocalImageInput(path)], cwd=here)
    assert message.startswith("items[0].path: ")
    assert expected in message
    assert (open_files(), sorted(os.listdir(here))) == before


def test_a_path_of_a_megabyte_is_refused_in_few_words() -> None:
    assert len(refused(None, [LocalImageInput("x" * 1_000_000)])) < 300


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EMFILE])
def test_a_file_that_cannot_be_read_is_refused(here, monkeypatch, number) -> None:
    """Said by the system, not by a mode: no mode binds root."""

    def refuse(*args: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refuse)
    refusal = refused(None, [LocalImageInput("a.png")], cwd=here)
    assert refusal == f"items[0].path: 'a.png' cannot be read: {os.strerror(number)}"


def test_one_wrong_item_refuses_the_whole_message(here) -> None:
    refusal = refused("fine", [LocalImageInput("a.png"), TextInput("fine"), LocalImageInput("missing.png")], cwd=here)
    assert refusal.startswith("items[2].path")
