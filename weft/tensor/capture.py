"""What the capture that is active on a thread answers to the rest of weft: layers, tensors, autograd,
modules and optimizers ask it no more than this.

`modes.capture` is one of these while a function is captured, else None. weft/compile has the only implementation,
and nothing outside of it reads anything else (tests/test_capture_protocol.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cache
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from weft.support.errors import CaptureError
from weft.tensor.modes import modes

if TYPE_CHECKING:
    from weft.ops.op import Op
    from weft.runtime.generator import Place
    from weft.tensor.backend import Backend
    from weft.tensor.payload import Payload
    from weft.tensor.tensor import Tensor

R = TypeVar("R")


class InPlace(NamedTuple):
    """The in-place form of an operator."""

    op: Op


@cache
def in_place(op: Op) -> InPlace:
    """The in-place form of an operator: one object for each."""
    return InPlace(op)


ROW: Final = "row"  # what the items of a loop are: the rows of a tensor, its numbers, or tuples of both


class Index(NamedTuple):
    """The numbers of a loop, from the first one on. Counted down (a step of -1) the first one is a size."""

    begin: Any
    step: int = 1


class CapturedGradients(Protocol):
    """`.grad` of leaves, as the captured function sees it."""

    def grad_of(self, tensor: Tensor) -> Tensor | None:
        """`tensor.grad`."""

    def set_grad(self, tensor: Tensor, value: Tensor | None) -> None:
        """`tensor.grad = value`."""

    def zero_grad(self, tensor: Tensor) -> bool:
        """Set `.grad` to zero if there is one. False where that is an ordinary write, which the caller makes."""

    def accumulate(self, variable: Tensor, gradient: Tensor) -> None:
        """`variable.grad += gradient`."""


class ConcreteTensors(Protocol):
    """Tensors that exist outside of the function: what it may do with them, and what it must be told."""

    def is_outside(self, tensor: Tensor) -> bool:
        """Whether a tensor exists outside of the function and is none of its arguments: it has bytes,
        or its inner tensors have."""

    def payload_of(self, tensor: Tensor) -> Payload:
        """What the program has for a tensor with bytes: one from outside is an input from now on."""

    def note_class(self, kind: type[Tensor]) -> None:
        """An object of a class derived from Tensor takes part: what the class makes of operators and functions is part
        of the program."""

    def refuse_value(self, tensor: Tensor, what: str) -> None:
        """Raises CaptureError where `what` asks a tensor for a value that later calls change."""

    def refuse_elements(self, what: str) -> None:
        """Raises CaptureError: Python reads or writes elements of a storage without a tensor."""

    def may_reshape(self, tensor: Tensor, what: str) -> None:
        """The method `what` is about to change the shape or strides of a tensor. Raises CaptureError for one from
        outside that is no argument."""

    def note_inplace_view(
        self, tensor: Tensor, what: str, args: tuple[Any, ...], options: Mapping[str, Any]
    ) -> None:
        """It has: what the caller gave will be changed in the same way."""

    def refuse_reshaping(self, tensor: Tensor, what: str) -> None:
        """Raises CaptureError where the method `what` would change the shape or strides of a tensor from outside."""

    def keeps_data(self, tensor: Tensor, value: Tensor) -> bool:
        """Whether `tensor.data = value` leaves a tensor from outside the memory that it has.
        Raises CaptureError if it would have other memory."""

    def note_alias(self, alias: Tensor, source: Tensor) -> None:
        """A detached tensor was made of another."""

    def note_asked(self, tensor: Tensor) -> None:
        """The function is about to know requires_grad of a tensor, which nothing need be computed of."""

    def note_flag(self, tensor: Tensor, flag: bool) -> None:
        """requires_grad of a tensor is about to be set. Raises CaptureError where whether it is would hang on a
        value."""

    def note_hooks(self, tensor: Tensor) -> None:
        """A hook is about to be registered. Raises CaptureError where whether there is one would hang on a value."""

    def note_wrapper(self, wrapper: Tensor) -> None:
        """A wrapper's class is about to be asked for an operator: what the wrapper is made of is guarded,
        for the class is not asked again."""

    def note_write(self, storage: Any) -> None:
        """A version counter is about to be raised by something that the function does not record."""

    def has_written(self, storage: Any, version: int = 0) -> bool:
        """Whether the function itself wrote a storage since it had that version."""


class PythonState(Protocol):
    """Python's own state that the program depends on."""

    def lift(self, container: Any, key: Any, name: str, index: int | None = None) -> Any:
        """A number of a container (item `index` of a tuple in it) as an input of the program;
        what is no number as it is."""

    def guard(self, key: Any, describe: Callable[[], str], check: Callable[[], bool], renewal: Any = None) -> None:
        """The program holds only while `check()` does; `describe()` then says what changed."""

    def keep(self, value: Any) -> None:
        """Keep an object alive as long as the program."""

    def note_rows(self, size: Any, frame: FrameType) -> None:
        """Python goes over the rows of a tensor, perhaps in a function that is called on this frame. Raises Restart if
        that can be a loop of a size."""

    def note_length(self, frame: FrameType) -> None:
        """A size is made a plain integer by `len`, perhaps called on this frame. Raises Restart if that can be
        avoided."""


