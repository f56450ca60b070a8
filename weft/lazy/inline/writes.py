"""Inline caches of in-place operators without history: the operator's value, and where it goes in the target's base."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from weft.lazy.device import LazyDevice
from weft.lazy.inline.arguments import ask_for
from weft.lazy.inline.writer import Unfit, Writer
from weft.lazy.payload import LazyPayload
from weft.lazy.states import Point
from weft.lazy.trace import ENOUGH
from weft.lazy.values import Deferred
from weft.ops.op import Op
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

Args = tuple[Any, ...]


@cache
def write_of(op: Op) -> Any:
    """What stands for an operator's in-place form where caches are kept."""
    return object()


class Target(NamedTuple):
    """What a write finds: the base's value, the latest write to a part of it, and what the target's payload remembers
    of it (None if that is not the base's any more).
    """

    value: Deferred
    update: Any
    memo: Deferred | None

    @classmethod
    def of(cls, payload: LazyPayload) -> Target:
        """Before a write."""
        storage = payload.storage
        memo = payload._memo if payload._generation == storage.generation else None
        return cls(storage.value, storage.update, memo)

    def joins(self, payload: LazyPayload) -> bool:
        """Whether the write takes the place of the one before (LazyStorage.put)."""
        update = self.update
        return bool(
            self.value.cell is None and update is not None and update[0] == payload.path and update[2] is self.value
        )


def learn_write(device: LazyDevice, at: Point, op: Op, args: Args, target: Target | None) -> Callable[[Args], Any]:
    """The cache of a write that has just appended entries to the trace. at: where that stood before; target: what the
    write found. Raises Unfit.
    """
    if target is None:
        raise Unfit
    return _Write(device, at, op, args, target).function()


class _Write:
    def __init__(self, device: LazyDevice, at: Point, op: Op, args: Args, seen: Target) -> None:
        entries = device.trace.nodes[at.entries :]
        if entries[-1].position >= ENOUGH or op.effect not in ("pure", "raises"):
            raise Unfit
        if any([kind.is_symbolic for entry in entries for kind in entry.types]):
            raise Unfit
        self.code = Writer("inline(args)", device, at)
        self.op, self.args, self.found = op, args, seen
        self.target: LazyPayload = args[0]._data
        self.storage = self.target.storage
        if type(self.target) is not LazyPayload or self.storage.device is not device:
            raise Unfit
        if self.storage.type.is_symbolic or self.storage.is_resized:
            raise Unfit

    def function(self) -> Callable[[Args], Any]:
        """The cache."""
        code = self.code
        code.missed_if(f"local.grad is not {modes.grad}")
        code.add("".join(f"x{i}_, " for i in range(len(self.args))) + "= args")
        code.begin()
        tensors: list[Tensor] = []
        for i, a in enumerate(self.args):
            ask_for(code, f"x{i}_", a, tensors)
        self._target()
        for j, tensor in enumerate(tensors[1:], 1):
            if getattr(tensor._data, "storage", None) is self.storage:
                raise Unfit  # it reads what it writes
            code.operand(j, tensor._data, f"a{j}._data", True)
        if modes.grad:
            self._without_history(tensors)
        memo = self.target._memo if self.target.path else None
        code.append([self.storage.value] if memo is None else [self.storage.value, memo])
        self._put()
        code.add("return a0")
        return code.function()

    def _without_history(self, tensors: list[Tensor]) -> None:
        """Where histories are recorded: nobody has one, and nothing forbids the write (autograd's check_inplace)."""
        code, view = self.code, tensors[0]._view
        if any([t.requires_grad for t in tensors]) or (view is not None and view.base.requires_grad):
            raise Unfit
        code.missed_if(" or ".join(f"a{j}.requires_grad" for j in range(len(tensors))))
        code.missed_if("a0._view is not None and a0._view.base.requires_grad")

    def _target(self) -> None:
        """The base, the write before, and what the target's payload remembers, as the write found them."""
        code, target, seen = self.code, self.target, self.found
        code.add("d0 = a0._data")
        code.missed_if("type(d0) is not LazyPayload or a0._storage is None or a0._storage.is_inference")
        code.add("s0 = d0.storage")
        code.lies(0, target)
        code.add("b0 = s0.value")
        code.source(0, "b0", seen.value, True)
        if not target.path:
            return
        if seen.memo is None:
            code.missed_if("d0._generation == s0.generation")
        else:
            code.missed_if("d0._generation != s0.generation")
            code.add("v0 = d0._memo")
            code.missed_if("v0 is None")
            code.source(0, "v0", seen.memo, True)
        joins = "b0.cell is None and u is not None and u[0] == d0.path and u[2] is b0"
        code.add("u = s0.update")
        if seen.joins(target):
            code.unless(joins)
            code.add("w0 = u[1]")
            code.source(0, "w0", seen.update[1], True)
        else:
            code.missed_if(joins)

    def _put(self) -> None:
        """What `Lazy.put` does."""
        code, target, storage = self.code, self.target, self.storage
        whole = code.result(storage.value)
        if self.found.value.cell is not None:
            code.add("s0.settled = ref(b0)")
        code.add(f"s0.value = {whole}", "s0.generation += 1", "trace.storages[id(s0)] = ref(s0)")
        if target.path:
            assert target._memo is not None and storage.update is not None
            before = "w0" if self.found.joins(target) else "b0"
            code.add(f"s0.update = ({code.name(target.path)}, {before}, {whole})")
            code.add(f"d0._memo, d0._generation = {code.result(target._memo)}, s0.generation")
        code.add("m = a0._storage", "m.version = version = m.version + 1", "m.written = (version, mark)")
