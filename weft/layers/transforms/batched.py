"""The level of vmap: its tensors are values whose first dim, the batch, the function does not see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from weft.layers import walk
from weft.layers.transforms import derived, fallback
from weft.layers.transforms.level import Level, Wrapper, constants, same_form
from weft.ops.geometry import Geometry
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.support.errors import StateError
from weft.tensor.backend import type_of
from weft.tensor.tensor import Tensor, tensor_around
from weft.types.dims import Dim
from weft.types.tensor_type import TensorType

_NO_VALUE = (
    "vmap: {what} asks a tensor for its value, but inside vmap it stands for one value per example: "
    "use weft.where instead of `if tensor`, keep numbers as tensors, or move the call out of the function."
)
_RANDOM = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
    "randomness flags on vmap or perform the randomness operation out of vmap"
)
RANDOMNESS = ("error", "same", "different")


class AsksForAValue(StateError):
    """One number is asked for, where each example has its own."""


class Batched(Wrapper):
    """One value per example, stacked along dim 0.

    dim: where the batch was in the argument of the mapped function, which a custom Function's own vmap is told.
    """

    __slots__ = ("_type", "dim")
    word = "BatchedTensor"
    differs = True

    def __init__(self, level: Level, value: Tensor) -> None:
        super().__init__(level, value)
        self._type: TensorType | None = None
        self.dim = 0

    @property
    def type(self) -> TensorType:  # type: ignore[override]
        kind = self._type
        if kind is None or kind.dtype is not self.value.dtype or len(kind.shape) + 1 != self.value.ndim:
            whole = self.value.type_
            kind = self._type = whole.with_dims(whole.shape[1:])
        return kind

    def geometry(self) -> Geometry:
        """Dims and strides of one example."""
        g = self.value.geometry()
        return Geometry(g.dims[1:], g.strides[1:], g.offset)

    def item(self) -> NoReturn:
        """Refused."""
        what = "calling .item() on a Tensor (int(), float(), bool(), data-dependent control flow such as `if tensor`)"
        raise AsksForAValue(_NO_VALUE.format(what=what))

    def materialize(self, what: str) -> NoReturn:
        """Refused."""
        raise AsksForAValue(_NO_VALUE.format(what=what))

    def outside(self) -> NoReturn:
        """Refused: the batch dim would appear from nowhere."""
        raise StateError(
            "vmap: a tensor from inside of a vmapped function is used after it has returned; "
            "return the tensor from the function instead of keeping it"
        )

    def text(self) -> str:
        """`BatchedTensor(lvl=1, bdim=0, value=...)`."""
        return super().text().replace(", value=", ", bdim=0, value=", 1)


class BatchLevel(Level):
    """Computes for all examples at once. A tensor that is not one of its own is the same for every example.

    size: the number of examples. randomness: "error", "same" (all examples draw the same numbers) or "different".
    """

    name = "vmap"

    def __init__(self, size: Dim, randomness: str = "error") -> None:
        super().__init__()
        self.size, self.randomness = size, randomness

    def wrap(self, value: Tensor) -> Tensor:
        """A tensor of this level around a value with the batch in front."""
        out = tensor_around(Batched(self, value))
        out._storage = value._storage
        return out

    def argument(self, value: Tensor, dim: int) -> Tensor:
        """An argument of the mapped function, whose batch is in this dim."""
        out = self.wrap(value if dim == 0 else aten.movedim(value, dim, 0))
        out._data.dim = dim
        return out

    def as_given(self, value: Any) -> tuple[Any, Any]:
        """What the level below sees of an argument, and where the batch is in it: None where there is none,
        a list or tuple of such for a list or tuple."""
        if type(value) in (tuple, list):
            parts = [self.as_given(v) for v in value]
            return type(value)([v for v, _ in parts]), type(value)([d for _, d in parts])
        if not self.owns(value):
            return value, None
        dim = value._data.dim
        return (self.down(aten.movedim, value._data.value, 0, dim) if dim else value._data.value), dim

    def lower(self, value: Any) -> Any:
        """What the level below sees of an argument; a tensor is as a rule its own, so most take the short way."""
        if isinstance(value, Tensor):
            data = value._data
            return data.value if type(data) is Batched and data.level is self else value
        return tuple([self.lower(v) for v in value]) if type(value) in (tuple, list) else value

    # ---- operators
    def intercept(self, op: Op, args: tuple[Any, ...]) -> Any:
        """The operator on all examples: by its batch rule, by opening it, or example by example."""
        flags = self.flags(args)
        if flags is None:
            if op.decompose is not None and (op.effect == "random" or op.opens_above_autograd):
                return walk.opened(op, args)  # what it draws comes to `draw`
            return self.down(walk.walk, op, args)
        rule = derived.rule_of(op)
        if rule is None:
            if op.decompose is not None:
                return walk.opened(op, args)
            rule = self._refused_or_looped(op)
        if not derived.speaks_for_itself(op):
            self._check(op, args)
        try:
            with constants(args):
                out = self.down(rule, op, self.size, flags, *self.lower(args))
        except (RuntimeError, IndexError, ValueError):
            self._check(op, args)  # the words of the unbatched call, where it fails as well
            raise
        return self._wrapped(out)

    def flags(self, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Which arguments have a batch dim (a tuple for a list); None when none has."""
        flags = [self._flag(a) for a in args]
        return tuple(flags) if any(f is True or (type(f) is tuple and True in f) for f in flags) else None

    def _flag(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            data = value._data
            return type(data) is Batched and data.level is self
        return tuple([self._flag(v) for v in value]) if type(value) in (tuple, list) else False

    def _refused_or_looped(self, op: Op) -> Callable[..., Any]:
        if op.dynamic_output_shape:
            raise StateError(
                "vmap: We do not support batching operators that can output dynamic shape. "
                f"Attempted to vmap over {op.name}. Use weft.where and masks, which keep the shape, "
                "or move the call out of the function."
            )
        if [r.kind for r in op.schema.returns] == ["bool"]:
            raise AsksForAValue(_NO_VALUE.format(what=f"calling {op.base}"))
        if op.schema.namespace == "prim":
            raise StateError(
                f"vmap: {op.name} (weft.cond, weft.while_loop) cannot branch for each example; use weft.where"
            )
        return fallback.loop

    def _check(self, op: Op, args: tuple[Any, ...]) -> None:
        """The errors of the call as the function wrote it."""
        if op.type is not None:
            op.type(*[type_of(a) for a in args])
        elif op.view is not None:
            op.view.geometry(args[0].geometry(), *args[1:])

    def _wrapped(self, out: Any) -> Any:
        if isinstance(out, Tensor):
            return self.wrap(out)
        if isinstance(out, (tuple, list)):
            return same_form(out, [self._wrapped(o) for o in out])
        return out

    # ---- writes
    def intercept_inplace(self, op: Op, args: tuple[Any, ...]) -> Any:
        """The write into all examples."""
        target: Tensor = args[0]
        flags = self.flags(args)
        if op.effect == "random" and self.randomness == "error":
            raise StateError(_RANDOM)
        if flags is None and not (op.effect == "random" and self.randomness == "different"):
            self.down(walk.inplace, op, args)
            return target
        if not self.owns(target):
            raise _unbatched_target(op, args, flags or ())
        target.storage()
        walk.check_result(op, args, target)
        whole_args = None if flags is None else self.down(derived.aligned_write, op, flags, self.lower(args))
        if whole_args is not None:
            self.down(walk.inplace, op, whole_args)
            return target
        value = args[1] if op.crosses_devices else self._value(op, args)
        whole = target._data.value
        self.down(walk.copy_into, whole, derived.against(self.lower(value), self.owns(value), whole))
        return target

    def _value(self, op: Op, args: tuple[Any, ...]) -> Any:
        out = walk.walk(op, (aten.clone(args[0]), *args[1:]))
        return out

    # ---- random numbers
    def draw(self, take: Callable[[tuple[Any, ...]], Any], size: tuple[Any, ...]) -> Any:
        """Random numbers of this size for each example, as the randomness says. Raises StateError for "error"."""
        if self.randomness == "error":
            raise StateError(_RANDOM)
        if self.randomness == "same":
            return self.down(take, size)
        return self.wrap(self.down(take, (self.size, *size)))


def _unbatched_target(op: Op, args: tuple[Any, ...], flags: tuple[Any, ...]) -> StateError:
    if not flags:
        return StateError(
            f"vmap: {op.base}_ writes into a tensor that all examples share, where randomness='different' asks for "
            "other numbers for each; use an out-of-place operator, or randomness='same'"
        )
    other = next(
        a.name for a, flag in zip(op.schema.arguments, flags, strict=False)
        if flag is True or (type(flag) is tuple and True in flag)
    )
    return StateError(
        f"vmap: {op.base}_(self, *extra_args) is not possible because there exists a Tensor `{other}` in extra_args "
        f"that has more elements than `self`. This happened due to `{other}` being vmapped over but `self` not being "
        f"vmapped over in a vmap. Please try to use out-of-place operators instead of {op.base}_."
    )
