"""PyTorch's zip files (`.pt`, `.pth`) read without running anything in them.

A file is a zip archive: data.pkl holds a pickle of the structure, data/<key> the bytes of each storage. The pickle's
opcodes are interpreted here, by a reader that builds containers, numbers, texts and tensors and knows nothing else:
every global it meets is looked up in a table of meanings, never imported.
"""

from __future__ import annotations

import io
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from weft.interop.damage import as_parse_error, excerpt, whole
from weft.interop.pickles import Global, PickleReader
from weft.interop.structure import MOST_DIMS, tensor_over
from weft.nn.parameter import Parameter
from weft.support.errors import DTypeError, ParseError, Unsupported
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor, tensor_around
from weft.types import dtype as dt
from weft.types.dtype import DType

STORAGES: dict[str, DType] = {
    "FloatStorage": dt.float32, "DoubleStorage": dt.float64, "HalfStorage": dt.float16, "BFloat16Storage": dt.bfloat16,
    "LongStorage": dt.int64, "IntStorage": dt.int32, "ShortStorage": dt.int16, "CharStorage": dt.int8,
    "ByteStorage": dt.uint8, "BoolStorage": dt.bool_, "ComplexFloatStorage": dt.complex64,
    "ComplexDoubleStorage": dt.complex128, "UntypedStorage": dt.uint8,
}

# what zipfile raises for bytes that changed, beside what any reader does
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, struct.error, OSError)
_UNFOLDED, _AT_LEAST = 16, 1 << 20  # how many times its size a zip file may unfold to, and how many bytes any may


def decode(content: bytearray) -> Any:
    """The object in the bytes of a zip file. Raises ParseError, which names anything that only code could build."""
    with opened(content) as archive:
        if archive.has_programs:
            raise ParseError("load: this is a TorchScript archive, which is a program: weft.jit.load reads it")
        return TorchReader(archive).read(archive.read("data.pkl"))


def is_program(content: bytearray) -> bool:
    """Whether the bytes are those of a TorchScript archive. Raises ParseError for a damaged zip file."""
    if content[:4] != b"PK\x03\x04":
        return False
    with opened(content) as archive:
        return archive.has_programs


@contextmanager
def opened(content: bytearray) -> Iterator[Archive]:
    """The archive in the bytes of a zip file. Raises ParseError for damaged ones, also while it is read."""
    with as_parse_error("load: not a file that torch.save wrote"):
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as file:
                yield Archive(file, max(_UNFOLDED * len(content), _AT_LEAST))
        except _DAMAGED as problem:
            raise ParseError(f"load: not a whole zip file: {excerpt(problem) or type(problem).__name__}") from None


