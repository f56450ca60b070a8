"""Parameter: a tensor that a Module counts among its parameters when it is assigned as an attribute. Buffer, and both without a shape yet."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.layers.factories import FACTORIES
from weft.ops.overrides import disabled_weft_function
from weft.support.errors import ArgumentError, StateError, ValueProblem
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType

empty, zeros, ones = (FACTORIES[name] for name in ("empty", "zeros", "ones"))  # of a module, on its device
_CASTS = frozenset({"to", "float", "double", "half", "bfloat16", "is_floating_point", "is_complex"})
_KNOWN = frozenset({"requires_grad_", "__reduce_ex__", "__deepcopy__", "__get__", "__set__", "__hash__"})  # what needs no shape


class _ParameterClass(type):
    """A tensor of another class counts as a Parameter once `Parameter(tensor)` made it one."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type.__instancecheck__(cls, instance) or (cls is Parameter and isinstance(instance, Tensor) and instance._is_param)


class Parameter(Tensor, metaclass=_ParameterClass):
    """A leaf tensor that requires grad by default. `Parameter(data)` shares the bytes of `data`.

    Of an object of a tensor subclass it makes another object of that class, which `isinstance(p, Parameter)` knows as a parameter.
    """

    _is_param = True
    __bare__ = True
    __weft_function__ = disabled_weft_function

    def __new__(cls, data: Any = None, *args: Any, **kwargs: Any) -> Any:
        if type(data) is not Tensor and cls is Parameter and isinstance(data, Tensor) and not issubclass(type(data), Parameter):
            return _of_subclass(data, *args, **kwargs)
        return object.__new__(cls)

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        source = Tensor(_empty()) if data is None else data
        payload = source._data
        self._data = payload if type(payload) is np.ndarray else payload.detached()
        self._storage = source.storage()
        self._autograd = self._view = None
        if requires_grad:
            self.requires_grad_()


class _BufferClass(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and bool(instance.__dict__.get("_is_buffer"))


class Buffer(metaclass=_BufferClass):
    """A tensor that becomes a buffer when it is assigned to an attribute of a Module. `Buffer(data, persistent=False)` is not saved."""

    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        source = Tensor(_empty()) if data is None else data
        made: Any = source.detach().requires_grad_(source.requires_grad)
        made.persistent, made._is_buffer = persistent, True
        return made


def _of_subclass(data: Tensor, requires_grad: bool = True) -> Tensor:
    out = data.detach().requires_grad_(requires_grad)
    if type(out) is not type(data):
        raise ArgumentError(
            f"Parameter(): detach() of a {type(data).__name__} gave a {type(out).__name__}; a class whose objects are to be parameters must keep its "
            "class in detach()"
        )
    out._is_param = True
    return out


def _empty() -> Any:
    return np.zeros(0, np.float32)


class _Uninitialized:
    """What both share: no shape, no use in operators, and `materialize`, which makes them tensors of the ordinary class in place."""

    _becomes: type[Tensor]
    _data: Any
    _storage: Any

    @classmethod
    def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", str(func))
        if name in _CASTS and args and isinstance(args[0], UninitializedBuffer):
            return args[0]._cast_to(name, args[1:], kwargs or {})
        if name in _KNOWN:
            return disabled_weft_function(func, types, args, kwargs)
        raise ValueProblem(
            f"Attempted to use an uninitialized parameter in {name}. This error happens when you are using a lazy module or explicitly manipulating "
            f"`weft.nn.parameter.{cls.__name__}` objects. Call the module once with an input, so that it learns its sizes"
        )

    @property
    def shape(self) -> Any:
        """Not known yet. Raises StateError."""
        raise StateError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in `load_state_dict` when trying to load an "
            "uninitialized parameter into an initialized one. Call the lazy module once with an input before its parameters' shapes are asked for"
        )

    dims = shape

    def materialize(self, shape: Any, device: Any = None, dtype: DType | None = None) -> None:
        """Become a tensor of this shape, with any values, of the class that is not lazy; the object stays the same."""
        kind = dt.from_numpy(self._data.dtype) if dtype is None else dtype
        sizes = tuple(int(size) for size in ((shape,) if isinstance(shape, int) else shape))
        self._data, self._storage = np.empty(sizes, kind.numpy), None
        self.__class__ = self._becomes  # type: ignore[assignment]

    def share_memory_(self) -> Any:
        """Refused: there is no memory yet."""
        raise StateError("Can't share memory on an uninitialized parameter or buffer. Call the lazy module once with an input first")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    __str__ = __repr__


class UninitializedParameter(_Uninitialized, Parameter):  # type: ignore[misc]  # __weft_function__, which Parameter has none of
    """A parameter whose shape is not known yet: `materialize(shape)` makes it an ordinary one."""

    _becomes = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: DType | None = None) -> Any:
        return object.__new__(cls)

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: DType | None = None) -> None:
        super().__init__(_nothing(dtype), requires_grad)


class UninitializedBuffer(_Uninitialized, Tensor):
    """A buffer whose shape is not known yet: `materialize(shape)` makes it an ordinary tensor."""

    _becomes = Tensor
    __bare__ = True

    def __init__(
        self, requires_grad: bool = False, device: Any = None, dtype: DType | None = None, persistent: bool = True
    ) -> None:
        super().__init__(_nothing(dtype)._data)
        self.persistent, self._is_buffer = persistent, True
        if requires_grad:
            self.requires_grad_()

    def _cast_to(self, name: str, args: Any, kwargs: Any) -> Any:
        with no_grad():
            found = getattr(Tensor(self._data), name)(*args, **kwargs)
        if not isinstance(found, Tensor):
            return found
        return type(self)(self.requires_grad, dtype=found.dtype, persistent=self.persistent)


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer is not initialized yet."""
    return isinstance(param, _Uninitialized)


def _nothing(dtype: DType | None) -> Tensor:
    return Tensor(np.zeros(0, (dt.get_default() if dtype is None else dtype).numpy))
