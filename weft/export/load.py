"""An exported step as a step of Python's again."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from weft.export.description import ALIGNMENT, Array, Description, Leaf, Size, StateNumber, decode, tree_of
from weft.runtime.address import address_of
from weft.runtime.engine import load
from weft.runtime.generator import key_of_seed
from weft.support import errors, pytree
from weft.support.errors import ArgumentError, ShapeError, StateError, WeftError
from weft.tensor.tensor import Tensor, tensor_around
from weft.types import dims as dm
from weft.types import dtype as dt
from weft.types.parse import parse_dim

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


def load_exported(path: str | Path, *, threads: int = 1) -> ExportedStep:
    """The step that `export` has written under this name, to be called as the compiled step was, with a state of its
    own (`state_dict`, `save`). Its code runs in this process: load only what you trust.

    threads: of the worker pool that is started for it, where the object has one.
    Raises ParseError for a manifest that is none, StateError for an object that is not for this machine.
    """
    path = Path(path)
    return ExportedStep(path, decode(path.with_name(path.name + ".json").read_text(encoding="utf-8")), threads)


class ExportedStep:
    """An exported step. Calls of several threads take turns with nothing: they need steps of their own."""

    def __init__(self, path: Path, description: Description, threads: int = 1) -> None:
        self.description, name = description, description.name
        names = ["step", "arena_bytes", "text", *(["pool_start", "pool_stop"] if description.has_pool else [])]
        code = path.with_name(path.name + ".o").read_bytes()
        self._library = load(code, [f"{name}_{n}" for n in names])
        pointers = [ctypes.c_void_p] * 6
        self._step = self._function("step", ctypes.c_int64, *pointers)
        self._arena_bytes = self._function("arena_bytes", ctypes.c_int64, ctypes.c_void_p)
        self._text = self._function("text", ctypes.c_char_p, ctypes.c_int64)
        self._state = _aligned(description.state_bytes)
        self.load_state(path.with_name(path.name + ".state"))
        self._arguments, self._results = tree_of(description.arguments), tree_of(description.results)
        self._arena, self._pool = _aligned(0), _aligned(description.pool_bytes)
        self._pool_address = self._start_pool(threads) if threads > 1 and description.has_pool else 0

    def _function(self, name: str, result: Any, *arguments: Any) -> Any:
        return ctypes.CFUNCTYPE(result, *arguments)(self._library[f"{self.description.name}_{name}"])

    def _start_pool(self, threads: int) -> int:
        self._stop_pool = self._function("pool_stop", None, ctypes.c_void_p)
        start = self._function("pool_start", ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
        start(address_of(self._pool), threads)
        return address_of(self._pool)

    def __del__(self) -> None:
        if getattr(self, "_pool_address", 0):
            self._stop_pool(self._pool_address)
            self._pool_address = 0

    # ---- the state
    def state_dict(self) -> dict[str, Tensor]:
        """The tensors of the state by their names, in the state's own memory."""
        return {t.name: tensor_around(self._state_array(i)) for i, t in enumerate(self.description.tensors)}

    def numbers(self) -> dict[str, float | int]:
        """The numbers of the state by their names: learning rates, counts."""
        return {n.name: self._cell(n).item() for n in self.description.numbers}

    def set_number(self, name: str, value: float | int) -> None:
        """Give a number of the state another value. Raises KeyError."""
        self._cell({n.name: n for n in self.description.numbers}[name])[()] = value

    def manual_seed(self, seed: int) -> None:
        """Start the generators of the state anew."""
        for place in self.description.random:
            for offset, value in ((place.seed, seed), (place.key, key_of_seed(seed)), (place.offset, 0)):
                self._state[offset : offset + 8].view(np.uint64)[0] = value & (1 << 64) - 1

    def save(self, path: str | Path) -> None:
        """Write the state as a file, which `load_state` and C programs read."""
        Path(path).write_bytes(self._state.tobytes())

    def load_state(self, path: str | Path) -> None:
        """Take a state from a file. Raises StateError where it has another size."""
        content = Path(path).read_bytes()
        if len(content) != len(self._state):
            raise StateError(
                f"{path} has {len(content)} bytes; the state of {self.description.name} has {len(self._state)}"
            )
        self._state[:] = np.frombuffer(content, np.uint8)

    def _cell(self, number: StateNumber) -> np.ndarray[Any, Any]:
        dtype = {"float": np.float64, "int": np.int64, "flag": np.bool_}[number.kind]
        cell: np.ndarray[Any, Any] = np.ndarray((), dtype, self._state, number.offset)
        return cell

    def _state_array(self, index: int) -> np.ndarray[Any, Any]:
        tensor = self.description.tensors[index]
        dtype = dt.by_name(tensor.dtype).numpy
        array: np.ndarray[Any, Any] = np.ndarray(tensor.dims, dtype, self._state, tensor.offset)
        return array

    # ---- a call
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """One step. Raises ArgumentError and ShapeError for a call that it is not for, and the errors of its operators.
        """
        leaves, spec = pytree.flatten((args, kwargs))
        if spec != self._arguments:
            raise ArgumentError(f"{self.description.name}: takes {self._arguments!r}, got {spec!r}")
        inputs, numbers, copied = self._inputs(leaves)
        symbols = self._symbols(inputs, numbers)
        sizes = np.array([symbols[s.symbol] for s in self.description.sizes] or [0], np.int64)
        self._reserve(sizes)
        outputs = [
            np.empty(_sizes(a.dims, symbols), dt.by_name(a.dtype).numpy) for a in self.description.outputs
        ]
        status = self._step(
            address_of(self._state), _addresses(inputs), _addresses(outputs), address_of(sizes),
            address_of(self._arena), self._pool_address,
        )
        if status:
            raise self._failure(status)
        for tensor, array in copied:
            tensor[...] = array
        return pytree.unflatten(list(self._returned(leaves, outputs, symbols)), self._results)

    def _inputs(self, leaves: list[Any]) -> tuple[list[Any], dict[int, int], list[tuple[Any, Any]]]:
        """The arrays of the inputs; numbers among the sizes; arguments that are written, with the copies passed."""
        inputs: list[Any] = [None] * len(self.description.inputs)
        numbers: dict[int, int] = {}
        copied = []
        for value, leaf in zip(leaves, self.description.argument_leaves, strict=True):
            if leaf.kind == "constant" and (type(value) is not type(leaf.value) or value != leaf.value):
                raise ArgumentError(f"{self.description.name}: was exported for {leaf.value!r}, got {value!r}")
            if leaf.kind == "size":
                numbers[leaf.index] = int(value)
            if leaf.kind == "input":
                array = self.description.inputs[leaf.index]
                inputs[leaf.index] = _input(array, value)
                if array.written and inputs[leaf.index] is not value._data:
                    copied.append((value._data, inputs[leaf.index]))
        return inputs, numbers, copied

    def _symbols(self, inputs: list[Any], numbers: dict[int, int]) -> dict[str, int]:
        """The values of the symbols of sizes."""
        symbols = {self.description.sizes[i].symbol: value for i, value in numbers.items()}
        wanted = {s.symbol for s in self.description.sizes}
        pairs = [(array, value) for array, value in zip(self.description.inputs, inputs, strict=True)]
        for array, value in pairs:
            if len(array.dims) != value.ndim:
                raise ShapeError(f"{self.description.name}: {array.name} has {len(array.dims)} dims, got {value.ndim}")
            symbols.update((d, n) for d, n in zip(array.dims, value.shape, strict=True) if d in wanted)
        for array, value in pairs:
            if _sizes(array.dims, symbols) != value.shape:
                needed = f"{list(array.dims)}, here {list(_sizes(array.dims, symbols))}"
                got = list(value.shape)
                raise ShapeError(f"{self.description.name}: {array.name} has the dims {needed}, got {got}")
        return symbols

    def _reserve(self, sizes: np.ndarray[Any, Any]) -> None:
        needed = self._arena_bytes(address_of(sizes))
        if needed < 0:
            raise self._failure(needed)
        if needed > len(self._arena):
            self._arena = _aligned(needed)

    def _failure(self, status: int) -> WeftError:
        text = self._text(status).decode()
        if status < 0:
            return ShapeError(f"{self.description.name}: {text}")
        kind: type[WeftError] = getattr(errors, self.description.failures[(status & (1 << 20) - 1) - 1])
        return kind(text)

    def _returned(self, leaves: list[Any], outputs: list[Any], symbols: dict[str, int]) -> Iterator[Any]:
        tensors: list[Any] = []
        taken: set[int] = set()
        for i, leaf in enumerate(self.description.result_leaves):
            if 0 <= leaf.same < i:
                tensors.append(tensors[leaf.same])
            else:
                tensors.append(self._result(leaf, leaves, outputs, symbols, taken))
        yield from tensors

    def _result(
        self, leaf: Leaf, leaves: list[Any], outputs: list[Any], symbols: dict[str, int], taken: set[int]
    ) -> Any:
        if leaf.kind == "constant":
            return leaf.value
        if leaf.kind == "input":
            arguments = enumerate(self.description.argument_leaves)
            at = next(i for i, a in arguments if a.kind == "input" and a.index == leaf.index)
            return leaves[at] if leaf.dims is None else tensor_around(_shown(leaves[at]._data, leaf, symbols))
        if leaf.kind == "state":
            return tensor_around(_shown(self._state_array(leaf.index), leaf, symbols))
        array = outputs[leaf.index]
        if self.description.outputs[leaf.index].kind == "number":
            return array.item()
        array = array.copy() if leaf.index in taken else array
        taken.add(leaf.index)
        return tensor_around(_shown(array, leaf, symbols))


