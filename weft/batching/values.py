"""Values of a batched program that differ from example to example. A value that is the same for all is itself."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from weft.batching.rows import Rows
from weft.jit.interpreter.recording.values import RunTime, number_tensor
from weft.layers.transforms.batched import AsksForAValue
from weft.ops.methods import OperatorMethods
from weft.ops.op import Op
from weft.ops.packet import aten
from weft.ops.route import Route
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType
from weft.types.tensor_type import Type

Lengths = tuple[Any, ...]  # for each dim None, or [examples] of int64: an array; a tensor in a program that is captured


routes: list[Route] = []  # what computes an operator on the values of all examples (operators.py)


def _each_has_its_own(*args: Any) -> NoReturn:
    raise AsksForAValue("a value that differs from example to example is asked for by Python")


class PerExample:
    """A value of Python's for each example: numbers, texts, lists. Numbers that are equal stand as one number."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = list(values)

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __len__ = __iter__ = __hash__ = _each_has_its_own
    __format__ = __str__ = __repr__ = __contains__ = _each_has_its_own
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _each_has_its_own
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _each_has_its_own
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _each_has_its_own
    __pow__ = __rpow__ = __neg__ = __abs__ = __and__ = __or__ = __getitem__ = __call__ = _each_has_its_own


class OpenNumber:
    """A number for each example, in a program that is captured: tensors of one element."""

    __slots__ = ("examples", "kind")

    def __init__(self, examples: Examples, kind: Type) -> None:
        self.examples, self.kind = examples, kind

    def __weft_form__(self) -> Any:
        return self.kind

    def __weft_parts__(self) -> list[Any]:
        return [self.examples]

    def __weft_remade__(self, parts: Sequence[Any]) -> OpenNumber:
        return OpenNumber(parts[0], self.kind)

    def __weft_from__(self, value: Any) -> OpenNumber:
        """A number that all examples share, as a loop carries it that gives back one for each."""
        return OpenNumber(Examples(aten.expand(number_tensor(value), (self.examples.size,))), self.kind)

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __len__ = __iter__ = __hash__ = _each_has_its_own
    __format__ = __str__ = __repr__ = __contains__ = __eq__ = __ne__ = _each_has_its_own


