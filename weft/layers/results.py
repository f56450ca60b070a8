"""Results with names: what an operator with several named results hands to its caller, `weft.max(x, 0).indices`."""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

from weft.ops.op import Op
from weft.support.naming import shown


@cache
def result_class(op: Op) -> type[tuple[Any, ...]] | None:
    """The class of an operator's results: a tuple whose fields are named as in the schema;
    None if they have no names."""
    names = [r.name for r in op.schema.returns]
    if len(names) < 2 or not all(names):
        return None
    base: Any = namedtuple(op.base, names)  # type: ignore[misc]
    return type(
        base.__name__, (base,),
        {"__slots__": (), "__repr__": _text, "__module__": "weft.return_types", "__reduce__": _reduce},
    )


def named(op: Op, results: tuple[Any, ...]) -> tuple[Any, ...]:
    """The results, with their names if the schema gives any."""
    cls = class_of(op, len(results))
    return results if cls is None else cls(*results)


def class_of(op: Op, count: int) -> type[tuple[Any, ...]] | None:
    """The class of so many results; None if they have no names. (Flags may ask for more than have names: Op.more.)"""
    cls = result_class(op)
    return None if cls is None or (op.more and count > len(op.schema.returns)) else cls


def _text(self: Any) -> str:
    fields = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"{shown.name}.return_types.{type(self).__name__}(\n{fields})"


def _reduce(self: Any) -> Any:
    """Pickled as the plain tuple: the class is made anew in every process."""
    return tuple, (tuple(self),)