def _input(array: Array, value: Any) -> Any:
    """The row-major memory of an argument."""
    if array.kind == "number":
        return np.array(value, dt.by_name(array.dtype).numpy)
    if not isinstance(value, Tensor) or value.dtype.name != array.dtype:
        got = f"a tensor of {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
        raise ArgumentError(f"{array.name}: takes a tensor of {array.dtype}, got {got}")
    return value._data if value._data.flags.c_contiguous else value._data.copy(order="C")


def _sizes(dims: tuple[Size, ...], symbols: dict[str, int]) -> tuple[int, ...]:
    return tuple([d if isinstance(d, int) else dm.evaluate(parse_dim(d), symbols) for d in dims])


def _shown(array: Any, leaf: Leaf, symbols: dict[str, int]) -> Any:
    """What a result shows of an array."""
    if leaf.dims is None:
        return array
    dtype = dt.by_name(leaf.dtype).numpy
    (offset,) = _sizes((leaf.offset,), symbols)
    strides = [s * dtype.itemsize for s in _sizes(leaf.strides, symbols)]
    return np.ndarray(_sizes(leaf.dims, symbols), dtype, array.reshape(-1), offset * dtype.itemsize, tuple(strides))


def _addresses(arrays: list[Any]) -> Any:
    return (ctypes.c_void_p * max(len(arrays), 1))(*[address_of(a) for a in arrays])


def _aligned(size: int) -> Bytes:
    """Memory at a multiple of the state's alignment."""
    whole = np.zeros(size + ALIGNMENT, np.uint8)
    start = -address_of(whole) % ALIGNMENT
    return whole[start : start + size]