class Archive:
    """The files beside data.pkl in a zip file, by name. `room`: how many bytes may be unfolded yet."""

    def __init__(self, file: zipfile.ZipFile, room: int) -> None:
        self._file, self.room = file, room
        self.names = frozenset(file.namelist())
        pickles = [n for n in file.namelist() if n.endswith("data.pkl") and n.count("/") <= 1]
        if len(pickles) != 1:
            raise ParseError("load: the zip file holds no data.pkl; neither torch.save nor torch.jit.save wrote it")
        self.prefix = pickles[0][: -len("data.pkl")]
        self._check_order()

    @property
    def has_programs(self) -> bool:
        """Whether the file is one of torch.jit.save's, which holds code beside the tensors."""
        return any(n.startswith(self.prefix + "code/") for n in self.names)

    def below(self, folder: str) -> list[str]:
        """The names of the files in a folder (`extra/`) and its folders, without the folder's."""
        start = self.prefix + folder
        return sorted(n[len(start) :] for n in self.names if n.startswith(start) and not n.endswith("/"))

    def holds(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return self.prefix + name in self.names

    def read(self, name: str) -> bytes:
        """The bytes of a file. Raises ParseError where the archive unfolds to more than its size lets expect,
        and what zipfile raises."""
        entry = self._file.getinfo(self.prefix + name)
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ParseError(f"load: {excerpt(name)} is packed in a way that torch.save does not use")
        self.room -= entry.file_size
        if self.room < 0:
            raise ParseError(
                f"load: the zip file unfolds to more than {_UNFOLDED} times its size; torch.save does not pack its "
                "files, so unpack and pack it with `zip -0`"
            )
        return self._file.read(entry)

    def _check_order(self) -> None:
        if self.holds("byteorder"):
            order = self.read("byteorder").decode()
            if order != sys.byteorder:
                raise ParseError(
                    f"load: the file's numbers are {order[:10]}-endian, this machine's {sys.byteorder}-endian; "
                    "save it again on such a machine"
                )


T = TypeVar("T", bound=Tensor)


class TorchReader(PickleReader):
    """The meanings of PyTorch's globals. `folder` has the bytes of the storages."""

    def __init__(self, archive: Archive, folder: str = "data") -> None:
        super().__init__()
        self.archive, self.folder = archive, folder
        self._bases: dict[str, Tensor] = {}
        self.calls.update({
            "torch._utils._rebuild_tensor_v2": self._tensor, "torch._utils._rebuild_tensor": self._tensor,
            "torch._utils._rebuild_parameter": self._parameter,
            "torch._utils._rebuild_parameter_with_state": self._parameter_with_state, "torch.Size": _size,
            "torch.device": _device, "torch._tensor._rebuild_from_type_v2": self._tensor_with_state,
        })

    def constant(self, name: str) -> Any:
        """dtypes stand for themselves, and the class of tensors."""
        if name in ("torch.Tensor", "torch._tensor.Tensor"):
            return Tensor
        if name.startswith("torch."):
            try:
                return dt.by_name(name[6:])
            except DTypeError:
                return None
        return None

    def persistent(self, identity: Any) -> Any:
        """("storage", class, key, device, count): the storage of that key, with the dtype of its class."""
        word, kind, key, _, _ = identity
        if word != "storage" or not isinstance(kind, Global):
            raise ParseError("load: the file refers to something that is no storage")
        dtype = STORAGES.get(kind.name.rsplit(".", 1)[-1])
        if dtype is None:
            raise ParseError(f"load: the file holds a {excerpt(kind.name)}; weft has no such dtype")
        return self._base(_text(key)), dtype

    def _base(self, key: str) -> Tensor:
        base = self._bases.get(key)
        if base is None:
            name = f"{self.folder}/{key}"
            if not self.archive.holds(name):
                raise ParseError(f"load: the file lacks the bytes of storage {excerpt(key)}")
            base = self._bases[key] = tensor_around(np.frombuffer(bytearray(self.archive.read(name)), np.uint8))
        return base

    def _tensor(
        self, storage: Any, offset: int, size: Any, stride: Any,
        requires_grad: bool = False, hooks: Any = None, *rest: Any,
    ) -> Tensor:
        base, dtype = storage
        tensor = tensor_over(base, dtype, size, stride, offset)
        return tensor.requires_grad_() if requires_grad else tensor

    def _parameter(self, data: Tensor, requires_grad: bool = True, *rest: Any) -> Parameter:
        return Parameter(data, requires_grad=bool(requires_grad))

    def _parameter_with_state(self, data: Tensor, requires_grad: bool, hooks: Any, state: Any) -> Parameter:
        return _with_attributes(self._parameter(data, requires_grad), state)

    def _tensor_with_state(self, function: Any, kind: Any, arguments: tuple[Any, ...], state: Any) -> Tensor:
        """A tensor with attributes. One of a subclass is refused: its class is not in the file."""
        if kind is not Tensor:
            raise ParseError(f"load: the file holds a {excerpt(getattr(kind, 'name', str(kind)))}, no plain tensor")
        tensor: Tensor = function(*arguments) if callable(function) else self._call(function, arguments)
        return _with_attributes(tensor, state)


def _with_attributes(tensor: T, state: Any) -> T:
    """The attributes of a tensor's that a program put there: none that tensors have."""
    state = state[0] if isinstance(state, tuple) and state else state  # (the second part is for slots)
    for name, value in state.items() if isinstance(state, dict) else ():
        if not isinstance(name, str) or hasattr(type(tensor), name):
            raise ParseError(f"load: the file gives a tensor another {excerpt(str(name))}")
        setattr(tensor, name, value)
    return tensor


def _size(dims: Any) -> Size:
    if len(dims) > MOST_DIMS:
        raise ParseError(f"load: a size of {len(dims)} dims")
    return Size(map(whole, dims))


def _device(*args: Any) -> str:
    """Devices become their text: the tensors are on the cpu in any case."""
    return ":".join(map(_text, args))


def _text(value: Any) -> str:
    if not isinstance(value, (str, int)):
        raise ParseError(f"load: a {type(value).__name__} stands where a name is expected")
    return str(value)


class PyTorchFileReader:
    """PyTorch's reader of the records of a file, as a type that programs name: weft.load reads whole files."""

    def __init__(self, *args: Any) -> None:
        raise Unsupported(f"{type(self).__name__}: records of a file are not read alone; use weft.load and weft.save")


class PyTorchFileWriter(PyTorchFileReader):
    """PyTorch's writer, idem."""
