"""What Python sees of a program that is recorded: exceptions and prints, when the run gets there."""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence
from typing import Any

from weft.jit.errors import located
from weft.jit.interpreter.recording.values import kind_of, leaves, number_tensor, rebuilt
from weft.ops.op import NOT_DIFFERENTIABLE, define
from weft.ops.route import call
from weft.support.locations import Location
from weft.tensor.creation import from_numpy
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.sym import SymInt
from weft.types.tensor_type import tensor_type

_PLACE = "\0{}\0"  # of a value in a text


def _raise_unless(holds: Any, text: str, kind: str, file: str, line: int, column: int) -> Any:
    if not holds:
        raise located(getattr(builtins, kind)(text), Location(file, line, column) if file else None)
    return holds.copy()


_RAISE = define(
    "prim::raise_unless(Tensor holds, str text, str kind, str file, int line, int column) -> Tensor",
    "The truth value itself, once it is known to hold. Raises the exception of Python's with this name and text, and "
    "the program's line.",
    type=lambda holds, *rest: holds,
    kernel=_raise_unless,
    vjp=NOT_DIFFERENTIABLE,
    effect="raises",
    public=(),
)


def raise_when_run(text: str, kind: str, where: Location | None) -> None:
    """Record that the run raises an exception where it gets here."""
    file, line, column = ("", 0, None) if where is None else where
    call(_RAISE, (number_tensor(False), text, kind, file, line, column or 0))


def hold_when_run(holds: Any, text: str, kind: str) -> None:
    """Record that the run raises an exception unless a tensor of one element holds."""
    call(_RAISE, (holds, text, kind, "", 0, 0))


def _show(goes: Any, values: Sequence[Any], are_numbers: Sequence[bool], text: str) -> Any:
    shown = [str(v.item()) if is_one else str(from_numpy(v)) for v, is_one in zip(values, are_numbers, strict=True)]
    print(re.sub(_PLACE.format(r"(\d+)"), lambda match: shown[int(match[1])], text), end="")
    return goes.copy()


_SHOW = define(
    "prim::show(Tensor goes, Tensor[] values, bool[] are_numbers, str text) -> Tensor",
    "The first operand, once a text is written to the standard output, with values in their places.",
    type=lambda *args: tensor_type(dt.bool_, ()),
    kernel=_show,
    vjp=NOT_DIFFERENTIABLE,
    effect="io",
    public=(),
)


class _Shown:
    """Stands in a text for a value that is only known when the program runs."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __repr__(self) -> str:
        return _PLACE.format(self.at)


def show_when_run(values: Sequence[Any], sep: str, end: str) -> None:
    """Record a print."""
    printed: list[Any] = []

    def shown(leaf: Any) -> Any:
        if not isinstance(leaf, (Tensor, SymInt)) and (kind_of(leaf) is None or type(leaf) in (bool, int, float)):
            return leaf
        printed.append(leaf)
        return _Shown(len(printed) - 1)

    texts = [str(rebuilt(value, iter([shown(leaf) for leaf in leaves(value)]))) for value in values]
    tensors = tuple([leaf.detach() if isinstance(leaf, Tensor) else number_tensor(leaf) for leaf in printed])
    are_numbers = tuple([not isinstance(leaf, Tensor) for leaf in printed])
    call(_SHOW, (number_tensor(True), tensors, are_numbers, sep.join(texts) + end))
