"""Objects as JSON and arrays: what weft.save writes around the tensors.

Numbers, texts, None and lists of nothing special are written as JSON has them; everything else is an object with one
key that says what it is.
"""

from __future__ import annotations

import base64
import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.interop.damage import as_parse_error, whole
from weft.nn.parameter import Parameter
from weft.runtime.storage import Storage
from weft.support.errors import ArgumentError, ParseError, ValueProblem
from weft.tensor.creation import from_payload
from weft.tensor.dense import is_dense, payload_of
from weft.tensor.device import Device, usable
from weft.tensor.size import Size
from weft.tensor.tensor import Tensor, tensor_around
from weft.types import dtype as dt
from weft.types.dtype import DType

MOST_DIMS = 64  # NumPy's limit
Arrays = dict[str, np.ndarray[Any, Any]]
_NUMBERS = {kind.__name__: kind for kind in (
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, np.float32,
    np.float64, np.complex64, np.complex128, dt.bfloat16.numpy.type,
)} | {"bool": np.bool_}


def take_apart(value: Any) -> tuple[Any, Arrays]:
    """The JSON tree of an object and the arrays that it refers to. Raises ArgumentError, ValueProblem."""
    writer = _Writer()
    return writer.tree(value, ()), writer.arrays


def put_together(tree: Any, arrays: Arrays) -> Any:
    """The object of a JSON tree. Raises ParseError."""
    with as_parse_error("load: the file's structure does not fit its tensors"):
        return _Reader(arrays).value(tree)


