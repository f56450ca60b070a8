"""Parameters and buffers without a shape yet, of lazy layers.

They take calls over (`__weft_function__`), and once such a class exists every public call asks for it:
so nothing imports this module before a program uses a lazy layer.
"""

from __future__ import annotations

from typing import Any

from weft.nn.parameter import Parameter, Shapeless, empty
from weft.ops.overrides import disabled_weft_function
from weft.support.errors import StateError, ValueProblem
from weft.tensor.modes import no_grad
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType

_CASTS = frozenset({"to", "float", "double", "half", "bfloat16", "is_floating_point", "is_complex"})
# what needs no shape
_KNOWN = frozenset({"requires_grad_", "__reduce_ex__", "__deepcopy__", "__get__", "__set__", "__hash__"})


class _Uninitialized(Shapeless):
    """What both share: no shape, no use in operators, and `materialize`, which makes them tensors of the ordinary class
    in place."""

    _becomes: type[Tensor]
    _data: Any
    _storage: Any
    _alias: Any
    device: Any
    dtype: Any

    @classmethod
    def __weft_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", str(func))
        if name in _CASTS and args and isinstance(args[0], UninitializedBuffer):
            return args[0]._cast_to(name, args[1:], kwargs or {})
        if name in _KNOWN:
            return disabled_weft_function(func, types, args, kwargs)
        raise ValueProblem(
            f"Attempted to use an uninitialized parameter in {name}. This error happens when you are using a lazy "
            f"module or explicitly manipulating `weft.nn.parameter.{cls.__name__}` objects. Call the module once with "
            "an input, so that it learns its sizes"
        )

    @property
    def shape(self) -> Any:
        """Not known yet. Raises StateError."""
        raise StateError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. "
            "Call the lazy module once with an input before its parameters' shapes are asked for"
        )

    dims = shape

    @property
    def data(self) -> Tensor:
        """What stands for the values that are not there yet: of the dtype and on the device that they will have."""
        alias: Tensor = self._alias(share_version=False)
        return alias

    @data.setter
    def data(self, value: Tensor) -> None:
        self._data, self._storage = value._data, value.storage()

    def materialize(self, shape: Any, device: Any = None, dtype: DType | None = None) -> None:
        """Become a tensor of this shape, with any values, of the class that is not lazy; the object stays the same.
        device, dtype: its own where not given."""
        sizes = tuple(int(size) for size in ((shape,) if isinstance(shape, int) else shape))
        filled = empty(sizes, dtype=self.dtype if dtype is None else dtype, device=device or self.device)
        self._data, self._storage = filled._data, filled.storage()
        self.__class__ = self._becomes  # type: ignore[assignment]

    def share_memory_(self) -> Any:
        """Refused: there is no memory yet."""
        raise StateError(
            "Can't share memory on an uninitialized parameter or buffer. Call the lazy module once with an input first"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    __str__ = __repr__


# __weft_function__, which Parameter has none of
class UninitializedParameter(_Uninitialized, Parameter):  # type: ignore[misc]
    """A parameter whose shape is not known yet: `materialize(shape)` makes it an ordinary one."""

    _becomes = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: DType | None = None) -> Any:
        return object.__new__(cls)

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: DType | None = None) -> None:
        super().__init__(_nothing(dtype, device), requires_grad)


class UninitializedBuffer(_Uninitialized, Tensor):
    """A buffer whose shape is not known yet: `materialize(shape)` makes it an ordinary tensor."""

    _becomes = Tensor
    __bare__ = True

    def __init__(
        self, requires_grad: bool = False, device: Any = None, dtype: DType | None = None, persistent: bool = True
    ) -> None:
        super().__init__()
        self._data = _nothing(dtype, device)._data
        self.persistent, self._is_buffer = persistent, True
        if requires_grad:
            self.requires_grad_()

    def _cast_to(self, name: str, args: Any, kwargs: Any) -> Any:
        with no_grad():
            converted = getattr(self.data, name)(*args, **kwargs)
        if not isinstance(converted, Tensor):
            return converted
        return type(self)(self.requires_grad, converted.device, converted.dtype, self.persistent)


def _nothing(dtype: DType | None, device: Any) -> Tensor:
    return empty((0,), dtype=dtype, device=device)
