"""Values of a model that is being written. Operators accept them: a call with one writes nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from weft.ops.methods import OperatorMethods
from weft.ops.op import Op
from weft.support.errors import Unsupported
from weft.tensor.tensor import Tensor
from weft.types.dims import Dim, product
from weft.types.dtype import DType
from weft.types.sym import wrap


class Output(OperatorMethods):
    """The result of a node, an input or a weight: a name in the model, and what it is for the example.

    sizes: numbers where every call has the example's, else symbols. source and replay: what it is a view of, and how.
    stale: the source has been written since. weight: the model's own tensor. twins: values of which it may be one, as a
    branch or the steps of a loop have it. lost: one that it may be has been written since, so that nobody knows it.
    """

    __slots__ = (
        "__weakref__", "example", "known", "lost", "name", "replay", "sizes", "source", "stale", "twins", "weight",
        "writer",
    )  # fmt: skip

    def __init__(
        self, writer: Any, name: str, example: Tensor, sizes: Sequence[Dim | None] | None = None, constant: Any = None,
        weight: str = "",
    ) -> None:
        self.writer, self.name, self.example = writer, name, example
        self.sizes: tuple[Dim, ...] = ()
        self.known, self.weight = constant, weight
        self.source: Output | None = None
        self.replay: Callable[[Output], Output] | None = None
        self.stale = self.lost = False
        self.twins: tuple[Output, ...] = ()
        writer.sizes.settle(self, sizes)
        writer.live.add(self)

    @staticmethod
    def __weft_route__(op: Op, args: tuple[Any, ...]) -> Any:
        return next(iter(outputs_in(args))).writer.call(op, args)

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The sizes, for operators that are opened into others."""
        return self.sizes

    @property
    def static(self) -> bool:
        """Whether every call has the example's sizes."""
        return all(type(n) is int for n in self.sizes)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes as Python has them: ints, and symbols that pass for ints."""
        return tuple(wrap(n, self.writer.sizes.env) for n in self.sizes)

    def size(self, dim: int | None = None) -> Any:
        """The sizes, or one of them."""
        return self.shape if dim is None else self.shape[dim]

    def numel(self) -> Any:
        """The number of elements."""
        return wrap(product(self.sizes), self.writer.sizes.env)

    def __len__(self) -> int:
        if not self.sizes:
            raise TypeError("len() of a 0-d tensor")
        return int(self.shape[0])

    def copied(self) -> Output:
        """The same value, of which writes are seen by nobody else."""
        return type(self)(self.writer, self.name, self.example, self.sizes, self.known)

    def take(self, other: Output) -> None:
        """Be another value from here on."""
        self.writer.sizes.keep(self)
        self.name, self.example, self.sizes, self.known = other.name, other.example, other.sizes, other.known
        self.stale = self.lost = False

    @property
    def state(self) -> tuple[Any, ...]:
        """What a write changes."""
        return (self.name, self.example, self.sizes, self.known, self.stale, self.lost)

    @state.setter
    def state(self, before: tuple[Any, ...]) -> None:
        self.name, self.example, self.sizes, self.known, self.stale, self.lost = before

    @property
    def root(self) -> Output:
        """What has the memory that it shows."""
        root = self
        while root.source is not None:
            root = root.source
        return root

    def all_twins(self) -> set[Output]:
        """The values that have the memory, or may have it."""
        twins, waiting = set[Output](), [self.root]
        while waiting:
            one = waiting.pop()
            if one not in twins:
                twins.add(one)
                waiting += [twin.root for twin in one.twins]
        return twins

    @property
    def ndim(self) -> int:
        return self.example.ndim

    def dim(self) -> int:
        """The number of dims."""
        return self.example.ndim

    @property
    def dtype(self) -> DType:
        return self.example.dtype

    @property
    def device(self) -> str:
        return "cpu"

    @property
    def type_(self) -> Any:
        return self.example.type_

    def is_floating_point(self) -> bool:
        """Whether its elements are floating-point numbers."""
        return self.dtype.is_floating_point

    requires_grad, is_leaf, is_meta = False, True, False

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Another dtype; every device is the model's."""
        wanted = [a for a in (*args, *kwargs.values()) if isinstance(a, (DType, Output, Tensor))]
        if not wanted:
            return self
        return self.writer.cast(self, wanted[0] if isinstance(wanted[0], DType) else wanted[0].dtype)

    def detach(self) -> Output:
        """The same values: a model has no history."""
        return self

    def is_contiguous(self, *args: Any) -> bool:
        """Nothing in ONNX lies otherwise."""
        return True

    def __getitem__(self, index: Any) -> Any:
        return self.writer.item(self, index)

    def __weft_written__(self, name: str, *args: Any) -> Any:
        """What weft's Python asks where it cannot do with operators: a function of the table of such."""
        return self.writer.function(name, args)

    def __bool__(self) -> bool:
        raise Unsupported("Python asks for the value of a tensor, which is known when the model runs only")

    def __repr__(self) -> str:
        return f"<{self.name}: {self.dtype}{list(self.example.shape)}>"


class Number(Output):
    """A number of Python's that the model computes: an int, float or bool. `plain` is what it is for the example."""

    __slots__ = ()
    __weft_number__ = True

    @property
    def plain(self) -> Any:
        """The number for the example."""
        return self.example.item()

    def __hash__(self) -> int:
        return id(self)


def _binary(name: str, swapped: bool = False) -> Any:
    def method(self: Number, other: Any) -> Any:
        if not isinstance(other, (int, float, Number)):
            return NotImplemented
        return self.writer.arithmetic(name, *((other, self) if swapped else (self, other)))

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Number, f"__{_name}__", _binary(_name))
    setattr(Number, f"__r{_name}__", _binary(_name, True))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Number, f"__{_name}__", _binary(_name))


def _negated(self: Number) -> Any:
    return self.writer.arithmetic("sub", 0, self)


def _positive(self: Number) -> Any:
    return self.writer.arithmetic("max", self, self.writer.arithmetic("sub", 0, self))


setattr(Number, "__neg__", _negated)  # noqa: B010  (beside the others)
setattr(Number, "__abs__", _positive)  # noqa: B010


def outputs_in(value: Any) -> Iterator[Output]:
    """Every Output within nested lists, tuples, dicts and slices."""
    if isinstance(value, Output):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from outputs_in(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from outputs_in(part)
    elif isinstance(value, slice):
        yield from outputs_in((value.start, value.stop, value.step))


def example_of(value: Any) -> Any:
    """The same with tensors and numbers of the example."""
    if isinstance(value, Number):
        return value.plain
    if isinstance(value, Output):
        return value.example
    if isinstance(value, (tuple, list)):
        return type(value)(example_of(v) for v in value)
    if isinstance(value, slice):
        return slice(example_of(value.start), example_of(value.stop), example_of(value.step))
    return value