def map_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same containers with every tensor changed. What is there twice is changed once.
    Raises ParseError for what holds itself."""
    with as_parse_error("load: the file's structure is nested too deep"):
        return _Mapped(change).value(value)


class _Mapped:
    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        self.change = change
        self._made: dict[int, Any] = {}

    def value(self, value: Any) -> Any:
        if not isinstance(value, (Tensor, list, tuple, set, dict)):
            return value
        if id(value) not in self._made:
            self._made[id(value)] = _OPEN
            self._made[id(value)] = self._changed(value)
        changed = self._made[id(value)]
        if changed is _OPEN:
            raise ParseError("load: the file's structure holds itself")
        return changed

    def _changed(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self.change(value)
        if type(value) in (list, tuple, set):
            return type(value)(map(self.value, value))
        if not isinstance(value, dict):
            return value
        changed = type(value)((k, self.value(v)) for k, v in value.items())
        if hasattr(value, "_metadata"):
            changed._metadata = value._metadata  # type: ignore[attr-defined]
        return changed


_OPEN = object()


class _Writer:
    def __init__(self) -> None:
        self.arrays: Arrays = {}
        # storage -> entry, and the storage itself so that its id stays taken
        self._names: dict[int, tuple[str, Any]] = {}
        self._open: set[int] = set()

    def tree(self, value: Any, path: tuple[str, ...]) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, Tensor):
            return self._tensor(value, path)
        if isinstance(value, (dict, list, tuple, set)):
            return self._container(value, path)
        return self._plain(value, path)

    def _plain(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, np.str_):
            return str(value)
        if isinstance(value, complex):
            return {"complex": [value.real.hex(), value.imag.hex()]}
        if isinstance(value, (bytes, bytearray)):
            return {"bytes": base64.b64encode(value).decode()}
        if isinstance(value, Device):
            return {"device": str(value)}
        if isinstance(value, DType):
            return {"dtype": value.name}
        if isinstance(value, np.generic):
            return {"number": [value.dtype.name, self.tree(value.item(), path)]}
        if isinstance(value, np.ndarray):
            return {"array": self.tree(tensor_around(np.ascontiguousarray(value)), path)}
        raise ArgumentError(
            f"save: {'.'.join(path) or 'the object'} is a {type(value).__name__}, which needs code to be loaded again; "
            "files hold tensors in dicts, lists and tuples of plain data (for a module: its state_dict())"
        )

    def _container(self, value: Any, path: tuple[str, ...]) -> Any:
        if id(value) in self._open:
            raise ValueProblem(f"save: {'.'.join(path)} holds itself")
        self._open.add(id(value))
        try:
            if isinstance(value, dict):
                return self._mapping(value, path)
            items = [self.tree(v, (*path, str(i))) for i, v in enumerate(value)]
        finally:
            self._open.discard(id(value))
        if type(value) is list:
            return items
        kind = "size" if isinstance(value, Size) else "set" if isinstance(value, set) else "tuple"
        return {kind: items}

    def _mapping(self, value: dict[Any, Any], path: tuple[str, ...]) -> Any:
        items = [[self.tree(k, path), self.tree(v, (*path, str(k)))] for k, v in value.items()]
        if not isinstance(value, OrderedDict):
            return {"dict": items}
        encoded: dict[str, Any] = {"ordered": items}
        if hasattr(value, "_metadata"):  # the versions that Module.state_dict leaves
            encoded["metadata"] = self.tree(value._metadata, (*path, "_metadata"))
        return encoded

    def _tensor(self, tensor: Tensor, path: tuple[str, ...]) -> Any:
        if tensor.device.type == "meta":
            raise ArgumentError(f"save: {'.'.join(path) or 'the tensor'} is on device meta and has no data")
        facts: dict[str, Any] = {"dtype": tensor.dtype.name}
        if is_dense(tensor):
            data, storage = tensor.detach().numpy(), tensor.storage()
            key = storage.array
        else:
            key, facts["device"] = tensor.storage(), str(tensor.device)
            if id(key) not in self._names:
                storage = Storage(payload_of(tensor).whole("save()"))
        g: Any = tensor.geometry()  # of bytes: numbers
        offset = storage.offset_of(data) if is_dense(tensor) else g.offset
        if id(key) not in self._names:
            if not is_dense(tensor):
                data = storage.view(g.dims, g.strides, g.offset, tensor.dtype.numpy)
            self._names[id(key)] = (self._store(tensor, data, storage, path), key)
        facts["in"] = self._names[id(key)][0]
        facts["at"] = [list(g.dims), list(g.strides), offset]
        if tensor.requires_grad:
            facts["grad"] = True
        if isinstance(tensor, Parameter):
            facts["parameter"] = True
        return {"tensor": facts}

    def _store(self, tensor: Tensor, data: np.ndarray[Any, Any], storage: Any, path: tuple[str, ...]) -> str:
        """Put a storage among the arrays: as the tensor, where that shows all of it in order, else as one row."""
        name = ".".join(path) or "tensor"
        while name in self.arrays:
            name += "_"
        whole = data if tensor.is_contiguous() and data.nbytes == storage.array.nbytes else storage.array.reshape(-1)
        if whole.dtype.kind == "c":
            whole = np.ascontiguousarray(whole)[..., None].view(dt.from_numpy(whole.dtype).to_real().numpy)
        self.arrays[name] = whole
        return name


class _Reader:
    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self._bases: dict[str, Tensor] = {}
        self._elsewhere: dict[tuple[str, str], Tensor] = {}  # on other devices
        self._build: dict[str, Callable[[Any], Any]] = {
            "float": float, "complex": lambda v: complex(float.fromhex(v[0]), float.fromhex(v[1])),
            "bytes": base64.b64decode, "dtype": dt.by_name, "device": Device,
            "number": lambda v: _NUMBERS[v[0]](self.value(v[1])), "array": lambda v: self.value(v).numpy(),
            "size": lambda v: Size(self.value(v)), "set": lambda v: set(self.value(v)),
            "tuple": lambda v: tuple(self.value(v)),
            "dict": lambda v: {self.value(k): self.value(x) for k, x in v}, "tensor": self._tensor,
        }

    def value(self, tree: Any) -> Any:
        if isinstance(tree, list):
            return [self.value(v) for v in tree]
        if not isinstance(tree, dict):
            return tree
        if "ordered" in tree:
            return self._ordered(tree)
        ((kind, content),) = tree.items()
        return self._build[kind](content)

    def _ordered(self, tree: dict[str, Any]) -> OrderedDict[Any, Any]:
        ordered = OrderedDict((self.value(k), self.value(v)) for k, v in tree["ordered"])
        if "metadata" in tree:
            ordered._metadata = self.value(tree["metadata"])  # type: ignore[attr-defined]
        return ordered

    def _tensor(self, facts: dict[str, Any]) -> Tensor:
        dims, strides, offset = facts["at"]
        base = self._base(facts["in"])
        dtype = dt.by_name(facts["dtype"])
        tensor = tensor_over(base, dtype, dims, strides, offset)
        if "device" in facts:
            tensor = self._moved(facts["in"], dtype, facts["device"]).as_strided(dims, strides, offset).detach()
        if facts.get("parameter"):
            return Parameter(tensor, requires_grad=bool(facts.get("grad")))
        return tensor.requires_grad_() if facts.get("grad") else tensor

    def _moved(self, name: str, dtype: DType, device: str) -> Tensor:
        """A storage's elements on another device, once for all tensors over it."""
        moved = self._elsewhere.get((name, device))
        if moved is None:
            row = tensor_around(self._base(name).numpy().view(dtype.numpy))
            moved = self._elsewhere[name, device] = row.to(usable(device))
        return moved if moved.dtype is dtype else moved.view(dtype)

    def _base(self, name: str) -> Tensor:
        base = self._bases.get(name)
        if base is None:
            base = self._bases[name] = tensor_around(self.arrays[name].reshape(-1))
        return base


def tensor_over(base: Tensor, dtype: DType, dims: Any, strides: Any, offset: int) -> Tensor:
    """A tensor over the bytes of `base` (one row), which it shares with its version. Raises ValueError and the like
    when they do not reach."""
    size = dtype.itemsize
    if len(dims) > MOST_DIMS:
        raise ValueError(f"{len(dims)} dims")
    shape, steps = tuple(map(whole, dims)), tuple(map(whole, strides))
    if 0 in shape:
        return tensor_around(np.empty(shape, dtype.numpy))
    array: np.ndarray[Any, Any] = np.ndarray(
        shape, dtype.numpy, base.numpy(), whole(offset) * size, tuple(s * size for s in steps)
    )
    if not array.flags.aligned:
        raise ValueError(f"a tensor of {dtype} begins in the middle of an element")
    return from_payload(array, base.storage())
