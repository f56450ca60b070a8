"""Binding a call to a schema: overloads, defaults, keyword arguments, conversions. Errors list the candidates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from weft.ops.op import Op
from weft.ops.schema import Argument
from weft.support.errors import ArgumentError, DTypeError, UnheldDTypeError
from weft.support.warn import warn
from weft.types import dtype as dt
from weft.types.dims import Expr
from weft.types.sym import SymInt


class Mismatch(Exception):
    """An argument does not fit; the text says which and why."""


def is_routable(value: Any) -> bool:
    """Whether operators accept this object as a tensor (Tensor, graph handle, array handle)."""
    return hasattr(type(value), "__weft_route__")


def is_tensor_class(kind: type) -> bool:
    """Whether all objects of a class are tensors to operators: none of them stands for a number."""
    return hasattr(kind, "__weft_route__") and not hasattr(kind, "__weft_number__")


def _integer(value: Any, argument: Argument) -> Any:
    kind = type(value)
    if kind is int or kind is Expr:
        return value
    if kind is SymInt:
        return value.expr
    if hasattr(kind, "__weft_integer__"):  # one that a trace computes
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if is_routable(value) and value.ndim == 0 and not argument.is_list:
        item = value.item()
        if type(item) is float or type(item) is complex:
            raise Mismatch(f"argument '{argument.name}' must be int, not a {kind.__name__} of a {type(item).__name__}")
        return item
    try:
        return value.__index__()
    except (AttributeError, TypeError):
        raise Mismatch(f"argument '{argument.name}' must be int, not {kind.__name__}") from None


def _number(value: Any, argument: Argument) -> Any:
    kind = type(value)
    if kind is float or kind is int or kind is bool or kind is complex or kind is Expr:
        return value
    if kind is SymInt:
        return value.expr
    if isinstance(value, np.generic):
        return value.item()
    if getattr(kind, "__weft_number__", False):
        return value
    if is_routable(value) and value.ndim == 0:
        return value.item()
    if isinstance(value, (int, float, complex)):
        return value
    raise Mismatch(f"argument '{argument.name}' must be Number, not {kind.__name__}")


def _float(value: Any, argument: Argument) -> Any:
    number = _number(value, argument)
    if isinstance(number, complex):
        raise Mismatch(f"argument '{argument.name}' must be float, not complex")
    # (lifted ones say they are floats)
    return (
        float(number) if isinstance(number, (int, float)) and not hasattr(type(number), "__weft_number__") else number
    )


def _bool(value: Any, argument: Argument) -> Any:
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise Mismatch(f"argument '{argument.name}' must be bool, not {type(value).__name__}")


def _str(value: Any, argument: Argument) -> Any:
    if isinstance(value, str):
        return value
    raise Mismatch(f"argument '{argument.name}' must be str, not {type(value).__name__}")


def _dtype(value: Any, argument: Argument) -> Any:
    try:
        return dt.as_dtype(value)
    except UnheldDTypeError:
        raise
    except (DTypeError, TypeError):
        raise Mismatch(f"argument '{argument.name}' must be a dtype, not {type(value).__name__}") from None


def _device(value: Any, argument: Argument) -> Any:
    return value if isinstance(value, str) else str(value)


def _any(value: Any, argument: Argument) -> Any:
    return value


def _tensor(value: Any, argument: Argument) -> Any:
    if is_routable(value) and not _is_number(value):
        return value
    raise Mismatch(f"argument '{argument.name}' must be Tensor, not {type(value).__name__}")


def _is_number(value: Any) -> bool:
    """Whether something that operators accept stands for a number of Python's: no tensor argument takes it."""
    return hasattr(type(value), "__weft_number__") and bool(value.is_number)


def _tensor_or_number(value: Any, argument: Argument) -> Any:
    return value if is_routable(value) else _number(value, argument)


_CONVERT: dict[str, Callable[[Any, Argument], Any]] = {
    "Tensor": _tensor, "Scalar": _number, "int": _integer, "float": _float, "bool": _bool, "str": _str,
    "ScalarType": _dtype, "Device": _device, "Layout": _any, "MemoryFormat": _any, "Generator": _any, "Object": _any,
}


def _is_whole(value: Any) -> bool:
    """Whether a tensor is one integer, which may stand for a size."""
    return is_routable(value) and value.ndim == 0 and value.dtype.category == dt.INT


