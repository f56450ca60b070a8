"""parametrize: a parameter or buffer that is computed from others each time it is read.

`register_parametrization(module, "weight", function)` keeps the tensor as `module.parametrizations.weight.original`,
and makes `module.weight` a property that gives `function(original)`.
"""

from __future__ import annotations

import copy
import copyreg
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from weft.nn.modules.containers import ModuleList
from weft.nn.modules.mappings import ModuleDict
from weft.nn.modules.module import Module
from weft.nn.parameter import Parameter
from weft.record.writes import ArgumentChange
from weft.support.errors import StateError, ValueProblem
from weft.tensor import value_blocks
from weft.tensor.modes import modes, no_grad
from weft.tensor.tensor import Tensor
from weft.tensor.value_blocks import ValueBlocks

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "transfer_parametrizations_and_params", "type_before_parametrizations",
]
M = TypeVar("M", bound=Module)


@contextmanager
def cached() -> Iterator[None]:
    """A block in which each parametrized tensor is computed once, when it is first read."""
    value_blocks.begin()
    try:
        yield
    finally:
        value_blocks.end()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, in order; calling it gives the tensor.

    What they start from is `original`, or `original0`, `original1`, ... where the first one's `right_inverse` gives
    several tensors. unsafe: the result may have another dtype or shape than the tensor.
    """

    original: Tensor

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueProblem("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        dtype, shape = original.dtype, original.shape
        with no_grad():
            start: Any = original
            for module in reversed(list(self)):
                start = _inverse(module, start)
        if not isinstance(start, (Tensor, Sequence)):
            raise ValueProblem(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(start).__name__}"
            )
        self.is_tensor = isinstance(start, Tensor)
        self.ntensors = 1 if self.is_tensor else len(start)
        if isinstance(start, Tensor):
            self._start_from(original, start)
        else:
            for i, part in enumerate(start):
                _check_tensor(part, f"'right_inverse' must return a Tensor or a Sequence of tensors; element {i}")
                leaf = Parameter(part, original.requires_grad) if isinstance(original, Parameter) else part
                _register(self, f"original{i}", leaf.requires_grad_(original.requires_grad))
        if not self.unsafe:
            value = self()
            _check_tensor(value, "A parametrization must return a tensor: it")
            _check_same(value, dtype, shape, "unparametrized", "parametrized")

    def _start_from(self, original: Tensor, start: Tensor) -> None:
        if original.dtype != start.dtype:
            raise ValueProblem(
                "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {start.dtype}"
            )
        if original.device != start.device:
            raise ValueProblem(
                "When `right_inverse` outputs one tensor, it may not change the device.\n"
                f"original.device: {original.device}\nright_inverse(original).device: {start.device}"
            )
        _put(original, start)
        _register(self, "original", original)

    def right_inverse(self, value: Any) -> None:
        """Set what the parametrizations start from, so that they give this value. Raises StateError where one of them
        has no right_inverse, ValueProblem where it gives something else than it did at first."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise StateError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
        if self.is_tensor:
            _check_tensor(value, "`right_inverse` should return a tensor: it")
            value = (value,)
        elif not isinstance(value, Sequence) or len(value) != self.ntensors:
            count = f" of length {len(value)}" if isinstance(value, Sequence) else ""
            raise ValueProblem(
                f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                f"Got {type(value).__name__}{count}."
            )
        for name, part in zip(self._names(), value, strict=True):
            _check_tensor(part, f"'right_inverse' must return tensors: `{name}`")
            mine = getattr(self, name)
            if mine.dtype != part.dtype:
                raise ValueProblem(
                    f"The tensor returned by `right_inverse` has dtype {part.dtype} while `{name}` has dtype "
                    f"{mine.dtype}"
                )
            _put(mine, part)

    def _names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def forward(self) -> Any:
        """The tensor."""
        value_blocks.blocks_around()  # a captured function asks: its program is one for so many
        first, *others = list(self)
        value = first(*[getattr(self, name) for name in self._names()])
        for module in others:
            value = module(value)
        return value


