"""Arguments of a compiled function: what is guarded about each leaf, and the symbols of its sizes."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.autograd.hooks import NO_HOOKS, hooks_on
from weft.guards.values import MISSING
from weft.record.capture import Capture
from weft.runtime.storage import root_of
from weft.tensor.dense import is_dense
from weft.tensor.tensor import Tensor
from weft.types.dims import Expr


@dataclass(frozen=True)
class TensorFacts:
    """What a program depends on about a tensor argument, sizes aside."""

    kind: type
    dtype: np.dtype[Any]
    ndim: int
    requires_grad: bool
    is_leaf: bool
    permutation: tuple[int, ...] | None
    # of what is neither row-major nor a permutation of it, and whose strides are symbols of the program: its dims from
    # the outermost in memory to the innermost
    strided: tuple[int, ...] | None
    layout: tuple[Any, ...] | None  # sizes, strides, offset and storage size, only where the sizes are not symbolic
    hooks: tuple[tuple[int, ...], ...] = NO_HOOKS
    # attributes that the user gave it and the function looks up, MISSING for those it has not
    given: tuple[tuple[str, Any], ...] = ()
    # dims that show one element again and again: the program takes it once, and the other facts are those of what
    # it takes
    expanded: tuple[int, ...] = ()
    is_unheard: bool = False  # a gradient is asked for by it, which hooks would change, and it keep

    def describe(self) -> str:
        wants = "" if not self.requires_grad else ", requires_grad" if self.is_leaf else ", with a history"
        hooked = "" if self.hooks == NO_HOOKS else ", with hooks"
        attributes = "".join([f", {name} = {value!r}" for name, value in self.given])
        at = "" if self.layout is None else f", sizes {list(self.layout[0])} from place {self.layout[2]} of its memory"
        hooked += ", without hooks on it" if self.is_unheard else ""
        return f"{self.kind.__name__}[{self.dtype}, {self.ndim} dims{wants}{hooked}{self._order()}{at}{attributes}]"

    def _order(self) -> str:
        expanded = f", expanded in dims {self.expanded}" if self.expanded else ""
        if self.strided is not None:
            return f"{expanded}, with gaps, dims from the outermost {self.strided}"
        return expanded if self.permutation is None else f"{expanded}, dims in order {self.permutation}"


def facts_of(tensor: Tensor, is_static: bool) -> TensorFacts:
    """The guarded facts of a tensor argument."""
    expanded = expanded_dims(tensor._data)
    data = shown_once(tensor._data, expanded)
    permutation = None if data.flags.c_contiguous else dense_permutation(data)
    strided = memory_order(data) if permutation is None and not data.flags.c_contiguous else None
    layout = layout_of(tensor) if is_static else None
    return TensorFacts(
        type(tensor), data.dtype, data.ndim, tensor.requires_grad, tensor.is_leaf, permutation, strided, layout,
        hooks_on(tensor), expanded=expanded,
    )


def expanded_dims(data: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """The dims of an array along which every element is the same place in memory."""
    if data.flags.c_contiguous:
        return ()
    return tuple([i for i, stride in enumerate(data.strides) if not stride and data.shape[i] > 1])


def shown_once(data: np.ndarray[Any, Any], expanded: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """An array without the repetitions: size 1 in its expanded dims."""
    return data[tuple([slice(1) if i in expanded else slice(None) for i in range(data.ndim)])] if expanded else data


def with_given(fact: TensorFacts, tensor: Tensor, names: Iterable[str]) -> TensorFacts:
    """The facts of a tensor with the attributes of these names that the user gave it."""
    return replace(fact, given=tuple((name, vars(tensor).get(name, MISSING)) for name in sorted(names)))


def leaf_of(tensor: Tensor, leaves: Sequence[Any]) -> int | None:
    """Which argument a tensor is; None if it is none."""
    return next((i for i, leaf in enumerate(leaves) if leaf is tensor), None)


def layout_of(tensor: Tensor) -> tuple[Any, ...]:
    """How a tensor lies in its storage."""
    data, storage = tensor._data, tensor.storage()
    return (data.shape, data.strides, storage.offset_of(data), storage.nbytes)


def sharing_pattern(leaves: Sequence[Any], apart: Container[int] = ()) -> tuple[tuple[int, int], ...]:
    """For each tensor argument: the first argument that is the same object, and the first that shows the same memory
    (itself, where all arguments that show it are such whose memory may be `apart` or not).
    """
    tensors = [(i, leaf) for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and is_dense(leaf)]
    roots = {i: id(root_of(leaf._data)) if leaf._data.size else -i for i, leaf in tensors}
    together = {root for i, root in roots.items() if i not in apart}
    objects: dict[int, int] = {}
    shown: dict[int, int] = {}
    return tuple([
        (objects.setdefault(id(leaf), i), shown.setdefault(roots[i], i) if roots[i] in together else i)
        for i, leaf in tensors
    ])


def dense_permutation(data: np.ndarray[Any, Any]) -> tuple[int, ...] | None:
    """For a row-major array seen with permuted dims: `permutation` with data == base.permute(permutation);
    None if it is not one."""
    order = sorted(range(data.ndim), key=lambda i: (-data.strides[i], i))
    if data.transpose(order).flags.c_contiguous:
        inverse = [0] * data.ndim
        for position, axis in enumerate(order):
            inverse[axis] = position
        return tuple(inverse)
    return None


def memory_order(data: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """The dims of an array from the outermost in memory to the innermost. Of those with one stride, which overlap, the
    longer one is outside: results that lie as it does have that order."""
    strides, sizes = data.strides, data.shape
    return tuple(sorted(range(data.ndim), key=lambda i: (-strides[i], -sizes[i] if strides[i] else 0, i)))


def contiguous_bytes(
    data: np.ndarray[Any, Any], permutation: tuple[int, ...] | None, expanded: tuple[int, ...] = ()
) -> np.ndarray[Any, Any]:
    """The row-major array that a program takes for an argument."""
    data = shown_once(data, expanded)
    if permutation is not None:
        order = sorted(range(len(permutation)), key=permutation.__getitem__)
        array: np.ndarray[Any, Any] = data.transpose(order)
        return array
    return data if data.flags.c_contiguous and data.flags.aligned else np.ascontiguousarray(data)


def strides_of(data: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(s // data.itemsize for s in data.strides)


def symbolic_dims(capture: Capture, shape: Sequence[int]) -> tuple[Expr, ...]:
    """A fresh symbol for each size."""
    return tuple(capture.env.fresh("s", n) for n in shape)