def _list(value: Any, argument: Argument, one: Callable[[Any, Argument], Any]) -> tuple[Any, ...]:
    if isinstance(value, (list, tuple)):
        if argument.element_optional:
            return tuple(None if v is None else one(v, argument) for v in value)
        return tuple([one(v, argument) for v in value])
    if (
        argument.list_size is not None
        or (argument.kind == "int" and (isinstance(value, (int, SymInt, Expr)) or _is_whole(value)))
    ):
        if value is True or value is False:  # a flag is no dim: `var(x, False)` means unbiased
            raise Mismatch(f"argument '{argument.name}' must be a list of {argument.kind}, not bool")
        return (one(value, argument),) * (argument.list_size or 1)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(one(v, argument) for v in value)
    raise Mismatch(f"argument '{argument.name}' must be a list of {argument.kind}, not {type(value).__name__}")


def convert(value: Any, argument: Argument, numbers: bool) -> Any:
    """The value as the schema wants it. Raises Mismatch."""
    if value is None:
        if argument.is_optional:
            return None
        raise Mismatch(f"argument '{argument.name}' must be {argument.type_text}, not None")
    one = _CONVERT[argument.kind]
    if argument.is_list:
        return _list(value, argument, one)
    if numbers and argument.kind == "Tensor":
        return _tensor_or_number(value, argument)
    return one(value, argument)


# Other names of an argument: those that PyTorch takes from NumPy, and the Array API's
SYNONYMS = {
    "input": ("self",), "axis": ("dim", "dims"), "axes": ("dim", "dims"), "keepdims": ("keepdim",), "x": ("self",),
    "x1": ("self",), "x2": ("other",), "shift": ("shifts",), "shape": ("size",), "stop": ("end",), "num": ("steps",),
    "k": ("diagonal",), "repetitions": ("dims",), "n_rows": ("n",), "n_cols": ("m",),
}


@cache
def positional_count(op: Op) -> int:
    """How many arguments may be given by position."""
    return sum(not a.keyword_only for a in op.schema.arguments)


@cache
def positions_of(op: Op) -> Mapping[str, int]:
    """Position of every argument by name, synonyms included."""
    positions = {a.name: i for i, a in enumerate(op.schema.arguments)}
    own = list(positions)
    for synonym, names in SYNONYMS.items():
        name = next((n for n in names if n in own), None)
        if name is not None and synonym not in positions:
            positions[synonym] = positions[name]
    return positions


