"""Inline caches of operator calls: the walk's layers below the transforms, and the back end, at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.lazy.composites import Composite, History
from weft.lazy.device import LazyDevice
from weft.lazy.inline.arguments import ask_for
from weft.lazy.inline.history import HistoryWriter, described
from weft.lazy.inline.writer import Unfit, Writer
from weft.lazy.recorded import Recorded
from weft.lazy.states import Point
from weft.lazy.trace import ENOUGH
from weft.lazy.values import Node
from weft.ops.op import Op
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor

Args = tuple[Any, ...]


def learn(
    device: LazyDevice, at: Point, op: Op, args: Args, results: Any, composite: Composite | None
) -> Callable[..., Any]:
    """The cache of a call that has just appended entries to the trace. at: where that stood before; composite: as it
    was replayed, if it was. Raises Unfit.
    """
    return _Call(device, at, op, args, results, composite).function()


class _Call:
    def __init__(
        self, device: LazyDevice, at: Point, op: Op, args: Args, results: Any, composite: Composite | None
    ) -> None:
        trace = device.trace
        self.op, self.args, self.grad = op, args, modes.grad
        self.entry: Node = trace.nodes[-1]
        if self.entry.position >= ENOUGH or op.effect not in ("pure", "raises"):
            raise Unfit
        if any([kind.is_symbolic for kind in self.entry.types]):
            raise Unfit
        self.code = Writer("inline(args)", device, at)
        self.tensors: list[Tensor] = []
        self.history = HistoryWriter(self.code, self.tensors)
        is_replayed = composite is not None and composite.calls is self.entry.op
        if type(self.entry.op) is Recorded and not is_replayed:
            raise Unfit
        if isinstance(results, tuple) and any(isinstance(r, tuple) for r in results):  # (lists of tensors among them)
            raise Unfit
        self.results = tuple(results) if isinstance(results, tuple) else results
        self.composite = composite if is_replayed else None

    def function(self) -> Callable[..., Any]:
        """The cache."""
        code = self.code
        code.missed_if(f"local.grad is not {self.grad}")
        code.add("".join(f"x{i}_, " for i in range(len(self.args))) + "= args")
        code.begin()
        self._arguments()
        history = self._found()
        if self.grad:
            self.history.ask()
            if history.nodes:
                self.history.saving(history)
        self._append()
        self._tensors(history)
        self.history.nodes(history)
        results = history.results
        code.add(f"return t{results}" if type(results) is int else f"return ({''.join(f't{k}, ' for k in results)})")
        return code.function()

    def _found(self) -> History:
        """What autograd makes of the call. (A composite with formulas of its own is opened below autograd.)"""
        outputs = self.results if type(self.results) is tuple else (self.results,)
        is_below = self.composite is not None and not self.composite.nodes and any([t.requires_grad for t in outputs])
        if self.composite is None or is_below:
            return described(self.tensors, self.results, self.entry)
        return self.composite

    # ---- arguments
    def _arguments(self) -> None:
        for i, a in enumerate(self.args):
            ask_for(self.code, f"x{i}_", a, self.tensors)
        read = self._read()
        for j, tensor in enumerate(self.tensors):
            self.code.operand(j, tensor._data, f"a{j}._data", j in read)

    def _read(self) -> set[int]:
        """The operands that the entry reads."""
        if self.composite is None:
            return set(range(len(self.tensors)))
        return set(self.composite.calls.used)

    # ---- the entry
    def _append(self) -> None:
        code = self.code
        code.adds_views_and_one()
        if type(self.entry.op) is Recorded:
            code.add(f"calls[{code.name(self.op)}] += 1")
        elif self.entry.op is not self.op:
            raise Unfit
        code.append()

    def _tensors(self, history: History) -> None:
        code, kinds = self.code, self.entry.types
        for index, kind in enumerate(kinds):
            code.value(f"r{index}", kind, index)
        for k, tensor in enumerate(history.tensors):
            if tensor.turn is not None and tensor.turn >= 0:
                code.tensor(k, f"r{tensor.turn}", kinds[tensor.turn], tensor.order)
            elif tensor.turn is not None:
                raise Unfit
            elif tensor.base >= 0:
                code.shown(k, f"t{tensor.base}._storage", *self._view(tensor.path, tensor))
                code.add(f"t{k}._storage = t{tensor.base}._storage")
            else:
                j = ~tensor.base
                path = self.tensors[j]._data.path + tensor.path
                code.shown(k, f"s{j}", *self._view(path, tensor))
                code.add(f"t{k}._storage = a{j}.storage()")

    def _view(self, path: Any, tensor: Any) -> tuple[str, Any, str, str]:
        code = self.code
        return code.name(path), tensor.type, code.name(tensor.geometry), "None"
