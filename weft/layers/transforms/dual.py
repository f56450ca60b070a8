"""The level of jvp (and, in forward_ad_level.py, of forward_ad): its tensors carry a tangent beside their value,
both values of the level below."""

from __future__ import annotations

from typing import Any

from weft.autograd.views import follow, path_from_base, write_path
from weft.layers import walk
from weft.layers.transforms import tangents as rules
from weft.layers.transforms.grad_level import captured_write
from weft.layers.transforms.level import Level, Wrapper, constants, same_form
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.tensor.tensor import Tensor, tensor_around
from weft.tensor.views import view_of


class Dual(Wrapper):
    """A value and its tangent (None: zero)."""

    __slots__ = ("tangent",)
    word = "DualTensor"
    level: DualLevel

    def __init__(self, level: DualLevel, value: Tensor, tangent: Tensor | None) -> None:
        super().__init__(level, value)
        self.tangent = tangent

    def detached(self) -> Any:
        """The value alone, without history."""
        plain = self.value.detach()
        return Dual(self.level, plain, None) if self.level.wraps_all else plain._data

    def kept(self, owner: Tensor) -> Dual:
        """A view's tangent is its base's: it is looked up now."""
        return Dual(self.level, self.value, self.level.tangent_of(owner)) if self.level.is_alive else self

    def text(self) -> str:
        """`DualTensor(lvl=1, value=..., tangent=...)`; the value's once the level has ended."""
        if not self.level.is_alive:
            return repr(self.value)
        inside = repr(self.tangent).replace("\n", "\n    ")
        return f"{super().text()[:-2]},\n  tangent=\n    {inside}\n)"