class RepeatedCalls(Protocol):
    """Calls of operators that may repeat, as those of a loop of Python's do.

    call: to be set to an operator, or to its in-place form, and the arguments before `predicted` is asked. predicted:
    gives the call's result, where it is the one that was expected, or nothing.
    """

    call: tuple[Op | InPlace, tuple[Any, ...]] | None
    predicted: Iterable[Any]

    def run(self, function: Callable[[Op, tuple[Any, ...]], Any], op: Op, args: tuple[Any, ...]) -> Any:
        """Run a call of an operator that was not predicted, and note it."""

    def over(self, size: Any, frame: FrameType, item: Any, make: Callable[[int], Any]) -> Iterator[Any] | None:
        """What a `for` statement that begins on this frame goes over, with as many items as a size says; None where it
        is one of so many iterations. item: what its items are (Index, ROW); make: makes one by its number."""


class ActiveCapture(Protocol):
    """The capture that is active on a thread."""

    @property
    def repeats(self) -> RepeatedCalls:
        """The calls of operators so far."""

    @property
    def backend(self) -> Backend:
        """What records operators."""

    @property
    def gradients(self) -> CapturedGradients:
        """`.grad` of leaves."""

    @property
    def outside(self) -> ConcreteTensors:
        """Tensors that exist outside of the function."""

    @property
    def python_state(self) -> PythonState:
        """What the program depends on beside tensors."""

    def call(self, function: Callable[..., R], *args: Any) -> R:
        """Call machinery of weft's: the user's frames alone are watched, and its errors get the user's line."""

    def explained(self, function: Callable[..., R], *args: Any) -> R:
        """The same within code that is not watched."""

    def written(self, function: Callable[[Op, tuple[Any, ...]], Any], op: Op, args: tuple[Any, ...]) -> Any:
        """Run an in-place operator."""

    def detached(self, tensor: Tensor, make: Callable[[], Tensor]) -> Tensor:
        """What `tensor.detach()` gives, which `make` makes."""

    def expect_history(self, args: tuple[Any, ...], node: Any) -> None:
        """A call with these arguments is about to be recorded that has a history: its node."""

    def note_view(self, op: Any, args: tuple[Any, ...], node: Any, out: Any) -> None:
        """This view operator gave views with this history."""
        ...

    def note_history(self, out: Any) -> None:
        """What a call gave, or wrote, has a new history."""

    def note_function(self, node: Any, inputs: list[Tensor], outputs: list[Any]) -> None:
        """A custom Function was called with these tensors, and has this node."""

    def with_hooks(self, node: Any, grads: list[Any], run: Callable[[Any, list[Any]], None]) -> None:
        """Run hooks of a node, or of its tensors, on the gradients that have arrived, which they may change."""

    def note_renewal(self, view: Tensor) -> None:
        """The history of a view is about to be brought up to date with its base's."""

    def specialized(self, op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Bound arguments; numbers whose value decides what is computed (`Op.specialize`) are Python's, and guarded."""

    def at_one_line(self) -> AbstractContextManager[None]:
        """Within the block only code of weft's own runs: the user's line is looked for once."""

    def paused(self) -> AbstractContextManager[None]:
        """Compute for real within a block."""

    def on_roll_back(self, undo: Callable[[], None]) -> None:
        """Call `undo` should the capture fail."""

    def hooks(
        self, table: dict[int, Callable[..., Any]], caller: Callable[..., Any], replaced: int | None
    ) -> list[Callable[..., Any]]:
        """The hooks of a table; for those that the program calls when it runs, what records the call.
        caller: what calls a hook, and looks at what it returns; replaced: the argument whose place that takes."""

    def call_rule(self, node: Any, rule: Callable[..., Any], grads: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Record the call of a custom Function's backward: its gradients for the node's edges. None for one that is
        traced."""

    def call_forward(self, function: Any, ctx: Any, args: tuple[Any, ...]) -> Any:
        """Record the call of a custom Function's forward: its outputs. None for one that is traced."""

    def keep_random_state(self, tensor: Tensor, place: Place) -> None:
        """The tensor says where a generator stands."""

    def marks_of_generators(self, left_out: Any) -> list[Any]:
        """What changes where the function draws from its generators, one of them left out."""

    def refuse_draws(self, what: str) -> None:
        """Raises: the function runs as it is written, since it draws as no program can."""

    def refuse(self, what: str) -> CaptureError:
        """The error for what a compiled function may not do, with the user's line."""


def refuse_in_capture(what: str) -> None:
    """Raises CaptureError, with the user's line, while a function is captured: it may not do this."""
    capture = modes.capture
    if capture is not None:
        raise capture.refuse(what)
