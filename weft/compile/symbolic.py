"""Symbolic tensors: a storage that holds the current graph value of its base, and views of it as paths that are replayed on reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.ir.graph import Value, map_operand, values_in
from weft.ops.geometry import Geometry, contiguous
from weft.support.errors import CaptureError
from weft.support.locations import user_location
from weft.tensor.payload import Payload
from weft.types.shape_env import ShapeEnv, ShapeGuard
from weft.types.tensor_type import TensorType

if TYPE_CHECKING:
    from weft.compile.capture import Capture
    from weft.ir.builder import Builder
    from weft.ops.op import Op

Path = tuple[tuple["Op", tuple[Any, ...], int], ...]
Order = tuple[int, ...]  # dims from the outermost in memory to the innermost


class SymbolicStorage:
    """The base of a family of aliases: its graph value now. A write makes a new value; `generation` tells readers to look again.

    `geometry` is how the base lies in memory as the user sees it: dense in the order `order` of its dims (None: row-major), or with a caller's gaps.
    `questions` are guards that matter only if an alias is written.
    """

    __slots__ = (
        "__weakref__",
        "builder",
        "capture",
        "depth",
        "generation",
        "geometry",
        "is_row_major",
        "order",
        "param",
        "partner",
        "questions",
        "slot",
        "type",
        "value",
        "version",
    )

    def __init__(self, capture: Capture, value: Value, type: TensorType, geometry: Geometry | None = None) -> None:
        self.capture, self.value, self.type = capture, value, type
        self.builder, self.depth = capture.builder, capture.depth  # the block that the storage belongs to
        self.is_row_major = geometry is None
        self.geometry = geometry if geometry is not None or not type.is_complete else contiguous(type.shape)
        self.order: Order | None = None
        self.version = 0
        self.generation = 0
        self.slot: Any = None
        self.param: int | None = None
        self.questions: list[ShapeGuard] = []
        self.partner: SymbolicStorage | None = None

    def set(self, value: Value) -> None:
        """Replace the base's value after a write."""
        self.value = value
        self.generation += 1
        self.ask()

    def ask(self) -> None:
        """A write makes the open questions about aliasing (of this storage and of the one it was copied from) into guards."""
        for storage in (self, self.partner):
            if storage is None:
                continue
            for guard in storage.questions:
                storage.capture.env.guards.setdefault(guard.relation, guard)
            storage.questions.clear()

    def silent_alias(self) -> SilentStorage:
        """The same bytes under a version counter of their own (Tensor.data)."""
        return SilentStorage(self)


class SilentStorage:
    """What `.data` holds: writes reach the base's value, its version counter stays."""

    __slots__ = ("target", "version")

    def __init__(self, target: SymbolicStorage) -> None:
        self.target, self.version = target, 0


class SymbolicPayload(Payload):
    """A view of a symbolic storage (the empty path is the base itself)."""

    __slots__ = ("_generation", "_geometry", "_memo", "path", "permuted", "storage", "type")

    def __init__(self, storage: SymbolicStorage, path: Path, type: TensorType, geometry: Geometry | None = None) -> None:
        self.storage, self.path, self.type = storage, path, type
        self._geometry = geometry if path else storage.geometry
        self.permuted: bool | None = None  # compile/layout.py says, once
        self._memo: Value | None = None
        self._generation = -1

    @property
    def env(self) -> ShapeEnv:
        return self.storage.capture.env

    @property
    def is_spent(self) -> bool:
        """Whether the capture has ended."""
        return self.env.is_over

    @property
    def is_laid_out(self) -> bool:
        """Whether dims and strides are known."""
        return self._geometry is not None

    def geometry(self) -> Geometry:
        """Dims and strides as the user sees them."""
        assert self._geometry is not None
        return self._geometry

    def offset(self) -> Any:
        """The place of the first element in the storage: of an argument's, all of which matters then."""
        if self.storage.param is not None and self.storage.slot is None:
            self.storage.capture.by_memory.add(self.storage.param)
        return self.geometry().offset

    def read(self) -> Value:
        """The graph value now."""
        storage = self.storage
        again = storage.capture.values
        if again and (storage.value in again or any(v in again for _, args, _ in self.path for v in values_in(args))):
            return self._replayed(map_operand(storage.value, again), storage.capture.builder, again)
        if not self.path:
            return storage.value
        if self._generation != storage.generation or self._memo is None:
            # views are replayed where the base lives, so that every block that sees the base sees them
            self._memo, self._generation = self._replayed(storage.value, storage.builder, {}), storage.generation
        return self._memo

    def _replayed(self, value: Value, builder: Builder, values: dict[Value, Any]) -> Value:
        for op, args, index in self.path:
            value = builder.emit(op, (value, *map_operand(args, values))).outputs[index]
        return value

    def item(self) -> Any:
        """Refused: there is no value yet."""
        raise CaptureError(self._text("its value (.item(), int(), float(), bool() or `if tensor`)"))

    def materialize(self, what: str) -> Any:
        """Refused: there are no bytes yet."""
        raise CaptureError(self._text(what))

    def _text(self, what: str) -> str:
        where = user_location(3)
        at = f"{where}: " if where else ""
        if self.env.is_over:
            return (
                f"{at}a tensor of type {self.type} was made while {self.storage.capture.root.name} was captured, and something kept it beyond the call (a cache, "
                "a global that C code writes). It stands for a value inside that program: return it from the compiled function, or make it outside"
            )
        return (
            f"{at}a compiled function asks a tensor of type {self.type} for {what} while it is being captured. The value is only known when the "
            "program runs: use weft.cond, weft.while_loop or weft.where, or move this line out of the compiled function."
        )
