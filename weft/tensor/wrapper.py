"""Wrapper subclasses: tensors without bytes of their own, whose class says in `__weft_dispatch__` what operators do
(usually to inner tensors).

The payload knows the class and shares the attributes of its tensor, so that whatever machinery keeps of a tensor
(a saved value, an alias) can be given back as an object of the class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from weft.ops.geometry import Geometry, contiguous, reach
from weft.ops.packet import aten
from weft.runtime.storage import ElementRow
from weft.support import pytree
from weft.support.errors import ArgumentError, StateError, Unsupported
from weft.tensor.device import usable
from weft.tensor.modes import modes, refuse_in_trace
from weft.tensor.payload import Payload
from weft.tensor.tensor import Tensor, tensor_around
from weft.types import dtype as dt
from weft.types.dims import Dim
from weft.types.sym import SymInt, wrap
from weft.types.tensor_type import TensorType, tensor_type

DISPATCH, PYTORCHS_DISPATCH = "__weft_dispatch__", "__torch_dispatch__"
wrapper_classes: set[type] = set()  # those met so far; empty means that nothing needs to look for them
# those of them that say above autograd and all transforms what an operator is made of: `__weft_open__(op, args)` gives
# its value, `__weft_write__(op, args)` writes it into args[0]
opening_classes: list[Any] = []


class ReadNumber:
    """`aten._local_scalar_dense`: what item(), int(), float() and bool() of a wrapper ask its class.
    Called, it is item()."""

    __name__ = "_local_scalar_dense.default"
    namespace = "aten"

    @property
    def default(self) -> ReadNumber:
        """The only overload."""
        return self

    @property
    def overloadpacket(self) -> ReadNumber:
        """Itself: one name, one overload."""
        return self

    def name(self) -> str:
        """`aten::_local_scalar_dense`."""
        return "aten::_local_scalar_dense"

    def __call__(self, tensor: Tensor) -> Any:
        return tensor.item()

    def __repr__(self) -> str:
        return f"aten.{self.__name__}"


READ_NUMBER = ReadNumber()
setattr(aten, "_local_scalar_dense", READ_NUMBER)  # noqa: B010  a name that operators are looked up by


class WrapperStorage(ElementRow):
    """What the aliases of a wrapper share: a version counter. The bytes are the inner tensors' business; as many are
    claimed as the sizes need. kind: the class's name."""

    __slots__ = ("__weakref__", "_itemsize", "kind", "nbytes", "version", "written")
    address = 0

    def __init__(self, kind: str, nbytes: Any, itemsize: int) -> None:
        self.version = 0
        self.written: Any = None
        self.kind, self.nbytes, self._itemsize = kind, nbytes, itemsize

    def offset_of(self, view: Any) -> int:
        """There is no memory to lie in."""
        return 0

    def silent_alias(self) -> WrapperStorage:
        """The same under a version counter of its own (Tensor.data)."""
        return WrapperStorage(self.kind, self.nbytes, self._itemsize)

    # ---- what Python asks
    def data_ptr(self) -> int:
        """No address."""
        return 0

    def element_size(self) -> int:
        """Bytes per element."""
        return self._itemsize

    def resize(self, nbytes: Any) -> NoReturn:
        """Refused: there are no bytes."""
        raise _no_data("another size of a storage", self.kind)

    def elements(self, what: str) -> NoReturn:
        """Refused: there are no bytes."""
        raise _no_data(what, self.kind)

    def edited(self, what: str) -> NoReturn:
        """Refused: there are no bytes."""
        raise _no_data(what, self.kind)


def _no_data(what: str, kind: str) -> Unsupported:
    return Unsupported(
        f"{what}: a {kind} is a wrapper and has no data of its own; ask its inner tensors, "
        "or define the method on the class"
    )


