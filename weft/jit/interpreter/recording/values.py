"""Numbers that are only known when the program runs, and values as the tensors that they are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from weft.ops.packet import aten
from weft.record.numbers.run_time import RunTimeNumber
from weft.support.errors import CaptureError, WeftError
from weft.tensor.tensor import Tensor
from weft.types import dtype as dt
from weft.types import shape_env
from weft.types.dtype import DType
from weft.types.sym import SymInt
from weft.types.tensor_type import BOOL, FLOAT, INT, Type


class NotRecorded(CaptureError):
    """The program cannot be captured here: it needs a value of Python's that is only known when it runs."""


class Unset:
    """Stands where no value will be read."""

    def __repr__(self) -> str:
        return "uninitialized"


UNSET = Unset()
MOST_OPTIONS = 8
DTYPES: dict[Type, DType] = {INT: dt.int64, FLOAT: dt.float64, BOOL: dt.bool_}


class RunTime(RunTimeNumber):
    """A number that is only known when the program runs: a 0-dim tensor of int64, float64 or bool, without a history.
    options: the numbers of which it is one, if they are known.
    """

    __slots__ = ("kind", "options")

    def __init__(self, tensor: Tensor, kind: Type, options: tuple[Any, ...] | None = None) -> None:
        super().__init__(tensor.detach() if tensor.requires_grad else tensor)
        self.kind, self.options = kind, options

    def __bool__(self) -> bool:
        raise NotRecorded("the truth of a number that is only known when the program runs is asked by Python")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        raise NotRecorded("a number that is only known when the program runs is looked for")

    __hash__ = object.__hash__


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
    if kind in (RunTime, Asked, SymInt) or hasattr(kind, "__weft_number__") or hasattr(kind, "__weft_parts__"):
        return True
    return isinstance(value, tuple) and any(map(is_open, value))


def parts_of(value: Any) -> list[Any] | None:
    """What a tuple, list or dict holds, or an object of a class that says so; None for any other value."""
    if isinstance(value, (tuple, list)):
        return list(value)
    if isinstance(value, dict):
        return list(value.values())
    own = getattr(type(value), "__weft_parts__", None)
    return None if own is None else own(value)


def form_of(value: Any) -> Any:
    """What values with as many parts must have in common to be of one form."""
    own = getattr(type(value), "__weft_form__", None)
    return type(value), own(value) if own else list(value) if isinstance(value, dict) else None


def leaves(value: Any) -> Iterator[Any]:
    """What a value is made of: the elements of tuples, lists and dicts, and of those in them."""
    parts = parts_of(value)
    if parts is None:
        yield value
    else:
        for part in parts:
            yield from leaves(part)


def remade(model: Any, parts: Sequence[Any]) -> Any:
    """A tuple, list or dict like `model` that holds other parts."""
    if isinstance(model, dict):
        return dict(zip(model, parts, strict=True))
    if isinstance(model, list):
        return list(parts)
    if not isinstance(model, tuple):
        return model.__weft_remade__(parts)
    return type(model)._make(parts) if hasattr(model, "_make") else tuple(parts)


def rebuilt(model: Any, parts: Iterator[Any]) -> Any:
    """A value like `model` made of other leaves."""
    own = parts_of(model)
    return next(parts) if own is None else remade(model, [rebuilt(element, parts) for element in own])


def are_alike(a: Any, b: Any) -> bool:
    """Whether two values are made of as many leaves in the same way."""
    mine, others = parts_of(a), parts_of(b)
    if mine is None or others is None:
        return mine is others
    return len(mine) == len(others) and form_of(a) == form_of(b) and all(map(are_alike, mine, others))


def is_number(leaf: Any) -> bool:
    """Whether a leaf is a number, known or not."""
    return kind_of(leaf) is not None


def nothing_like(value: Any) -> Tensor:
    """Zeros where no value will be read."""
    if isinstance(value, Tensor):
        return aten.zeros(value.dims, dtype=value.dtype)  # type: ignore[no-any-return]
    kind = kind_of(value)
    return number_tensor(False if kind is BOOL else 0 if kind is INT else 0.0)


def same_type(a: Any, b: Any) -> bool:
    """Whether two tensors' types are one, by what is known of symbols; what only the example says is guarded."""
    env = shape_env.current_env()
    return a.dtype is b.dtype and len(a.dims) == len(b.dims) and all(
        x == y or (env is not None and env.equal(x, y)) for x, y in zip(a.dims, b.dims, strict=True)
    )


def refusal(what: str, error: WeftError) -> NotRecorded:
    """The refusal of a branch or loop, for what went wrong within."""
    return error if isinstance(error, NotRecorded) else NotRecorded(f"{what} cannot be recorded: {error}")
