"""A level of the transform stack, and the wrapper that marks which tensors belong to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from weft.catalogue.random import factories
from weft.layers.backends import backend_for, backend_of
from weft.ops.geometry import Geometry
from weft.ops.layout import blocks_meet
from weft.ops.op import Op
from weft.ops.route import call
from weft.support.errors import StateError
from weft.tensor.backend import TRANSFORM_RANK, Args, Backend, register, tensors_in
from weft.tensor.dense import payload_of
from weft.tensor.modes import modes, top_interceptor, with_interceptor, without_interceptors
from weft.tensor.payload import Payload
from weft.tensor.tensor import Tensor
from weft.types.tensor_type import TensorType

L = TypeVar("L", bound="Level")
R = TypeVar("R")


class Wrapper(Payload):
    """What a tensor of a level holds: the value that the level below sees. Sizes, dtype and memory are the value's
    unless a subclass says otherwise."""

    __slots__ = ("_known", "_seen", "level", "value")
    word = "Wrapped"
    shares_version = True

    def __init__(self, level: Level, value: Tensor) -> None:
        self.level, self.value = level, value
        self._seen: Any = None

    @property
    def type(self) -> TensorType:  # type: ignore[override]
        data = self.value._data
        if self._seen is not data:  # asked for at every step; it changes only with the value's payload
            self._seen, self._known = data, self.value.type_
        return self._known

    @property
    def env(self) -> Any:
        """The shape environment of symbolic sizes, or None."""
        return getattr(self.value._data, "env", None)

    @property
    def differs(self) -> bool:  # type: ignore[override]
        """Whether the value differs from example to example."""
        return getattr(self.value._data, "differs", False)

    def geometry(self) -> Geometry:
        """Dims and strides of the value."""
        return self.value.geometry()

    def item(self) -> Any:
        """The value's only element."""
        return self.value.item()

    def materialize(self, what: str) -> Any:
        """The value's bytes."""
        return self.value._array(what)

    def has_nan(self) -> bool:
        """Whether the value has one."""
        return payload_of(self.value).has_nan()

    def data_ptr(self, owner: Tensor) -> int:
        """The value's address."""
        self.materialize("data_ptr()")
        return self.value.data_ptr()

    def shares_memory(self, other: Any) -> bool:
        """Whether the values do."""
        return isinstance(other, Wrapper) and payload_of(self.value).shares_memory(other.value._data)

    def overlaps(self, other: Any) -> bool:
        """Whether both, as their level sees them, are blocks of one memory that meet."""
        return self.shares_memory(other) and blocks_meet(self.geometry(), other.geometry())

    def new_storage(self) -> Any:
        """The value's storage: wrappers share memory and version with what they wrap."""
        return self.value.storage()

    def refuse_gradients(self) -> None:
        """A level that records no history refuses to be asked for it, while it runs."""
        if self.level.is_alive and not self.level.records_history:
            raise StateError(
                "You are attempting to call Tensor.requires_grad_() (or perhaps using weft.autograd.functional.* APIs) "
                f"on a tensor of {self.level.name}, which records no history; use weft.func.grad, vjp, jacrev or "
                "hessian within the function, or require the gradient outside of the transform"
            )

    def outside(self) -> Tensor:
        """What the tensor stands for where its level has ended. Raises StateError while it runs:
        then it is in the wrong place."""
        if self.level.is_alive:
            raise StateError(
                f"a tensor that belongs to {self.level.name} is used below it, where its value has no meaning"
            )
        return self.value

    def copied(self) -> Wrapper:
        """The payload of an independent copy."""
        raise StateError(f"deepcopy: a tensor inside {self.level.name} cannot be deep-copied; use clone()")

    def detached(self) -> Wrapper:
        """The value without history, here and at every level below."""
        return type(self)(self.level, self.value.detach())

    def text(self) -> str:
        """`GradTrackingTensor(lvl=1, value=tensor([1., 2.]))`."""
        inside = repr(self.value).replace("\n", "\n    ")
        return f"{self.word}(lvl={self.level.depth}, value=\n    {inside}\n)"


class OutsideOfLevel(Backend):
    """Tensors of a transform used where it does not run: once it has ended, what they stand for takes their place."""

    rank = TRANSFORM_RANK

    def run(self, op: Op, args: Args) -> Any:
        """The operator on what the tensors stand for. Raises StateError for a batch,
        whose dim the program does not see."""
        return call(op, come_out(args))

    def write(self, op: Op, args: Args) -> None:
        """Refused where the target is such a tensor."""
        target = args[0]._data
        if isinstance(target, Wrapper):
            raise StateError(
                f"{op.base}_: the tensor belongs to {target.level.name}, which has ended; return it from the function, "
                "or clone() it"
            )
        arguments = (args[0], *come_out(args[1:]))
        backend_of(op, arguments).write(op, arguments)

    def open(self, op: Op, args: Args) -> Any:
        """A composite, as the innermost values' back end opens it."""
        return backend_for(map(innermost, tensors_in(args))).open(op, args)

    def constants(self, args: Args) -> AbstractContextManager[None]:
        """As the innermost values' back end has it."""
        return constants(args)