def bind(op: Op, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Arguments in schema order, defaults filled, values converted. Raises Mismatch."""
    if not kwargs:
        plain = bind_plain(op, args)
        if plain is not None:
            return plain
    arguments = op.schema.arguments
    limit = positional_count(op)
    if len(args) > limit:
        args = _gather_varargs(op, args, limit)
    values: list[Any] = list(args) + [_MISSING] * (len(arguments) - len(args))
    names = positions_of(op)
    for name, value in kwargs.items():
        at = names.get(name)
        if at is None:
            raise Mismatch(f"got an unexpected keyword argument '{name}'")
        if values[at] is not _MISSING:
            raise Mismatch(f"got multiple values for argument '{name}'")
        values[at] = value
    numbers = op.numbers
    for i, argument in enumerate(arguments):
        value = values[i]
        if value is _MISSING:
            if not argument.has_default:
                raise Mismatch(f"missing argument '{argument.name}'")
            values[i] = argument.default
        else:
            values[i] = convert(value, argument, numbers)
    return tuple(values)


_MISSING = object()
_ROUTABLE: set[type] = set()  # classes seen to have a route; tensor subclasses join when first met


@cache
def _plain_kinds(op: Op) -> tuple[tuple[Any, ...], tuple[tuple[Any, ...], ...], int]:
    """Per positional argument the exact types that need no conversion; the tails of defaults;
    the least number of arguments."""
    arguments = op.schema.arguments
    accepted: list[Any] = []
    for a in arguments[: positional_count(op)]:
        accepted.append((a.is_tensor and not a.is_list, exact_types(op, a)))
    tails = tuple(tuple(a.default for a in arguments[n:]) for n in range(len(arguments) + 1))
    least = max((i + 1 for i, a in enumerate(arguments) if not a.has_default), default=0)
    return tuple(accepted), tails, least


def exact_types(op: Op, a: Argument) -> frozenset[type]:
    """The types that need no conversion."""
    if a.is_list:
        return frozenset((type(None),) if a.is_optional else ())
    kinds: dict[str, tuple[type, ...]] = {
        "int": (int,), "float": (float,), "bool": (bool,), "str": (str,), "Scalar": (int, float, bool)
    }
    exact = kinds.get(a.kind, ())
    if a.is_tensor and op.numbers:
        exact = (int, float, bool)
    return frozenset((*exact, type(None)) if a.is_optional else exact)


def bind_plain(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Binding when every argument already has the type that the schema wants; None when it has not."""
    accepted, tails, least = _plain_kinds(op)
    count = len(args)
    if not least <= count <= len(accepted):
        return None
    for value, (is_tensor, exact) in zip(args, accepted, strict=False):
        kind = type(value)
        if kind in exact:
            continue
        if is_tensor:
            if kind in _ROUTABLE:
                continue
            if hasattr(kind, "__weft_route__"):
                if not hasattr(kind, "__weft_number__"):
                    _ROUTABLE.add(kind)
                    continue
                if op.numbers or not value.is_number:
                    continue
        return None
    return args + tails[count]


def are_routable(values: Sequence[Any], argument: Argument) -> bool:
    """Whether all values are of classes that are known to be tensors (or None, where a list may hold that)."""
    for value in values:
        if type(value) in _ROUTABLE or (value is None and argument.element_optional):
            continue
        if not is_routable(value) or _is_number(value):
            return False
    return True


def _gather_varargs(op: Op, args: tuple[Any, ...], limit: int) -> tuple[Any, ...]:
    """`x.view(2, 3)`: the integers from the first int list on are that list."""
    for i, a in enumerate(op.schema.arguments[:limit]):
        if a.is_list and a.kind in ("int", "Tensor") and a.list_size is None and i == limit - 1:
            return (*args[:i], tuple(args[i:]))
    raise Mismatch(f"takes {limit} positional arguments but {len(args)} were given")


def bind_any(
    name: str, candidates: Sequence[Op], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Op, tuple[Any, ...]]:
    """The first overload that fits, with its bound arguments. Raises ArgumentError that lists the candidates."""
    problems: list[str] = []
    for op in candidates:
        try:
            return op, bind(op, args, kwargs)
        except Mismatch as problem:
            if op.schema.arguments and op.schema.arguments[-1].kind == "int" and op.schema.arguments[-1].is_list:
                try:
                    return op, bind(op, _spread(op, args), kwargs)
                except Mismatch:
                    pass
            problems.append(f"  {op.schema}\n      {problem}")
    got = ", ".join([type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()])
    if len(problems) == 1:
        reason = problems[0].split("\n      ")[1]
        raise ArgumentError(f"{name}(): {reason}; got ({got}), expected {candidates[0].schema}")
    raise ArgumentError(f"{name}(): no overload fits ({got}); candidates:\n" + "\n".join(problems))


def _spread(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """`x.permute(0, 1)` with as many integers as there are positional arguments."""
    i = positional_count(op) - 1
    if i < 0 or len(args) <= i or not all(isinstance(a, (int, SymInt, Expr, np.integer)) for a in args[i:]):
        raise Mismatch("not a list of integers")
    return (*args[:i], tuple(args[i:]))


# ---- the older order of arguments: numbers before the tensors that they scale, `x.add_(0.5, y)` and
# `addmm(beta, x, alpha, a, b)`, as PyTorch still takes it, with a warning
_AS_NUMBERS = ("__weft_number__", "__weft_integer__")  # what classes have whose objects stand for numbers
_NUMBERS = ("Scalar", "float", "int")


def in_newer_order(
    name: str, overloads: Sequence[Op], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """A call whose numbers stand among its tensors with the numbers by name, in the order in which the schema has
    them; None for what is no such call: of an operator of tensors alone, whose numbers are all given by name.
    """
    tensors = tuple(a for a in args if is_tensor_class(type(a)))
    numbers = [a for a in args if not is_tensor_class(type(a))]
    if not all(map(_scales_by, numbers)):
        return None
    for op in overloads:
        positional = [a for a in op.schema.arguments if not a.keyword_only]
        scales = [a.name for a in op.schema.arguments if a.keyword_only and a.kind in _NUMBERS and not a.is_list]
        if (
            0 < len(numbers) <= len(scales) and len(positional) == len(tensors) > 1
            and all(a.is_tensor and not a.is_list for a in positional) and not any(s in kwargs for s in scales)
        ):
            names = scales[: len(numbers)]
            words = f"give {' and '.join(names)} behind the tensors, by name"
            warn(f"This overload of {name} is deprecated: {words}")
            return tensors, {**dict(zip(names, numbers, strict=True)), **kwargs}
    return None


def _scales_by(value: Any) -> bool:
    kind = type(value)
    return issubclass(kind, (int, float, complex)) or any(map(partial(hasattr, kind), _AS_NUMBERS))
