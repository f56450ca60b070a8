"""The level of functionalize: writes become new values. The levels below see no in-place operator, and with `removes_views` no view either."""

from __future__ import annotations

from typing import Any

from weft.autograd.views import write_path
from weft.layers import walk
from weft.layers.transforms.level import Level, Wrapper, same_form
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.ops.route import call
from weft.tensor.tensor import Tensor

Step = tuple[Op, tuple[Any, ...], int]


class Box:
    """What a family of aliases shares: the value of their base now. Stands for their storage: `version` counts the writes."""

    __slots__ = ("__weakref__", "value", "version")
    address = 0

    def __init__(self, value: Tensor) -> None:
        self.value, self.version = value, 0


class Functional(Wrapper):
    """A view of a box: the base's value, shown through a path of view operators (empty for the base)."""

    __slots__ = ("_memo", "_read_at", "box", "path")
    word = "FunctionalTensor"

    def __init__(self, level: FunctionalLevel, box: Box, path: tuple[Step, ...] = ()) -> None:
        self.level, self.box, self.path = level, box, path
        self._memo: Tensor | None = None
        self._read_at = -1
        self._seen: Any = None

    @property
    def value(self) -> Tensor:  # type: ignore[override]
        """The value now."""
        if self._memo is None or self._read_at != self.box.version:
            assert isinstance(self.level, FunctionalLevel)
            self._memo, self._read_at = self.level.beneath(self.level.shown, self.box.value, self.path), self.box.version
        return self._memo

    def new_storage(self) -> Any:
        """The box."""
        return self.box

    def detached(self) -> Functional:
        """An alias; the levels below cut the history where it is read."""
        assert isinstance(self.level, FunctionalLevel)
        return Functional(self.level, Box(self.value.detach())) if not self.box.version else self


class FunctionalLevel(Level):
    """Keeps a value per family of aliases and replaces it where one of them is written."""

    name = "functionalize"

    def __init__(self, removes_views: bool = False) -> None:
        super().__init__()
        self.removes_views = removes_views

    def lift(self, value: Any) -> Any:
        """Tensors as tensors of this level."""
        if isinstance(value, Tensor):
            return value if self.owns(value) else self._tensor(Functional(self, Box(value)))
        if type(value) in (tuple, list):
            return tuple([self.lift(v) for v in value])
        return value

    def _tensor(self, payload: Functional) -> Tensor:
        out = Tensor(payload)
        out._storage = payload.box
        return out

    def shown(self, base: Tensor, path: tuple[Step, ...]) -> Tensor:
        """The view at the end of a path, at the level below."""
        for op, args, index in path:
            out = self._viewed(op, base, args)
            base = out[index] if isinstance(out, (tuple, list)) else out
        return base

    def _viewed(self, op: Op, base: Tensor, args: tuple[Any, ...]) -> Any:
        twin = getattr(aten, f"{op.base}_copy") if self.removes_views else None
        return call(op, (base, *args)) if twin is None else twin(base, *args)

    def intercept(self, op: Op, args: tuple[Any, ...]) -> Any:
        """The operator below; a view is remembered as a path, so that it shows later writes."""
        if op.opens_above_autograd:
            return walk.opened(op, args)
        if op.view is not None:
            return self._view(op, args)
        out = self.down(walk.walk, op, self.lower(args))
        return same_form(out, [self.lift(o) for o in out]) if isinstance(out, (tuple, list)) else self.lift(out)

    def _view(self, op: Op, args: tuple[Any, ...]) -> Any:
        source = self.lift(args[0])
        payload, rest = source._data, tuple(args[1:])
        value = payload.value
        assert op.view is not None
        if op.view.geometry(value.geometry(), *rest) is None:
            return self.lift(self.down(walk.walk, op, (value, *rest)))
        out = self.down(self._viewed, op, value, rest)
        if isinstance(out, (tuple, list)):
            return same_form(out, [self._tensor(Functional(self, payload.box, (*payload.path, (op, rest, i)))) for i in range(len(out))])
        return self._tensor(Functional(self, payload.box, (*payload.path, (op, rest, 0))))

    def intercept_inplace(self, op: Op, args: tuple[Any, ...]) -> Any:
        """The functional operator's value takes the place of the target in its base."""
        target: Tensor = args[0]
        if not self.owns(target):
            self.down(walk.inplace, op, self.lower(args))
            return target
        walk.check_result(op, args, target)
        data = target._data
        self.down(self._rewrite, data, op, self.lower(args))
        return target

    def _rewrite(self, data: Functional, op: Op, args: tuple[Any, ...]) -> None:
        before = args[0]
        new = walk.walk(op, args)
        if new.dtype is not before.dtype:
            new = aten._to_copy(new, before.dtype)
        data.box.value = write_path(data.box.value, data.path, new, self.shown)
        data.box.version += 1
