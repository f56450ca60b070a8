"""PyTorch's zip files (`.pt`, `.pth`) read without running anything in them.

A file is a zip archive: data.pkl holds a pickle of the structure, data/<key> the bytes of each storage. The pickle's opcodes are interpreted here,
by a reader that builds containers, numbers, texts and tensors and knows nothing else: every global it meets is looked up in a table of meanings, never imported.
"""

from __future__ import annotations

import io
import sys
import zipfile
import zlib
from typing import Any

import numpy as np

from weft.interop.pickles import Global, PickleReader
from weft.interop.structure import tensor_over
from weft.nn.parameter import Parameter
from weft.support.errors import DTypeError, ParseError
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType

_STORAGES: dict[str, DType] = {
    "FloatStorage": dt.float32, "DoubleStorage": dt.float64, "HalfStorage": dt.float16, "BFloat16Storage": dt.bfloat16, "LongStorage": dt.int64,
    "IntStorage": dt.int32, "ShortStorage": dt.int16, "CharStorage": dt.int8, "ByteStorage": dt.uint8, "BoolStorage": dt.bool_,
    "ComplexFloatStorage": dt.complex64, "ComplexDoubleStorage": dt.complex128, "UntypedStorage": dt.uint8,
}

_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, UnicodeDecodeError)  # what zipfile raises for bytes that changed


def decode(content: bytearray) -> Any:
    """The object in the bytes of a zip file. Raises ParseError, which names anything that only code could build."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _decode(archive)
    except ParseError:
        raise
    except _DAMAGED as problem:
        raise ParseError(f"load: not a whole zip file: {problem or type(problem).__name__}") from None
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RuntimeError, MemoryError) as problem:
        raise ParseError(f"load: the pickle in the file does not make sense: {problem!r}") from None


def _decode(archive: zipfile.ZipFile) -> Any:
    names = [n for n in archive.namelist() if n.endswith("data.pkl") and n.count("/") <= 1]
    if len(names) != 1:
        raise ParseError("load: the zip file holds no data.pkl; it is not one that torch.save wrote (TorchScript archives are not read)")
    prefix = names[0][: -len("data.pkl")]
    if any(n.startswith(prefix + "code/") for n in archive.namelist()):
        raise ParseError("load: this is a TorchScript archive, which is a program; save a state dict")
    _check_order(archive, prefix)
    return TorchReader(archive, prefix).read(archive.read(names[0]))


def _check_order(archive: zipfile.ZipFile, prefix: str) -> None:
    if prefix + "byteorder" in archive.namelist():
        order = archive.read(prefix + "byteorder").decode()
        if order != sys.byteorder:
            raise ParseError(f"load: the file's numbers are {order}-endian, this machine's {sys.byteorder}-endian; save it again on such a machine")


class TorchReader(PickleReader):
    """The meanings of PyTorch's globals."""

    def __init__(self, archive: zipfile.ZipFile, prefix: str) -> None:
        super().__init__()
        self.archive, self.prefix = archive, prefix
        self._bases: dict[str, Tensor] = {}
        self.calls.update({
            "torch._utils._rebuild_tensor_v2": self._tensor, "torch._utils._rebuild_tensor": self._tensor, "torch._utils._rebuild_parameter": self._parameter,
            "torch._utils._rebuild_parameter_with_state": self._parameter, "torch.Size": _size, "torch.device": _device,
        })

    def constant(self, name: str) -> Any:
        """dtypes stand for themselves."""
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
            raise ParseError(f"load: unknown reference {identity!r} in the file")
        dtype = _STORAGES.get(kind.name.rsplit(".", 1)[-1])
        if dtype is None:
            raise ParseError(f"load: the file holds a {kind.name}; weft has no such dtype")
        return self._base(str(key)), dtype

    def _base(self, key: str) -> Tensor:
        found = self._bases.get(key)
        if found is None:
            name = f"{self.prefix}data/{key}"
            if name not in self.archive.namelist():
                raise ParseError(f"load: the file lacks the bytes of storage {key}")
            found = self._bases[key] = Tensor(np.frombuffer(bytearray(self.archive.read(name)), np.uint8))
        return found

    def _tensor(self, storage: Any, offset: int, size: Any, stride: Any, requires_grad: bool = False, hooks: Any = None, *rest: Any) -> Tensor:
        base, dtype = storage
        made = tensor_over(base, dtype, size, stride, offset)
        return made.requires_grad_() if requires_grad else made

    def _parameter(self, data: Tensor, requires_grad: bool = True, *rest: Any) -> Parameter:
        return Parameter(data, requires_grad=bool(requires_grad))


def _size(dims: Any) -> Any:
    from weft.tensor.size import Size  # one class for one global

    return Size(dims)


def _device(*args: Any) -> str:
    """Devices become their text: the tensors are on the cpu in any case."""
    return ":".join(str(a) for a in args)
