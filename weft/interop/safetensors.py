"""safetensors: named tensors in one flat file, with the function names of that library: save_file,
load_file, save, load.

The format: 8 bytes with the length of a JSON header, the header, then the bytes of all tensors.
The header gives each tensor's dtype, shape and place, and under "__metadata__" texts by name.
Source: https://github.com/huggingface/safetensors
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

import weft.interop.streams as streams
from weft.interop.damage import as_parse_error, excerpt, parse_json, whole
from weft.support.errors import ArgumentError, DTypeError, ParseError
from weft.tensor.tensor import Tensor, tensor_around
from weft.types import dtype as dt
from weft.types.dtype import DType

ndarray = np.ndarray[Any, Any]
METADATA = "__metadata__"
_LONGEST_HEADER = 100_000_000
_ALIGNMENT = 8

_CODES: dict[str, DType] = {
    "BOOL": dt.bool_, "U8": dt.uint8, "I8": dt.int8, "I16": dt.int16, "I32": dt.int32, "I64": dt.int64,
    "F16": dt.float16, "BF16": dt.bfloat16, "F32": dt.float32, "F64": dt.float64, "C64": dt.complex64,
}
_CODE_OF = {d: code for code, d in _CODES.items()}


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file with these tensors. Raises ArgumentError, DTypeError (the format has no complex128)."""
    arrays: dict[str, ndarray] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise ArgumentError(f"safetensors: {name!r} must be a Tensor, got {type(tensor).__name__}")
        arrays[name] = tensor.detach().numpy()
    return encode(arrays, metadata)


def save_file(
    tensors: Mapping[str, Tensor], filename: streams.Target, metadata: Mapping[str, str] | None = None
) -> None:
    """Write a file with these tensors; an old file is replaced in one step."""
    streams.write(filename, save(tensors, metadata))


def load(data: bytes | bytearray) -> dict[str, Tensor]:
    """The tensors in the bytes of a file, each with memory of its own file. Raises ParseError."""
    return {name: tensor_around(array) for name, array in decode(bytearray(data))[0].items()}


def load_file(filename: Any, device: Any = "cpu") -> dict[str, Tensor]:
    """The tensors of a file by name. Raises ParseError, OSError."""
    tensors = {name: tensor_around(array) for name, array in decode(streams.read(filename))[0].items()}
    return tensors if str(device) == "cpu" else {name: t.to(device) for name, t in tensors.items()}


# ---- the format, over arrays


def encode(arrays: Mapping[str, ndarray], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file with these arrays (written row-major, little-endian, the widest first)."""
    header: dict[str, Any] = {}
    if metadata:
        header[METADATA] = {str(k): str(v) for k, v in metadata.items()}
    at = 0
    parts: list[bytes] = []
    for name in sorted(arrays, key=lambda n: (-arrays[n].dtype.itemsize, n)):
        array = arrays[name]
        content = _little(array).tobytes()
        header[name] = {
            "dtype": _code(name, array), "shape": list(array.shape), "data_offsets": [at, at + len(content)]
        }
        at += len(content)
        parts.append(content)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def decode(content: bytearray) -> tuple[dict[str, ndarray], dict[str, str]]:
    """The arrays (over the file's own bytes where they are aligned) and the metadata. Raises ParseError."""
    header, start = _header(content)
    metadata = header.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise ParseError(f"safetensors: {METADATA} must hold texts by name")
    places = {name: _place(name, facts, len(content) - start) for name, facts in header.items()}
    _check_apart(places)
    with as_parse_error("safetensors: a tensor cannot be made"):  # of more dims than NumPy takes
        return {name: _array(content, start, *place) for name, place in places.items()}, metadata


def _header(content: bytearray) -> tuple[dict[str, Any], int]:
    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 or size > min(_LONGEST_HEADER, len(content) - 8):
        raise ParseError("not a safetensors file: its header is longer than the file")
    header = parse_json(bytes(content[8 : 8 + size]), "not a safetensors file: its header is not JSON")
    if not isinstance(header, dict):
        raise ParseError("not a safetensors file: its header is not an object")
    return header, 8 + size


Place = tuple[DType, tuple[int, ...], int, int]


def _place(name: str, facts: Any, room: int) -> Place:
    """(dtype, shape, first byte, byte behind the last) of a tensor, all of which fits."""
    with as_parse_error(f"safetensors: tensor {excerpt(repr(name))} is not described properly"):
        dtype, shape = _CODES[facts["dtype"]], tuple(map(whole, facts["shape"]))
        begin, end = map(whole, facts["data_offsets"])
        if end - begin != math.prod(shape) * dtype.itemsize or end > room:
            raise ValueError(f"{list(shape)} {dtype.name} does not fit into bytes {begin} to {end} of {room}")
    return dtype, shape, begin, end


def _check_apart(places: Mapping[str, Place]) -> None:
    """No two tensors may lie in the same bytes: a small file would unfold to many large ones."""
    taken = sorted((begin, end, name) for name, (_, _, begin, end) in places.items() if begin < end)
    for (_, end, first), (begin, _, second) in itertools.pairwise(taken):
        if begin < end:
            raise ParseError(
                f"safetensors: tensors {excerpt(repr(first))} and {excerpt(repr(second))} lie in the same bytes"
            )


def _array(content: bytearray, start: int, dtype: DType, shape: tuple[int, ...], begin: int, end: int) -> ndarray:
    count = (end - begin) // dtype.itemsize
    array = np.frombuffer(content, dtype.numpy, count, start + begin) if count else np.empty(0, dtype.numpy)
    if not array.flags.aligned:
        array = array.copy()
    return _little(array).reshape(shape)


def _code(name: str, array: ndarray) -> str:
    dtype = dt.from_numpy(array.dtype)
    if dtype not in _CODE_OF:
        raise DTypeError(
            f"safetensors has no {dtype.name}; tensor {name!r} could be stored as its real view, weft.view_as_real(x)"
        )
    return _CODE_OF[dtype]


def _little(array: ndarray) -> ndarray:
    return array if sys.byteorder == "little" else array.byteswap()
