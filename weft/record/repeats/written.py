"""What iterations write in place: a tensor of the function's own as a whole (`y += v`), or its rows one after the other
(`path[t] = y`). Within a loop the former is a value that is handed on, and the latter is what iterations give: the
memory has it when the loop is recorded. Until then nobody sees it: who asks for it ends the loop first.
"""

from __future__ import annotations

import copy
from collections.abc import Container, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from weft.autograd.node import OpNode
from weft.autograd.saved import SavedTensor
from weft.autograd.views import CopySlices
from weft.ops.packet import aten
from weft.ops.rules import same_dims
from weft.record.repeats.pending import PendingState
from weft.record.symbolic import SymbolicPayload, SymbolicStorage
from weft.tensor.backend import type_of
from weft.tensor.history import AutogradState
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import shape_env
from weft.types.tensor_type import TensorType

if TYPE_CHECKING:
    from weft.ir.graph import Value
    from weft.record.capture import Capture
    from weft.record.repeats.iteration import Call

COPY = aten.copy.default.op


class NoIteration(Exception):
    """The calls do not repeat in a way that a loop can have."""


class Target(NamedTuple):
    """What an in-place call writes. base: the tensor whose memory it is; before: what that showed, with the history
    that it had; version: that of its memory then; node: the history that it had afterwards."""

    base: Tensor
    before: Tensor
    version: int
    node: Any

    def written(self) -> Target:
        """The same, behind the call."""
        state = self.base._autograd
        return self._replace(node=None if state is None else state.node)


def target_of(capture: Capture, tensor: Tensor) -> Target | None:
    """What an in-place call is about to write, where a loop can have that: memory that lies row-major and that the
    function made, shown by a tensor without hooks."""
    base = tensor if tensor._view is None else tensor._view.base
    data = base._data
    if type(base) is not Tensor or type(data) is not SymbolicPayload or data.path or base._view is not None:
        return None
    storage, state = data.storage, base._autograd
    if type(storage) is not SymbolicStorage or storage is not base._storage or storage is not tensor._storage:
        return None
    if storage.is_outside or storage.doubles or storage.goes_on or storage.is_inference or not storage.is_row_major:
        return None
    if storage.questions or storage.partner is not None:
        return None
    if state is not None and (state.requires_grad or state.hooks or state.retains_grad or not modes.grad):
        return None
    before = capture.tensors.fresh(storage.value)
    before._autograd = copy.copy(state)
    return Target(base, before, storage.version, None)


class Written:
    """Memory that each iteration writes. base: the tensor that shows it; begin: before the first iteration; numbers:
    those of the results that are written; row: the result that shows the row which is written, None for the whole;
    version: that of the memory behind the iterations that were recorded."""

    def __init__(self, begin: Target, row: int | None) -> None:
        self.begin, self.base, self.row = begin, begin.base, row
        self.storage: SymbolicStorage = self.base._storage
        self.version = self.storage.version
        self.numbers: list[int] = []
        self._state: AutogradState | None = None

    @property
    def type(self) -> TensorType:
        """The type of the value that it has now: sizes may be said otherwise than the tensor says them."""
        return self.storage.value.tensor_type

    # ---- while iterations are predicted
    def await_end(self, loop: Any) -> None:
        """Let whoever asks for its value, or its history, end the loop first."""
        self.storage.generation += 1  # (what views have read before is not asked for again)
        self.storage.__class__ = type("AwaitedStorage", (AwaitedStorage,), {"loop": loop, "__slots__": ()})
        self._state = self.base._autograd
        if self._state is not None:
            self.base._autograd = AwaitedState(loop, self.base)

    def resume(self) -> None:
        """It shows again what was recorded of it."""
        if type(self.storage) is not SymbolicStorage:
            self.storage.__class__ = SymbolicStorage
            if type(self.base._autograd) is AwaitedState:
                self.base._autograd = self._state
            self.storage.version = self.version

    # ---- when they are recorded
    def take_back(self, capture: Capture) -> None:
        """Be as before the first iteration."""
        before = self.begin.before
        capture.writes.forget_writes([(self.storage, self.begin.version)], capture.writes.written)
        self.storage.replace(before._data.storage.value)
        self.base._autograd = copy.copy(before._autograd)
        self.version = self.begin.version

    def put(self, capture: Capture, value: Tensor, times: int = 1) -> None:
        """Let the memory have a value, behind so many writes."""
        self.raise_version(capture, times - 1)
        capture.tensors.store(self.base, self.base._data, capture.tensors.operand(value))
        history = value._autograd
        if history is not None:
            self.base._autograd = AutogradState(False, history.node, history.index)
            capture.note_history(self.base)

    def shown(self, capture: Capture) -> Tensor:
        """The value that it has now, as a tensor of its own with the same history."""
        out = capture.tensors.fresh(self.storage.value)
        out._autograd = copy.copy(self.base._autograd)
        return out

    def raise_version(self, capture: Capture, times: int) -> None:
        """Count so many writes."""
        for _ in range(times):
            capture.writes.note_write(self.storage)
            self.storage.version += 1


class OwnWrite(NamedTuple):
    """A write of a tensor that the iteration itself has made. of: the result that it was; version: that it has then."""

    of: int
    version: int


class AwaitedStorage(SymbolicStorage):
    """Memory that predicted iterations write: whoever asks for its value ends them."""

    __slots__ = ()
    loop: ClassVar[Any]

    @property
    def value(self) -> Value:  # type: ignore[override]
        """The value behind the loop."""
        self.loop.capture.repeats.end()
        value: Value = self.value
        return value


