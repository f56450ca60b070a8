"""The short way to write an entry of the language: names, types, and Python's own function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from weft.catalogue.language.native import Body
from weft.catalogue.language.signatures import Signature, signature
from weft.ir.kinds import type_of_immediate
from weft.ops.op import NOT_DIFFERENTIABLE, Op, define
from weft.support.errors import ArgumentError
from weft.types.tensor_type import ANY, BOOL, FLOAT, INT, STR, OptionalType, Type, UnionType

# Nodes that read what can be written to, or write it, keep their order among all: a list's length is not what it
# was before an append.
ORDERED = "io"
TypeRule = Callable[..., Any]
SIGNATURES: dict[Op, tuple[Signature, ...]] = {}
NATIVE: dict[Op, Body] = {}  # those on numbers that have a form in machine code
NATIVE_OF_LISTS: dict[Op, Body] = {}  # the same of those on a list of numbers
COMPARES: set[Op] = set()  # those on a list that look at its elements
OF_ELEMENTS: dict[Op, Body] = {}  # what those on a list are whose elements are known one by one (elements.py)


def type_of(seen: Any) -> Type:
    """The type of what a rule sees: a type, or an immediate."""
    return seen if isinstance(seen, Type) else type_of_immediate(seen)


def language(
    name: str, arguments: str, doc: str, kernel: Callable[..., Any], *signatures: str, rule: TypeRule | None = None,
    effect: str = "pure", several: bool = False, observes: str = "", native: Body | None = None,
    native_of_list: Body | None = None, of_elements: Body | None = None, compares: bool = False,
) -> Op:
    """An entry on Python values. `arguments` are names with defaults; `rule` gives the result's type
    where the signatures do not.

    several: each element of what the kernel gives is a result of its own. observes: see Op.
    native: what it is in machine code where its operands are numbers: a body over Numbers and the operands (native.py).
    native_of_list: the same where the first operand is a list of numbers. of_elements: what it is of lists whose
    elements are known one by one: a body over Numbers and the operands (what it gives is None where there is no form).
    compares: whether it looks at the elements of a list, as all those of `of_elements` do; others hand them on.
    """
    parsed = tuple(map(signature, signatures))
    written = ", ".join(f"Object {a}" for a in arguments.split(", ") if a)
    returns = (
        "()" if parsed and all(s.text.endswith("-> None") for s in parsed) and rule is None else "Object[]" if several
        else "Object"
    )
    op: Op = define(
        f"{name}({written}) -> {returns}",
        doc,
        type=lambda *seen: _result(op, parsed, rule, seen),
        kernel=kernel,
        vjp=NOT_DIFFERENTIABLE,
        effect=effect,
        public=(),
        host=True,
        observes=observes,
    )
    SIGNATURES[op] = parsed
    if native is not None:
        NATIVE[op] = native
    if native_of_list is not None:
        NATIVE_OF_LISTS[op] = native_of_list
    if of_elements is not None:
        OF_ELEMENTS[op] = of_elements
    if compares or of_elements is not None:
        COMPARES.add(op)
    return op


def _result(op: Op, signatures: Sequence[Signature], rule: TypeRule | None, seen: Sequence[Any]) -> Any:
    types = [type_of(s) for s in seen]
    for candidate in signatures:
        kind = candidate.result(types)
        if kind is not None:
            return kind if op.schema.returns else ()
    kind = None if rule is None else rule(*seen)
    if kind is None:
        raise ArgumentError(mismatch_text(op, types))
    return kind


def mismatch_text(op: Op, types: Sequence[Type]) -> str:
    """What is wrong with arguments of these types, and what would be right."""
    candidates = "".join(f"\n  {op.base}: {s.text}" for s in SIGNATURES[op])
    return (
        f"{op.base}: no such operation on ({', '.join(map(str, types))}){_before_that(types)}"
        + (f"; it is defined for:{candidates}" if candidates else "")
    )


def _before_that(types: Sequence[Type]) -> str:
    """What to do before operands of these types are used."""
    if any(isinstance(t, OptionalType) for t in types):
        return "; check first that it is not None: `assert x is not None`"
    if any(isinstance(t, UnionType) or t is ANY for t in types):
        return "; ask first which type it has: `if isinstance(x, int):`"
    if STR in types and any(t in (INT, FLOAT, BOOL) for t in types):
        return "; convert one of the two: `str(...)`, `int(...)`"
    return ""
