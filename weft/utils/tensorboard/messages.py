"""Bytes of protocol buffers, and records of them with checksums: what a file of events consists of.

A message is its fields in the order of their numbers, as bytes. A field that has its type's default (0, "") is left
out, as proto3 says, unless it is one of a choice. Sources: protobuf.dev/programming-guides/encoding, and TensorFlow's
record_writer.cc for the records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # kinds of fields
_POLYNOMIAL = 0x82F63B78  # of CRC-32C, reflected
_MASK = 0xA282EAD8


def varint(value: int) -> bytes:
    """An integer in groups of seven bits, the lowest first; a negative one as its two's complement of 64 bits."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _tag(number: int, kind: int) -> bytes:
    return varint(number << 3 | kind)


def integer(number: int, value: int, always: bool = False) -> bytes:
    """A field of an integer, a bool or an enumeration."""
    return _tag(number, _VARINT) + varint(value) if value or always else b""


def double(number: int, value: float, always: bool = False) -> bytes:
    """A field of a double."""
    return _tag(number, _FIXED64) + struct.pack("<d", value) if value or always else b""


def single(number: int, value: float, always: bool = False) -> bytes:
    """A field of a float."""
    return _tag(number, _FIXED32) + _float32(value) if value or always else b""


def message(number: int, content: bytes) -> bytes:
    """A field of a message, which is there even if the message is empty."""
    return _tag(number, _BYTES) + varint(len(content)) + content


def text(number: int, value: str | bytes, always: bool = False) -> bytes:
    """A field of a string or of bytes."""
    content = value.encode() if isinstance(value, str) else value
    return message(number, content) if content or always else b""


def doubles(number: int, values: Iterable[float]) -> bytes:
    """A repeated field of doubles, packed."""
    return text(number, b"".join(struct.pack("<d", value) for value in values))


def singles(number: int, values: Iterable[float]) -> bytes:
    """A repeated field of floats, packed."""
    return text(number, b"".join(map(_float32, values)))


def integers(number: int, values: Iterable[int]) -> bytes:
    """A repeated field of integers, packed."""
    return text(number, b"".join(map(varint, values)))


def _float32(value: float) -> bytes:
    """A number as a float: one that is too large becomes infinite."""
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))


# ---------------------------------------------------------------- records


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = tuple(_entry(byte) for byte in range(256))


def crc32c(data: bytes) -> int:
    """The checksum CRC-32C (Castagnoli) of bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def _masked(data: bytes) -> bytes:
    """The checksum as a record holds it: turned, so that a checksum of data with checksums says something."""
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    """A record of a file: its length, the data, and the checksums of both."""
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)
