"""Tensor: a payload plus autograd state, kept small. Operators come from the catalogue;
what is read off a value stands in facts.py and conversions.py; this file holds its memory, its history and its copies.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from weft.ops.overrides import handle, overriding, plain_kinds
from weft.ops.rules import same_dims
from weft.runtime.storage import Storage
from weft.support import pytree, seams
from weft.support.errors import ArgumentError, DTypeError, StateError
from weft.support.warn import warn
from weft.tensor.conversions import Conversions
from weft.tensor.dense import detached, lend_below, lent, payload_of, rewrapped
from weft.tensor.device import backends, usable
from weft.tensor.history import AutogradState, ViewOf
from weft.tensor.modes import AT_WORK, modes
from weft.tensor.payload import Payload
from weft.tensor.printing import tensor_text
from weft.tensor.questions import Questions
from weft.types.dtype import DType, get_default

ndarray = np.ndarray


class Tensor(Questions, Conversions):
    """An n-dimensional array with gradients. Make one with weft.tensor, weft.zeros, weft.from_numpy, ..."""

    __slots__ = ("__dict__", "__weakref__", "_autograd", "_data", "_storage", "_view")
    __array_priority__ = 1000
    _is_param = False
    # of sizes or data, as older programs write it (legacy.py)
    _construct: ClassVar[Callable[[DType, tuple[Any, ...]], Tensor]]

    def __init__(self, data: Any = (), *sizes: Any) -> None:
        """As older programs write it: of sizes (2, 3), uninitialised, or of the numbers in a sequence or an array, in
        the default dtype. (weft's own: a tensor around a payload.)"""
        if sizes or (not isinstance(data, Payload) and isinstance(data, _OLDER)):
            constructed = Tensor._construct(get_default(), (data, *sizes))
            if type(constructed) is not Tensor:
                constructed.__weft_become__(self)  # type: ignore[attr-defined]
            data = constructed._data
        self._data = data
        self._storage: Any = None
        self._autograd: AutogradState | None = None
        self._view: ViewOf | None = None

    # ---- memory and views
    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """The value as an ndarray that shares memory. Raises StateError when the tensor requires grad (detach first,
        no_grad, or force=True)."""
        if not force and modes.grad and self.requires_grad:
            raise StateError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        return lent(self, self._array("numpy()"), "numpy()")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    @property
    def _version(self) -> int:
        storage = self._storage
        if storage is None:
            return 0
        if self.is_inference() and not payload_of(self).shares_version:
            raise StateError("Inference tensors do not track version counter.")
        return storage.version  # type: ignore[no-any-return]

    def is_inference(self) -> bool:
        """Whether the tensor was made in inference mode."""
        return getattr(self._storage, "is_inference", False)

    @property
    def _base(self) -> Tensor | None:
        return self._view.base if self._view is not None else None

    def _is_view(self) -> bool:
        return self._view is not None and not self.is_inference()

    def is_set_to(self, other: Tensor) -> bool:
        """Whether both show the same storage with the same geometry."""
        return self.storage() is other.storage() and self.geometry() == other.geometry()

    # ---- autograd
    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor record history. Assigning is requires_grad_()."""
        state = self._autograd
        if state is not None and (state.requires_grad or state.node is not None):
            return True
        return self._view is not None and self._view_requires_grad()

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if type(value) is not bool:
            raise StateError("requires_grad must be a bool")
        self.requires_grad_(value)

    @requires_grad.deleter
    def requires_grad(self) -> None:
        raise StateError("requires_grad cannot be deleted; requires_grad_(False) stops asking for a gradient")

    def _view_requires_grad(self) -> bool:
        view, state, storage = self._view, self._autograd, self._storage
        assert view is not None
        if (
            view.creation != "default" and modes.grad and storage is not None
            and (0 if state is None else state.version) != storage.version
        ):
            return view.base.requires_grad  # its base was written: what it is used for, not asking, is refused
        if view.creation == "inference" and not self.is_inference():
            return view.base.requires_grad and self.dtype.is_differentiable  # though it gives no gradient
        return self._node is not None

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask for a gradient on this leaf (or stop asking). Returns self."""
        if modes.capture is not None:
            modes.capture.outside.note_flag(self, requires_grad)
        if not requires_grad:
            if self._node is not None:
                raise StateError(
                    "you can only change requires_grad flags of leaf variables. If you want to use a computed variable "
                    "in a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
                )
            if self._autograd is not None:
                self._autograd.requires_grad = False
            return self
        return self._ask_for_gradient()

    def _ask_for_gradient(self) -> Tensor:
        if not self.dtype.is_differentiable:
            raise DTypeError("only Tensors of floating point and complex dtype can require gradients")
        if not modes.inference and self.is_inference():
            raise StateError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        if self._node is None:
            payload_of(self).refuse_gradients()
            self._state().requires_grad = True
        return self

    def _state(self) -> AutogradState:
        state = self._autograd
        if state is None:
            state = self._autograd = AutogradState()
        return state

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor: backward puts gradients into the leaves that require them."""
        return self._node is None

    @property
    def grad_fn(self) -> Any:
        """The node of the operation that made this tensor, or None for a leaf."""
        node = self._node
        return None if node is None else node.arrival(self._autograd.index)  # type: ignore[union-attr]

    @property
    def _node(self) -> Any:
        """grad_fn, for those who ask nothing of it but where gradients are handed in."""
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
        """Which of its node's results this tensor is."""
        return 0 if self._autograd is None else self._autograd.index

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient of a leaf (or of a tensor that retains it), or None."""
        capture = modes.capture
        if capture is not None:
            return capture.gradients.grad_of(self)
        state = self._autograd
        if state is None:
            return None
        if state.grad is None and state.node is not None and not state.retains_grad:
            warn(_NOT_A_LEAF)
        if state.owns_grad:
            state.owns_grad = False
        return state.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            self._check_grad(value)
        capture = modes.capture
        if capture is not None:
            capture.gradients.set_grad(self, value)
            return
        state = self._state()
        state.grad, state.owns_grad = value, False

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    _grad = grad  # its other name in PyTorch, which programs write to

    def _check_grad(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ArgumentError(
                f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
            )
        if value is self:
            raise StateError("can't assign Variable as its own grad")
        if value.dtype is not self.dtype:
            raise StateError(
                f"attempting to assign a gradient with dtype '{value.dtype}' to a tensor with dtype '{self.dtype}'. "
                "Please ensure that the gradient and the tensor have the same dtype"
            )
        if not same_dims(value.dims, self.dims):
            raise StateError(
                f"attempting to assign a gradient of size '{list(value.dims)}' to a tensor of size "
                f"'{list(self.dims)}'. Please ensure that the gradient and the tensor are the same size"
            )

    def backward(
        self, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Accumulate the gradients of the leaves that this tensor depends on.
        `gradient` is needed unless it is a scalar."""
        if modes.special is not None and getattr(modes.special[-1], "refuses_backward", False):
            raise StateError(
                "backward() called inside a functorch transform. This is not supported, please use weft.func.grad or "
                "weft.func.vjp instead or call backward() outside of the transform."
            )
        chosen = (inputs,) if isinstance(inputs, Tensor) else inputs
        seams.run_backward((self,), (gradient,), retain_graph, create_graph, chosen, True)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Any:
        """Call `hook(grad)` when the gradient of this tensor is computed; a returned tensor replaces it.
        Returns a handle with remove()."""
        return seams.register_tensor_hook(self, hook, "tensor")

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> Any:
        """Call `hook(tensor)` after `.grad` of this leaf was accumulated. Returns a handle with remove()."""
        return seams.register_tensor_hook(self, hook, "post_accumulate")

    def retain_grad(self) -> None:
        """Keep `.grad` of this non-leaf tensor too."""
        seams.register_tensor_hook(self, None, "retain")

    @property
    def retains_grad(self) -> bool:
        """Whether `.grad` of this non-leaf tensor is kept."""
        return self._autograd is not None and self._autograd.retains_grad

    def detach(self) -> Tensor:
        """An alias without history: same storage and version counter."""
        if type(self) not in plain_kinds:
            asked = overriding((self,))
            if asked:  # (a mode alone is not: it does not see what only answers)
                return handle(Tensor.detach, asked, (self,))  # type: ignore[no-any-return]
        if modes.capture is not None:
            return modes.capture.detached(self, lambda: self._alias(share_version=True))
        return self._alias(share_version=True)

    def detach_(self) -> Tensor:
        """Drop this tensor's own history. Raises StateError on a view, whose history is its base's."""
        if self._view is not None:
            raise StateError("Can't detach views in-place. Use detach() instead.")
        if modes.capture is not None and self.is_leaf:
            modes.capture.outside.note_flag(self, False)
        state = self._autograd
        if state is not None:
            state.node, state.index, state.requires_grad, state.accumulate = None, 0, False, None
        self._data = detached(self._data)
        return self

    @property
    def data(self) -> Tensor:
        """An alias without history and with a version counter of its own: autograd does not notice writes."""
        return self._alias(share_version=False)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise ArgumentError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if self.requires_grad and not value.dtype.is_differentiable:
            raise StateError("data set to a tensor that requires gradients must be floating point or complex dtype")
        if modes.capture is not None and modes.capture.outside.keeps_data(self, value):
            return
        state = self._autograd
        if state is not None and (value.dtype is not self.dtype or value.dims != self.dims):
            state.accumulate = None  # a leaf takes gradients of its new type
        storage, version = value.storage(), 0 if self._storage is None else self._storage.version
        if type(storage) is Storage and storage.version != version:
            storage = storage.silent_alias()  # what counts this tensor's writes goes on counting
            storage.version = version
        data = payload_of(value).moved_to(self)
        view = self._view if data is self._data else None  # writes do not go to the former base any more
        self._data, self._storage, self._view = data, storage, view

    @data.deleter
    def data(self) -> None:
        raise StateError("Deleting tensor data is not allowed. Delete tensor instead!")

    def _alias(self, share_version: bool) -> Tensor:
        data, storage = self._data, self.storage()
        out: Tensor = object.__new__(Tensor)
        out._data = detached(data)
        out._storage = storage if share_version else storage.silent_alias()
        out._autograd = out._view = None
        if modes.capture is not None:
            modes.capture.outside.note_alias(out, self)
        return rewrapped(data, out)

    # ---- copies
    def cpu(self) -> Tensor:
        """The tensor on the CPU (weft has no other device)."""
        return self

    def cuda(self, device: Any = None) -> Tensor:
        """Refused: weft computes on the CPU."""
        usable("cuda")
        return self

    def __copy__(self) -> Tensor:
        return self._alias(share_version=True).requires_grad_(self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self._deep_copy(memo, with_grad=True)

    def _deep_copy(self, memo: dict[int, Any], with_grad: bool) -> Tensor:
        if not self.is_leaf:
            raise StateError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol "
                "at the moment."
            )
        if id(self) in memo:
            copied: Tensor = memo[id(self)]
            return copied
        capture = modes.capture
        is_recorded = capture is not None and payload_of(self).has_bytes  # the copy is of what it holds at each call
        with _NoGrad():
            out: Tensor = object.__new__(type(self))
            payload = capture.outside.payload_of(self) if is_recorded else payload_of(self)  # type: ignore[union-attr]
            payload.copy_to(out, memo)
        if self._autograd is not None:
            if self._autograd.requires_grad:
                out._state().requires_grad = True
            gradient = self.grad if is_recorded and with_grad else self._autograd.grad
            if gradient is not None and with_grad:
                out._state().grad = copy.deepcopy(gradient, memo)
        out.__dict__.update(copy.deepcopy(self.__dict__, memo))
        memo[id(self)] = out
        return out

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced = payload_of(self).reduced(self)
        if reduced is not None:
            return reduced
        array, device = np.asarray(self._array("pickle"), order="C"), str(self.device)
        facts = (type(self), array, self.dtype, self.requires_grad, self.__dict__)
        return (_rebuild, facts if device == "cpu" else (*facts, device))

    def __repr__(self) -> str:
        if modes.capture is not None and payload_of(self).has_bytes:
            modes.capture.outside.refuse_value(self, "its text (repr())")
        return tensor_text(self)

    def __format__(self, spec: str) -> str:
        if self.ndim == 0 and (spec or (type(self) is Tensor and payload_of(self).has_bytes and modes.capture is None)):
            return format(self.item(), spec)  # a 0-dim tensor reads as its number, as f"loss {loss}" wants
        return object.__format__(self, spec) if spec else str(self)

    def __str__(self) -> str:
        if modes.capture is not None:
            modes.capture.outside.refuse_value(self, "its text (str(), format() or an f-string)")
        return repr(self)

    def __hash__(self) -> int:
        return id(self)

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()))