def register_parametrization(module: M, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> M:
    """Let a parameter or buffer be computed by a module each time it is read. Returns the module.

    A second parametrization of one tensor gets what the first one gives. `right_inverse` of a parametrization, if it
    has one, says what it starts from, and makes the tensor assignable. unsafe: dtype and shape are not checked.
    Raises ValueProblem where the module has no such tensor, or dtype or shape change.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        held: Any = module.parametrizations[tensor_name]
        if not unsafe:
            _check_next(module, tensor_name, parametrization)
        held.append(parametrization)
        held.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        first = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_own_class(module)
            module.parametrizations = ModuleDict()
        setattr(type(module), tensor_name, _computed(tensor_name))
        module.parametrizations[tensor_name] = first
    else:
        raise ValueProblem(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the tensor of this name, or any of the module's own, is parametrized."""
    held = getattr(module, "parametrizations", None)
    if not isinstance(held, ModuleDict):
        return False
    return len(held) > 0 if tensor_name is None else tensor_name in held


def remove_parametrizations(module: M, tensor_name: str, leave_parametrized: bool = True) -> M:
    """Make a parametrized tensor an ordinary one: with the value that it has now, or (leave_parametrized=False) that of
    `original`. Returns the module. Raises ValueProblem."""
    if not is_parametrized(module, tensor_name):
        raise ValueProblem(f"Module {module} does not have a parametrization on {tensor_name}")
    held = module.parametrizations[tensor_name]
    if held.is_tensor:
        tensor = held.original
        if leave_parametrized:
            with no_grad():
                value = getattr(module, tensor_name)
            _put(tensor, value)
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        tensor = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueProblem(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, tensor)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that the module had before its first parametrization."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Module, to_module: M, tensor_name: str | None = None) -> M:
    """Parametrize the same tensors of another module by the same modules, from the same originals. Returns it."""
    if not is_parametrized(from_module):
        return to_module
    for name in list(from_module.parametrizations) if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach()))
        held = from_module.parametrizations[name]
        for parametrization in held:
            register_parametrization(to_module, name, parametrization)
        for original in held._names():
            setattr(to_module.parametrizations[name], original, getattr(held, original))
    return to_module


def _inverse(module: Module, value: Any) -> Any:
    """What a parametrization starts from to give this value; the value, where it does not say."""
    inverse = getattr(module, "right_inverse", None)
    if inverse is None:
        return value
    try:
        return inverse(value)
    except NotImplementedError:
        return value


def _put(tensor: Tensor, value: Tensor) -> None:
    """Let the tensor, which optimizers know, have this value, whatever its shape."""
    if value is not tensor:
        with no_grad():
            tensor.set_(value.detach())


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _check_tensor(value: Any, what: str) -> None:
    if not isinstance(value, Tensor):
        raise ValueProblem(f"{what} is a {type(value).__name__}")


def _check_same(value: Tensor, dtype: Any, shape: Any, before: str, after: str) -> None:
    for what, old, new in (("dtype", dtype, value.dtype), ("shape", shape, value.shape)):
        if old != new:
            raise ValueProblem(
                f"Registering a parametrization may not change the {what} of the tensor, unless `unsafe` flag is "
                f"enabled.\n{before} {what}: {old}\n{after} {what}: {new}"
            )


def _check_next(module: Module, name: str, parametrization: Module) -> None:
    """A further parametrization, and its right inverse, keep dtype and shape."""
    value = getattr(module, name)
    result = parametrization(value)
    _check_tensor(result, "A parametrization must return a tensor: it")
    _check_same(result, value.dtype, value.shape, f"module.{name}", f"parametrization(module.{name})")
    inverse = _inverse(parametrization, result)
    _check_tensor(inverse, "parametrization.right_inverse must return a tensor: it")
    _check_same(inverse, value.dtype, value.shape, f"module.{name}", "right_inverse's")


def _computed(name: str) -> property:
    """The attribute of a parametrized tensor: read, it is computed; assigned, the original is set."""

    def read(self: Any) -> Any:
        held = self.parametrizations[name]
        if not ValueBlocks.depth:  # (the body is compiled for scripts, too)
            return held()
        if value_blocks.blocks_around() and modes.capture is not None:
            raise ArgumentChange(
                f"a compiled function reads the parametrized tensor {name!r} within a block of parametrize.cached() "
                "that began before the call, and keeps values for other calls"
            )
        key = (id(self), name)
        if key not in value_blocks.values:
            value_blocks.values[key] = held()
        return value_blocks.values[key]

    def assign(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(read, assign)


def _give_own_class(module: Module) -> None:
    """A subclass for this one module, which can have properties."""
    kind = type(module)
    methods: dict[str, Any] = {"__getstate__": _refuse_state, "__module__": kind.__module__}
    if not hasattr(kind, "__deepcopy__"):
        methods["__deepcopy__"] = _deepcopy
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), methods)


def _refuse_state(self: Any) -> Any:
    raise StateError(
        "Serialization of parametrized modules is only supported through state_dict(): the class of a parametrized "
        "module is its own."
    )


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    replica = memo.get(id(self))
    if replica is None:
        replica = memo[id(self)] = self.__new__(type(self))
        replica.__dict__ = copy.deepcopy(self.__dict__, memo)
        for slot in copyreg._slotnames(type(self)):  # type: ignore[attr-defined]
            if hasattr(self, slot):
                setattr(replica, slot, copy.deepcopy(getattr(self, slot), memo))
    return replica
