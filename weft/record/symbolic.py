"""Symbolic tensors: a storage that holds the current graph value of its base, and views of it as paths that are
replayed on reading.
"""

from __future__ import annotations

from collections.abc import Collection
from threading import get_ident
from typing import TYPE_CHECKING, Any, NoReturn

from weft.functionalizer.other_memory import resize_base
from weft.functionalizer.storage import Order, Storage
from weft.functionalizer.view import View
from weft.functionalizer.writes import Path, replay
from weft.ir.graph import Node, Value, map_operand, values_in
from weft.ops.geometry import Geometry, contiguous_strides
from weft.record.writes import ArgumentChange
from weft.support.errors import OR_SPLIT, CaptureError
from weft.support.locations import Location, user_location
from weft.tensor.payload import Payload
from weft.tensor.tensor import Tensor, tensor_around
from weft.types.dims import Dim
from weft.types.relation import ShapeGuard
from weft.types.shape_env import ShapeEnv
from weft.types.sym import wrap
from weft.types.tensor_type import TensorType

if TYPE_CHECKING:
    from weft.ir.builder import Builder
    from weft.ops.op import Op
    from weft.record.recorder import GraphRecorder


class ValueAsked(CaptureError):
    """Somebody asks a tensor for its only number, which the program will know."""


class SymbolicStorage(Storage[Value]):
    """A storage whose base is a value of a graph. builder, depth: the block that it belongs to. slot, param: the input
    that it is, if it is one. doubles: storages that may be the same memory, by a branch that the program chooses when
    it runs; is_stale: one of them was written since. is_written: whether the function wrote it; is_inference:
    whether it made it in inference mode. goes_on: whether a backward goes on from what it holds, instead of back to
    what it held (the offset of a generator).
    """

    __slots__ = (
        "builder", "depth", "doubles", "goes_on", "is_inference", "is_stale", "is_written", "param", "recorder", "slot",
    )

    def __init__(
        self, recorder: GraphRecorder, value: Value, type: TensorType, geometry: Geometry | None = None,
        order: Order | None = None,
    ) -> None:
        super().__init__(value, type, geometry, order)
        self.recorder = recorder
        self.builder, self.depth = recorder.builder, recorder.depth
        self.slot: Any = None
        self.param: int | None = None
        self.doubles: list[SymbolicStorage] = []
        self.is_stale = self.is_written = self.is_inference = self.goes_on = False

    def write(self, value: Value) -> None:
        """Give the base another value."""
        super().write(value)
        self.is_written = True

    def recorded_payload(self, data: SymbolicPayload) -> SymbolicPayload:
        """A payload that shows it as what it is once its value is recorded (repeats/pending.py: some have none yet)."""
        return data

    def may_be(self, other: SymbolicStorage) -> None:
        """Note that both may be the same memory."""
        self.doubles.append(other)
        other.doubles.append(self)

    def part_ways(self) -> None:
        """A write begins: what may be the same memory is not known any more. Raises CaptureError where an input of the
        program may have to be written."""
        for other in self.doubles:
            if other.param is not None or other.slot is not None:
                raise CaptureError(_EITHER.format(where=_here(), what="is written in place"))
            other.is_stale = True

    def refuse_stale(self) -> None:
        """It is about to be read. Raises CaptureError where what may be the same memory was written since."""
        if self.is_stale:
            raise CaptureError(_EITHER.format(where=_here(), what="is read, and the other one was written since"))

    @property
    def is_outside(self) -> bool:
        """Whether it is memory from outside."""
        return self.param is not None or self.slot is not None

    @property
    def has_gaps(self) -> bool:
        """Whether it is an argument whose elements do not lie side by side: the graph has a row-major copy."""
        return (
            self.param is not None and self.slot is None and self.geometry is not None
            and self.geometry.strides != contiguous_strides(self.geometry.dims)
        )

    @property
    def nbytes(self) -> Any:
        """Bytes of the memory. Raises CaptureError for that of an argument, which may show a part of it."""
        if self.param is not None and self.slot is None:
            raise CaptureError(
                f"{_here()}a compiled function asks how many bytes the storage of an argument has, which it may show a "
                "part of; ask outside, and give it the number"
            )
        return wrap(self.bytes_there(), self.recorder.env)

    @property
    def memory(self) -> object:
        """What all storages of the same memory have in common: of one from outside, what that one says."""
        return self if self.slot is None else self.slot.storage.memory

    def data_ptr(self) -> Any:
        """Address of the first byte, which the run knows."""
        return Address(self)

    def as_tensor(self) -> Tensor:
        """A tensor that shows the base."""
        return tensor_around(SymbolicPayload(self, (), self.type))

    def grow(self, shown: Geometry, itemsize: int) -> None:
        """Have as many bytes as a geometry needs. An argument may be a part of a memory that has them: the view that is
        made next asks for it.
        """
        if self.param is None or self.slot is not None:
            super().grow(shown, itemsize)

    def resize(self, nbytes: Dim) -> None:
        """Have so many bytes. Raises CaptureError for the memory of a tensor from outside, and within a block;
        ArgumentChange for an argument's.
        """
        if self.is_outside:
            is_argument = self.slot is None or self.slot.own
            raise (ArgumentChange if is_argument else CaptureError)(
                f"{_here()}a compiled function gives the storage of a tensor that exists outside of it another size; "
                "do so outside, or resize a clone()"
            )
        if self.recorder.depth != self.depth:
            raise CaptureError(
                f"{_here()}a branch or loop body gives the storage of a tensor that was made outside of it another size"
            )
        resize_base(self, Nodes(self.recorder.builder, self.recorder.values), nbytes)

    def keep(self, guard: ShapeGuard) -> None:
        """The program is for calls with this answer."""
        self.recorder.env.guards.setdefault(guard.relation, guard)


