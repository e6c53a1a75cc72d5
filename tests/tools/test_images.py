"""Reading a picture's kind and size."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from tertulia.tools.images import ImageInfo, read_image_info
from tests.tables import each_row

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 640, 480)
GIF = b"GIF89a" + struct.pack("<HH", 12, 34)
JPEG = (
    b"\xff\xd8"
     b"\xff\xe0" + struct.pack(">H", 4) + b"ab"
    + b"\xff\xc4" + struct.pack(">H", 3) + b"x"
    + b"\xff\xc2" + struct.pack(">HBHH", 11, 8, 200, 300)
)  # fmt: skip
_RIFF = b"RIFF\0\0\0\0WEBP"
VP8 = _RIFF + b"VP8 " + b"\0" * 10 + struct.pack("<HH", 50, 60)
VP8L = _RIFF + b"VP8L" + b"\0" * 4 + b"\x2f" + struct.pack("<I", (70 - 1) | (80 - 1) << 14)
VP8X = _RIFF + b"VP8X" + b"\0" * 8 + (4_999).to_bytes(3, "little") + (99).to_bytes(3, "little")


@each_row(
    ("data", "picture"),
    [
        (PNG, ImageInfo("image/png", 640, 480)),
        (GIF, ImageInfo("image/gif", 12, 34)),
        (JPEG, ImageInfo("image/jpeg", 300, 200)),
        (VP8, ImageInfo("image/webp", 50, 60)),
        (VP8L, ImageInfo("image/webp", 70, 80)),
        (VP8X, ImageInfo("image/webp", 5_000, 100)),
    ],
)
def test_kind_and_size_are_in_the_first_bytes(data: bytes, picture: ImageInfo) -> None:
    assert read_image_info(data) == picture
    assert read_image_info(data + b"whatever follows") == picture


@each_row("data", [b"", b"text", b"RIFF0000WAVE", PNG[:20], JPEG[:12], GIF[:7], PNG[:16] + b"\0" * 8])
def test_what_is_none_or_cut_off_is_not_taken_for_one(data: bytes) -> None:
    assert read_image_info(data) is None


@given(st.sampled_from([PNG, GIF, JPEG, VP8, VP8L, VP8X]), st.data())
def test_damage_breaks_nothing(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data) - 1))
    damaged = data[:at] + draw.draw(st.binary(max_size=3)) + data[at + 1 :]
    found = read_image_info(damaged)
    assert found is None or (found.width > 0 and found.height > 0)
