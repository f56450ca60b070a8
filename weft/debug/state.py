"""What a function can reach and change, kept and put back: tensors, gradients, containers, attributes, generators."""

from __future__ import annotations

import random
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from weft.explanations.names import TensorNames, variables_of
from weft.random import get_rng_state, set_rng_state
from weft.runtime.generator import Generator
from weft.support import limits
from weft.support.reachable import reachable
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor

_CLOSED = (
    types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type, str, bytes, np.generic
)


class State:
    """Everything that a call of a function may change, as it is now: what arguments, closures, globals and the object
    of a method lead to. Objects written in C but containers and NumPy's arrays are not looked into."""

    def __init__(self, function: Callable[..., Any], arguments: Any) -> None:
        self.names = TensorNames(function, arguments)
        self.tensors: dict[str, Tensor] = {}
        self._undo: list[Callable[[], None]] = [*_variables(function)]
        roots = [*dict(variables_of(function)).values(), arguments]
        for value in reachable(roots, _inside, limits.OBJECTS_OF_A_STATE):
            undo = _undo_of(value)
            if undo is not None:
                self._undo.append(undo)
            if isinstance(value, Tensor):
                self.tensors.setdefault(self.names.of(value) or f"tensor {len(self.tensors)}", value)
        self._undo += _generators()
        self.before = {name: array_of(tensor) for name, tensor in self.tensors.items()}

    def put_back(self) -> None:
        """Let all be as it was."""
        with no_grad():
            for undo in self._undo:
                undo()

    def now(self) -> dict[str, Any]:
        """The tensors' values now, by their names, with gradients and optimizers' states that came to be meanwhile."""
        self.names.look_again()
        tensors = {**self.tensors, **self.names.named()}
        values = {name: array_of(tensor) for name, tensor in tensors.items()}
        for name, tensor in tensors.items():
            if tensor.grad is not None and f"grad of {name}" not in values:
                values[f"grad of {name}"] = array_of(tensor.grad)
        return {name: value for name, value in values.items() if value is not None}


def array_of(tensor: Tensor) -> Any:
    """A copy of a tensor's elements; None where it has none."""
    try:
        return np.array(tensor.detach().cpu().numpy())
    except Exception:  # types alone, a wrapper
        return None


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, Tensor):
        if value.is_leaf and value.grad is not None:
            yield value.grad
    elif isinstance(value, dict):
        yield from value.values()
        yield from [key for key in value if isinstance(key, Tensor)]
    elif isinstance(value, (list, tuple, set, deque)):
        yield from value
    elif not isinstance(value, _CLOSED):
        yield from getattr(value, "__dict__", {}).values()


def _undo_of(value: Any) -> Callable[[], None] | None:
    """What puts one object back; None where it cannot change, or is not looked into."""
    if isinstance(value, Tensor):
        return _tensor(value)
    if isinstance(value, (dict, list, set, deque)):
        return _container(value)
    if isinstance(value, np.ndarray):
        array = value.copy()
        return lambda: np.copyto(value, array) if value.flags.writeable else None
    if isinstance(value, Generator):
        place = value.place()
        return lambda: value.return_to(place)
    if isinstance(value, (random.Random, np.random.RandomState)):
        return _python_generator(value)
    if isinstance(value, np.random.Generator):
        bits, inner = value.bit_generator, value.bit_generator.state
        return lambda: setattr(bits, "state", inner)
    fields = getattr(value, "__dict__", None)
    return _attributes(value, fields) if type(fields) is dict and not isinstance(value, _CLOSED) else None


def _tensor(tensor: Tensor) -> Callable[[], None]:
    data = tensor.detach().clone()
    gradient = tensor.grad if tensor.is_leaf else None

    def undo() -> None:
        tensor.detach().copy_(data)
        if tensor.is_leaf and tensor.grad is not gradient:
            tensor.grad = gradient

    return undo


def _container(value: Any) -> Callable[[], None]:
    before = value.copy()

    def undo() -> None:
        if len(value) == len(before) and all(a is b for a, b in zip(_parts(value), _parts(before), strict=True)):
            return
        value.clear()
        (value.update if isinstance(value, (dict, set)) else value.extend)(before)

    return undo


def _parts(value: Any) -> Iterator[Any]:
    for key in value:
        yield key
        if isinstance(value, dict):
            yield value[key]


def _attributes(value: Any, fields: dict[str, Any]) -> Callable[[], None]:
    before = dict(fields)

    def undo() -> None:
        for name in [name for name in fields if name not in before]:
            delattr(value, name)
        for name, old in before.items():
            if fields.get(name, fields) is not old:
                setattr(value, name, old)

    return undo


def _variables(function: Any) -> Iterator[Callable[[], None]]:
    """What puts back which values the global names of a function have."""
    code = getattr(function, "__code__", None)
    scope = getattr(function, "__globals__", None)
    if code is None or scope is None:
        return
    for name, value in variables_of(function):
        if name in scope and scope[name] is value:
            yield lambda name=name, value=value: scope.__setitem__(name, value)  # type: ignore[misc]
    for cell in function.__closure__ or ():
        try:
            value = cell.cell_contents
        except ValueError:  # it has no value yet
            continue
        yield lambda cell=cell, value=value: setattr(cell, "cell_contents", value)  # type: ignore[misc]


def _generators() -> list[Callable[[], None]]:
    seeds = get_rng_state()
    return [lambda: set_rng_state(seeds), _python_generator(random._inst), _python_generator(np.random.mtrand._rand)]


def _python_generator(generator: Any) -> Callable[[], None]:
    if isinstance(generator, random.Random):
        state = generator.getstate()
        return lambda: generator.setstate(state)
    numbers = generator.get_state()
    return lambda: generator.set_state(numbers)
