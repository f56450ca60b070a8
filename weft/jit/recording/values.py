"""Numbers that are only known when the program runs, and values as the tensors that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from weft.compile.numbers.run_time import RunTimeNumber
from weft.ops.packet import aten
from weft.support.errors import CaptureError
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types.dtype import DType
from weft.types.sym import SymInt
from weft.types.tensor_type import BOOL, FLOAT, INT, Type


class NotRecorded(CaptureError):
    """The program cannot be captured here: it needs a value of Python's that is only known when it runs."""


class _Unset:
    """Stands where no value will be read."""

    def __repr__(self) -> str:
        return "uninitialized"


UNSET = _Unset()
DTYPES: dict[Type, DType] = {INT: dt.int64, FLOAT: dt.float64, BOOL: dt.bool_}


class RunTime(RunTimeNumber):
    """A number that is only known when the program runs: a 0-dim tensor of int64, float64 or bool. options: the numbers
    of which it is one, if they are known.
    """

    __slots__ = ("kind", "options")

    def __init__(self, tensor: Tensor, kind: Type, options: tuple[Any, ...] | None = None) -> None:
        super().__init__(tensor)
        self.kind, self.options = kind, options

    def __bool__(self) -> bool:
        raise NotRecorded("the truth of a number that is only known when the program runs is asked by Python")


@dataclass(eq=False)
class Asked:
    """A comparison of sizes: a question that Python asks is answered from the example, and guarded; a loop's condition
    stays open.
    """

    answer: Callable[[], bool]
    number: Callable[[], RunTime]

    def __bool__(self) -> bool:
        return self.answer()


def kind_of(value: Any) -> Type | None:
    """int, float or bool, for a number; None for anything else."""
    if type(value) is RunTime:
        return value.kind
    if type(value) is Asked or type(value) is bool:
        return BOOL
    return INT if isinstance(value, int) else FLOAT if isinstance(value, float) else None  # (symbols say what they are)


def options_of(value: Any) -> tuple[Any, ...] | None:
    """The numbers of which a value is one, if they are known."""
    if type(value) is RunTime:
        return value.options
    return (value,) if type(value) in (bool, int, float) else None


def number_tensor(value: Any, dtype: DType | None = None) -> Tensor:
    """A number as a 0-dim tensor."""
    if type(value) is Asked:
        value = value.number()
    if type(value) is RunTime:
        return value.tensor if dtype is None or value.tensor.dtype is dtype else value.tensor.to(dtype)
    kind = kind_of(value)
    if kind is None:
        raise NotRecorded(f"a value of type {type(value).__name__} hangs on what is only known when the program runs")
    return aten.full((), value, dtype=dtype or DTYPES[kind])  # type: ignore[no-any-return]


def run_time(value: Any) -> RunTime:
    """A number as one that is only known when the program runs."""
    kind = kind_of(value)
    tensor = number_tensor(value)
    assert kind is not None
    return RunTime(tensor, kind)


def is_open(value: Any) -> bool:
    """Whether a value, or an element of a tuple, is known only when the program runs, or a symbol."""
    kind = type(value)
    if kind in (RunTime, Asked, SymInt) or hasattr(kind, "__weft_number__"):
        return True
    return isinstance(value, tuple) and any(map(is_open, value))


def leaves(value: Any) -> Iterator[Any]:
    """What a value is made of: the elements of tuples, and of tuples in them."""
    if isinstance(value, tuple):
        for element in value:
            yield from leaves(element)
    else:
        yield value


def rebuilt(model: Any, parts: Iterator[Any]) -> Any:
    """A value like `model` made of other parts."""
    if not isinstance(model, tuple):
        return next(parts)
    elements = [rebuilt(element, parts) for element in model]
    return type(model)._make(elements) if hasattr(model, "_make") else tuple(elements)
