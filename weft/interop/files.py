"""weft.save and weft.load: tensors in nested containers of plain Python data, in one file that holds no code.

A file is a safetensors file: every storage is an entry (any safetensors reader sees the tensors by their path), and the
structure around them is JSON under the metadata key "weft". Tensors that share memory share it again after loading.
Under the key "crc32" stands a checksum of the whole file (with zeros in its own place): a file of which a bit has
changed is refused. Files that were written before there was one have none.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

import weft.interop.safetensors as safetensors
import weft.interop.streams as streams
import weft.interop.structure as structure
import weft.interop.torch_files as torch_files
from weft.interop.damage import excerpt, parse_json
from weft.support.errors import ArgumentError, ParseError, Unsupported
from weft.tensor.device import Device, usable
from weft.tensor.tensor import tensor_around

KEY, CHECKSUM = "weft", "crc32"
_BLANK = "0" * 8
_MARK = f'"{CHECKSUM}":"'.encode()
_ZIP = b"PK\x03\x04"


def save(obj: Any, f: streams.Target) -> None:
    """Write an object to a path (replaced in one step) or a binary file.

    It may hold tensors, parameters, arrays, numbers, texts, bytes, None, dtypes, devices and sizes in dicts,
    lists, tuples and sets.
    Raises ArgumentError that names the place of anything else: save `model.state_dict()`, not the model.
    """
    tree, arrays = structure.take_apart(obj)
    text = json.dumps(tree, allow_nan=False, separators=(",", ":"))
    content = safetensors.encode(arrays, {CHECKSUM: _BLANK, KEY: text})
    at = content.index(_MARK) + len(_MARK)
    streams.write(f, b"".join([content[:at], _checksum(content, at), content[at + len(_BLANK) :]]))


def load(f: Any, map_location: Any = None, *, weights_only: bool = True, mmap: bool | None = None) -> Any:
    """What `save` wrote; also plain safetensors files (a dict of tensors) and PyTorch's zip files (`.pt`, `.pth`).

    No code in a file is ever run, so weights_only=False is refused. map_location="meta" leaves the values out.
    Raises ParseError.
    """
    if not weights_only:
        raise Unsupported(
            "load: weights_only=False would run code out of the file; weft never does. Save a state dict instead."
        )
    return load_bytes(streams.read(f), map_location)


def load_bytes(content: bytearray, map_location: Any = None) -> Any:
    """What the bytes of a file hold; they are the memory of its tensors from then on. Raises as `load` does."""
    if map_location is not None and not isinstance(map_location, str):
        raise ArgumentError(f"load: map_location must name a device ('cpu', 'meta'), got {type(map_location).__name__}")
    held = torch_files.decode(content) if content[:4] == _ZIP else _decode(content)
    return held if map_location is None else structure.map_tensors(held, _mover(usable(map_location)))


def _decode(content: bytearray) -> Any:
    if content[:1] == b"\x80" and content[8:9] != b"{":
        raise ParseError(
            "load: this is a pickle (PyTorch's files from before 1.6, or pickle.dump); save it with torch.save of "
            "today and load that"
        )
    arrays, metadata = safetensors.decode(content)
    if CHECKSUM not in metadata and KEY not in metadata:
        return {name: tensor_around(array) for name, array in arrays.items()}
    tree = parse_json(metadata.get(KEY, "{}"), "load: the file's structure is not JSON")
    restored = structure.put_together(tree, arrays) if KEY in metadata else None
    _check(content, metadata)  # behind the structure, whose faults say more
    return restored


def _check(content: bytearray, metadata: dict[str, str]) -> None:
    """Raises ParseError for a file that is not as `save` wrote it."""
    if not metadata.keys() <= {KEY, CHECKSUM} or KEY not in metadata:
        raise ParseError(f"load: the file is damaged: its header has {', '.join(map(excerpt, metadata))}")
    at = content.find(_MARK) + len(_MARK)
    if CHECKSUM in metadata and content[at : at + len(_BLANK)] != _checksum(content, at):
        raise ParseError("load: the file is damaged: its content does not have the checksum that stands in its header")


def _checksum(content: bytes | bytearray, at: int) -> bytes:
    """That of a file whose checksum stands at `at`, which counts as zeros."""
    whole = memoryview(content)
    checksum = zlib.crc32(whole[at + len(_BLANK) :], zlib.crc32(_BLANK.encode(), zlib.crc32(whole[:at])))
    return f"{checksum:08x}".encode()


def _mover(device: Device) -> Any:
    return lambda tensor: tensor if tensor.device.type == device.type else tensor.detach().to(device)