_NOT_A_LEAF = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
    "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, "
    "use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access the "
    "leaf Tensor instead."
)


# what is no payload: sizes, numbers, a tensor to alias
_OLDER = (int, float, str, bytes, Sequence, np.ndarray, np.generic, Conversions)


class _NoGrad:
    def __enter__(self) -> None:
        self.previous = modes.grad
        modes.grad = modes.grad and AT_WORK

    def __exit__(self, *error: Any) -> None:
        modes.grad = self.previous


def _accessed(storage: Storage, what: str) -> None:
    """Python reads or writes elements of a plain storage without a tensor. Raises CaptureError in a captured function.
    """
    if modes.capture is not None:
        modes.capture.outside.refuse_elements(what)
    if modes.special is not None:
        lend_below(tensor_around(storage.array), what)


seams.storage_accessed.install(_accessed)


def _rebuild(
    kind: type[Tensor], array: np.ndarray[Any, Any], dtype: DType, requires_grad: bool, attributes: dict[str, Any],
    device: str = "cpu",
) -> Tensor:
    out: Tensor = object.__new__(kind)
    out._data = array if array.dtype == dtype.numpy else array.astype(dtype.numpy)
    out._storage = out._autograd = out._view = None
    if device != "cpu":
        out._data = backends[usable(device).type].receive(tensor_around(out._data))._data
    if requires_grad:
        out._state().requires_grad = True
    out.__dict__.update(attributes)
    return out


def tensor_around(data: Any) -> Tensor:
    """A tensor around an array or a payload: its memory is this one, its dtype the array's."""
    out: Tensor = object.__new__(Tensor)
    out._data = data
    out._storage = out._autograd = out._view = None
    return out


def check_tensor(value: Any, what: str) -> Tensor:
    """The value, which must be a Tensor. Raises ArgumentError."""
    if not isinstance(value, Tensor):
        raise ArgumentError(f"{what} must be a Tensor, got {type(value).__name__}")
    return value


pytree.register_leaf(Tensor)
