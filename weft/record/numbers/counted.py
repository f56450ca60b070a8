"""What stands for Python's `range`, `zip` and `enumerate` while a function is captured of which calls bring other
sizes: loops over them may be loops of a size (repeats/lengths.py). For all else they are Python's own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

from weft.tensor.capture import ROW, Index
from weft.tensor.modes import modes
from weft.tensor.tensor import Tensor
from weft.types.sym import SymInt

PYTHONS: Final = (range, zip, enumerate)


class _Counted:
    """What goes over a size of the capture's where a `for` statement does, and is Python's own where anything else
    asks."""

    python: Any

    def plain(self) -> Any:
        """Python's own."""
        raise NotImplementedError

    def over(self, frame: FrameType) -> Iterator[Any] | None:
        """What a `for` statement on this frame goes over; None where it is Python's."""
        raise NotImplementedError

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        kind: type = type(self).python
        return kind

    def begun(self, frame: FrameType) -> Iterator[Any]:
        """Its iterator, made on a frame."""
        counted = self.over(frame)
        return iter(self.plain()) if counted is None else counted

    def __iter__(self) -> Iterator[Any]:
        return self.begun(sys._getframe(1))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain(), name)


class CountedRange(_Counted):
    """range(start, stop), or range(start, stop, -1), of which one is a size."""

    python = range

    def __init__(self, start: Any, stop: Any, step: int = 1) -> None:
        self.start, self.stop, self.step = start, stop, step

    def plain(self) -> range:
        return range(self.start, self.stop, self.step)

    def over(self, frame: FrameType) -> Iterator[int] | None:
        start, stop, step = self.start, self.stop, self.step
        first, end = (start, stop) if step > 0 else (stop, start)
        if modes.capture is None or type(first) is not int or type(end) is not SymInt:
            return None
        return modes.capture.repeats.over(end - first, frame, Index(start, step), lambda k: start + k * step)

    def __len__(self) -> int:
        return len(self.plain())

    def __getitem__(self, index: Any) -> Any:
        return self.plain()[index]

    def __contains__(self, value: object) -> bool:
        return value in self.plain()

    def __reversed__(self) -> Iterator[int]:
        return CountedReversed(self) if self.step == 1 else reversed(self.plain())

    def __eq__(self, other: object) -> bool:
        return self.plain() == (other.plain() if isinstance(other, CountedRange) else other)

    def __hash__(self) -> int:
        return hash(self.plain())

    def __repr__(self) -> str:
        return repr(self.plain())

    def __reduce__(self) -> Any:
        return self.plain().__reduce__()


class _CountedIterator(_Counted):
    """An iterator: what has begun goes on."""

    def __init__(self) -> None:
        self._begun: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        if self._begun is None:
            self._begun = self.begun(sys._getframe(1))
        return self._begun

    def __next__(self) -> Any:
        if self._begun is None:
            self._begun = iter(self.plain())
        return next(self._begun)


class CountedReversed(_CountedIterator):
    """reversed of a range."""

    python = type(reversed(range(0)))

    def __init__(self, numbers: CountedRange) -> None:
        super().__init__()
        self.numbers = numbers

    def plain(self) -> Any:
        return reversed(self.numbers.plain())

    def over(self, frame: FrameType) -> Iterator[int] | None:
        start, stop = self.numbers.start, self.numbers.stop
        return CountedRange(stop - 1, start - 1, -1).over(frame)


class CountedZip(_CountedIterator):
    """zip of tensors with equally many rows."""

    python = zip

    def __init__(self, tensors: tuple[Tensor, ...], options: dict[str, Any]) -> None:
        super().__init__()
        self.tensors, self.options = tensors, options

    def plain(self) -> Any:
        return zip(*self.tensors, **self.options)  # noqa: B905 (as the user says)

    def over(self, frame: FrameType) -> Iterator[Any] | None:
        if modes.capture is None:
            return None
        tensors = self.tensors
        sizes = [t.shape[0] for t in tensors]
        if any(size is not sizes[0] and size != sizes[0] for size in sizes[1:]):
            return None
        item = (ROW,) * len(tensors)
        return modes.capture.repeats.over(sizes[0], frame, item, lambda k: tuple([t[k] for t in tensors]))


class CountedEnumerate(_CountedIterator):
    """enumerate of a tensor's rows, counted from a number."""

    python = enumerate

    def __init__(self, tensor: Tensor, start: int) -> None:
        super().__init__()
        self.tensor, self.start = tensor, start

    def plain(self) -> Any:
        return enumerate(self.tensor, self.start)

    def over(self, frame: FrameType) -> Iterator[Any] | None:
        if modes.capture is None:
            return None
        tensor, start = self.tensor, self.start
        return modes.capture.repeats.over(
            tensor.shape[0], frame, (Index(start), ROW), lambda k: (start + k, tensor[k])
        )


def counted_range(*args: Any) -> Any:
    """range of numbers, one of which may be a size."""
    if len(args) in (1, 2) and type(args[-1]) is SymInt and args[-1].is_live:
        return CountedRange(*((0, *args) if len(args) == 1 else args))
    if len(args) == 3 and type(args[0]) is SymInt and args[0].is_live and type(args[2]) is int and args[2] == -1:
        return CountedRange(*args)
    return range(*args)


def counted_zip(*iterables: Any, **options: Any) -> Any:
    """zip, perhaps of tensors."""
    if iterables and options.keys() <= {"strict"} and all(map(_has_rows, iterables)):
        return CountedZip(iterables, options)
    return zip(*iterables, **options)  # noqa: B905 (as the user says)


def counted_enumerate(iterable: Any, start: Any = 0) -> Any:
    """enumerate, perhaps of a tensor."""
    if _has_rows(iterable) and type(start) is int:
        return CountedEnumerate(iterable, start)
    return enumerate(iterable, start)


def _has_rows(value: Any) -> bool:
    return type(value) is Tensor and bool(value.shape) and type(value.shape[0]) is SymInt