def constants(args: Iterable[Any]) -> AbstractContextManager[None]:
    """Within the block, tensors that a rule on these arguments makes, which has no operand to say where, are made where
    the innermost values lie.
    """
    inside = tuple(map(innermost, tensors_in(args)))
    return backend_for(inside).constants(inside)


register(OutsideOfLevel(), Wrapper)


def come_out(value: Any) -> Any:
    """An argument, through tuples, with what tensors of transforms stand for where these have ended.
    Raises StateError where one runs, and for batches."""
    if isinstance(value, Tensor):
        return come_out(value._data.outside()) if isinstance(value._data, Wrapper) else value
    return tuple(come_out(v) for v in value) if type(value) is tuple else value


def innermost(tensor: Tensor) -> Tensor:
    """The tensor that stands behind one of any levels."""
    while isinstance(tensor._data, Wrapper):
        tensor = tensor._data.value
    return tensor


class Level:
    """One transform that runs. Use as a context manager: entered, it is the top of the stack;
    left, its wrappers are dead.

    A subclass says how an operator is interpreted (`intercept`, `intercept_inplace`) and goes on below with `down`.
    """

    name = "a transform"
    refuses_backward = True  # .backward() has no .grad to go to inside
    records_history = False  # of operators on its tensors: whether they may require grad

    def __init__(self) -> None:
        self.is_alive = False
        self.depth = 0
        # grad mode where the transform was called: within it only what is asked for inside counts
        self.grad_outside = True

    def __enter__(self: L) -> L:
        stack = modes.special or ()
        self.depth = 1 + sum(isinstance(entry, Level) for entry in stack)
        self.grad_outside, self.is_alive = modes.grad, True
        modes.special = with_interceptor(stack, self)
        return self

    def __exit__(self, *error: Any) -> None:
        stack = modes.special or ()
        at = stack.index(self) if self in stack else len(stack)
        modes.special = without_interceptors(stack, at)
        self.is_alive = False

    def intercept(self, op: Op, args: tuple[Any, ...]) -> Any:
        """The operator's result, at this level."""
        raise NotImplementedError

    def intercept_inplace(self, op: Op, args: tuple[Any, ...]) -> Any:
        """The in-place operator on args[0], at this level."""
        raise NotImplementedError

    def draw(self, take: Callable[[tuple[Any, ...]], Any], size: tuple[Any, ...]) -> Any:
        """Random numbers of this size; `take(size)` draws them below."""
        return self.lift(self.down(take, size))

    def down(self, function: Callable[..., R], *args: Any) -> R:
        """Call a function with this level popped."""
        stack = modes.special
        assert stack is not None and top_interceptor() is self
        modes.special = without_interceptors(stack, stack.index(self))
        try:
            return function(*args)
        finally:
            modes.special = stack

    def beneath(self, function: Callable[..., R], *args: Any) -> R:
        """Call a function with this level and all above it popped; just call it where the level does not run."""
        stack = modes.special
        modes.special = stack[: stack.index(self)] or None if stack and self in stack else stack
        try:
            return function(*args)
        finally:
            modes.special = stack

    def owns(self, value: Any) -> bool:
        """Whether a value is a tensor of this level."""
        return isinstance(value, Tensor) and isinstance(value._data, Wrapper) and value._data.level is self

    def lift(self, value: Any) -> Any:
        """The value with every tensor in it as one of this level."""
        return value

    def lower(self, value: Any) -> Any:
        """What the level below sees of an argument."""
        if isinstance(value, Tensor):
            data = value._data
            return data.value if isinstance(data, Wrapper) and data.level is self else value
        if type(value) in (tuple, list):
            return tuple([self.lower(v) for v in value])
        return value


def top() -> Level | None:
    """The innermost level that runs on this thread."""
    current = top_interceptor()
    return current if isinstance(current, Level) else None


def same_form(original: Any, results: list[Any]) -> Any:
    """Results in the container that an operator gave."""
    return type(original)(*results) if hasattr(original, "_fields") else tuple(results)


def _draw(take: Callable[[tuple[Any, ...]], Any], size: Any) -> Any:
    level = top()
    return None if level is None else level.draw(take, tuple(size))


factories.transforms.append(_draw)
