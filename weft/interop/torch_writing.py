"""PyTorch's zip files (`.pt`, `.pth`) written, so that torch.load reads them: data.pkl holds a pickle of the structure,
data/<key> the bytes of each storage, which tensors that share memory share."""

from __future__ import annotations

import copyreg
import io
import pickle
import struct
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from weft.interop.torch_files import STORAGES
from weft.nn.parameter import Parameter
from weft.support.errors import ArgumentError
from weft.tensor.dense import is_dense
from weft.tensor.device import Device
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType

_STORAGE_OF = {dtype: name for name, dtype in STORAGES.items() if name != "UntypedStorage"}
_ALIGNMENT, _PADDING = 64, 0x4246  # where the bytes of a storage begin in a file, and what fills the room before
_PROTOCOL = 2


class _Named:
    """A name of PyTorch's in a pickle: `c module name`."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self) -> None:
        """(pickle asks that what is called when a file is read can be called)"""


class _StorageAt:
    """A storage as tensors refer to it: by its key."""

    def __init__(self, dtype: DType, key: str, count: int) -> None:
        self.identity = ("storage", _name("torch", _STORAGE_OF[dtype]), key, "cpu", count)


_names: dict[tuple[str, str], _Named] = {}


def _name(module: str, name: str) -> _Named:
    return _names.setdefault((module, name), _Named(module, name))


_TENSOR = _name("torch._utils", "_rebuild_tensor_v2")
_PARAMETER = _name("torch._utils", "_rebuild_parameter")
_PARAMETER_WITH_STATE = _name("torch._utils", "_rebuild_parameter_with_state")
_WITH_STATE, _TENSOR_CLASS = _name("torch._tensor", "_rebuild_from_type_v2"), _name("torch", "Tensor")


class _Pickler(pickle._Pickler):  # the one in Python: it writes names that are not there
    dispatch: ClassVar[dict[Any, Any]] = dict(pickle._Pickler.dispatch)
    write: Any
    memoize: Any

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, _PROTOCOL)
        self.storages: list[np.ndarray[Any, Any]] = []
        self._keys: dict[int, str] = {}
        self._kept: list[Any] = []  # what was written, so that ids stay taken

    def persistent_id(self, obj: Any) -> Any:
        """A storage is written beside the pickle."""
        return obj.identity if type(obj) is _StorageAt else None

    def reducer_override(self, obj: Any) -> Any:
        """How tensors and their facts are made again by PyTorch; all else as pickle has it."""
        kind = type(obj)
        if issubclass(kind, Parameter):
            parts: tuple[Any, ...] = (self._plain(obj), obj.requires_grad, OrderedDict())
            return (_PARAMETER_WITH_STATE, (*parts, vars(obj))) if vars(obj) else (_PARAMETER, parts)
        if issubclass(kind, Tensor):
            if kind is not Tensor:
                raise ArgumentError(f"save: a {kind.__name__} is no plain tensor; save what it is made of")
            function, parts = self._rebuilt(obj)
            attributes = vars(obj)
            return (_WITH_STATE, (function, _TENSOR_CLASS, parts, attributes)) if attributes else (function, parts)
        if kind is Size:
            return _name("torch", "Size"), (tuple(obj),)
        if kind is Device:
            return _name("torch", "device"), (obj.type,) if obj.index is None else (obj.type, obj.index)
        return NotImplemented

    def _plain(self, parameter: Parameter) -> Tensor:
        data: Tensor = parameter.detach().as_subclass(Tensor)
        self._kept.append(data)
        return data

    def _rebuilt(self, tensor: Tensor) -> Any:
        if tensor.device.type == "meta":
            raise ArgumentError("save: a tensor on device meta has no data")
        array = tensor.detach().numpy()
        if is_dense(tensor):
            storage = tensor.storage()
            whole = storage.array.reshape(-1)
            offset = storage.offset_of(array)
        else:
            whole, offset = np.ascontiguousarray(array).reshape(-1), 0
        key = self._keys.get(id(whole.base if whole.base is not None else whole))
        if key is None:
            key = str(len(self.storages))
            self.storages.append(whole)
            self._keys[id(whole.base if whole.base is not None else whole)] = key
        size = tensor.dtype.itemsize
        strides = tuple(s // size for s in array.strides) if is_dense(tensor) else tuple(tensor.contiguous().stride())
        at = _StorageAt(tensor.dtype, key, whole.nbytes // size)
        self._kept += [at, whole]
        return _TENSOR, (at, offset, tuple(tensor.shape), strides, tensor.requires_grad, OrderedDict())

    def save_name(self, obj: _Named) -> None:
        """A name of PyTorch's, whether or not there is such a module here."""
        self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    def save_dtype(self, obj: DType) -> None:
        """`torch.float32` and the others."""
        self.write(pickle.GLOBAL + f"torch\n{obj.name}\n".encode())
        self.memoize(obj)

    dispatch[_Named] = save_name
    dispatch[DType] = save_dtype


def encode(obj: Any, prefix: str = "archive") -> bytes:
    """The bytes of a file. Tensors, Parameters, dtypes, devices and sizes are PyTorch's in it; objects of other classes
    are pickled, by name. Raises ArgumentError, and what pickle raises."""
    structure = io.BytesIO()
    pickler = _Pickler(structure)
    pickler.dispatch_table = copyreg.dispatch_table.copy()
    pickler.dump(obj)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        put = _putter(archive, file, prefix)
        put("data.pkl", structure.getvalue())
        put(".format_version", b"1")
        put(".storage_alignment", str(_ALIGNMENT).encode())
        put("byteorder", sys.byteorder.encode())
        for key, array in enumerate(pickler.storages):
            put(f"data/{key}", np.ascontiguousarray(array).view(np.uint8).data)
        put("version", b"3\n")
    return file.getvalue()


def _putter(archive: zipfile.ZipFile, file: io.BytesIO, prefix: str) -> Callable[[str, Any], None]:
    def put(name: str, content: Any) -> None:
        entry = zipfile.ZipInfo(f"{prefix}/{name}")
        begin = file.tell() + 30 + len(entry.filename.encode()) + 4  # behind the header and the padding's own
        room = -begin % _ALIGNMENT
        entry.extra = struct.pack("<HH", _PADDING, room) + b"Z" * room
        archive.writestr(entry, content)

    return put