class DualLevel(Level):
    """Pushes tangents forward. `wraps_all`: every result is one of its tensors; one that is not was made outside
    and may not be written."""

    name = "jvp"

    def __init__(self, wraps_all: bool = True) -> None:
        super().__init__()
        self.wraps_all = self.refuses_backward = wraps_all

    # ---- wrapping
    def make(self, value: Tensor, tangent: Tensor | None) -> Tensor:
        """A tensor of this level."""
        out = tensor_around(Dual(self, value, tangent))
        out._storage = value._storage
        return out

    def lift(self, value: Any) -> Any:
        """Tensors as tensors of this level, without tangents."""
        if isinstance(value, Tensor):
            return self.make(value, None) if self.wraps_all and not self.owns(value) else value
        if type(value) in (tuple, list):
            return tuple([self.lift(v) for v in value])
        return value

    def parts(self, tensor: Tensor) -> tuple[Tensor, Tensor | None]:
        """(value, tangent) of a tensor, at the level below. The level must be the top of the stack."""
        return (self.lower(tensor), self.tangent_of(tensor)) if self.owns(tensor) else (tensor, None)

    def tangent_of(self, value: Any) -> Any:
        """The tangent of an argument (a tuple for a list); a view shows its base's."""
        if isinstance(value, Tensor):
            data = value._data
            if not (isinstance(data, Dual) and data.level is self):
                return None
            view = value._view
            if view is None or not isinstance(view.base._data, Dual):
                return data.tangent
            base = view.base._data.tangent
            return None if base is None else self.down(follow, base, path_from_base(value))
        if type(value) in (tuple, list):
            tangents = tuple([self.tangent_of(v) for v in value])
            return None if all(t is None for t in tangents) else tangents
        return None

    # ---- operators
    def intercept(self, op: Op, args: tuple[Any, ...]) -> Any:
        """Value and tangent of the operator, both computed below."""
        if op.opens_above_autograd:
            return walk.opened(op, args)
        primals = self.lower(args)
        out = self.down(walk.walk, op, primals)
        if op.view is not None:
            return self._views(op, args, out)
        tangents = tuple([self.tangent_of(a) for a in args]) if op.is_differentiable else ()
        pushed = None
        if any([t is not None for t in tangents]):
            with constants(primals):
                pushed = self.down(_push, op, primals, tangents, out)
        if isinstance(out, (tuple, list)):
            listed = pushed or (None,) * len(out)
            return same_form(out, [self._wrapped(o, t) for o, t in zip(out, listed, strict=True)])
        return self._wrapped(out, pushed)

    def _wrapped(self, out: Any, tangent: Any) -> Any:
        if not isinstance(out, Tensor) or (tangent is None and not self.wraps_all):
            return out
        return self.make(out, tangent)

    def _views(self, op: Op, args: tuple[Any, ...], out: Any) -> Any:
        """Views of one of its tensors are its tensors, and find their tangents in that of the base."""
        if not self.wraps_all and not self.owns(args[0]):
            return out
        source = self.lift(args[0])
        storage = source.storage()
        if isinstance(out, (tuple, list)):
            return same_form(out, [self._view(op, args, source, storage, o, i) for i, o in enumerate(out)])
        return self._view(op, args, source, storage, out, 0)

    def _view(self, op: Op, args: tuple[Any, ...], source: Tensor, storage: Any, out: Tensor, index: int) -> Tensor:
        if out._storage is not storage:  # strides could not express it
            tangent = self.tangent_of(source)
            return self.make(out, None if tangent is None else self.down(walk.walk, op, (tangent, *args[1:])))
        return view_of(source, storage, Dual(self, out, None), op, tuple(args[1:]), index)

    # ---- writes
    def intercept_inplace(self, op: Op, args: tuple[Any, ...]) -> Any:
        """Value and tangent are written below."""
        target: Tensor = args[0]
        if not self.owns(target):
            raise captured_write(op)
        if op.opens_above_autograd:
            return walk.copy_into(target, walk.walk(op, (aten.clone(target), *args[1:])))
        walk.check_result(op, args, target)
        target.storage()
        tangents = tuple([self.tangent_of(a) for a in args])
        primals = self.lower(args)
        pushed = self.down(self._pushed, op, primals, tangents) if any(t is not None for t in tangents) else None
        self.down(walk.inplace, op, primals)
        if pushed is not None or tangents[0] is not None:
            self._write_tangent(target, pushed)
        return target

    def _pushed(self, op: Op, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        if not op.is_differentiable:
            return None
        kept = (aten.clone(primals[0]), *primals[1:])  # a level below may save it, and it is about to be written
        return _push(op, kept, tangents, walk.walk(op, kept))

    def _write_tangent(self, target: Tensor, new: Tensor | None) -> None:
        """Tangents are never written in place: a write through a view gives its base another one."""
        view = target._view
        base = target if view is None else view.base
        data = base._data
        assert isinstance(data, Dual)
        data.tangent = self.down(
            _rewritten, data, () if view is None else path_from_base(target), new, target._data.value
        )


def _push(op: Op, primals: tuple[Any, ...], tangents: tuple[Any, ...], out: Any) -> Any:
    """The tangents of the results. They are no argument's own, which somebody may write."""
    pushed = rules.push(op, primals, tangents, out)
    if not isinstance(pushed, (tuple, list)):
        return _own(pushed, tangents)
    return type(pushed)([_own(t, tangents) for t in pushed])


def _own(tangent: Any, tangents: tuple[Any, ...]) -> Any:
    return aten.clone(tangent) if tangent is not None and any(g is tangent for g in tangents) else tangent


def _rewritten(data: Dual, path: Any, new: Tensor | None, target: Tensor) -> Tensor:
    """The tangent of a base after a write of `target`, which lies at the end of the path."""
    if new is None:
        new = aten.zeros_like(target)
    elif new.dims != target.dims or new.dtype is not target.dtype:
        new = aten.expand(aten._to_copy(new, target.dtype), target.dims)
    if not path:
        return new
    before = aten.zeros_like(data.value) if data.tangent is None else data.tangent
    return write_path(before, path, new)
