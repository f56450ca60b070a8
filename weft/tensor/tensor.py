"""Tensor: a payload plus autograd state, kept small. Operators come from the catalogue; this file holds what is not an operator."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.ops.geometry import Geometry, is_contiguous
from weft.ops.methods import OperatorMethods
from weft.ops.packet import aten
from weft.runtime.storage import Storage
from weft.support import seams
from weft.support.errors import ArgumentError, DTypeError, StateError, ValueProblem
from weft.tensor.device import Device
from weft.tensor.modes import modes
from weft.types import dtype as dt
from weft.types.dims import Dim
from weft.types.dtype import _BY_NUMPY, DType
from weft.types.sym import wrap as wrap_dim
from weft.types.tensor_type import TensorType, tensor_type

if TYPE_CHECKING:
    from weft.tensor.operators import Operators  # a stub written from the entries (scripts/make_stubs.py)
    from weft.tensor.size import Size
else:
    Operators = OperatorMethods

ndarray = np.ndarray


class AutogradState:
    """What autograd knows of a tensor: the node and output slot that made it, or that it is a leaf that wants a gradient."""

    # Class-level defaults: results of operators set only node and index.
    requires_grad = False
    node: Any = None
    index = 0
    grad: Tensor | None = None
    hooks: dict[int, Callable[..., Any]] | None = None
    post_accumulate: dict[int, Callable[..., Any]] | None = None
    accumulate: Any = None
    retains_grad = False
    version = 0

    def __init__(self, requires_grad: bool = False, node: Any = None, index: int = 0) -> None:
        if requires_grad:
            self.requires_grad = True
        self.node = node
        if index:
            self.index = index


class ViewOf:
    """Where a view comes from: the base it is a view of, and the view operators from there (op, arguments without self).

    `creation` says how it was made: "default", "no_grad", "inference", "multi" (one of several outputs) or "function" (by a custom Function); it
    decides what in-place writes may do. `array` is the base's payload when the view was made: an in-place view operator gives the base another.
    """

    __slots__ = ("base", "path", "creation", "array")

    def __init__(
        self, base: Tensor, path: tuple[tuple[Any, tuple[Any, ...], int], ...], creation: str = "default", array: Any = None
    ) -> None:
        self.base, self.path, self.creation = base, path, creation
        self.array = base._data if array is None else array


class Payload:
    """What a tensor holds when it is not an ndarray: symbolic and abstract tensors derive from this.

    `type` is its TensorType, `geometry()` its dims and strides.
    """

    __slots__ = ()
    type: TensorType

    def geometry(self) -> Geometry:
        raise StateError(f"{self.__class__.__name__} has no strides")

    def materialize(self, what: str) -> Any:
        """The bytes that `what` asks for, or an error that says why there are none."""
        raise StateError(f"{what}: {self.__class__.__name__} has no bytes")

    def new_storage(self) -> Any:
        """What the aliases of a tensor with this payload share."""
        return self.materialize("storage()")

    def copied(self) -> Any:
        """The payload of an independent copy."""
        return self.materialize("deepcopy")


class Tensor(Operators):
    """An n-dimensional array with gradients. Make one with weft.tensor, weft.zeros, weft.from_numpy, ..."""

    __slots__ = ("_data", "_storage", "_autograd", "_view", "__dict__", "__weakref__")
    __array_priority__ = 1000
    _is_param = False

    def __init__(self, data: Any) -> None:
        self._data = data
        self._storage: Any = None
        self._autograd: AutogradState | None = None
        self._view: ViewOf | None = None

    # ---- facts about the value
    @property
    def type_(self) -> TensorType:
        """The TensorType of the value."""
        data = self._data
        if type(data) is ndarray:
            return tensor_type(dt.from_numpy(data.dtype), data.shape)
        return data.type

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Sizes as dims: integers or symbolic expressions."""
        data = self._data
        return data.shape if type(data) is ndarray else data.type.shape

    @property
    def shape(self) -> Size:
        from weft.tensor.size import Size  # Size and Tensor know each other

        data = self._data
        if type(data) is ndarray:
            return Size(data.shape)
        env = data.env
        return Size(wrap_dim(d, env) for d in data.type.shape)

    def size(self, dim: int | None = None) -> Any:
        """All sizes, or the size of one dim."""
        return self.shape if dim is None else self.shape[dim]

    @property
    def ndim(self) -> int:
        data = self._data
        return data.ndim if type(data) is ndarray else data.type.ndim

    def dim(self) -> int:
        """The number of dims."""
        return self.ndim

    ndimension = dim

    @property
    def dtype(self) -> DType:
        data = self._data
        if type(data) is ndarray:
            return _BY_NUMPY.get(data.dtype) or dt.from_numpy(data.dtype)
        found = data.type.dtype
        assert found is not None
        return found

    @property
    def device(self) -> Device:
        data = self._data
        return Device("cpu") if type(data) is ndarray else Device(data.type.device)

    @property
    def layout(self) -> str:
        return "weft.strided"

    def numel(self) -> Any:
        """The number of elements."""
        n: Any = 1
        for d in self.shape:
            n = n * d
        return n

    nelement = numel

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    def element_size(self) -> int:
        """Bytes per element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> Any:
        return self.numel() * self.dtype.itemsize

    def geometry(self) -> Geometry:
        """Dims, strides and storage offset, in elements."""
        data = self._data
        if type(data) is ndarray:
            size = data.dtype.itemsize
            return Geometry(data.shape, tuple(s // size for s in data.strides), self._storage.offset_of(data) if self._storage else 0)
        return data.geometry()

    def stride(self, dim: int | None = None) -> Any:
        """Element strides, or the stride of one dim."""
        data = self._data
        env = None if type(data) is ndarray else data.env
        strides = tuple(wrap_dim(s, env) if env is not None else s for s in self.geometry().strides)
        return strides if dim is None else strides[dim]

    def storage_offset(self) -> Any:
        """Element offset of the first element within the storage."""
        if type(self._data) is ndarray:
            return self.storage().offset_of(self._data)
        return self._data.geometry().offset

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether elements lie row-major without gaps; with "channels_last", whether those of images do with the channels innermost."""
        data = self._data
        if memory_format == "channels_last":
            g = self.geometry()
            last = (0, 2, 3, 1)
            return g.ndim == 4 and is_contiguous(Geometry(tuple(g.dims[i] for i in last), tuple(g.strides[i] for i in last)))
        if type(data) is ndarray:
            return bool(data.flags.c_contiguous)
        return is_contiguous(data.geometry())

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating point one."""
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the dtype is complex."""
        return self.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the dtype has negative values."""
        return self.dtype.is_signed

    def __len__(self) -> int:
        if self.ndim == 0:
            raise ArgumentError("len() of a 0-d tensor")
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Tensor]:
        if self.ndim == 0:
            raise ArgumentError("iteration over a 0-d tensor")
        return iter(aten.unbind(self, 0))

    def __bool__(self) -> bool:
        if self.ndim and self.numel() != 1:
            raise StateError(
                "Boolean value of Tensor with no values is ambiguous" if self.numel() == 0
                else "Boolean value of Tensor with more than one value is ambiguous"
            )
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.ndim or self.dtype.category > dt.INT:
            raise ArgumentError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any().item())

    def item(self) -> Any:
        """The only element as a Python number. Raises StateError for any other number of elements."""
        data = self._data
        if type(data) is not ndarray:
            return data.item()
        if data.size != 1:
            raise StateError(f"a Tensor with {data.size} elements cannot be converted to Scalar")
        return data.item() if data.dtype.kind != "V" else float(data.reshape(()))

    def tolist(self) -> Any:
        """Nested lists of Python numbers (a number for a 0-dim tensor)."""
        data = self._array("tolist()")
        return (data.astype(np.float32) if data.dtype.kind == "V" else data).tolist()

    def _array(self, what: str) -> np.ndarray[Any, Any]:
        data = self._data
        if type(data) is not ndarray:
            data = data.materialize(what)
        return data

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """The value as an ndarray that shares memory. Raises StateError when the tensor requires grad (detach first, or force=True)."""
        if self.requires_grad and not force:
            raise StateError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        array = self._array("numpy()")
        self.storage()
        return array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    # ---- storage and versions
    def storage(self) -> Any:
        """The Storage (made when first asked for)."""
        found = self._storage
        if found is None:
            data = self._data
            found = self._storage = Storage(data) if type(data) is ndarray else data.new_storage()
        return found

    untyped_storage = storage

    def data_ptr(self) -> int:
        """Address of the first element."""
        storage = self.storage()
        return int(storage.address + storage.offset_of(self._data) * self.dtype.itemsize)

    @property
    def _version(self) -> int:
        return self._storage.version if self._storage is not None else 0

    @property
    def _base(self) -> Tensor | None:
        return self._view.base if self._view is not None else None

    def _is_view(self) -> bool:
        return self._view is not None

    def is_set_to(self, other: Tensor) -> bool:
        """Whether both show the same storage with the same geometry."""
        return self.storage() is other.storage() and self.geometry() == other.geometry()

    # ---- autograd
    @property
    def requires_grad(self) -> bool:
        state = self._autograd
        if state is None:
            return self._view is not None and self.grad_fn is not None
        return state.requires_grad or state.node is not None or (self._view is not None and self.grad_fn is not None)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask for a gradient on this leaf (or stop asking). Returns self."""
        if not requires_grad:
            if self.grad_fn is not None:
                raise StateError(
                    "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a subgraph that "
                    "doesn't require differentiation use var_no_grad = var.detach()."
                )
            if self._autograd is not None:
                self._autograd.requires_grad = False
            return self
        if not self.dtype.is_differentiable:
            raise DTypeError("only Tensors of floating point dtype can require gradients")
        if self.grad_fn is None:
            self._state().requires_grad = True
        return self

    def _state(self) -> AutogradState:
        state = self._autograd
        if state is None:
            state = self._autograd = AutogradState()
        return state

    @property
    def is_leaf(self) -> bool:
        return self.grad_fn is None

    @property
    def grad_fn(self) -> Any:
        view = self._view
        if view is not None:
            state = self._autograd
            if state is not None and state.requires_grad and state.node is None:
                return None
            if self._storage is not None and (0 if state is None else state.version) != self._storage.version:
                seams.history_of_view(self)
                state = self._autograd
            return None if state is None else state.node
        return None if self._autograd is None else self._autograd.node

    @property
    def output_nr(self) -> int:
        return 0 if self._autograd is None else self._autograd.index

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient of a leaf (or of a tensor that retains it), or None."""
        capture = modes.capture
        if capture is not None:
            return capture.grad_of(self)
        return None if self._autograd is None else self._autograd.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            self._check_grad(value)
        capture = modes.capture
        if capture is not None:
            capture.set_grad(self, value)
            return
        self._state().grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def _check_grad(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ArgumentError(f"assigned grad expected to be a Tensor or None but got {type(value).__name__}")
        if value is self:
            raise StateError("can't assign Variable as its own grad")
        if value.dtype is not self.dtype:
            raise StateError(
                f"attempting to assign a gradient with dtype '{value.dtype}' to a tensor with dtype '{self.dtype}'. Please ensure that the gradient and "
                "the tensor have the same dtype"
            )
        if value.dims != self.dims:
            raise StateError(
                f"attempting to assign a gradient of size '{list(value.dims)}' to a tensor of size '{list(self.dims)}'. Please ensure that the gradient "
                "and the tensor are the same size"
            )

    def backward(
        self, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """Accumulate the gradients of the leaves that this tensor depends on. `gradient` is needed unless it is a scalar."""
        chosen = (inputs,) if isinstance(inputs, Tensor) else inputs
        seams.run_backward((self,), (gradient,), retain_graph, create_graph, chosen, True)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Any:
        """Call `hook(grad)` when the gradient of this tensor is computed; a returned tensor replaces it. Returns a handle with remove()."""
        return seams.register_tensor_hook(self, hook, "tensor")

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Any:
        """Call `hook(tensor)` after `.grad` of this leaf was accumulated. Returns a handle with remove()."""
        return seams.register_tensor_hook(self, hook, "post_accumulate")

    def retain_grad(self) -> None:
        """Keep `.grad` of this non-leaf tensor too."""
        seams.register_tensor_hook(self, None, "retain")

    @property
    def retains_grad(self) -> bool:
        return self._autograd is not None and self._autograd.retains_grad

    def detach(self) -> Tensor:
        """An alias without history: same storage and version counter."""
        return self._alias(share_version=True)

    def detach_(self) -> Tensor:
        """Drop this tensor's own history. Raises StateError on a view, whose history is its base's."""
        if self._view is not None:
            raise StateError("Can't detach views in-place. Use detach() instead.")
        state = self._autograd
        if state is not None:
            state.node, state.index, state.requires_grad, state.accumulate = None, 0, False, None
        return self

    @property
    def data(self) -> Tensor:
        """An alias without history and with a version counter of its own: writes through it go unnoticed by autograd."""
        return self._alias(share_version=False)

    @data.setter
    def data(self, value: Tensor) -> None:
        self._data, self._storage = value._data, value.storage()

    def _alias(self, share_version: bool) -> Tensor:
        out = Tensor(self._data)
        storage = self.storage()
        if share_version:
            out._storage = storage
            if self._view is not None:
                out._view = None
        else:
            out._storage = storage.silent_alias() if hasattr(storage, "silent_alias") else _silent(storage)
        return out

    # ---- copies
    def cpu(self) -> Tensor:
        """The tensor on the CPU (weft has no other device)."""
        return self

    def cuda(self, device: Any = None) -> Tensor:
        """Refused: weft computes on the CPU."""
        Device("cuda")
        return self

    def __copy__(self) -> Tensor:
        return self._alias(share_version=True).requires_grad_(self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise StateError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
            )
        if id(self) in memo:
            return memo[id(self)]
        with _NoGrad():
            out = self.__class__.__new__(self.__class__)
            data = self._data
            Tensor.__init__(out, data.copy(order="K") if type(data) is ndarray else data.copied())
        if self._autograd is not None and self._autograd.requires_grad:
            out._state().requires_grad = True
            if self._autograd.grad is not None:
                out._state().grad = copy.deepcopy(self._autograd.grad, memo)
        out.__dict__.update(copy.deepcopy(self.__dict__, memo))
        memo[id(self)] = out
        return out

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not self.is_leaf:
            raise StateError("pickle: only leaf tensors can be pickled; detach() it first")
        return (_rebuild, (type(self), np.ascontiguousarray(self._array("pickle")), self.dtype, self.requires_grad, self.__dict__))

    def __repr__(self) -> str:
        from weft.tensor.printing import tensor_text  # printing needs Tensor

        return tensor_text(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self.ndim == 0 else object.__format__(self, spec) if spec else repr(self)

    def __hash__(self) -> int:
        return id(self)

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()))


class _NoGrad:
    def __enter__(self) -> None:
        self.previous = modes.grad
        modes.grad = False

    def __exit__(self, *error: Any) -> None:
        modes.grad = self.previous


def _silent(storage: Storage) -> Storage:
    """The same memory with its own version counter (for .data)."""
    return Storage(storage.array)


def _rebuild(kind: type, array: np.ndarray[Any, Any], dtype: DType, requires_grad: bool, attributes: dict[str, Any]) -> Tensor:
    out = kind.__new__(kind)
    Tensor.__init__(out, array if array.dtype == dtype.numpy else array.astype(dtype.numpy))
    if requires_grad:
        out._state().requires_grad = True
    out.__dict__.update(attributes)
    return out


def check_tensor(value: Any, what: str) -> Tensor:
    """The value, which must be a Tensor. Raises ArgumentError."""
    if not isinstance(value, Tensor):
        raise ArgumentError(f"{what} must be a Tensor, got {type(value).__name__}")
    return value


def require_positive(value: int, what: str) -> int:
    """The value, which must be positive. Raises ValueProblem."""
    if value <= 0:
        raise ValueProblem(f"{what} must be positive, got {value}")
    return value
