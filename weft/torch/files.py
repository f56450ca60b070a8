"""torch.save and torch.load: PyTorch's files."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from _codecs import encode as encode_text
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.interop import files, streams
from weft.interop.pickles import Global
from weft.interop.structure import map_tensors
from weft.interop.torch_files import Archive, TorchReader
from weft.interop.torch_writing import encode
from weft.serialization import get_safe_globals
from weft.support.errors import ParseError, Unsupported
from weft.support.naming import own_name
from weft.tensor.device import Device

__all__ = ["load", "save"]
_STORAGE = "Storage"


def save(
    obj: Any, f: streams.Target, pickle_module: Any = None, pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write an object to a path or a binary file, as torch.save does: PyTorch reads it. Raises what pickle raises."""
    if not _use_new_zipfile_serialization:
        raise Unsupported("torch.save: files from before PyTorch 1.6 are not written")
    prefix = Path(f).stem if isinstance(f, (str, os.PathLike)) else "archive"
    streams.write(f, encode(obj, prefix or "archive"))


def load(
    f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None,
    mmap: bool | None = None, **pickle_load_args: Any,
) -> Any:
    """What torch.save or weft.save wrote. Tensors come to the CPU, whatever device the file names, or to "meta".

    weights_only: build tensors and plain data only, and objects of the classes that torch.serialization lists as safe
    (the default). With False objects of any class are built, by the code that the file names, as pickle does: only for
    files that you trust. Raises ParseError.
    """
    where = _location(map_location)
    listed = None if weights_only is False else get_safe_globals()
    if listed == []:
        return files.load(f, where)
    content = streams.read(f)
    if content[:2] != b"PK":
        return files.load(io.BytesIO(content), where)
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        archive = Archive(file, 1 << 62)
        loaded = _Unpickler(archive, listed).load()
    return loaded if where != "meta" else map_tensors(loaded, lambda tensor: tensor.to(where))


def _location(map_location: Any) -> str | None:
    """The device to which tensors go: None for the CPU. (There is no other, so that what a file or a function says of
    others is not asked.)"""
    if map_location is None or isinstance(map_location, dict) or callable(map_location):
        return None
    return "meta" if Device(map_location).type == "meta" else None


_PLAIN = {
    "collections.OrderedDict": OrderedDict, "collections.Counter": Counter, "collections.defaultdict": defaultdict,
    "builtins.set": set, "builtins.complex": complex, "builtins.bytearray": bytearray, "_codecs.encode": encode_text,
}

_RENAMED = {"__builtin__": "builtins", "copy_reg": "copyreg"}  # as pickles of protocol 2 have them


class _Unpickler(pickle.Unpickler):
    """Builds objects of any class, or of those that are listed; tensors as weft's."""

    def __init__(self, archive: Archive, listed: Sequence[Any] | None) -> None:
        super().__init__(io.BytesIO(archive.read("data.pkl")), encoding="utf-8")
        self._reader = TorchReader(archive)
        self._allowed: dict[str, Any] | None = None
        if listed is not None:
            self._allowed = dict(_PLAIN)
            for entry in listed:
                value, path = entry if isinstance(entry, tuple) else (entry, f"{entry.__module__}.{entry.__qualname__}")
                self._allowed[own_name(path)] = value

    def find_class(self, module: str, name: str) -> Any:
        """What a name in the file means."""
        path = f"{_RENAMED.get(module, module)}.{name}"
        if path.startswith("torch.") and path in self._reader.calls:
            return self._reader.calls[path]
        constant = self._reader.constant(path)
        if constant is not None:
            return constant
        if module.partition(".")[0] == "torch" and name.endswith(_STORAGE):
            return Global(path)
        if self._allowed is None:
            return super().find_class(module, name)
        if own_name(path) not in self._allowed:
            raise ParseError(
                f"load: the file holds an object that only {path!r} can build; list it with "
                "torch.serialization.add_safe_globals, or trust the file with weights_only=False"
            )
        return self._allowed[own_name(path)]

    def persistent_load(self, pid: Any) -> Any:
        """A storage."""
        return self._reader.persistent(pid)