class AwaitedState(PendingState):
    """The history of a tensor that predicted iterations write: it is what it has behind the loop."""

    def __init__(self, loop: Any, base: Tensor) -> None:
        self.loop, self.base = loop, base

    def _recorded(self) -> AutogradState:
        self.loop.capture.repeats.end()
        state = self.base._autograd
        assert state is not None
        return state


def own_writes(capture: Capture, iterations: Sequence[Sequence[Call]]) -> dict[int, OwnWrite]:
    """The writes of tensors that the iteration itself has made, by the number of the call's result. Raises NoIteration
    where a view was made before, which shows them too, or a backward needs what was there."""
    writes: dict[int, OwnWrite] = {}
    each_outs = [[out for call in calls for out in call.outs] for calls in iterations]
    written = {i for i, call in _by_result(iterations[0]) if call.write is not None}
    number = 0
    for calls in zip(*iterations, strict=True):
        if calls[0].write is not None and calls[0].args[0] is calls[0].write.base:
            of = {_first(outs, call.args[0]) for outs, call in zip(each_outs, calls, strict=True)}
            first = of.pop()
            if not of and first not in written:
                earlier = each_outs[-1][:number]
                if any(out is not calls[-1].out and out._storage is calls[-1].out._storage for out in earlier):
                    raise NoIteration("writes what a view shows")
                _check_type(capture, calls[-1], False)
                writes[number] = OwnWrite(first, 1 + sum(write.of == first for write in writes.values()))
        number += len(calls[0].outs)
    if not writes:
        return writes
    storages = {id(outs[write.of]._storage) for outs in each_outs for write in writes.values()}
    for saved in (s for calls in iterations for call in calls for s in kept_by(call)):
        storage = _storage_of(saved)
        if id(storage) in storages and saved.version != storage.version:
            raise NoIteration("keeps for a backward what is written")
    return writes


def _by_result(calls: Sequence[Call]) -> Iterator[tuple[int, Call]]:
    return enumerate(call for call in calls for _ in call.outs)


def _first(outs: Sequence[Tensor], value: Any) -> int:
    return next(i for i, out in enumerate(outs) if out is value)


def written_in(
    capture: Capture, iterations: Sequence[Sequence[Call]], own: Container[int]
) -> dict[int, Written]:
    """What iterations write of what was there before, by the id of its storage. own: the writes of others. Raises
    NoIteration where it is another tensor in each, or is written in a way that a loop cannot have."""
    writes: dict[int, Written] = {}
    number = 0
    for calls in zip(*iterations, strict=True):
        begin = calls[0].write
        if begin is not None and number not in own:
            if any(call.write is None or call.write.base is not begin.base for call in calls):
                raise NoIteration("writes another tensor in each iteration")
            is_row = calls[0].args[0] is not begin.base
            row = _row_written(iterations[-1], number) if is_row else None
            written = writes.setdefault(id(begin.base._storage), Written(begin, row))
            if (is_row and written.numbers) or (written.row is None) is is_row:
                raise NoIteration("writes parts of a tensor")
            _check_type(capture, calls[-1], is_row)
            if not is_row and written.type is not written.begin.before._data.type:
                raise NoIteration("a value changes its type")
            written.numbers.append(number)
        number += len(calls[0].outs)
    kept = (saved for calls in iterations for call in calls for saved in kept_by(call)) if writes else ()
    if any(id(_storage_of(saved)) in writes for saved in kept):
        raise NoIteration("keeps for a backward what is written")
    return writes


def _row_written(calls: Sequence[Call], number: int) -> int:
    """The result that shows what a call writes, by the number of that call's result."""
    outs = [out for call in calls for out in call.outs]
    for at in reversed(range(number)):
        if outs[at] is outs[number]:
            return at
    raise NoIteration("writes a view from before the iteration")


def _check_type(capture: Capture, call: Call, is_row: bool) -> None:
    """Raises NoIteration where what a call computes is not of the type of what it writes."""
    op, args, kind = call.op, call.args, call.args[0]._data.type
    with shape_env.using(capture.env):
        if is_row:
            if op is not COPY or not isinstance(args[1], Tensor) or not _are_like(args[1].type_, kind):
                raise NoIteration("writes a row with another operator than a copy")
        elif op.type is None or op.decompose is not None or op.opens_above_autograd:
            raise NoIteration("writes with a composite")
        elif not _are_like(op.type(*[type_of(a) for a in args]), kind):
            raise NoIteration("writes a value of another type")


def _are_like(a: TensorType, b: TensorType) -> bool:
    """Whether types are the same for all sizes that the program serves."""
    return a.dtype is b.dtype and same_dims(a.shape, b.shape)


def kept_by(call: Call) -> Iterator[SavedTensor]:
    """What a call keeps for its backward."""
    states = [out._autograd for out in call.outs]
    nodes = [state.node for state in states if state is not None] if call.write is None else [call.write.node]
    for node in nodes:
        inner = node.inner if type(node) is CopySlices else node
        if isinstance(inner, OpNode):
            yield from _saved_in(inner.saved_values)


def storages_kept(call: Call) -> Iterator[Any]:
    """The memory of what a call keeps for its backward."""
    return map(_storage_of, kept_by(call))


def _storage_of(saved: SavedTensor) -> Any:
    return saved.storage if saved.leaf is None else saved.leaf._storage


def _saved_in(values: Any) -> Iterator[SavedTensor]:
    if type(values) is SavedTensor:
        yield values
    elif type(values) is tuple:
        for each in values:
            yield from _saved_in(each)
