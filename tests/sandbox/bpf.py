"""The kernel's side of a filter, for tests: runs a BPF program over one system call."""

from __future__ import annotations

import struct
from collections.abc import Sequence

_MASK = 0xFFFFFFFF


def verdict(program: bytes, arch: int, number: int, arguments: Sequence[int] = ()) -> int:
    """What the program answers. Fails on whatever the kernel would not have loaded."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number & _MASK, arch, 0, *(value & 0xFFFFFFFFFFFFFFFF for value in padded))
    code = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    assert len(code) <= 4096
    at = accumulator = 0
    while True:
        operation, yes, no, value = code[at]
        at += 1
        match operation:
            case 0x20:
                assert value % 4 == 0
                (accumulator,) = struct.unpack_from("=I", data, value)
            case 0x54:
                accumulator &= value
            case 0x15:
                at += yes if accumulator == value else no
            case 0x25:
                at += yes if accumulator > value else no
            case 0x35:
                at += yes if accumulator >= value else no
            case 0x05:
                at += value
            case 0x45:
                at += yes if accumulator & value else no
            case 0x06:
                return value
            case _:
                raise AssertionError(f"unknown operation {operation:#x}")