class Address:
    """The address of a byte of a symbolic storage: known when the program runs, but for whether it is another one's."""

    __slots__ = ("place", "storage")

    def __init__(self, storage: SymbolicStorage, place: int = 0) -> None:
        self.storage, self.place = storage, place

    def __add__(self, count: int) -> Address:
        return Address(self.storage, self.place + count)

    __radd__ = __add__

    def __eq__(self, other: object) -> bool:
        """Raises CaptureError where a branch decides whether both are the same memory."""
        if isinstance(other, int):
            slot = self.storage.slot
            return slot is not None and bool(slot.storage.address + self.place == other)
        if not isinstance(other, Address):
            return NotImplemented
        if other.storage in self.storage.doubles:
            raise CaptureError(_EITHER.format(where=_here(), what="is asked for its address"))
        return self.storage.memory is other.storage.memory and self.place == other.place

    def __hash__(self) -> int:
        return hash((id(self.storage.memory), self.place))

    def __bool__(self) -> bool:
        return True

    def _refuse(self, *other: object) -> NoReturn:
        raise self.storage.as_tensor()._data._refused("the address of its storage")

    __index__ = __int__ = __str__ = _refuse
    __sub__ = __rsub__ = __mod__ = __floordiv__ = __mul__ = __and__ = __rshift__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse


_EITHER = (
    "{where}a tensor that a branch leaves as another one or as one of its own, which is known when the program runs, "
    "{what}: give the branch a clone() of it"
)


def _here() -> str:
    where = user_location(3)
    return f"{where}: " if where else ""


class Nodes:
    """A recorder of nodes into a block."""

    def __init__(self, builder: Builder, values: dict[Value, Any]) -> None:
        self.builder, self.values = builder, values

    def emit(self, op: Op, args: tuple[Any, ...]) -> tuple[Value, ...]:
        """The results of a new node; `values` stand for arguments."""
        return self.builder.emit(op, (args[0], *map_operand(args[1:], self.values))).outputs

    def type_of(self, value: Value) -> TensorType:
        """The type of a value."""
        return value.tensor_type


