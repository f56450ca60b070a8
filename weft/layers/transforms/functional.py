"""The level of functionalize: writes become new values. The levels below see no in-place operator,
and with `removes_views` no view either.

What aliases share and how they are read and written is the functionalizer's;
here its values are tensors of the level below.
"""

from __future__ import annotations

from typing import Any

from weft.autograd.node import InputMetadata
from weft.autograd.record import gradient_edge
from weft.autograd.views import check_inplace, storage_order
from weft.functionalizer import other_memory
from weft.functionalizer.memory_format import order_like, result_orders
from weft.functionalizer.operators import copy_of
from weft.functionalizer.recorder import Calls
from weft.functionalizer.storage import Order
from weft.functionalizer.view import View
from weft.functionalizer.views import is_whole, refuse_write, show
from weft.functionalizer.writes import Path, replay, write_path
from weft.layers import walk
from weft.layers.dense_memory import over
from weft.layers.transforms.functional_storage import FunctionalStorage
from weft.layers.transforms.level import Level, OutsideOfLevel, Wrapper, same_form
from weft.ops.geometry import Geometry, contiguous
from weft.ops.layout import ordered
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.support.errors import ShapeError
from weft.tensor.backend import register, tensors_in
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes, set_grad_enabled
from weft.tensor.tensor import Tensor, tensor_around
from weft.tensor.views import forget_base
from weft.types.tensor_type import TensorType


class Functional(Wrapper, View[Tensor]):
    """A view of a storage of the level. is_detached: the levels below see its value without history."""

    __slots__ = ("__weakref__", "is_detached", *View.SLOTS)
    word = "FunctionalTensor"
    storage: FunctionalStorage
    type: TensorType

    def __init__(
        self, level: FunctionalLevel, storage: FunctionalStorage, path: Path, type: TensorType,
        geometry: Geometry | None = None, is_detached: bool = False,
    ) -> None:
        View.__init__(self, storage, path, type, geometry)
        self.level, self.is_detached = level, is_detached
        self._seen: Any = None
        if storage.outside is not None:
            storage.views.add(self)

    @property
    def value(self) -> Tensor:  # type: ignore[override]
        """The value now."""
        assert isinstance(self.level, FunctionalLevel)
        with set_grad_enabled(modes.grad or not self.is_detached):  # the history of when the view was made
            out = self.read_with(self.level.recorder)
        return self.level.beneath(out.detach) if self.is_detached and out.requires_grad else out

    def geometry(self) -> Geometry:
        """Dims and strides as eager mode would have them."""
        return View.geometry(self)

    def shares_memory(self, other: Any) -> bool:
        """Whether both show the same storage."""
        return isinstance(other, View) and other.storage is self.storage

    def overlaps(self, other: Any) -> bool:
        """Whether both are blocks of one storage that meet."""
        return self.meets(other)

    def new_storage(self) -> Any:
        """What its aliases share."""
        return self.storage

    def copy_to(self, out: Tensor, memo: dict[int, Any]) -> None:
        """Give an empty tensor a copy; tensors that share a storage share its copy."""
        assert isinstance(self.level, FunctionalLevel)
        mine = self.storage
        storage = memo.get(id(mine))
        if storage is None:
            storage = memo[id(mine)] = self.level.beneath(mine.copied)
        out._data = Functional(self.level, storage, self.path, self.type, self._geometry, True)
        out._storage, out._autograd, out._view = storage, None, None

    def laid_out_like(self, tensor: Tensor, source: Tensor) -> Tensor:
        """A tensor of the level in its source's order of dims."""
        assert isinstance(self.level, FunctionalLevel)
        return self.level.fresh(self.value, order_like(source, None))

    def detached(self) -> Functional:
        """An alias without history."""
        assert isinstance(self.level, FunctionalLevel)
        return Functional(self.level, self.storage, self.path, self.type, self._geometry, True)

    def moved_to(self, owner: Tensor) -> Functional:
        """What a tensor shows from now on; it keeps its history where it shows other elements of the same memory."""
        before = owner._data
        if type(before) is Functional and before.storage is self.storage:
            outside = self.storage.outside
            if modes.grad and not before.is_detached and outside is not None and self.path != before.path:
                check_inplace(outside, False)
            self.is_detached = before.is_detached
        return self


class _FunctionalTensors(OutsideOfLevel):
    """Tensors of the level whose memory is given or taken."""

    def resize(self, tensor: Tensor, dims: tuple[int, ...]) -> None:
        """Show other elements of the storage."""
        other_memory.resize(tensor, dims)

    def show(self, tensor: Tensor, source: Any, offset: int, size: Any, stride: Any) -> None:
        """Show another storage of the level."""
        other_memory.show(tensor, source, offset, size, stride)