class Examples(OperatorMethods):
    """A tensor for each example.

    data: [examples, *dims], each example padded behind its end. lengths: for each dim the sizes of the examples, or
    None where all have the same; the largest is the padded size. root: the one whose memory a view shows. links: the
    values of which this has rows; what is written here is written there as well. takers: those that have rows of it, or
    of a view of it. is_copy: the program's own tensor
    would be a part of something, and this is not. has_met: in a program that is captured, it may be one of several.
    """

    __slots__ = (
        "__weakref__", "_clean", "_selected", "data", "has_met", "is_copy", "lengths", "links", "root", "takers"
    )

    def __init__(self, data: Tensor, lengths: Lengths | None = None, root: Examples | None = None) -> None:
        self.data = data
        self.lengths: Lengths = (None,) * (data.ndim - 1) if lengths is None else lengths
        self.root: Examples = self if root is None else root
        self.links: tuple[Any, ...] = ()  # of Link; in a program that is captured of MaskLink
        self.takers: list[weakref.ref[Examples]] = []
        self.is_copy = self.has_met = False
        self._clean: Examples | None = None
        self._selected: tuple[Rows, int, Examples] | None = None

    @property
    def size(self) -> int:
        """How many examples there are."""
        return self.data.shape[0]  # type: ignore[no-any-return]

    def note_taker(self, taker: Examples, link: Link | MaskLink) -> None:
        """A value that has rows of this one came to be."""
        taker.links = (link,)
        self.root.takers = [ref for ref in self.root.takers if ref() is not None] + [weakref.ref(taker)]

    # ---- in a program that is captured
    def __weft_form__(self) -> Any:
        return tuple([length is None for length in self.lengths])

    def __weft_parts__(self) -> list[Any]:
        return [self.data, *(length for length in self.lengths if length is not None)]

    def __weft_remade__(self, parts: Sequence[Any]) -> Examples:
        data, *rest = parts
        lengths = iter(rest)
        examples = Examples(data, tuple([None if length is None else next(lengths) for length in self.lengths]))
        examples.has_met = True
        return examples

    def __weft_from__(self, value: Any) -> Examples:
        """A tensor that all examples share, as a loop carries it that gives back one for each."""
        return Examples(aten.expand(aten.unsqueeze(value, 0), (self.size, *value.shape)))

    @property
    def is_ragged(self) -> bool:
        """Whether the examples may be of different sizes."""
        return any(length is not None for length in self.lengths)

    @property
    def leads(self) -> bool:
        """Whether the first dim of every example is the batch of one that it was given with."""
        return self.ndim > 0 and self.lengths[0] is None and self.data.shape[1] == 1

    def dims_of(self, example: int) -> tuple[int, ...]:
        """The sizes of one example."""
        sizes = self.data.shape[1:]
        return tuple([
            int(s) if length is None else int(length[example]) for s, length in zip(sizes, self.lengths, strict=True)
        ])

    def example(self, at: int) -> Tensor:
        """One example: a view."""
        view: Tensor = aten.select(self.data, 0, at)
        for dim, length in enumerate(self.lengths):
            if length is not None and int(length[at]) != view.shape[dim]:
                view = aten.slice(view, dim, 0, int(length[at]), 1)
        return view

    # ---- what rules ask of an operand
    @property
    def dims(self) -> tuple[Any, ...]:
        """The sizes of every example. Raises AsksForAValue where they differ."""
        if self.is_ragged:
            _each_has_its_own()
        return tuple(self.data.shape[1:])

    shape = dims

    @property
    def ndim(self) -> int:
        """The rank of an example."""
        return self.data.ndim - 1

    @property
    def dtype(self) -> DType:
        """The dtype."""
        return self.data.dtype

    @property
    def device(self) -> Any:
        """The device."""
        return self.data.device

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to it."""
        return self.data.requires_grad

    def detach(self) -> Examples:
        """The same values without a history."""
        return Examples(self.data.detach(), self.lengths)

    @staticmethod
    def __weft_route__(op: Op, args: tuple[Any, ...]) -> Any:
        return routes[0](op, args)

    __bool__ = __int__ = __float__ = __complex__ = __index__ = __len__ = __iter__ = __hash__ = _each_has_its_own
    __format__ = __str__ = __contains__ = _each_has_its_own

    def __eq__(self, other: object) -> Any:
        _each_has_its_own()

    def __repr__(self) -> str:
        _each_has_its_own()


class Link(NamedTuple):
    """Rows that one value has of another: those at `there` of the source are those at `here`."""

    source: Examples
    there: tuple[int, ...]
    here: tuple[int, ...]


class MaskLink(NamedTuple):
    """What one value has of another in a program that is captured: the rows of a mask."""

    source: Examples
    rows: Any


def differs(value: Any) -> bool:
    """Whether a value, or one within a tuple or list, differs from example to example."""
    kind = type(value)
    if kind is Examples or kind is PerExample or kind is OpenNumber:
        return True
    if isinstance(value, (tuple, list)):
        return any(map(differs, value))
    return isinstance(value, dict) and any(map(differs, value.values()))


def within(value: Any) -> Iterator[Examples | PerExample | OpenNumber]:
    """The values that differ, those within tuples and lists included."""
    if type(value) in (Examples, PerExample, OpenNumber):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from within(part)
    elif isinstance(value, dict):
        yield from within(tuple(value.values()))


def count_of(*values: Any) -> int:
    """How many examples the values are of."""
    first = next(within(values))
    if isinstance(first, OpenNumber):
        first = first.examples
    return first.size if isinstance(first, Examples) else len(first.values)


def is_ragged(value: Any) -> bool:
    """Whether a value needs each example's own size, or number."""
    return any(not isinstance(v, Examples) or v.is_ragged for v in within(value))


def of_example(value: Any, at: int) -> Any:
    """What one example has for a value."""
    kind = type(value)
    if kind is Examples:
        return value.example(at)
    if kind is PerExample:
        return value.values[at]
    if kind is OpenNumber:
        return RunTime(aten.select(value.examples.data, 0, at), value.kind)
    if not differs(value):
        return value
    if isinstance(value, dict):
        return {k: of_example(v, at) for k, v in value.items()}
    return in_form(value, [of_example(part, at) for part in value])


def in_form(model: Any, parts: list[Any]) -> Any:
    """A list or (named) tuple like another, of other parts."""
    if isinstance(model, list):
        return parts
    return type(model)._make(parts) if hasattr(model, "_make") else tuple(parts)
