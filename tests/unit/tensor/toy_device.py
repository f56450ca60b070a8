"""A back end for tests: values are arrays that only it looks at, and every call is counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from weft.layers.dense import DENSE
from weft.ops.geometry import Geometry
from weft.ops.op import Op
from weft.runtime.storage import Storage, root_of
from weft.tensor.backend import Args, Backend, register
from weft.tensor.payload import Payload
from weft.tensor.tensor import Tensor, tensor_around
from weft.tensor.views import view_of
from weft.types import dtype as dt
from weft.types.tensor_type import TensorType, tensor_type


class Held:
    """What the aliases of a toy tensor share: a version counter, and where the memory begins."""

    def __init__(self, array: np.ndarray) -> None:
        self.memory, self.version = Storage(array), 0

    def offset_of(self, payload: ToyPayload) -> int:
        return self.memory.offset_of(payload.array)

    def silent_alias(self) -> Held:
        return Held(self.memory.array)

    @property
    def nbytes(self) -> int:
        return self.memory.nbytes

    @property
    def address(self) -> int:
        return 0


class ToyPayload(Payload):
    """An array on device "toy"."""

    has_bytes = True

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    @property
    def type(self) -> TensorType:
        return tensor_type(dt.from_numpy(self.array.dtype), self.array.shape, "toy")


    def geometry(self) -> Geometry:
        size = self.array.itemsize
        strides = tuple(s // size for s in self.array.strides)
        return Geometry(self.array.shape, strides, Storage(root_of(self.array)).offset_of(self.array))

    def materialize(self, what: str) -> np.ndarray:
        TOY.counts[f"read by {what}"] += 1
        return self.array

    def new_storage(self) -> Held:
        return Held(self.array)

    def copied(self) -> ToyPayload:
        return ToyPayload(self.array.copy())


class Toy(Backend):
    """Computes through NumPy, on arrays of its own."""

    device = "toy"

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def run(self, op: Op, args: Args) -> Any:
        self.counts[op.name] += 1
        if op.decompose is not None:
            return self.open(op, args)
        out = DENSE.run(op, _plain(args))
        if op.view is not None:
            made = out if isinstance(out, tuple) else (out,)
            views = tuple([self._view(op, args, v, i) for i, v in enumerate(made)])
            return views if isinstance(out, tuple) else views[0]
        return _toys(out)

    def _view(self, op: Op, args: Args, shown: Tensor, index: int) -> Tensor:
        payload = ToyPayload(shown._data)
        if root_of(shown._data) is not root_of(args[0]._data.array):
            return Tensor(payload)  # strides could not express it
        return view_of(args[0], args[0].storage(), payload, op, args[1:], index)

    def write(self, op: Op, args: Args) -> None:
        self.counts[f"{op.name} in place"] += 1
        DENSE.write(op, _plain(args))
        args[0].storage().version += 1

    def receive(self, tensor: Tensor) -> Tensor:
        return Tensor(ToyPayload(DENSE.receive(tensor)._data.copy()))


def _plain(value: Any) -> Any:
    """Arguments as tensors of the CPU over the same memory."""
    if isinstance(value, Tensor):
        return tensor_around(value._data.array if type(value._data) is ToyPayload else value._data)
    return tuple([_plain(v) for v in value]) if type(value) is tuple else value


def _toys(value: Any) -> Any:
    if isinstance(value, Tensor):
        return Tensor(ToyPayload(value._data))
    return tuple([_toys(v) for v in value]) if isinstance(value, tuple) else value


TOY = Toy()
register(TOY, ToyPayload)