class SymbolicPayload(Payload, View[Value]):
    """A view of a symbolic storage."""

    __slots__ = View.SLOTS
    storage: SymbolicStorage

    def __init__(
        self, storage: SymbolicStorage, path: Path, type: TensorType, geometry: Geometry | None = None
    ) -> None:
        View.__init__(self, storage, path, type, geometry)

    @property
    def env(self) -> ShapeEnv:
        return self.storage.recorder.env

    def geometry(self) -> Geometry:
        """Dims and strides as the user sees them."""
        return View.geometry(self)

    def note_inference(self, owner: Tensor) -> None:
        """The owner was made in inference mode."""
        self.storage.is_inference = True

    def offset(self) -> Any:
        """The place of the first element in the storage: of an argument's, all of which matters then."""
        if self.storage.param is not None and self.storage.slot is None:
            self.storage.recorder.by_memory.add(self.storage.param)
        return self.geometry().offset

    def read(self) -> Value:
        """The graph value now."""
        storage, recorder = self.storage, self.storage.recorder
        again = recorder.values
        if not self.path and not again and not storage.is_stale and storage.builder is recorder.builder:
            return storage.value  # as most are
        storage.refuse_stale()
        if again and (storage.value in again or any(v in again for _, args, _ in self.path for v in values_in(args))):
            base: Any = map_operand(storage.value, again)
            value: Value = replay(Nodes(recorder.builder, again), base, self.path)
            return value
        if storage.depth != recorder.depth and any(True for _, args, _ in self.path for _ in values_in(args)):
            # a place that a block has found is not known where the base lives
            return replay(Nodes(recorder.builder, {}), storage.value, self.path)
        if not _is_open(storage.builder, recorder):
            # the block found again what was there before it, and the base lives on outside
            return replay(Nodes(recorder.builder, {}), storage.value, self.path)
        # replayed where the base lives, so that every block that sees the base sees it
        return self.read_with(Nodes(storage.builder, {}))

    def forget_read(self, nodes: Collection[Node]) -> None:
        """Nodes are gone from the graph: what was read before may be their result."""
        if self._memo is not None and self._memo.node in nodes:
            self._memo = None

    def new_storage(self) -> SymbolicStorage:
        """What its aliases share."""
        return self.storage.recorded_payload(self).storage

    def shares_memory(self, other: Any) -> bool:
        """Whether both show the same storage."""
        return isinstance(other, SymbolicPayload) and other.new_storage() is self.new_storage()

    def overlaps(self, other: Any) -> bool:
        """Whether both are blocks of one storage that meet."""
        if isinstance(other, SymbolicPayload):
            other = other.storage.recorded_payload(other)
        return self.storage.recorded_payload(self).meets(other)

    def copy_to(self, out: Tensor, memo: dict[int, Any]) -> None:
        """Give an empty tensor a copy; tensors that share a storage share its copy."""
        shown = self.storage.recorded_payload(self)
        mine = shown.storage
        mine.recorder.copied.add(mine)
        if mine.has_gaps:
            raise self._refused("deepcopy")
        storage = memo.get(id(mine))
        if storage is None:
            storage = SymbolicStorage(mine.recorder, mine.value, mine.type, mine.geometry, mine.order)
            memo[id(mine)] = storage
        out._data = SymbolicPayload(storage, shown.path, shown.type, shown._geometry)
        out._storage, out._autograd, out._view = storage, None, None

    def item(self) -> Any:
        """A number that stands for the value, where the capture takes questions about values; else refused: there is no
        value yet."""
        reads = self.storage.recorder.reads
        if reads is not None and self.storage.recorder.thread == get_ident():
            number = reads.read(self)
            if number is not NotImplemented:
                return number
        raise self._refused("its value (.item(), int(), float(), bool() or `if tensor`)", ValueAsked)

    def materialize(self, what: str) -> Any:
        """Refused: there are no bytes yet."""
        raise self._refused(what)

    def _refused(self, what: str, kind: type[CaptureError] = CaptureError) -> CaptureError:
        where = user_location(2)
        error = kind(self._text(what, where))
        error.where = where
        if self.storage.recorder.thread == get_ident():  # another thread that looks on is refused, the capture goes on
            self.storage.recorder.refused = error
        return error

    def _text(self, what: str, where: Location | None) -> str:
        at = f"{where}: " if where else ""
        if self.env.is_over:
            return (
                f"{at}a tensor of type {self.type} was made while {self.storage.recorder.root.name} was captured, "
                "and something kept it beyond the call (a cache, a global that C code writes). "
                "It stands for a value inside that program: return it from the compiled function, or make it outside"
            )
        return (
            f"{at}a compiled function asks a tensor of type {self.type} for {what} while it is being captured. "
            "The value is only known when the program runs: use weft.cond, weft.while_loop or weft.where, or move "
            f"this line out of the compiled function.{OR_SPLIT}"
        )


def _is_open(builder: Builder, recorder: GraphRecorder) -> bool:
    """Whether a block is still being recorded."""
    at: Builder | None = recorder.builder
    while at is not None and at is not builder:
        at = at.parent
    return at is not None
