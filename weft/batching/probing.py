"""How far examples reach in what an operator gives, where their sizes are only known when a program runs: its rule is
asked about several sizes that stand for them, and what changes with a size is computed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from weft.batching.values import Examples, Lengths
from weft.jit.interpreter.recording.effects import hold_when_run
from weft.jit.interpreter.recording.values import NotRecorded
from weft.ops.geometry import Geometry
from weft.ops.packet import aten
from weft.support.errors import WeftError
from weft.tensor.tensor import Tensor
from weft.types.sym import SymInt

_LARGE = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061, 1063, 1069, 1087, 1091, 1093, 1097)
_SMALL = (5, 3, 2, 1)
_STEPS, _SHIFTS = (1, 2, 3, 4), tuple(sorted(range(-16, 17), key=abs))
Dims = tuple[int, ...]
Rule = Callable[[Callable[[Any], Dims]], Any]  # what an operator gives, asked with what says the sizes of an operand


def is_open(value: Examples) -> bool:
    """Whether it is only known when the program runs how far the examples reach."""
    return any(isinstance(length, Tensor) for length in value.lengths)


def agree(a: Any, b: Any) -> bool:
    """Whether lengths are one, or a length and a size: what only the run knows is checked when it runs."""
    if a is not b:
        hold_when_run(
            aten.all(aten.eq(a, b)), "the examples of two operands are of different sizes, in a program that was "
            "captured for operands of the same sizes", "ValueError",
        )
    return True


class _Probes:
    """What a rule says of several sizes. sizes: for each time that it was asked, what stood for each of the lengths."""

    def __init__(self, operands: Sequence[Any]) -> None:
        every = [n for value in operands if isinstance(value, Examples) for n in value.lengths if n is not None]
        self.lengths: list[Tensor] = list({id(n): n for n in every}.values())
        count = len(self.lengths)
        if 2 * count > len(_LARGE):
            raise NotRecorded("an operator on examples of as many different sizes")
        self.sizes = [_LARGE[:count], _LARGE[count : 2 * count], *((size,) * count for size in _SMALL)]
        self.answers: list[Any] = []

    def ask(self, rule: Rule) -> None:
        """Ask about all sizes; small ones that are refused are refused when the program runs. Raises what the rule
        raises for large ones.
        """
        for at, sizes in enumerate(self.sizes):
            try:
                self.answers.append(rule(lambda value, sizes=sizes: self._dims(value, sizes)))  # type: ignore[misc]
            except (RuntimeError, ValueError, IndexError):
                if at < 2:
                    raise
                for length in self.lengths:
                    hold_when_run(
                        aten.all(aten.gt(length, sizes[0])), f"an example of size {sizes[0]} is too small", "IndexError"
                    )
                break

    def _dims(self, value: Any, sizes: Dims) -> Dims:
        if not isinstance(value, Examples):
            return tuple(map(example_size, value.shape))
        return tuple([
            example_size(size) if length is None else sizes[self._at(length)]
            for size, length in zip(value.data.shape[1:], value.lengths, strict=True)
        ])

    def _at(self, length: Tensor) -> int:
        return next(at for at, candidate in enumerate(self.lengths) if candidate is length)

    def lengths_of(self, shapes: Sequence[Dims]) -> Lengths:
        """The lengths of a result that had these shapes. Raises NotRecorded."""
        columns = zip(*shapes, strict=True)
        return tuple([None if len(set(column)) == 1 else self._computed(column) for column in columns])

    def _computed(self, column: Dims) -> Tensor:
        for length in self.lengths:
            probed = [sizes[self._at(length)] for sizes in self.sizes[: len(column)]]
            if list(column) == probed:
                return length
        for length, most, step, shift in product(self.lengths, (None, column[0]), _STEPS, _SHIFTS):
            probed = [sizes[self._at(length)] for sizes in self.sizes[: len(column)]]
            computed = [max(0, (size + shift) // step) for size in probed]
            if list(column) == (computed if most is None else [min(size, most) for size in computed]):
                whole = aten.div(aten.add(length, shift), step, rounding_mode="floor")
                return aten.clamp(whole, 0, most)  # type: ignore[no-any-return]
        raise NotRecorded("a size that is computed from the sizes of an example")


def example_size(size: Any) -> int:
    """A size that all examples share, as it is in the example that is captured."""
    return size.env.hint(size.expr) if isinstance(size, SymInt) else int(size)


def lengths_of_result(operands: Sequence[Any], rule: Rule) -> Any:
    """The lengths of what an operator gives. Raises NotRecorded."""
    probes = _Probes(operands)
    try:
        probes.ask(rule)
    except (WeftError, ValueError, IndexError) as error:
        raise NotRecorded(f"an operator on examples of different sizes ({error})") from error
    return _named(probes, probes.answers)


def _named(probes: _Probes, answers: Sequence[Any]) -> Any:
    if isinstance(answers[0], list):
        return [_named(probes, parts) for parts in zip(*answers, strict=True)]
    return probes.lengths_of(answers)


def lengths_of_view(
    source: Examples, view: Callable[[Geometry], Any], is_start: Callable[[Geometry, Geometry], bool]
) -> Lengths | None:
    """The lengths of a view; None where it does not show of the padded data what it shows of an example."""
    probes = _Probes((source,))
    padded = tuple([
        example_size(size) if length is None else 2003 + at
        for at, (size, length) in enumerate(zip(source.data.shape[1:], source.lengths, strict=True))
    ])
    strides = _row_major(padded)
    try:
        whole = view(Geometry(padded, strides, 0))
        probes.ask(lambda dims: view(Geometry(dims(source), strides, 0)))
    except (RuntimeError, IndexError):
        return None
    if not all(isinstance(g, Geometry) for g in (whole, *probes.answers)):
        return None
    if not all(is_start(g, whole) for g in probes.answers):
        return None
    return probes.lengths_of([tuple(map(int, g.dims)) for g in probes.answers])


def _row_major(dims: Sequence[int]) -> Dims:
    strides = [1]
    for size in reversed(dims[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides))[: len(dims)]
