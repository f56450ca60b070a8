"""weft.load of files made to hurt: a ParseError for all that a file can contain, and no more work and memory than
its size lets expect."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.support.errors import ParseError


def safetensors(header: Any, data: bytes = b"\0" * 48) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def one(shape: Any, offsets: Any = (0, 48), dtype: Any = "F32") -> dict[str, Any]:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


def own(tree: Any) -> bytes:
    return safetensors({"__metadata__": {"weft": tree if isinstance(tree, str) else json.dumps(tree)}, **one([12])})


def placed(dims: Any, strides: Any, offset: Any, dtype: str = "float32") -> bytes:
    return own({"tensor": {"in": "a", "dtype": dtype, "at": [dims, strides, offset]}})


def archive(pickle: bytes, packed: int = zipfile.ZIP_STORED, **files: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", packed) as file:
        file.writestr("m/data.pkl", pickle)
        for name, content in files.items():
            file.writestr(f"m/data/{name}", content)
    return made.getvalue()


def doubled(start: bytes, twice: bytes, levels: int = 70) -> bytes:
    """A pickle of a value that holds the one before twice, and so on: small, and endless to whoever walks
    through it."""
    steps = b"".join(b"q" + bytes([i]) + b"h" + bytes([i]) + twice for i in range(levels))
    return b"\x80\x02" + start + steps


TUPLES = doubled(b")", b"\x86")
FILES: dict[str, Callable[[], bytes]] = {
    "deep JSON": lambda: safetensors(b'{"a":' + b"[" * 99_999 + b"]" * 99_999 + b"}"),
    "a number of 10,000 digits": lambda: safetensors(
        b'{"a":{"dtype":"F32","shape":[' + b"9" * 10_000 + b'],"data_offsets":[0,48]}}'
    ),
    "2**64 of nothing": lambda: safetensors(one([2**64, 0], [0, 0])),
    "2**80 of nothing": lambda: safetensors(one([2**40, 2**40, 0], [0, 0])),
    "65 dims": lambda: safetensors(one([12] + [1] * 64)),
    "an infinite size": lambda: safetensors(b'{"a":{"dtype":"F32","shape":[1e999],"data_offsets":[0,48]}}'),
    "a size that is a text": lambda: safetensors(one(["12"])),
    "a dtype that is a list": lambda: safetensors(one([12], dtype=["F32"])),
    "metadata that is a number": lambda: safetensors({"__metadata__": 3, **one([12])}),
    "metadata of lists": lambda: safetensors({"__metadata__": {"weft": [1]}}),
    "a header in Latin": lambda: safetensors(b'{"\xe9":1}'),
    "many tensors in one place": lambda: safetensors(
        {f"{i}": {"dtype": "F32", "shape": [10**6], "data_offsets": [1, 1 + 4 * 10**6]} for i in range(500)},
        bytes(4_000_001),
    ),
    "deep structure": lambda: own("[" * 500_000),
    "structure as deep as JSON may be": lambda: own('{"tuple":[' * 600 + "]}" * 600),
    "a dtype that is none": lambda: own({"dtype": "f"}),
    "a number of 99 GB": lambda: own({"number": ["V99999999999", 0]}),
    "an unhashable key": lambda: own({"dict": [[[], 1]]}),
    "an array of a number": lambda: own({"array": 3}),
    "10**400 as an offset": lambda: placed([1], [1], 10**400),
    "2**62 as a stride": lambda: placed([2], [2**62], 0),
    "65 dims over a storage": lambda: placed([1] * 65, [1] * 65, 0),
    "the middle of an element": lambda: safetensors({
        "__metadata__": {"weft": json.dumps({"tensor": {"in": "a", "dtype": "float64", "at": [[1], [1], 0]}})},
        "b": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
        "a": {"dtype": "U8", "shape": [8], "data_offsets": [1, 9]},
    }),
    "gradients of integers": lambda: own({"tensor": {"in": "a", "dtype": "int32", "at": [[1], [1], 0], "grad": True}}),
    "a pickle that unfolds": lambda: archive(b"\x80\x02" + b"N0" * 30_000_000 + b"N.", zipfile.ZIP_DEFLATED),
    "a storage that unfolds": lambda: archive(
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n"
        b"X\x01\0\0\x000X\x03\0\0\0cpuK\x01tQK\0K\x01\x85K\x01\x85\x89}tR.",
        zipfile.ZIP_DEFLATED, **{"0": bytes(100 << 20)}),
    "a key that is endless to hash": lambda: archive(b"\x80\x02}" + TUPLES[2:] + b"Ns."),
    "a set of what is endless to hash": lambda: archive(TUPLES + b"q\xff0(h\xff\x91."),
    "a call of a set of it": lambda: archive(b"\x80\x02c__builtin__\nset\n" + TUPLES[2:] + b"\x85\x85R."),
    "a name that is endless": lambda: archive(TUPLES + b"X\x01\0\0\0a\x93."),
    "a device that is endless": lambda: archive(b"\x80\x02ctorch\ndevice\n" + TUPLES[2:] + b"\x85R."),
    "a reference that is endless": lambda: archive(TUPLES + b"Q."),
    "a key as deep as the stack": lambda: archive(b"\x80\x02})" + b"\x85" * 200_000 + b"Ns."),
    "the same list, copied again and again": lambda: archive(
        b"\x80\x02c__builtin__\nset\nq\x000(" + b"K\x01" * 20_000 + b"lq\x010" + b"h\x00h\x01\x85R0" * 20_000 + b"N."
    ),
    "a mark alone": lambda: archive(b"\x80\x02(."),
    "a pickle that ends": lambda: archive(b"\x80\x02"),
    "a number of 10,000 digits in a pickle": lambda: archive(b"\x80\x02I" + b"9" * 10_000 + b"\n."),
    "a class of storage of 50,000 letters": lambda: archive(
        b"\x80\x02(X\x07\0\0\0storagectorch\nLong" + b"[" * 50_000
        + b"Storage\nX\x01\0\0\0" + b"6X\x03\0\0\0cpuK\x01tQ."
    ),
    "a global of 50,000 letters": lambda: archive(b"\x80\x02cos\nsystem" + b"m" * 50_000 + b"\n)R."),
    "a tensor with a name of 50,000 letters": lambda: safetensors({"a" * 50_000: one([12])["a"] | {"shape": [13]}}),
    "a size of 70 dims": lambda: archive(b"\x80\x02ctorch\nSize\n((" + b"K\x01" * 70 + b"ttR."),
}


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_file_is_a_parse_error(name: str) -> None:
    content = FILES[name]()
    tracemalloc.start()
    try:
        with pytest.raises(ParseError) as problem:
            weft.load(io.BytesIO(content))
        assert len(str(problem.value)) < 1000, "the message quotes the file, whatever its length"
        assert tracemalloc.get_traced_memory()[1] < 100 * len(content) + (64 << 20)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("pickle", [doubled(b"]", b"\x86") + b".", doubled(b"]", b"\x86")[:-1] + b"\x86."])
def test_what_is_there_twice_is_moved_once(pickle: bytes) -> None:
    found = weft.load(io.BytesIO(archive(pickle)), map_location="meta")
    assert isinstance(found, tuple) and found[0] is found[1]


def test_what_holds_itself_cannot_be_moved() -> None:
    cyclic = archive(b"\x80\x02]q\x00h\x00a.")
    found = weft.load(io.BytesIO(cyclic))
    assert found[0] is found
    with pytest.raises(ParseError, match="holds itself"):
        weft.load(io.BytesIO(cyclic), map_location="meta")


def test_honest_files_of_the_same_kinds_load() -> None:
    """The limits do not touch what people write: packed archives, NumPy's numbers and texts, nested tuples as keys."""
    assert (
        weft.load(io.BytesIO(archive(b"\x80\x02](" + b"K\x07" * 60_000 + b"e.", zipfile.ZIP_DEFLATED))) == [7] * 60_000
    )
    assert weft.load(io.BytesIO(archive(b"\x80\x02}K\x01K\x02\x86K\x03\x86K\x04s."))) == {((1, 2), 3): 4}
    file = io.BytesIO()
    kept = {
        "f": np.float32(1.5), "b": np.bool_(True), "i": np.uint64(2**64 - 1), "s": np.str_("text"),
        "c": np.complex64(1 + 2j),
    }
    weft.save(kept, file)
    file.seek(0)
    found = weft.load(file)
    assert found == kept and [type(found[k]) for k in kept] == [np.float32, np.bool_, np.uint64, str, np.complex64]
