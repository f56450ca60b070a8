"""Arguments in an inline cache: tensors get names, and everything else must be what it was."""

from __future__ import annotations

from typing import Any

from weft.lazy.inline.writer import Unfit, Writer
from weft.tensor.tensor import Tensor
from weft.types.dtype import DType


def ask_for(code: Writer, x: str, a: Any, tensors: list[Tensor]) -> None:
    """Ask for an argument, which the lines have as `x`. A tensor is `a<j>` from then on, and the j-th of `tensors`.
    Raises Unfit.
    """
    if isinstance(a, Tensor):
        code.missed_if(f"type({x}) is not {code.name(type(a))}")
        code.add(f"a{len(tensors)} = {x}")
        tensors.append(a)
    elif type(a) is tuple and any([isinstance(v, Tensor) for v in a]):
        code.missed_if(f"type({x}) is not tuple or len({x}) != {len(a)}")
        for i, v in enumerate(a):
            ask_for(code, f"{x}[{i}]", v, tensors)
    else:
        constant(code, x, a)


def constant(code: Writer, x: str, value: Any) -> None:
    """An argument that is no tensor must be what it was. Raises Unfit."""
    kind = type(value)
    if value is None or kind is bool:
        code.missed_if(f"{x} is not {value}")
    elif kind is int:
        code.missed_if(f"type({x}) is not int or {x} != {code.name(value)}")
    elif kind is float and value == value and value:
        code.missed_if(f"type({x}) is not float or {x} != {code.name(value)}")
    elif kind is float:
        code.missed_if(f"type({x}) is not float or repr({x}) != {code.name(repr(value))}")
    elif kind is DType:
        code.missed_if(f"{x} is not {code.name(value)}")
    elif kind is str:
        code.missed_if(f"type({x}) is not str or {x} != {code.name(value)}")
    elif kind is tuple and all([type(v) is int for v in value]):
        kinds = code.name((int,) * len(value))
        code.missed_if(f"type({x}) is not tuple or tuple(map(type, {x})) != {kinds} or {x} != {code.name(value)}")
    else:
        raise Unfit