class WrapperPayload(Payload):
    """Type and geometry that a wrapper claims, its class, and its attributes (the very `__dict__` of the tensor).

    `dense` is the plain tensor behind an object that was made from one (`as_subclass`), whose class asks for
    operators all the same.
    """

    __slots__ = ("_geometry", "attributes", "dense", "env", "kind", "type")
    companions = "cpu"  # whatever it claims, its class is given plain tensors

    def __init__(
        self, kind: type[Tensor], attributes: dict[str, Any], type: TensorType, geometry: Geometry, env: Any = None,
        dense: Tensor | None = None,
    ) -> None:
        self.kind, self.attributes, self.type, self._geometry, self.env, self.dense = (
            kind, attributes, type, geometry, env, dense
        )

    def geometry(self) -> Geometry:
        """Dims and strides as they were claimed."""
        return self._geometry

    def item(self) -> Any:
        """The value of what is behind, or what the class says to `aten._local_scalar_dense`."""
        if self.dense is not None:
            return self.dense.item()
        owner = self.rewrapped(tensor_around(self))
        return self.kind.__weft_dispatch__(READ_NUMBER, (self.kind,), (owner,), {})

    def materialize(self, what: str) -> Any:
        """The bytes of what is behind; refused where nothing is."""
        if self.dense is not None:
            return self.dense._array(what)
        raise _no_data(what, self.kind.__name__)

    def new_storage(self) -> Any:
        """A version counter for a family of aliases; the storage of what is behind."""
        if self.dense is not None:
            return self.dense.storage()
        size = self.dtype.itemsize
        nbytes = 0 if 0 in self.shape else reach(self._geometry) * size
        return WrapperStorage(self.kind.__name__, nbytes if self.env is None else wrap(nbytes, self.env), size)

    def copied(self) -> WrapperPayload:
        """The payload of a deep copy, whose attributes are copied by who asks."""
        dense = None if self.dense is None else aten.clone(self.dense)
        return WrapperPayload(self.kind, {}, self.type, self._geometry, self.env, dense)

    def adopt(self, owner: Tensor) -> None:
        """The attributes are the owner's."""
        self.attributes = owner.__dict__

    def moved_to(self, owner: Tensor) -> Any:
        """The same inner tensors as attributes of another wrapper. Raises StateError for a tensor of another class."""
        if type(owner) is not self.kind:
            raise StateError(f"a {type(owner).__name__} cannot be made to show what a {self.kind.__name__} shows")
        owner.__dict__.update({name: value for name, value in self.attributes.items() if name != "_is_param"})
        return WrapperPayload(self.kind, owner.__dict__, self.type, self._geometry, self.env, self.dense)

    def rewrapped(self, out: Tensor) -> Tensor:
        """A tensor with this payload as an object of the class, with attributes of its own."""
        if type(out) is self.kind:
            return out
        wrapper = shaped(
            self.kind, WrapperPayload(self.kind, {}, self.type, self._geometry, self.env, self.dense), self.attributes
        )
        wrapper._storage, wrapper._autograd, wrapper._view = out._storage, out._autograd, out._view
        return wrapper

    def reduced(self, owner: Tensor) -> Any:
        """Class, type, strides, attributes, and what is behind. Raises StateError for a tensor with history."""
        if not owner.is_leaf:
            raise StateError("pickle: only leaf tensors can be pickled; detach() it first")
        return _rebuild, (self.kind, self.dims_and_dtype(), owner.requires_grad, dict(self.attributes), self.dense)

    def dims_and_dtype(self) -> tuple[Any, ...]:
        """(dims, strides, offset, dtype, device)."""
        g = self._geometry
        return g.dims, g.strides, g.offset, self.type.dtype, self.type.device

    def text(self) -> str:
        """`Two(size=(2, 3), dtype=weft.float32)`."""
        return (
            f"{self.kind.__name__}(size={tuple(self.type.shape)}, dtype={self.type.dtype})" if self.dense is None
            else repr(self.dense)
        )


def shaped(kind: type[Tensor], payload: WrapperPayload, attributes: dict[str, Any]) -> Tensor:
    """An object of `kind` around a payload, which adopts its attributes."""
    if kind not in wrapper_classes:  # it got its rules after it was made
        wrapper_classes.add(kind)
    if modes.capture is not None:
        modes.capture.outside.note_class(kind)
    wrapper: Tensor = object.__new__(kind)
    wrapper.__dict__.update(attributes)
    wrapper._data = payload
    wrapper._storage = wrapper._autograd = wrapper._view = None
    payload.adopt(wrapper)
    return wrapper


def over(kind: type[Tensor], dense: Tensor) -> Tensor:
    """An object of a class with `__weft_dispatch__` that shows a plain tensor's memory, without its history."""
    plain = dense._alias(share_version=True)
    return shaped(
        kind, WrapperPayload(kind, {}, plain.type_, plain.geometry(), getattr(plain._data, "env", None), plain), {}
    )