register(_FunctionalTensors(), Functional)


class _Below(Calls):
    """Operators at the level below. Values need not lie in memory as the user sees them:
    a view that does not fit looks at a copy."""

    def __init__(self, level: FunctionalLevel) -> None:
        self.level = level

    def emit(self, op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The operator's results."""
        return self.level.beneath(self._emit, op, args)

    def _emit(self, op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
        if op.view is None:
            return super().emit(op, args)
        if op.view.is_free and not args[0].is_contiguous():
            args = (aten._contiguous_copy(args[0]), *args[1:])
        if self.level.removes_views:
            return super().emit(copy_of(op), args)
        try:
            return super().emit(op, args)
        except ShapeError:
            return super().emit(op, (aten._contiguous_copy(args[0]), *args[1:]))


class FunctionalLevel(Level):
    """Keeps a value per family of aliases and replaces it where one of them is written."""

    name = "functionalize"

    def __init__(self, removes_views: bool = False) -> None:
        super().__init__()
        self.removes_views = removes_views
        self.recorder = _Below(self)

    # ---- tensors in
    def lift(self, value: Any) -> Any:
        """Tensors as tensors of this level, each with memory of its own."""
        if isinstance(value, Tensor):
            return value if self.owns(value) else self.fresh(value, storage_order(value))
        if type(value) in (tuple, list):
            return tuple([self.lift(v) for v in value])
        return value

    def fresh(self, value: Tensor, order: Order | None) -> Tensor:
        """A tensor with memory of its own, its dims in an order in memory (None: row-major)."""
        geometry = contiguous(value.dims) if order is None else ordered(value.dims, order)
        return self._tensor(Functional(self, FunctionalStorage(self, value, geometry, order), (), value.type_))

    def enter(self, base: Tensor, views: list[tuple[Path, Tensor]]) -> list[Tensor]:
        """Tensors from outside that show the memory of `base` through paths, as tensors of this level."""
        g = base.geometry()
        whole = Geometry(g.dims, g.strides, base.geometry().offset)
        value = base
        for path, tensor in () if base.requires_grad else views:
            if tensor.requires_grad:  # a part of the memory has a history that the whole lacks
                value = self.beneath(write_path, Calls(), value, path, tensor)
        storage = FunctionalStorage(self, value, whole, storage_order(base), base)
        entered = []
        for path, tensor in views:
            shown = tensor.geometry()
            geometry = Geometry(shown.dims, shown.strides, tensor.geometry().offset)
            cuts = value.requires_grad and not tensor.requires_grad
            entered.append(self._tensor(Functional(self, storage, path, tensor.type_, geometry, cuts)))
        return entered

    def shown(self, storage: FunctionalStorage) -> Tensor:
        """A tensor that shows the base of a storage."""
        return self._tensor(Functional(self, storage, (), storage.type))

    def _tensor(self, payload: Functional) -> Tensor:
        out = tensor_around(payload)
        out._storage = payload.storage
        return out

    # ---- operators
    def intercept(self, op: Op, args: tuple[Any, ...]) -> Any:
        """The operator below; a view is remembered as a path, so that it shows later writes."""
        if op.opens_above_autograd:
            return walk.opened(op, args)
        if op.view is not None and self.owns(args[0]):
            return self._view(op, args)
        out = self.down(walk.walk, op, self.lower(args))
        if op.view is not None:
            return out  # of a tensor that the level does not know
        orders = None if self._lie_as_seen(args) else result_orders(op, args, None)
        if isinstance(out, (tuple, list)):
            return same_form(out, [self._made(o, orders, i) for i, o in enumerate(out)])
        return self._made(out, orders, 0)

    def _made(self, value: Any, orders: tuple[Order | None, ...] | None, index: int) -> Any:
        if not isinstance(value, Tensor) or orders is None:
            return self.lift(value)
        return self.fresh(value, orders[index] if orders else None)

    def _lie_as_seen(self, args: tuple[Any, ...]) -> bool:
        """Whether the values of all arguments lie in memory as the user sees them: then so do the results."""
        for tensor in tensors_in(args):
            if self.owns(tensor):
                data = tensor._data
                seen, layout = data.geometry(), data.value.geometry()
                if any(s != n and d != 1 for d, s, n in zip(seen.dims, seen.strides, layout.strides, strict=True)):
                    return False
        return True

    def _view(self, op: Op, args: tuple[Any, ...]) -> Any:
        data, rest = args[0]._data, tuple(self.lower(args[1:]))
        storage = data.storage
        if (op.view is not None and op.view.is_free and storage.outside is not None and not is_whole(storage)) or (
            op.view is not None and op.view.is_free and storage.outside is not None and _reaches_outside(op, data, rest)
        ):
            self.down(storage.look_at_all)
        try:
            shown = show(op, data, rest)
        except ShapeError:
            if op.view is not None and op.view.is_free and storage.outside is not None:
                self.down(_ask_below, op, data, rest)  # what is below may have the memory, and may say so
            raise
        if shown.results is None:
            return self.fresh(self.down(walk.walk, copy_of(op), (data.value, *rest)), None)
        views = [
            self._tensor(Functional(self, storage, path, kind, g, data.is_detached or not modes.grad))
            for path, kind, g in shown.results
        ]
        return tuple(views) if op.schema.gives_several else views[0]

    # ---- writes
    def intercept_inplace(self, op: Op, args: tuple[Any, ...]) -> Any:
        """The functional operator's value takes the place of the target in its base."""
        target: Tensor = args[0]
        if not self.owns(target):
            self.down(walk.inplace, op, self.lower(args))
            return target
        walk.check_result(op, args, target)
        refuse_write(op, target._data)
        self.down(self._write, target._data, op, self.lower(args))
        target._storage.version += 1
        return target

    def _write(self, data: Functional, op: Op, args: tuple[Any, ...]) -> None:
        before, storage = args[0], data.storage
        new = walk.walk(op, args)
        if new.dtype is not before.dtype:
            new = aten._to_copy(new, before.dtype)
        whole = write_path(self.recorder, storage.value, data.path, new, op.is_splat, storage.order)
        if storage.value.requires_grad and (data.is_detached or not modes.grad):
            whole = _with_history(whole, gradient_edge(storage.value))
        elif storage.value.requires_grad and not whole.requires_grad:  # nothing flows through, and it may be asked for
            node = walk.blocking_node(op)
            node.metadata_of_inputs += (InputMetadata(whole.dims, whole.dtype),)
            whole = _with_history(whole, (node, 0))
        storage.write(whole)

    # ---- tensors out
    def leave(self, tensor: Any, bases: dict[int, Tensor]) -> Any:
        """A tensor of this level as its caller gets it: what it was outside, or a view of its base.
        bases: those that were made, by storage."""
        if not self.owns(tensor):
            return tensor
        data = tensor._data
        storage = data.storage
        if id(storage) not in bases:
            bases[id(storage)] = storage.value if storage.outside is None else storage.outside
            if storage.outside is None:
                bases[id(storage)] = _laid_out(storage.value, storage.order)
        out = bases[id(storage)]
        if storage.is_row_major and storage.is_short_of(data.geometry(), data.dtype.itemsize):
            return over(out, data.dtype, data.geometry())
        for op, args, index in data.path:
            shown = walk.walk(op, (out, *args))
            out = shown[index] if isinstance(shown, (tuple, list)) else shown
        if data.is_detached:
            return out.detach()
        if storage.outside is None or storage.outside.requires_grad or not storage.value.requires_grad:
            return out
        return _with_history(out, gradient_edge(replay(Calls(), storage.value, data.path)))


def _laid_out(value: Tensor, order: Order | None) -> Tensor:
    """The value with its dims in an order in memory."""
    if storage_order(value) == order and (order is not None or value.is_contiguous()):
        return value
    if order is None:
        return aten._contiguous_copy(value)
    back = tuple(order.index(i) for i in range(len(order)))
    return forget_base(aten.permute(aten._contiguous_copy(aten.permute(value, order)), back))


def _with_history(value: Tensor, edge: tuple[Any, int] | None) -> Tensor:
    """The value with another history: what was written through a detached alias is none of autograd's business."""
    out = tensor_around(value._data)
    out._storage = value.storage()
    if edge is not None:
        out._autograd = AutogradState(False, *edge)
    return out


def _reaches_outside(op: Op, data: Functional, rest: tuple[Any, ...]) -> bool:
    """Whether as_strided looks at elements that are not the base's."""
    try:
        show(op, data, rest)
    except ShapeError:
        return True
    return False


def _ask_below(op: Op, data: Functional, rest: tuple[Any, ...]) -> None:
    """The view that was asked for, of what came in: its memory is the business of the level below."""
    begin, base = data.geometry().offset, data.storage.geometry
    assert base is not None
    offset = begin if rest[2] is None else begin + rest[2]
    walk.walk(op, (data.storage.outside, *rest[:2], offset - base.offset))
