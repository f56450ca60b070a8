"""Parameter: a tensor that a Module counts among its parameters when it is assigned as an attribute. Buffer."""

from __future__ import annotations

from typing import Any

from weft.layers.factories import FACTORIES
from weft.ops.overrides import disabled_weft_function
from weft.support import pytree
from weft.support.errors import ArgumentError
from weft.tensor.dense import detached
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

# of a module, on its device
empty, full, zeros, ones, eye, randn = (FACTORIES[n] for n in ("empty", "full", "zeros", "ones", "eye", "randn"))


class _ParameterClass(type):
    """A tensor of another class counts as a Parameter once `Parameter(tensor)` made it one."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return (
            type.__instancecheck__(cls, instance)
            or (cls is Parameter and isinstance(instance, Tensor) and instance._is_param)
        )

    @property
    def __signature__(cls) -> Any:
        from inspect import Signature, signature  # few programs ask

        parameters = signature(cls.__init__).parameters.values()  # type: ignore[misc]
        return Signature(list(parameters)[1:])


class Parameter(Tensor, metaclass=_ParameterClass):
    """A leaf tensor that requires grad by default. `Parameter(data)` shares the bytes of `data`.

    Of an object of a tensor subclass it makes another object of that class, which `isinstance(p, Parameter)` knows
    as a parameter.
    """

    _is_param = True
    __bare__ = True
    __weft_function__ = disabled_weft_function

    def __new__(cls, data: Any = None, *args: Any, **kwargs: Any) -> Any:
        if (
            type(data) is not Tensor and cls is Parameter and isinstance(data, Tensor)
            and not issubclass(type(data), Parameter)
        ):
            return _of_subclass(data, *args, **kwargs)
        return object.__new__(cls)

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        source = empty((0,)) if data is None else data
        self._data = detached(source._data)
        self._storage = source.storage()
        self._autograd = self._view = None
        if modes.capture is not None:
            modes.capture.outside.note_alias(self, source)
        if requires_grad:
            self.requires_grad_()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """A parameter with a copy of the values, and no gradient yet: copies of a model accumulate from nothing."""
        return self._deep_copy(memo, with_grad=False)


class _BufferClass(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and bool(instance.__dict__.get("_is_buffer"))


class Buffer(metaclass=_BufferClass):
    """A tensor that becomes a buffer when it is assigned to an attribute of a Module.
    `Buffer(data, persistent=False)` is not saved."""

    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        source = empty((0,)) if data is None else data
        buffer: Any = source.detach().requires_grad_(source.requires_grad)
        buffer.persistent, buffer._is_buffer = persistent, True
        return buffer


def _of_subclass(data: Tensor, requires_grad: bool = True) -> Tensor:
    out = data.detach().requires_grad_(requires_grad)
    if type(out) is not type(data):
        raise ArgumentError(
            f"Parameter(): detach() of a {type(data).__name__} gave a {type(out).__name__}; a class whose objects are "
            "to be parameters must keep its class in detach()"
        )
    out._is_param = True
    return out


class Shapeless:
    """What parameters and buffers without a shape yet derive from (uninitialized.py)."""


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer is not initialized yet."""
    return isinstance(param, Shapeless)


pytree.register_leaf(Parameter)


def __getattr__(name: str) -> Any:
    """PyTorch has the classes without a shape here; they are imported when first asked for (see uninitialized.py)."""
    if name not in ("UninitializedBuffer", "UninitializedParameter"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import weft.nn.uninitialized as uninitialized

    return getattr(uninitialized, name)
