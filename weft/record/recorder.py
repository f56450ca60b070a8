"""Where nodes go: the builder of the innermost open block, the values of its blocks, and the user's line that a node or
an error comes from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Protocol

from weft.ir.builder import Builder
from weft.ir.graph import Node, Operand, Value, map_operand
from weft.ops.op import Op
from weft.passes.stop_gradients import is_without_some
from weft.record.histories import Histories
from weft.record.miss_text import LOCATED
from weft.runtime.generator import captured_by
from weft.support.errors import CaptureError, WeftError
from weft.support.locations import Location, is_internal, user_location
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types import shape_env
from weft.types.dims import Dim
from weft.types.example_text import with_examples
from weft.types.shape_env import ShapeEnv

_LIBRARY = re.compile(r"[/\\](site-packages|dist-packages|lib[/\\]python\d[\d.]*)[/\\]|^<frozen")


def _raised_at(error: BaseException) -> Location | None:
    """The user's line that led to an error: the innermost frame of its traceback that is neither weft's nor a
    library's.
    """
    place, step = None, error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if not is_internal(file) and not _LIBRARY.search(file):
            place = Location(file, step.tb_lineno)
        step = step.tb_next
    return place


class Scope(Protocol):
    """The memory that a block writes while it is recorded (blocks/memory.py)."""

    def note(self, target: Tensor, payload: Any) -> None:
        """A tensor is about to be written."""

    def keep_history(self, tensor: Tensor) -> None:
        """Behind the block a tensor has the history that it has now."""

    def undo(self) -> None:
        """Memory as it was before the block."""


class Reads(Protocol):
    """What answers Python where it asks for values of tensors (numbers/value_reads.py)."""

    def read(self, payload: Any) -> Any:
        """The only element of a tensor."""

    def decide(self, condition: Operand) -> bool:
        """Whether a condition holds."""


class GraphRecorder:
    """The graph of a capture as it grows.

    builder: of the innermost open block; root: the one that has the parameters; depth: how many blocks are open.
    values: in the backward of a block, what stands for the values of the forward one. lengths: by the number of steps
    of a loop, how many rows it stacks. run_time: symbols bound while the program runs, of which a 0-dim value is known.
    by_memory: parameters that as_strided looks at, whose whole memory counts. copied: storages whose copies may share
    memory as they do (deepcopy). refused: the latest question for a value,
    which the function may have swallowed: it then went on as no call would. histories: which operands had none. reads:
    what answers where Python asks for values; None where that is refused. overwritten: what memory held before it was
    written, and when that was, among the numbers of autograd's nodes (of memory from outside: at the end).
    """

    def __init__(self, name: str, env: ShapeEnv) -> None:
        self.env = env
        self.builder = self.root = Builder(name, env)
        self.builder.track_locations = True
        self.depth = 0
        self.open: list[Scope] = []
        self.values: dict[Value, Operand] = {}
        self.lengths: dict[Value, Dim] = {}
        self.run_time: dict[str, Value] = {}
        self.overwritten: dict[Value, int] = {}
        self.by_memory: set[int] = set()
        self.copied: set[Any] = set()
        self.refused: CaptureError | None = None
        self.thread = get_ident()
        self.histories = Histories(lambda: self.values)
        self.end_repeats: Callable[[], None] = lambda: None
        self.reads: Reads | None = None

    def emit(self, op: Op, args: tuple[Any, ...], operands: tuple[Operand, ...]) -> Node:
        """Record a call, and which of its arguments had no history."""
        without = self.histories.expected(args, operands)
        node = self.builder.emit(op, operands, variant=without if without and is_without_some(without) else None)
        if without is not None:
            self.histories.of[node] = without
        return node

    def emit_again(self, builder: Builder, node: Node, values: dict[Value, Operand]) -> Node:
        """Record a call once more, with others for some values."""
        args = tuple([map_operand(a, values) for a in node.args])
        without = map_operand(self.histories.of.get(node), values)
        repeated = builder.emit_like(node, args, variant=without if without and is_without_some(without) else None)
        self.histories.note_copy(repeated, node, values)
        return repeated

    @contextmanager
    def inner(self, block: Scope) -> Iterator[Builder]:
        """Record into a nested block. What it writes of outer memory is undone where it ends."""
        outer, values = self.builder, self.values
        with outer.inner() as inner:
            inner.track_locations = outer.track_locations
            self.builder = inner
            self.depth += 1
            self.open.append(block)
            try:
                yield inner
            finally:
                self.open.pop().undo()
                self.builder, self.values = outer, values
                self.depth -= 1

    @contextmanager
    def outermost(self) -> Iterator[None]:
        """Record before the blocks that are open, what they may all read."""
        before = self.builder, self.depth, self.open, self.values
        self.builder, self.depth, self.open, self.values = self.root, 0, [], {}
        try:
            yield
        finally:
            self.builder, self.depth, self.open, self.values = before

    def length_of(self, trip: Operand) -> Dim:
        """How many rows a loop of so many steps stacks."""
        if not isinstance(trip, Value):
            return trip  # type: ignore[no-any-return]
        length = self.lengths.get(trip)
        if length is None:
            length = self.lengths[trip] = self.env.fresh("u")
        return length

    def raise_swallowed(self) -> None:
        """Raises CaptureError if the function asked for a value and went on when it was refused."""
        if self.refused is not None:
            raise self.refused

    # ---- lines
    @contextmanager
    def at_line(self, where: Location | None) -> Iterator[None]:
        """Nodes made within the block come from this line, or from the one that was said before."""
        builder = self.builder
        before, builder.where = builder.where, builder.where or where
        try:
            yield
        finally:
            builder.where = before

    def explain(self, error: WeftError, where: Location | None) -> None:
        """Put the user's line before the text of an error. What eager mode raises too speaks of sizes; a refusal of the
        capture, of symbols, and says what they stand for."""
        text = str(error)
        if where is None or not error.args or not isinstance(error.args[0], str) or LOCATED.match(text):
            return
        if not isinstance(error, CaptureError):
            error.args = (f"{where}: {with_examples(text, self.env.examples)}", *error.args[1:])
            return
        named = [f"{s} = {n}" for s, n in self.env.examples.items() if re.search(rf"\b{s}\b|{s}x|x{s}", text)]
        meaning = f" (here {', '.join(named)})" if named else ""
        error.args, error.where = (f"{where}: {text}{meaning}", *error.args[1:]), where

    def explain_raised(self, error: WeftError) -> None:
        """The same for an error that reached the end of the capture."""
        self.explain(error, _raised_at(error))


def refusal(what: str, depth: int = 2, kind: type[CaptureError] = CaptureError) -> CaptureError:
    """The error for something that a compiled function may not do, with the user's line."""
    where = user_location(depth)
    error = kind(f"{where}: {what}" if where else what)
    error.where = where
    return error


@contextmanager
def paused() -> Iterator[None]:
    """Compute for real within a block (optimizer state is made this way)."""
    previous = modes.capture
    modes.capture = None
    try:
        with shape_env.using(None), captured_by(None):
            yield
    finally:
        modes.capture = previous
