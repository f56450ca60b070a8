"""Results of predicted calls: tensors whose type is known, and whose values are recorded when somebody reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from weft.record.symbolic import SymbolicPayload, SymbolicStorage
from weft.tensor.history import AutogradState
from weft.tensor.tensor import Tensor
from weft.types.relation import ShapeGuard

if TYPE_CHECKING:
    from weft.ir.graph import Value
    from weft.record.recorder import GraphRecorder


class Loop(Protocol):
    """What calls were predicted for."""

    def result(self, iteration: int, number: int) -> Tensor:
        """A result of an iteration, recorded now if it was not yet."""


class PendingRecorder:
    """The recorder of a capture, as a storage names it that has no value yet: whoever needs the value asks first
    whether the recorder is its own."""

    def __init__(self, recorder: GraphRecorder) -> None:
        self.__dict__["_recorder"] = recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._recorder, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._recorder, name, value)


class PendingStorage(SymbolicStorage):
    """The memory of one result in one iteration. What all iterations have in common stands in a class of the result's
    (storage_class): an instance has the number of its iteration alone.

    number: that of the result within an iteration. permuted: of the payload that shows it.
    """

    loop: ClassVar[Loop]
    number: ClassVar[int]
    permuted: ClassVar[bool | None]
    iteration: int
    version = generation = 0
    is_inference = is_stale = is_written = goes_on = False
    partner = written = param = slot = None
    doubles: list[SymbolicStorage] = []  # noqa: RUF012 (a slot of the class that this derives from: never written here)

    def __init__(self, iteration: int) -> None:
        self.iteration = iteration

    def recorded(self) -> Tensor:
        """The tensor that the loop's recording has for this one."""
        return self.loop.result(self.iteration, self.number)

    def recorded_payload(self, data: SymbolicPayload) -> SymbolicPayload:
        """What was recorded."""
        payload: SymbolicPayload = self.recorded()._data
        return payload

    @property
    def value(self) -> Value:  # type: ignore[override]
        """The graph value, recorded now."""
        value: Value = self.recorded()._data.read()
        return value

    @property
    def questions(self) -> list[ShapeGuard]:  # type: ignore[override]
        """Those of what was recorded."""
        questions: list[ShapeGuard] = self.recorded()._data.storage.questions
        return questions

    @property
    def memory(self) -> object:
        """That of what was recorded."""
        return self.recorded()._data.storage.memory


class PendingState(AutogradState):
    """The history of such a tensor."""

    def __init__(self, storage: PendingStorage) -> None:
        self.storage = storage

    @property
    def node(self) -> Any:
        """The node, recorded now."""
        return self._recorded().node

    @property
    def index(self) -> int:  # type: ignore[override]
        """Which of the node's results it is."""
        return self._recorded().index

    def _recorded(self) -> AutogradState:
        state = self.storage.recorded()._autograd
        assert state is not None
        return state


def storage_class(loop: Loop, number: int, data: SymbolicPayload, version: int = 0) -> type[PendingStorage]:
    """The class of a result that is like `data`. version: how often it was written."""
    storage, is_base = data.storage, not data.path
    return type("PendingStorage", (PendingStorage,), {
        "loop": loop, "number": number, "permuted": data.permuted, "version": version,
        "recorder": PendingRecorder(storage.recorder), "builder": storage.builder, "depth": storage.depth,
        "type": data.type, "geometry": data.geometry(), "order": storage.order if is_base else None,
        "is_row_major": is_base and storage.is_row_major,
    })


def take_recorded(tensor: Tensor) -> None:
    """Let a tensor be what was recorded for it, if it was pending."""
    storage = tensor._storage
    if isinstance(storage, PendingStorage):
        recorded = storage.recorded()
        tensor._data, tensor._storage, tensor._view = recorded._data, recorded._storage, recorded._view
        if type(tensor._autograd) is PendingState:  # (not where it became a leaf since, or shows it without history)
            tensor._autograd = recorded._autograd


def make_pending(tensor: Tensor, storage: PendingStorage) -> None:
    """Let a tensor have a value that is recorded when somebody reads it."""
    has_history = tensor._autograd is not None
    data = tensor._data = SymbolicPayload(storage, (), storage.type)
    data.permuted = storage.permuted
    tensor._storage, tensor._view = storage, None
    tensor._autograd = PendingState(storage) if has_history else None
