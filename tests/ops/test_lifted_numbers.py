"""Every number argument of every entry, lifted: a number that changed between calls of a compiled function is an input
of its program from then on, and whatever it becomes, values and gradients are those of eager."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from derivatives import as_tensors, differentiable_positions, placed, weighted
from sampling import cases, mine

import weft
from weft.ops.op import Op
from weft.ops.packet import overload_of
from weft.ops.schema import Argument

INF = math.inf
# Of the generic numbers, the first two that the entry accepts are called first; then the special ones.
GENERIC = (0.37, 0.61, 1.37, 2.61, 3.37, 5.61, 17.37)
SPECIAL = (0.0, 1.0, -1.0, 2.0, 0.5, INF, -INF, math.nan)
WHOLE, SPECIAL_WHOLE = (2, 3, 1, 4, 0, 5, 6, -1, -2), (0, 1, -1, 2, -2, 3, 5)
LARGEST = 40  # elements of a tensor among the samples
# How many entries the sweeps over floats and integers take, drawn anew with each seed; 1000 takes all (ten minutes
# and nine).
FLOATS = int(os.environ.get("WEFT_FLOATS", "8"))
ENTRIES = int(os.environ.get("WEFT_INTEGERS", "2"))


def floats(argument: Argument) -> bool:
    is_order = argument.kind == "Object" and argument.name in ("p", "ord")
    return argument.kind in ("Scalar", "float") or is_order


def integers(argument: Argument) -> bool:
    return argument.kind == "int"


# Python is answered with a bool, which a program with a lifted tolerance cannot do.
ANSWERS = {"allclose"}
WITH_FLOATS = [
    op for op in mine() if op.base[0] != "_" and op.base not in ANSWERS and any(map(floats, op.schema.arguments))
]
# With some integers a value of a tensor decides about sizes, which a program refuses in so many words.
BY_VALUE = {"narrow", "one_hot", "repeat_interleave", "tensor_indices_or_sections"}
WITH_INTEGERS = [
    op for op in mine() if op.public and op.base[0] != "_" and not BY_VALUE & {op.base, op.schema.overload}
    and op.schema.namespace in ("aten", "nn") and any(map(integers, op.schema.arguments))
]


def places(op: Op, args: tuple[Any, ...], wanted: Callable[[Argument], bool]) -> Iterator[tuple[int, ...]]:
    """Where numbers of a kind stand among the arguments, alone or in lists."""
    for i, (argument, value) in enumerate(zip(op.schema.arguments, args, strict=True)):
        if wanted(argument):
            yield from ((i, j) for j in range(len(value))) if type(value) is tuple else [(i,)]


def called(op: Op, args: tuple[Any, ...], place: tuple[int, ...]) -> tuple[Callable[..., Any], list[Any]]:
    """A function of one number and of tensors that wants a gradient: the results and their first gradients."""
    positions = differentiable_positions(op, args)
    values = as_tensors(args)
    weights: list[Any] = []

    def function(number: Any, *leaves: Any) -> Any:
        weft.manual_seed(7)
        bound = list(placed(values, positions, leaves))
        i, *inside = place
        if inside:
            number = tuple(number if j == inside[0] else v for j, v in enumerate(bound[i]))
        bound[i] = number
        given = [a.name for a in op.schema.arguments].index
        keywords = {a.name: bound[given(a.name)] for a in op.schema.arguments if a.keyword_only}
        out = overload_of(op)(*bound[: len(bound) - len(keywords)], **keywords)
        total = weighted(out, weights)
        if not isinstance(total, weft.Tensor) or not total.requires_grad:
            return out, ()
        return out, weft.autograd.grad(total, leaves, allow_unused=True)

    return function, [values_at(args, p) for p in positions]


def values_at(args: Any, position: tuple[int, ...]) -> Any:
    for i in position:
        args = args[i]
    return args


def outcome(function: Callable[..., Any], number: Any, arrays: list[Any]) -> Any:
    """What a call gives, as arrays, or the class of its error."""
    leaves = [weft.from_numpy(np.array(a)).requires_grad_() for a in arrays]
    try:
        return plain(function(number, *leaves))
    except (weft.WeftError, ArithmeticError, ValueError, TypeError, RuntimeError, LookupError) as error:
        return error


def plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    return value.detach().numpy() if isinstance(value, weft.Tensor) else value


def differ(found: Any, expected: Any) -> str:
    if isinstance(expected, Exception):
        if not isinstance(found, Exception):
            return f"eager raises {expected!r}, compiled gives {found}"
        return "" if isinstance(found, type(expected)) else f"eager raises {expected!r}, compiled {found!r}"
    if isinstance(found, Exception):
        return f"compiled raises {type(found).__name__}: {found}; eager gives {str(expected)[:200]}"
    if isinstance(expected, list):
        if len(found) != len(expected):
            return f"{len(found)} results, not {len(expected)}"
        return next((text for f, e in zip(found, expected, strict=True) if (text := differ(f, e))), "")
    if expected is None or found is None or not isinstance(expected, (np.ndarray, int, float, complex)):
        is_same = found is expected or (type(found) is type(expected) and found == expected)
        return "" if is_same else f"{found} is not {expected}"
    f, e = np.asarray(found), np.asarray(expected)
    if f.shape != e.shape or f.dtype != e.dtype:
        return f"{f.dtype}{f.shape} is not {e.dtype}{e.shape}"
    if f.dtype.kind not in "fciub":
        f, e = f.astype(np.float32), e.astype(np.float32)
    tolerance = 1e-9 if f.dtype.itemsize >= 8 and f.dtype.kind in "fc" else 1e-4
    return "" if np.allclose(f, e, tolerance, tolerance, equal_nan=True) else f"{f.tolist()} is not {e.tolist()}"


def faults(
    op: Op, args: tuple[Any, ...], place: tuple[int, ...], generic: tuple[Any, ...], special: tuple[Any, ...]
) -> list[str]:
    """Where compiled differs from eager, by the number; none where the entry refuses all numbers but one."""
    function, arrays = called(op, args, place)
    accepted = [v for v in generic if not isinstance(outcome(function, v, arrays), Exception)][:2]
    if len(accepted) < 2:
        return []
    compiled = weft.compile(function)
    own = values_at(args, place)
    found = []
    for number in (*accepted, *((own,) if type(own) is type(accepted[0]) else ()), *special, accepted[0]):
        for given in (arrays, [with_zero(a) for a in arrays]) if type(number) is float else (arrays,):
            text = differ(outcome(compiled, number, given), outcome(function, number, given))
            found += [f"{number}: {text}"] if text else []
    return found


def with_zero(array: Any) -> Any:
    """The same with a 0 in it, where the slopes of many functions are what someone decided."""
    out = np.array(array)
    out.reshape(-1)[:1] = 0
    return out


def sweep(
    op: Op, rng: np.random.Generator, wanted: Callable[[Argument], bool], generic: tuple[Any, ...],
    special: tuple[Any, ...],
) -> None:
    seen: set[tuple[int, ...]] = set()
    for args in cases(op, rng):
        if any(isinstance(v, np.ndarray) and v.size > LARGEST for v in args):
            continue
        for place in places(op, args, wanted):
            if place not in seen:
                found = faults(op, args, place, generic, special)
                assert not found, f"{op.name}, argument {op.schema.arguments[place[0]].name}: {found}"
                seen.add(place)


@pytest.mark.filterwarnings("ignore")
def test_a_lifted_float_is_worth_what_it_is(rng: np.random.Generator) -> None:
    check(WITH_FLOATS, FLOATS, rng, floats, GENERIC, SPECIAL)


@pytest.mark.filterwarnings("ignore")
def test_a_lifted_integer_is_worth_what_it_is(rng: np.random.Generator) -> None:
    check(WITH_INTEGERS, ENTRIES, rng, integers, WHOLE, SPECIAL_WHOLE)


def check(
    entries: list[Op], count: int, rng: np.random.Generator, wanted: Callable[[Argument], bool],
    generic: tuple[Any, ...], special: tuple[Any, ...],
) -> None:
    """Sweep over so many entries, drawn, and say which are at fault."""
    chosen = rng.permutation(len(entries))[:count]
    found = []
    for op in [entries[i] for i in sorted(chosen)]:
        try:
            sweep(op, rng, wanted, generic, special)
        except AssertionError as error:
            found.append(str(error))
    assert not found, "\n".join(found)