def make_wrapper(
    cls: type[Tensor], size: Sequence[Any], *, dtype: Any = None, strides: Sequence[Any] | None = None,
    storage_offset: Any = 0, layout: Any = None, device: Any = None, requires_grad: bool = False, **options: Any,
) -> Any:
    """An object of `cls` that claims sizes, dtype, strides and device and holds nothing: put the inner tensors on it
    as attributes.

    Raises ArgumentError unless the class has `__weft_dispatch__`.
    """
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise ArgumentError(f"_make_wrapper_subclass(): argument 'cls' must be a subclass of Tensor, got {cls!r}")
    if not dispatches(cls):
        raise ArgumentError(f"_make_wrapper_subclass(): {cls.__name__} must define {DISPATCH}")
    refuse_in_trace(
        f"a {cls.__name__} that is made there is no part of a trace, which knows plain tensors; keep to plain "
        "tensors there, or use weft.compile"
    )
    env: list[Any] = []
    dims = tuple([_dim(n, env) for n in size])
    geometry = (
        contiguous(dims) if strides is None
        else Geometry(dims, tuple([_dim(n, env) for n in strides]), _dim(storage_offset, env))
    )
    kind = tensor_type(dt.get_default() if dtype is None else dt.as_dtype(dtype), dims, usable(device or "cpu").type)
    out = shaped(cls, WrapperPayload(cls, {}, kind, geometry, env[0] if env else None), {})
    return out._ask_for_gradient() if requires_grad else out


def _dim(size: Any, env: list[Any]) -> Dim:
    if isinstance(size, SymInt):
        expr = size.expr
        env.append(size.env)
        return expr
    return size if isinstance(size, int) else int(size)


def opening_class(values: Sequence[Any]) -> Any:
    """The first class among bound arguments that opens operators, or None; asked only where there is one at all."""
    for value in values:
        if type(value) is tuple:
            kind = opening_class(value)
            if kind is not None:
                return kind
        elif isinstance(value, Tensor) and type(value._data) is WrapperPayload and value._data.kind in opening_classes:
            if modes.capture is not None:
                modes.capture.outside.note_wrapper(value)
            return value._data.kind
    return None


def is_wrapper(value: Any) -> bool:
    """Whether a tensor's operators are its class's business."""
    return isinstance(value, Tensor) and type(value._data) is WrapperPayload


def rewrapped(value: Any) -> Any:
    """The value; a tensor that machinery made around a wrapper's payload is given back as an object of the class."""
    return value._data.rewrapped(value) if is_wrapper(value) else value


def _rebuild(
    kind: type[Tensor], facts: tuple[Any, ...], requires_grad: bool, attributes: dict[str, Any], dense: Tensor | None
) -> Tensor:
    dims, strides, offset, dtype, device = facts
    payload = WrapperPayload(kind, {}, tensor_type(dtype, dims, device), Geometry(dims, strides, offset), None, dense)
    out = shaped(kind, payload, attributes)
    return Tensor.requires_grad_(out) if requires_grad else out


def default_weft_dispatch(
    cls: type[Tensor], func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """Run the operator on the plain tensors behind objects that were made from one; its results are plain tensors."""
    plain, plain_kwargs = pytree.map_leaves(_behind, (tuple(args), dict(kwargs or {})))
    return func(*plain, **plain_kwargs)


def _behind(value: Any) -> Any:
    if not is_wrapper(value):
        return value
    dense = value._data.dense
    if dense is None:
        raise Unsupported(
            f"{type(value).__name__} holds nothing that an operator could run on: its {DISPATCH} must say what to do"
        )
    return dense


def dispatches(cls: type) -> bool:
    """Whether a tensor class has a `__weft_dispatch__` of its own."""
    method = getattr(cls, DISPATCH, None)
    return method is not None and getattr(method, "__func__", None) is not default_weft_dispatch


Tensor.__weft_dispatch__ = classmethod(default_weft_dispatch)
setattr(Tensor, PYTORCHS_DISPATCH, vars(Tensor)[DISPATCH])
Tensor._make_wrapper_subclass = staticmethod(make_wrapper)
